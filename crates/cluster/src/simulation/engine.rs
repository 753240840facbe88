//! An engine with a log in memory, and the ways to it.
//!
//! Called by: `simulated_cluster`, and by the servers through [`Engine`].
//! The engine does one thing at a time, as Redis does: a command takes 20 µs, and each record or
//! state in its answer another one. A message takes 1 to 3 ms each way.
//! Caveat: timers of the runtime have steps of 1 ms, so turns end up to that much late.
//! Out of scope: the protocol of any engine.

use crate::log::{Engine, Entry, EntryId, Log, LogError};
use saker_testkit::Dice;
use std::{
    collections::{BTreeMap, VecDeque},
    future::pending,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};

const COMMAND_US: u64 = 20;
const RECORD_US: u64 = 1;

/// Records that the log keeps.
const RETENTION: usize = 100_000;

#[derive(Default)]
pub struct Stored {
    records: VecDeque<Entry>,
    states: BTreeMap<String, String>,
    busy_until: Option<Instant>,
    pub is_paused: bool,
    /// Differs after a loss: connections from before are broken.
    pub run: u64,
    next: u64,
    pub commands: u64,
    pub records_read: u64,
    /// Records in the order in which they came, with the time, for judging.
    pub arrived: Vec<(Instant, Vec<u8>)>,
}

impl Stored {
    /// The place of the newest record.
    pub fn last(&self) -> EntryId {
        self.records
            .back()
            .map_or(EntryId::default(), |last| last.id)
    }
}

/// The engine.
pub struct Server {
    stored: Mutex<Stored>,
    changed: watch::Sender<()>,
}

/// One server's way to the engine.
#[derive(Default)]
pub struct Link {
    pub is_cut: bool,
    /// Messages of a thousand that are lost.
    pub lost: u64,
}

#[derive(Clone)]
pub struct SimulatedEngine {
    pub server: Arc<Server>,
    pub link: Arc<Mutex<Link>>,
    pub dice: Arc<Mutex<Dice>>,
}

pub struct SimulatedLog {
    engine: SimulatedEngine,
    run: u64,
}

impl Server {
    pub fn new() -> Arc<Server> {
        Arc::new(Server {
            stored: Mutex::new(Stored {
                next: 1,
                ..Stored::default()
            }),
            changed: watch::channel(()).0,
        })
    }

    pub fn stored(&self) -> MutexGuard<'_, Stored> {
        self.stored.lock().unwrap()
    }

    /// Ends and begins anew, without its data.
    pub fn lose(&self) {
        let mut stored = self.stored();
        stored.records.clear();
        stored.states.clear();
        (stored.run, stored.next) = (stored.run + 1, 1);
        drop(stored);
        self.changed.send_replace(());
    }

    pub fn pause(&self, is_paused: bool) {
        self.stored().is_paused = is_paused;
        self.changed.send_replace(());
    }

    /// Waits for its turn.
    async fn turn(&self, records: usize) {
        let mut changed = self.changed.subscribe();
        while self.stored().is_paused {
            let _ = changed.changed().await;
        }
        let cost = Duration::from_micros(COMMAND_US + RECORD_US * records as u64);
        let until = {
            let mut stored = self.stored();
            let now = Instant::now();
            let begins = stored.busy_until.map_or(now, |until| until.max(now));
            (stored.busy_until, stored.commands) = (Some(begins + cost), stored.commands + 1);
            begins + cost
        };
        sleep_until(until).await;
    }
}

impl SimulatedEngine {
    /// One way of a message, which may be its last.
    async fn trip(&self) {
        let (time, luck) = {
            let mut dice = self.dice.lock().unwrap();
            (1 + dice.below(3), dice.below(1000))
        };
        sleep(Duration::from_millis(time)).await;
        let is_lost = {
            let link = self.link.lock().unwrap();
            link.is_cut || luck < link.lost
        };
        if is_lost {
            pending::<()>().await;
        }
    }
}

