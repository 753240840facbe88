//! Requests on their way to the exchanges: at once, or after the handshake.
//!
//! Called by: `inbound`.

use super::{connection::Connection, early::HeldRequest};
use crate::mux::StreamId;
use saker_http::{HeadView, Method, RequestHead};

impl Connection {
    /// A request, early or not.
    pub(super) fn ask(
        &mut self,
        stream: u64,
        ends: bool,
        view: HeadView<'_>,
        protocol: Option<&[u8]>,
        quic: &mut saker_quic::Connection,
    ) {
        if !quic.is_early() {
            return self.ask_now(stream, ends, view, protocol, quic);
        }
        if protocol.is_none() && is_safe(view.method()) {
            let marked = marked(view);
            return self.ask_now(stream, ends, marked.view(), None, quic);
        }
        self.early.0.push(HeldRequest {
            stream,
            ends,
            head: view.to_owned(),
            protocol: protocol.map(Box::from),
        });
    }

    fn ask_now(
        &mut self,
        stream: u64,
        ends: bool,
        view: HeadView<'_>,
        protocol: Option<&[u8]>,
        quic: &mut saker_quic::Connection,
    ) {
        let (exchanges, mut wire) = self.with_wire(quic);
        match protocol {
            None => exchanges.request(StreamId(stream), ends, view, &mut wire),
            Some(protocol) => {
                exchanges.ask_for_tunnel(StreamId(stream), ends, protocol, view, &mut wire)
            }
        }
    }

    /// Dispatches the requests that waited for the end of the handshake.
    pub(super) fn ask_what_waited(&mut self, quic: &mut saker_quic::Connection) {
        for held in std::mem::take(&mut self.early.0) {
            self.ask_now(
                held.stream,
                held.ends,
                held.head.view(),
                held.protocol.as_deref(),
                quic,
            );
            self.out.resumed.push(held.stream);
        }
    }
}

/// RFC 9110 section 9.2.1.
fn is_safe(method: Method) -> bool {
    matches!(method, Method::Get | Method::Head | Method::Options)
}

/// Marks a request as early data (RFC 8470 section 5.1), unless the client has marked it.
fn marked(view: HeadView<'_>) -> RequestHead {
    let head = view.to_owned();
    match view.first("early-data") {
        Some(_) => head,
        None => head.with_fields(view.fields().chain([(&b"early-data"[..], &b"1"[..])])),
    }
}
