//! Interface between the control socket and the server.
//!
//! Called by: `server`, for each request; the process supervisor implements it.
//! Caveat: everything runs on the main thread.

use crate::{
    bans::BanVerb,
    cache::CacheVerb,
    hosts::HostsVerb,
    report::{ReloadReport, StatusReport},
};
use saker_pipeline::LocalFuture;
use serde_json::Value;

/// The server, as seen by the control socket.
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

    /// Answers a ban command; the error is a sentence for the client.
    fn bans(&self, verb: &BanVerb) -> Result<Value, String>;

    /// Answers a dynamic virtual host command; the error is a sentence for the client.
    fn hosts(&self, verb: &HostsVerb) -> Result<Value, String>;

    /// Answers a page cache command; the error is a sentence for the client.
    fn cache<'c>(&'c self, verb: &'c CacheVerb) -> LocalFuture<'c, Result<Value, String>>;
}
