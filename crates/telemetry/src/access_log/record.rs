//! The facts of one exchange for an access log line, borrowed from wherever they are.
//!
//! Caveat: a record is built per request, so it only borrows; text that is the same for a whole
//! connection (the client's address) is rendered once by the driver and passed in.

use saker_http::{Fields, HeadView};
use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// State of the connection after the response (`%X`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionStatus {
    /// The client went away before the response was complete.
    Aborted,
    KeepAlive,
    Close,
}

/// Source of values by name: notes (`%{NAME}n`), environment (`%{NAME}e`), trailers.
pub trait Lookup {
    fn value(&self, name: &str) -> Option<&[u8]>;
}

/// Source of values computed on request: variables of the TLS session.
pub trait Computed {
    fn value(&self, name: &str) -> Option<Cow<'_, str>>;
}

pub type Variables<'a> = &'a dyn Lookup;

/// One exchange. Fill the known fields and leave the rest to `..Record::default()`;
/// [`crate::access_log::Needs`] lists the fields in use.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// `None` for a request that could not be parsed.
    pub head: Option<HeadView<'a>>,
    /// First line as received; for HTTP/2 and 3 as HTTP/1 would have had it. Empty if there was
    /// none.
    pub request_line: &'a [u8],
    /// The client's address as text, after PROXY preface or trusted forwarding fields.
    pub client_text: &'a [u8],
    /// Empty where it was not looked up, or is not to be found.
    pub client_name: &'a [u8],
    pub client_port: u16,
    /// The connection's own peer (`%{c}a`); empty if the same as `client_text`.
    pub peer_text: &'a [u8],
    /// `None` on Unix sockets.
    pub local: Option<SocketAddr>,
    /// Port of the site's canonical name if it is not the local port.
    pub canonical_port: Option<u16>,
    /// Requested host, without port.
    pub host: &'a [u8],
    pub site_name: &'a str,
    /// Requested path, decoded, without query.
    pub path: &'a [u8],
    /// Path after internal redirects (`%>U`), where it differs.
    pub final_path: Option<&'a [u8]>,
    /// Method after internal redirects, where it differs.
    pub final_method: Option<&'a [u8]>,
    /// Without the question mark.
    pub query: Option<&'a [u8]>,
    /// Query after internal redirects, if it differs.
    pub final_query: Option<Option<&'a [u8]>>,
    /// Status sent.
    pub status: u16,
    /// Status before error documents and internal redirects; 0 means the same as `status`.
    pub original_status: u16,
    /// Content bytes sent, without head and chunk framing.
    pub body_bytes: u64,
    /// Bytes on the wire, head included.
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Time at which the request head was complete, seconds and microseconds since the epoch.
    pub start_s: i64,
    pub start_us: u32,
    pub duration_us: Option<u64>,
    /// Time until the response head was sent.
    pub first_byte_us: Option<u64>,
    pub user: Option<&'a str>,
    pub file: Option<&'a [u8]>,
    pub handler: &'a str,
    /// Requests served before this one on the same connection.
    pub keepalive_count: u32,
    pub connection_status: ConnectionStatus,
    pub response_fields: Option<&'a Fields>,
    /// `HTTP/1.1`; from the head if empty.
    pub protocol: &'a str,
    pub notes: Option<Variables<'a>>,
    pub environment: Option<Variables<'a>>,
    pub request_trailers: Option<Variables<'a>>,
    pub response_trailers: Option<Variables<'a>>,
    /// The TLS session's variables (`%{NAME}x`).
    pub tls: Option<&'a dyn Computed>,
    /// Id that error log lines about this exchange carry (`%L`).
    pub log_id: &'a str,
    /// Id of the lines about its connection (`%{c}L`).
    pub connection_log_id: &'a str,
}

impl Default for Record<'_> {
    fn default() -> Self {
        Record {
            head: None,
            request_line: b"",
            client_text: b"",
            client_name: b"",
            client_port: 0,
            peer_text: b"",
            local: None,
            canonical_port: None,
            host: b"",
            site_name: "",
            path: b"",
            final_path: None,
            final_method: None,
            query: None,
            final_query: None,
            status: 0,
            original_status: 0,
            body_bytes: 0,
            bytes_in: 0,
            bytes_out: 0,
            start_s: 0,
            start_us: 0,
            duration_us: None,
            first_byte_us: None,
            user: None,
            file: None,
            handler: "",
            keepalive_count: 0,
            connection_status: ConnectionStatus::Close,
            response_fields: None,
            protocol: "",
            notes: None,
            environment: None,
            request_trailers: None,
            response_trailers: None,
            tls: None,
            log_id: "",
            connection_log_id: "",
        }
    }
}

impl Record<'_> {
    /// The two fields of a start time.
    pub fn start_of(time: SystemTime) -> (i64, u32) {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        (
            i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            since.subsec_micros(),
        )
    }

    /// Microseconds since the epoch when the exchange began.
    pub fn begin_us(&self) -> i64 {
        self.start_s
            .saturating_mul(1_000_000)
            .saturating_add(i64::from(self.start_us))
    }

    /// End of the exchange; the same as its beginning if the duration was not measured.
    pub fn end_us(&self) -> i64 {
        self.begin_us()
            .saturating_add(i64::try_from(self.duration_us.unwrap_or(0)).unwrap_or(i64::MAX))
    }
}
