//! Response heads of HTTP/2 and HTTP/3: reusable heads are copied as encoded once, all others are
//! encoded without building a map.
//!
//! Called by: the encoder that all protocols share (`request::response_head`).
//! Out of scope: HPACK and QPACK, which a [`FieldSink`] writes.

use crate::{
    common_headers::{CommonHeaders, OwnFields},
    request::response_head::HeadSink,
};
use saker_http::Fields;
use saker_http2::Indexing;
use saker_pipeline::{ReadyHead, Response};

/// A protocol's compression, at a head that has been begun.
pub trait FieldSink {
    fn status(&mut self, status: u16);

    fn field(&mut self, name: &[u8], value: &[u8], indexing: Indexing);

    /// The reusable part of a head, encoded without reference to a connection.
    fn ready_fields(&mut self, head: &ReadyHead);

    /// `Date`, and `Server` with it, but for those that the response has itself.
    fn common(&mut self, common: &mut CommonHeaders, now: i64, own: OwnFields);
}

impl<S: FieldSink> HeadSink for S {
    fn ready(&mut self, head: &ReadyHead, common: &mut CommonHeaders, now: i64) {
        self.ready_fields(head);
        let own = OwnFields {
            date: head.has_date,
            server: head.has_server,
        };
        self.common(common, now, own);
    }

    fn built(
        &mut self,
        response: &Response,
        length: Option<u64>,
        common: &mut CommonHeaders,
        now: i64,
    ) {
        let fields = response.fields();
        self.status(response.status.0);
        append_fields(fields, self);
        if let Some(length) =
            length.filter(|_| !fields.has("content-length") && !response.status.forbids_content())
        {
            self.field(
                b"content-length",
                length.to_string().as_bytes(),
                Indexing::Without,
            );
        }
        let own = OwnFields {
            date: fields.has("date"),
            server: fields.has("server"),
        };
        self.common(common, now, own);
    }
}

/// Fields as they are, but for those that are not sent.
pub fn append_fields(fields: &Fields, sink: &mut impl FieldSink) {
    for (name, value) in fields.iter().filter(|line| is_sent(line.0)) {
        sink.field(name.as_bytes(), trimmed(value), indexing(name));
    }
}

/// Encodes what [`FieldSink::ready_fields`] copies.
pub fn encode_ready(
    ready: &ReadyHead,
    status: fn(u16, &mut Vec<u8>),
    field: fn(&[u8], &[u8], &mut Vec<u8>),
) -> Box<[u8]> {
    let mut block = Vec::with_capacity(256);
    status(ready.status.0, &mut block);
    for (name, value) in ready.fields.iter().filter(|line| is_sent(line.0)) {
        field(name.as_bytes(), trimmed(value), &mut block);
    }
    block.into()
}

/// A value without surrounding whitespace, which HTTP/1 ignores and which makes a response
/// malformed here (RFC 9113 section 8.2.1, RFC 9114 section 10.3). Values that are certificates end
/// in whitespace.
fn trimmed(value: &[u8]) -> &[u8] {
    match value {
        [b' ' | b'\t', ..] | [.., b' ' | b'\t'] => value.trim_ascii(),
        _ => value,
    }
}

const NOT_SENT: [&str; 6] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
    "te",
];

/// Returns whether a field is sent: connection-specific fields are not (RFC 9113 section 8.2.2,
/// RFC 9114 section 4.2).
fn is_sent(name: &str) -> bool {
    !NOT_SENT
        .iter()
        .any(|other| other.eq_ignore_ascii_case(name))
}

/// Chooses fields for the dynamic table: repeated values are worth an entry; values that name one
/// resource, and secrets, are not.
fn indexing(name: &str) -> Indexing {
    const REPEATED: [&str; 6] = [
        "content-type",
        "cache-control",
        "vary",
        "x-powered-by",
        "server",
        "strict-transport-security",
    ];
    match name {
        _ if name.eq_ignore_ascii_case("set-cookie") => Indexing::Never,
        _ if REPEATED
            .iter()
            .any(|other| other.eq_ignore_ascii_case(name)) =>
        {
            Indexing::Add
        }
        _ => Indexing::Without,
    }
}
