//! The LSCache protocol: applications control the page cache by response fields, and site owners by
//! directives and rewrite rules.
//!
//! Called by: the page cache, before [`crate::rules`]: a response with `X-LiteSpeed-Cache-Control`
//! needs no other rule.
//! Caveat: the protocol has no standard; where plugins and servers differ, plugins win. Numbers in
//! comments are chapters: 2 announcing the cache, 3 requests, 4 keys, 5 look-up and hits, 6
//! storing, 7 purging by response, 8 purging from outside, 9 ESI, 10 front caches, 11 crawlers, 12
//! parameters.
//! Out of scope: ESI, and everything that has state (purges, vary records).

pub mod control;
pub mod cookies;
pub mod crawler;
pub mod identity;
pub mod key;
pub mod purge;
pub mod query;
pub mod rewrite_env;
pub mod settings;
pub mod tags;
pub mod told;
pub mod vary;
pub mod visible;

pub use control::{Audience, CONTROL, Control, NotStored, Outcome};
pub use purge::{Purge, Target, purges};
pub use settings::LscacheSettings;
