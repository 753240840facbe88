//! Response heads of HTTP/1.
//!
//! Called by: `inbound` and `dispatch`, through the encoder that all protocols share.

use crate::{common_headers::CommonHeaders, request::response_head::HeadSink};
use saker_http::{HeadView, Method, Version};
use saker_http1::{Connection as ConnectionLine, HeadExtra, ResponseFraming, encode_head};
use saker_pipeline::{ReadyHead, Response};

/// A head of HTTP/1, as the end of `out`.
pub struct Http1Head<'a> {
    /// The request.
    view: HeadView<'a>,
    connection: ConnectionLine,
    is_without_chunks: bool,
    out: &'a mut Vec<u8>,
}

impl<'a> Http1Head<'a> {
    pub fn new(
        view: HeadView<'a>,
        connection: ConnectionLine,
        out: &'a mut Vec<u8>,
    ) -> Http1Head<'a> {
        Http1Head {
            view,
            connection,
            is_without_chunks: false,
            out,
        }
    }

    /// Content without a length ends with the connection.
    pub fn without_chunks(self, is_without_chunks: bool) -> Http1Head<'a> {
        Http1Head {
            is_without_chunks,
            ..self
        }
    }
}

impl HeadSink for Http1Head<'_> {
    #[inline(always)]
    fn ready(&mut self, head: &ReadyHead, common: &mut CommonHeaders, now: i64) {
        self.out.extend_from_slice(&head.http1);
        match (head.has_date, head.has_server) {
            (false, false) => self.out.extend_from_slice(common.lines(now)),
            (true, false) => self.out.extend_from_slice(common.lines_without_date(now)),
            (has_date, true) => append_around_server(has_date, common, now, self.out),
        }
        self.out.extend_from_slice(connection_line(self.connection));
        self.out.extend_from_slice(b"\r\n");
    }

    /// The length is part of the framing, which HTTP/1 decides by more than it.
    fn built(&mut self, response: &Response, _: Option<u64>, common: &mut CommonHeaders, now: i64) {
        let framing = framing_of(response, self.view, self.is_without_chunks);
        append_built(response, common, framing, self.connection, now, self.out);
    }
}

/// Appends the common lines of a head that has its own `Server`.
#[cold]
fn append_around_server(has_date: bool, common: &mut CommonHeaders, now: i64, out: &mut Vec<u8>) {
    if !has_date {
        out.extend_from_slice(b"Date: ");
        out.extend_from_slice(common.date(now));
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(common.alt_svc_line());
}

/// Appends a built (and filtered) head. `Date` and `Server` are ours, unless the response has its
/// own.
pub fn append_built(
    response: &Response,
    common: &mut CommonHeaders,
    framing: ResponseFraming,
    connection: ConnectionLine,
    now: i64,
    out: &mut Vec<u8>,
) {
    let extra = HeadExtra {
        date: (!response.fields().has("date")).then(|| common.date(now)),
        connection,
        framing,
        reason: response.reason(),
    };
    encode_head(response.status, response.fields(), extra, out);
    if !response.fields().has("server") {
        out.truncate(out.len() - 2);
        out.extend_from_slice(common.server_line());
        out.extend_from_slice(b"\r\n");
    }
    if !common.alt_svc_line().is_empty() {
        out.truncate(out.len() - 2);
        out.extend_from_slice(common.alt_svc_line());
        out.extend_from_slice(b"\r\n");
    }
}

/// `says_keep_alive`: to clients of HTTP/1.1, too.
pub fn connection_of(version: Version, stays: bool, says_keep_alive: bool) -> ConnectionLine {
    match (version, stays) {
        (_, false) => ConnectionLine::Close,
        (Version::Http10, true) => ConnectionLine::KeepAlive10,
        (_, true) if says_keep_alive => ConnectionLine::KeepAlive10,
        (_, true) => ConnectionLine::KeepAlive,
    }
}

/// RFC 9112 section 6.3, seen from the sender.
pub fn framing_of(
    response: &Response,
    view: HeadView<'_>,
    is_without_chunks: bool,
) -> ResponseFraming {
    match response.body.length() {
        _ if response.status.forbids_content() => ResponseFraming::None,
        // RFC 9110 section 9.3.6: neither length nor coding.
        _ if response.tunnel.is_some() => ResponseFraming::None,
        Some(length) => ResponseFraming::Length(length),
        // RFC 9110 section 9.3.2: a HEAD response may leave out what only content would tell.
        None if view.method() == Method::Head => ResponseFraming::None,
        None if view.version() == Version::Http10 || is_without_chunks => {
            ResponseFraming::UntilClose
        }
        None => ResponseFraming::Chunked,
    }
}

/// Adds the time for which an idle connection is kept to a head.
pub fn append_keep_alive(connection: ConnectionLine, timeout_s: u64, head: &mut Vec<u8>) {
    head.truncate(head.len().saturating_sub(2));
    if connection == ConnectionLine::KeepAlive {
        head.extend_from_slice(b"Connection: keep-alive\r\n");
    }
    head.extend_from_slice(format!("Keep-Alive: timeout={timeout_s}\r\n\r\n").as_bytes());
}

/// The `Connection` line of a response that does not change protocols.
fn connection_line(connection: ConnectionLine) -> &'static [u8] {
    match connection {
        ConnectionLine::Close => b"Connection: close\r\n",
        ConnectionLine::KeepAlive10 => b"Connection: keep-alive\r\n",
        ConnectionLine::KeepAlive | ConnectionLine::Upgrade => b"",
    }
}
