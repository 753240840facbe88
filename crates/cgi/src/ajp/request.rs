//! FORWARD_REQUEST: method, addresses, fields and attributes, with numbers for the frequent words.
//!
//! What is not among the fields comes from the variables, so that a setting of the configuration
//! counts here too.

use super::packet::PACKET_BYTES_MAX;
use crate::{ProgramRequest, Refused};

const FORWARD_REQUEST: u8 = 2;
const REQUEST_TERMINATOR: u8 = 0xff;
/// A method without a number; its name is an attribute.
const STORED_METHOD: u8 = 0xff;

/// Methods by number, from 1.
pub const METHODS: [&str; 27] = [
    "OPTIONS",
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "TRACE",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "ACL",
    "REPORT",
    "VERSION-CONTROL",
    "CHECKIN",
    "CHECKOUT",
    "UNCHECKOUT",
    "SEARCH",
    "MKWORKSPACE",
    "UPDATE",
    "LABEL",
    "MERGE",
    "BASELINE-CONTROL",
    "MKACTIVITY",
];

/// Request fields by number, from 0xA001.
const FIELDS: [&str; 14] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "authorization",
    "connection",
    "content-type",
    "content-length",
    "cookie",
    "cookie2",
    "host",
    "pragma",
    "referer",
    "user-agent",
];

/// Attributes with a number, and the variable each comes from.
const ATTRIBUTES: [(u8, &[u8]); 5] = [
    (3, b"REMOTE_USER"),
    (4, b"AUTH_TYPE"),
    (7, b"SSL_CLIENT_CERT"),
    (8, b"SSL_CIPHER"),
    (9, b"SSL_SESSION_ID"),
];
const QUERY_STRING: u8 = 5;
/// The worker that a session belongs to. The engine says it by the variable that Apache's balancer
/// sets.
const JVM_ROUTE: (u8, &[u8]) = (6, b"BALANCER_WORKER_ROUTE");
const NAMED: u8 = 10;
const KEY_SIZE: (u8, &[u8]) = (11, b"SSL_CIPHER_USEKEYSIZE");
const SECRET: u8 = 12;
const METHOD: u8 = 13;
/// Request values that Tomcat reads from attributes because the protocol has no field for them.
const FORGOTTEN: [(&[u8], &[u8]); 3] = [
    (b"AJP_REMOTE_PORT", b"REMOTE_PORT"),
    (b"AJP_LOCAL_ADDR", b"SERVER_ADDR"),
    (b"AJP_SSL_PROTOCOL", b"SSL_PROTOCOL"),
];
/// Variables with this in front become attributes without it, as in Apache.
const PREFIX: &[u8] = b"AJP_";

/// In front of each packet of ours.
pub const MAGIC: [u8; 2] = [0x12, 0x34];

/// Appends the packet, or nothing.
pub fn encode(
    request: &ProgramRequest<'_>,
    secret: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let start = out.len();
    let done = packet(request, secret, &mut Writer { out: &mut *out });
    let size = out.len() - start;
    let done = done.and(if size > PACKET_BYTES_MAX {
        Err(Refused::FieldsTooLong)
    } else {
        Ok(())
    });
    match done {
        Ok(()) => out[start + 2..start + 4].copy_from_slice(&((size - 4) as u16).to_be_bytes()),
        Err(_) => out.truncate(start),
    }
    done
}

fn packet(
    request: &ProgramRequest<'_>,
    secret: Option<&[u8]>,
    writer: &mut Writer<'_>,
) -> Result<(), Refused> {
    let variable = |name: &[u8]| request.variables.first(name);
    let method = METHODS
        .iter()
        .position(|method| method.as_bytes() == request.head.method_token());
    writer.bytes(&[
        MAGIC[0],
        MAGIC[1],
        0,
        0,
        FORWARD_REQUEST,
        method.map_or(STORED_METHOD, |at| at as u8 + 1),
    ]);
    writer.string(
        variable(b"SERVER_PROTOCOL").unwrap_or(request.head.version().as_str().as_bytes()),
    )?;
    writer.string(request.path)?;
    writer.string(variable(b"REMOTE_ADDR").unwrap_or_default())?;
    match variable(b"REMOTE_HOST") {
        Some(host) => writer.string(host)?,
        None => writer.number(u16::MAX),
    }
    writer.string(variable(b"SERVER_NAME").unwrap_or_default())?;
    writer.number(number(variable(b"SERVER_PORT")));
    writer.bytes(&[u8::from(variable(b"HTTPS") == Some(b"on"))]);
    fields(request, writer)?;
    if method.is_none() {
        writer.attribute(METHOD, request.head.method_token())?;
    }
    attributes(request, secret, writer)?;
    writer.bytes(&[REQUEST_TERMINATOR]);
    Ok(())
}

