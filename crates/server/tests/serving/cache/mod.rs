//! The page cache on a running server: storing, revalidating, purging, warming, ESI, LSCache.
//!
//! Called by: `cargo test -p saker --test serving cache::MODULE::`, one module per subject.
//! Caveat: lifetimes are seconds of HTTP's clock, so some tests take seconds of real time.
//! Out of scope: the rules as pure functions (crates/cache-rules), the store (crates/cache-store).

mod cache_limits;
mod cache_order;
mod cache_parts;
mod cache_warm;
mod cache_workers;
mod conformance;
mod dictionaries;
mod early_hints;
mod esi;
mod http_caching;
mod lscache;
mod page_cache;
mod page_cache_commands;
mod wordpress_cache;
