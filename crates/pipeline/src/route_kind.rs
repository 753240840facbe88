//! The kinds of requests that outcomes of the route cache are told apart by.
//!
//! Called by: `route_cache`, whose keys have one; `phases::decided`, which gives it to a decision.

/// The requests that an outcome is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteKind {
    /// GET and HEAD without content.
    Read,
    /// The same, where the page cache has no page for them: a decision, which never stands in the way
    /// of the page.
    PastPages,
    /// POST with content of known length.
    Post,
}
