//! Sends what is decided about clients here, and takes over what the other servers decide.
//!
//! Called by: `node`, as two tasks of one thread.
//! Caveat: a change is written to the table and to the feed, which are not one step. A server that
//! reads an older change of a block than it knows writes its own once more, and all compare the
//! table once a minute, so that both end with the newest. Charges that could not be sent are
//! forgotten: they are of the past when the engine answers again.
//! Out of scope: the order of changes (`ban_table`).

use super::{
    ban_record::{BanChange, BanRecord},
    ban_table::{BanTable, Merged},
    feeds::{Feed, Feeds, FeedsEngine, Places},
};
use crate::{
    log::{Entry, LogError},
    publish::{PAUSE_MAX, PAUSE_MIN, in_time},
    secret::Signer,
};
use saker_ipset::{Ban, BanObserver, Block};
use saker_telemetry::{Counters, Metric, error_log, message};
use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

/// Interval at which charges are sent.
const CHARGES_EVERY: Duration = Duration::from_millis(100);

/// Interval at which the table is compared.
const COMPARE_EVERY: Duration = Duration::from_secs(60);

/// Time that a connection waits for records.
const WAIT_MS: u64 = 1000;

/// Parts of the table that are read, so that an endless one comes to an end.
const TABLE_PARTS_MAX: usize = 4096;

/// Servers whose last numbers are remembered.
const SERVERS_MAX: usize = 4096;

const NS_PER_MS: u64 = 1_000_000;

/// The tables of clients of this server.
pub trait ClientTarget: Send + Sync + 'static {
    /// Bans in force.
    fn bans(&self) -> Vec<Ban>;

    /// Puts a ban of another server in force.
    fn ban(&self, ban: Ban);

    /// Ends a ban that was lifted on another server.
    fn unban(&self, block: Block);

    /// Takes the charges that were made here and not sent.
    fn take_charges(&self) -> Option<Vec<u8>>;

    /// Charges what another server has charged, `age_ns` ago.
    fn receive_charges(&self, batch: &[u8], age_ns: u64);

    /// Forgets charges that were not sent.
    fn forget_charges(&self);
}

/// Bans that changed here, for the thread.
#[derive(Default)]
pub struct Changes {
    blocks: Mutex<HashMap<Block, Option<Ban>>>,
    filled: Notify,
}

impl BanObserver for Changes {
    fn changed(&self, block: Block, ban: Option<&Ban>) {
        self.blocks().insert(block, ban.cloned());
        self.filled.notify_one();
    }
}

impl Changes {
    fn blocks(&self) -> MutexGuard<'_, HashMap<Block, Option<Ban>>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State of the exchange, for status and metrics.
#[derive(Debug, Default)]
pub struct ClientFacts {
    pub is_connected: bool,
    pub error: Option<String>,
    /// The table was compared, and nothing has failed since.
    pub is_in_sync: bool,
    /// Bans that the engine does not have.
    pub waiting: u64,
}

/// Rows that are known, and those that the others have to be told.
#[derive(Default)]
struct Bans {
    table: BanTable,
    unsent: BTreeSet<Block>,
}

pub struct Exchange<E> {
    pub engine: Arc<E>,
    pub target: Arc<dyn ClientTarget>,
    pub changes: Arc<Changes>,
    pub facts: Arc<Mutex<ClientFacts>>,
    pub counters: Arc<Counters>,
    pub bans_signer: Signer,
    pub charges_signer: Signer,
    pub shares_bans: bool,
    pub shares_charges: bool,
    /// Random; tells records of this process from others.
    pub run: u64,
    bans: RefCell<Bans>,
}

/// Parts of an [`Exchange`].
pub struct ExchangeParts<E> {
    pub engine: Arc<E>,
    pub target: Arc<dyn ClientTarget>,
    pub changes: Arc<Changes>,
    pub facts: Arc<Mutex<ClientFacts>>,
    pub counters: Arc<Counters>,
    pub signers: [Signer; 2],
    pub shares_bans: bool,
    pub shares_charges: bool,
    pub run: u64,
}

/// Knowledge of one connection about the feeds.
struct Reading {
    places: Places,
    /// Last number of charges by server, so that none is taken twice.
    numbers: HashMap<u64, u64>,
    has_complained: bool,
}

impl<E: FeedsEngine> Exchange<E> {
    pub fn new(parts: ExchangeParts<E>) -> Exchange<E> {
        let [bans_signer, charges_signer] = parts.signers;
        Exchange {
            engine: parts.engine,
            bans: RefCell::new(Bans {
                table: BanTable::new(parts.target.bans()),
                unsent: BTreeSet::new(),
            }),
            target: parts.target,
            changes: parts.changes,
            facts: parts.facts,
            counters: parts.counters,
            bans_signer,
            charges_signer,
            shares_bans: parts.shares_bans,
            shares_charges: parts.shares_charges,
            run: parts.run,
        }
    }

