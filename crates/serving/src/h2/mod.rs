//! The HTTP/2 driver: frames in, exchanges answered, frames of many streams out in one write.
//!
//! Called by: `accept` (ALPN), and the HTTP/1 driver (preface, `Upgrade: h2c`).
//! Caveat: one wake-up may concern many things; `Connection::poll_turn` is the one list of them.
//! Out of scope: exchanges, which HTTP/3 shares (`mux`); frames and HPACK (crate `http2`).

mod connection;
mod head;
mod inbound;
mod start;
mod turn;
mod wait;
mod wire;

pub use start::{Beginning, run};
