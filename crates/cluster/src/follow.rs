//! Reads the log, and has the purges of other servers in force before entries are used.
//!
//! Called by: `node`, as a task of the cluster's thread.
//! Caveat: each look at the log begins with the record that was read last. If it is not there, or
//! another one is, purges may be missing: the cache is cleared, and reading goes on from the newest
//! record, which is determined before the cache is cleared.
//! Out of scope: the meaning of records (`replica`).

use crate::{
    log::{Engine, Entry, Log, LogError},
    members::{self, Announcement},
    options::NodeOptions,
    outbox::Outbox,
    peers::PeerTable,
    position::Position,
    position_file::PositionFile,
    publish::{PAUSE_MAX, PAUSE_MIN, in_time},
    record::{Purges, Record},
    replica::{Outcome, Replica, Target},
    shared::Shared,
};
use saker_telemetry::{Counters, Metric, error_log, message};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Records read at a time.
const RECORDS_MAX: usize = 64;

/// Interval of announcements, and of looks at the log while nothing comes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Interval of checks whether this server is cut off for too long.
const STALENESS_LOOK: Duration = Duration::from_millis(50);

pub struct Follower<E> {
    pub engine: Arc<E>,
    pub options: NodeOptions,
    pub outbox: Arc<Outbox>,
    pub shared: Arc<Shared>,
    pub peers: Arc<PeerTable>,
    pub target: Arc<dyn Target>,
    pub counters: Arc<Counters>,
    /// Random; tells this process from another one with the same id.
    pub run: u64,
    pub file: PositionFile,
}

/// State between connections.
#[derive(Default)]
pub struct Progress {
    replica: Option<Replica>,
    /// A record is too long to read: reading goes on behind it.
    skips: bool,
    /// The file has an older place.
    is_unwritten: bool,
}