/// The content's length is the engine's to say, as is everything that concerns the connection.
fn fields(request: &ProgramRequest<'_>, writer: &mut Writer<'_>) -> Result<(), Refused> {
    let is_sent = |name: &[u8]| {
        !name.eq_ignore_ascii_case(b"content-length")
            && !name.eq_ignore_ascii_case(b"transfer-encoding")
    };
    let length = request.content_length.map(|length| length.to_string());
    let own = length
        .as_ref()
        .map(|length| (&b"content-length"[..], length.as_bytes()));
    // Without a length and with this field the container knows that there is content to ask for.
    let own = own.unwrap_or((b"transfer-encoding", b"chunked"));
    let own = (request.content_length != Some(0)).then_some(own);
    let all = || {
        request
            .head
            .fields()
            .filter(|(name, _)| is_sent(name))
            .chain(own)
    };
    writer.number(u16::try_from(all().count()).map_err(|_| Refused::FieldsTooLong)?);
    for (name, value) in all() {
        match FIELDS
            .iter()
            .position(|field| field.as_bytes().eq_ignore_ascii_case(name))
        {
            Some(at) => writer.number(0xa001 + at as u16),
            None => writer.string(name)?,
        }
        writer.string(value)?;
    }
    Ok(())
}

fn attributes(
    request: &ProgramRequest<'_>,
    secret: Option<&[u8]>,
    writer: &mut Writer<'_>,
) -> Result<(), Refused> {
    let variable = |name: &[u8]| {
        request
            .variables
            .first(name)
            .filter(|value| !value.is_empty())
    };
    for (number, name) in ATTRIBUTES.into_iter().chain([JVM_ROUTE]) {
        variable(name).map_or(Ok(()), |value| writer.attribute(number, value))?;
    }
    // "No query" and "an empty query" are two things, which variables can't tell apart; Apache goes
    // by the URL.
    variable(b"QUERY_STRING").map_or(Ok(()), |value| writer.attribute(QUERY_STRING, value))?;
    if let Some(size) = variable(KEY_SIZE.1) {
        writer.bytes(&[KEY_SIZE.0]);
        writer.number(number(Some(size)));
    }
    for (name, from) in FORGOTTEN {
        variable(from).map_or(Ok(()), |value| writer.named(name, value))?;
    }
    for (name, value) in request.variables.iter() {
        name.strip_prefix(PREFIX)
            .map_or(Ok(()), |name| writer.named(name, value))?;
    }
    secret.map_or(Ok(()), |secret| writer.attribute(SECRET, secret))
}

fn number(text: Option<&[u8]>) -> u16 {
    text.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok())
        .unwrap_or_default()
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
}

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn number(&mut self, number: u16) {
        self.bytes(&number.to_be_bytes());
    }

    /// The container takes a NUL for the end.
    fn string(&mut self, string: &[u8]) -> Result<(), Refused> {
        if memchr::memchr(0, string).is_some() {
            return Err(Refused::NulInVariable);
        }
        if string.len() > PACKET_BYTES_MAX {
            return Err(Refused::FieldsTooLong);
        }
        self.number(string.len() as u16);
        self.bytes(string);
        self.bytes(&[0]);
        Ok(())
    }

    fn attribute(&mut self, number: u8, value: &[u8]) -> Result<(), Refused> {
        self.bytes(&[number]);
        self.string(value)
    }

    fn named(&mut self, name: &[u8], value: &[u8]) -> Result<(), Refused> {
        self.attribute(NAMED, name)?;
        self.string(value)
    }
}