    /// Takes over what the others decide, for as long as the server runs.
    pub async fn receive(&self) {
        let mut pause = PAUSE_MIN;
        let mut reading = Reading {
            places: Places::default(),
            numbers: HashMap::new(),
            has_complained: false,
        };
        loop {
            let failure = match in_time(self.engine.connect_feeds()).await {
                Ok(mut feeds) => {
                    pause = PAUSE_MIN;
                    self.follow(&mut feeds, &mut reading).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = failure {
                self.disconnected(&error);
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Sends what is decided here, for as long as the server runs.
    pub async fn send(&self) {
        let (mut feeds, mut pause, mut number) = (None, PAUSE_MIN, 0_u64);
        loop {
            match self.send_waiting(&mut feeds, &mut number).await {
                Ok(()) => {
                    pause = PAUSE_MIN;
                    let every = match self.shares_charges {
                        true => CHARGES_EVERY,
                        false => COMPARE_EVERY,
                    };
                    let _ = timeout(every, self.changes.filled.notified()).await;
                }
                Err(_) => {
                    // The receiver, which is never idle, reports that the engine is unreachable.
                    feeds = None;
                    self.target.forget_charges();
                    self.note_changes();
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    async fn send_waiting(
        &self,
        feeds: &mut Option<E::Feeds>,
        number: &mut u64,
    ) -> Result<(), LogError> {
        self.note_changes();
        while let Some(record) = self.next_unsent() {
            let feeds = self.connection(feeds).await?;
            let signed = self.signed(&self.bans_signer, 0, &record.encode());
            in_time(feeds.keep_ban(&record.block.to_string(), &signed)).await?;
            in_time(feeds.send(Feed::Bans, &signed)).await?;
            self.counters
                .increment_from_any_thread(Metric::ClusterBansSent);
            self.sent(&record);
        }
        while let Some(batch) = self
            .shares_charges
            .then(|| self.target.take_charges())
            .flatten()
        {
            let feeds = self.connection(feeds).await?;
            *number += 1;
            let signed = self.signed(&self.charges_signer, *number, &batch);
            in_time(feeds.send(Feed::Charges, &signed)).await?;
            self.counters
                .increment_from_any_thread(Metric::ClusterChargesSent);
        }
        Ok(())
    }

    async fn connection<'f>(
        &self,
        feeds: &'f mut Option<E::Feeds>,
    ) -> Result<&'f mut E::Feeds, LogError> {
        match feeds {
            Some(feeds) => Ok(feeds),
            None => Ok(feeds.insert(in_time(self.engine.connect_feeds()).await?)),
        }
    }

    /// Takes the changes made here into the table.
    fn note_changes(&self) {
        let changes = std::mem::take(&mut *self.changes.blocks());
        let mut bans = self.bans.borrow_mut();
        for (block, ban) in changes {
            bans.table.change(block, ban, now_ms());
            bans.unsent.insert(block);
        }
        self.facts().waiting = bans.unsent.len() as u64;
    }

    fn next_unsent(&self) -> Option<BanRecord> {
        let mut bans = self.bans.borrow_mut();
        loop {
            let block = *bans.unsent.first()?;
            match bans.table.get(&block).cloned() {
                Some(record) => return Some(record),
                None => bans.unsent.remove(&block),
            };
        }
    }

    fn sent(&self, record: &BanRecord) {
        let mut bans = self.bans.borrow_mut();
        if bans.table.get(&record.block) == Some(record) {
            bans.unsent.remove(&record.block);
        }
        self.facts().waiting = bans.unsent.len() as u64;
    }

    fn signed(&self, signer: &Signer, number: u64, text: &[u8]) -> Vec<u8> {
        let head = [self.run.to_le_bytes(), number.to_le_bytes()].concat();
        signer.sign(&[&head, text].concat())
    }

    async fn follow(&self, feeds: &mut E::Feeds, reading: &mut Reading) -> Result<(), LogError> {
        reading.places = in_time(feeds.ends()).await?;
        let mut compared: Option<Instant> = None;
        loop {
            if compared.is_none_or(|at| at.elapsed() >= COMPARE_EVERY) {
                if self.shares_bans {
                    self.compare(feeds, reading).await?;
                }
                compared = Some(Instant::now());
                self.connected();
            }
            let [bans, charges] = in_time(feeds.receive(reading.places, WAIT_MS)).await?;
            if self.shares_bans {
                bans.iter().for_each(|entry| self.take_ban(entry, reading));
            }
            if self.shares_charges {
                let newest = charges.last().map_or(0, |entry| entry.id.major);
                for entry in &charges {
                    let age_ms = newest.saturating_sub(entry.id.major);
                    self.take_charges(entry, age_ms.saturating_mul(NS_PER_MS), reading);
                }
            }
            for (place, read) in reading.places.iter_mut().zip([&bans, &charges]) {
                *place = read.last().map_or(*place, |entry| entry.id);
            }
        }
    }

    fn take_ban(&self, entry: &Entry, reading: &mut Reading) {
        let Some((_, _, text)) = self.verified(&self.bans_signer, entry, reading) else {
            return;
        };
        if let Some(record) = BanRecord::decode(text, now_ms()) {
            self.merge(record);
        }
    }

    fn merge(&self, record: BanRecord) {
        let merged = self.bans.borrow_mut().table.merge(record.clone());
        match merged {
            Merged::News => {
                self.counters
                    .increment_from_any_thread(Metric::ClusterBansReceived);
                match record.change {
                    BanChange::Banned(ban) => self.target.ban(ban),
                    BanChange::Lifted { .. } => self.target.unban(record.block),
                }
            }
            Merged::Known => {}
            Merged::Outdated(known) => {
                self.bans.borrow_mut().unsent.insert(known.block);
                self.changes.filled.notify_one();
            }
        }
    }

    fn take_charges(&self, entry: &Entry, age_ns: u64, reading: &mut Reading) {
        let Some((run, number, batch)) = self.verified(&self.charges_signer, entry, reading) else {
            return;
        };
        if run == self.run
            || reading
                .numbers
                .get(&run)
                .is_some_and(|last| *last >= number)
        {
            return;
        }
        if reading.numbers.len() >= SERVERS_MAX {
            reading.numbers.clear();
        }
        reading.numbers.insert(run, number);
        self.counters
            .increment_from_any_thread(Metric::ClusterChargesReceived);
        self.target.receive_charges(batch, age_ns);
    }

    /// The server, the number, and the text of a record that a server of this cluster has signed.
    fn verified<'e>(
        &self,
        signer: &Signer,
        entry: &'e Entry,
        reading: &mut Reading,
    ) -> Option<(u64, u64, &'e [u8])> {
        let text = entry
            .payload
            .as_deref()
            .and_then(|signed| signer.verify(signed));
        let parts = text.and_then(|text| {
            let (run, rest) = text.split_first_chunk()?;
            let (number, rest) = rest.split_first_chunk()?;
            Some((u64::from_le_bytes(*run), u64::from_le_bytes(*number), rest))
        });
        if parts.is_none() && !std::mem::replace(&mut reading.has_complained, true) {
            error_log::log(&message::CLUSTER_UNSIGNED, format_args!("{}", entry.id));
        }
        parts
    }

    /// Compares the table of the engine with what is known here; the newer change wins.
    async fn compare(&self, feeds: &mut E::Feeds, reading: &mut Reading) -> Result<(), LogError> {
        self.bans.borrow_mut().table.sweep(now_ms());
        let mut rows: HashMap<Block, BanRecord> = HashMap::new();
        let mut cursor = 0;
        for _ in 0..TABLE_PARTS_MAX {
            let (next, part) = in_time(feeds.bans(cursor)).await?;
            for (name, payload) in part {
                let entry = Entry {
                    id: Default::default(),
                    payload: Some(payload),
                };
                let Some((_, _, text)) = self.verified(&self.bans_signer, &entry, reading) else {
                    continue;
                };
                match BanRecord::decode(text, now_ms()) {
                    Some(record) if record.block.to_string() != name => {}
                    Some(record) if record.is_over(now_ms()) => {
                        in_time(feeds.forget_ban(&name)).await?;
                    }
                    Some(record) => drop(rows.insert(record.block, record)),
                    None => {}
                }
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        let missing: Vec<BanRecord> = {
            let bans = self.bans.borrow();
            let is_newer = |known: &&BanRecord| {
                rows.get(&known.block)
                    .is_none_or(|row| known.is_newer_than(row))
            };
            bans.table.rows().filter(is_newer).cloned().collect()
        };
        rows.into_values().for_each(|record| self.merge_row(record));
        for record in missing {
            let signed = self.signed(&self.bans_signer, 0, &record.encode());
            in_time(feeds.keep_ban(&record.block.to_string(), &signed)).await?;
        }
        Ok(())
    }

    /// An older row has been written anew.
    fn merge_row(&self, record: BanRecord) {
        let is_outdated = {
            let bans = self.bans.borrow();
            let known = bans.table.get(&record.block);
            known.is_some_and(|known| known.is_newer_than(&record))
        };
        if !is_outdated {
            self.merge(record);
        }
    }

    fn connected(&self) {
        let mut facts = self.facts();
        (facts.is_connected, facts.is_in_sync) = (true, true);
        let had_failed = facts.error.take().is_some();
        drop(facts);
        if had_failed {
            error_log::log(
                &message::CLUSTER_CLIENTS_BACK,
                format_args!("{}", self.engine.shown()),
            );
        }
    }

    fn disconnected(&self, error: &LogError) {
        let mut facts = self.facts();
        (facts.is_connected, facts.is_in_sync) = (false, false);
        let is_first = facts.error.replace(error.to_string()).is_none();
        drop(facts);
        if is_first {
            error_log::log(
                &message::CLUSTER_CLIENTS_AWAY,
                format_args!("{}: {error}", self.engine.shown()),
            );
        }
    }

    fn facts(&self) -> MutexGuard<'_, ClientFacts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as u64)
}
