//! Values and locks as rows.
//!
//! Called by: `saker_cluster`, through [`Store`] and [`Lock`].
//! A statement compares the lock's token in the same step in which it writes, prolongs, or ends, by
//! the database's clock, so that a server whose lock has ended writes nothing.
//! Caveat: a replica that takes over without the last writes may know no lock; then a certificate
//! may be ordered twice.
//! Out of scope: encryption.

use crate::{
    PostgresEngine,
    connection::{Connection, bytes, failed},
    tables::quoted,
};
use saker_cluster::{Lock, LogError, Store};
use sqlx::query;

/// Longer values are none of Saker's.
const VALUE_BYTES_MAX: i32 = 4 << 20;

/// The time in so many milliseconds, by the database's clock.
const IN_MS: &str = "clock_timestamp() + make_interval(secs => $1::double precision / 1000)";

pub struct PostgresState {
    connection: Connection,
    state: String,
    locks: String,
}

impl PostgresState {
    pub(crate) fn new(engine: &PostgresEngine, connection: Connection) -> PostgresState {
        PostgresState {
            connection,
            state: quoted(&engine.prefix, "state"),
            locks: quoted(&engine.prefix, "locks"),
        }
    }
}

impl PostgresState {
    /// Executes a statement about a lock with its time, name, and token; true if it holds then.
    async fn prolongs(
        &mut self,
        text: &str,
        name: &str,
        token: u64,
        life_ms: u64,
    ) -> Result<bool, LogError> {
        let done = query(text)
            .bind(ms(life_ms))
            .bind(name)
            .bind(token.cast_signed())
            .execute(self.connection.as_mut())
            .await;
        Ok(done.map_err(failed)?.rows_affected() == 1)
    }
}

impl Store for PostgresState {
    async fn get(&mut self, name: &str) -> Result<Option<Vec<u8>>, LogError> {
        let text = format!(
            "SELECT value FROM {} WHERE name = $1 AND octet_length(value) <= $2 \
             AND (until IS NULL OR until > clock_timestamp())",
            self.state
        );
        let found = query(&text).bind(name).bind(VALUE_BYTES_MAX);
        let row = found.fetch_optional(self.connection.as_mut()).await;
        match row.map_err(failed)? {
            Some(row) => bytes(&row, 0),
            None => Ok(None),
        }
    }

    async fn put(&mut self, name: &str, value: &[u8], token: u64) -> Result<bool, LogError> {
        // The lock's row stays as it is until the value is written.
        let text = format!(
            "WITH held AS (SELECT name FROM {} WHERE name = $1 AND token = $2 \
             AND until > clock_timestamp() FOR UPDATE) \
             INSERT INTO {} (name, value, until) SELECT name, $3, NULL FROM held \
             ON CONFLICT (name) DO UPDATE SET value = excluded.value, until = NULL",
            self.locks, self.state
        );
        let written = query(&text)
            .bind(name)
            .bind(token.cast_signed())
            .bind(value)
            .execute(self.connection.as_mut())
            .await
            .map_err(failed)?;
        Ok(written.rows_affected() == 1)
    }

    async fn lend(&mut self, name: &str, value: &[u8], life_ms: u64) -> Result<(), LogError> {
        let text = format!(
            "INSERT INTO {} (name, value, until) VALUES ($2, $3, {IN_MS}) \
             ON CONFLICT (name) DO UPDATE SET value = excluded.value, until = excluded.until",
            self.state
        );
        let lent = query(&text).bind(ms(life_ms)).bind(name).bind(value);
        let lent = lent.execute(self.connection.as_mut()).await;
        lent.map_err(failed)?;
        let over = format!(
            "DELETE FROM {} WHERE until <= clock_timestamp()",
            self.state
        );
        let removed = query(&over).execute(self.connection.as_mut()).await;
        removed.map(drop).map_err(failed)
    }
}

impl Lock for PostgresState {
    async fn acquire(&mut self, name: &str, life_ms: u64) -> Result<Option<u64>, LogError> {
        let mut token = [0; 8];
        aws_lc_rs::rand::fill(&mut token).map_err(|_| failed("no random bytes"))?;
        let token = u64::from_le_bytes(token);
        let locks = &self.locks;
        let text = format!(
            "INSERT INTO {locks} AS lock (name, token, until) VALUES ($2, $3, {IN_MS}) \
             ON CONFLICT (name) DO UPDATE SET token = excluded.token, until = excluded.until \
             WHERE lock.until <= clock_timestamp()"
        );
        let is_taken = self.prolongs(&text, name, token, life_ms).await?;
        Ok(is_taken.then_some(token))
    }

    async fn renew(&mut self, name: &str, token: u64, life_ms: u64) -> Result<bool, LogError> {
        let text = format!(
            "UPDATE {} SET until = {IN_MS} WHERE name = $2 AND token = $3 \
             AND until > clock_timestamp()",
            self.locks
        );
        self.prolongs(&text, name, token, life_ms).await
    }

    async fn release(&mut self, name: &str, token: u64) -> Result<(), LogError> {
        let text = format!("DELETE FROM {} WHERE name = $1 AND token = $2", self.locks);
        let ended = query(&text).bind(name).bind(token.cast_signed());
        let ended = ended.execute(self.connection.as_mut()).await;
        ended.map(drop).map_err(failed)
    }
}

fn ms(life_ms: u64) -> i64 {
    i64::try_from(life_ms).unwrap_or(i64::MAX)
}
