//! The context of a message: the process, a connection, or a request on it; and the ids that
//! connect lines with the same context.
//!
//! Caveat: an id is created with the first message, so that most requests cost nothing and an
//! access log can show which of them have lines in the error log (`%L`).

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

/// An item of the context that a format refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextItem<'a> {
    /// The client's address, as rules see it.
    Client,
    /// The peer address of the connection.
    Peer,
    Local,
    Field(&'a str),
    Variable(&'a str),
    Note(&'a str),
    SiteName,
    /// The host name that the client requested, if the site permits it.
    HostName,
    /// Number of earlier requests on the connection.
    KeptAlive,
    /// The number of the connection in nginx's lines.
    ConnectionNumber,
    /// The first line of the request.
    RequestLine,
    /// The path of a request inside of the client's.
    Subrequest,
    /// The upstream that a line is about.
    Upstream,
    /// Client and server of a stream's session, and its bytes, as nginx's lines have them.
    SessionEnds,
    SessionBytes,
}

/// The client, connection, request, and site that a message refers to.
pub trait LogContext {
    /// `None` if the context has no such item.
    fn context_item(&self, asked: ContextItem<'_>) -> Option<Cow<'_, [u8]>>;

    fn connection(&self) -> Option<&LogId> {
        None
    }

    fn request(&self) -> Option<&LogId> {
        None
    }

    /// The site, if it has a log of its own.
    fn site(&self) -> Option<&SiteLog> {
        None
    }
}

/// The process, without a connection.
pub struct ProcessContext;

impl LogContext for ProcessContext {
    fn context_item(&self, _: ContextItem<'_>) -> Option<Cow<'_, [u8]>> {
        None
    }
}

/// A client, of which no more is known.
impl LogContext for SocketAddr {
    fn context_item(&self, asked: ContextItem<'_>) -> Option<Cow<'_, [u8]>> {
        matches!(asked, ContextItem::Client | ContextItem::Peer)
            .then(|| Cow::Owned(self.to_string().into_bytes()))
    }
}

/// A site, without a request.
impl LogContext for SiteLog {
    fn context_item(&self, _: ContextItem<'_>) -> Option<Cow<'_, [u8]>> {
        None
    }

    fn site(&self) -> Option<&SiteLog> {
        Some(self)
    }
}

/// A context with the upstream that a line is about.
pub struct WithUpstream<'a> {
    pub context: &'a dyn LogContext,
    pub upstream: Option<&'a str>,
}

impl LogContext for WithUpstream<'_> {
    fn context_item(&self, asked: ContextItem<'_>) -> Option<Cow<'_, [u8]>> {
        match asked {
            ContextItem::Upstream => self.upstream.map(|url| Cow::Borrowed(url.as_bytes())),
            asked => self.context.context_item(asked),
        }
    }

    fn connection(&self) -> Option<&LogId> {
        self.context.connection()
    }

    fn request(&self) -> Option<&LogId> {
        self.context.request()
    }

    fn site(&self) -> Option<&SiteLog> {
        self.context.site()
    }
}

/// The connection alone, whatever the request on it is.
pub(super) struct ConnectionContext<'a>(pub &'a dyn LogContext);

impl LogContext for ConnectionContext<'_> {
    fn context_item(&self, asked: ContextItem<'_>) -> Option<Cow<'_, [u8]>> {
        matches!(
            asked,
            ContextItem::Client | ContextItem::Peer | ContextItem::Local | ContextItem::KeptAlive
        )
        .then(|| self.0.context_item(asked))
        .flatten()
    }

    fn connection(&self) -> Option<&LogId> {
        self.0.connection()
    }
}

/// Eleven letters that no other connection or request has.
#[derive(Clone, Debug, Default)]
pub struct LogId(OnceCell<Box<str>>, OnceCell<u64>);

impl LogId {
    /// The id, if a message has been logged with it.
    pub fn text(&self) -> Option<&str> {
        self.0.get().map(|text| &**text)
    }

    /// The number in lines of nginx's form, from 1.
    pub fn number(&self) -> u64 {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        *self
            .1
            .get_or_init(|| NUMBER.fetch_add(1, Ordering::Relaxed))
    }

    /// Notes that a message is logged. Returns true for the first one.
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
