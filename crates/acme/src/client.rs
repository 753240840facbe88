//! HTTP client for authorities and the ask rule: one request per connection, on a thread that may
//! block.
//!
//! Called by: `order`, `tend`, and `on_demand`; the console's log-in at a provider. There are a
//! dozen requests per order, so connections are not kept; sessions are resumed. Time, head, and
//! body are limited.
//! Out of scope: redirects (no directory sends them), proxies, HTTP/2.

use crate::blocking;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body::Body;
use instant_acme::{BodyWrapper, BytesResponse, HttpClient};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use saker_http1::{
    chunked::{ChunkedDecoder, Decoded},
    client::{
        self, ClientConnection as Connection, ParsedResponse, RequestLine, ResponseBody,
        ResponseIndex, ResponseLimits, ResponseView,
    },
    framing::BodyFraming,
};
use std::{
    fmt,
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    path::Path,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Timeout of one request, from the DNS look-up to the last byte.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
const RESPONSE_BYTES_MAX: usize = 1 << 20;

const USER_AGENT: &str = concat!("saker/", env!("CARGO_PKG_VERSION"), " (ACME)");

/// Client for one job: `Retry-After` of an authority applies to that job.
#[derive(Clone, Debug)]
pub struct Client {
    tls: Arc<ClientConfig>,
    agent: &'static str,
    retry_after_s: Arc<AtomicU64>,
}

impl Client {
    /// Creates a client that trusts the system's authorities and those in `extra` (PEM).
    pub fn new(extra: Option<&Path>) -> Result<Client, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = extra {
            let fault = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
            for certificate in CertificateDer::pem_file_iter(path).map_err(|error| fault(&error))? {
                roots
                    .add(certificate.map_err(|error| fault(&error))?)
                    .map_err(|error| fault(&error))?;
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let tls = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
        Ok(Client {
            tls,
            agent: USER_AGENT,
            retry_after_s: Arc::default(),
        })
    }

    /// The same with another value of `User-Agent`.
    pub fn named(self, agent: &'static str) -> Client {
        Client { agent, ..self }
    }

    /// The same for another piece of work.
    pub fn fresh(&self) -> Client {
        Client {
            tls: self.tls.clone(),
            agent: self.agent,
            retry_after_s: Arc::default(),
        }
    }

    /// The longest wait that an authority requested with a refusal.
    pub fn retry_after_s(&self) -> Option<u64> {
        Some(self.retry_after_s.load(Ordering::Relaxed)).filter(|seconds| *seconds > 0)
    }

    /// The status of a GET.
    pub async fn status(&self, url: &str) -> Result<u16, String> {
        let uri: Uri = url.parse().map_err(|_| "not a URL".to_owned())?;
        let (head, body) = (Request::builder().uri(uri).body(()), Bytes::new());
        let (parts, ()) = head.map_err(|error| error.to_string())?.into_parts();
        self.send(parts, body)
            .await
            .map(|response| response.status().as_u16())
            .map_err(|error| error.to_string())
    }

    /// The content of the answer to a POST, which has to be a 200.
    pub async fn post(
        &self,
        url: &str,
        content_type: &str,
        content: Vec<u8>,
    ) -> Result<Vec<u8>, String> {
        let uri: Uri = url.parse().map_err(|_| "not a URL".to_owned())?;
        let head = Request::builder()
            .method(Method::POST)
            .uri(uri)
            .header(http::header::CONTENT_TYPE, content_type)
            .body(());
        let (parts, ()) = head.map_err(|error| error.to_string())?.into_parts();
        let response = self
            .send(parts, content.into())
            .await
            .map_err(|error| error.to_string())?;
        match response.status().as_u16() {
            200 => Ok(response.into_body().to_vec()),
            status => Err(format!("HTTP status {status}")),
        }
    }

    /// The status and the content of the answer to a GET, or to a POST of a form.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn fetch(
        &self,
        url: &str,
        fields: &[(&'static str, String)],
        form: Option<String>,
    ) -> Result<(u16, Vec<u8>), String> {
        let uri: Uri = url.parse().map_err(|_| "not a URL".to_owned())?;
        let mut head = Request::builder().uri(uri);
        if form.is_some() {
            let kind = "application/x-www-form-urlencoded";
            head = head
                .method(Method::POST)
                .header(http::header::CONTENT_TYPE, kind);
        }
        for (name, value) in fields {
            head = head.header(*name, value);
        }
        let head = head.body(()).map_err(|error| error.to_string())?;
        let body = form.unwrap_or_default().into();
        let response = self.send(head.into_parts().0, body).await;
        let response = response.map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        Ok((status, response.into_body().to_vec()))
    }

    async fn send(
        &self,
        mut head: http::request::Parts,
        body: Bytes,
    ) -> io::Result<Response<Bytes>> {
        let agent = http::HeaderValue::from_static(self.agent);
        head.headers.insert(http::header::USER_AGENT, agent);
        let tls = self.tls.clone();
        let blocking = blocking::run("acme-request", move || {
            exchange(tls, &head, &body, Instant::now() + REQUEST_TIME_MAX)
        });
        // The DNS look-up has time limits of its own, which may be longer.
        let response = tokio::time::timeout(REQUEST_TIME_MAX, blocking)
            .await
            .map_err(|_| io::ErrorKind::TimedOut)???;
        self.note_wait(&response);
        Ok(response)
    }

    fn note_wait(&self, response: &Response<Bytes>) {
        let waits = response.status().is_client_error() || response.status().is_server_error();
        if let Some(seconds) = retry_after(response.headers()).filter(|_| waits) {
            self.retry_after_s.fetch_max(seconds, Ordering::Relaxed);
        }
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let (head, mut body) = request.into_parts();
            let body = whole_body(&mut body).await;
            let host = head.uri.host().unwrap_or_default().to_owned();
            let response = client.send(head, body).await;
            let response = response.map_err(|error| {
                instant_acme::Error::Other(format!("{host} is not reached: {error}").into())
            })?;
            let (parts, body) = with_problem(response).into_parts();
            Ok(BytesResponse {
                parts,
                body: Box::new(body),
            })
        })
    }
}

/// An error without a problem document, as from a proxy before the authority, gets one.
fn with_problem(response: Response<Bytes>) -> Response<Bytes> {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error
        || serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(response.body())
            .is_ok()
    {
        return response;
    }
    let problem = serde_json::json!({ "detail": format!("HTTP status {}", status.as_u16()), "status": status.as_u16() });
    response.map(|_| Bytes::from(problem.to_string()))
}

async fn whole_body(body: &mut BodyWrapper<Bytes>) -> Bytes {
    let mut whole = Vec::new();
    while let Some(Ok(frame)) =
        std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
    {
        whole.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    whole.into()
}

/// Seconds, or a date (RFC 9110 section 10.2.3); at most a week is believed.
fn retry_after(fields: &HeaderMap) -> Option<u64> {
    let text = fields.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = match text.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let now = crate::schedule::now();
            let at = saker_http::date::parse_date(text.as_bytes(), i64::try_from(now).ok()?)?;
            u64::try_from(at).ok()?.saturating_sub(now)
        }
    };
    Some(seconds.min(7 * 86_400))
}

