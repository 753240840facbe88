//! The state of the HTTP/3 side of a QUIC connection.
//!
//! Called by: everything in this module, by subject: `turn`, `inbound`, `ask`, `wire`, `start`.

use super::{early::Early, incoming::Incoming, unsent::Unsent};
use crate::{
    mux::{ByStream, Exchanges},
    request::Cause,
};
use bytes::Bytes;
use saker_http3::ErrorCode;
use saker_net::Deadline;
use std::{collections::VecDeque, rc::Rc};

/// The HTTP/3 side of a QUIC connection.
pub struct Connection {
    pub(super) exchanges: Exchanges,
    pub(super) machine: saker_http3::Connection,
    /// Streams of the client's whose end has not been read, by number.
    pub(super) incoming: ByStream<u64, Incoming>,
    /// Bytes that QUIC has not accepted, or has not been given, by stream.
    pub(super) out: Unsent,
    /// Requests that wait for the end of the handshake.
    pub(super) early: Early,
    /// Buffer for bytes read from a stream.
    pub(super) chunks: VecDeque<Bytes>,
    /// Ours: control, encoder, decoder (RFC 9114 section 6.2, RFC 9204 section 4.2).
    pub(super) control: [Option<u64>; 3],
    /// The reason and the code that the connection ends with, once earlier data has had time to
    /// arrive.
    pub(super) ending: Option<Ending>,
    /// Time of the final GOAWAY, once the first has been sent.
    pub(super) final_goaway_ms: Option<u64>,
    /// Timer for events that no packet triggers.
    pub(super) deadline: Option<Rc<Deadline>>,
}

/// Reason and time of the connection's end.
pub struct Ending {
    pub cause: Cause,
    pub code: ErrorCode,
    /// Packets of before may still come, and are served.
    pub is_graceful: bool,
    pub due_ms: u64,
}
