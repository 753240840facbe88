//! A response on its way up.

use crate::{Body, Tunnel};
use saker_http::{Fields, Status};
use std::{cell::OnceCell, rc::Rc};

/// A head that was built once, filtered, and is sent many times. Date and connection fields are the
/// driver's and not in it; Content-Length is.
#[derive(Debug)]
pub struct ReadyHead {
    pub status: Status,
    pub fields: Fields,
    /// Status line and field lines as HTTP/1.1 sends them, without Date and without the empty line.
    pub http1: Box<[u8]>,
    /// The same for HTTP/2 and HTTP/3, encoded by their drivers when first used.
    pub http2: OnceCell<Box<[u8]>>,
    pub http3: OnceCell<Box<[u8]>>,
    /// It has an `Alt-Svc` of its own, which comes before the server's.
    pub has_alt_svc: bool,
}

impl ReadyHead {
    pub fn new(status: Status, fields: Fields) -> ReadyHead {
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
        ReadyHead {
            status,
            fields,
            http1: http1.into(),
            http2: OnceCell::new(),
            http3: OnceCell::new(),
            has_alt_svc,
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
    /// With 101 (RFC 9110 section 15.2.2): the other end of what the connection becomes.
    pub tunnel: Option<Box<dyn Tunnel>>,
}

impl ResponseHead {
    /// Whether it says itself where else the resource is (RFC 7838 section 3).
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
            tunnel: None,
        }
    }

    pub fn ready(head: Rc<ReadyHead>, body: Body) -> Response {
        Response {
            status: head.status,
            head: ResponseHead::Ready(head),
            body,
            tunnel: None,
        }
    }

    /// The fields, for changing; a ready head is copied and becomes a built one.
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
