//! Response heads, server role (RFC 9112 sections 4, 6.1 and 9.6).
//!
//! The last step before the socket. What a handler says about its content is taken as given; how
//! the message is framed and what becomes of the connection is said here only, by the driver, so
//! that no handler or backend can contradict it.
//!
//! The one difficulty is response splitting: a handler may pass on text that a client chose. A line
//! break in a value would end the line, so controls become spaces, and a name that is no token
//! loses its whole line.

use saker_http::{
    Fields, Status,
    chars::{has_control, is_token},
    field_name::{Known, NameSet},
};

use crate::octets;

/// Fields that the driver adds to a handler's.
#[derive(Clone, Copy, Debug)]
pub struct HeadExtra<'a> {
    /// RFC 9110 section 6.6.1; takes the place of a handler's `Date`. `None`: the handler's stays.
    pub date: Option<&'a [u8; 29]>,
    pub connection: Connection,
    pub framing: ResponseFraming,
    /// Takes the place of the registered reason phrase.
    pub reason: Option<&'a [u8]>,
}

/// Fate of the connection after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// Stays, and the client speaks HTTP/1.0 and must be told.
    KeepAlive10,
    /// Stays, as HTTP/1.1 has it by default.
    KeepAlive,
    Close,
    /// Changes its protocol (101); the new one is in the handler's `Upgrade`.
    Upgrade,
}

/// Delimiter of the response's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFraming {
    Length(u64),
    Chunked,
    /// No content and nothing said about it.
    None,
    /// For HTTP/1.0 clients, content of unknown length. Implies [`Connection::Close`].
    UntilClose,
}

/// Appends status line, fields and the empty line. Lines that stay as they were received are copied
/// as they are, neighbors in one piece.
pub fn encode_head(status: Status, fields: &Fields, extra: HeadExtra<'_>, out: &mut Vec<u8>) {
    append_status_line(status, extra.reason, out);
    if let Some(date) = extra.date {
        out.extend_from_slice(b"Date: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n");
    }
    let mut offers_upgrade = false;
    let said_here = |name: &[u8]| {
        FRAMING.may_have(name) && is_framing_field(name) || extra.date.is_some() && DATE.is(name)
    };
    let mut run = 0..0;
    for (name, value, range) in fields.iter_received() {
        if said_here(name.as_bytes()) {
            continue;
        }
        offers_upgrade |= UPGRADE.is(name.as_bytes());
        match range {
            Some(range) if range.start == run.end => run.end = range.end,
            Some(range) => {
                out.extend_from_slice(&fields.received()[run]);
                run = range;
            }
            None => {
                out.extend_from_slice(&fields.received()[std::mem::take(&mut run)]);
                append_field(name, value, out);
            }
        }
    }
    out.extend_from_slice(&fields.received()[run]);
    out.extend_from_slice(connection_line(extra, offers_upgrade));
    append_framing(status, extra.framing, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends an interim response (RFC 9110 section 15.2), such as 100 or 103. For 101 use
/// [`encode_head`].
pub fn encode_informational(status: Status, fields: &Fields, out: &mut Vec<u8>) {
    append_status_line(status, None, out);
    for (name, value) in fields
        .iter()
        .filter(|line| !is_framing_field(line.0.as_bytes()))
    {
        append_field(name, value, out);
    }
    out.extend_from_slice(b"\r\n");
}

/// One field line. Controls in the value become spaces (RFC 9110 section 5.5); a name that is no
/// token is left out with its value.
pub(crate) fn append_field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    if is_token(name.as_bytes()) {
        append_line(name, value, out);
    }
}

/// [`append_field`] of a name that is known to be a token.
pub(crate) fn append_own_field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    debug_assert!(is_token(name.as_bytes()), "{name}");
    append_line(name, value, out);
}

#[inline(always)]
fn append_line(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.reserve(name.len() + value.len() + b": \r\n".len());
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    append_value(value, out);
    out.extend_from_slice(b"\r\n");
}

