//! Purges as rows, in the order in which they were committed.
//!
//! Called by: `saker_cluster`, through [`Log`].
//! Out of scope: the content of records.

use crate::{
    PostgresEngine,
    connection::{Connection, bytes, failed, notify, number, record_column},
    tables::quoted,
};
use saker_cluster::{Entry, EntryId, Log, LogError};
use sqlx::{Row, postgres::PgRow, query};

/// Servers whose states are read.
const NODES_MAX: i64 = 1100;

/// The name of the table and of its channel.
const PURGES: &str = "purges";

pub struct PostgresLog {
    connection: Connection,
    prefix: String,
    purges: String,
    nodes: String,
    retention: i64,
}

impl PostgresLog {
    pub(crate) fn new(engine: &PostgresEngine, connection: Connection) -> PostgresLog {
        PostgresLog {
            connection,
            purges: quoted(&engine.prefix, PURGES),
            nodes: quoted(&engine.prefix, "nodes"),
            prefix: engine.prefix.clone(),
            retention: i64::try_from(engine.retention).unwrap_or(i64::MAX),
        }
    }
}

impl Log for PostgresLog {
    async fn newest(&mut self) -> Result<Option<Entry>, LogError> {
        let text = format!(
            "SELECT id, {} FROM {} ORDER BY id DESC LIMIT 1",
            record_column(),
            self.purges
        );
        let row = query(&text).fetch_optional(self.connection.as_mut()).await;
        row.map_err(failed)?.as_ref().map(entry).transpose()
    }

    async fn read_from(
        &mut self,
        from: EntryId,
        records_max: usize,
    ) -> Result<Vec<Entry>, LogError> {
        let text = format!(
            "SELECT id, {} FROM {} WHERE id >= $1 ORDER BY id LIMIT $2",
            record_column(),
            self.purges
        );
        let rows = query(&text)
            .bind(from.major.cast_signed())
            .bind(records_max as i64)
            .fetch_all(self.connection.as_mut())
            .await;
        rows.map_err(failed)?.iter().map(entry).collect()
    }

    async fn wait_after(&mut self, id: EntryId, wait_ms: u64) -> Result<(), LogError> {
        self.connection.listen(PURGES).await?;
        let text = format!(
            "SELECT EXISTS (SELECT 1 FROM {} WHERE id > $1)",
            self.purges
        );
        let row = query(&text)
            .bind(id.major.cast_signed())
            .fetch_one(self.connection.as_mut())
            .await
            .map_err(failed)?;
        match row.try_get(0).map_err(failed)? {
            true => Ok(()),
            false => self.connection.notified(wait_ms).await,
        }
    }

    async fn append(&mut self, records: &[Vec<u8>]) -> Result<Option<EntryId>, LogError> {
        let insert = format!(
            "INSERT INTO {} (record) VALUES ($1) RETURNING id",
            self.purges
        );
        let trim = format!("DELETE FROM {} WHERE id <= $1", self.purges);
        let mut transaction = self.connection.locked(PURGES).await?;
        let mut last = None;
        for record in records {
            let inserted = query(&insert).bind(record).fetch_one(&mut *transaction);
            last = Some(number(&inserted.await.map_err(failed)?, 0)?);
        }
        if let Some(last) = last {
            query(&trim)
                .bind(last.cast_signed().saturating_sub(self.retention))
                .execute(&mut *transaction)
                .await
                .map_err(failed)?;
        }
        notify(&mut transaction, &self.prefix, PURGES).await?;
        transaction.commit().await.map_err(failed)?;
        Ok(last.map(place))
    }

    async fn announce(&mut self, id: &str, state: &str) -> Result<(), LogError> {
        let text = format!(
            "INSERT INTO {} (id, state) VALUES ($1, $2) \
             ON CONFLICT (id) DO UPDATE SET state = excluded.state",
            self.nodes
        );
        let written = query(&text).bind(id).bind(state);
        written
            .execute(self.connection.as_mut())
            .await
            .map(drop)
            .map_err(failed)
    }

    async fn states(&mut self) -> Result<Vec<(String, String)>, LogError> {
        let text = format!(
            "SELECT left(id, 64), left(state, 1024) FROM {} ORDER BY id LIMIT $1",
            self.nodes
        );
        let rows = query(&text)
            .bind(NODES_MAX)
            .fetch_all(self.connection.as_mut())
            .await
            .map_err(failed)?;
        let pair = |row: &PgRow| {
            Ok((
                row.try_get(0).map_err(failed)?,
                row.try_get(1).map_err(failed)?,
            ))
        };
        rows.iter().map(pair).collect()
    }

    async fn forget(&mut self, id: &str) -> Result<(), LogError> {
        let text = format!("DELETE FROM {} WHERE id = $1", self.nodes);
        let removed = query(&text).bind(id).execute(self.connection.as_mut());
        removed.await.map(drop).map_err(failed)
    }
}

fn entry(row: &PgRow) -> Result<Entry, LogError> {
    Ok(Entry {
        id: place(number(row, 0)?),
        payload: bytes(row, 1)?,
    })
}

fn place(id: u64) -> EntryId {
    EntryId {
        major: id,
        minor: 0,
    }
}
