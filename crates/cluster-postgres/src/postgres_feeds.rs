//! Feeds of bans and charges, and the table of bans.
//!
//! Called by: `saker_cluster`, through [`Feeds`].
//! Caveat: the feeds are short: who misses a record compares the table. The first part of a place is
//! the database's time, since the age of a charge matters; the second one is the row's number.
//! Out of scope: the content of records.

use crate::{
    PostgresEngine,
    connection::{Connection, bytes, failed, notify, number, record_column},
    tables::quoted,
};
use saker_cluster::{BanRow, Entry, EntryId, Feed, Feeds, LogError};
use sqlx::{Row, postgres::PgRow, query};

/// Records that both feeds keep together.
const LENGTH: i64 = 20_000;

/// Records read at a time.
const RECORDS_MAX: i64 = 512;

/// Rows of the table that are read at a time.
const ROWS: usize = 500;

/// The name of the table and of its channel.
const FEEDS: &str = "feeds";

pub struct PostgresFeeds {
    connection: Connection,
    prefix: String,
    feeds: String,
    bans: String,
}

impl PostgresFeeds {
    pub(crate) fn new(engine: &PostgresEngine, connection: Connection) -> PostgresFeeds {
        PostgresFeeds {
            connection,
            feeds: quoted(&engine.prefix, FEEDS),
            bans: quoted(&engine.prefix, "bans"),
            prefix: engine.prefix.clone(),
        }
    }

    async fn look(&mut self, after: [EntryId; 2]) -> Result<[Vec<Entry>; 2], LogError> {
        let text = format!(
            "SELECT feed, id, (extract(epoch FROM at) * 1000)::bigint, {} FROM {} \
             WHERE id > CASE feed WHEN 0 THEN $1 ELSE $2 END AND id > least($1, $2) \
             ORDER BY id LIMIT $3",
            record_column(),
            self.feeds
        );
        let [bans, charges] = after.map(|place| place.minor.cast_signed());
        let rows = query(&text)
            .bind(bans)
            .bind(charges)
            .bind(RECORDS_MAX)
            .fetch_all(self.connection.as_mut())
            .await
            .map_err(failed)?;
        let mut read = [Vec::new(), Vec::new()];
        for row in &rows {
            let feed: i16 = row.try_get(0).map_err(failed)?;
            let into = usize::try_from(feed).ok().and_then(|at| read.get_mut(at));
            if let Some(into) = into {
                into.push(entry(row)?);
            }
        }
        Ok(read)
    }
}

impl Feeds for PostgresFeeds {
    async fn ends(&mut self) -> Result<[EntryId; 2], LogError> {
        let text = format!("SELECT coalesce(max(id), 0) FROM {}", self.feeds);
        let row = query(&text).fetch_one(self.connection.as_mut()).await;
        let (major, minor) = (0, number(&row.map_err(failed)?, 0)?);
        Ok([EntryId { major, minor }; 2])
    }

    async fn receive(
        &mut self,
        after: [EntryId; 2],
        wait_ms: u64,
    ) -> Result<[Vec<Entry>; 2], LogError> {
        self.connection.listen(FEEDS).await?;
        let read = self.look(after).await?;
        if read.iter().any(|entries| !entries.is_empty()) {
            return Ok(read);
        }
        self.connection.notified(wait_ms).await?;
        self.look(after).await
    }

    async fn send(&mut self, feed: Feed, record: &[u8]) -> Result<(), LogError> {
        let feed = match feed {
            Feed::Bans => 0_i16,
            Feed::Charges => 1,
        };
        let insert = format!(
            "INSERT INTO {} (feed, record) VALUES ($1, $2) RETURNING id",
            self.feeds
        );
        let trim = format!("DELETE FROM {} WHERE id <= $1", self.feeds);
        let mut transaction = self.connection.locked(FEEDS).await?;
        let inserted = query(&insert).bind(feed).bind(record);
        let row = inserted
            .fetch_one(&mut *transaction)
            .await
            .map_err(failed)?;
        query(&trim)
            .bind(number(&row, 0)?.cast_signed().saturating_sub(LENGTH))
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        notify(&mut transaction, &self.prefix, FEEDS).await?;
        transaction.commit().await.map_err(failed)
    }

    async fn bans(&mut self, cursor: u64) -> Result<(u64, Vec<BanRow>), LogError> {
        let text = format!(
            "SELECT number, left(name, 256), {} FROM {} WHERE number > $1 ORDER BY number LIMIT $2",
            record_column(),
            self.bans
        );
        let found = query(&text)
            .bind(cursor.cast_signed())
            .bind(ROWS as i64)
            .fetch_all(self.connection.as_mut())
            .await
            .map_err(failed)?;
        let next = match found.last() {
            Some(last) if found.len() == ROWS => number(last, 0)?,
            _ => 0,
        };
        let mut rows = Vec::with_capacity(found.len());
        for row in &found {
            let name = row.try_get(1).map_err(failed)?;
            rows.extend(bytes(row, 2)?.map(|record| (name, record)));
        }
        Ok((next, rows))
    }

    async fn keep_ban(&mut self, name: &str, record: &[u8]) -> Result<(), LogError> {
        let text = format!(
            "INSERT INTO {} (name, record) VALUES ($1, $2) \
             ON CONFLICT (name) DO UPDATE SET record = excluded.record",
            self.bans
        );
        let kept = query(&text).bind(name).bind(record);
        let kept = kept.execute(self.connection.as_mut()).await;
        kept.map(drop).map_err(failed)
    }

    async fn forget_ban(&mut self, name: &str) -> Result<(), LogError> {
        let text = format!("DELETE FROM {} WHERE name = $1", self.bans);
        let removed = query(&text).bind(name).execute(self.connection.as_mut());
        removed.await.map(drop).map_err(failed)
    }
}

fn entry(row: &PgRow) -> Result<Entry, LogError> {
    Ok(Entry {
        id: EntryId {
            major: number(row, 2)?,
            minor: number(row, 1)?,
        },
        payload: bytes(row, 3)?,
    })
}
