//! Commands on one connection, and the parsing of their answers.
//!
//! Called by: `saker_cluster`, through [`Log`].
//! Caveat: anything may be in the keys; what does not have the expected shape is an entry that is
//! none of Saker's, or an error, never a panic.

use crate::{Driver, RedisEngine, bounded::Budget, failed};
use redis::{Cmd, FromRedisValue, Value, aio::MultiplexedConnection, cmd, pipe};
use saker_cluster::{Entry, EntryId, Log, LogError};

/// The only field of our entries.
const FIELD: &str = "r";

pub struct RedisLog {
    connection: MultiplexedConnection,
    _driver: Driver,
    budget: Budget,
    stream: String,
    nodes: String,
    retention: u64,
}

impl RedisLog {
    pub(crate) fn new(
        engine: &RedisEngine,
        connection: MultiplexedConnection,
        driver: Driver,
        budget: Budget,
    ) -> RedisLog {
        RedisLog {
            connection,
            _driver: driver,
            budget,
            stream: format!("{}:purges", engine.prefix),
            nodes: format!("{}:nodes", engine.prefix),
            retention: engine.retention,
        }
    }

    async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, LogError> {
        self.budget.refill();
        let answer = command.query_async(&mut self.connection).await;
        answer.map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &redis::RedisError) -> LogError {
        match self.budget.is_exhausted() {
            true => LogError::TooLarge,
            false => failed(error),
        }
    }
}

impl Log for RedisLog {
    async fn newest(&mut self) -> Result<Option<Entry>, LogError> {
        let mut command = cmd("XREVRANGE");
        command.arg(&self.stream).arg("+").arg("-");
        let found = self.ask(command.arg("COUNT").arg(1)).await?;
        Ok(entries(found)?.pop())
    }

    async fn read_from(
        &mut self,
        from: EntryId,
        records_max: usize,
    ) -> Result<Vec<Entry>, LogError> {
        let mut command = cmd("XRANGE");
        command.arg(&self.stream).arg(from.to_string()).arg("+");
        let found = self.ask(command.arg("COUNT").arg(records_max)).await?;
        entries(found)
    }

    async fn wait_after(&mut self, id: EntryId, wait_ms: u64) -> Result<(), LogError> {
        let mut command = cmd("XREAD");
        command.arg("COUNT").arg(1).arg("BLOCK").arg(wait_ms);
        command.arg("STREAMS").arg(&self.stream);
        // The entry is read again, with the one before it.
        self.ask::<Value>(command.arg(id.to_string()))
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
        self.budget.refill();
        let answer: redis::RedisResult<Vec<String>> =
            commands.query_async(&mut self.connection).await;
        let places = answer.map_err(|error| self.failure(&error))?;
        match places.last() {
            Some(place) => EntryId::parse(place)
                .map(Some)
                .ok_or_else(|| failed("XADD did not answer with an id")),
            None => Ok(None),
        }
    }

    async fn announce(&mut self, id: &str, state: &str) -> Result<(), LogError> {
        let mut command = cmd("HSET");
        self.ask::<Value>(command.arg(&self.nodes).arg(id).arg(state))
            .await
            .map(drop)
    }

    async fn states(&mut self) -> Result<Vec<(String, String)>, LogError> {
        let mut command = cmd("HGETALL");
        let answer = self.ask::<Vec<Vec<u8>>>(command.arg(&self.nodes)).await;
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
        self.ask::<Value>(command.arg(&self.nodes).arg(id))
            .await
            .map(drop)
    }
}

/// Entries of a stream: pairs of an id and a list of names and values.
fn entries(answer: Value) -> Result<Vec<Entry>, LogError> {
    let Value::Array(all) = answer else {
        return Err(failed("the answer is not a list of entries"));
    };
    all.into_iter()
        .map(|one| entry(one).ok_or_else(|| failed("the answer has an entry without an id")))
        .collect()
}

fn entry(one: Value) -> Option<Entry> {
    let Value::Array(parts) = one else {
        return None;
    };
    let mut parts = parts.into_iter();
    let Value::BulkString(id) = parts.next()? else {
        return None;
    };
    let id = EntryId::parse(std::str::from_utf8(&id).ok()?)?;
    let payload = match parts.next() {
        Some(Value::Array(fields)) => payload(fields),
        _ => None,
    };
    Some(Entry { id, payload })
}

fn payload(fields: Vec<Value>) -> Option<Vec<u8>> {
    match <[Value; 2]>::try_from(fields) {
        Ok([Value::BulkString(name), Value::BulkString(value)]) if name == FIELD.as_bytes() => {
            Some(value)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn stream(id: &str, fields: &[&str]) -> Value {
        let fields = fields.iter().map(|field| text(field)).collect();
        Value::Array(vec![Value::Array(vec![text(id), Value::Array(fields)])])
    }

    #[test]
    fn entries_of_others_have_no_payload() {
        let id = EntryId { major: 5, minor: 1 };
        for (fields, payload) in [
            (&["r", "bytes"][..], Some(b"bytes".to_vec())),
            (&["x", "bytes"], None),
            (&["r", "bytes", "more", "fields"], None),
            (&["r"], None),
            (&[], None),
        ] {
            assert_eq!(
                entries(stream("5-1", fields)),
                Ok(vec![Entry { id, payload }]),
                "{fields:?}"
            );
        }
        for odd in [Value::Nil, Value::Int(1), stream("no id", &["r", "x"])] {
            assert!(entries(odd).is_err());
        }
    }
}
