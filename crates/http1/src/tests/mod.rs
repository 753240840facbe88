//! Tests of the crate through its public interface.
//!
//! Called by: `cargo test -p saker-http1 --lib tests::MODULE::`, one module per subject.
//! Caveat: modules run side by side in one process; what counts descriptors, children, or memory
//! runs in a process of its own.
//! Out of scope: private functions, which are tested beside their code.

mod conformance;
mod machine;
mod properties;
