//! Drives HTTP/2 connections: frames in, exchanges answered, frames of many streams out in one
//! write.
//!
//! Place in the walk: as `driver_h1`. What frames ask for is done by [`Exchanges`], which HTTP/3
//! shares; what is here is HTTP/2's: its transport, its one output (`wire.rs`), how it begins
//! (`start.rs`) and ends (`wait.rs`). The difficulty is the number of things that one wake-up may
//! be about; [`Connection::poll_turn`] is the one list of them.

mod head;
mod inbound;
mod start;
mod turn;
mod wait;
mod wire;

pub use start::{Beginning, run};

use crate::{io::Io, mux::Exchanges};
use std::time::Duration;

/// Frames gathered for one write.
const OUT_BYTES_MAX: usize = 64 << 10;
/// How long we read on after GOAWAY, so that a reset does not take it from the client.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 1 << 20;

struct Connection {
    exchanges: Exchanges,
    io: Io,
    machine: saker_http2::Connection,
    /// Frames that the transport did not take; nothing is read before they have gone.
    backlog: Vec<u8>,
    /// Input holds frames that have not been looked at, because the output was full.
    unseen_input: bool,
    /// After an upgrade, until the client's preface has come: some clients have little room for
    /// what comes before they have changed.
    awaits_preface: bool,
    /// GOAWAY is out, or on its way: why.
    ending: Option<turn::Ending>,
}
