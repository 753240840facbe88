//! Feeds of bans and charges, and the table of bans.
//!
//! Called by: `saker_cluster`, through [`Feeds`].
//! Feeds are plain subjects: a charge is of no use later, and a ban that was missed is found in the
//! table. The place of a record is the time of its arrival here.
//! Caveat: what is told before [`Feeds::ends`] was called is not heard.
//! Out of scope: the content of records.

use crate::{
    NatsEngine,
    connection::{Connection, failed},
    messages, names,
    streams::{self, Table},
};
use async_nats::{
    Message, Subscriber,
    jetstream::{message::PublishMessage, stream::Stream},
};
use futures_util::{FutureExt as _, StreamExt as _};
use saker_cluster::{BanRow, Entry, EntryId, Feed, Feeds, LogError};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Records that are received at a time.
const RECORDS_MAX: usize = 256;

/// Longer records are none of Saker's.
const RECORD_BYTES_MAX: usize = 256 << 10;

/// Rows of the table that are read at a time.
const ROWS: usize = 500;

pub struct NatsFeeds {
    connection: Connection,
    prefix: String,
    bans: Stream,
    heard: Option<[Subscriber; 2]>,
    began: Instant,
    /// Records that have arrived.
    count: u64,
}

impl NatsFeeds {
    pub(crate) async fn open(
        engine: &NatsEngine,
        connection: Connection,
    ) -> Result<NatsFeeds, LogError> {
        Ok(NatsFeeds {
            bans: streams::table(&connection, &engine.prefix, Table::Bans).await?,
            prefix: engine.prefix.clone(),
            connection,
            heard: None,
            began: Instant::now(),
            count: 0,
        })
    }

    fn subject(&self, feed: Feed) -> String {
        let name = match feed {
            Feed::Bans => "feed.bans",
            Feed::Charges => "feed.charges",
        };
        names::subject(&self.prefix, name)
    }

    fn entry(&mut self, message: &Message) -> Entry {
        self.count += 1;
        let is_short = message.payload.len() <= RECORD_BYTES_MAX;
        Entry {
            id: EntryId {
                major: self.began.elapsed().as_millis() as u64,
                minor: self.count,
            },
            payload: is_short.then(|| message.payload.to_vec()),
        }
    }

    async fn write_row(&self, name: &str, record: Vec<u8>) -> Result<(), LogError> {
        let table = names::subject(&self.prefix, Table::Bans.name());
        let subject = format!("{table}.{}", names::word(name));
        let message = PublishMessage::build()
            .payload(record.into())
            .expected_stream(names::stream(&self.prefix, Table::Bans.name()));
        let context = &self.connection.context;
        let publishing = async { context.send_publish(subject, message).await?.await };
        self.connection.ask(publishing).await.map(drop)
    }
}

impl Feeds for NatsFeeds {
    async fn ends(&mut self) -> Result<[EntryId; 2], LogError> {
        let (connection, client) = (&self.connection, &self.connection.client);
        let bans = connection.ask(client.subscribe(self.subject(Feed::Bans)));
        let bans = bans.await?;
        let charges = connection.ask(client.subscribe(self.subject(Feed::Charges)));
        let charges = charges.await?;
        connection.ask(client.flush()).await?;
        self.heard = Some([bans, charges]);
        Ok([EntryId::default(); 2])
    }

    async fn receive(
        &mut self,
        _after: [EntryId; 2],
        wait_ms: u64,
    ) -> Result<[Vec<Entry>; 2], LogError> {
        let Some(mut heard) = self.heard.take() else {
            return Err(failed("nothing is listened to"));
        };
        let mut read = [Vec::new(), Vec::new()];
        let [bans, charges] = &mut heard;
        let first = async {
            tokio::select! {
                message = bans.next() => (0, message),
                message = charges.next() => (1, message),
            }
        };
        let limited = timeout(Duration::from_millis(wait_ms), first);
        if let Ok((at, Some(message))) = self.connection.until_end(limited).await? {
            read[at].push(self.entry(&message));
        }
        for (read, heard) in read.iter_mut().zip(&mut heard) {
            while read.len() < RECORDS_MAX
                && let Some(Some(message)) = heard.next().now_or_never()
            {
                read.push(self.entry(&message));
            }
        }
        self.heard = Some(heard);
        Ok(read)
    }

    async fn send(&mut self, feed: Feed, record: &[u8]) -> Result<(), LogError> {
        let (subject, record) = (self.subject(feed), record.to_vec().into());
        let client = &self.connection.client;
        self.connection.ask(client.publish(subject, record)).await?;
        // It is with the server when this is answered.
        self.connection.ask(client.flush()).await
    }

    async fn bans(&mut self, cursor: u64) -> Result<(u64, Vec<BanRow>), LogError> {
        let last = messages::last_number(&self.connection, &self.bans).await?;
        let range = (cursor.saturating_add(1), last);
        let found = messages::part(&self.connection, &self.bans, range, ROWS).await?;
        let next = match found.last() {
            Some(last) if found.len() == ROWS => last.sequence,
            _ => 0,
        };
        let rows = found.into_iter().filter_map(|message| {
            let is_row = (1..=RECORD_BYTES_MAX).contains(&message.payload.len());
            let name = names::name(&message.subject).filter(|_| is_row)?;
            Some((name, message.payload.to_vec()))
        });
        Ok((next, rows.collect()))
    }

    async fn keep_ban(&mut self, name: &str, record: &[u8]) -> Result<(), LogError> {
        self.write_row(name, record.to_vec()).await
    }

    async fn forget_ban(&mut self, name: &str) -> Result<(), LogError> {
        // An empty row, which takes the place of the one before.
        self.write_row(name, Vec::new()).await
    }
}
