//! Handshakes and records against two other implementations: rustls' own client in memory, and
//! OpenSSL's over a socket.

#![allow(clippy::unwrap_used, clippy::panic)]

mod authority;
mod client_certificates;
mod loading;
mod names;
mod openssl;
mod pair;
mod raw;
mod record_rules;
mod records;
mod resumption;
mod run_time;
mod servers;
mod swaps;
