//! Values and locks that all servers of a cluster have: what automatic certificates need.
//!
//! Called by: `saker_acme`, through [`SharedState`], and the server process, which starts it.
//! Values are encrypted with the cluster's secret before they leave the server. A value is written
//! by the holder of its lock alone: engines compare the lock's token when they write, so that a
//! server that was paused for longer than its lock lives cannot write over its successor's work.
//! Caveat: an engine that does not answer is an error that callers bear by trying later.
//! Out of scope: the content of values.

mod folder;
mod node;
mod store;

pub use folder::FolderEngine;
pub use node::{Held, SharedState, StateNode};
pub use store::{Lock, StateEngine, Store};
