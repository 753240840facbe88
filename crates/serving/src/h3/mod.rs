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

mod ask;
mod connection;
mod driver;
mod early;
mod head;
mod inbound;
mod incoming;
mod start;
mod turn;
mod unsent;
mod wire;

pub use connection::Connection;
