//! One connection: it ends when it breaks, and tells why the server refused something.
//!
//! Called by: `nats_log`, `nats_feeds` and `nats_state`.
//! Caveat: the client library would connect again by itself, and what had been missed meanwhile
//! would not be noticed; so a connection that was broken once answers nothing any more.
//! Out of scope: the time that an answer may take, which callers bound.

use async_nats::{Client, ConnectOptions, Event, jetstream};
use saker_cluster::LogError;
use std::{
    fmt::Display,
    future::{Future, ready},
    time::Duration,
};
use tokio::sync::watch;

/// Limit on making a connection.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);

/// Messages of a subscription that wait; later ones are dropped.
const MESSAGES_WAITING_MAX: usize = 4096;

pub struct Connection {
    pub client: Client,
    pub context: jetstream::Context,
    /// The reason why it answers nothing any more.
    end: watch::Receiver<Option<String>>,
}

impl Connection {
    pub async fn open(address: &str, options: ConnectOptions) -> Result<Connection, LogError> {
        let (ends, end) = watch::channel(None);
        let options = options
            .name("saker")
            .connection_timeout(CONNECT_TIME_MAX)
            .max_reconnects(1)
            .ignore_discovered_servers()
            .subscription_capacity(MESSAGES_WAITING_MAX)
            .event_callback(move |event| {
                let why = match event {
                    Event::Disconnected | Event::Closed => Some("the connection has ended".into()),
                    // Such as a missing permission, of which no answer tells.
                    Event::ServerError(error) => Some(error.to_string()),
                    _ => None,
                };
                ends.send_if_modified(|end| {
                    let is_first = end.is_none() && why.is_some();
                    if is_first {
                        *end = why;
                    }
                    is_first
                });
                ready(())
            });
        let client = options.connect(address).await.map_err(failed)?;
        Ok(Connection {
            context: jetstream::new(client.clone()),
            client,
            end,
        })
    }

    /// Waits for an answer, or for the end of the connection.
    pub async fn ask<T, E: Display>(
        &self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, LogError> {
        self.until_end(answer).await?.map_err(failed)
    }

    /// Waits for something, or for the end of the connection.
    pub async fn until_end<T>(&self, comes: impl Future<Output = T>) -> Result<T, LogError> {
        let mut end = self.end.clone();
        tokio::select! {
            biased;
            why = end.wait_for(Option::is_some) => {
                let why = why.ok().and_then(|why| why.clone());
                Err(failed(why.as_deref().unwrap_or("the connection has ended")))
            }
            came = comes => Ok(came),
        }
    }
}

pub fn failed(error: impl Display) -> LogError {
    LogError::Failed(error.to_string())
}
