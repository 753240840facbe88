//! The HTTP/1 driver: bytes in, heads parsed, exchanges answered, bytes out.
//!
//! Called by: `accept`, for plain connections and for TLS connections that negotiate HTTP/1.1.
//! Caveat: a request that the route cache answers is served within one poll (`inbound`): one recv,
//! one send, no allocation. Every other request becomes an `Exchange` and is dispatched
//! (`dispatch`). Buffers belong to the worker and are borrowed only while there are bytes, so an
//! idle connection holds none.
//! Out of scope: parsing and encoding (crate `http1`).

mod connection;
mod dispatch;
mod head;
mod idle;
mod inbound;
mod outgoing;
mod reply;
mod request_body;
mod run;
mod start;
mod step;
mod tunnel;
mod turn;
mod unsound;
mod upgrade;
mod watch;

pub use start::{first_read, run};
