//! Shared parts of integration tests and benchmarks: server processes, a raw HTTP/1.1 client, the
//! peers, and process figures.
//!
//! Nothing here knows Saker's own crates: a server is a command and an address, so that the same
//! tests can be pointed at a peer. The one difficulty is cleaning up: a failing test unwinds, so
//! processes and folders go away in `Drop`. Absent on purpose: asynchronous clients (a test reads
//! better top to bottom) and TLS.

pub mod apache2;
pub mod bench_files;
mod client;
pub mod conformance;
mod dice;
pub mod frames;
mod heavy;
pub mod mmdb;
mod own_process;
pub mod pebble;
mod peers;
mod process;
mod process_figures;
mod readiness;
mod require;
pub mod saker;
mod standard_error;
mod system_calls;
mod temp_dir;
mod wait;

pub use client::{Client, Response};
pub use dice::Dice;
pub use heavy::{HeavyTurn, heavy};
pub use own_process::ran_in_own_process;
pub use pebble::Pebble;
pub use peers::{KEPT, Peer, PeerSetting, PeerSite, PeerTls, SESSION_COOKIE};
pub use process::{
    ServerProcess, Signal, free_port, free_port_among, pause_process, raise_descriptor_limit,
};
pub use process_figures::{Memory, ProcessTree};
pub use require::{OPENSSL_CLIENT, debian_package, missing, require};
pub use saker::Saker;
pub use system_calls::{Calls, SystemCalls};
pub use temp_dir::TempDir;
pub use wait::{
    PATIENCE, holds_for, keep_waiting, poll, wait_for, wait_for_text, wait_until, wait_until_or,
    wait_until_settled,
};
