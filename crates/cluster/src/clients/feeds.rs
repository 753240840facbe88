//! Feeds of records that are soon forgotten, and the table of bans, as engines provide them.
//!
//! Called by: `exchange`, with one connection that waits and one that sends.
//! Caveat: a reader that is slow may miss records of a feed; the table is compared from time to
//! time. The methods wait for as long as the engine does; callers set the limits.
//! Out of scope: the content of records (`ban_record`, `exchange`).

use crate::log::{Entry, EntryId, LogError};
use std::future::Future;

/// The feeds, in the order of places in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    Bans,
    Charges,
}

/// Name and record of a row of the table of bans.
pub type BanRow = (String, Vec<u8>);

/// Places in both feeds.
pub type Places = [EntryId; 2];

/// One connection to the feeds.
pub trait Feeds {
    /// Returns the ends of the feeds.
    fn ends(&mut self) -> impl Future<Output = Result<Places, LogError>>;

    /// Returns some records behind these places; none after `wait_ms`.
    fn receive(
        &mut self,
        after: Places,
        wait_ms: u64,
    ) -> impl Future<Output = Result<[Vec<Entry>; 2], LogError>>;

    /// Appends a record to a feed.
    fn send(&mut self, feed: Feed, record: &[u8]) -> impl Future<Output = Result<(), LogError>>;

    /// Returns a part of the table, and where the next one begins; 0: there is none.
    fn bans(&mut self, cursor: u64) -> impl Future<Output = Result<(u64, Vec<BanRow>), LogError>>;

    /// Sets a row of the table.
    fn keep_ban(&mut self, name: &str, record: &[u8])
    -> impl Future<Output = Result<(), LogError>>;

    /// Removes a row of the table.
    fn forget_ban(&mut self, name: &str) -> impl Future<Output = Result<(), LogError>>;
}

/// Way to the feeds.
pub trait FeedsEngine: Send + Sync + 'static {
    type Feeds: Feeds + 'static;

    fn connect_feeds(&self) -> impl Future<Output = Result<Self::Feeds, LogError>>;

    /// The address, without credentials.
    fn shown(&self) -> String;
}
