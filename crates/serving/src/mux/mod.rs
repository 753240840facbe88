//! What drivers of protocols with many streams per connection (HTTP/2, HTTP/3) share: the exchanges
//! of one connection.
//!
//! Place in the walk: a driver reads bytes, asks its machine what they mean and tells [`Exchanges`]
//! (`requests.rs`); heads and content go out through the driver's [`Wire`]. A request that a
//! resolved resource can answer is answered at once; everything else walks in a task of its own
//! (`walk.rs`) and brings its response back through the [`CompletionQueue`]. Bodies are pumped in the order
//! that the machine's scheduler gives (`pump.rs`).
//!
//! Absent on purpose: bytes, frames, sockets and windows, which are the drivers'.

mod answer;
mod completion_queue;
mod exchanges;
pub mod head;
mod limit;
mod pump;
mod requests;
mod stream;
mod stream_body;
mod tunnel;
mod upload;
mod wait;
mod wakeups;
mod walk;
mod wire;

pub use exchanges::{ByStream, Exchanges};
pub use limit::{Limit, Over, Pressure};
pub use wire::{Reset, StreamId, Wire};
