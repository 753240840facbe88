//! What a message is about: the process alone, a connection, or a request on it; and the ids that
//! tie lines about the same one together.
//!
//! Difficulty: an id is made when there is first something to tell, so that most requests cost
//! nothing and an access log can show which of them have lines in the error log (`%L`).

use super::site::SiteLog;
use std::{
    borrow::Cow,
    cell::OnceCell,
    collections::hash_map::RandomState,
    hash::BuildHasher,
    net::SocketAddr,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// What a format asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked<'a> {
    /// The client's address, as rules see it.
    Client,
    /// The connection's own.
    Peer,
    Local,
    Field(&'a str),
    Variable(&'a str),
    Note(&'a str),
    SiteName,
    /// As the client calls it, where the site lets it.
    HostName,
    /// Number of requests came before it on the connection.
    KeptAlive,
}

pub trait About {
    /// `None` where there is nothing of the kind.
    fn tell(&self, asked: Asked<'_>) -> Option<Cow<'_, [u8]>>;

    fn connection(&self) -> Option<&LogId> {
        None
    }

    fn request(&self) -> Option<&LogId> {
        None
    }

    /// Whose matter it is, where that site has a log of its own.
    fn site(&self) -> Option<&SiteLog> {
        None
    }
}

/// The process alone.
pub struct Nothing;

impl About for Nothing {
    fn tell(&self, _: Asked<'_>) -> Option<Cow<'_, [u8]>> {
        None
    }
}

/// A client, of which no more is known.
impl About for SocketAddr {
    fn tell(&self, asked: Asked<'_>) -> Option<Cow<'_, [u8]>> {
        matches!(asked, Asked::Client | Asked::Peer)
            .then(|| Cow::Owned(self.to_string().into_bytes()))
    }
}

/// A site, without a request.
impl About for SiteLog {
    fn tell(&self, _: Asked<'_>) -> Option<Cow<'_, [u8]>> {
        None
    }

    fn site(&self) -> Option<&SiteLog> {
        Some(self)
    }
}

/// The connection alone, whatever the request on it is.
pub(super) struct ConnectionOf<'a>(pub &'a dyn About);

impl About for ConnectionOf<'_> {
    fn tell(&self, asked: Asked<'_>) -> Option<Cow<'_, [u8]>> {
        matches!(
            asked,
            Asked::Client | Asked::Peer | Asked::Local | Asked::KeptAlive
        )
        .then(|| self.0.tell(asked))
        .flatten()
    }

    fn connection(&self) -> Option<&LogId> {
        self.0.connection()
    }
}

/// Eleven letters that no other connection or request has.
#[derive(Clone, Debug, Default)]
pub struct LogId(OnceCell<Box<str>>);

impl LogId {
    /// Where something was told.
    pub fn text(&self) -> Option<&str> {
        self.0.get().map(|text| &**text)
    }

    /// Something is told. Whether it is the first time.
    pub(super) fn mark(&self) -> bool {
        let is_new = self.0.get().is_none();
        self.0.get_or_init(fresh);
        is_new
    }
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn fresh() -> Box<str> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    static KEYS: OnceLock<RandomState> = OnceLock::new();
    let number = KEYS
        .get_or_init(RandomState::new)
        .hash_one((std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
    (0..11)
        .map(|place| char::from(LETTERS[(number >> (6 * place) & 63) as usize]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_comes_with_the_first_line() {
        let (one, other) = (LogId::default(), LogId::default());
        assert_eq!(one.text(), None);
        assert!(one.mark() && !one.mark() && other.mark());
        assert_eq!(one.text().map(str::len), Some(11));
        assert_ne!(one.text(), other.text());
    }
}
