//! Warm-up: pages are asked for before visitors do, by sitemaps and lists, in all their variants.
//!
//! KeyBase: the main thread makes a [`Job`], workers carry it out side by side ([`run`]) by requests
//! of the cache's own (`errand`), and whoever began it looks at how it goes. Difficulty: it must
//! not stand in anybody's way. So requests at a time are bounded, a rate may be, a worker with
//! visitors to serve lets it wait, and a job that nobody looks at any more ends. Absent on purpose:
//! following links of pages. What a site wants to be found is in its sitemap.

mod job;
pub mod run;
pub mod sitemap;
pub mod url;

pub use job::*;
