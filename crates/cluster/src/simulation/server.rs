//! One simulated server: its queue, its place in the log, and a cache of some pages.
//!
//! Called by: `simulated_cluster`.
//! A page is its generation; a purge names the page, and has a number of its own, by which the
//! simulation knows what the page was then.
//! Out of scope: what a page's making takes.

use super::engine::{Link, SimulatedEngine};
use crate::{
    clock::Clock,
    follow::Follower,
    options::NodeOptions,
    outbox::{Outbox, QUEUE_BYTES_MAX},
    peers::PeerTable,
    position_file::PositionFile,
    publish::Publisher,
    record::Purges,
    replica::Target,
    shared::Shared,
};
use saker_cache_store::{Outgoing, Purge, TagMark};
use saker_telemetry::Counters;
use saker_testkit::TempDir;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    task::{JoinHandle, spawn_local},
    time::Instant,
};

pub const PAGES: usize = 16;

/// Marks from here on are numbers of purges.
pub const NUMBERS: u64 = 1 << 40;

/// Time for which a server that is cut off uses its cache.
pub const MAX_STALENESS: Duration = Duration::from_secs(5);

/// Content of a server's cache, and what was done to it.
#[derive(Default)]
pub struct Pages {
    pub is_serving: bool,
    /// Generations of pages that are cached.
    pub cached: [Option<u64>; PAGES],
    pub clears: u64,
    /// Numbers of purges of other servers, and when they came.
    pub received: Vec<(u64, Instant)>,
}

#[derive(Default)]
pub struct Cache(pub Mutex<Pages>);

impl Target for Cache {
    fn purge(&self, purges: Vec<Purge>) {
        let mut pages = self.0.lock().unwrap();
        for purge in purges {
            let Purge::Tag {
                mark: TagMark(mark),
                ..
            } = purge
            else {
                continue;
            };
            match mark.checked_sub(NUMBERS) {
                Some(number) => pages.received.push((number, Instant::now())),
                None => pages.cached[mark as usize % PAGES] = None,
            }
        }
    }

    fn clear(&self) {
        let mut pages = self.0.lock().unwrap();
        pages.cached = [None; PAGES];
        pages.clears += 1;
    }

    fn set_serving(&self, serves: bool) {
        self.0.lock().unwrap().is_serving = serves;
    }
}

/// One simulated server.
pub struct Server {
    pub cache: Arc<Cache>,
    pub outbox: Arc<Outbox>,
    pub link: Arc<Mutex<Link>>,
    pub clock: Clock,
    pub shared: Arc<Shared>,
    engine: SimulatedEngine,
    tasks: Vec<JoinHandle<()>>,
    dir: TempDir,
}

impl Server {
    pub fn start(engine: SimulatedEngine, id: u64) -> Server {
        let dir = TempDir::private("cluster-simulated").unwrap();
        Outbox::create_as(&dir, id).unwrap();
        let (outbox, _) = Outbox::open(&dir, QUEUE_BYTES_MAX).unwrap();
        let mut server = Server {
            cache: Arc::default(),
            outbox,
            link: Arc::clone(&engine.link),
            clock: Clock::default(),
            shared: Arc::default(),
            engine,
            tasks: Vec::new(),
            dir,
        };
        server.live(id);
        server
    }

    /// Ends at once, and begins anew with what is on its disk: its queue, its place, and its cache.
    pub fn kill_and_start(&mut self, run: u64) {
        self.tasks.drain(..).for_each(|task| task.abort());
        self.cache.set_serving(false);
        let (outbox, waiting) = Outbox::open(&self.dir, QUEUE_BYTES_MAX).unwrap();
        for record in waiting {
            match record.purges {
                Purges::These(purges) => self.carry_out(purges),
                Purges::Everything => self.cache.clear(),
            }
        }
        (self.outbox, self.shared) = (outbox, Arc::default());
        self.live(run);
    }

    fn live(&mut self, run: u64) {
        let options = NodeOptions {
            folder: self.dir.to_path_buf(),
            name: format!("web-{:x}", self.outbox.origin()),
            version: "0".into(),
            max_staleness: MAX_STALENESS,
            started: self.clock.now(),
            clock: self.clock.clone(),
            peer: None,
        };
        let peers = PeerTable::new(Arc::clone(&self.outbox), self.clock.clone());
        let counters = Arc::<Counters>::default();
        let follower = Arc::new(Follower {
            engine: Arc::new(self.engine.clone()),
            options,
            outbox: Arc::clone(&self.outbox),
            shared: Arc::clone(&self.shared),
            peers: Arc::new(peers),
            target: Arc::clone(&self.cache) as Arc<dyn Target>,
            counters: Arc::clone(&counters),
            run,
            file: PositionFile::default(),
        });
        let publisher = Publisher {
            engine: Arc::new(self.engine.clone()),
            outbox: Arc::clone(&self.outbox),
            shared: Arc::clone(&self.shared),
            counters,
        };
        let watching = Arc::clone(&follower);
        self.tasks = vec![
            spawn_local(async move { follower.run().await }),
            spawn_local(async move { watching.watch_staleness().await }),
            spawn_local(async move { publisher.run().await }),
        ];
    }

    /// A purge that is made here: written down, then in force.
    pub fn purge(&self, purges: Vec<Purge>) {
        self.outbox.note(&purges).unwrap();
        self.carry_out(purges);
    }

    /// Its own purges are nothing that it has received.
    fn carry_out(&self, purges: Vec<Purge>) {
        let is_page = |purge: &Purge| matches!(purge, Purge::Tag { mark: TagMark(mark), .. } if *mark < NUMBERS);
        self.cache
            .purge(purges.into_iter().filter(is_page).collect());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
