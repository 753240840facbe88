//! Somebody else who says whether a request may pass: a server that is asked, or a FastCGI program
//! in the role of authorizer.

use super::{Origin, Upstream};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorize {
    /// As the configuration names it; `None`: nobody is asked.
    pub said: Option<Box<str>>,
    pub origin: Origin,
    /// What that became; `None` only where the configuration has errors.
    pub upstream: Option<Arc<Upstream>>,
    /// Path and query that a server is asked for; `None`: those of the request.
    pub target: Option<Box<str>>,
    /// Fields of its answer that take the place of the request's.
    pub fields: Vec<Box<str>>,
}

impl Default for Authorize {
    fn default() -> Authorize {
        Authorize {
            said: None,
            origin: Origin::built_in(),
            upstream: None,
            target: None,
            fields: Vec::new(),
        }
    }
}
