//! Paths whose content a request has changed, for caches.
//!
//! Called by: handlers that write files (WebDAV), as a value of the exchange's extensions; the page
//! cache, which invalidates what it has of them.
//! Caveat: the request's own URL is among them only if the handler says so.
//! Out of scope: files that are changed without a request; watchers report those.

/// Changes that a request has made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedPaths(pub Vec<ChangedPath>);

/// A path of the site, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedPath {
    pub path: Vec<u8>,
    /// Everything below it has changed as well.
    pub is_tree: bool,
}
