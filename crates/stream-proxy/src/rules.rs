//! Questions about a session that a front end answers.
//!
//! Called by: the listeners (before TLS), and the engine (behind it).
//! Caveat: an answer must not wait, except for the way of a session, which may have names to look up.

use crate::session::Session;
use saker_config::model::{AccessLogTarget, Address, Upstream};
use saker_pipeline::LocalFuture;
use saker_rate_limits::Counted;
use std::sync::Arc;

/// The way a session goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Sends a text and ends the session.
    Return(Vec<u8>),
    /// Goes to a member of an upstream, chosen by the key where it balances by one.
    Proxy(Arc<Upstream>, Vec<u8>),
    /// Ends with a status: there is no way.
    End(u16),
}

/// The way of a session, at once or later.
pub enum NextAction<'a> {
    Now(Action),
    Later(LocalFuture<'a, Action>),
}

impl NextAction<'_> {
    /// Waits for the way, if need be.
    pub async fn settled(self) -> Action {
        match self {
            NextAction::Now(action) => action,
            NextAction::Later(action) => action.await,
        }
    }
}

impl From<Action> for NextAction<'_> {
    fn from(action: Action) -> Self {
        NextAction::Now(action)
    }
}

/// Decisions about sessions.
pub trait StreamRules {
    /// Returns the targets of the logs, by their numbers.
    fn log_targets(&self) -> &[AccessLogTarget];

    /// Settles the client's address. Called when a PROXY header, if any, has been read.
    fn settle_client(&self, session: &mut Session);

    /// Takes places where connections are limited; they are given back when the result is dropped.
    ///
    /// # Errors
    /// There are too many; the status of the session.
    fn limit(&self, session: &mut Session) -> Result<Vec<Counted>, u16>;

    /// Returns true if the client may use the server.
    fn is_allowed(&self, session: &mut Session) -> bool;

    /// Settles the server of a session that several share an address with. Called when the
    /// session's TLS stands, and again when its hello has been read.
    ///
    /// # Errors
    /// The server does not take the session; its status.
    fn settle_server(&self, _session: &mut Session) -> Result<(), u16> {
        Ok(())
    }

    /// Returns the listener of HTTP that takes the connection over, or the status of its end.
    /// `None`: the session goes on by its [`action`](StreamRules::action).
    fn listener(&self, _session: &mut Session) -> Option<Result<Address, u16>> {
        None
    }

    /// Sets the session's variables. Called when its TLS stands, and before its hello is read.
    fn prepare(&self, session: &mut Session);

    /// Returns the way a session goes on. Called when its TLS stands, or its hello has been read.
    fn action<'a>(&'a self, session: &'a mut Session) -> NextAction<'a>;

    /// Returns the status of a session whose upstream broke the connection that it had taken.
    fn status_of_cut(&self) -> u16 {
        crate::status::BAD_GATEWAY
    }

    /// Writes the lines about a session that has ended: number of the log, and text.
    fn log(&self, session: &mut Session, write: &mut dyn FnMut(usize, &[u8]));
}
