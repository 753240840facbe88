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
mod driver;
mod endpoint_loop;
mod endpoint_settings;
mod listen;
mod metrics;
mod qlog_file;

pub use driver::{Driver, Turn};
pub use listen::{QuicListener, start};
