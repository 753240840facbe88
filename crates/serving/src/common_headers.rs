//! Headers that every response has: `Date`, `Server`, and `Alt-Svc` (RFC 7838) where HTTP/3 is
//! available; encoded once per second for each protocol.
//!
//! Called by: the encoder of response heads, through the session.
//! Caveat: `Alt-Svc` differs by listener, so a worker has several sets ([`CommonHeaderSets`]). A
//! set keeps its number as long as the worker lives; sessions remember the number of theirs.

use saker_http::date::{self, DATE_BYTES};
use saker_http2::hpack;
use saker_http3::qpack;

/// The sets of a worker. The first has no `Alt-Svc`.
pub struct CommonHeaderSets(Vec<(Box<str>, CommonHeaders)>);

impl CommonHeaderSets {
    pub const PLAIN: usize = 0;

    pub fn new(server_field: &str) -> CommonHeaderSets {
        CommonHeaderSets(vec![(Box::default(), CommonHeaders::new(server_field, ""))])
    }

    pub fn change_server(&mut self, server_field: &str) {
        self.0
            .iter_mut()
            .for_each(|(alt_svc, common)| *common = CommonHeaders::new(server_field, alt_svc));
    }

    /// The number of the tail with this `Alt-Svc`.
    pub fn number(&mut self, alt_svc: &str, server_field: &str) -> usize {
        let known = self.0.iter().position(|(text, _)| **text == *alt_svc);
        known.unwrap_or_else(|| {
            self.0
                .push((alt_svc.into(), CommonHeaders::new(server_field, alt_svc)));
            self.0.len() - 1
        })
    }

    /// Numbers come from [`CommonHeaderSets::number`]; there is always a first.
    pub fn at(&mut self, number: usize) -> &mut CommonHeaders {
        let number = if number < self.0.len() {
            number
        } else {
            CommonHeaderSets::PLAIN
        };
        &mut self.0[number].1
    }
}

pub struct CommonHeaders {
    second: i64,
    date: [u8; DATE_BYTES],
    /// `Server` and `Alt-Svc`, each with its end of line, or empty.
    server_line: Box<[u8]>,
    alt_svc_line: Box<[u8]>,
    lines: Vec<u8>,
    http2: Block,
    http3: Block,
}

/// Common fields that a response has itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnFields {
    pub date: bool,
    pub server: bool,
}

/// Bytes of `Date: …\r\n`.
const DATE_LINE_BYTES: usize = "Date: ".len() + DATE_BYTES + "\r\n".len();

/// `date`, `alt-svc`, then `server`, as a protocol of field sections has them.
struct Block {
    encode: fn(&[u8], &[u8], &mut Vec<u8>),
    bytes: Vec<u8>,
    /// Offset of what follows `Date` in `bytes`.
    after_date: usize,
    /// Offset of the `Server` field in `bytes`.
    server_at: usize,
    alt_svc: Box<[u8]>,
    server: Box<[u8]>,
}

impl CommonHeaders {
    /// Either may be empty; the field is not sent then.
    pub fn new(server_field: &str, alt_svc: &str) -> CommonHeaders {
        let line = |name: &str, value: &str| match value {
            "" => Box::default(),
            _ => format!("{name}: {value}\r\n").into_bytes().into(),
        };
        let block = |encode| Block::new(encode, server_field, alt_svc);
        CommonHeaders {
            second: i64::MIN,
            date: [b' '; DATE_BYTES],
            server_line: line("Server", server_field),
            alt_svc_line: line("Alt-Svc", alt_svc),
            lines: Vec::new(),
            http2: block(hpack::encode_stateless),
            http3: block(qpack::encode_stateless),
        }
    }

    pub fn date(&mut self, now: i64) -> &[u8; DATE_BYTES] {
        self.lines(now);
        &self.date
    }

    /// `Server: …\r\n`, or nothing.
    pub fn server_line(&self) -> &[u8] {
        &self.server_line
    }

    /// `Alt-Svc: …\r\n`, or nothing.
    pub fn alt_svc_line(&self) -> &[u8] {
        &self.alt_svc_line
    }

