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
use std::os::fd::OwnedFd;

/// The things that a running server offers to its successor.
pub struct Offer {
    pub answer: Value,
    /// In the order that the answer tells.
    pub descriptors: Vec<OwnedFd>,
}

/// A message of a server that finishes its requests to its successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// A message about the page cache, as the store reads it.
    Store(Vec<u8>),
    /// Figures counted since the successor has got the state.
    Figures(Vec<u8>),
}

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

    /// The command line and the environment that this server was started with.
    fn origin(&self) -> Value;

    /// Offers everything that a successor takes over from a running server; or says why not. This
    /// server goes on until [`Control::upgraded`].
    fn offer(&self) -> Result<Offer, String>;

    /// The successor could serve: lets go of the page cache and the bans. `false`: it may not.
    fn release(&self) -> bool;

    /// The successor, a process of this number, serves: this server finishes its requests, and
    /// ends.
    fn upgraded(&self, pid: u32);

    /// Accepts nothing more on these addresses, where the successor will accept from the same
    /// queues.
    fn leave<'a>(&'a self, addresses: &'a [String]) -> LocalFuture<'a, ()>;

    /// The successor has ended before it served: this server has everything as before.
    fn withdraw(&self) -> LocalFuture<'_, ()>;

    /// The next message for the successor.
    fn forwarded(&self) -> LocalFuture<'_, Forwarded>;

    fn reopen_logs(&self) -> Result<(), String>;

    /// Answers a ban command; the error is a sentence for the client.
    fn bans(&self, verb: &BanVerb) -> Result<Value, String>;

    /// Answers a dynamic virtual host command; the error is a sentence for the client.
    fn hosts(&self, verb: &HostsVerb) -> Result<Value, String>;

    /// State of this server in its cluster; the error is a sentence for the client.
    fn cluster_status(&self) -> Result<Value, String>;

    /// Figures of so many last seconds, in columns; the server samples for a while.
    fn live(&self, seconds: usize) -> Value;

    /// Makes a link for logging in to the console, and opens the console if it is not; the error is
    /// a sentence for the client.
    fn console_link(&self) -> Result<Value, String>;

    /// Answers a page cache command; the error is a sentence for the client.
    fn cache<'c>(&'c self, verb: &'c CacheVerb) -> LocalFuture<'c, Result<Value, String>>;
}
