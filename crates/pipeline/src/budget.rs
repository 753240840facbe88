//! The budget of one client's request: requests that it leads to inside of the server, and the work
//! of rules on its behalf.
//!
//! Called by: whatever makes a second [`Exchange`](crate::Exchange) of a first (index files,
//! MultiViews, look-aheads, includes, error documents), and whatever runs rules or edits of text.
//! One budget is shared by all of them, so that breadth is bounded as well as depth. Caveat: it is
//! made when it is first wanted; a plain request has none. Out of scope: depth, which each exchange
//! knows of itself (`redirects`, `nesting`), and bodies that programs make.

use crate::Exchange;
use saker_ap_expr::Work;
use saker_telemetry::{error_log, message};
use std::{cell::Cell, rc::Rc};

/// Requests that are tried without waiting (index files, candidates of MultiViews, look-aheads of
/// rules), per request of a client.
pub const LOOKUPS_MAX: u32 = 1_000;
/// Further ones for each request that is answered inside of it.
const LOOKUPS_PER_INCLUDE: u32 = 10;
/// Requests that are answered inside of another one (includes of SSI and ESI, error documents), per
/// request of a client.
pub const INCLUDES_MAX: u32 = 2_000;
/// Nested requests, unless the configuration says otherwise; as Apache's LimitInternalRecursion.
pub const NESTING_MAX: u8 = 10;
/// The deepest nesting that a configuration may allow: requests that are tried are nested on the
/// stack of a worker.
pub const NESTING_CEILING: u8 = 20;

/// Counts of what a request has led to. Shared by all exchanges that come of it.
#[derive(Debug, Default)]
pub struct RequestBudget {
    work: Work,
    lookups: Cell<u32>,
    includes: Cell<u32>,
    limit: Cell<Option<&'static str>>,
    is_depth_logged: Cell<bool>,
    is_limit_logged: Cell<bool>,
}

impl RequestBudget {
    /// Steps and bytes of rules and edits.
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// The limit that was exceeded, if one was. The request is answered with 500.
    pub fn exceeded(&self) -> Option<&'static str> {
        self.limit
            .get()
            .or_else(|| self.work.limit().map(|limit| limit.as_str()))
    }

    /// Counts one that is tried.
    fn count_lookup(&self) -> bool {
        self.lookups.set(self.lookups.get().saturating_add(1));
        let granted = self.includes.get().saturating_mul(LOOKUPS_PER_INCLUDE);
        let is_within = self.lookups.get() <= LOOKUPS_MAX.saturating_add(granted);
        if !is_within {
            self.exceed("more than 1000 paths were tried inside of one request (LOOKUPS_MAX)");
        }
        is_within
    }

    /// Counts one that is answered.
    fn count_include(&self) -> bool {
        self.includes.set(self.includes.get().saturating_add(1));
        let is_within = self.includes.get() <= INCLUDES_MAX;
        if !is_within {
            self.exceed("more than 2000 requests were made inside of one request (INCLUDES_MAX)");
        }
        is_within
    }

    fn exceed(&self, limit: &'static str) {
        self.limit.set(self.limit.get().or(Some(limit)));
    }
}

/// How a request inside of another one is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner {
    /// To see what it would come to; made and dropped on the stack.
    Lookup,
    /// To be answered.
    Include,
}

impl Exchange {
    /// The budget of the client's request, made if nobody wanted it before.
    pub fn budget(&self) -> &Rc<RequestBudget> {
        self.budget.get_or_init(Rc::default)
    }

    /// Makes this the copy of another exchange: on its budget, and as deep.
    pub fn share_budget(&mut self, outer: &Exchange) {
        self.budget = Rc::clone(outer.budget()).into();
        (self.redirects, self.redirects_max) = (outer.redirects, outer.redirects_max);
        (self.nesting, self.nesting_max) = (outer.nesting, outer.nesting_max);
    }

    /// Puts a request that goes through all phases as one of its own on the budget of the page that
    /// it is a part of.
    pub fn charge_to(&mut self, budget: &Rc<RequestBudget>) {
        self.budget = Rc::clone(budget).into();
    }

    /// Whether another request may be made inside of this one: not too deep, and not too many. If
    /// not, the error log says why; the one that was not made counts as answered with 500.
    pub fn may_nest(&self, kind: Inner) -> bool {
        let budget = self.budget();
        if self.nesting >= self.nesting_max {
            if !budget.is_depth_logged.replace(true) {
                let path = String::from_utf8_lossy(&self.path);
                let facts = format_args!(
                    "{path}: {} requests inside of each other (LimitInternalRecursion)",
                    self.nesting
                );
                error_log::log_about(&message::RULES_GO_ROUND, self, facts);
            }
            return false;
        }
        match kind {
            Inner::Lookup => budget.count_lookup(),
            Inner::Include => budget.count_include(),
        }
    }

    /// Whether a limit of the budget was exceeded; the error log names it, once.
    pub fn is_over_budget(&self) -> bool {
        let Some(budget) = self.budget.get() else {
            return false;
        };
        let Some(limit) = budget.exceeded() else {
            return false;
        };
        if !budget.is_limit_logged.replace(true) {
            let path = String::from_utf8_lossy(&self.path);
            error_log::log_about(
                &message::REQUEST_GIVEN_UP,
                self,
                format_args!("{path}: {limit}"),
            );
        }
        true
    }

    /// No redirect inside of the server, and no other request, has led to it.
    pub fn is_as_received(&self) -> bool {
        self.redirects == 0 && self.nesting == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_and_includes_have_a_total() {
        let budget = RequestBudget::default();
        assert!((0..LOOKUPS_MAX).all(|_| budget.count_lookup()));
        assert_eq!(budget.exceeded(), None);
        assert!(!budget.count_lookup());
        assert!(
            budget
                .exceeded()
                .is_some_and(|limit| limit.contains(&LOOKUPS_MAX.to_string()))
        );
        let budget = RequestBudget::default();
        assert!((0..INCLUDES_MAX).all(|_| budget.count_include()));
        assert_eq!(budget.exceeded(), None);
        assert!(!budget.count_include());
        assert!(
            budget
                .exceeded()
                .is_some_and(|limit| limit.contains(&INCLUDES_MAX.to_string()))
        );
    }

    #[test]
    fn each_include_may_look_a_little() {
        let budget = RequestBudget::default();
        assert!(budget.count_include());
        assert!((0..LOOKUPS_MAX + LOOKUPS_PER_INCLUDE).all(|_| budget.count_lookup()));
        assert!(!budget.count_lookup());
    }

    #[test]
    fn work_is_part_of_it() {
        let budget = RequestBudget::default();
        budget.work().steps(u64::MAX);
        assert_eq!(
            budget.exceeded(),
            Some(saker_ap_expr::WorkLimit::Steps.as_str())
        );
    }
}
