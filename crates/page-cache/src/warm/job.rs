//! Warm-up: pages are asked for before visitors do, by sitemaps and lists, in all their variants.
//!
//! KeyBase: the main thread makes a [`Job`], workers carry it out side by side ([`run`]) by requests
//! of the cache's own (`errand`), and whoever began it looks at how it goes. Difficulty: it must
//! not stand in anybody's way. So requests at a time are bounded, a rate may be, a worker with
//! visitors to serve lets it wait, and a job that nobody looks at any more ends. Absent on purpose:
//! following links of pages. What a site wants to be found is in its sitemap.

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

/// Pages of one job.
pub const URLS_MAX: usize = 1_000_000;

/// Sitemaps of one job, and how deep they may name one another.
const SITEMAPS_MAX: usize = 2_000;

const DEPTH_MAX: u8 = 3;

/// Results that wait for somebody to look.
const LINES_MAX: usize = 10_000;

/// Nobody has looked for so long: whoever began it has gone.
const UNWATCHED_MAX: Duration = Duration::from_secs(30);

/// How soon somebody who found nothing to do asks again.
const IDLE: Duration = Duration::from_millis(50);

/// What makes a variant: fields of the request.
pub type Variation = Vec<(String, String)>;

/// How a job is to be carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarmOptions {
    /// Each page is asked for with each of them; without any, once.
    pub variations: Vec<Variation>,
    /// Requests at a time, by all workers together.
    pub concurrency: usize,
    /// Requests a second; 0: as fast as they are answered.
    pub rate: u32,
    /// It ends when nobody looks at it any more.
    pub is_watched: bool,
}

pub struct WarmJob {
    options: WarmOptions,
    endpoints: Vec<ListenerEndpoint>,
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
    /// Of the first of `lines`.
    first_line: u64,
    next_at: Option<Instant>,
    looked_at: Option<Instant>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmTask {
    Page { url: PageUrl, variation: usize },
    Sitemap { url: PageUrl, depth: u8 },
}

/// What a worker does next.
#[derive(Debug, PartialEq, Eq)]
pub enum NextStep {
    Do(WarmTask),
    Wait(Duration),
    Over,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarmProgress {
    pub known: u64,
    pub kept: u64,
    pub there: u64,
    pub not_kept: u64,
    pub failed: u64,
}

/// What became of a page, or of a sitemap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmResult {
    pub url: String,
    /// Its number among the order's variations.
    pub variation: usize,
    pub outcome: FetchOutcome,
}

/// What whoever began it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarmReport {
    pub progress: WarmProgress,
    /// From the one on that was asked for, as far as they are still there.
    pub lines: Vec<WarmResult>,
    /// To ask for next.
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
        let state = JobState {
            is_open,
            looked_at: Some(Instant::now()),
            ..JobState::default()
        };
        Arc::new(WarmJob {
            options,
            endpoints,
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

    /// The door for a URL; `None`: the server has none.
    pub fn endpoint(&self, url: &PageUrl) -> Option<ListenerEndpoint> {
        url.endpoint(&self.endpoints)
    }

    /// Adds pages and sitemaps.
    pub fn add(&self, pages: &[PageUrl], sitemaps: &[PageUrl]) {
        let mut state = self.state();
        sitemaps.iter().for_each(|url| state.add_sitemap(url, 0));
        pages
            .iter()
            .for_each(|url| state.add_page(url, self.options.variations.len()));
    }

    /// Nothing more is added.
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

    /// A page was asked for.
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

    /// A sitemap was read, or could not be.
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
                format!("{elsewhere} of its addresses are on other hosts, or none"),
            );
            state.say(WarmResult {
                url: url.to_string(),
                variation: 0,
                outcome: FetchOutcome::NotStored(why),
            });
        }
    }

    /// How far it is, with results from the given line on.
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

    /// Everything was asked for, or it was stopped and nothing is under way.
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

    /// They are read first, so that it is known soon how much there is.
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

/// Jobs that may be under way together, and results of past ones that are kept for whoever asks
/// late.
const JOBS_MAX: usize = 16;

impl WarmJobs {
    /// Its number; `None`: there are too many under way.
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
