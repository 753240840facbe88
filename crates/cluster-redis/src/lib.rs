//! A cluster's state on a Redis or Valkey server.
//!
//! Called by: the server process, which hands a [`RedisEngine`] to `saker_cluster`.
//! Purges are entries of the stream `PREFIX:purges` with one field; the states of servers are in
//! the hash `PREFIX:nodes`, bans in `PREFIX:bans`, with feeds of their changes and of charges in
//! `PREFIX:ban-feed` and `PREFIX:charges`; values and locks are the keys `PREFIX:state:NAME` and
//! `PREFIX:lock:NAME`. Works with Redis 5 and later; commands: XADD, XRANGE, XREVRANGE, XREAD, HSET,
//! HGETALL, HSCAN, HDEL, GET, SET, EVAL.
//! Caveat: the size of an answer is bounded while it is received, because other software may write
//! to the keys.
//! Out of scope: Redis Cluster and Sentinel; the address is that of one primary server.

mod bounded;
mod connection;
mod entries;
mod redis_feeds;
mod redis_log;
mod redis_state;

pub use redis_feeds::RedisFeeds;
pub use redis_log::RedisLog;
pub use redis_state::RedisState;

use connection::{Connection, Driver, failed};
use redis::{AsyncConnectionConfig, RedisConnectionInfo, aio::MultiplexedConnection};
use rustls::pki_types::ServerName;
use saker_cluster::{Engine, FeedsEngine, LogError, StateEngine, tls_client_config};
use std::{path::PathBuf, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::spawn_local,
};
use tokio_rustls::TlsConnector;

/// Address of a Redis server, and what is done there.
#[derive(Clone)]
pub struct RedisEngine {
    /// Name or address, without brackets.
    pub host: String,
    pub port: u16,
    pub is_tls: bool,
    pub user: Option<String>,
    pub password: Option<String>,
    pub database: i64,
    /// Certificates of authorities for `is_tls`, instead of the system's.
    pub authorities: Option<PathBuf>,
    /// Begin of the names of all keys.
    pub prefix: String,
    /// Entries that the stream keeps, approximately.
    pub retention: u64,
}

impl Engine for RedisEngine {
    type Log = RedisLog;

    /// To be called within a `LocalSet`.
    async fn connect(&self) -> Result<RedisLog, LogError> {
        Ok(RedisLog::new(self, self.open().await?))
    }

    fn shown(&self) -> String {
        RedisEngine::shown(self)
    }
}

impl FeedsEngine for RedisEngine {
    type Feeds = RedisFeeds;

    /// To be called within a `LocalSet`.
    async fn connect_feeds(&self) -> Result<RedisFeeds, LogError> {
        Ok(RedisFeeds::new(self, self.open().await?))
    }

    fn shown(&self) -> String {
        RedisEngine::shown(self)
    }
}

impl StateEngine for RedisEngine {
    type State = RedisState;

    /// To be called within a `LocalSet`.
    async fn connect_state(&self) -> Result<RedisState, LogError> {
        Ok(RedisState::new(self, self.open().await?))
    }

    fn shown(&self) -> String {
        RedisEngine::shown(self)
    }
}

impl RedisEngine {
    async fn open(&self) -> Result<Connection, LogError> {
        let tcp = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(failed)?;
        tcp.set_nodelay(true).map_err(failed)?;
        if !self.is_tls {
            return self.converse(tcp).await;
        }
        let config = tls_client_config(self.authorities.as_deref()).map_err(LogError::Failed)?;
        let name = ServerName::try_from(self.host.clone()).map_err(failed)?;
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, tcp)
            .await
            .map_err(failed)?;
        self.converse(stream).await
    }

    /// The address, without credentials.
    fn shown(&self) -> String {
        let scheme = if self.is_tls { "rediss" } else { "redis" };
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        format!("{scheme}://{host}:{}/{}", self.port, self.database)
    }

    async fn converse(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Connection, LogError> {
        let (stream, budget) = bounded::bound(stream);
        budget.refill();
        let mut info = RedisConnectionInfo::default()
            .set_db(self.database)
            .set_skip_set_lib_name();
        if let Some(user) = &self.user {
            info = info.set_username(user);
        }
        if let Some(password) = &self.password {
            info = info.set_password(password);
        }
        // The caller bounds the time of each answer.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let handshake = MultiplexedConnection::new_with_config(&info, stream, config);
        let (connection, driver) = handshake.await.map_err(failed)?;
        let driver = Driver::new(spawn_local(driver).abort_handle());
        Ok(Connection::new(connection, driver, budget))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        let engine = RedisEngine {
            host: "::1".into(),
            port: 6379,
            is_tls: true,
            user: Some("bob".into()),
            password: Some("s3cret".into()),
            database: 2,
            authorities: None,
            prefix: "saker".into(),
            retention: 1,
        };
        assert_eq!(engine.shown(), "rediss://[::1]:6379/2");
    }
}
