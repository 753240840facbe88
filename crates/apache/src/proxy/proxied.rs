//! A request that another server answers.
//!
//! Called by: phases that decide it; `proxy/call`, which carries it out.

use saker_apache_model::proxy::pass::Encoding;

/// A request that another server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxied {
    /// With scheme and authority, and a query only if `encoding` says so.
    pub url: Vec<u8>,
    pub encoding: Encoding,
}
