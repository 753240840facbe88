//! The look-up: answers from the cache, or passes the request on to whatever makes the response.
//!
//! Called by: `handler`, before programs and upstreams.
//! Caveat: of many requests for a missing page, one fetches it and the others wait (`CacheLock`).
//! Out of scope: storing the response (`store_response`).

mod answer;
mod find;
mod forward;
mod incoming;
mod search;

pub use search::look_up;
