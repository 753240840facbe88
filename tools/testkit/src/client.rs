//! A raw HTTP/1.1 client: it sends the bytes it is given and reads what comes, however wrong the
//! former.
//!
//! The one difficulty is where a response ends (RFC 9112 section 6.3), which depends on the
//! request's method: the caller says HEAD. It is strict with what it reads: a test should fail on a
//! response that only a kind client would take. Absent on purpose: redirects, cookies,
//! decompression.

use crate::wait::{keep_waiting, poll};
use std::{
    fmt,
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::{fd::AsFd, unix::net::UnixStream},
    path::Path,
    time::{Duration, Instant},
};

const READ_TIMEOUT: Duration = Duration::from_secs(20);
const HEAD_BYTES_MAX: usize = 256 << 10;

/// One connection.
pub struct Client {
    stream: Box<dyn Transport>,
    /// Read from the connection, not yet part of a response.
    pending: Vec<u8>,
    timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// `HTTP/1.1`
    pub version: String,
    pub status: u16,
    pub reason: String,
    /// As sent, in order.
    pub fields: Vec<(String, String)>,
    /// Without framing.
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, READ_TIMEOUT)?;
        stream.set_nodelay(true)?;
        Client::over(Box::new(stream))
    }

    /// Connects from an address of this machine.
    pub fn connect_from(source: SocketAddr, address: SocketAddr) -> io::Result<Client> {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = socket(family, SocketType::STREAM, None)?;
        bind(&socket, &source)?;
        connect(&socket, &address)?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        Client::over(Box::new(stream))
    }

    /// To a server that is starting: one of its sockets may answer before another is there.
    pub fn connect_when_up(address: SocketAddr) -> io::Result<Client> {
        when_up(|| Client::connect(address))
    }

    /// Likewise.
    pub fn connect_unix(path: impl AsRef<Path>) -> io::Result<Client> {
        when_up(|| Client::over(Box::new(UnixStream::connect(path.as_ref())?)))
    }

    /// Uses an existing connection, for example from another source address.
    pub fn over_tcp(stream: TcpStream) -> io::Result<Client> {
        Client::over(Box::new(stream))
    }

    /// Uses an existing connection, for example to a program.
    pub fn over_unix(stream: UnixStream) -> io::Result<Client> {
        Client::over(Box::new(stream))
    }

    /// The longest wait for a byte; 20 s unless told.
    pub fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.timeout = timeout;
        self.stream.wait_at_most(timeout)
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// No more will be sent; what the server still has to say can be read.
    pub fn finish_sending(&mut self) -> io::Result<()> {
        self.stream.half_close()
    }

    /// Ends the connection by a reset, as if there were something that the client has not read; a
    /// Unix socket is closed.
    pub fn reset(self) -> io::Result<()> {
        self.stream.reset_on_drop()
    }

    /// GET with a Host field, and the response.
    pub fn get(&mut self, target: &str) -> io::Result<Response> {
        self.request("GET", target, &[])
    }

    pub fn head(&mut self, target: &str) -> io::Result<Response> {
        self.request("HEAD", target, &[])
    }

    /// A request without a body, with Host and the given fields; interim responses are passed over.
    pub fn request(
        &mut self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
    ) -> io::Result<Response> {
        self.request_with(method, target, fields, b"")
    }

    /// As [`Client::request`], with content, whose length the fields say.
    pub fn request_with(
        &mut self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        content: &[u8],
    ) -> io::Result<Response> {
        let mut text = format!("{method} {target} HTTP/1.1\r\n");
        if !fields
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("host"))
        {
            text.push_str("Host: localhost\r\n");
        }
        for (name, value) in fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        self.send([text.as_bytes(), content].concat())?;
        loop {
            let response = if method == "HEAD" {
                self.read_head_response()?
            } else {
                self.read_response()?
            };
            if response.status >= 200 || response.status == 101 {
                return Ok(response);
            }
        }
    }

    /// Sends all requests at once, then reads as many responses.
    pub fn pipeline<T: AsRef<[u8]>>(&mut self, requests: &[T]) -> io::Result<Vec<Response>> {
        let all: Vec<u8> = requests
            .iter()
            .flat_map(|request| request.as_ref().to_vec())
            .collect();
        self.send(all)?;
        requests.iter().map(|_| self.read_response()).collect()
    }

    /// The next response, interim ones included, to anything but HEAD.
    pub fn read_response(&mut self) -> io::Result<Response> {
        let mut response = self.read_head()?;
        self.read_body(&mut response)?;
        Ok(response)
    }

    /// The next response to a HEAD request: no body, whatever the fields say.
    pub fn read_head_response(&mut self) -> io::Result<Response> {
        self.read_head()
    }

    /// Everything up to the end of the connection. A reset counts as an end; a connection that
    /// stays open is an error.
    pub fn read_to_close(&mut self, timeout: Duration) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let read = String::from_utf8_lossy(&self.pending).into_owned();
                return Err(io::Error::new(
                    ErrorKind::TimedOut,
                    format!("still open after {timeout:?}; read so far: {read:?}"),
                ));
            }
            self.stream.wait_at_most(left)?;
            match self.fill() {
                Ok(0) => break,
                Ok(_) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
                    ) =>
                {
                    break;
                }
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.stream.wait_at_most(self.timeout)?;
        Ok(std::mem::take(&mut self.pending))
    }

    /// True if the server closes within `timeout` without another byte.
    pub fn closed_within(&mut self, timeout: Duration) -> bool {
        self.read_to_close(timeout)
            .is_ok_and(|rest| rest.is_empty())
    }

    /// True if the connection stays open and silent for `pause`.
    pub fn silent_for(&mut self, pause: Duration) -> io::Result<bool> {
        if !self.pending.is_empty() {
            return Ok(false);
        }
        self.stream.wait_at_most(pause)?;
        let silent = matches!(self.fill(), Err(error) if is_timeout(&error));
        self.stream.wait_at_most(self.timeout)?;
        Ok(silent)
    }

    /// Does nothing for this long, or until the server closes the connection; what it sends is read
    /// later.
    pub fn pause(&self, time: Duration) -> io::Result<()> {
        keep_waiting(&self.stream, time)
    }

    /// Exactly `count` bytes, past all framing.
    pub fn read_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.pending.len() < count {
            self.fill_more("bytes")?;
        }
        Ok(self.pending.drain(..count).collect())
    }

    fn over(stream: Box<dyn Transport>) -> io::Result<Client> {
        let mut client = Client {
            stream,
            pending: Vec::new(),
            timeout: READ_TIMEOUT,
        };
        client.set_timeout(READ_TIMEOUT)?;
        Ok(client)
    }

    fn read_head(&mut self) -> io::Result<Response> {
        let end = loop {
            if let Some(at) = find(&self.pending, b"\r\n\r\n") {
                break at + 4;
            }
            if self.pending.len() > HEAD_BYTES_MAX {
                return Err(bad("the head does not end"));
            }
            self.fill_more("a response head")?;
        };
        let head: Vec<u8> = self.pending.drain(..end).collect();
        parse_head(&head)
    }

    /// RFC 9112 section 6.3: which of the framings holds.
    fn read_body(&mut self, response: &mut Response) -> io::Result<()> {
        if response.status < 200 || matches!(response.status, 204 | 304) {
            return Ok(());
        }
        if let Some(coding) = response.field("transfer-encoding") {
            if !coding.eq_ignore_ascii_case("chunked") {
                return Err(bad(format!("transfer coding {coding:?}")));
            }
            if response.field("content-length").is_some() {
                return Err(bad("both Transfer-Encoding and Content-Length"));
            }
            return self.read_chunked(response);
        }
        match response.content_length()? {
            Some(length) => response.body = self.read_bytes(length)?,
            None => response.body = self.read_to_close(self.timeout)?,
        }
        Ok(())
    }

    /// RFC 9112 section 7.1.
    fn read_chunked(&mut self, response: &mut Response) -> io::Result<()> {
        loop {
            let line = self.read_line()?;
            let digits = line.split(';').next().unwrap_or_default().trim_end();
            let size = usize::from_str_radix(digits, 16)
                .map_err(|_| bad(format!("chunk size {line:?}")))?;
            if size == 0 {
                break;
            }
            let chunk = self.read_bytes(size)?;
            response.body.extend_from_slice(&chunk);
            if self.read_bytes(2)? != b"\r\n" {
                return Err(bad("a chunk that does not end where it should"));
            }
        }
        loop {
            let line = self.read_line()?;
            if line.is_empty() {
                return Ok(());
            }
            response.trailers.push(parse_field(&line)?);
        }
    }

    fn read_line(&mut self) -> io::Result<String> {
        loop {
            if let Some(at) = find(&self.pending, b"\r\n") {
                let line = self.read_bytes(at + 2)?;
                return Ok(text(&line[..at]));
            }
            self.fill_more("a line")?;
        }
    }

    fn fill_more(&mut self, what: &str) -> io::Result<()> {
        match self.fill() {
            Ok(0) => {
                let read = String::from_utf8_lossy(&self.pending).into_owned();
                Err(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    format!("the connection ended inside {what}, after {read:?}"),
                ))
            }
            Ok(_) => Ok(()),
            Err(error) if is_timeout(&error) => Err(io::Error::new(
                ErrorKind::TimedOut,
                format!("waited {:?} for {what}", self.timeout),
            )),
            Err(error) => Err(error),
        }
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut chunk = [0; 16 << 10];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(count) => {
                    self.pending.extend_from_slice(&chunk[..count]);
                    return Ok(count);
                }
                // The process, or the machine, was stopped and went on.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({} bytes pending)", self.pending.len())
    }
}

