//! The control socket of a running server: `saker status`, `reload` and `stop` talk to it, and Prometheus may scrape it.
//!
//! `control.sock` in the state directory. A connection asks one thing and is answered once: a line of JSON (`{"verb":"status"}`) by a
//! line of JSON (`{"ok":true,…}` or `{"ok":false,"error":"…"}`), or `GET /metrics` and `GET /status` by an HTTP response.
//! The server answers from its main thread through [`Control`], which knows nothing of sockets.
//! Absent on purpose: changes over HTTP. A scraper gets numbers, never a way to stop the server.

pub mod client;
mod protocol;
mod report;
mod server;
pub mod state_dir;

pub use report::{CertificateReport, LastReload, ReloadReport, StatusReport, counters};
pub use server::serve;
pub use state_dir::{Lock, StateDir, StateDirError};

use saker_pipeline::LocalFuture;

/// What the socket needs from the server.
pub trait Control {
    fn status(&self) -> StatusReport;

    /// Prometheus' text format.
    fn prometheus(&self) -> String;

    /// Builds the new configuration beside the running one and swaps it in, or says (as rendered diagnostics) why not. Never called
    /// again before it is done.
    fn reload(&self) -> LocalFuture<'_, Result<ReloadReport, String>>;

    /// Called once the answer is on its way. Graceful: running requests are finished, bounded by the shutdown time-out.
    fn stop(&self, graceful: bool);

    fn reopen_logs(&self) -> Result<(), String>;
}

#[cfg(test)]
mod tests;
