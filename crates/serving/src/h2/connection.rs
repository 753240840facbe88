//! The state of an HTTP/2 connection.
//!
//! Called by: everything in this module, by subject: `turn`, `inbound`, `wire`, `wait`, `start`.

use crate::{io::Io, mux::Exchanges, request::Cause};
use std::time::Duration;

/// Frames gathered for one write.
pub(super) const OUT_BYTES_MAX: usize = 64 << 10;
/// Time during which bytes are read after GOAWAY, so that a reset does not destroy it on its way to
/// the client.
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
    /// After an upgrade, until the client's preface has arrived: some clients have little buffer
    /// space until they have switched.
    pub(super) awaits_preface: bool,
    /// GOAWAY is out, or on its way: why.
    pub(super) ending: Option<Ending>,
}

/// Reason why the connection ends once its last frames have been sent.
pub struct Ending {
    pub cause: Cause,
}
