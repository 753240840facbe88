//! HTTP/3's way in: a worker's UDP sockets, and the loops that turn what happens on them into turns
//! of connections.
//!
//! Place in the walk: beside `listener`, `accept` and the transports of TCP; a connection's driver
//! comes after it. A loop per socket is one task ([`turns`]); connections are no tasks but what the
//! loop's endpoint keeps ([`guest`]), and whoever has news for one rings its bell ([`bell`]). The
//! difficulty is batches: all datagrams that are there are taken in before any connection has its
//! turn, so that each sends once. Absent on purpose: HTTP/3 itself (a [`Driver`]), packets (crate
//! `quic`), sockets (`net`).

mod admission;
mod connection_slot;
mod connection_wakers;
mod endpoint_loop;
mod endpoint_settings;
mod listen;
mod metrics;
mod qlog_file;

pub use endpoint_settings::QuicShared;
pub use listen::{QuicListener, start};

use crate::request::Session;
use saker_config::model::Limits;
use std::task::Context;

/// What a driver wants after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// To wait.
    Open,
    /// Another turn, once others have had theirs.
    Again,
    /// Nothing any more: it has closed the connection, or somebody else did.
    Over,
}

/// What goes on over a connection.
pub trait Driver: Sized + 'static {
    /// The handshake is over, or may carry early data. Dropping it gives the connection's place
    /// back.
    fn new(session: Session) -> Self;

    /// What clients are told under these limits and go by in early data of later connections.
    fn promised(limits: &Limits) -> [u32; 3];

    /// Packets have come, or the waker of `cx` was called. Has to take all events.
    fn turn(&mut self, cx: &mut Context<'_>, quic: &mut saker_quic::Connection) -> Turn;
}
