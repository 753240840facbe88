//! A warm-up job: its tasks, its progress and its results.
//!
//! Called by: the main thread, which creates jobs and reads reports, and workers (`run`), which
//! take tasks.
//! Caveat: it must not slow down clients. So concurrency and rate are bounded, and a job that is no
//! longer watched ends.
//! Out of scope: following links in pages; what a site wants to be found is in its sitemap.

use crate::{
    background_fetch::FetchOutcome,
    endpoint::ListenerEndpoint,
    refusal::Refusal,
    warm::{sitemap::SitemapEntry, url::PageUrl},
};
use std::{
    collections::{HashSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Maximum pages of one job.
pub const URLS_MAX: usize = 1_000_000;

/// Maximum sitemaps of one job, and their nesting.
const SITEMAPS_MAX: usize = 2_000;

const DEPTH_MAX: u8 = 3;

/// Maximum results waiting to be read.
const LINES_MAX: usize = 10_000;

/// A job that has not been read for this long is abandoned.
const UNWATCHED_MAX: Duration = Duration::from_secs(30);

/// Pause of a worker that found no task.
const IDLE: Duration = Duration::from_millis(50);

/// Request fields that select a variant.
pub type Variation = Vec<(String, String)>;

/// Pages that a job may fetch, by their URL and its listener.
pub type UrlLimit = Box<dyn Fn(&PageUrl, &ListenerEndpoint) -> bool + Send + Sync>;

/// Options of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarmOptions {
    /// Each page is fetched with each of them; without any, once.
    pub variations: Vec<Variation>,
    /// Concurrent requests, over all workers.
    pub concurrency: usize,
    /// Requests per second; 0: no limit.
    pub rate: u32,
    /// The job ends when it is no longer watched.
    pub is_watched: bool,
}

pub struct WarmJob {
    options: WarmOptions,
    endpoints: Vec<ListenerEndpoint>,
    limit: Option<UrlLimit>,
    state: Mutex<JobState>,
}

#[derive(Default)]
struct JobState {
    waiting: VecDeque<WarmTask>,
    known: HashSet<String>,
    sitemaps: usize,
    under_way: usize,
    /// More may be added.
    is_open: bool,
    is_stopped: bool,
    progress: WarmProgress,
    lines: VecDeque<WarmResult>,
    /// The number of the first of `lines`.
    first_line: u64,
    next_at: Option<Instant>,
    looked_at: Option<Instant>,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmTask {
    Page { url: PageUrl, variation: usize },
    Sitemap { url: PageUrl, depth: u8 },
}

/// Next action of a worker.
#[derive(Debug, PartialEq, Eq)]
pub enum NextStep {
    Do(WarmTask),
    Wait(Duration),
    Over,
}

/// Progress of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarmProgress {
    pub known: u64,
    pub kept: u64,
    pub there: u64,
    pub not_kept: u64,
    pub failed: u64,
}

/// The result for a page or a sitemap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmResult {
    pub url: String,
    /// Index among the variations of the job.
    pub variation: usize,
    pub outcome: FetchOutcome,
}

/// Progress and results, as shown to the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarmReport {
    pub progress: WarmProgress,
    /// From the requested line on, as far as still available.
    pub lines: Vec<WarmResult>,
    /// The line to request next.
    pub next_line: u64,
    pub is_over: bool,
}

impl WarmJob {
    /// `is_open`: more will be added.
    pub fn new(
        options: WarmOptions,
        endpoints: Vec<ListenerEndpoint>,
        is_open: bool,
    ) -> Arc<WarmJob> {
        WarmJob::limited(options, endpoints, is_open, None)
    }

    /// A job that fetches the pages that `limit` lets it, and those alone, whatever its sitemaps
    /// name.
    pub fn limited(
        options: WarmOptions,
        endpoints: Vec<ListenerEndpoint>,
        is_open: bool,
        limit: Option<UrlLimit>,
    ) -> Arc<WarmJob> {
        let state = JobState {
            is_open,
            looked_at: Some(Instant::now()),
            ..JobState::default()
        };
        Arc::new(WarmJob {
            options,
            endpoints,
            limit,
            state: Mutex::new(state),
        })
    }

    pub fn concurrency(&self) -> usize {
        self.options.concurrency.max(1)
    }

    pub fn variation(&self, number: usize) -> &[(String, String)] {
        self.options
            .variations
            .get(number)
            .map_or(&[], Vec::as_slice)
    }

    /// The listener for a URL; `None`: the server has none, or the job may not fetch the page.
    pub fn endpoint(&self, url: &PageUrl) -> Option<ListenerEndpoint> {
        let found = url.endpoint(&self.endpoints)?;
        let is_allowed = self.limit.as_ref().is_none_or(|limit| limit(url, &found));
        is_allowed.then_some(found)
    }

    /// Adds pages and sitemaps.
    pub fn add(&self, pages: &[PageUrl], sitemaps: &[PageUrl]) {
        let mut state = self.state();
        sitemaps.iter().for_each(|url| state.add_sitemap(url, 0));
        pages
            .iter()
            .for_each(|url| state.add_page(url, self.options.variations.len()));
    }

    /// Nothing more will be added.
    pub fn close(&self) {
        self.state().is_open = false;
    }

    pub fn stop(&self) {
        let mut state = self.state();
        state.is_stopped = true;
        state.waiting.clear();
    }

