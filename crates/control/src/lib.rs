//! The control socket of a running server, and the state directory that it lives in.
//!
//! Called by: commands (`saker status`, `reload`, `stop`, `purge`, `cache`, `ban`), and
//! Prometheus; the supervisor serves it.
//! Caveat: `control.sock` is for root, for the user that started the server, and for users named
//! by `control_users` ([`Peers`]). A connection carries one request and one response: a line of
//! JSON (`{"verb":"status"}`, answered by `{"ok":true,…}` or `{"ok":false,"error":"…"}`), or `GET
//! /metrics` and `GET /status` over HTTP. The server answers from its main thread through
//! [`Control`], which knows nothing of sockets.
//! Out of scope: changes over HTTP. A scraper can read figures, never stop the server.

pub mod apache_state;
mod bans;
mod cache;
pub mod client;
mod endpoint_socket;
mod fields;
mod handler;
mod hosts;
mod peers;
mod protocol;
mod report;
mod server;
pub mod start_record;
pub mod state_dir;
pub mod upgrade;
pub mod upgrade_state;
mod warm;

pub use bans::{BanVerb, LIST_MAX as BAN_LIST_MAX};
pub use cache::{BODY_BYTES_MAX, CacheVerb, PurgeOrder, WAIT_MS_MAX};
pub use client::ClientError;
pub use endpoint_socket::{EndpointSocket, PreparedSocket};
pub use handler::{Control, Forwarded, Offer};
pub use hosts::HostsVerb;
pub use peers::Peers;
pub use protocol::{CLOSED, LEFT, LISTENING, READY, RELEASED, SERVES};
pub use report::{
    CertificateReport, DiscoveryReport, LastReload, MemberReport, OcspReport, ReloadReport,
    StatusReport, UpstreamReport, counters,
};
pub use server::serve;
pub use state_dir::{Lock, StateDir, StateDirError};
pub use warm::{LINES_MAX as WARM_LINES_MAX, VARIATIONS_MAX, WarmList, WarmOrder, WarmVerb};

#[cfg(test)]
mod tests;
