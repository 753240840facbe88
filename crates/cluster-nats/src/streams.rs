//! The streams, and how they are made.
//!
//! Called by: `nats_log`, `nats_feeds` and `nats_state`, when a connection is made.
//! Caveat: a stream that is there is used as it is, whatever its settings are. The limit on the
//! size of messages is the server's part in bounding answers.
//! Out of scope: messages.

use crate::{connection::Connection, names};
use async_nats::jetstream::stream::{Config, DiscardPolicy, Republish, StorageType, Stream};
use saker_cluster::LogError;
use std::time::Duration;

/// Longer messages are refused by the server.
const RECORD_BYTES_MAX: i32 = 256 << 10;
const NODE_BYTES_MAX: i32 = 4 << 10;
const VALUE_BYTES_MAX: i32 = 4 << 20;

/// Time after which the state of a server that is gone is forgotten.
const NODES_KEPT: Duration = Duration::from_secs(7200);

/// Time after which lent values are removed.
const LENT_KEPT: Duration = Duration::from_secs(86_400);

/// A stream of which the newest message of each subject counts.
#[derive(Clone, Copy)]
pub enum Table {
    Nodes,
    Bans,
    State,
    Lent,
}

impl Table {
    pub fn name(self) -> &'static str {
        match self {
            Table::Nodes => "nodes",
            Table::Bans => "bans",
            Table::State => "state",
            Table::Lent => "lent",
        }
    }
}

/// Subject on which the server tells that the stream of purges has another record.
pub fn told(prefix: &str) -> String {
    names::subject(prefix, "purged")
}

pub async fn purges(
    connection: &Connection,
    prefix: &str,
    retention: u64,
) -> Result<Stream, LogError> {
    let subject = names::subject(prefix, "purges");
    let config = Config {
        name: names::stream(prefix, "purges"),
        subjects: vec![subject.clone()],
        max_messages: i64::try_from(retention).unwrap_or(i64::MAX),
        max_message_size: RECORD_BYTES_MAX,
        discard: DiscardPolicy::Old,
        republish: Some(Republish {
            source: subject,
            destination: told(prefix),
            headers_only: true,
        }),
        ..Config::default()
    };
    open(connection, config).await
}

pub async fn table(
    connection: &Connection,
    prefix: &str,
    table: Table,
) -> Result<Stream, LogError> {
    let (max_message_size, max_age, storage) = match table {
        Table::Nodes => (NODE_BYTES_MAX, NODES_KEPT, StorageType::Memory),
        Table::Bans => (RECORD_BYTES_MAX, Duration::ZERO, StorageType::File),
        Table::State => (VALUE_BYTES_MAX, Duration::ZERO, StorageType::File),
        Table::Lent => (VALUE_BYTES_MAX, LENT_KEPT, StorageType::File),
    };
    let config = Config {
        name: names::stream(prefix, table.name()),
        subjects: vec![names::subject(prefix, table.name()) + ".*"],
        max_messages_per_subject: 1,
        max_message_size,
        max_age,
        storage,
        ..Config::default()
    };
    open(connection, config).await
}

async fn open(connection: &Connection, config: Config) -> Result<Stream, LogError> {
    let name = config.name.clone();
    let opened = connection.context.get_or_create_stream(config);
    connection.ask(opened).await.map_err(|error| match error {
        LogError::Failed(why) => LogError::Failed(format!("stream {name}: {why}")),
        other => other,
    })
}
