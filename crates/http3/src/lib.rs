//! HTTP/3 (RFC 9114) with QPACK (RFC 9204) as a machine over streams of bytes, for both roles.
//!
//! Floor 2: knows no QUIC, socket, clock, log or configuration. The driver in `server` hands what
//! came on each stream to [`Connection::receive`] until it is used up, and tells it of streams that
//! were opened, reset or stopped; it answers by verbs (`send_head`, `begin_data`…) that append
//! frames to a buffer which the driver lends and writes to that stream. What the connection has to
//! say of its own (SETTINGS, GOAWAY, QPACK's instructions) waits for the driver by stream
//! ([`Outgoing`]).
//!
//! The one difficulty: everything that a peer may make us keep or do is bounded by a named limit
//! ([`Limits`]).

mod connection;
mod error;
mod flood;
mod frame;
mod limits;
pub mod qpack;
mod settings;
mod stream;
mod varint;

pub use connection::{Connection, DataHeader, Event, HeadEncoder, OpenError, Outgoing};
pub use error::{ConnectionError, ErrorCode, Reason};
pub use limits::Limits;
pub use qpack::Indexing;
pub use saker_http_mux::{HeadFault, HeadRefusal, HeadStore, Priority};
