//! This server in its cluster: a thread with the tasks that follow the log and send purges.
//!
//! Called by: the server process, with its page cache.
//! Caveat: entries are not used before [`Node::start`] has caught up; the caller suspends them when
//! it opens the store. Workers never wait for the thread.
//! Out of scope: configuration.

use crate::{
    clock::Clock,
    follow::Follower,
    log::{Engine, EntryId, Log},
    members::{self, MemberReport, MemberState},
    options::NodeOptions,
    outbox::{Outbox, QUEUE_BYTES_MAX},
    own_thread::{OwnThread, Stopped},
    peers::PeerTable,
    position_file::PositionFile,
    publish::{Publisher, in_time},
    record::{Purges, Record},
    replica::Target,
    shared::{Report, Shared},
};
use saker_cache_store::{Outgoing, Purge};
use saker_telemetry::Counters;
use std::{
    io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

/// Interval of looks while a purge waits for acknowledgments.
const ACKNOWLEDGED_LOOK: Duration = Duration::from_millis(20);

/// Time for sending what waits when the server stops.
const LAST_SEND: Duration = Duration::from_millis(500);

/// The outcome of waiting for a purge to be in force on all servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// The log has the purge.
    pub is_sent: bool,
    /// Names of servers on which it is in force, without this one.
    pub by: Vec<String>,
    /// Names of servers that live and have not acknowledged it in time.
    pub missing: Vec<String>,
}

struct Wait {
    seq: u64,
    until: Instant,
    answer: oneshot::Sender<Acknowledged>,
}

/// This server in its cluster.
pub struct Node {
    options: NodeOptions,
    engine: String,
    outbox: Arc<Outbox>,
    shared: Arc<Shared>,
    peers: Arc<PeerTable>,
    waits: mpsc::UnboundedSender<Wait>,
    thread: OwnThread,
}

impl Node {
    /// Starts the thread.
    ///
    /// # Errors
    /// There is no thread left.
    pub fn start<E: Engine>(
        queue: &NodeQueue,
        mut options: NodeOptions,
        engine: E,
        target: Arc<dyn Target>,
        counters: Arc<Counters>,
    ) -> io::Result<Node> {
        let outbox = Arc::clone(&queue.0);
        if !members::is_name(&options.name) {
            options.name = members::key(outbox.origin());
        }
        let shared = Arc::<Shared>::default();
        let peers = Arc::new(PeerTable::new(Arc::clone(&outbox), options.clock.clone()));
        let (shown, engine) = (engine.shown(), Arc::new(engine));
        let (waits, inbox) = mpsc::unbounded_channel();
        let follower = Follower {
            engine: Arc::clone(&engine),
            options: options.clone(),
            outbox: Arc::clone(&outbox),
            shared: Arc::clone(&shared),
            peers: Arc::clone(&peers),
            target,
            counters: Arc::clone(&counters),
            run: outbox.random_run()?,
            file: PositionFile::default(),
        };
        let publisher = Publisher {
            engine: Arc::clone(&engine),
            outbox: Arc::clone(&outbox),
            shared: Arc::clone(&shared),
            counters,
        };
        let work = move |stopped| live(follower, publisher, inbox, stopped);
        let thread = OwnThread::start("cluster", work)?;
        Ok(Node {
            options,
            engine: shown,
            outbox,
            shared,
            peers,
            waits,
            thread,
        })
    }

    /// Sends what waits, if the engine answers at once, and ends the thread.
    pub fn stop(&self) {
        self.thread.stop();
    }

    /// The servers that hand each other pages.
    pub fn peers(&self) -> Arc<PeerTable> {
        Arc::clone(&self.peers)
    }

    /// Number of the last purge made here.
    pub fn last_seq(&self) -> u64 {
        self.outbox.last_seq()
    }

    /// Waits until a purge is in force on all servers that live, or the time is over.
    pub async fn wait_for(&self, seq: u64, time: Duration) -> Acknowledged {
        let (answer, answered) = oneshot::channel();
        let until = self.options.clock.now() + time;
        let _ = self.waits.send(Wait { seq, until, answer });
        // The thread has ended: nothing more is sent.
        answered.await.unwrap_or_default()
    }

    pub fn report(&self) -> Report {
        let (waiting, waiting_bytes) = self.outbox.waiting();
        let now = self.options.clock.now();
        let facts = self.shared.facts();
        let staleness = facts.staleness(now);
        Report {
            id: self.outbox.origin(),
            name: self.options.name.clone(),
            engine: self.engine.clone(),
            is_connected: facts.is_connected,
            error: facts.error.clone(),
            reconnects: facts.reconnects,
            is_in_sync: facts.is_serving
                && staleness.is_some_and(|age| age <= self.options.max_staleness),
            staleness_ms: staleness.map(|age| age.as_millis() as u64),
            position: facts.position,
            sent_seq: self.outbox.sent_seq(),
            received: facts.received,
            clears: facts.clears,
            last_clear: facts.last_clear.clone(),
            waiting,
            waiting_bytes,
            members: facts.members.reports(now),
        }
    }
}

