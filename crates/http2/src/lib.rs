//! HTTP/2 (RFC 9113) with HPACK (RFC 7541) as a machine over bytes, for both roles.
//!
//! Floor 2: knows no socket, clock, log or configuration. The driver in `server` reads bytes and
//! hands them to [`Connection::receive`] until they are used up; it answers by verbs (`send_head`,
//! `begin_data`…) that append frames to a buffer which the driver lends, so that the frames of many
//! streams leave in one write. Faults of the peer become frames too (RST_STREAM, GOAWAY), and a
//! reason for the log.
//!
//! The one difficulty: everything that a peer may make us keep or do is bounded by a named limit
//! ([`Limits`]).

mod connection;
mod error;
mod flood;
mod frame;
pub mod hpack;
mod limits;
mod settings;
mod stream;
mod streams;
mod window;

pub use connection::{Connection, Event, HeadEncoder, OpenError, PREFACE};
pub use error::{ConnectionError, ErrorCode, Reason};
pub use limits::Limits;
pub use saker_http_mux::{HeadFault, HeadRefusal, HeadStore, Indexing, Priority};
pub use stream::StreamId;

// Tests of the public interface name the crate as its users do.
#[cfg(test)]
extern crate self as saker_http2;
#[cfg(test)]
mod tests;
