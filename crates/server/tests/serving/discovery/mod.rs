//! `[upstream.discover]`: servers by SRV records, Consul, Kubernetes, and Docker.
//!
//! Called by: `cargo test -p saker --test serving discovery::`.
//! Caveat: the APIs of Consul, Kubernetes, and Docker are the tests' own, after their
//! documentation: a blocking index, a watch with bookmarks and expired versions, events and lists
//! over a Unix socket.
//! Out of scope: reading the table (`tests/config`).

#![allow(clippy::unwrap_used)] // The whole folder is tests.

mod consul;
mod dns_srv;
mod docker;
mod fixture;
mod kubernetes;
mod over_tls;
