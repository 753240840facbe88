//! Servers that share the purges of their page caches over a real Redis server, and over PostgreSQL
//! and NATS.
//!
//! Called by: `cargo test -p saker --test operation cluster::MODULE::`, one module per subject.
//! Caveat: the servers of a test listen on one port of several loopback addresses, since keys of
//! pages have the port of the listener. Pages carry the generation of the origin's content, so that
//! a stale one is told byte for byte.
//! Out of scope: the state machine on damaged records (crates/cluster).

mod certificates;
mod clients;
mod events;
mod fleet;
mod hostile;
mod nats;
mod nats_server;
mod origin;
mod outages;
mod peer_attacks;
mod peer_certificates;
mod peers;
mod postgres;
mod purges;
mod redis_server;
mod relay;
mod secured;

pub use peer_certificates::Certificates;
