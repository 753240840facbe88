//! Host names of a site.
//!
//! Called by: host selection, and rules that name sites.

/// A name of a site, in lowercase without a trailing dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SiteName {
    Exact(String),
    /// `*.example.org` is stored as `example.org`; matches one or more labels before it, not the
    /// name itself.
    Wildcard(String),
    /// `*`
    Any,
}