fn append_value(value: &[u8], out: &mut Vec<u8>) {
    if has_control(value) {
        out.extend(value.iter().map(|byte| {
            if octets::FIELD_VALUE[usize::from(*byte)] {
                *byte
            } else {
                b' '
            }
        }));
    } else {
        out.extend_from_slice(value);
    }
}

/// Fields that only the driver writes: framing, and what RFC 9110 section 7.6.1 calls
/// connection-specific.
#[inline]
pub(crate) fn is_framing_field(name: &[u8]) -> bool {
    match name.len() {
        10 => CONNECTION.is(name) || KEEP_ALIVE.is(name),
        14 => CONTENT_LENGTH.is(name),
        16 => PROXY_CONNECTION.is(name),
        17 => TRANSFER_ENCODING.is(name),
        _ => false,
    }
}

/// The names of [`is_framing_field`].
const FRAMING: NameSet = NameSet::of(&[
    "connection",
    "keep-alive",
    "content-length",
    "proxy-connection",
    "transfer-encoding",
]);

pub(crate) const CONNECTION: Known = Known::new("connection");
pub(crate) const KEEP_ALIVE: Known = Known::new("keep-alive");
pub(crate) const CONTENT_LENGTH: Known = Known::new("content-length");
const PROXY_CONNECTION: Known = Known::new("proxy-connection");
pub(crate) const TRANSFER_ENCODING: Known = Known::new("transfer-encoding");
const DATE: Known = Known::new("date");
pub(crate) const UPGRADE: Known = Known::new("upgrade");

fn append_status_line(status: Status, reason: Option<&[u8]>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    // A code outside three digits is a handler's mistake; the client must still be able to read the
    // line.
    let status = if (100..=999).contains(&status.0) {
        status
    } else {
        Status::INTERNAL_SERVER_ERROR
    };
    append_decimal(u64::from(status.0), out);
    out.push(b' ');
    append_value(reason.unwrap_or(status.reason().as_bytes()), out);
    out.extend_from_slice(b"\r\n");
}

/// RFC 9110 section 7.8: who sends `Upgrade` (with 101, or with 426 as an offer) lists it in
/// `Connection`.
fn connection_line(extra: HeadExtra<'_>, offers_upgrade: bool) -> &'static [u8] {
    let connection = if extra.framing == ResponseFraming::UntilClose {
        Connection::Close
    } else {
        extra.connection
    };
    match (connection, offers_upgrade) {
        (Connection::KeepAlive, false) => b"",
        (Connection::KeepAlive10, false) => b"Connection: keep-alive\r\n",
        (Connection::KeepAlive10, true) => b"Connection: keep-alive, upgrade\r\n",
        (Connection::Close, false) => b"Connection: close\r\n",
        (Connection::Close, true) => b"Connection: close, upgrade\r\n",
        (Connection::KeepAlive, true) | (Connection::Upgrade, _) => b"Connection: upgrade\r\n",
    }
}

/// RFC 9110 section 8.6 and RFC 9112 section 6.1: neither length nor coding in 1xx and 204.
fn append_framing(status: Status, framing: ResponseFraming, out: &mut Vec<u8>) {
    if status.is_informational() || status == Status::NO_CONTENT {
        return;
    }
    match framing {
        ResponseFraming::Length(length) => {
            out.extend_from_slice(b"Content-Length: ");
            append_decimal(length, out);
            out.extend_from_slice(b"\r\n");
        }
        ResponseFraming::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        ResponseFraming::None | ResponseFraming::UntilClose => {}
    }
}

/// Digits without the formatting machinery, which costs more than the rest of a head.
pub(crate) fn append_decimal(mut number: u64, out: &mut Vec<u8>) {
    let start = out.len();
    loop {
        out.push(b'0' + (number % 10) as u8);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}

#[cfg(test)]
mod tests;
