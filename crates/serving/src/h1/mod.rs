//! Drives HTTP/1 connections: bytes in, heads parsed, exchanges answered, bytes out.
//!
//! Place in the walk: top and bottom. A request that a resolved resource can answer is served
//! within one poll (`turn.rs`): one recv, one send, no allocation. Everything else becomes an
//! `Exchange` and takes the walk (`walk.rs`). The difficulty is to hold nothing while idle: buffers
//! belong to the worker and are borrowed only while there are bytes.

mod connection;
mod head;
mod inbound;
mod outgoing;
mod request_body;
mod run;
mod start;
mod step;
mod tunnel;
mod turn;
mod upgrade;
mod walk;
mod watch;

pub use start::{first_read, run};
