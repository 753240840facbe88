//! Feeds of bans and charges, and the table of bans.
//!
//! Called by: `saker_cluster`, through [`Feeds`].
//! Caveat: the streams are short: who misses an entry compares the table.
//! Out of scope: the content of records.

use crate::{
    RedisEngine,
    connection::{Connection, failed},
    entries::{FIELD, entries},
};
use redis::{Value, cmd};
use saker_cluster::{BanRow, Entry, EntryId, Feed, Feeds, LogError};

/// Entries that a stream keeps, approximately.
const LENGTH: u64 = 10_000;

/// Entries read at a time from each stream.
const ENTRIES_MAX: usize = 256;

/// Rows of the table that are read at a time, approximately.
const ROWS: usize = 500;

pub struct RedisFeeds {
    connection: Connection,
    streams: [String; 2],
    table: String,
}

impl RedisFeeds {
    pub(crate) fn new(engine: &RedisEngine, connection: Connection) -> RedisFeeds {
        let prefix = &engine.prefix;
        RedisFeeds {
            connection,
            streams: [format!("{prefix}:ban-feed"), format!("{prefix}:charges")],
            table: format!("{prefix}:bans"),
        }
    }

    fn stream(&self, feed: Feed) -> &str {
        let [bans, charges] = &self.streams;
        match feed {
            Feed::Bans => bans,
            Feed::Charges => charges,
        }
    }
}

impl Feeds for RedisFeeds {
    async fn ends(&mut self) -> Result<[EntryId; 2], LogError> {
        let mut ends = [EntryId::default(); 2];
        for (end, stream) in ends.iter_mut().zip(&self.streams) {
            let mut command = cmd("XREVRANGE");
            command.arg(stream).arg("+").arg("-").arg("COUNT").arg(1);
            let newest = entries(self.connection.ask(&command).await?)?;
            *end = newest.first().map(|entry| entry.id).unwrap_or_default();
        }
        Ok(ends)
    }

    async fn receive(
        &mut self,
        after: [EntryId; 2],
        wait_ms: u64,
    ) -> Result<[Vec<Entry>; 2], LogError> {
        let mut command = cmd("XREAD");
        command
            .arg("COUNT")
            .arg(ENTRIES_MAX)
            .arg("BLOCK")
            .arg(wait_ms);
        command.arg("STREAMS").arg(&self.streams);
        for id in after {
            command.arg(id.to_string());
        }
        let mut read = [Vec::new(), Vec::new()];
        let streams = match self.connection.ask(&command).await? {
            Value::Nil => return Ok(read),
            Value::Array(streams) => streams,
            _ => return Err(failed("the answer is not a list of streams")),
        };
        for stream in streams {
            let (name, found) =
                named(stream).ok_or_else(|| failed("the answer has a stream without a name"))?;
            let at = self
                .streams
                .iter()
                .position(|known| *known.as_bytes() == *name);
            if let Some(into) = at.and_then(|at| read.get_mut(at)) {
                *into = entries(found)?;
            }
        }
        Ok(read)
    }

    async fn send(&mut self, feed: Feed, record: &[u8]) -> Result<(), LogError> {
        let mut command = cmd("XADD");
        command
            .arg(self.stream(feed))
            .arg("MAXLEN")
            .arg("~")
            .arg(LENGTH);
        command.arg("*").arg(FIELD).arg(record);
        self.connection.ask::<Value>(&command).await.map(drop)
    }

    async fn bans(&mut self, cursor: u64) -> Result<(u64, Vec<BanRow>), LogError> {
        let mut command = cmd("HSCAN");
        command.arg(&self.table).arg(cursor).arg("COUNT").arg(ROWS);
        let (next, flat): (u64, Vec<Vec<u8>>) = self.connection.ask(&command).await?;
        let rows = flat.chunks_exact(2).filter_map(|pair| {
            let [name, record] = pair else {
                return None;
            };
            Some((String::from_utf8(name.clone()).ok()?, record.clone()))
        });
        Ok((next, rows.collect()))
    }

    async fn keep_ban(&mut self, name: &str, record: &[u8]) -> Result<(), LogError> {
        let mut command = cmd("HSET");
        command.arg(&self.table).arg(name).arg(record);
        self.connection.ask::<Value>(&command).await.map(drop)
    }

    async fn forget_ban(&mut self, name: &str) -> Result<(), LogError> {
        let mut command = cmd("HDEL");
        command.arg(&self.table).arg(name);
        self.connection.ask::<Value>(&command).await.map(drop)
    }
}

/// A stream's name, and its entries.
fn named(stream: Value) -> Option<(Vec<u8>, Value)> {
    let Value::Array(parts) = stream else {
        return None;
    };
    match <[Value; 2]>::try_from(parts) {
        Ok([Value::BulkString(name), found]) => Some((name, found)),
        _ => None,
    }
}
