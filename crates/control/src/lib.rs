//! The control socket of a running server: `saker status`, `reload`, `stop`, `purge`, `cache` and
//! `ban` talk to it, and Prometheus may scrape it.
//!
//! `control.sock` in the state directory, for root, for who started the server, and for users that
//! the configuration names ([`Peers`]). A connection asks one thing and is answered once: a line of
//! JSON (`{"verb":"status"}`) by a line of JSON (`{"ok":true,…}` or `{"ok":false,"error":"…"}`), or
//! `GET /metrics` and `GET /status` by an HTTP response. The server answers from its main thread
//! through [`Control`], which knows nothing of sockets. Absent on purpose: changes over HTTP. A
//! scraper gets numbers, never a way to stop the server.

pub mod apache_state;
mod bans;
mod cache;
pub mod client;
mod fields;
mod handler;
mod hosts;
mod peers;
mod protocol;
mod report;
mod server;
pub mod state_dir;
mod warm;

pub use bans::{BanVerb, LIST_MAX as BAN_LIST_MAX};
pub use cache::{CacheVerb, PurgeOrder};
pub use client::ClientError;
pub use handler::Control;
pub use hosts::HostsVerb;
pub use peers::Peers;
pub use protocol::{CLOSED, LISTENING};
pub use report::{
    CertificateReport, LastReload, MemberReport, ReloadReport, StatusReport, UpstreamReport,
    counters,
};
pub use server::serve;
pub use state_dir::{Lock, StateDir, StateDirError};
pub use warm::{LINES_MAX as WARM_LINES_MAX, VARIATIONS_MAX, WarmList, WarmOrder, WarmVerb};

#[cfg(test)]
mod tests;