    pub fn next(&self, now: Instant) -> NextStep {
        let mut state = self.state();
        let is_left = self.options.is_watched
            && state
                .looked_at
                .is_some_and(|at| now.saturating_duration_since(at) > UNWATCHED_MAX);
        if state.is_stopped || is_left || state.is_done() {
            return NextStep::Over;
        }
        if let Some(at) = state.next_at.filter(|at| *at > now) {
            return NextStep::Wait(at - now);
        }
        let Some(task) = state.waiting.pop_front() else {
            return NextStep::Wait(IDLE);
        };
        if self.options.rate > 0 {
            state.next_at = Some(now + Duration::from_secs(1) / self.options.rate);
        }
        state.under_way += 1;
        NextStep::Do(task)
    }

    /// Records the outcome for a page.
    pub fn done(&self, url: &PageUrl, variation: usize, outcome: FetchOutcome) {
        let mut state = self.state();
        state.under_way = state.under_way.saturating_sub(1);
        let progress = &mut state.progress;
        *match outcome {
            FetchOutcome::Stored => &mut progress.kept,
            FetchOutcome::AlreadyCached => &mut progress.there,
            FetchOutcome::NotStored(_) => &mut progress.not_kept,
            FetchOutcome::Failed(_) => &mut progress.failed,
        } += 1;
        state.say(WarmResult {
            url: url.to_string(),
            variation,
            outcome,
        });
    }

    /// Records the entries of a sitemap, or why it can't be read.
    pub fn read(&self, url: &PageUrl, depth: u8, entries: Result<Vec<SitemapEntry>, String>) {
        let mut state = self.state();
        state.under_way = state.under_way.saturating_sub(1);
        let failed = |why: String| WarmResult {
            url: url.to_string(),
            variation: 0,
            outcome: FetchOutcome::Failed(why),
        };
        let entries = match entries {
            Ok(entries) => entries,
            Err(why) => {
                state.progress.known += 1;
                state.progress.failed += 1;
                return state.say(failed(why));
            }
        };
        let mut elsewhere = 0;
        for entry in entries {
            // A sitemap speaks for its own host (sitemaps.org, "Sitemap file location").
            match entry.url().filter(|named| named.is_at_host_of(url)) {
                Some(named) if entry.is_sitemap() => state.add_sitemap(&named, depth + 1),
                Some(named) => state.add_page(&named, self.options.variations.len()),
                None => elsewhere += 1,
            }
        }
        if elsewhere > 0 {
            let why = Refusal::new(
                "elsewhere",
                format!("{elsewhere} of its URLs are invalid or on other hosts"),
            );
            state.say(WarmResult {
                url: url.to_string(),
                variation: 0,
                outcome: FetchOutcome::NotStored(why),
            });
        }
    }

    /// Progress, and results from the given line on.
    pub fn look(&self, from: u64, lines_max: usize) -> WarmReport {
        let mut state = self.state();
        state.looked_at = Some(Instant::now());
        let skipped = usize::try_from(from.saturating_sub(state.first_line)).unwrap_or(usize::MAX);
        let lines: Vec<WarmResult> = state
            .lines
            .iter()
            .skip(skipped)
            .take(lines_max)
            .cloned()
            .collect();
        let next_line = from.max(state.first_line) + lines.len() as u64;
        WarmReport {
            progress: state.progress,
            next_line,
            is_over: state.is_done() && next_line >= state.last_line(),
            lines,
        }
    }

    /// True if everything is done, or the job was stopped and nothing is under way.
    pub fn is_over(&self) -> bool {
        self.state().is_done()
    }

    fn state(&self) -> MutexGuard<'_, JobState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JobState {
    fn is_done(&self) -> bool {
        self.under_way == 0 && self.waiting.is_empty() && (self.is_stopped || !self.is_open)
    }

    fn add_page(&mut self, url: &PageUrl, variations: usize) {
        if self.is_stopped || self.known.len() >= URLS_MAX || !self.known.insert(url.to_string()) {
            return;
        }
        for variation in 0..variations.max(1) {
            self.progress.known += 1;
            self.waiting.push_back(WarmTask::Page {
                url: url.clone(),
                variation,
            });
        }
    }

    /// Sitemaps are read first, so that the number of pages is known early.
    fn add_sitemap(&mut self, url: &PageUrl, depth: u8) {
        let is_new = !self.is_stopped
            && self.sitemaps < SITEMAPS_MAX
            && depth <= DEPTH_MAX
            && self.known.insert(format!("sitemap {url}"));
        if is_new {
            self.sitemaps += 1;
            self.waiting.push_front(WarmTask::Sitemap {
                url: url.clone(),
                depth,
            });
        }
    }

    fn say(&mut self, line: WarmResult) {
        self.lines.push_back(line);
        if self.lines.len() > LINES_MAX {
            self.lines.pop_front();
            self.first_line += 1;
        }
    }

    fn last_line(&self) -> u64 {
        self.first_line + self.lines.len() as u64
    }
}

/// Jobs of the process, by number.
#[derive(Default)]
pub struct WarmJobs {
    all: Mutex<VecDeque<(u64, Arc<WarmJob>)>>,
    last: AtomicU64,
}

/// Maximum jobs, including finished ones whose results are kept.
const JOBS_MAX: usize = 16;

impl WarmJobs {
    /// Registers a job and returns its number; `None`: there are too many.
    pub fn begin(&self, job: &Arc<WarmJob>) -> Option<u64> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= JOBS_MAX {
            let over = all
                .iter()
                .position(|(_, job)| job.next(Instant::now()) == NextStep::Over || job.is_over())?;
            all.remove(over);
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        all.push_back((number, Arc::clone(job)));
        Some(number)
    }

    pub fn find(&self, number: u64) -> Option<Arc<WarmJob>> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .find(|(known, _)| *known == number)
            .map(|(_, job)| Arc::clone(job))
    }
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
