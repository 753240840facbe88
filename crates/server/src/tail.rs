//! The end that every response head of a worker shares for one second: `Date` and `Server`.

use saker_http::date::{self, DATE_BYTES};
use saker_http2::hpack::encode_stateless;

pub struct Tail {
    second: i64,
    date: [u8; DATE_BYTES],
    server_line: Box<[u8]>,
    lines: Vec<u8>,
    /// `date`, then `server`, as HTTP/2 has them.
    block: Vec<u8>,
    /// Where in `block` the server begins.
    block_server: usize,
    server_block: Box<[u8]>,
}

impl Tail {
    /// `server_field` may be empty; no Server is sent then.
    pub fn new(server_field: &str) -> Tail {
        let server_line = match server_field {
            "" => Box::default(),
            text => format!("Server: {text}\r\n").into_bytes().into(),
        };
        let mut server_block = Vec::new();
        if !server_field.is_empty() {
            encode_stateless(b"server", server_field.as_bytes(), &mut server_block);
        }
        let (date, lines, block, server_block) = ([b' '; DATE_BYTES], Vec::new(), Vec::new(), server_block.into());
        Tail { second: i64::MIN, date, server_line, lines, block, block_server: 0, server_block }
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
            self.block.clear();
            encode_stateless(b"date", &self.date, &mut self.block);
            self.block_server = self.block.len();
            self.block.extend_from_slice(&self.server_block);
        }
        &self.lines
    }

    /// The same for HTTP/2, without the server where the response has its own.
    pub fn http2(&mut self, now: i64, with_server: bool) -> &[u8] {
        self.lines(now);
        if with_server { &self.block } else { &self.block[..self.block_server] }
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
