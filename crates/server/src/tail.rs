//! The end that every response head of a worker shares for one second: `Date` and `Server`.

use saker_http::date::{self, DATE_BYTES};

pub struct Tail {
    second: i64,
    date: [u8; DATE_BYTES],
    server_line: Box<[u8]>,
    lines: Vec<u8>,
}

impl Tail {
    /// `server_field` may be empty; no Server is sent then.
    pub fn new(server_field: &str) -> Tail {
        let server_line = match server_field {
            "" => Box::default(),
            text => format!("Server: {text}\r\n").into_bytes().into(),
        };
        Tail { second: i64::MIN, date: [b' '; DATE_BYTES], server_line, lines: Vec::new() }
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
        }
        &self.lines
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
