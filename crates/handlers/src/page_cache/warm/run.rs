//! A worker's part of a warm-up.
//!
//! Difficulty: to know when to hold back. Requests of visitors that are being answered are one
//! sign, the event loop's being late the other; but what was asked for is done in the end, so now
//! and then a page is made in any case.

use super::{Job, Next, Task, sitemap, url::PageUrl};
use crate::page_cache::errand::{self, Outcome};
use saker_net::jobs::{self, JobKind};
use saker_pipeline::Services;
use saker_telemetry::{Counters, Metric};
use std::{
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

/// With as many requests of visitors under way, a worker does nothing else.
const VISITORS_MAX: u64 = 4;
/// So late is the event loop of a worker that is busy.
const LATE: Duration = Duration::from_millis(25);
const PAUSE: Duration = Duration::from_millis(50);
/// Nobody is held back longer.
const HELD_BACK_MAX: Duration = Duration::from_secs(2);
/// A page that is not made by then is no use to anybody.
const PAGE_TIME_MAX: Duration = Duration::from_secs(120);

/// What a worker has for it.
pub struct Means {
    /// Of the newest generation.
    pub services: Box<dyn Fn() -> Rc<Services>>,
    pub counters: Arc<Counters>,
}

/// Begins this worker's part: so many requests at a time.
pub fn begin(means: Means, job: &Arc<Job>, at_a_time: usize) {
    let means = Rc::new(means);
    for _ in 0..at_a_time {
        tokio::task::spawn_local(work(Rc::clone(&means), Arc::clone(job)));
    }
}

async fn work(means: Rc<Means>, job: Arc<Job>) {
    loop {
        make_way(&means.counters).await;
        match job.next(Instant::now()) {
            Next::Over => return,
            Next::Wait(time) => tokio::time::sleep(time).await,
            Next::Do(Task::Page { url, variation }) => {
                let asking = page(&means, &job, &url, variation);
                let late =
                    |_| Outcome::Failed(format!("no answer within {} s", PAGE_TIME_MAX.as_secs()));
                let outcome = tokio::time::timeout(PAGE_TIME_MAX, asking)
                    .await
                    .unwrap_or_else(late);
                job.done(&url, variation, outcome);
            }
            Next::Do(Task::Sitemap { url, depth }) => {
                let read = read(&means, &job, &url).await;
                job.read(&url, depth, read);
            }
        }
    }
}

/// Waits while there are visitors to serve.
pub async fn make_way(counters: &Counters) {
    let until = Instant::now() + HELD_BACK_MAX;
    // A gauge that others have lowered may be below zero for a moment.
    let visitors = || counters.value(Metric::RequestsOpen) as i64;
    while visitors() >= VISITORS_MAX as i64 && Instant::now() < until {
        tokio::time::sleep(PAUSE).await;
    }
    loop {
        let began = Instant::now();
        tokio::task::yield_now().await;
        if began.elapsed() < LATE || began > until {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn page(means: &Means, job: &Job, url: &PageUrl, variation: usize) -> Outcome {
    let Some(door) = job.door(url) else {
        return Outcome::Failed("no listener of the server has its scheme and port".into());
    };
    let head = errand::head(&url.authority, &url.target, job.variation(variation));
    errand::run(&(means.services)(), Rc::new(door.client()), head).await
}

async fn read(means: &Means, job: &Job, url: &PageUrl) -> Result<Vec<sitemap::Entry>, String> {
    let door = job
        .door(url)
        .ok_or("no listener of the server has its scheme and port")?;
    let head = errand::head(&url.authority, &url.target, &[]);
    let services = (means.services)();
    let fetching = errand::fetch(
        &services,
        Rc::new(door.client()),
        head,
        sitemap::SITEMAP_BYTES_MAX,
    );
    let bytes = tokio::time::timeout(PAGE_TIME_MAX, fetching)
        .await
        .map_err(|_| "no answer in time")??;
    // Large ones take a while to look through.
    jobs::run(JobKind::PageCache, None, move |_| sitemap::entries(&bytes))
        .await
        .map_err(|error| error.to_string())?
}
