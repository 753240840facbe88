//! The end that every response head of a worker shares for one second: `Date` and `Server`.

use saker_http::date::{self, DATE_BYTES};
use saker_http2::hpack;
use saker_http3::qpack;

pub struct Tail {
    second: i64,
    date: [u8; DATE_BYTES],
    server_line: Box<[u8]>,
    lines: Vec<u8>,
    http2: Block,
    http3: Block,
}

/// `date`, then `server`, as a protocol of field sections has them.
struct Block {
    encode: fn(&[u8], &[u8], &mut Vec<u8>),
    bytes: Vec<u8>,
    /// Where in `bytes` the server begins.
    server_at: usize,
    server: Box<[u8]>,
}

impl Tail {
    /// `server_field` may be empty; no Server is sent then.
    pub fn new(server_field: &str) -> Tail {
        let server_line = match server_field {
            "" => Box::default(),
            text => format!("Server: {text}\r\n").into_bytes().into(),
        };
        let (http2, http3) = (Block::new(hpack::encode_stateless, server_field), Block::new(qpack::encode_stateless, server_field));
        Tail { second: i64::MIN, date: [b' '; DATE_BYTES], server_line, lines: Vec::new(), http2, http3 }
    }

    pub fn date(&mut self, now: i64) -> &[u8; DATE_BYTES] {
        self.lines(now);
        &self.date
    }

    /// `Server: …\r\n`, or nothing.
    pub fn server_line(&self) -> &[u8] {
        &self.server_line
    }

    /// `Date: …\r\nServer: …\r\n` for that second.
    pub fn lines(&mut self, now: i64) -> &[u8] {
        if now != self.second {
            self.second = now;
            self.date = date::format_date(now);
            self.lines.clear();
            self.lines.extend_from_slice(b"Date: ");
            self.lines.extend_from_slice(&self.date);
            self.lines.extend_from_slice(b"\r\n");
            self.lines.extend_from_slice(&self.server_line);
            self.http2.fill(&self.date);
            self.http3.fill(&self.date);
        }
        &self.lines
    }

    /// The same for HTTP/2, without the server where the response has its own.
    pub fn http2(&mut self, now: i64, with_server: bool) -> &[u8] {
        self.lines(now);
        self.http2.part(with_server)
    }

    /// The same for HTTP/3.
    pub fn http3(&mut self, now: i64, with_server: bool) -> &[u8] {
        self.lines(now);
        self.http3.part(with_server)
    }
}

impl Block {
    fn new(encode: fn(&[u8], &[u8], &mut Vec<u8>), server_field: &str) -> Block {
        let mut server = Vec::new();
        if !server_field.is_empty() {
            encode(b"server", server_field.as_bytes(), &mut server);
        }
        Block { encode, bytes: Vec::new(), server_at: 0, server: server.into() }
    }

    fn fill(&mut self, date: &[u8]) {
        self.bytes.clear();
        (self.encode)(b"date", date, &mut self.bytes);
        self.server_at = self.bytes.len();
        self.bytes.extend_from_slice(&self.server);
    }

    fn part(&self, with_server: bool) -> &[u8] {
        if with_server { &self.bytes } else { &self.bytes[..self.server_at] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_with_the_second_only() {
        let mut tail = Tail::new("Saker");
        assert_eq!(tail.lines(784_111_777), b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: Saker\r\n");
        assert_eq!(tail.lines(784_111_778), b"Date: Sun, 06 Nov 1994 08:49:38 GMT\r\nServer: Saker\r\n");
        assert_eq!(Tail::new("").lines(0), b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
    }
}
