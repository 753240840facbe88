//! Cached outcomes of the phases.
//!
//! Called by: workers, for each request that the route cache has an entry for. Implemented by
//! handlers whose responses can be repeated.
//! Caveat: an answer must depend on nothing but the request head and the time.
//! Out of scope: the cache and the validity of its entries (`route_cache`).

use crate::{Received, Response};
use saker_http::HeadView;

/// A cached outcome of the phases that answers further requests for the same listener, host, and
/// path without dispatch. A handler leaves one in
/// [`CacheState::cached_route`](crate::CacheState::cached_route); the pipeline caches it as long as
/// everything that it depends on is unchanged.
pub trait CachedRoute {
    /// Answers a GET or HEAD immediately, without waiting or file system calls. `None`: the request
    /// has to be dispatched (for example because a variant does not exist yet). `now` is in seconds
    /// since the epoch. The driver omits the body for HEAD.
    fn answer(&self, head: HeadView<'_>, now: i64) -> Option<Response>;

    /// As [`answer`](Self::answer), for routes that are not for all clients of a listener.
    fn answer_to(&self, request: &Received<'_>, now: i64) -> Option<Response> {
        self.answer(request.head, now)
    }

    /// Returns the memory in use, which counts toward the limit of the route cache; may grow
    /// between calls.
    fn memory_bytes(&self) -> usize;

    /// Returns true if the answer to a request depends on nothing but the request and what the
    /// outcome of dispatch depended on. Debug builds compare such answers with full dispatch.
    fn is_repeatable(&self) -> bool {
        true
    }

    /// Returns the number of open files, which is limited, too.
    fn descriptors(&self) -> usize {
        0
    }
}
