//! Metrics over TCP (`[metrics]`), on the main thread.
//!
//! Called by: the supervisor, which binds the address before a configuration is put in force, and
//! serves it for as long as it runs.
//! Caveat: collectors are clients like any other: heads, connections, and time are limited,
//! and a connection serves one request.
//! Out of scope: the metrics (`control_answers`, `saker_telemetry`).

use httparse::Status;
use saker_config::model::MetricsEndpoint;
use saker_control::EndpointSocket;
use saker_http::host::parse_authority;
use saker_telemetry::metrics::Exposition;
use std::{
    cell::Cell,
    io,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::LocalSet,
    time::timeout,
};

/// Connections at a time; more are closed.
const CONNECTIONS_MAX: usize = 32;
const HEAD_BYTES_MAX: usize = 8 << 10;
const FIELDS_MAX: usize = 64;
/// Time for a request's head, and for taking the response.
const TIME_MAX: Duration = Duration::from_secs(10);
/// The owner of the socket, which knows the metrics.
pub trait MetricsSource {
    fn socket(&self) -> &EndpointSocket;

    fn endpoint(&self) -> MetricsEndpoint;

    fn exposition(&self, format: Exposition, has_latencies: bool) -> String;
}

/// Serves metrics for as long as the server runs.
pub async fn serve(source: Rc<dyn MetricsSource>) {
    LocalSet::new().run_until(accept(&source)).await;
}

async fn accept(source: &Rc<dyn MetricsSource>) {
    let open: Rc<Cell<usize>> = Rc::default();
    loop {
        let (stream, client) = source.socket().accept().await;
        if open.get() < CONNECTIONS_MAX {
            let counted = Counted::new(&open);
            let source = Rc::clone(source);
            tokio::task::spawn_local(async move {
                // A slow client is cut off.
                let _ = timeout(TIME_MAX, converse(stream, client, &*source)).await;
                drop(counted);
            });
        }
    }
}

struct Counted(Rc<Cell<usize>>);

impl Counted {
    fn new(open: &Rc<Cell<usize>>) -> Counted {
        open.set(open.get() + 1);
        Counted(Rc::clone(open))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

async fn converse(
    mut stream: TcpStream,
    client: SocketAddr,
    source: &dyn MetricsSource,
) -> io::Result<()> {
    let mut head = Vec::with_capacity(1024);
    let request = loop {
        if head.len() >= HEAD_BYTES_MAX {
            break Request::refused(431);
        }
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
        if let Some(request) = parse(&head) {
            break request;
        }
    };
    let endpoint = source.endpoint();
    let is_allowed = is_allowed(&endpoint, client.ip());
    let (status, content) = match request.status {
        _ if !is_allowed => (403, String::new()),
        200 => (200, source.exposition(request.format, endpoint.latencies)),
        status => (status, String::new()),
    };
    let mut response = response(status, request.format, content.len());
    if !request.is_head {
        response.push_str(&content);
    }
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await?;
    // What the client has sent beyond its request must not reset the response.
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

fn is_allowed(endpoint: &MetricsEndpoint, client: IpAddr) -> bool {
    let client = client.to_canonical();
    endpoint.allow.is_empty()
        || endpoint
            .allow
            .iter()
            .any(|network| network.contains(client))
}

fn response(status: u16, format: Exposition, length: usize) -> String {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        _ => "Request Header Fields Too Large",
    };
    let kind = match format {
        _ if status != 200 => "text/plain",
        Exposition::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        Exposition::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
    };
    let allow = match status {
        405 => "Allow: GET, HEAD\r\n",
        _ => "",
    };
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{allow}Vary: Accept\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
}

/// A request, or the reason why it gets no metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    status: u16,
    is_head: bool,
    format: Exposition,
}

impl Request {
    fn refused(status: u16) -> Request {
        Request {
            status,
            is_head: false,
            format: Exposition::Prometheus,
        }
    }
}

/// `None`: the head is not complete.
fn parse(head: &[u8]) -> Option<Request> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut fields);
    match parsed.parse(head) {
        Ok(Status::Complete(_)) => {}
        Ok(Status::Partial) => return None,
        Err(httparse::Error::TooManyHeaders) => return Some(Request::refused(431)),
        Err(_) => return Some(Request::refused(400)),
    }
    let all = |name: &'static str| {
        let fields = parsed.headers.iter();
        fields
            .filter(move |field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value)
    };
    let hosts: Vec<&[u8]> = all("host").collect();
    let has_good_host = match (hosts.as_slice(), parsed.version) {
        ([host], _) => parse_authority(host).is_some(),
        ([], Some(0)) => true,
        _ => false,
    };
    let has_content = all("content-length").any(|length| length != b"0")
        || all("transfer-encoding").next().is_some();
    if !has_good_host || has_content {
        return Some(Request::refused(400));
    }
    let is_head = match parsed.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Some(Request::refused(405)),
    };
    let target = parsed.path.unwrap_or_default();
    let accepts = all("accept").any(accepts_openmetrics);
    Some(Request {
        status: match target.split('?').next() {
            Some("/metrics") => 200,
            _ => 404,
        },
        is_head,
        format: match accepts {
            true => Exposition::OpenMetrics,
            false => Exposition::Prometheus,
        },
    })
}

/// Collectors that can read OpenMetrics prefer it.
fn accepts_openmetrics(accept: &[u8]) -> bool {
    let accept = String::from_utf8_lossy(accept).to_ascii_lowercase();
    accept.split(',').any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_named = parts.next() == Some("application/openmetrics-text");
        let quality = parts.find_map(|part| part.strip_prefix("q="));
        let is_refused =
            quality.is_some_and(|quality| quality.parse::<f32>().is_ok_and(|q| q <= 0.0));
        is_named && !is_refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(head: &str) -> Option<u16> {
        parse(head.as_bytes()).map(|request| request.status)
    }

    #[test]
    fn only_plain_requests_for_metrics() {
        for (head, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: a:9145\r\n\r\n", Some(200)),
            (
                "HEAD /metrics?x HTTP/1.1\r\nHost: [::1]:9145\r\n\r\n",
                Some(200),
            ),
            ("GET /metrics HTTP/1.0\r\n\r\n", Some(200)),
            ("GET /metrics HTTP/1.1\r\n\r\n", Some(400)),
            (
                "GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                Some(400),
            ),
            ("GET /metrics HTTP/1.1\r\nHost: a/b\r\n\r\n", Some(400)),
            (
                "GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
                Some(400),
            ),
            (
                "GET /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
                Some(400),
            ),
            ("POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Some(405)),
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", Some(404)),
            ("GET //metrics HTTP/1.1\r\nHost: a\r\n\r\n", Some(404)),
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n", None),
            ("\x16\x03\x01\0\0", Some(400)),
        ] {
            assert_eq!(status(head), expected, "{head:?}");
        }
        let many = "A: b\r\n".repeat(FIELDS_MAX);
        let head = format!("GET /metrics HTTP/1.1\r\nHost: a\r\n{many}\r\n");
        assert_eq!(status(&head), Some(431));
    }

    #[test]
    fn formats() {
        for (accept, expected) in [
            (
                "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
                true,
            ),
            ("text/plain", false),
            ("application/openmetrics-text;q=0, text/plain", false),
            ("*/*", false),
        ] {
            assert_eq!(accepts_openmetrics(accept.as_bytes()), expected, "{accept}");
        }
    }
}
