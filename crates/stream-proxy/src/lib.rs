//! Streams: TCP connections and UDP datagrams that are passed on to upstreams as they come.
//!
//! A session is one TCP connection, or the datagrams of one client within a time. [`tcp`] and
//! [`datagrams`] serve sessions; a front end decides about each through [`StreamRules`].
//!
//! Called by: the listeners of `saker-serving`, which accept, read PROXY headers, and end TLS.
//! Caveat: an idle session holds its sockets and a deadline, and no buffer.
//! Out of scope: configuration languages; members of upstreams, which `saker-gateway` knows.

mod attempt;
mod complaint;
pub mod datagrams;
mod held_peers;
mod idle;
mod pace;
mod relay;
mod rules;
mod session;
mod steps;
mod tcp;
mod variables;

pub use attempt::Attempt;
pub use relay::{Relay, RelayEnd};
pub use rules::{Action, NextAction, StreamRules};
pub use session::{Session, SessionProtocol, SessionVariables};
pub use steps::log_beginning;
pub use tcp::serve;

use saker_gateway::StreamMembers;
use saker_net::Deadlines;
use std::{cell::RefCell, rc::Rc};

/// Size of one read.
const READ_BYTES_MAX: usize = 64 << 10;

/// State that the sessions of a worker share.
pub struct StreamContext {
    pub rules: Rc<dyn StreamRules>,
    pub members: StreamMembers,
    deadlines: Rc<Deadlines>,
    /// For reads: lent while there are bytes.
    scratch: RefCell<Vec<u8>>,
}

impl StreamContext {
    /// `workers`: threads among which limits of members are shared.
    pub fn new(
        rules: Rc<dyn StreamRules>,
        deadlines: Rc<Deadlines>,
        workers: usize,
    ) -> StreamContext {
        StreamContext {
            rules,
            members: StreamMembers::new(workers),
            deadlines,
            scratch: RefCell::default(),
        }
    }
}

/// Statuses of sessions, as nginx's access log writes them.
pub mod status {
    pub const OK: u16 = 200;
    /// The client's first bytes could not be understood.
    pub const BAD_REQUEST: u16 = 400;
    pub const FORBIDDEN: u16 = 403;
    pub const INTERNAL_ERROR: u16 = 500;
    pub const BAD_GATEWAY: u16 = 502;
    /// A limit is reached.
    pub const UNAVAILABLE: u16 = 503;
}