impl<E: Engine> Follower<E> {
    /// Follows the log for as long as the server runs.
    pub async fn run(&self) {
        let mut progress = Progress {
            replica: Position::read(&self.options.folder).map(|position| Replica { position }),
            ..Progress::default()
        };
        if let Some(replica) = &progress.replica {
            self.peers.finish_at(&replica.position);
        }
        let mut pause = PAUSE_MIN;
        let mut was_connected = false;
        loop {
            let error = match in_time(self.engine.connect()).await {
                Ok(mut log) => {
                    pause = PAUSE_MIN;
                    self.connected(std::mem::replace(&mut was_connected, true));
                    match self.converse(&mut log, &mut progress).await {
                        Err(error) => error,
                        Ok(never) => match never {},
                    }
                }
                Err(error) => error,
            };
            progress.skips |= error == LogError::TooLarge;
            self.write_place(&mut progress);
            self.disconnected(&error);
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Suspends the use of entries when this server was cut off for too long.
    pub async fn watch_staleness(&self) {
        loop {
            sleep(STALENESS_LOOK).await;
            let is_over = {
                let facts = self.shared.facts();
                let staleness = facts.staleness(self.options.clock.now());
                facts.is_serving && staleness.is_none_or(|age| age > self.options.max_staleness)
            };
            if is_over {
                self.set_serving(false);
                error_log::log(
                    &message::CLUSTER_STALE,
                    format_args!("max_staleness {:?}", self.options.max_staleness),
                );
            }
        }
    }

    fn connected(&self, again: bool) {
        let mut facts = self.shared.facts();
        let had_failed = facts.error.take().is_some();
        facts.is_connected = true;
        self.peers.set_connected(true);
        if again {
            facts.reconnects += 1;
            self.counters
                .increment_from_any_thread(Metric::ClusterReconnects);
        }
        drop(facts);
        if had_failed {
            error_log::log(
                &message::CLUSTER_BACK,
                format_args!("{}", self.engine.shown()),
            );
        }
    }

    fn disconnected(&self, error: &LogError) {
        let mut facts = self.shared.facts();
        facts.is_connected = false;
        self.peers.set_connected(false);
        let is_first = facts.error.replace(error.to_string()).is_none();
        drop(facts);
        if is_first {
            error_log::log(
                &message::CLUSTER_AWAY,
                format_args!("{}: {error}", self.engine.shown()),
            );
        }
    }

    async fn converse(
        &self,
        log: &mut E::Log,
        progress: &mut Progress,
    ) -> Result<std::convert::Infallible, LogError> {
        let mut announced: Option<Instant> = None;
        loop {
            let asked = self.options.clock.now();
            let is_due =
                announced.is_none_or(|at| asked.saturating_duration_since(at) >= LOOK_EVERY);
            if is_due {
                // Before the log is read: what they say they have sent must be in it.
                self.look_at_members(log, announced.is_some()).await?;
            }
            let has_moved = self.catch_up(log, progress).await?;
            self.write_place(progress);
            if let Some(replica) = &mut progress.replica {
                progress.is_unwritten |= is_due && self.compare(replica);
                self.in_sync(asked, replica);
            }
            if is_due || has_moved {
                in_time(log.announce(&members::key(self.outbox.origin()), &self.announcement()))
                    .await?;
                announced = Some(asked);
            }
            let Some(replica) = &progress.replica else {
                continue;
            };
            let wait_ms = LOOK_EVERY.as_millis() as u64;
            in_time(log.wait_after(replica.position.id, wait_ms)).await?;
        }
    }

    async fn look_at_members(&self, log: &mut E::Log, is_known: bool) -> Result<(), LogError> {
        let states = in_time(log.states()).await?;
        let origin = self.outbox.origin();
        let (forgotten, run) = {
            let mut facts = self.shared.facts();
            let forgotten = facts.members.observe(&states, self.options.clock.now());
            self.peers
                .set_peers(facts.members.peers(origin, self.options.clock.now()));
            (forgotten, facts.members.run_of(origin))
        };
        for id in forgotten {
            in_time(log.forget(&id)).await?;
        }
        if is_known && run.is_some_and(|run| run != self.run) {
            self.take_new_id();
        }
        Ok(())
    }

    /// Another server has a copy of this one's directory: their purges could not be told apart.
    fn take_new_id(&self) {
        error_log::log(
            &message::CLUSTER_SAME_ID,
            format_args!("{}", members::key(self.outbox.origin())),
        );
        self.outbox.take_new_id();
        self.clear("another server had this server's id");
    }

    /// Reads the log to its end. Returns true if there was something.
    async fn catch_up(&self, log: &mut E::Log, progress: &mut Progress) -> Result<bool, LogError> {
        if std::mem::take(&mut progress.skips) {
            self.append_place(log).await?;
            self.jump(log, progress, "a record is too long").await?;
        }
        let mut has_moved = false;
        loop {
            let Some(replica) = &mut progress.replica else {
                self.jump(log, progress, "no earlier place in this log is known")
                    .await?;
                has_moved = true;
                continue;
            };
            let read = log.read_from(replica.position.id, RECORDS_MAX + 1);
            let entries = in_time(read).await?;
            let Some((first, new)) = entries
                .split_first()
                .filter(|(first, _)| replica.position.is(first))
            else {
                let why = "the log no longer has the last record that was read: it was trimmed, \
                           or lost";
                self.jump(log, progress, why).await?;
                has_moved = true;
                continue;
            };
            debug_assert!(first.id == replica.position.id);
            let is_end = new.len() < RECORDS_MAX;
            if !is_end {
                self.set_serving(false);
            }
            if !new.is_empty() {
                has_moved = true;
                progress.is_unwritten = true;
                self.apply(replica, new);
            }
            if is_end {
                return Ok(has_moved);
            }
        }
    }

    fn apply(&self, replica: &mut Replica, new: &[Entry]) {
        let (origin, last_seq) = (self.outbox.origin(), self.outbox.last_seq());
        self.peers.begin(new);
        let outcome = replica.take(new, origin, last_seq);
        let Outcome {
            purges,
            received,
            doubts,
            skipped,
            is_id_taken,
        } = outcome;
        if !purges.is_empty() {
            self.target.purge(purges);
        }
        for why in &skipped {
            error_log::log(&message::CLUSTER_RECORD_SKIPPED, format_args!("{why}"));
        }
        if let Some(why) = doubts.first().or(skipped.first()) {
            self.clear(why);
        }
        if is_id_taken {
            self.take_new_id();
        }
        self.counters
            .add_from_any_thread(Metric::ClusterReceived, received);
        self.shared.facts().received += received;
        self.peers.finish(new, &replica.position.seen);
        self.shared.facts().position = replica.position.id;
    }

    /// Checks that the purges that others have sent have come. Returns true if more is known of
    /// the servers.
    fn compare(&self, replica: &mut Replica) -> bool {
        let origin = self.outbox.origin();
        let sent = self.shared.facts().members.sent();
        let (mut missing, known) = (Vec::new(), replica.position.seen.len());
        for (other, sent) in sent.into_iter().filter(|(other, _)| *other != origin) {
            if let Some(why) = replica.missing(other, sent) {
                self.peers.lose(other, sent);
                missing.push(why);
            }
        }
        if let Some(why) = missing.first() {
            self.clear(why);
        }
        self.peers.finish(&[], &replica.position.seen);
        !missing.is_empty() || replica.position.seen.len() != known
    }

    /// Goes on from the newest record, with an empty cache.
    async fn jump(
        &self,
        log: &mut E::Log,
        progress: &mut Progress,
        why: &str,
    ) -> Result<(), LogError> {
        let newest = match in_time(log.newest()).await? {
            Some(newest) => newest,
            None => {
                self.append_place(log).await?;
                let empty = || LogError::Failed("the log is empty".into());
                in_time(log.newest()).await?.ok_or_else(empty)?
            }
        };
        let position = Position::at(&newest);
        self.peers.begin_at(&position);
        self.clear(why);
        self.peers.finish_at(&position);
        self.shared.facts().position = position.id;
        progress.replica = Some(Replica { position });
        progress.is_unwritten = true;
        Ok(())
    }

    /// Gives an empty log a first record.
    async fn append_place(&self, log: &mut E::Log) -> Result<(), LogError> {
        let record = Record {
            origin: self.outbox.origin(),
            seq: 0,
            purges: Purges::These(Vec::new()),
        };
        in_time(log.append(&[record.encode()])).await.map(drop)
    }

    fn clear(&self, why: &str) {
        self.target.clear();
        let mut facts = self.shared.facts();
        facts.clears += 1;
        facts.last_clear = Some(why.to_owned());
        drop(facts);
        self.counters
            .increment_from_any_thread(Metric::ClusterClears);
        error_log::log(&message::CLUSTER_CLEARED, format_args!("{why}"));
    }

    /// Has the place written down, unless one was a moment ago.
    fn write_place(&self, progress: &mut Progress) {
        if let Some(replica) = progress.replica.as_ref().filter(|_| progress.is_unwritten) {
            let now = self.options.clock.now();
            progress.is_unwritten =
                !self
                    .file
                    .write_in_time(&self.options.folder, &replica.position, now);
        }
    }

    fn in_sync(&self, asked: Instant, replica: &Replica) {
        let mut facts = self.shared.facts();
        facts.synced = Some(asked);
        facts.position = replica.position.id;
        let was_serving = facts.is_serving;
        drop(facts);
        self.peers.looked(asked);
        if !was_serving {
            self.set_serving(true);
            error_log::log(
                &message::CLUSTER_IN_SYNC,
                format_args!("{}", replica.position.id),
            );
        }
    }

    fn set_serving(&self, serves: bool) {
        self.target.set_serving(serves);
        self.peers.set_serving(serves);
        self.shared.facts().is_serving = serves;
    }

    /// Time since this server was started.
    fn age(&self) -> Duration {
        let now = self.options.clock.now();
        now.saturating_duration_since(self.options.started)
    }

    fn announcement(&self) -> String {
        let facts = self.shared.facts();
        Announcement {
            run: self.run,
            name: self.options.name.clone(),
            version: self.options.version.clone(),
            stamp: self.age().as_micros() as u64,
            position: facts.position,
            sent: self.outbox.sent_seq(),
            waiting: self.outbox.waiting().0,
            is_serving: facts.is_serving,
            peer: self.options.peer,
            stale_ms: facts
                .staleness(self.options.clock.now())
                .map(|age| age.as_millis() as u64),
        }
        .to_string()
    }
}