/// The queue of purges of a directory that is open.
pub struct NodeQueue(Arc<Outbox>);

impl NodeQueue {
    /// Opens the queue of purges in the page cache's directory. Also returns the purges that wait
    /// in it, which may not be in force here; `None` stands for everything.
    ///
    /// # Errors
    /// The queue cannot be opened. Purges could be lost, so the page cache must not be used.
    pub fn open(folder: &Path) -> io::Result<(NodeQueue, Vec<Option<Vec<Purge>>>)> {
        let (outbox, waiting) = Outbox::open(folder, QUEUE_BYTES_MAX)?;
        let waiting = waiting
            .into_iter()
            .map(|Record { purges, .. }| match purges {
                Purges::These(purges) => Some(purges),
                Purges::Everything => None,
            });
        Ok((NodeQueue(outbox), waiting.collect()))
    }

    /// Random id of this server, which stays with the directory.
    pub fn id(&self) -> u64 {
        self.0.origin()
    }

    /// The queue, for the store.
    pub fn outgoing(&self) -> Arc<dyn Outgoing> {
        Arc::clone(&self.0) as Arc<dyn Outgoing>
    }
}

async fn live<E: Engine>(
    follower: Follower<E>,
    publisher: Publisher<E>,
    waits: mpsc::UnboundedReceiver<Wait>,
    stopped: Stopped,
) {
    tokio::select! {
        // The sender is dropped with the node.
        _ = stopped => {}
        () = follower.run() => {}
        () = follower.watch_staleness() => {}
        () = publisher.run() => {}
        () = acknowledge(waits, &follower) => {}
    }
    follower.file.finish().await;
    if follower.shared.facts().is_connected {
        let _ = timeout(LAST_SEND, say_goodbye(&publisher)).await;
    }
}

async fn say_goodbye<E: Engine>(publisher: &Publisher<E>) -> Option<()> {
    let mut log = Some(publisher.engine.connect().await.ok()?);
    publisher.send_waiting(&mut log).await.ok()?;
    log?.forget(&members::key(publisher.outbox.origin()))
        .await
        .ok()
}

/// Answers requests that wait for acknowledgments.
async fn acknowledge<E: Engine>(mut waits: mpsc::UnboundedReceiver<Wait>, follower: &Follower<E>) {
    while let Some(wait) = waits.recv().await {
        let (engine, shared) = (Arc::clone(&follower.engine), Arc::clone(&follower.shared));
        let (own, clock) = (follower.outbox.origin(), follower.options.clock.clone());
        tokio::task::spawn_local(async move {
            let state = (&*shared, &clock);
            let outcome = acknowledged(&*engine, state, own, wait.seq, wait.until).await;
            // It may have ended before.
            let _ = wait.answer.send(outcome);
        });
    }
    std::future::pending().await
}

async fn acknowledged<E: Engine>(
    engine: &E,
    (shared, clock): (&Shared, &Clock),
    own: u64,
    seq: u64,
    until: Instant,
) -> Acknowledged {
    let mut outcome = Acknowledged::default();
    let mut log = None;
    loop {
        let (sent, place) = shared.facts().sent;
        outcome.is_sent = sent >= seq;
        let states = match (&mut log, outcome.is_sent) {
            (Some(log), true) => in_time(E::Log::states(log)).await.ok(),
            (None, true) => {
                log = in_time(engine.connect()).await.ok();
                None
            }
            (_, false) => None,
        };
        let reports = {
            let mut facts = shared.facts();
            if let Some(states) = &states {
                facts.members.observe(states, clock.now());
            }
            facts.members.reports(clock.now())
        };
        (outcome.by, outcome.missing) = sorted(&reports, own, place, outcome.is_sent);
        if states.is_some() && outcome.missing.is_empty() || clock.now() >= until {
            return outcome;
        }
        if states.is_none() && outcome.is_sent && log.is_some() {
            continue;
        }
        sleep(ACKNOWLEDGED_LOOK).await;
    }
}

/// The servers on which a purge is in force, and those on which it may not be.
fn sorted(
    reports: &[MemberReport],
    own: u64,
    place: EntryId,
    is_sent: bool,
) -> (Vec<String>, Vec<String>) {
    let (mut by, mut missing) = (Vec::new(), Vec::new());
    let others = reports
        .iter()
        .filter(|member| member.id != own && member.state != MemberState::Gone);
    for member in others {
        match is_sent && member.position >= place {
            true => by.push(member.name.clone()),
            false => missing.push(member.name.clone()),
        }
    }
    (by, missing)
}
