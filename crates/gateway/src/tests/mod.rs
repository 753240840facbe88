//! Tests of the crate through its public interface.
//!
//! Called by: `cargo test -p saker-gateway --lib tests::MODULE::`, one module per subject.
//! Caveat: modules run side by side in one process; what counts descriptors, children, or memory
//! runs in a process of its own.
//! Out of scope: private functions, which are tested beside their code.

mod bench;
mod faults;
mod http2;
mod processes;
mod programs;
mod tunnels;
mod uploads;
