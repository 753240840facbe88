//! Drives HTTP/3 connections (RFC 9114): QUIC streams in, exchanges answered, QUIC streams out.
//!
//! Place in the walk: as `driver_h1`. The worker's QUIC loop gives a [`Connection`] its turn when
//! packets have brought something or something that it waits for is there; what requests ask for is
//! done by [`Exchanges`], which HTTP/2 shares. Here is what is HTTP/3's: reading streams as far as
//! somebody wants their content (`inbound.rs`), the way out (`wire.rs`, `unsent.rs`), what may come
//! early (`early.rs`), how a connection begins (`start.rs`) and ends (`turn.rs`). The difficulty is
//! that a stream can be stopped at any moment from either side, and is still to be logged once.
//!
//! Absent on purpose: packets, loss, pacing and flow control, which are QUIC's, and push, which no
//! browser takes any more.

mod early;
mod head;
mod inbound;
mod start;
mod turn;
mod unsent;
mod wire;

use crate::{
    mux::{ByStream, Exchanges},
    quic::{Driver, Turn},
    request::Session,
};
use bytes::Bytes;
use early::Early;
use inbound::Incoming;
use saker_config::model::Limits;
use saker_net::Deadline;
use std::{collections::VecDeque, rc::Rc, task::Context};
use unsent::Unsent;

/// The HTTP/3 side of a QUIC connection.
pub struct Connection {
    exchanges: Exchanges,
    machine: saker_http3::Connection,
    /// Streams of the client's whose end has not been read, by number.
    incoming: ByStream<u64, Incoming>,
    /// What QUIC did not take, or has not been given, by stream.
    out: Unsent,
    /// Requests that wait for the end of the handshake.
    early: Early,
    /// Room for what is read from a stream.
    chunks: VecDeque<Bytes>,
    /// Ours: control, encoder, decoder (RFC 9114 section 6.2, RFC 9204 section 4.2).
    control: [Option<u64>; 3],
    /// The connection ends for this reason, with this code, once what was said before has had time
    /// to arrive.
    ending: Option<turn::Ending>,
    /// When the last GOAWAY is due, once the first has been said.
    final_goaway_ms: Option<u64>,
    /// Of what is to happen without any packet.
    deadline: Option<Rc<Deadline>>,
}

impl Driver for Connection {
    fn new(session: Session) -> Connection {
        Connection::new(session)
    }

    fn promised(limits: &Limits) -> [u32; 3] {
        start::promised(limits)
    }

    fn turn(&mut self, cx: &mut Context<'_>, quic: &mut saker_quic::Connection) -> Turn {
        Connection::turn(self, cx, quic)
    }
}

fn now_ms() -> u64 {
    saker_net::clock::turn_ms()
}
