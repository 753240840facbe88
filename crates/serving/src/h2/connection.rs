//! The state of an HTTP/2 connection.
//!
//! Called by: everything in this module, by subject: `turn`, `inbound`, `wire`, `wait`, `start`.

use crate::{io::Io, mux::Exchanges, request::Cause};
use std::time::Duration;

/// Frames gathered for one write.
pub(super) const OUT_BYTES_MAX: usize = 64 << 10;
/// How long we read on after GOAWAY, so that a reset does not take it from the client.
pub(super) const LINGER: Duration = Duration::from_secs(2);
pub(super) const LINGER_BYTES_MAX: usize = 1 << 20;

pub struct Connection {
    pub(super) exchanges: Exchanges,
    pub(super) io: Io,
    pub(super) machine: saker_http2::Connection,
    /// Frames that the transport did not take; nothing is read before they have gone.
    pub(super) backlog: Vec<u8>,
    /// Input holds frames that have not been looked at, because the output was full.
    pub(super) unseen_input: bool,
    /// After an upgrade, until the client's preface has come: some clients have little room for
    /// what comes before they have changed.
    pub(super) awaits_preface: bool,
    /// GOAWAY is out, or on its way: why.
    pub(super) ending: Option<Ending>,
}

/// Why the connection ends once its last frames have gone.
pub struct Ending {
    pub cause: Cause,
}