    /// `Date: …\r\nServer: …\r\n` for that second, and `Alt-Svc`.
    pub fn lines(&mut self, now: i64) -> &[u8] {
        if now != self.second {
            self.second = now;
            self.date = date::format_date(now);
            self.lines.clear();
            self.lines.extend_from_slice(b"Date: ");
            self.lines.extend_from_slice(&self.date);
            self.lines.extend_from_slice(b"\r\n");
            self.lines.extend_from_slice(&self.server_line);
            self.lines.extend_from_slice(&self.alt_svc_line);
            self.http2.fill(&self.date);
            self.http3.fill(&self.date);
        }
        &self.lines
    }

    /// The same without `Date`, for a response that has its own.
    pub fn lines_without_date(&mut self, now: i64) -> &[u8] {
        &self.lines(now)[DATE_LINE_BYTES..]
    }

    /// The same for HTTP/2, without the fields that the response has itself.
    pub fn http2(&mut self, now: i64, own: OwnFields) -> &[u8] {
        self.lines(now);
        self.http2.part(own)
    }

    /// The same for HTTP/3.
    pub fn http3(&mut self, now: i64, own: OwnFields) -> &[u8] {
        self.lines(now);
        self.http3.part(own)
    }
}

impl Block {
    fn new(encode: fn(&[u8], &[u8], &mut Vec<u8>), server_field: &str, alt_svc: &str) -> Block {
        let field = |name: &[u8], value: &str| {
            let mut bytes = Vec::new();
            if !value.is_empty() {
                encode(name, value.as_bytes(), &mut bytes);
            }
            bytes.into()
        };
        Block {
            encode,
            bytes: Vec::new(),
            after_date: 0,
            server_at: 0,
            alt_svc: field(b"alt-svc", alt_svc),
            server: field(b"server", server_field),
        }
    }

    fn fill(&mut self, date: &[u8]) {
        self.bytes.clear();
        (self.encode)(b"date", date, &mut self.bytes);
        self.after_date = self.bytes.len();
        self.bytes.extend_from_slice(&self.alt_svc);
        self.server_at = self.bytes.len();
        self.bytes.extend_from_slice(&self.server);
    }

    fn part(&self, own: OwnFields) -> &[u8] {
        let from = if own.date { self.after_date } else { 0 };
        let to = if own.server {
            self.server_at
        } else {
            self.bytes.len()
        };
        &self.bytes[from..to]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_with_the_second_only() {
        let mut common = CommonHeaders::new("Saker", "");
        assert_eq!(
            common.lines(784_111_777),
            b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: Saker\r\n"
        );
        assert_eq!(
            common.lines(784_111_778),
            b"Date: Sun, 06 Nov 1994 08:49:38 GMT\r\nServer: Saker\r\n"
        );
        assert_eq!(
            CommonHeaders::new("", "").lines(0),
            b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
        );
    }
    #[test]
    fn a_response_may_have_them_itself() {
        let mut common = CommonHeaders::new("Saker", "");
        assert_eq!(common.lines_without_date(784_111_777), b"Server: Saker\r\n");
        let mut bytes = |date, server| common.http2(0, OwnFields { date, server }).to_vec();
        let (all, none) = (bytes(false, false), bytes(true, true));
        assert!(none.is_empty());
        assert_eq!(all, [bytes(false, true), bytes(true, false)].concat());
    }

    #[test]
    fn each_alternative_has_its_number_for_good() {
        let mut tails = CommonHeaderSets::new("Saker");
        let (first, second) = (
            tails.number("h3=\":443\"; ma=60", "Saker"),
            tails.number("h3=\":8443\"; ma=60", "Saker"),
        );
        assert_eq!(
            (
                first,
                second,
                tails.number("h3=\":443\"; ma=60", "Saker"),
                tails.number("", "Saker")
            ),
            (1, 2, 1, CommonHeaderSets::PLAIN)
        );
        tails.change_server("");
        let date = "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
        assert_eq!(
            tails.at(second).lines(0),
            format!("{date}Alt-Svc: h3=\":8443\"; ma=60\r\n").as_bytes()
        );
        assert_eq!(tails.at(7).lines(0), date.as_bytes());
        assert!(
            tails.at(first).http2(0, OwnFields::default()).len()
                > tails
                    .at(CommonHeaderSets::PLAIN)
                    .http2(0, OwnFields::default())
                    .len()
        );
    }
}
