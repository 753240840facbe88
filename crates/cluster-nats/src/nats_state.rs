//! Values with their locks, as the newest messages of subjects.
//!
//! Called by: `saker_cluster`, through [`Store`] and [`Lock`].
//! A lock and its value are one message, which is replaced only if it is still the newest one of
//! its subject, so that a server whose lock was taken over writes nothing. The holder renews its
//! message as a sign of life; a server that has seen the same one for the lock's life takes over.
//! Caveat: no clocks are compared; a server that has just connected waits for the whole life of a
//! lock whose holder has died.
//! Out of scope: encryption.

use crate::{
    NatsEngine,
    connection::{Connection, failed},
    messages, names,
    streams::{self, Table},
};
use async_nats::jetstream::{
    context::{PublishError, PublishErrorKind},
    message::PublishMessage,
    stream::Stream,
};
use saker_cluster::{Lock, LogError, Store};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

const VERSION: u8 = 1;

/// A message with its lock's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Locked {
    /// Random; 0: the lock is not held.
    token: u64,
    value: Option<Vec<u8>>,
}

/// A message as it was found; without one, the number is 0.
struct Found {
    locked: Locked,
    number: u64,
}

pub struct NatsState {
    connection: Connection,
    prefix: String,
    state: Stream,
    lent: Stream,
    /// Numbers of messages of locks that others hold, and since when they are the same.
    seen: HashMap<String, (u64, Instant)>,
}

impl NatsState {
    pub(crate) async fn open(
        engine: &NatsEngine,
        connection: Connection,
    ) -> Result<NatsState, LogError> {
        Ok(NatsState {
            state: streams::table(&connection, &engine.prefix, Table::State).await?,
            lent: streams::table(&connection, &engine.prefix, Table::Lent).await?,
            prefix: engine.prefix.clone(),
            connection,
            seen: HashMap::new(),
        })
    }

    fn subject(&self, table: Table, name: &str) -> String {
        let table = names::subject(&self.prefix, table.name());
        format!("{table}.{}", names::word(name))
    }

    async fn find(&self, name: &str) -> Result<Found, LogError> {
        let subject = self.subject(Table::State, name);
        let newest = messages::newest(&self.connection, &self.state, &subject).await?;
        let Some(newest) = newest else {
            return Ok(Found {
                locked: Locked::default(),
                number: 0,
            });
        };
        let locked = Locked::decode(&newest.payload)
            .ok_or_else(|| failed(format!("{subject} is not Saker's")))?;
        Ok(Found {
            locked,
            number: newest.sequence,
        })
    }

    /// Replaces the message that was found. `false`: another one has.
    async fn replace(&self, name: &str, locked: &Locked, number: u64) -> Result<bool, LogError> {
        let message = PublishMessage::build()
            .payload(locked.encode().into())
            .expected_stream(names::stream(&self.prefix, Table::State.name()))
            .expected_last_subject_sequence(number);
        let (context, subject) = (&self.connection.context, self.subject(Table::State, name));
        let publishing = async {
            match context.send_publish(subject, message).await?.await {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(false),
                Err(error) => Err::<bool, PublishError>(error),
            }
        };
        self.connection.ask(publishing).await
    }

    /// Replaces the message of a lock that is held with that token.
    async fn replace_held(
        &self,
        name: &str,
        token: u64,
        change: impl FnOnce(&mut Locked),
    ) -> Result<bool, LogError> {
        let Found { mut locked, number } = self.find(name).await?;
        if token == 0 || locked.token != token {
            return Ok(false);
        }
        change(&mut locked);
        self.replace(name, &locked, number).await
    }

    /// True if a lock's message has been the same for the lock's life, by this server's clock.
    fn is_dead(&mut self, name: &str, number: u64, life: Duration) -> bool {
        let now = Instant::now();
        match self.seen.get(name) {
            Some((seen, since)) if *seen == number => now.saturating_duration_since(*since) >= life,
            _ => {
                self.seen.insert(name.to_owned(), (number, now));
                false
            }
        }
    }
}

impl Store for NatsState {
    async fn get(&mut self, name: &str) -> Result<Option<Vec<u8>>, LogError> {
        if let Some(value) = self.find(name).await?.locked.value {
            return Ok(Some(value));
        }
        let subject = self.subject(Table::Lent, name);
        let lent = messages::newest(&self.connection, &self.lent, &subject).await?;
        Ok(lent.map(|lent| lent.payload.to_vec()))
    }

    async fn put(&mut self, name: &str, value: &[u8], token: u64) -> Result<bool, LogError> {
        let set = |locked: &mut Locked| locked.value = Some(value.to_vec());
        self.replace_held(name, token, set).await
    }

    async fn lend(&mut self, name: &str, value: &[u8], _life_ms: u64) -> Result<(), LogError> {
        let message = PublishMessage::build()
            .payload(value.to_vec().into())
            .expected_stream(names::stream(&self.prefix, Table::Lent.name()));
        let (context, subject) = (&self.connection.context, self.subject(Table::Lent, name));
        let publishing = async { context.send_publish(subject, message).await?.await };
        self.connection.ask(publishing).await.map(drop)
    }
}

impl Lock for NatsState {
    async fn acquire(&mut self, name: &str, life_ms: u64) -> Result<Option<u64>, LogError> {
        let Found { mut locked, number } = self.find(name).await?;
        let life = Duration::from_millis(life_ms);
        if locked.token != 0 && !self.is_dead(name, number, life) {
            return Ok(None);
        }
        let mut token = [0; 8];
        aws_lc_rs::rand::fill(&mut token).map_err(|_| failed("no random bytes"))?;
        // 0 is that of a lock that is not held.
        locked.token = u64::from_le_bytes(token).max(1);
        let is_taken = self.replace(name, &locked, number).await?;
        self.seen.remove(name);
        Ok(is_taken.then_some(locked.token))
    }

    async fn renew(&mut self, name: &str, token: u64, _life_ms: u64) -> Result<bool, LogError> {
        self.replace_held(name, token, |_| {}).await
    }

    async fn release(&mut self, name: &str, token: u64) -> Result<(), LogError> {
        let end = |locked: &mut Locked| locked.token = 0;
        self.replace_held(name, token, end).await.map(drop)
    }
}

impl Locked {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.token.to_le_bytes());
        out.push(u8::from(self.value.is_some()));
        out.extend_from_slice(self.value.as_deref().unwrap_or_default());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Locked> {
        let (version, rest) = bytes.split_first()?;
        let (token, rest) = rest.split_first_chunk()?;
        let (has_value, rest) = rest.split_first()?;
        let value = match (*version, *has_value) {
            (VERSION, 1) => Some(rest.to_vec()),
            (VERSION, 0) if rest.is_empty() => None,
            _ => return None,
        };
        Some(Locked {
            token: u64::from_le_bytes(*token),
            value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_come_back_with_their_values() {
        for value in [None, Some(Vec::new()), Some(b"value".to_vec())] {
            let locked = Locked { token: 7, value };
            let bytes = locked.encode();
            assert_eq!(Locked::decode(&bytes), Some(locked));
            for length in 0..10 {
                assert_eq!(Locked::decode(&bytes[..length]), None, "cut at {length}");
            }
        }
        assert_eq!(Locked::decode(b"a value of other software"), None);
        assert_eq!(Locked::decode(&[2, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
