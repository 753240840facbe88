//! The `json` format: one object per line, always the same keys in the same order, `null` for
//! unknown values.
//!
//! Caveat: requests are bytes, JSON is Unicode. Bytes that are not UTF-8 become U+FFFD, so that a
//! line is always valid.

use super::render::protocol;
use super::{ConnectionStatus, LogClock, Needs, Record};
use crate::escape::{append_decimal, is_clean};
use crate::local_time::append_padded;
use saker_http::{HeadView, KnownField};
use std::io::Write as _;

pub(super) const NEEDS: Needs = Needs {
    duration: true,
    first_byte: false,
    bytes_in: true,
    bytes_out: true,
    response_fields: false,
    notes: false,
    environment: false,
    trailers: false,
    file: false,
    walk: false,
    tls: false,
};

pub(super) fn object(record: &Record<'_>, clock: &mut LogClock, out: &mut Vec<u8>) {
    let known = |field| record.head.and_then(|head| head.known(field));

    out.extend_from_slice(b"{\"time\":\"");
    time(record, clock, out);
    out.push(b'"');
    string("client", non_empty(record.client_text), out);
    string("site", non_empty(record.site_name.as_bytes()), out);
    string("host", non_empty(record.host), out);
    string("method", record.head.map(HeadView::method_token), out);
    string("path", non_empty(record.path), out);
    string("query", record.query, out);
    string("protocol", non_empty(protocol(record).as_bytes()), out);
    // Unparsable requests are only known by their line.
    string(
        "request",
        record.head.is_none().then_some(record.request_line),
        out,
    );
    number("status", Some(record.status.into()), out);
    number("bytes", Some(record.body_bytes), out);
    number("bytes_in", Some(record.bytes_in), out);
    number("bytes_out", Some(record.bytes_out), out);
    milliseconds("duration_ms", record.duration_us, out);
    string("user", record.user.map(str::as_bytes), out);
    string("referer", known(KnownField::Referer), out);
    string("user_agent", known(KnownField::UserAgent), out);
    string("handler", non_empty(record.handler.as_bytes()), out);
    string(
        "connection",
        Some(connection(record.connection_status)),
        out,
    );
    out.push(b'}');
}

fn non_empty(text: &[u8]) -> Option<&[u8]> {
    (!text.is_empty()).then_some(text)
}

fn connection(status: ConnectionStatus) -> &'static [u8] {
    match status {
        ConnectionStatus::Aborted => b"aborted",
        ConnectionStatus::KeepAlive => b"keep-alive",
        ConnectionStatus::Close => b"close",
    }
}

/// RFC 3339 with microseconds.
fn time(record: &Record<'_>, clock: &mut LogClock, out: &mut Vec<u8>) {
    let (second, offset) = clock.rfc3339(record.start_s);
    out.extend_from_slice(second);
    out.push(b'.');
    append_padded(record.start_us.min(999_999), 6, out);
    out.extend_from_slice(offset);
}

fn key(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn string(name: &str, text: Option<&[u8]>, out: &mut Vec<u8>) {
    key(name, out);
    let Some(text) = text else {
        return out.extend_from_slice(b"null");
    };
    out.push(b'"');
    if is_clean(text) {
        out.extend_from_slice(text);
    } else {
        append_unicode(text, out);
    }
    out.push(b'"');
}

fn number(name: &str, value: Option<u64>, out: &mut Vec<u8>) {
    key(name, out);
    match value {
        Some(value) => append_decimal(value, out),
        None => out.extend_from_slice(b"null"),
    }
}

fn milliseconds(name: &str, duration_us: Option<u64>, out: &mut Vec<u8>) {
    number(name, duration_us.map(|duration| duration / 1000), out);
    if let Some(duration_us) = duration_us {
        out.push(b'.');
        append_padded((duration_us % 1000) as u32, 3, out);
    }
}

#[cold]
fn append_unicode(text: &[u8], out: &mut Vec<u8>) {
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            // Beyond RFC 8259 section 7: controls above ASCII steer terminals, and two separators
            // end lines for some readers.
            _ if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}
