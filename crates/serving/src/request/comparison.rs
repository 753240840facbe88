//! Comparison of cached answers with full dispatch, in debug builds.
//!
//! Called by: the fast path, which takes a sample of the hits; the drivers, which dispatch such a
//! request instead and compare the outcomes.
//! Caveat: `SAKER_COMPARE_HITS=N` compares each N-th hit of a worker, 0 none (for tests that count
//! system calls). Where a file has changed in between, or rates are limited, nothing is compared.
//! Out of scope: release builds, in which nothing is sampled; the page cache, whose answers have an
//! age.

use crate::worker::Worker;
use saker_files::ChangeToken;
use saker_http::{HeadView, Method};
use saker_pipeline::{
    Body, Decision, Exchange, Generation, Response, Services, route_cache::Entry,
};
use std::{cell::Cell, rc::Rc, sync::OnceLock};

/// Each of so many hits is compared, unless the environment says otherwise.
const SHARE: u32 = 64;

/// Fields that differ from one second to the next, and one that drivers derive from the body.
const NOT_COMPARED: [&str; 5] = ["age", "cache-control", "content-length", "date", "expires"];

/// An answer from the route cache that has not been sent.
pub struct CachedAnswer {
    versions: Versions,
    start_line: Box<[u8]>,
    essence: Essence,
    change_tokens: Box<[ChangeToken]>,
}

/// The configuration and the certificates that an outcome is of; new ones may come before the
/// dispatch.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Versions {
    generation: u64,
    certificates: u64,
}

impl Versions {
    fn of(generation: &Generation) -> Versions {
        Versions {
            generation: generation.number,
            certificates: generation.certificates_version(),
        }
    }

    /// True if these are in force, and the services the worker's.
    fn are_of_now(self, worker: &Worker, services: &Rc<Services>) -> bool {
        self == Versions::of(&services.generation)
            && Rc::ptr_eq(services, &worker.services.borrow())
    }
}

#[derive(Debug)]
struct Essence {
    status: u16,
    fields: Vec<(String, String)>,
    body_bytes: Option<u64>,
    /// Content in memory; a file is told by its validators.
    body: Option<Vec<u8>>,
}

/// Outcome that a hit would have led to. The request is dispatched in full.
pub enum Sampled {
    Answer(CachedAnswer),
    Decision(SampledDecision),
}

impl Sampled {
    /// Compares it with the outcome of the full dispatch of the same request.
    ///
    /// # Panics
    /// If they differ: the outcome depended on something that was not recorded.
    pub fn compare(
        &self,
        worker: &Worker,
        services: &Rc<Services>,
        exchange: &Exchange,
        response: &Response,
    ) {
        match self {
            Sampled::Answer(answer) => answer.compare(worker, services, exchange, response),
            Sampled::Decision(decision) => decision.compare(worker, services, exchange, response),
        }
    }
}

/// A decision of the route cache that was not followed.
pub struct SampledDecision {
    versions: Versions,
    decision: Rc<Decision>,
    change_tokens: Box<[ChangeToken]>,
}

/// Returns the decision of a hit that is to be compared.
#[inline(always)]
pub fn sample_decision(
    generation: &Generation,
    entry: &Entry,
    decision: &Rc<Decision>,
) -> Option<Box<Sampled>> {
    (cfg!(debug_assertions) && decision.is_of(generation.number) && is_chosen()).then(|| {
        Box::new(Sampled::Decision(SampledDecision {
            versions: Versions::of(generation),
            decision: Rc::clone(decision),
            change_tokens: entry.change_tokens().into(),
        }))
    })
}

impl SampledDecision {
    fn compare(
        &self,
        worker: &Worker,
        services: &Rc<Services>,
        exchange: &Exchange,
        response: &Response,
    ) {
        // Limits count each request, decided or not.
        let is_limited = exchange.limits.drops_connection
            || matches!(response.status.0, 413 | 429 | 499 | 503)
                && !exchange.upstream.is_answered_by_program;
        let is_of_now = self.versions.are_of_now(worker, services);
        let full = exchange.cache.kept_decision.as_ref();
        // Without fields that the client has made up, a head is no longer as it was received, and
        // full dispatch leaves no decision. Edits of the last phase come after it.
        let is_edited = full.is_none() && exchange.head.is_edited();
        if is_limited || is_edited || !is_of_now || !are_current(worker, &self.change_tokens) {
            return;
        }
        assert!(
            full.is_some_and(|full| full.decision.is_same(&self.decision)),
            "the route cache and full dispatch decide differently about `{}`\n{}",
            String::from_utf8_lossy(exchange.head.view().start_line()),
            fields_of(exchange),
        );
    }
}

