//! An ordered log with replay, as engines provide it.
//!
//! Called by: `follow`, `publish` and `node`, each with a connection of its own.
//! Caveat: the methods wait for as long as the engine does; callers set the limits.
//! Out of scope: the content of records (`record`).

use std::{fmt, future::Future};

/// The place of a record; later records have greater ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    pub major: u64,
    pub minor: u64,
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.major, self.minor)
    }
}

impl EntryId {
    /// Parses what `Display` writes.
    pub fn parse(text: &str) -> Option<EntryId> {
        let (major, minor) = text.split_once('-')?;
        Some(EntryId {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }
}

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub id: EntryId,
    /// `None`: not written by Saker.
    pub payload: Option<Vec<u8>>,
}

/// The reason why the engine did not do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogError {
    /// The connection failed, or the engine refused.
    Failed(String),
    /// The answer exceeds the limit on its size; asking again would bring it again.
    TooLarge,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Failed(why) => f.write_str(why),
            LogError::TooLarge => f.write_str("an answer exceeds the limit on its size"),
        }
    }
}

/// One connection to a log.
pub trait Log {
    /// Returns the newest record.
    fn newest(&mut self) -> impl Future<Output = Result<Option<Entry>, LogError>>;

    /// Returns up to `records_max` records from `from` on, which is the first of them if the log
    /// still has it.
    fn read_from(
        &mut self,
        from: EntryId,
        records_max: usize,
    ) -> impl Future<Output = Result<Vec<Entry>, LogError>>;

    /// Returns once there is a record after `id`, or after `wait_ms`.
    fn wait_after(
        &mut self,
        id: EntryId,
        wait_ms: u64,
    ) -> impl Future<Output = Result<(), LogError>>;

    /// Appends records in this order and trims the log to its retention. Returns the place of the
    /// last one. If it fails, a first part of them may have been appended.
    fn append(
        &mut self,
        records: &[Vec<u8>],
    ) -> impl Future<Output = Result<Option<EntryId>, LogError>>;

    /// Publishes the state of a server.
    fn announce(&mut self, id: &str, state: &str) -> impl Future<Output = Result<(), LogError>>;

    /// Returns the states of all servers, by their ids.
    fn states(&mut self) -> impl Future<Output = Result<Vec<(String, String)>, LogError>>;

    /// Removes the state of a server.
    fn forget(&mut self, id: &str) -> impl Future<Output = Result<(), LogError>>;
}

/// Way to a log.
pub trait Engine: Send + Sync + 'static {
    type Log: Log + 'static;

    fn connect(&self) -> impl Future<Output = Result<Self::Log, LogError>>;

    /// The address, without credentials.
    fn shown(&self) -> String;
}
