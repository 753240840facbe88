//! Bytes to requests: the console's side of HTTP/1.1.
//!
//! Called by: `serve`.
//! Caveat: content is read only after the gate has admitted the request, and is bounded by what
//! the route takes.
//! Out of scope: the grammar (`saker_http1`).

use crate::{
    connection::Connection,
    exchange::{Form, Request},
};
use saker_http::HeadIndex;
use saker_http1::{
    BodyFraming, Expectation, Parsed, RequestLimits, check_request, expectation, keep_alive,
    parse_request,
};
use std::{io, net::IpAddr};

/// Limits on a head. Cookies of other services on the same host come along.
const LIMITS: RequestLimits = RequestLimits {
    head_bytes_max: 32 * 1024,
    header_count_max: 100,
    target_bytes_max: 8 * 1024,
    field_bytes_max: usize::MAX,
};

/// A request without its content, and how that is framed.
pub struct ReadHead {
    pub request: Request,
    pub length: u64,
    pub stays: bool,
    pub wants_continue: bool,
}

/// Reason for a request that is not read.
pub enum ReadError {
    /// The client is gone, or has said nothing.
    Gone,
    /// It gets this status.
    Refused(u16),
}

impl From<io::Error> for ReadError {
    fn from(_: io::Error) -> ReadError {
        ReadError::Gone
    }
}

/// Reads a head.
pub async fn read_head(
    connection: &mut Connection,
    client: IpAddr,
    is_secure: bool,
) -> Result<ReadHead, ReadError> {
    let mut index = HeadIndex::default();
    let head_bytes = loop {
        if !connection.received.is_empty() {
            let parsed = parse_request(&connection.received, &LIMITS, &mut index)
                .map_err(|reject| ReadError::Refused(reject.status.0))?;
            if let Parsed::Complete { head_bytes } = parsed {
                break head_bytes;
            }
        }
        if !connection.receive().await? {
            return Err(ReadError::Gone);
        }
    };
    let bytes: Vec<u8> = connection.received.drain(..head_bytes).collect();
    let head = saker_http::RequestHead::new(bytes.into_boxed_slice(), index);
    let view = head.view();
    let framing = check_request(view).map_err(|reject| ReadError::Refused(reject.status.0))?;
    let length = match framing {
        BodyFraming::None => 0,
        BodyFraming::Length(length) => length,
        // No form and no client of the API needs it.
        BodyFraming::Chunked => return Err(ReadError::Refused(411)),
    };
    let wants_continue = match expectation(view) {
        Expectation::None => false,
        Expectation::Continue => true,
        Expectation::Unknown => return Err(ReadError::Refused(417)),
    };
    let target = std::str::from_utf8(view.target()).map_err(|_| ReadError::Refused(400))?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (path, query) = (path.to_owned(), Form::parse(query.as_bytes()));
    let stays = keep_alive(view);
    Ok(ReadHead {
        request: Request {
            path,
            query,
            head,
            body: Vec::new(),
            client,
            is_secure,
        },
        length,
        stays,
        wants_continue,
    })
}

/// Reads the content of a request.
pub async fn read_body(connection: &mut Connection, read: &mut ReadHead) -> Result<(), ReadError> {
    let length = usize::try_from(read.length).map_err(|_| ReadError::Refused(413))?;
    if read.wants_continue && connection.received.len() < length {
        connection.send(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    while connection.received.len() < length {
        if !connection.receive().await? {
            return Err(ReadError::Gone);
        }
    }
    read.request.body = connection.received.drain(..length).collect();
    Ok(())
}
