//! Lines of the error log in nginx's form, as tools for nginx's logs read them:
//! `2026/11/21 09:12:12 [error] 123#124: *7 text, client: 192.0.2.1, server: example.org, request:
//! "GET / HTTP/1.1", host: "example.org", referrer: "http://other/"`.
//!
//! Called by: `error_log`, for logs without a format of their own where the configuration is
//! nginx's.
//! Caveat: request line and fields are the client's, so they are escaped, and quotes in them, too.

use super::{
    log_context::ContextItem,
    render::{Occasion, thread_id},
    text::FACTS_BYTES_MAX,
};
use crate::{
    escape::append_escaped,
    local_time::{Civil, TimeZone, append_padded},
};
use std::io::Write as _;

/// Appends the line with its end.
pub(super) fn append(occasion: &Occasion<'_>, out: &mut Vec<u8>) {
    append_time(occasion, out);
    // Writing to memory cannot fail.
    let _ = write!(
        out,
        " [{}] {}#{}: ",
        occasion.level,
        std::process::id(),
        thread_id()
    );
    let item = |asked| occasion.context.context_item(asked);
    if let Some(number) = item(ContextItem::ConnectionNumber) {
        out.push(b'*');
        out.extend_from_slice(&number);
        out.push(b' ');
    }
    (occasion.message)(out);
    if let Some(ends) = item(ContextItem::SessionEnds) {
        out.extend_from_slice(b", ");
        out.extend_from_slice(&ends);
    } else if let Some(client) = item(ContextItem::Client) {
        out.extend_from_slice(b", client: ");
        out.extend_from_slice(without_port(&client));
    }
    if let Some(request) = item(ContextItem::RequestLine) {
        out.extend_from_slice(b", server: ");
        append_escaped(&item(ContextItem::SiteName).unwrap_or_default(), out);
        append_quoted(b"request", &request, out);
    }
    if let Some(path) = item(ContextItem::Subrequest) {
        append_quoted(b"subrequest", &path, out);
    }
    if let Some(upstream) = item(ContextItem::Upstream) {
        append_quoted(b"upstream", &upstream, out);
    }
    if let Some(bytes) = item(ContextItem::SessionBytes) {
        out.extend_from_slice(b", ");
        out.extend_from_slice(&bytes);
    }
    if let Some(host) = item(ContextItem::Field("Host")) {
        append_quoted(b"host", &host, out);
    }
    if let Some(referrer) = item(ContextItem::Field("Referer")) {
        append_quoted(b"referrer", &referrer, out);
    }
    out.push(b'\n');
}

fn append_time(occasion: &Occasion<'_>, out: &mut Vec<u8>) {
    let unix_s = i64::try_from(occasion.now.as_secs()).unwrap_or(i64::MAX);
    let civil = Civil::at(unix_s, TimeZone::local().offset_s(unix_s));
    let _ = write!(out, "{}/", civil.year);
    let parts = [
        (civil.month, b'/'),
        (civil.day, b' '),
        (civil.hour, b':'),
        (civil.minute, b':'),
        (civil.second, b' '),
    ];
    for (number, behind) in parts {
        append_padded(number, 2, out);
        out.push(behind);
    }
    out.pop();
}

/// An address without its port; a Unix socket has no address.
fn without_port(client: &[u8]) -> &[u8] {
    let end = client.iter().rposition(|byte| *byte == b':');
    let address = end.and_then(|end| client.get(..end)).unwrap_or(client);
    let inside =
        |address| <[u8]>::strip_prefix(address, b"[").and_then(|rest| rest.strip_suffix(b"]"));
    match address {
        b"0.0.0.0" => b"unix:",
        address => inside(address).unwrap_or(address),
    }
}

fn append_quoted(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b", ");
    out.extend_from_slice(name);
    out.extend_from_slice(b": \"");
    let value = value.get(..FACTS_BYTES_MAX).unwrap_or(value);
    for part in value.split_inclusive(|byte| *byte == b'"') {
        match part.split_last() {
            Some((b'"', rest)) => {
                append_escaped(rest, out);
                out.extend_from_slice(b"\\x22");
            }
            _ => append_escaped(part, out),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_where_their_quotes_do() {
        let mut out = Vec::new();
        append_quoted(b"request", b"GET /\", host: \"x\n HTTP/1.1", &mut out);
        let quotes = out.iter().filter(|byte| **byte == b'"').count();
        assert!(quotes == 2 && !out.contains(&b'\n'));
    }

    #[test]
    fn addresses_without_ports() {
        assert_eq!(without_port(b"192.0.2.1:80"), b"192.0.2.1");
        assert_eq!(without_port(b"[2001:db8::1]:80"), b"2001:db8::1");
        assert_eq!(without_port(b"0.0.0.0:0"), b"unix:");
    }
}
