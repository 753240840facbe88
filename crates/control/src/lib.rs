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
pub use hosts::HostsVerb;
pub use peers::Peers;
pub use report::{
    CertificateReport, LastReload, MemberReport, ReloadReport, StatusReport, UpstreamReport,
    counters,
};
pub use server::serve;
pub use state_dir::{Lock, StateDir, StateDirError};
pub use warm::{LINES_MAX as WARM_LINES_MAX, VARIATIONS_MAX, WarmList, WarmOrder, WarmVerb};

use saker_pipeline::LocalFuture;
use serde_json::Value;

/// What a successor and its predecessor tell each other on the control socket.
pub const LISTENING: &str = "listening\n";
pub const CLOSED: &str = "closed\n";

/// What the socket needs from the server.
pub trait Control {
    fn status(&self) -> StatusReport;

    /// Prometheus' text format.
    fn prometheus(&self) -> String;

    /// Builds the new configuration beside the running one and swaps it in, or says (as rendered
    /// diagnostics) why not. Never called again before it is done.
    fn reload(&self) -> LocalFuture<'_, Result<ReloadReport, String>>;

    /// Called once the answer is on its way. Graceful: running requests are finished, bounded by
    /// the shutdown time-out.
    fn stop(&self, graceful: bool);

    /// Lets go of the state directory, and with it of the control socket, for a successor: the
    /// answer to it, or why not.
    fn hand_over(&self) -> Result<Value, String>;

    /// The successor serves (`true`), or has ended before it did.
    fn successor_listens(&self, listens: bool);

    /// Returns once this server has closed its listeners.
    fn listeners_closed(&self) -> LocalFuture<'_, ()>;

    fn reopen_logs(&self) -> Result<(), String>;

    /// What is asked about bans; the answer as it goes out, or why there is none.
    fn bans(&self, verb: &BanVerb) -> Result<Value, String>;

    /// What is asked of the hosts that a database knows; the answer as it goes out, or why there is
    /// none.
    fn hosts(&self, verb: &HostsVerb) -> Result<Value, String>;

    /// What is asked of the page cache; the answer as it goes out, or why there is none.
    fn cache<'c>(&'c self, verb: &'c CacheVerb) -> LocalFuture<'c, Result<Value, String>>;
}

#[cfg(test)]
mod tests;
