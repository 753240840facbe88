//! One file per module of Apache that acts on requests.
//!
//! Called by: the phases.
//! Out of scope: settings and directives (`modules` of `saker_apache_model`).

pub mod access;
pub mod cache;
pub mod dir;
pub mod env;
pub mod forensic;
pub mod geo;
pub mod log_debug;
pub mod remoteip;
pub mod session;
mod session_store;
pub mod setenvif;
pub mod speling;
pub mod ssl;
pub mod unique_id;
pub mod usertrack;