fn exchange(
    tls: Arc<ClientConfig>,
    head: &http::request::Parts,
    body: &[u8],
    until: Instant,
) -> io::Result<Response<Bytes>> {
    let host = head
        .uri
        .host()
        .ok_or_else(|| invalid("the URL has no host"))?;
    let is_encrypted = head.uri.scheme_str() == Some("https");
    let port = head
        .uri
        .port_u16()
        .unwrap_or(if is_encrypted { 443 } else { 80 });
    let request = request(head, host, body)?;
    let connection = Deadline {
        stream: connect(host, port, until)?,
        until,
    };
    if !is_encrypted {
        return converse(connection, &request, &head.method);
    }
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
        .map_err(|_| invalid("no such host name"))?;
    let session = ClientConnection::new(tls, name).map_err(io::Error::other)?;
    converse(
        StreamOwned::new(session, connection),
        &request,
        &head.method,
    )
}

fn request(head: &http::request::Parts, host: &str, body: &[u8]) -> io::Result<Vec<u8>> {
    let target = head
        .uri
        .path_and_query()
        .map_or("/", http::uri::PathAndQuery::as_str);
    let authority = head
        .uri
        .port_u16()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let line = RequestLine {
        method: head.method.as_str().as_bytes(),
        target: target.as_bytes(),
        host: authority.as_bytes(),
    };
    let own = head
        .headers
        .iter()
        .map(|(name, value)| match *name == http::header::USER_AGENT {
            true => (&b"User-Agent"[..], value.as_bytes()),
            false => (name.as_str().as_bytes(), value.as_bytes()),
        });
    let fields = own.chain([(&b"Accept"[..], &b"*/*"[..])]);
    let framing = if body.is_empty() {
        BodyFraming::None
    } else {
        BodyFraming::Length(body.len() as u64)
    };
    let mut bytes = Vec::with_capacity(512 + body.len());
    client::encode_request_head(line, fields, framing, Connection::Close, &mut bytes)
        .map_err(|_| invalid("not a URL that can be asked"))?;
    bytes.extend_from_slice(body);
    Ok(bytes)
}

