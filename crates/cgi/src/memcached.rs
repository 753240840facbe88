//! memcached's text protocol, as far as it serves values: `get`.
//!
//! The variable [`KEY`] is what is asked for; a value is a response with status 200, its absence one
//! with 404. The key is a word of the protocol: the caller has escaped blanks and control
//! characters, and what has some is refused.
//!
//! Absent on purpose: everything that writes.

use crate::{Broken, Dialogue, Event, Fault, ProgramRequest, Refused, ResponseHead};
use saker_http::{Fields, Status};
use std::ops::Range;

/// The variable with the key.
pub const KEY: &str = "MEMCACHED_KEY";
/// The field of the response with the flags of a value. It is for the caller alone.
pub const FLAGS: &str = "X-Memcached-Flags";

/// Bytes of the line before a value.
const LINE_BYTES_MAX: usize = 1024;
/// The bytes that follow a value.
const END: &[u8] = b"\r\nEND\r\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Line,
    /// Bytes of the value that are still to come.
    Value(u64),
    /// Bytes of [`END`] that have come.
    End(usize),
    Ended,
    Done,
}

/// One `get`.
#[derive(Debug)]
pub struct Memcached {
    state: State,
    key: Vec<u8>,
}

impl Memcached {
    pub fn new() -> Memcached {
        Memcached {
            state: State::Line,
            key: Vec::new(),
        }
    }

    fn line(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), Broken> {
        let Some(end) = memchr::memmem::find(input, b"\r\n") else {
            return match input.len() > LINE_BYTES_MAX {
                true => Err(Broken::at(Fault::HeadTooLarge, input)),
                false => Ok((0, None)),
            };
        };
        let line = input.get(..end).unwrap_or_default();
        let used = end + 2;
        if line == b"END" {
            self.state = State::Ended;
            return Ok((used, Some(Event::Head(head(Status::NOT_FOUND, 0, None)))));
        }
        let (flags, length) = self
            .value(line)
            .ok_or_else(|| Broken::at(Fault::Malformed, line))?;
        self.state = match length {
            0 => State::End(0),
            length => State::Value(length),
        };
        let head = head(Status::OK, length, Some(flags));
        Ok((used, Some(Event::Head(head))))
    }

    /// `VALUE key flags bytes`
    fn value(&self, line: &[u8]) -> Option<(u32, u64)> {
        let line = std::str::from_utf8(line).ok()?;
        let mut words = line.split(' ');
        let is_value = words.next()? == "VALUE" && words.next()?.as_bytes() == self.key;
        let flags = words.next()?.parse().ok()?;
        let length = words.next()?.parse().ok()?;
        is_value.then_some((flags, length))
    }
}

fn head(status: Status, length: u64, flags: Option<u32>) -> ResponseHead {
    let mut fields = Fields::new();
    if let Some(flags) = flags.filter(|flags| *flags != 0) {
        fields.set(FLAGS, flags.to_string().into_bytes());
    }
    ResponseHead {
        status,
        reason: None,
        fields,
        length: Some(length),
        is_status_said: true,
        first_status: None,
        is_status_invalid: false,
        is_local_redirect: false,
    }
}

impl Default for Memcached {
    fn default() -> Memcached {
        Memcached::new()
    }
}

