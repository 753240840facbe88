//! QUIC: a worker's UDP sockets, and the loops that turn their datagrams into turns of
//! connections.
//!
//! Called by: `worker_thread`, which starts and closes listeners.
//! Caveat: connections are no tasks; the endpoint of a loop keeps them, and wakers
//! (`connection_wakers`) tell it which have work.
//! Out of scope: HTTP/3 (a [`Driver`]), packets (crate `quic`), sockets (`net`).

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