/// The first address that answers.
fn connect(host: &str, port: u16, until: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host.trim_matches(['[', ']']), port).to_socket_addrs()? {
        let left = until
            .saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&address, left.min(Duration::from_secs(10))) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A connection that ends all waiting at one moment.
struct Deadline {
    stream: TcpStream,
    until: Instant,
}

impl Deadline {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            Err(io::ErrorKind::TimedOut.into())
        } else {
            Ok(left)
        }
    }
}

impl Read for Deadline {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| {
            self.stream.set_read_timeout(Some(self.left()?))?;
            self.stream.read(buffer)
        })
    }
}

impl Write for Deadline {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        uninterrupted(|| {
            self.stream.set_write_timeout(Some(self.left()?))?;
            self.stream.write(bytes)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Does it again where the process was stopped and went on, or its machine did: a socket with a time
/// limit tells that instead of waiting on (signal(7)).
fn uninterrupted<T>(mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match work() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome.map_err(timed_out),
        }
    }
}

/// A socket's time limit shows as "would block".
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock {
        io::ErrorKind::TimedOut.into()
    } else {
        error
    }
}

fn converse(
    mut stream: impl Read + Write,
    request: &[u8],
    method: &Method,
) -> io::Result<Response<Bytes>> {
    stream.write_all(request)?;
    stream.flush()?;
    let mut bytes = Vec::new();
    loop {
        if let Some(response) = parse(&bytes, method, false)? {
            return Ok(response);
        }
        if bytes.len() > RESPONSE_BYTES_MAX {
            return Err(invalid("the response is too large"));
        }
        let mut piece = [0; 8192];
        match stream.read(&mut piece) {
            Ok(0) => {
                return parse(&bytes, method, true)?
                    .ok_or_else(|| io::ErrorKind::UnexpectedEof.into());
            }
            Ok(length) => bytes.extend_from_slice(piece.get(..length).unwrap_or_default()),
            // The peer closed without close_notify; the framing of the response tells whether it is
            // complete.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return parse(&bytes, method, false)?.ok_or(error);
            }
            Err(error) => return Err(error),
        }
    }
}

/// The response, once it is whole.
fn parse(bytes: &[u8], method: &Method, is_end: bool) -> io::Result<Option<Response<Bytes>>> {
    let fault = |fault: client::ResponseFault| invalid(fault.as_str());
    let (mut index, mut rest) = (ResponseIndex::default(), bytes);
    loop {
        let ParsedResponse::Complete { head_bytes } =
            client::parse_response(rest, &ResponseLimits::default(), &mut index).map_err(fault)?
        else {
            return Ok(None);
        };
        let (head, after) = rest.split_at_checked(head_bytes).unwrap_or((rest, &[]));
        let view = ResponseView::new(head, &index);
        // Authorities write what the standard says.
        if view.is_lenient() {
            return Err(fault(client::ResponseFault::BadLineEnd));
        }
        if view.status().0 < 200 {
            rest = after;
            continue;
        }
        let method = if method == Method::HEAD {
            saker_http::Method::Head
        } else {
            saker_http::Method::Get
        };
        let body = match client::response_framing(method, view).map_err(fault)? {
            ResponseBody::None => Some(Vec::new()),
            ResponseBody::Length(length) => usize::try_from(length)
                .ok()
                .and_then(|length| after.get(..length))
                .map(<[u8]>::to_vec),
            ResponseBody::Chunked => chunked(after)?,
            ResponseBody::UntilClose => is_end.then(|| after.to_vec()),
            ResponseBody::Tunnel => return Err(invalid("an upgrade that nobody asked for")),
        };
        return body.map(|body| whole(view, body)).transpose();
    }
}

fn chunked(bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let (mut decoder, mut body, mut at) = (ChunkedDecoder::default(), Vec::new(), 0);
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        match decoder
            .decode(rest)
            .map_err(|_| invalid("malformed chunk in response"))?
        {
            Decoded::NeedMore => return Ok(None),
            Decoded::End { .. } => return Ok(Some(body)),
            Decoded::Data {
                consumed_before,
                len,
            } => {
                body.extend_from_slice(
                    rest.get(consumed_before..consumed_before + len)
                        .unwrap_or_default(),
                );
                at += consumed_before + len;
            }
        }
    }
}

fn whole(view: ResponseView<'_>, body: Vec<u8>) -> io::Result<Response<Bytes>> {
    let mut response = Response::builder().status(view.status().0);
    for (name, value) in view.fields() {
        response = response.header(name, value);
    }
    response.body(Bytes::from(body)).map_err(io::Error::other)
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_owned())
}

#[cfg(test)]
mod tests;
