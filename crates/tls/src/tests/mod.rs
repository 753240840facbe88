//! Handshakes and records against two other implementations: rustls' own client in memory, and
//! OpenSSL's over a socket.
//!
//! Called by: `cargo test -p saker-tls --lib tests::MODULE::`, one module per subject.
//! Caveat: modules run side by side in one process; `memory` starts a process of its own.
//! Out of scope: private functions, which are tested beside their code.

#![allow(clippy::unwrap_used, clippy::panic)]

mod authority;
mod client_certificates;
mod loading;
mod memory;
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
