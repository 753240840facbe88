//! HTTP/1.0 and 1.1 (RFC 9112) as pure functions over bytes, for both roles.
//!
//! Floor 2: knows no socket, clock, log or configuration. The driver in `server` reads bytes, asks
//! [`parse_request`] and [`check_request`] for the head, [`ChunkedDecoder`] for content, and writes
//! what [`encode_head`] made. A [`Reject`] says which status the client gets and which words the
//! log gets; the connection is closed after it, always.
//!
//! The one difficulty is shared by all modules: what two implementations may read differently must
//! be refused, so that this one can stand before or behind any other. `tests/conformance/http1` in
//! the repository holds the cases.
//!
//! Absent on purpose: a connection object that owns buffers. Buffers belong to the driver, which
//! lends one per core.

pub mod chunked;
pub mod client;
pub mod framing;
mod limits;
mod octets;
mod plain;
pub mod reject;
pub mod repair;
pub mod request;
pub mod response;
pub mod scanner;
mod strict;
mod trailers;

pub use chunked::{
    CHUNK_END, ChunkLimits, ChunkedDecoder, Decoded, encode_chunk_head, encode_last_chunk,
};
pub use framing::{
    BodyFraming, Expectation, check_host, check_request, check_target, checked, expectation,
    keep_alive, request_framing, upgrade,
};
pub use reject::{Reject, RejectReason};
pub use repair::{Repair, Repaired, is_repairable, repair};
pub use request::{METHOD_BYTES_MAX, Parsed, RequestLimits, parse_request};
pub use response::{Connection, HeadExtra, ResponseFraming, encode_head, encode_informational};
pub use scanner::HeadScanner;
pub use trailers::is_forbidden_trailer;

// Tests of the public interface name the crate as its users do.
#[cfg(test)]
extern crate self as saker_http1;
#[cfg(test)]
mod tests;
