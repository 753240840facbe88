//! The cluster's log on a Redis or Valkey Stream.
//!
//! Called by: the server process, which hands a [`RedisEngine`] to `saker_cluster`.
//! Records are entries of the stream `PREFIX:purges` with one field; the states of servers are in
//! the hash `PREFIX:nodes`. Works with Redis 5 and later; commands: XADD, XRANGE, XREVRANGE, XREAD,
//! HSET, HGETALL, HDEL.
//! Caveat: the size of an answer is bounded while it is received, because other software may write
//! to the keys.
//! Out of scope: Redis Cluster and Sentinel; the address is that of one primary server.

mod bounded;
mod redis_log;
mod tls;

pub use redis_log::RedisLog;

use redis::{AsyncConnectionConfig, RedisConnectionInfo, aio::MultiplexedConnection};
use rustls::pki_types::ServerName;
use saker_cluster::{Engine, LogError};
use std::{path::PathBuf, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::{AbortHandle, spawn_local},
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
        let tcp = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(failed)?;
        tcp.set_nodelay(true).map_err(failed)?;
        if !self.is_tls {
            return self.converse(tcp).await;
        }
        let config = tls::config(self.authorities.as_deref()).map_err(LogError::Failed)?;
        let name = ServerName::try_from(self.host.clone()).map_err(failed)?;
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, tcp)
            .await
            .map_err(failed)?;
        self.converse(stream).await
    }

    fn shown(&self) -> String {
        let scheme = if self.is_tls { "rediss" } else { "redis" };
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        format!("{scheme}://{host}:{}/{}", self.port, self.database)
    }
}

impl RedisEngine {
    async fn converse(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<RedisLog, LogError> {
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
        let driver = Driver(spawn_local(driver).abort_handle());
        Ok(RedisLog::new(self, connection, driver, budget))
    }
}

/// The task that reads and writes a connection; ends with it.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn failed(error: impl std::fmt::Display) -> LogError {
    LogError::Failed(error.to_string())
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
