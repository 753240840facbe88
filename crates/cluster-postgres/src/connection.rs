//! One connection, and a second one that is notified.
//!
//! Called by: `postgres_log`, `postgres_feeds` and `postgres_state`.
//! Caveat: a notification says only that there may be something; the one that waits looks again.
//! Out of scope: the time that an answer may take, which callers bound.

use crate::tables;
use saker_cluster::LogError;
use sqlx::{
    Connection as _, Executor, PgConnection, PgPool, Postgres, Row, Transaction,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions, PgRow},
    query,
};
use std::time::Duration;
use tokio::time::timeout;

/// Limit on making the connection that is notified.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);

/// Longer records are passed over, as if they were none.
const RECORD_BYTES_MAX: i32 = 256 << 10;

pub struct Connection {
    connection: PgConnection,
    options: PgConnectOptions,
    prefix: String,
    listener: Option<PgListener>,
}

impl Connection {
    pub async fn open(options: PgConnectOptions, prefix: &str) -> Result<Connection, LogError> {
        let connection = PgConnection::connect_with(&options).await.map_err(failed)?;
        let mut connection = Connection {
            connection,
            options,
            prefix: prefix.to_owned(),
            listener: None,
        };
        connection.make_tables().await?;
        Ok(connection)
    }

    async fn make_tables(&mut self) -> Result<(), LogError> {
        let last = tables::quoted(&self.prefix, "locks");
        let found = query("SELECT to_regclass($1) IS NOT NULL").bind(last);
        let row = found
            .fetch_one(&mut self.connection)
            .await
            .map_err(failed)?;
        if row.try_get(0).map_err(failed)? {
            return Ok(());
        }
        let statements = tables::statements(&self.prefix);
        let mut transaction = self.locked("tables").await?;
        for statement in &statements {
            transaction
                .execute(statement.as_str())
                .await
                .map_err(failed)?;
        }
        transaction.commit().await.map_err(failed)
    }

    /// A transaction that is the only one with that name, until its end.
    pub async fn locked(&mut self, name: &str) -> Result<Transaction<'_, Postgres>, LogError> {
        let name = format!("{}:{name}", self.prefix);
        let mut transaction = self.connection.begin().await.map_err(failed)?;
        query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))")
            .bind(name)
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        Ok(transaction)
    }

    pub fn as_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// Waits until there may be something new in a table, for `wait_ms` at most. To be called
    /// after [`Connection::listen`], and after a look that has found nothing.
    pub async fn notified(&mut self, wait_ms: u64) -> Result<(), LogError> {
        let Some(listener) = &mut self.listener else {
            return Err(failed("nothing is listened to"));
        };
        match timeout(Duration::from_millis(wait_ms), listener.try_recv()).await {
            Err(_) => Ok(()),
            Ok(Ok(Some(_))) => Ok(()),
            Ok(Ok(None)) => Err(failed("the connection has ended")),
            Ok(Err(error)) => Err(failed(error)),
        }
    }

    /// Is notified of what is new in a table from now on.
    pub async fn listen(&mut self, name: &str) -> Result<(), LogError> {
        if self.listener.is_some() {
            return Ok(());
        }
        let pool: PgPool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(CONNECT_TIME_MAX)
            .connect_lazy_with(self.options.clone());
        let mut listener = PgListener::connect_with(&pool).await.map_err(failed)?;
        let channel = format!("{}:{name}", self.prefix);
        listener.listen(&channel).await.map_err(failed)?;
        self.listener = Some(listener);
        Ok(())
    }
}

/// Tells those who listen, when the transaction ends.
pub async fn notify(
    transaction: &mut Transaction<'_, Postgres>,
    prefix: &str,
    name: &str,
) -> Result<(), LogError> {
    query("SELECT pg_notify($1, '')")
        .bind(format!("{prefix}:{name}"))
        .execute(&mut **transaction)
        .await
        .map(drop)
        .map_err(failed)
}

/// The column of records: `NULL` for one that is too long to be Saker's.
pub fn record_column() -> String {
    format!("CASE WHEN octet_length(record) <= {RECORD_BYTES_MAX} THEN record END")
}

pub fn number(row: &PgRow, at: usize) -> Result<u64, LogError> {
    row.try_get::<i64, _>(at)
        .map(i64::cast_unsigned)
        .map_err(failed)
}

pub fn bytes(row: &PgRow, at: usize) -> Result<Option<Vec<u8>>, LogError> {
    row.try_get(at).map_err(failed)
}

pub fn failed(error: impl std::fmt::Display) -> LogError {
    LogError::Failed(error.to_string())
}
