//! Purges as messages of a stream, in the order in which the server has stored them.
//!
//! Called by: `saker_cluster`, through [`Log`].
//! Caveat: the server tells of a record once it is stored (`republish` of the stream); where a
//! stream that an operator has made does not, readers look once a second.
//! Out of scope: the content of records.

use crate::{
    NatsEngine,
    connection::Connection,
    messages, names,
    nodes::Nodes,
    streams::{self, Table},
};
use async_nats::{
    Subscriber,
    header::NATS_SEQUENCE,
    jetstream::{
        message::{PublishMessage, StreamMessage},
        stream::Stream,
    },
};
use futures_util::StreamExt as _;
use saker_cluster::{Entry, EntryId, Log, LogError};
use std::time::Duration;
use tokio::time::timeout;

/// Longer records are passed over, as if they were none.
const RECORD_BYTES_MAX: usize = 256 << 10;

pub struct NatsLog {
    connection: Connection,
    prefix: String,
    subject: String,
    purges: Stream,
    nodes: Stream,
    told: Option<Subscriber>,
    states: Option<Nodes>,
}

impl NatsLog {
    pub(crate) async fn open(
        engine: &NatsEngine,
        connection: Connection,
    ) -> Result<NatsLog, LogError> {
        let prefix = engine.prefix.clone();
        Ok(NatsLog {
            purges: streams::purges(&connection, &prefix, engine.retention).await?,
            nodes: streams::table(&connection, &prefix, Table::Nodes).await?,
            subject: names::subject(&prefix, "purges"),
            prefix,
            connection,
            told: None,
            states: None,
        })
    }

    async fn publish_state(&self, id: &str, state: &str) -> Result<(), LogError> {
        let subject = format!(
            "{}.{}",
            names::subject(&self.prefix, Table::Nodes.name()),
            names::word(id)
        );
        let stream = names::stream(&self.prefix, Table::Nodes.name());
        let message = PublishMessage::build()
            .payload(state.to_owned().into())
            .expected_stream(stream);
        let context = &self.connection.context;
        let publishing = async { context.send_publish(subject, message).await?.await };
        self.connection.ask(publishing).await.map(drop)
    }
}

impl Log for NatsLog {
    async fn newest(&mut self) -> Result<Option<Entry>, LogError> {
        let newest = messages::newest(&self.connection, &self.purges, &self.subject).await?;
        Ok(newest.map(entry))
    }

    async fn read_from(
        &mut self,
        from: EntryId,
        records_max: usize,
    ) -> Result<Vec<Entry>, LogError> {
        let newest = messages::newest(&self.connection, &self.purges, &self.subject).await?;
        let Some(newest) = newest.filter(|newest| newest.sequence >= from.major) else {
            return Ok(Vec::new());
        };
        let range = (from.major, newest.sequence - 1);
        let before = messages::part(&self.connection, &self.purges, range, records_max).await?;
        let mut all: Vec<Entry> = before.into_iter().map(entry).collect();
        if all.len() < records_max {
            all.push(entry(newest));
        }
        Ok(all)
    }

    async fn wait_after(&mut self, id: EntryId, wait_ms: u64) -> Result<(), LogError> {
        let told = match &mut self.told {
            Some(told) => told,
            None => {
                let subject = streams::told(&self.prefix);
                let client = &self.connection.client;
                let told = self.connection.ask(client.subscribe(subject)).await?;
                self.connection.ask(client.flush()).await?;
                self.told = Some(told);
                // There may be one that was stored before.
                return Ok(());
            }
        };
        let comes = async {
            while let Some(message) = told.next().await {
                let number = message.headers.as_ref().and_then(|headers| {
                    let number = headers.get(NATS_SEQUENCE)?;
                    number.as_str().parse::<u64>().ok()
                });
                if number.is_none_or(|number| number > id.major) {
                    return;
                }
            }
        };
        let limited = timeout(Duration::from_millis(wait_ms), comes);
        self.connection.until_end(limited).await.map(drop)
    }

    async fn append(&mut self, records: &[Vec<u8>]) -> Result<Option<EntryId>, LogError> {
        let context = &self.connection.context;
        let stream = names::stream(&self.prefix, "purges");
        let mut stored = Vec::with_capacity(records.len());
        for record in records {
            let message = PublishMessage::build()
                .payload(record.clone().into())
                .expected_stream(&stream);
            let sent = context.send_publish(self.subject.clone(), message);
            stored.push(self.connection.ask(sent).await?);
        }
        let mut last = None;
        for stored in stored {
            let stored = self.connection.ask(stored.into_future()).await?;
            last = Some(place(stored.sequence));
        }
        Ok(last)
    }

    async fn announce(&mut self, id: &str, state: &str) -> Result<(), LogError> {
        self.publish_state(id, state).await
    }

    async fn states(&mut self) -> Result<Vec<(String, String)>, LogError> {
        let states = match &mut self.states {
            Some(states) => states,
            None => {
                let listening = Nodes::listen(&self.connection, &self.prefix, &self.nodes);
                self.states.insert(listening.await?)
            }
        };
        Ok(states.states())
    }

    async fn forget(&mut self, id: &str) -> Result<(), LogError> {
        self.publish_state(id, "").await
    }
}

fn entry(message: StreamMessage) -> Entry {
    let is_short = message.payload.len() <= RECORD_BYTES_MAX;
    Entry {
        id: place(message.sequence),
        payload: is_short.then(|| message.payload.to_vec()),
    }
}

fn place(number: u64) -> EntryId {
    EntryId {
        major: number,
        minor: 0,
    }
}
