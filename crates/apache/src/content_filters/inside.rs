//! What filters need that make requests of their own.
//!
//! Difficulty: the services of a worker hold the filters, so what a filter knows of the services
//! must not hold them.

use crate::rules::ApacheRules;
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

    /// `None`: the worker has gone on to another configuration, and nobody is left who asked under
    /// this one.
    pub fn services(&self) -> Option<Rc<Services>> {
        self.services.upgrade()
    }

    pub fn rules(&self) -> &ApacheRules {
        &self.rules
    }
}
