//! Forward authorization: a server that decides whether a request may pass, or a FastCGI program in
//! the authorizer role.
//!
//! Called by: the access phase.

use super::{Origin, Upstream};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorize {
    /// As written in the configuration; `None`: off.
    pub said: Option<Box<str>>,
    pub origin: Origin,
    /// The upstream of that name; `None` only if the configuration has errors.
    pub upstream: Option<Arc<Upstream>>,
    /// Path and query to request; `None`: those of the client's request.
    pub target: Option<Box<str>>,
    /// Response fields that replace the request's.
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
