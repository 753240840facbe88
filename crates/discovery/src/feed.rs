//! One upstream's feed: takes what its source says, and puts it in force.
//!
//! Called by: the sources, for each answer; `discoveries`, for failures.
//! Caveat: a failure is logged once until there is an answer, and so is a refused server until it
//! is gone.

use crate::servers::{self, Named};
use saker_config::{
    model::{DiscoveredServer, Discovery, Upstream},
    with_discovered,
};
use saker_net::clock;
use saker_telemetry::{error_log, message};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    fmt::Write as _,
    rc::Rc,
    sync::Arc,
};
use tokio::sync::Notify;

/// Addresses in a log line.
const SHOWN_MAX: usize = 10;

/// An upstream with its source.
pub struct Feed {
    pub upstream: Arc<Upstream>,
    pub discovery: Arc<Discovery>,
    /// Told about each change of servers.
    pub changes: Rc<Notify>,
    /// Told about the first answer, or failure.
    pub settled: Rc<Notify>,
    is_settled: Cell<bool>,
    /// Failures in a row.
    failures: Cell<u32>,
    /// Those that have been logged.
    refused: RefCell<BTreeSet<String>>,
}

impl Feed {
    /// `None`: the upstream has no source.
    pub fn new(
        upstream: &Arc<Upstream>,
        changes: &Rc<Notify>,
        settled: &Rc<Notify>,
    ) -> Option<Feed> {
        Some(Feed {
            discovery: Arc::clone(upstream.discovery.as_ref()?),
            upstream: Arc::clone(upstream),
            changes: Rc::clone(changes),
            settled: Rc::clone(settled),
            is_settled: Cell::new(upstream.discovered().is_some()),
            failures: Cell::new(0),
            refused: RefCell::default(),
        })
    }

    /// Returns true if there are servers, or the source has been asked in vain.
    pub fn is_settled(&self) -> bool {
        self.is_settled.get()
    }

    fn settle(&self) {
        self.is_settled.set(true);
        self.settled.notify_one();
    }

    /// The source has answered, and nothing has changed.
    pub fn confirm(&self) {
        let mut state = self.discovery.terms.state.lock();
        state.answered_ms = Some(clock::monotonic_ms());
        let had_failed = state.error.take().is_some();
        drop(state);
        self.failures.set(0);
        if had_failed {
            let facts = format_args!("{}", self.shown());
            error_log::log(&message::DISCOVERY_WORKS, facts);
        }
    }

    /// The source names these servers, and no others.
    pub fn publish(&self, named: &[Named]) {
        self.confirm();
        let (servers, refused) = servers::accept(&self.discovery.terms, named);
        self.log_refused(refused);
        let mut state = self.discovery.terms.state.lock();
        let is_first = self.upstream.discovered().is_none();
        let before = std::mem::replace(&mut state.servers, servers.clone());
        drop(state);
        if is_first || before != servers {
            let next = with_discovered(&self.upstream, &self.upstream.current(), &servers);
            self.discovery.found.set(Some(Arc::new(next)));
            if before != servers {
                self.log_changes(&before, &servers);
            }
            self.changes.notify_one();
        }
        self.settle();
    }

    /// The source gives no answer. Returns the number of failures in a row.
    pub fn fail(&self, error: &str) -> u32 {
        let error = servers::shortened(error);
        let mut state = self.discovery.terms.state.lock();
        let is_first = state.error.replace(error.clone()).is_none();
        drop(state);
        if is_first {
            let facts = format_args!("{}: {error}", self.shown());
            error_log::log(&message::DISCOVERY_FAILED, facts);
        }
        self.failures.set(self.failures.get().saturating_add(1));
        self.settle();
        self.failures.get()
    }

    fn log_refused(&self, refused: BTreeSet<String>) {
        let before = self.refused.replace(refused.clone());
        for reason in refused.difference(&before).take(SHOWN_MAX) {
            let facts = format_args!("{}: {reason}", self.shown());
            error_log::log(&message::DISCOVERY_REFUSED, facts);
        }
    }

    fn log_changes(&self, before: &[DiscoveredServer], after: &[DiscoveredServer]) {
        let mut text = format!("{}: {} in all", self.shown(), after.len());
        let key = |one: &DiscoveredServer| (one.ip, one.port);
        let addresses = |all: &[DiscoveredServer]| all.iter().map(key).collect::<BTreeSet<_>>();
        let (before, after) = (addresses(before), addresses(after));
        for (word, list) in [
            ("new", after.difference(&before)),
            ("gone", before.difference(&after)),
        ] {
            let list: Vec<_> = list.collect();
            if list.is_empty() {
                continue;
            }
            let _ = write!(text, "; {word}:");
            for (ip, port) in list.iter().take(SHOWN_MAX) {
                let _ = write!(text, " {}", std::net::SocketAddr::new(*ip, *port));
            }
            if list.len() > SHOWN_MAX {
                let _ = write!(text, " and {} more", list.len() - SHOWN_MAX);
            }
        }
        error_log::log(&message::DISCOVERED, format_args!("{text}"));
    }

    /// Upstream and source, for logs.
    fn shown(&self) -> String {
        format!("upstream {} ({})", self.upstream.name, self.discovery)
    }
}
