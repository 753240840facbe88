//! Drives HTTP/2 connections: frames in, exchanges answered, frames of many streams out in one
//! write.
//!
//! Place in the walk: as `driver_h1`. What frames ask for is done by [`Exchanges`], which HTTP/3
//! shares; what is here is HTTP/2's: its transport, its one output (`wire.rs`), how it begins
//! (`start.rs`) and ends (`wait.rs`). The difficulty is the number of things that one wake-up may
//! be about; [`Connection::poll_turn`] is the one list of them.

mod connection;
mod head;
mod inbound;
mod start;
mod turn;
mod wait;
mod wire;

pub use start::{Beginning, run};
