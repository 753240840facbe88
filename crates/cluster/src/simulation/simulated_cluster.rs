//! The servers and their engine, what happens to them, and the judgment of what they serve.
//!
//! Called by: the tests of `simulation`.
//! A page that a server uses may be older than a purge only while that purge is not in the log, or
//! has been there for less than `max_staleness` and the time that the servers take to notice.
//! Out of scope: the code under test.

use super::{
    PURGES_OF_RECORD,
    engine::{self, SimulatedEngine},
    server::{MAX_STALENESS, NUMBERS, PAGES, Server},
};
use crate::record::{Purges, Record};
use saker_cache_store::{Purge, TagMark};
use saker_testkit::Dice;
use std::{
    cell::Cell,
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// The look at staleness comes 20 times a second.
const NOTICED_WITHIN: Duration = Duration::from_millis(60);

/// Time after which all servers have to have everything again.
const CONVERGED_WITHIN: Duration = Duration::from_secs(60);

/// A purge: the page and the generation since which it is new.
struct Made {
    page: usize,
    generation: u64,
    at: Instant,
}

pub struct SimulatedCluster {
    pub dice: Dice,
    pub told: Vec<String>,
    engine: Arc<engine::Server>,
    servers: Vec<Server>,
    generations: [u64; PAGES],
    made: Vec<Made>,
    /// Purges in the log, as far as they have been taken into account, and what they demand of all.
    judged: usize,
    demanded: [Vec<(Instant, u64)>; PAGES],
    looks: Cell<u64>,
    began: Instant,
    lags: Lags,
}

/// Times from purges to their being in force on other servers, by their number in steps: what is
/// noted does not grow with the purges.
#[derive(Default)]
struct Lags(BTreeMap<u64, u64>);

const LAG_STEP_US: u64 = 100;

impl Lags {
    fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// The end of the step with so many thousandths of all.
    fn at(&self, share: u64) -> u64 {
        let mut left = (self.count() * share / 1000).max(1);
        for (step, count) in &self.0 {
            if *count >= left {
                return (step + 1) * LAG_STEP_US;
            }
            left -= count;
        }
        0
    }
}

/// Figures of a run.
#[derive(Default)]
pub struct Figures {
    pub deliveries: u64,
    seconds: f64,
    commands: u64,
    records_read: u64,
    /// From the purge to its being in force on another server, in microseconds: median, 99 %, all.
    lag_us: [u64; 3],
    bytes_per_server: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.lag_us.map(|us| us as f64 / 1000.0);
        write!(
            f,
            "{} deliveries of records in {:.1} s; {} commands and {} records read from the engine; \
             lag {:.1} ms (median), {:.1} ms (99 %), {:.1} ms (longest); {} KiB per server",
            self.deliveries,
            self.seconds,
            self.commands,
            self.records_read,
            ms[0],
            ms[1],
            ms[2],
            self.bytes_per_server >> 10
        )
    }
}

impl SimulatedCluster {
    /// Servers that are in sync.
    pub async fn start(count: usize, seed: u64) -> SimulatedCluster {
        let mut dice = Dice::new(seed);
        let engine = engine::Server::new();
        let servers = (0..count).map(|_| {
            let way = SimulatedEngine {
                server: Arc::clone(&engine),
                link: Arc::default(),
                dice: Arc::new(Mutex::new(Dice::new(dice.roll()))),
            };
            Server::start(way, dice.roll())
        });
        let servers = servers.collect();
        let cluster = SimulatedCluster {
            dice,
            told: Vec::new(),
            engine,
            servers,
            generations: [0; PAGES],
            made: Vec::new(),
            judged: 0,
            demanded: Default::default(),
            looks: Cell::default(),
            began: Instant::now(),
            lags: Lags::default(),
        };
        cluster.wait_until_all_serve().await;
        cluster
    }

