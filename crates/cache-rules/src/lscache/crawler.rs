//! Warm-up crawlers of applications (LSCache protocol 11).
//!
//! Called by: the page cache.
//! Caveat: recognized by User-Agent only.
//! Out of scope: the server's own warm-ups.

/// The kind of crawler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crawler {
    /// Fetches what is not cached.
    Walker,
    /// Only checks the cache: may get 201 without content on a hit.
    Runner,
}

impl Crawler {
    /// By its User-Agent.
    pub fn of(user_agent: &[u8]) -> Option<Crawler> {
        let begins = |names: [&[u8]; 2]| {
            names
                .iter()
                .any(|name| super::tags::strip_prefix(user_agent, name).is_some())
        };
        match () {
            () if begins([b"lscache_walker", b"litemage_walker"]) => Some(Crawler::Walker),
            () if begins([b"lscache_runner", b"litemage_runner"]) => Some(Crawler::Runner),
            () => None,
        }
    }
}

/// Status for a crawler that is not allowed here.
pub const NOT_ALLOWED: saker_http::Status = saker_http::Status::PRECONDITION_REQUIRED;
