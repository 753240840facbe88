//! QUIC (RFC 9000, 9001, 9002; version 2 of RFC 9369) for a worker's own loop.
//!
//! Floor 3, beside `tls`. The protocol is quinn-proto's; here is what a server puts round it:
//! [`Endpoint`] takes datagrams, keeps the list of connections that have work and the heap of their
//! time limits, decides who gets in, and sends in batches; [`Connection`] has the verbs of streams
//! for a driver. No task, timer or socket of its own: the loop says what came and what time it is,
//! and a [`Sink`] takes what leaves, so tests run pairs of endpoints over memory. The difficulty is
//! 10,000 idle connections, which must cost a turn nothing, and clients that are not who they say
//! they are. Absent on purpose: HTTP/3 (crate `http3`), datagrams of RFC 9221, preferred addresses,
//! version negotiation within a connection (RFC 9368), because quinn-proto has no place for the
//! latter.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod congestion;
mod connection;
mod connection_id;
mod connection_stats;
mod counts;
mod crypto;
mod endpoint;
mod id;
mod qlog;
mod receive_window;
mod second_version;
mod secrets;
mod send_backlog;
mod settings;
mod sink;
mod time_limits;

pub use connection::{Connection, Event, Figures, Lost, Read, Written};
pub use connection_stats::ConnectionStats;
pub use counts::Counts;
pub use crypto::{
    ChooseConfig, Chosen, ClientCrypto, Hello, Label, ServerCrypto, TakeShown, Unusable,
};
pub use endpoint::{Admission, Endpoint, Settled};
pub use id::{Id, Place};
pub use qlog::{Recorder, Recording};
pub use secrets::{Secrets, TokenState};
pub use settings::{Congestion, Settings};
pub use sink::Sink;

/// RFC 9000 section 15 and RFC 9369 section 3.1.
pub const VERSION_1: u32 = 1;
pub const VERSION_2: u32 = 0x6b33_43cf;

#[cfg(test)]
mod tests;