    async fn wait_until_all_serve(&self) {
        let limit = Instant::now() + CONVERGED_WITHIN;
        let serves = |server: &Server| server.cache.0.lock().unwrap().is_serving;
        while !self.servers.iter().all(serves) {
            assert!(Instant::now() < limit, "{}", self.told.join("\n"));
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Changes a page, and purges it at a server.
    pub fn purge(&mut self, at: usize) {
        let page = self.dice.below(PAGES as u64) as usize;
        self.generations[page] += 1;
        let tag = |mark| Purge::Tag {
            mark: TagMark(mark),
            is_soft: false,
        };
        let mut purges = vec![tag(NUMBERS + self.made.len() as u64)];
        purges.resize(PURGES_OF_RECORD as usize, tag(page as u64));
        self.made.push(Made {
            page,
            generation: self.generations[page],
            at: Instant::now(),
        });
        self.servers[at].purge(purges);
    }

    /// Something fails.
    pub async fn event(&mut self, what: u64) {
        let at = self.dice.below(self.servers.len() as u64) as usize;
        let told = match what {
            0 => {
                self.servers[at].link.lock().unwrap().is_cut = true;
                format!("{at} is cut off")
            }
            1 => {
                self.servers[at].link.lock().unwrap().lost = 200;
                format!("{at} loses messages")
            }
            2 => {
                let time = self.dice.below(12_000);
                self.engine.pause(true);
                sleep(Duration::from_millis(time)).await;
                self.look();
                self.engine.pause(false);
                format!("the engine was paused for {time} ms")
            }
            3 => {
                self.engine.lose();
                "the engine has lost its data".into()
            }
            4 => {
                let run = self.dice.roll();
                self.servers[at].kill_and_start(run);
                format!("{at} was killed")
            }
            5 => {
                let ms = self.dice.below(3_600_000);
                self.servers[at].clock.jump(ms);
                format!("the clock of {at} jumped by {ms} ms")
            }
            6 => {
                sleep(MAX_STALENESS).await;
                "time passes".into()
            }
            _ => {
                self.heal();
                "all are connected".into()
            }
        };
        let after = self.began.elapsed().as_micros();
        self.told.push(format!("{after} µs: {told}"));
    }

    pub fn heal(&mut self) {
        for server in &self.servers {
            *server.link.lock().unwrap() = engine::Link::default();
        }
    }

    /// Takes into account what has come to the log.
    fn judge(&mut self) {
        let stored = self.engine.stored();
        for (at, record) in &stored.arrived[self.judged..] {
            let Ok(Record {
                purges: Purges::These(purges),
                ..
            }) = Record::decode(record)
            else {
                continue;
            };
            let number = purges.first().and_then(|purge| match purge {
                Purge::Tag { mark, .. } => mark.0.checked_sub(NUMBERS),
                _ => None,
            });
            if let Some(made) = number.and_then(|number| self.made.get(number as usize)) {
                self.demanded[made.page].push((*at, made.generation));
            }
        }
        self.judged = stored.arrived.len();
    }

    /// Uses every page of every server that uses its cache.
    #[track_caller]
    pub fn look(&mut self) {
        self.judge();
        let age = MAX_STALENESS + NOTICED_WITHIN;
        for (number, server) in self.servers.iter().enumerate() {
            let mut pages = server.cache.0.lock().unwrap();
            if !pages.is_serving {
                continue;
            }
            for page in 0..PAGES {
                let Some(cached) = pages.cached[page] else {
                    pages.cached[page] = Some(self.generations[page]);
                    continue;
                };
                self.looks.set(self.looks.get() + 1);
                let old = self.demanded[page]
                    .iter()
                    .filter(|(at, _)| at.elapsed() > age);
                let demanded = old.map(|(_, generation)| *generation).max().unwrap_or(0);
                assert!(
                    cached >= demanded,
                    "{number} serves generation {cached} of page {page}, and {demanded} is in the \
                     log for longer than {age:?}\n{}",
                    self.told.join("\n")
                );
            }
        }
    }

    /// Waits until each server has no page from before its last purge, and nothing waits.
    pub async fn wait_until_all_have_all(&mut self) {
        let limit = Instant::now() + CONVERGED_WITHIN;
        let (engine, generations) = (Arc::clone(&self.engine), self.generations);
        let has_all = |server: &Server| {
            let last = engine.stored().last();
            let pages = server.cache.0.lock().unwrap();
            let is_new = |page: usize| pages.cached[page].is_none_or(|it| it == generations[page]);
            server.outbox.waiting().0 == 0
                && server.shared.facts().position == last
                && pages.is_serving
                && (0..PAGES).all(is_new)
        };
        while !self.servers.iter().all(has_all) {
            assert!(Instant::now() < limit, "{}", self.told.join("\n"));
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Pages that were found in a cache and used.
    pub fn looks(&self) -> u64 {
        self.looks.get()
    }

    /// Times that a cache was cleared.
    pub fn clears(&self) -> u64 {
        let of = |server: &Server| server.cache.0.lock().unwrap().clears;
        self.servers.iter().map(of).sum()
    }

    /// Memory of this process.
    pub fn resident_bytes(&self) -> u64 {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages = text.split(' ').nth(1).unwrap();
        pages.parse::<u64>().unwrap() * 4096
    }

    /// Counts what the servers have received since the last time.
    pub fn collect(&mut self) {
        for server in &self.servers {
            let received = std::mem::take(&mut server.cache.0.lock().unwrap().received);
            for (number, at) in received {
                let lag = at.duration_since(self.made[number as usize].at).as_micros() as u64;
                *self.lags.0.entry(lag / LAG_STEP_US).or_default() += 1;
            }
        }
    }

    /// `before`: the memory when nothing had been purged.
    pub fn report(&mut self, before: u64) -> Figures {
        self.collect();
        let stored = self.engine.stored();
        // What the simulation notes for its figures is not the servers'.
        let record =
            |(_, record): &(Instant, Vec<u8>)| record.len() + size_of::<(Instant, Vec<u8>)>();
        let noted =
            stored.arrived.iter().map(record).sum::<usize>() + self.made.len() * size_of::<Made>();
        let grown = self.resident_bytes().saturating_sub(before + noted as u64);
        Figures {
            deliveries: self.lags.count(),
            seconds: self.began.elapsed().as_secs_f64(),
            commands: stored.commands,
            records_read: stored.records_read,
            lag_us: [500, 990, 1000].map(|share| self.lags.at(share)),
            bytes_per_server: grown / self.servers.len() as u64,
        }
    }
}
