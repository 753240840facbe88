//! A cluster's state on NATS JetStream.
//!
//! Called by: the server process, which hands a [`NatsEngine`] to `saker_cluster`.
//! Purges are messages of the stream `PREFIX-purges`; the newest message of each subject counts in
//! the streams `PREFIX-nodes`, `PREFIX-bans`, `PREFIX-state` (values with their locks), and
//! `PREFIX-lent`. Feeds of bans and charges are plain subjects, which no stream keeps. Works with
//! nats-server 2.9 and later.
//! Caveat: streams that are there are used as they are, so that an operator may give them replicas
//! or another retention. A connection that breaks is not mended but reported: what has to be looked
//! at again is known to the caller.
//! Out of scope: NKeys, JWTs, and servers that the first one names.

mod connection;
mod messages;
mod names;
mod nats_feeds;
mod nats_log;
mod nats_state;
mod nodes;
mod streams;

pub use nats_feeds::NatsFeeds;
pub use nats_log::NatsLog;
pub use nats_state::NatsState;

use async_nats::ConnectOptions;
use connection::Connection;
use saker_cluster::{Engine, FeedsEngine, LogError, StateEngine, tls_client_config};
use std::path::PathBuf;

/// Address of a NATS server, and what is done there.
#[derive(Clone)]
pub struct NatsEngine {
    /// Name or address, without brackets.
    pub host: String,
    pub port: u16,
    pub is_tls: bool,
    pub user: Option<String>,
    /// Without a user: a token. A user without a password is a token, too.
    pub password: Option<String>,
    /// Certificates of authorities for `is_tls`, instead of the system's.
    pub authorities: Option<PathBuf>,
    /// Begin of the names of all streams and subjects.
    pub prefix: String,
    /// Messages that the stream of purges keeps, if it is made here.
    pub retention: u64,
}

impl Engine for NatsEngine {
    type Log = NatsLog;

    async fn connect(&self) -> Result<NatsLog, LogError> {
        NatsLog::open(self, self.open().await?).await
    }

    fn shown(&self) -> String {
        NatsEngine::shown(self)
    }
}

impl FeedsEngine for NatsEngine {
    type Feeds = NatsFeeds;

    async fn connect_feeds(&self) -> Result<NatsFeeds, LogError> {
        NatsFeeds::open(self, self.open().await?).await
    }

    fn shown(&self) -> String {
        NatsEngine::shown(self)
    }
}

impl StateEngine for NatsEngine {
    type State = NatsState;

    async fn connect_state(&self) -> Result<NatsState, LogError> {
        NatsState::open(self, self.open().await?).await
    }

    fn shown(&self) -> String {
        NatsEngine::shown(self)
    }
}

impl NatsEngine {
    async fn open(&self) -> Result<Connection, LogError> {
        let options = self.authorized(ConnectOptions::new());
        let options = match self.is_tls {
            true => {
                let config =
                    tls_client_config(self.authorities.as_deref()).map_err(LogError::Failed)?;
                options.require_tls(true).tls_client_config(config)
            }
            false => options,
        };
        Connection::open(&self.shown(), options).await
    }

    fn authorized(&self, options: ConnectOptions) -> ConnectOptions {
        match (self.user.clone(), self.password.clone()) {
            (Some(user), Some(password)) => options.user_and_password(user, password),
            (Some(token), None) | (None, Some(token)) => options.token(token),
            (None, None) => options,
        }
    }

    /// The address, without credentials.
    fn shown(&self) -> String {
        let scheme = if self.is_tls { "tls" } else { "nats" };
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        format!("{scheme}://{host}:{}", self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        let engine = NatsEngine {
            host: "::1".into(),
            port: 4222,
            is_tls: true,
            user: Some("bob".into()),
            password: Some("s3cret".into()),
            authorities: None,
            prefix: "saker".into(),
            retention: 1,
        };
        assert_eq!(engine.shown(), "tls://[::1]:4222");
    }
}