impl SimulatedLog {
    /// A command and its answer. `cost`: records in it.
    async fn command<T>(
        &self,
        cost: impl FnOnce(&Stored) -> usize,
        act: impl FnOnce(&mut Stored) -> T,
    ) -> Result<T, LogError> {
        self.engine.trip().await;
        let server = &self.engine.server;
        let records = cost(&server.stored());
        server.turn(records).await;
        let answer = {
            let mut stored = server.stored();
            if stored.run != self.run {
                return Err(LogError::Failed("the connection has ended".into()));
            }
            act(&mut stored)
        };
        self.engine.trip().await;
        Ok(answer)
    }

    fn behind(stored: &Stored, from: EntryId) -> usize {
        stored.records.partition_point(|entry| entry.id < from)
    }
}

impl Engine for SimulatedEngine {
    type Log = SimulatedLog;

    async fn connect(&self) -> Result<SimulatedLog, LogError> {
        self.trip().await;
        self.server.turn(0).await;
        self.trip().await;
        let (engine, run) = (self.clone(), self.server.stored().run);
        Ok(SimulatedLog { engine, run })
    }

    fn shown(&self) -> String {
        "simulated".into()
    }
}

impl Log for SimulatedLog {
    async fn newest(&mut self) -> Result<Option<Entry>, LogError> {
        self.command(|_| 1, |stored| stored.records.back().cloned())
            .await
    }

    async fn read_from(
        &mut self,
        from: EntryId,
        records_max: usize,
    ) -> Result<Vec<Entry>, LogError> {
        let cost = |stored: &Stored| {
            let first = Self::behind(stored, from);
            (stored.records.len() - first).min(records_max)
        };
        let read = |stored: &mut Stored| {
            let first = Self::behind(stored, from);
            let found = stored.records.range(first..).take(records_max);
            let found: Vec<Entry> = found.cloned().collect();
            stored.records_read += found.len() as u64;
            found
        };
        self.command(cost, read).await
    }

    async fn wait_after(&mut self, id: EntryId, wait_ms: u64) -> Result<(), LogError> {
        let mut changed = self.engine.server.changed.subscribe();
        let has_more = |stored: &mut Stored| stored.records.back().is_some_and(|last| last.id > id);
        if self.command(|_| 0, has_more).await? {
            return Ok(());
        }
        let comes = async {
            // The value that was there is known.
            while !has_more(&mut self.engine.server.stored()) {
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = timeout(Duration::from_millis(wait_ms), comes).await;
        self.engine.trip().await;
        Ok(())
    }

    async fn append(&mut self, records: &[Vec<u8>]) -> Result<Option<EntryId>, LogError> {
        let append = |stored: &mut Stored| {
            for record in records {
                let id = EntryId {
                    major: stored.next,
                    minor: 0,
                };
                stored.next += 1;
                let payload = Some(record.clone());
                stored.records.push_back(Entry { id, payload });
                stored.arrived.push((Instant::now(), record.clone()));
            }
            let surplus = stored.records.len().saturating_sub(RETENTION);
            stored.records.drain(..surplus);
            stored.records.back().map(|last| last.id)
        };
        let appended = self.command(|_| records.len(), append).await;
        self.engine.server.changed.send_replace(());
        appended
    }

    async fn announce(&mut self, id: &str, state: &str) -> Result<(), LogError> {
        let (id, state) = (id.to_owned(), state.to_owned());
        self.command(|_| 0, |stored| drop(stored.states.insert(id, state)))
            .await
    }

    async fn states(&mut self) -> Result<Vec<(String, String)>, LogError> {
        let all = |stored: &mut Stored| {
            let pair = |(id, state): (&String, &String)| (id.clone(), state.clone());
            stored.states.iter().map(pair).collect()
        };
        self.command(|stored| stored.states.len(), all).await
    }

    async fn forget(&mut self, id: &str) -> Result<(), LogError> {
        self.command(|_| 0, |stored| drop(stored.states.remove(id)))
            .await
    }
}
