//! The members of an upstream that a request was sent to, in order, with times and statuses.
//!
//! Called by: the gateway, which records them, and rules whose variables tell about them.
//! Caveat: recorded only for rules that ask for it ([`UpstreamAttempts::record`]). Times end with the
//! head of the response, because they are read when there is one.

use saker_http::Status;
use std::{cell::RefCell, rc::Rc};

/// One member that was asked.
#[derive(Clone, Debug)]
pub struct UpstreamAttempt {
    /// `HOST:PORT`, or `unix:PATH`.
    pub address: Rc<str>,
    /// Its name in sessions.
    pub route: Option<Box<str>>,
    pub begun_ns: u64,
    pub connected_ns: Option<u64>,
    pub answered_ns: Option<u64>,
    pub status: Option<Status>,
    /// Bytes of the response's content, where its head tells.
    pub length: Option<u64>,
}

/// All members that were asked.
#[derive(Debug, Default)]
pub struct UpstreamAttempts {
    is_recorded: bool,
    all: RefCell<Vec<UpstreamAttempt>>,
}

impl UpstreamAttempts {
    /// Has attempts recorded, from none on.
    pub fn record(&mut self) {
        self.is_recorded = true;
        self.all.get_mut().clear();
    }

    pub fn begin(
        &self,
        address: impl FnOnce() -> Rc<str>,
        route: Option<&str>,
        now_ns: impl FnOnce() -> u64,
    ) {
        if self.is_recorded {
            self.all.borrow_mut().push(UpstreamAttempt {
                address: address(),
                route: route.map(Into::into),
                begun_ns: now_ns(),
                connected_ns: None,
                answered_ns: None,
                status: None,
                length: None,
            });
        }
    }

    /// The connection is there.
    pub fn connect(&self, now_ns: impl FnOnce() -> u64) {
        if let Some(last) = self.all.borrow_mut().last_mut() {
            last.connected_ns.get_or_insert_with(now_ns);
        }
    }

    /// A response's head has come, or a failure that has this status.
    pub fn end(&self, status: Status, length: Option<u64>, now_ns: impl FnOnce() -> u64) {
        if let Some(last) = self.all.borrow_mut().last_mut() {
            last.answered_ns = Some(now_ns());
            (last.status, last.length) = (Some(status), length);
        }
    }

    /// The attempts so far.
    pub fn all(&self) -> Vec<UpstreamAttempt> {
        self.all.borrow().clone()
    }
}
