//! Warming the cache: pages from sitemaps and lists are fetched before clients request them, in all
//! their variants.
//!
//! Called by: the server's main thread, for commands and schedules; workers run the jobs.
//! Caveat: background requests yield to clients (`pacing`).
//! Out of scope: following links in pages.

mod job;
pub mod run;
pub mod sitemap;
pub mod url;

pub use job::*;
