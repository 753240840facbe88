//! The states of servers: those that the stream has, and what is told since.
//!
//! Called by: `nats_log`.
//! Caveat: listens first, and reads the stream then, so that nothing between the two is missed. An
//! empty state is that of a server that has left.
//! Out of scope: the meaning of states.

use crate::{connection::Connection, messages, names, streams::Table};
use async_nats::{Subscriber, jetstream::stream::Stream};
use futures_util::{FutureExt as _, StreamExt as _};
use saker_cluster::{LogError, MEMBERS_MAX};
use std::collections::BTreeMap;

/// Servers whose states are kept.
const NODES_MAX: usize = MEMBERS_MAX + 76;

/// Longer states are none of Saker's.
const STATE_BYTES_MAX: usize = 1024;

pub struct Nodes {
    told: Subscriber,
    states: BTreeMap<String, String>,
}

impl Nodes {
    pub async fn listen(
        connection: &Connection,
        prefix: &str,
        stream: &Stream,
    ) -> Result<Nodes, LogError> {
        let subject = names::subject(prefix, Table::Nodes.name()) + ".*";
        let told = connection.ask(connection.client.subscribe(subject)).await?;
        connection.ask(connection.client.flush()).await?;
        let mut nodes = Nodes {
            told,
            states: BTreeMap::new(),
        };
        let last = messages::last_number(connection, stream).await?;
        let first = 1;
        for message in messages::part(connection, stream, (first, last), NODES_MAX).await? {
            nodes.note(&message.subject, &message.payload);
        }
        Ok(nodes)
    }

    /// The states of all servers, as far as they have been told.
    pub fn states(&mut self) -> Vec<(String, String)> {
        while let Some(Some(message)) = self.told.next().now_or_never() {
            self.note(&message.subject, &message.payload);
        }
        let pair = |(id, state): (&String, &String)| (id.clone(), state.clone());
        self.states.iter().map(pair).collect()
    }

    fn note(&mut self, subject: &str, state: &[u8]) {
        let Some(id) = names::name(subject) else {
            return;
        };
        if state.is_empty() {
            self.states.remove(&id);
            return;
        }
        let is_one_more = !self.states.contains_key(&id) && self.states.len() >= NODES_MAX;
        if let Ok(state) = std::str::from_utf8(state)
            && state.len() <= STATE_BYTES_MAX
            && !is_one_more
        {
            self.states.insert(id, state.to_owned());
        }
    }
}
