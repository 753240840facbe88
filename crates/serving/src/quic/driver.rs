//! The interface between a QUIC connection and the protocol that runs over it.
//!
//! Called by: the endpoint loop; HTTP/3 (`h3`) implements it.

use crate::request::Session;
use saker_config::model::Limits;
use std::task::Context;

/// The driver's request after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Wait.
    Open,
    /// Another turn, once others have had theirs.
    Again,
    /// The connection is closed, by the driver or otherwise.
    Over,
}

/// The protocol that runs over a connection.
pub trait Driver: Sized + 'static {
    /// The handshake is over, or may carry early data. Dropping it gives the connection's place
    /// back.
    fn new(session: Session) -> Self;

    /// Settings that clients are told under these limits, and rely on in early data of later
    /// connections.
    fn promised(limits: &Limits) -> [u32; 3];

    /// Packets have come, or the waker of `cx` was called. Has to take all events.
    fn turn(&mut self, cx: &mut Context<'_>, quic: &mut saker_quic::Connection) -> Turn;
}
