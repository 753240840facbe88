//! Exchanges of a multiplexed connection: the code that the drivers of HTTP/2 and HTTP/3 share.
//!
//! Called by: a driver, which reads bytes, passes them to its protocol machine, and reports events
//! to [`Exchanges`]; heads and content are sent through the driver's [`Wire`].
//! Caveat: a request that the route cache answers is answered at once; every other request is
//! dispatched in a task of its own and returns its response through the completion queue. Bodies
//! are sent in the order of the machine's scheduler (`pump`).
//! Out of scope: bytes, frames, sockets, and windows, which are the drivers'.

mod answer;
mod completion_queue;
mod dispatch;
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
mod wire;

pub use exchanges::{ByStream, Exchanges};
pub use limit::{Limit, Over, Pressure};
pub use wire::{Reset, StreamId, Wire};
