//! The PROXY preface of a connection: reading it within a time, and the line about one that is none.
//!
//! Called by: `accept`, and the connections of streams.
//! Caveat: in nginx's words, the line has the client's bytes up to the end of their first line, escaped.
//! Out of scope: the meaning of a preface (`saker_net::proxy_preface`).

use crate::{io::Io, worker::Worker};
use saker_config::model::Address;
use saker_net::{
    Deadline,
    proxy_preface::{self, Preface, PrefaceError},
};
use saker_pipeline::Client;
use saker_telemetry::{
    error_log::{self, ContextItem, LogContext, LogId},
    message::{self, Level},
};
use std::{
    borrow::Cow,
    future::poll_fn,
    task::{Context, Poll, ready},
};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 4096;
/// Bytes of a broken preface that its line shows: the longest of version 1.
const SHOWN_BYTES_MAX: usize = 107;
/// Place of the version in a preface of version 2.
const VERSION: usize = 12;

/// A complete preface, and its TLVs.
pub type ReadPreface = (Preface, Box<[u8]>);

/// The reason why a connection has no preface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPreface {
    Late,
    /// The client has ended the connection.
    Gone,
    Refused(PrefaceError),
}

/// Reads a preface within a time.
///
/// # Errors
/// It is malformed, late, or the client is gone; that is in the log.
pub async fn read(
    worker: &Worker,
    io: &mut Io,
    limit_ms: u64,
    context: &dyn LogContext,
) -> Result<ReadPreface, NoPreface> {
    let deadline = worker.deadlines.add();
    deadline.arm(saker_net::clock::monotonic_ms().saturating_add(limit_ms));
    let preface = poll_fn(|cx| poll_preface(cx, io, &deadline)).await;
    worker.deadlines.remove(&deadline);
    if let Err(reason) = preface {
        complain(reason, &io.input, context);
    }
    preface
}

fn poll_preface(
    cx: &mut Context<'_>,
    io: &mut Io,
    deadline: &Deadline,
) -> Poll<Result<ReadPreface, NoPreface>> {
    loop {
        if deadline.is_over() {
            return Poll::Ready(Err(NoPreface::Late));
        }
        match proxy_preface::parse(&io.input) {
            Ok(Preface::Partial) => {}
            Ok(preface @ Preface::Complete { consumed, .. }) => {
                let tlvs = proxy_preface::tlvs(io.input.get(..consumed).unwrap_or_default()).into();
                io.consume(consumed);
                return Poll::Ready(Ok((preface, tlvs)));
            }
            Err(error) => return Poll::Ready(Err(NoPreface::Refused(error))),
        }
        deadline.register(cx);
        match ready!(poll_more(cx, io)) {
            Ok(0) | Err(_) => return Poll::Ready(Err(NoPreface::Gone)),
            Ok(_) => {}
        }
    }
}

/// Reads once, behind what was read before.
pub fn poll_more(cx: &mut Context<'_>, io: &mut Io) -> Poll<std::io::Result<usize>> {
    let mut piece = [0; PIECE_BYTES];
    let read = ready!(io.transport.poll_read(cx, &mut piece))?;
    io.input
        .extend_from_slice(piece.get(..read).unwrap_or_default());
    Poll::Ready(Ok(read))
}

/// A connection without a request, whose lines name the listener.
pub struct Waiting<'c>(pub &'c Client);

impl LogContext for Waiting<'_> {
    fn context_item(&self, asked: ContextItem<'_>) -> Option<Cow<'_, [u8]>> {
        if asked != ContextItem::SessionEnds {
            return self.0.context_item(asked);
        }
        let client = match *self.0.listener {
            Address::Unix(_) => "unix:".to_owned(),
            Address::Tcp(_) => self.0.address.ip().to_canonical().to_string(),
        };
        let text = format!("client: {client}, server: {}", self.0.listener);
        Some(Cow::Owned(text.into_bytes()))
    }

    fn connection(&self) -> Option<&LogId> {
        self.0.connection()
    }
}

fn complain(reason: NoPreface, input: &[u8], context: &dyn LogContext) {
    let message = &message::PROXY_PREFACE_BAD;
    if !error_log::speaks_nginx() {
        return error_log::log_about(message, context, format_args!(""));
    }
    let (level, text) = words(reason, input);
    let text = format_args!("{text} while reading PROXY protocol");
    error_log::log_nginx(message, level, context, text);
}

/// nginx's words.
fn words(reason: NoPreface, input: &[u8]) -> (Level, String) {
    let is_binary = input.first() == Some(&b'\r') && input.len() > VERSION;
    let text = match reason {
        NoPreface::Late => {
            let text = "client timed out (110: Connection timed out)";
            return (Level::Info, text.to_owned());
        }
        NoPreface::Refused(PrefaceError::TooLong) if is_binary => "header is too large".to_owned(),
        NoPreface::Refused(PrefaceError::Unsupported) if is_binary => {
            match input.get(VERSION).map_or(0, |byte| byte >> 4) {
                2 => "unsupported PROXY preface".to_owned(),
                version => format!("unknown PROXY protocol version: {version}"),
            }
        }
        NoPreface::Refused(error) if is_binary => error.to_string(),
        NoPreface::Refused(_) | NoPreface::Gone => {
            let end = |byte: &u8| matches!(byte, b'\r' | b'\n');
            let end = input.iter().position(end).unwrap_or(input.len());
            let line = input.get(..end.min(SHOWN_BYTES_MAX)).unwrap_or_default();
            format!("broken header: \"{}\"", String::from_utf8_lossy(line))
        }
    };
    (Level::Error, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_refusals() {
        let refused = |error, input: &[u8]| words(NoPreface::Refused(error), input).1;
        let line = b"PROXY X 1\r\nGET";
        let text = refused(PrefaceError::Malformed, line);
        assert_eq!(text, "broken header: \"PROXY X 1\"");
        let long = refused(PrefaceError::TooLong, &[b'x'; 500]);
        assert_eq!(long.len(), "broken header: \"\"".len() + SHOWN_BYTES_MAX);
        let binary = b"\r\n\r\n\0\r\nQUIT\n\x31\x11";
        assert_eq!(
            refused(PrefaceError::Unsupported, binary),
            "unknown PROXY protocol version: 3"
        );
        assert_eq!(
            refused(PrefaceError::TooLong, binary),
            "header is too large"
        );
        assert_eq!(words(NoPreface::Late, b"").0, Level::Info);
    }
}
