//! The HTTP/3 driver (RFC 9114): QUIC streams in, exchanges answered, QUIC streams out.
//!
//! Called by: the QUIC endpoint loop, which gives a [`Connection`] its turn when packets have
//! arrived or something that it waits for is ready.
//! Caveat: either side can stop a stream at any moment, and the request is still logged exactly
//! once.
//! Out of scope: exchanges, which HTTP/2 shares (`mux`); packets, loss, pacing and flow control,
//! which are QUIC's; server push, which browsers no longer accept.

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
