//! Commands on one connection, and the parsing of their answers.
//!
//! Called by: `saker_cluster`, through [`Log`].
//! Out of scope: the shape of entries (`entries`).

use crate::{
    RedisEngine,
    connection::{Connection, failed},
    entries::{FIELD, entries},
};
use redis::{Value, cmd, pipe};
use saker_cluster::{Entry, EntryId, Log, LogError};

pub struct RedisLog {
    connection: Connection,
    stream: String,
    nodes: String,
    retention: u64,
}

impl RedisLog {
    pub(crate) fn new(engine: &RedisEngine, connection: Connection) -> RedisLog {
        RedisLog {
            connection,
            stream: format!("{}:purges", engine.prefix),
            nodes: format!("{}:nodes", engine.prefix),
            retention: engine.retention,
        }
    }
}

impl Log for RedisLog {
    async fn newest(&mut self) -> Result<Option<Entry>, LogError> {
        let mut command = cmd("XREVRANGE");
        command.arg(&self.stream).arg("+").arg("-");
        let found = self.connection.ask(command.arg("COUNT").arg(1)).await?;
        Ok(entries(found)?.pop())
    }

    async fn read_from(
        &mut self,
        from: EntryId,
        records_max: usize,
    ) -> Result<Vec<Entry>, LogError> {
        let mut command = cmd("XRANGE");
        command.arg(&self.stream).arg(from.to_string()).arg("+");
        let found = self
            .connection
            .ask(command.arg("COUNT").arg(records_max))
            .await?;
        entries(found)
    }

    async fn wait_after(&mut self, id: EntryId, wait_ms: u64) -> Result<(), LogError> {
        let mut command = cmd("XREAD");
        command.arg("COUNT").arg(1).arg("BLOCK").arg(wait_ms);
        command.arg("STREAMS").arg(&self.stream);
        // The entry is read again, with the one before it.
        self.connection
            .ask::<Value>(command.arg(id.to_string()))
            .await
            .map(drop)
    }

    async fn append(&mut self, records: &[Vec<u8>]) -> Result<Option<EntryId>, LogError> {
        let mut commands = pipe();
        for record in records {
            commands
                .cmd("XADD")
                .arg(&self.stream)
                .arg("MAXLEN")
                .arg("~")
                .arg(self.retention)
                .arg("*")
                .arg(FIELD)
                .arg(&record[..]);
        }
        let places: Vec<String> = self.connection.ask_all(&commands).await?;
        match places.last() {
            Some(place) => EntryId::parse(place)
                .map(Some)
                .ok_or_else(|| failed("XADD did not answer with an id")),
            None => Ok(None),
        }
    }

    async fn announce(&mut self, id: &str, state: &str) -> Result<(), LogError> {
        let mut command = cmd("HSET");
        self.connection
            .ask::<Value>(command.arg(&self.nodes).arg(id).arg(state))
            .await
            .map(drop)
    }

    async fn states(&mut self) -> Result<Vec<(String, String)>, LogError> {
        let mut command = cmd("HGETALL");
        let answer = self
            .connection
            .ask::<Vec<Vec<u8>>>(command.arg(&self.nodes))
            .await;
        let all = answer.map_err(|error| match error {
            // Nothing to skip, unlike in the stream.
            LogError::TooLarge => failed(format!("the hash {} is too large", self.nodes)),
            failed => failed,
        })?;
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        Ok(all
            .chunks_exact(2)
            .map(|pair| (text(&pair[0]), text(&pair[1])))
            .collect())
    }

    async fn forget(&mut self, id: &str) -> Result<(), LogError> {
        let mut command = cmd("HDEL");
        self.connection
            .ask::<Value>(command.arg(&self.nodes).arg(id))
            .await
            .map(drop)
    }
}
