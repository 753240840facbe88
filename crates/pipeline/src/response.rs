//! A response: its head, body, and tunnel.
//!
//! Called by: handlers, which create it; filters, which modify it; drivers, which send it.
//! Caveat: a ready head is shared by all requests for its resource; [`Response::fields_mut`] copies
//! it.
//! Out of scope: framing, connection fields, and `Date` (drivers).

use crate::{Body, Tunnel};
use saker_http::{Fields, Status};
use std::{cell::OnceCell, rc::Rc};

/// A head that was built and filtered once and is sent many times. It includes Content-Length; the
/// driver adds Date and connection fields.
#[derive(Debug)]
pub struct ReadyHead {
    pub status: Status,
    pub fields: Fields,
    /// Status line and field lines in HTTP/1.1 syntax, without the final empty line.
    pub http1: Box<[u8]>,
    /// The head for HTTP/2 and HTTP/3, encoded by their drivers on first use.
    pub http2: OnceCell<Box<[u8]>>,
    pub http3: OnceCell<Box<[u8]>>,
    /// The head has its own `Alt-Svc`, which takes precedence over that of the server.
    pub has_alt_svc: bool,
    /// The head has its own `Date`, that of a stored response (RFC 9110 section 6.6.1).
    pub has_date: bool,
    /// The head has its own `Server`.
    pub has_server: bool,
}

impl ReadyHead {
    pub fn new(status: Status, mut fields: Fields) -> ReadyHead {
        fields.shrink();
        let mut http1 = Vec::with_capacity(256);
        http1
            .extend_from_slice(format!("HTTP/1.1 {} {}\r\n", status.0, status.reason()).as_bytes());
        for (name, value) in fields.iter() {
            http1.extend_from_slice(name.as_bytes());
            http1.extend_from_slice(b": ");
            http1.extend_from_slice(value);
            http1.extend_from_slice(b"\r\n");
        }
        let has_alt_svc = fields.has("alt-svc");
        let has_date = fields.has("date");
        let has_server = fields.has("server");
        ReadyHead {
            status,
            fields,
            http1: http1.into(),
            http2: OnceCell::new(),
            http3: OnceCell::new(),
            has_alt_svc,
            has_date,
            has_server,
        }
    }
}

#[derive(Debug)]
pub enum ResponseHead {
    /// Not filtered yet.
    Built(Fields),
    /// Filtered and encoded.
    Ready(Rc<ReadyHead>),
}

pub struct Response {
    pub status: Status,
    pub head: ResponseHead,
    pub body: Body,
    /// The reason phrase of a program or upstream, and the status that it belongs to.
    pub reason: Option<Box<(Status, Box<[u8]>)>>,
    /// The other end of the connection after a 101 response (RFC 9110 section 15.2.2).
    pub tunnel: Option<Box<dyn Tunnel>>,
}

impl ResponseHead {
    /// Returns true if the response has its own `Alt-Svc` (RFC 7838 section 3).
    pub fn has_alt_svc(&self) -> bool {
        match self {
            ResponseHead::Built(fields) => fields.has("alt-svc"),
            ResponseHead::Ready(ready) => ready.has_alt_svc,
        }
    }
}

impl Response {
    pub fn new(status: Status) -> Response {
        Response {
            status,
            head: ResponseHead::Built(Fields::new()),
            body: Body::Empty,
            reason: None,
            tunnel: None,
        }
    }

    pub fn ready(head: Rc<ReadyHead>, body: Body) -> Response {
        Response {
            status: head.status,
            head: ResponseHead::Ready(head),
            body,
            reason: None,
            tunnel: None,
        }
    }

    /// The reason phrase for HTTP/1 clients, where the registered one does not do: it does not
    /// outlive a change of the status.
    pub fn reason(&self) -> Option<&[u8]> {
        let (status, text) = self.reason.as_deref()?;
        (*status == self.status).then_some(text)
    }

    /// Returns the fields for modification; converts a ready head to a built one.
    pub fn fields_mut(&mut self) -> &mut Fields {
        loop {
            let copy = match self.head {
                ResponseHead::Built(ref mut fields) => return fields,
                ResponseHead::Ready(ref ready) => ready.fields.clone(),
            };
            self.head = ResponseHead::Built(copy);
        }
    }

    pub fn fields(&self) -> &Fields {
        match &self.head {
            ResponseHead::Built(fields) => fields,
            ResponseHead::Ready(ready) => &ready.fields,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Handled, Step};

    /// Longer values are moved by a call, and each request moves dozens of these.
    const MOVED_BYTES_MAX: usize = 128;

    #[test]
    fn responses_are_small_enough_to_be_moved_in_place() {
        for bytes in [
            size_of::<Response>(),
            size_of::<Handled>(),
            size_of::<Step<'_>>(),
        ] {
            assert!(bytes <= MOVED_BYTES_MAX, "{bytes}");
        }
    }
}