impl Dialogue for Memcached {
    fn begin(&mut self, request: &ProgramRequest<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
        let key = request.variables.first(KEY.as_bytes()).unwrap_or_default();
        if key.is_empty() || key.iter().any(|byte| *byte <= b' ' || *byte == 127) {
            return Err(Refused::NoScript);
        }
        self.key = key.to_vec();
        out.extend_from_slice(b"get ");
        out.extend_from_slice(key);
        out.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Content of a request has no meaning here.
    fn content(&mut self, _content: &[u8], _out: &mut Vec<u8>) {}

    fn end(&mut self, _out: &mut Vec<u8>) {}

    fn receive(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), Broken> {
        match self.state {
            State::Line => self.line(input),
            State::Value(_) | State::End(_) if input.is_empty() => Ok((0, None)),
            State::Value(left) => {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                let left = left.saturating_sub(taken as u64);
                self.state = match left {
                    0 => State::End(0),
                    left => State::Value(left),
                };
                let content: Range<usize> = 0..taken;
                Ok((taken, Some(Event::Content(content))))
            }
            State::End(come) => {
                let expected = END.get(come..).unwrap_or_default();
                let taken = expected.len().min(input.len());
                if input.get(..taken) != expected.get(..taken) {
                    return Err(Broken::at(Fault::Misplaced, input));
                }
                if come + taken < END.len() {
                    self.state = State::End(come + taken);
                    return Ok((taken, None));
                }
                self.state = State::Done;
                Ok((taken, Some(Event::End { stays: true })))
            }
            State::Ended => {
                self.state = State::Done;
                Ok((0, Some(Event::End { stays: true })))
            }
            State::Done if input.is_empty() => Ok((0, None)),
            State::Done => Err(Broken::at(Fault::Misplaced, input)),
        }
    }

    fn closed(&mut self) -> Result<Option<Event>, Broken> {
        match self.state {
            State::Done => Ok(None),
            State::Ended => {
                self.state = State::Done;
                Ok(Some(Event::End { stays: false }))
            }
            State::Line => Err(Fault::Premature.into()),
            State::Value(_) | State::End(_) => Err(Fault::Cut.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_peer::Asked;

    fn asked(key: &str) -> Result<Memcached, Refused> {
        let mut dialogue = Memcached::new();
        let mut out = Vec::new();
        let request = Asked::new().variable("MEMCACHED_KEY", key);
        request.begin(&mut dialogue, &mut out)?;
        assert_eq!(out, format!("get {key}\r\n").into_bytes());
        Ok(dialogue)
    }

    /// The status and the content, with the answer cut into pieces.
    fn answer(text: &[u8], piece: usize) -> Result<(u16, Vec<u8>), Broken> {
        let mut dialogue = asked("k").unwrap();
        let (mut status, mut content, mut held) = (0, Vec::new(), Vec::new());
        for piece in text.chunks(piece) {
            held.extend_from_slice(piece);
            loop {
                let (used, event) = dialogue.receive(&held)?;
                let is_idle = used == 0 && event.is_none();
                match event {
                    Some(Event::Head(head)) => status = head.status.0,
                    Some(Event::Content(range)) => content.extend_from_slice(&held[range]),
                    Some(Event::End { stays }) => {
                        assert!(stays);
                        return Ok((status, content));
                    }
                    _ => {}
                }
                held.drain(..used);
                if is_idle {
                    break;
                }
            }
        }
        dialogue.closed().map(|_| (status, content))
    }

    #[test]
    fn values_arrive_however_they_are_cut() {
        let rows: [(&[u8], u16, &[u8]); 3] = [
            (b"VALUE k 0 5\r\na\r\nbc\r\nEND\r\n", 200, b"a\r\nbc"),
            (b"VALUE k 32 0\r\n\r\nEND\r\n", 200, b""),
            (b"END\r\n", 404, b""),
        ];
        for (text, status, content) in rows {
            for piece in 1..=text.len() {
                assert_eq!(answer(text, piece).unwrap(), (status, content.to_vec()));
            }
        }
    }

    #[test]
    fn other_answers_are_broken() {
        let rows: [&[u8]; 6] = [
            b"ERROR\r\n",
            b"VALUE other 0 1\r\na\r\nEND\r\n",
            b"VALUE k 0 -1\r\n",
            b"VALUE k 0 1\r\nab\r\nEND\r\n",
            b"VALUE k 0 5\r\nab",
            b"",
        ];
        for text in rows {
            assert!(answer(text, 3).is_err(), "{}", text.escape_ascii());
        }
        assert!(answer(&[b'x'; LINE_BYTES_MAX + 1], 100).is_err());
    }

    #[test]
    fn keys_are_words() {
        for key in ["", "a b", "a\r\nset x", "a\tb"] {
            assert_eq!(asked(key).err(), Some(Refused::NoScript), "{key:?}");
        }
        assert!(asked("/a?b%20c").is_ok());
    }
}