/// Returns true if no file has changed.
fn are_current(worker: &Worker, tokens: &[ChangeToken]) -> bool {
    let watcher = &worker.shared.watcher;
    watcher.look();
    let now_ms = watcher.now_ms();
    tokens.iter().all(|token| token.is_current(now_ms))
}

thread_local! {
    static HITS: Cell<u32> = const { Cell::new(0) };
}

fn share() -> u32 {
    static OWN: OnceLock<u32> = OnceLock::new();
    *OWN.get_or_init(|| {
        let own = std::env::var("SAKER_COMPARE_HITS").ok();
        own.and_then(|own| own.parse().ok()).unwrap_or(SHARE)
    })
}

/// Counts a hit, and returns true if it is one of those that are compared.
fn is_chosen() -> bool {
    let share = share();
    let hits = HITS.get().wrapping_add(1);
    HITS.set(hits);
    share != 0 && hits.is_multiple_of(share)
}

/// Returns the answer of a hit that is to be compared.
#[inline(always)]
pub fn sample(
    generation: &Generation,
    entry: &Entry,
    view: HeadView<'_>,
    response: &Response,
) -> Option<Box<Sampled>> {
    match cfg!(debug_assertions) {
        true => sampled(generation, entry, view, response),
        false => None,
    }
}

fn sampled(
    generation: &Generation,
    entry: &Entry,
    view: HeadView<'_>,
    response: &Response,
) -> Option<Box<Sampled>> {
    let is_comparable = !entry.throttled && entry.cached_route.is_repeatable();
    (is_chosen() && is_comparable).then(|| {
        Box::new(Sampled::Answer(CachedAnswer {
            versions: Versions::of(generation),
            start_line: view.start_line().into(),
            essence: Essence::of(response),
            change_tokens: entry.change_tokens().into(),
        }))
    })
}

impl CachedAnswer {
    fn compare(
        &self,
        worker: &Worker,
        services: &Rc<Services>,
        exchange: &Exchange,
        response: &Response,
    ) {
        let is_current = are_current(worker, &self.change_tokens);
        let is_answer = *self.start_line == *exchange.head.view().start_line()
            && response.status.0 < 499
            && !exchange.limits.drops_connection;
        let is_of_now = self.versions.are_of_now(worker, services);
        if !is_current || !is_answer || !is_of_now {
            return;
        }
        let full = Essence::of(response);
        let is_head = exchange.head.view().method() == Method::Head;
        assert!(
            self.essence.agrees(&full, is_head),
            "the route cache and full dispatch give different answers to `{}`\n{}\ncached: {:?}\nfull: {full:?}",
            String::from_utf8_lossy(exchange.head.view().start_line()),
            fields_of(exchange),
            self.essence,
        );
    }
}

fn fields_of(exchange: &Exchange) -> String {
    let fields = exchange.head.view().fields().map(|(name, value)| {
        format!(
            "{}: {}\n",
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(value)
        )
    });
    fields.collect()
}

impl Essence {
    /// Bodies are compared as far as they are in memory, and the parts of several ranges not at
    /// all: what separates them differs each time.
    fn agrees(&self, other: &Essence, is_head: bool) -> bool {
        let is_multipart = self
            .fields
            .iter()
            .any(|(name, value)| name == "content-type" && value.starts_with("multipart/"));
        if self.status != other.status || is_multipart {
            return self.status == other.status;
        }
        let bodies = self.body.as_ref().zip(other.body.as_ref());
        let is_same_body = is_head
            || self.body_bytes == other.body_bytes && bodies.is_none_or(|(one, two)| one == two);
        self.fields == other.fields && is_same_body
    }

    fn of(response: &Response) -> Essence {
        let is_compared = |name: &str| {
            !NOT_COMPARED
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name))
        };
        let mut fields: Vec<(String, String)> = response
            .fields()
            .iter()
            .filter(|(name, _)| is_compared(name))
            .map(|(name, value)| {
                let (name, mut value) = (name.to_ascii_lowercase(), value);
                // The tag of a file becomes strong when the file is a second old.
                if name == "etag" {
                    value = value.strip_prefix(b"W/").unwrap_or(value);
                }
                (name, String::from_utf8_lossy(value).into_owned())
            })
            .collect();
        fields.sort();
        let body = match &response.body {
            Body::Empty => Some(Vec::new()),
            Body::Memory(chunk) => Some(chunk.bytes().to_vec()),
            _ => None,
        };
        Essence {
            status: response.status.0,
            fields,
            body_bytes: response.body.length(),
            body,
        }
    }
}
