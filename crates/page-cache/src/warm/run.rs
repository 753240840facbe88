//! A worker's part of a warm-up job.
//!
//! Called by: the server's workers.
//! Caveat: background requests yield to clients, but each page is fetched in the end.
//! Out of scope: choosing the pages (`job`).

use crate::{
    background_fetch::{self, FetchOutcome},
    pacing::yield_to_clients,
    warm::{
        job::{NextStep, WarmJob, WarmTask},
        sitemap,
        url::PageUrl,
    },
};
use saker_net::jobs::{self, JobKind};
use saker_pipeline::Services;
use saker_telemetry::Counters;
use std::{
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

/// The longest time for one page.
const PAGE_TIME_MAX: Duration = Duration::from_secs(120);

const NO_LISTENER: &str = "no listener has its scheme and port, or it is another site's page";

/// Services provided by a worker.
pub struct WarmContext {
    /// Services of the newest generation.
    pub services: Box<dyn Fn() -> Rc<Services>>,
    pub counters: Arc<Counters>,
}

/// Starts this worker's part with a number of concurrent requests.
pub fn begin(context: WarmContext, job: &Arc<WarmJob>, at_a_time: usize) {
    let context = Rc::new(context);
    for _ in 0..at_a_time {
        tokio::task::spawn_local(work(Rc::clone(&context), Arc::clone(job)));
    }
}

async fn work(context: Rc<WarmContext>, job: Arc<WarmJob>) {
    loop {
        yield_to_clients(&context.counters).await;
        match job.next(Instant::now()) {
            NextStep::Over => return,
            NextStep::Wait(time) => tokio::time::sleep(time).await,
            NextStep::Do(WarmTask::Page { url, variation }) => {
                let asking = page(&context, &job, &url, variation);
                let late = |_| {
                    FetchOutcome::Failed(format!(
                        "no response within {} s",
                        PAGE_TIME_MAX.as_secs()
                    ))
                };
                let outcome = tokio::time::timeout(PAGE_TIME_MAX, asking)
                    .await
                    .unwrap_or_else(late);
                job.done(&url, variation, outcome);
            }
            NextStep::Do(WarmTask::Sitemap { url, depth }) => {
                let read = read(&context, &job, &url).await;
                job.read(&url, depth, read);
            }
        }
    }
}

async fn page(
    context: &WarmContext,
    job: &WarmJob,
    url: &PageUrl,
    variation: usize,
) -> FetchOutcome {
    let Some(endpoint) = job.endpoint(url) else {
        return FetchOutcome::Failed(NO_LISTENER.into());
    };
    let head = background_fetch::head(&url.authority, &url.target, job.variation(variation));
    background_fetch::run(&(context.services)(), Rc::new(endpoint.client()), head).await
}

async fn read(
    context: &WarmContext,
    job: &WarmJob,
    url: &PageUrl,
) -> Result<Vec<sitemap::SitemapEntry>, String> {
    let endpoint = job.endpoint(url).ok_or(NO_LISTENER)?;
    let head = background_fetch::head(&url.authority, &url.target, &[]);
    let services = (context.services)();
    let fetching = background_fetch::fetch(
        &services,
        Rc::new(endpoint.client()),
        head,
        sitemap::SITEMAP_BYTES_MAX,
    );
    let bytes = tokio::time::timeout(PAGE_TIME_MAX, fetching)
        .await
        .map_err(|_| "no response in time")??;
    // Large sitemaps take a while to parse.
    jobs::run(JobKind::PageCache, None, move |_| sitemap::entries(&bytes))
        .await
        .map_err(|error| error.to_string())?
}
