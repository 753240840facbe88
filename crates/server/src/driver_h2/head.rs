//! Response heads as HTTP/2 sends them: those that are ready are copied as encoded once, the rest are encoded without building a map.

use crate::tail::Tail;
use saker_http::Fields;
use saker_http2::{HeadEncoder, Indexing, StreamId, hpack};
use saker_pipeline::{ReadyHead, Response, ResponseHead};

/// Sends the head of a response whose content has `length` (for HEAD: would have, where that is known).
#[allow(clippy::too_many_arguments)]
pub fn send(
    machine: &mut saker_http2::Connection,
    stream: StreamId,
    response: &Response,
    length: Option<u64>,
    end_stream: bool,
    tail: &mut Tail,
    now: i64,
    out: &mut Vec<u8>,
) {
    machine.send_head(stream, end_stream, out, |head| match &response.head {
        ResponseHead::Ready(ready) => {
            head.raw(ready.http2.get_or_init(|| encode_ready(ready)));
            head.raw(tail.http2(now, true));
        }
        ResponseHead::Built(fields) => {
            head.status(response.status.0);
            append_fields(fields, head);
            if let Some(length) = length.filter(|_| !fields.has("content-length") && !response.status.forbids_content()) {
                head.field(b"content-length", length.to_string().as_bytes(), Indexing::Without);
            }
            head.raw(tail.http2(now, !fields.has("server")));
        }
    });
}

/// Fields as they are, but for those that HTTP/2 does not know (RFC 9113 section 8.2.2) and `Date`, which is the driver's.
pub fn append_fields(fields: &Fields, head: &mut HeadEncoder<'_>) {
    for (name, value) in fields.iter().filter(|line| is_sent(line.0)) {
        head.field(name.as_bytes(), value, indexing(name));
    }
}

fn encode_ready(ready: &ReadyHead) -> Box<[u8]> {
    let mut block = Vec::with_capacity(256);
    hpack::encode_status_stateless(ready.status.0, &mut block);
    for (name, value) in ready.fields.iter().filter(|line| is_sent(line.0)) {
        hpack::encode_stateless(name.as_bytes(), value, &mut block);
    }
    block.into()
}

const NOT_SENT: [&str; 7] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te", "date"];

fn is_sent(name: &str) -> bool {
    !NOT_SENT.iter().any(|other| other.eq_ignore_ascii_case(name))
}

/// What a handler says again and again is worth a place in the client's table; what names one resource, or a secret, is not.
fn indexing(name: &str) -> Indexing {
    const REPEATED: [&str; 6] = ["content-type", "cache-control", "vary", "x-powered-by", "server", "strict-transport-security"];
    match name {
        _ if name.eq_ignore_ascii_case("set-cookie") => Indexing::Never,
        _ if REPEATED.iter().any(|other| other.eq_ignore_ascii_case(name)) => Indexing::Add,
        _ => Indexing::Without,
    }
}
