//! A cluster's state in a PostgreSQL database.
//!
//! Called by: the server process, which hands a [`PostgresEngine`] to `saker_cluster`.
//! The tables are named like the keys on Redis, `PREFIX:purges` and so on, and are made by the first
//! server that may. Works with PostgreSQL 11 and later.
//! Caveat: numbers of rows are taken before rows can be seen, so a reader could pass over one that
//! is committed late. All writers of a table take a lock of the transaction first (`append`).
//! Out of scope: several primary servers, and poolers that change the session between statements.

mod connection;
mod postgres_feeds;
mod postgres_log;
mod postgres_state;
mod tables;

pub use postgres_feeds::PostgresFeeds;
pub use postgres_log::PostgresLog;
pub use postgres_state::PostgresState;

use connection::Connection;
use saker_cluster::{Engine, FeedsEngine, LogError, StateEngine};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use std::path::PathBuf;

/// Address of a PostgreSQL server, and what is done there.
#[derive(Clone)]
pub struct PostgresEngine {
    /// Name or address, without brackets.
    pub host: String,
    pub port: u16,
    pub user: Option<String>,
    pub password: Option<String>,
    pub database: String,
    /// Certificates of authorities; TLS is demanded, and the server's name is verified. `None`: TLS
    /// where the server has it, which protects against listeners alone.
    pub authorities: Option<PathBuf>,
    /// Begin of the names of all tables.
    pub prefix: String,
    /// Purges that the log keeps.
    pub retention: u64,
}

impl Engine for PostgresEngine {
    type Log = PostgresLog;

    async fn connect(&self) -> Result<PostgresLog, LogError> {
        Ok(PostgresLog::new(self, self.open().await?))
    }

    fn shown(&self) -> String {
        PostgresEngine::shown(self)
    }
}

impl FeedsEngine for PostgresEngine {
    type Feeds = PostgresFeeds;

    async fn connect_feeds(&self) -> Result<PostgresFeeds, LogError> {
        Ok(PostgresFeeds::new(self, self.open().await?))
    }

    fn shown(&self) -> String {
        PostgresEngine::shown(self)
    }
}

impl StateEngine for PostgresEngine {
    type State = PostgresState;

    async fn connect_state(&self) -> Result<PostgresState, LogError> {
        Ok(PostgresState::new(self, self.open().await?))
    }

    fn shown(&self) -> String {
        PostgresEngine::shown(self)
    }
}

impl PostgresEngine {
    async fn open(&self) -> Result<Connection, LogError> {
        let mut options = PgConnectOptions::new_without_pgpass()
            .host(&self.host)
            .port(self.port)
            .database(&self.database)
            .application_name("saker");
        if let Some(user) = &self.user {
            options = options.username(user);
        }
        if let Some(password) = &self.password {
            options = options.password(password);
        }
        let options = match &self.authorities {
            Some(path) => options.ssl_mode(PgSslMode::VerifyFull).ssl_root_cert(path),
            None => options.ssl_mode(PgSslMode::Prefer),
        };
        Connection::open(options, &self.prefix).await
    }

    /// The address, without credentials.
    fn shown(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        format!("postgres://{host}:{}/{}", self.port, self.database)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        let engine = PostgresEngine {
            host: "::1".into(),
            port: 5432,
            user: Some("bob".into()),
            password: Some("s3cret".into()),
            database: "shop".into(),
            authorities: None,
            prefix: "saker".into(),
            retention: 1,
        };
        assert_eq!(engine.shown(), "postgres://[::1]:5432/shop");
    }
}
