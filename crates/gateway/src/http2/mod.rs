//! HTTP/2 towards servers: requests that share connections.
//!
//! A connection ([`Link`]) is driven by a task of its own (`driver`), which reads, hands what it
//! read to the streams, and sends what they have put before it. A request ([`Talk`]) is polled by
//! whoever answers it, as a conversation with a program is. Which connection a request goes to, and
//! when another one is made, is `links`' business. The one difficulty is that a request may go, a
//! stream be refused, or a connection end at any moment, and that each request has to learn whether
//! somebody else may be asked.
//!
//! Absent on purpose: server push, which we refuse (RFC 9113 section 8.4), and extended CONNECT
//! towards servers.

mod driver;
mod heads;
mod link;
mod links;
mod talk;

pub use heads::encode;
pub use links::Links;
pub use talk::Talk;
