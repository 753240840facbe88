//! The LSCache protocol: how an application steers the page cache by response fields, and a site's
//! owner by directives and rewrite rules.
//!
//! Place in the walk: beside [`crate::rules`], and asked first: a response with
//! `X-LiteSpeed-Cache-Control` has said everything. Difficulty: it is a protocol by custom; where
//! what plugins send and what servers did differ, plugins are obeyed. Numbers in comments are the
//! chapters of our description of it: 2 what the application is told, 3 the request side, 4 keys, 5
//! look-up and hits, 6 storing, 7 purging by response, 8 purging from outside, 10 front caches, 11
//! crawlers, 12 parameters. Absent on purpose: ESI, and everything that holds state (purge records,
//! what a URL varies by), which is the store's.

pub mod control;
pub mod cookies;
pub mod crawler;
pub mod key;
pub mod purge;
pub mod query;
pub mod rewrite_env;
pub mod settings;
pub mod tags;
pub mod told;
pub mod vary;
pub mod visible;
pub mod identity;

pub use control::{Audience, CONTROL, Control, NotStored, Outcome};
pub use purge::{Purge, Target, purges};
pub use settings::LscacheSettings;
