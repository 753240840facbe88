//! Protocols of programs behind the gateway: CGI/1.1, FastCGI, LSAPI, SCGI, uwsgi, AJP, and memcached,
//! as pure functions over bytes.
//!
//! Floor 2: knows no socket, process, clock or log. Every protocol is a [`Dialogue`]; the engine
//! (`gateway`) owns connections and buffers, gives each dialogue what came, and does what its
//! [`Event`]s say. What is said about a request is made once, as [`Variables`].
//!
//! The one difficulty is shared by all modules: programs die, babble and cut their words anywhere,
//! so each codec must make the same of bytes however they are cut, keep a bounded amount of them,
//! and say by [`Broken`] what was wrong and whether the request may be given to another.
//!
//! Absent on purpose: HTTP towards an origin (`http1`, `http2` in the client role), pools, retries
//! and time limits (the engine's).

pub mod ajp;
pub mod dialogue;
pub mod fastcgi;
pub mod fault;
mod field_lines;
pub mod head;
pub mod lsapi;
pub mod memcached;
pub mod meta;
pub mod php;
pub mod plain_cgi;
pub mod response;
pub mod scgi;
pub mod test_peer;
pub mod uwsgi;
pub mod variables;

pub use ajp::Ajp;
pub use dialogue::{Dialogue, Event, FirstStatus, Level, ProgramRequest, ResponseHead, Setting};
pub use fastcgi::FastCgi;
pub use fault::{Broken, Fault, Refused};
pub use lsapi::{Lsapi, may_leave_content};
pub use memcached::Memcached;
pub use meta::{Facts, push_fields, push_meta_variables, push_redirected};
pub use plain_cgi::PlainCgi;
pub use scgi::Scgi;
pub use uwsgi::Uwsgi;
pub use variables::Variables;

// Tests of the public interface name the crate as its users do.
#[cfg(test)]
extern crate self as saker_cgi;
#[cfg(test)]
mod tests;
