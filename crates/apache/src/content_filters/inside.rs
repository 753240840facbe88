//! Access to the worker for filters that make subrequests (server-side includes).
//!
//! Called by: `server`, which creates it, and `includes`.
//! Caveat: the services of a worker own the filters, so a filter holds only a weak reference to the
//! services.

use crate::worker::ApacheRules;
use saker_pipeline::Services;
use std::rc::{Rc, Weak};

#[derive(Clone)]
pub struct Inside {
    services: Weak<Services>,
    rules: Rc<ApacheRules>,
}

impl Inside {
    pub fn new(services: Weak<Services>, rules: Rc<ApacheRules>) -> Inside {
        Inside { services, rules }
    }

    /// Returns the services, or `None` once the worker runs another configuration and the last
    /// request under this one has ended.
    pub fn services(&self) -> Option<Rc<Services>> {
        self.services.upgrade()
    }

    pub fn rules(&self) -> &ApacheRules {
        &self.rules
    }
}
