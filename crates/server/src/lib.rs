//! The server's process: supervisor, workers as the main thread sees them, the registry.
//!
//! Called by: `main`, which hands both to the command line.
//! Caveat: this is the top floor; everything below is put together here. `process` runs on the
//! main thread, which serves no request; `registry` is the one list of handlers and filters.
//! Out of scope: serving (`saker-serving`), the control socket (`saker-control`), commands
//! (`saker-cli`).

pub mod process;
pub mod registry;
