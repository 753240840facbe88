//! The console of a running server: log-in, rights, pages in a browser, live views, and the
//! configuration editor.
//!
//! Called by: `cargo test -p saker --test operation console::MODULE::`, one module per subject.
//! Caveat: pages are driven by Debian's Chromium; it takes screenshots where `SAKER_SCREENSHOTS` names
//! a directory for them.
//! Out of scope: every route with each role, which the unit tests of the crate try.

mod actions;
mod answers;
pub mod browser;
mod contract;
mod editor;
mod editor_page;
mod fixture;
mod hostile_text;
mod languages;
mod live;
mod live_changes;
mod log_in;
mod member_tests;
mod oidc;
mod owner;
mod pages;
mod passkeys;
mod preview;
mod purge;
mod remote;
pub mod schemas;
mod secrets;
mod settings;
