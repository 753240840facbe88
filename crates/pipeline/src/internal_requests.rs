//! Requests derived from other requests: their shared budget, and their depth.
//!
//! Called by: index files, MultiViews, look-aheads of rules, includes, and error documents; the
//! phases, which end a request that is over its budget.
//! Caveat: `redirects` and `nesting` of the exchange are the depth; the budget is the breadth.
//! Out of scope: the counters (`budget`).

use crate::{Exchange, Inner, RequestBudget};
use saker_telemetry::{error_log, message};
use std::rc::Rc;

impl Exchange {
    /// Returns the budget of the client's request; creates it on first use.
    pub fn budget(&self) -> &Rc<RequestBudget> {
        self.budget.get_or_init(Rc::default)
    }

    /// Shares the budget of the exchange that this one is derived from, and continues its depth.
    pub fn share_budget(&mut self, outer: &Exchange) {
        self.budget = Rc::clone(outer.budget()).into();
        (self.routing.redirects, self.routing.redirects_max) =
            (outer.routing.redirects, outer.routing.redirects_max);
        (self.routing.nesting, self.routing.nesting_max) =
            (outer.routing.nesting, outer.routing.nesting_max);
    }

    /// Charges a request that passes through all phases to the budget of the page that includes it.
    pub fn charge_to(&mut self, budget: &Rc<RequestBudget>) {
        self.budget = Rc::clone(budget).into();
    }

    /// Returns true if another request may be nested in this one: neither too deep nor too many.
    /// Otherwise logs the reason, and the request that was not made counts as a 500.
    pub fn may_nest(&self, kind: Inner) -> bool {
        let budget = self.budget();
        if self.routing.nesting >= self.routing.nesting_max {
            if budget.logs_depth() {
                let path = String::from_utf8_lossy(&self.path);
                let facts = format_args!(
                    "{path}: {} requests inside of each other (LimitInternalRecursion)",
                    self.routing.nesting
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

    /// Returns true in the request for an error document that every client may see, whatever its
    /// route demands: the configuration names a fixed page.
    pub fn is_page_for_all(&self) -> bool {
        let access = &self.access;
        let is_guarded = access.is_named_by_file || access.has_client_target;
        self.log.stands_in_for.is_some() && !is_guarded
    }

    /// Returns true if a limit of the budget is exceeded, which is logged once.
    pub fn is_over_budget(&self) -> bool {
        let Some(budget) = self.budget.get() else {
            return false;
        };
        let Some(limit) = budget.exceeded() else {
            return false;
        };
        if budget.logs_limit() {
            let path = String::from_utf8_lossy(&self.path);
            error_log::log_about(
                &message::REQUEST_GIVEN_UP,
                self,
                format_args!("{path}: {limit}"),
            );
        }
        true
    }

    /// Returns true if the request came from the client, not from an internal redirect or another
    /// request.
    pub fn is_as_received(&self) -> bool {
        self.routing.redirects == 0 && self.routing.nesting == 0
    }
}