impl Response {
    /// The value of the first line with that name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(have, _)| have.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn field_values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields
            .iter()
            .filter(move |(have, _)| have.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn content_length(&self) -> io::Result<Option<usize>> {
        let mut values = self.field_values("content-length");
        let Some(first) = values.next() else {
            return Ok(None);
        };
        if values.next().is_some() {
            return Err(bad("several Content-Length fields"));
        }
        first
            .parse()
            .map(Some)
            .map_err(|_| bad(format!("Content-Length {first:?}")))
    }
}

/// Stream that a client can use.
trait Transport: Read + Write + Send + AsFd {
    fn wait_at_most(&self, timeout: Duration) -> io::Result<()>;
    fn half_close(&self) -> io::Result<()>;
    fn reset_on_drop(&self) -> io::Result<()>;
}

impl Transport for TcpStream {
    fn wait_at_most(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))
    }

    fn half_close(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn reset_on_drop(&self) -> io::Result<()> {
        Ok(rustix::net::sockopt::set_socket_linger(
            self,
            Some(Duration::ZERO),
        )?)
    }
}

impl Transport for UnixStream {
    fn wait_at_most(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))
    }

    fn half_close(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn reset_on_drop(&self) -> io::Result<()> {
        Ok(())
    }
}

fn parse_head(head: &[u8]) -> io::Result<Response> {
    let head = text(head);
    let mut lines = head.trim_end_matches("\r\n").split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let mut parts = status_line.splitn(3, ' ');
    let (version, status) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    // RFC 9112 section 4: the blank after the code is there even where the reason is empty.
    let reason = parts
        .next()
        .ok_or_else(|| bad(format!("status line {status_line:?}")))?;
    if !version.starts_with("HTTP/1.") || status.len() != 3 {
        return Err(bad(format!("status line {status_line:?}")));
    }
    Ok(Response {
        version: version.to_owned(),
        status: status
            .parse()
            .map_err(|_| bad(format!("status {status:?}")))?,
        reason: reason.to_owned(),
        fields: lines.map(parse_field).collect::<io::Result<_>>()?,
        body: Vec::new(),
        trailers: Vec::new(),
    })
}

fn parse_field(line: &str) -> io::Result<(String, String)> {
    let (name, value) = line
        .split_once(':')
        .ok_or_else(|| bad(format!("field line {line:?}")))?;
    if name.is_empty() || name.contains([' ', '\t']) || line.contains(['\r', '\n', '\0']) {
        return Err(bad(format!("field line {line:?}")));
    }
    Ok((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()))
}

/// Field values may hold any byte above 0x7f; Latin-1 keeps them apart.
fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn bad(what: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.into())
}

#[cfg(test)]
mod tests;

/// Tries again for a while if there is no server yet.
fn when_up(connect: impl Fn() -> io::Result<Client>) -> io::Result<Client> {
    let is_absent = |error: &io::Error| {
        matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::ConnectionRefused
        )
    };
    let up = poll(READ_TIMEOUT, || match connect() {
        Err(error) if is_absent(&error) => None,
        connected => Some(connected),
    });
    up.unwrap_or_else(connect)
}
