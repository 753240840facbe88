//! HTTP/2 towards servers: requests that share connections.
//!
//! A connection ([`Link`]) is driven by a task of its own (`driver`), which reads, passes the input
//! to the streams, and sends their output. A request ([`StreamExchange`]) is polled by its response code,
//! like an exchange with a program. `acquire` assigns requests to connections and decides when to
//! open another.
//! Caveat: a request may be canceled, a stream refused, or a connection ended at any moment, and
//! each request has to learn whether another member may be tried.
//!
//! Absent on purpose: server push, which we refuse (RFC 9113 section 8.4), and extended CONNECT
//! towards servers.

mod acquire;
mod driver;
mod heads;
mod link;
mod links;
mod stream_exchange;
mod waiting;

pub use acquire::acquire;
pub use heads::encode;
pub use links::Links;
pub use stream_exchange::StreamExchange;
