//! uwsgi: four bytes of packet head, the variables, the content, and a response until the
//! connection closes.
//!
//! The one oddity: numbers are little-endian, and a whole packet has at most 64 kB. The response
//! has an HTTP status line, or is a CGI response.
//!
//! Absent on purpose: packets other than requests (spooler, cache, signals); no web server sends
//! them.

use crate::{
    Broken, Dialogue, Event, ProgramRequest, Refused,
    plain_cgi::until_close,
    response::{Response, Style},
};

/// The packet's size has 16 bits.
pub const VARIABLES_BYTES_MAX: usize = u16::MAX as usize;

/// One request in uwsgi.
#[derive(Debug)]
pub struct Uwsgi {
    modifiers: [u8; 2],
    response: Response,
    is_done: bool,
}

impl Uwsgi {
    /// The modifiers choose the plug-in: 0 and 0 for Python (WSGI), 5 for Perl, 7 for Ruby, 9 for
    /// CGI, 14 for PHP.
    pub fn new(modifier1: u8, modifier2: u8) -> Uwsgi {
        Uwsgi {
            modifiers: [modifier1, modifier2],
            response: Response::new(Style::StatusLineOrFields, true),
            is_done: false,
        }
    }
}

impl Dialogue for Uwsgi {
    fn begin(&mut self, request: &ProgramRequest<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
        let length = request
            .content_length
            .ok_or(Refused::LengthUnknown)?
            .to_string();
        let own: &[(&[u8], &[u8])] = &[(b"CONTENT_LENGTH", length.as_bytes())];
        let own = if length == "0" { &own[..0] } else { own };
        let others = request
            .variables
            .iter()
            .filter(|(name, _)| !matches!(*name, b"CONTENT_LENGTH" | b""));
        let all = || own.iter().copied().chain(others.clone());
        let size: usize = all()
            .map(|(name, value)| name.len() + value.len() + 4)
            .sum();
        let packet = u16::try_from(size).map_err(|_| Refused::VariablesTooLong)?;
        out.push(self.modifiers[0]);
        out.extend_from_slice(&packet.to_le_bytes());
        out.push(self.modifiers[1]);
        // No part is longer than the packet.
        for part in all().flat_map(|(name, value)| [name, value]) {
            out.extend_from_slice(&(part.len() as u16).to_le_bytes());
            out.extend_from_slice(part);
        }
        Ok(())
    }

    fn content(&mut self, content: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(content);
    }

    fn frame(&mut self, _bytes: usize, _out: &mut Vec<u8>) -> Option<&'static [u8]> {
        Some(b"")
    }

    fn end(&mut self, _out: &mut Vec<u8>) {}

    fn receive(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), Broken> {
        self.response.receive(input)
    }

    fn closed(&mut self) -> Result<Option<Event>, Broken> {
        until_close(&mut self.response, &mut self.is_done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_peer::Asked;
    use saker_http::Status;

    #[test]
    fn a_request_byte_by_byte() {
        let mut out = Vec::new();
        let asked = Asked::new()
            .content(Some(3))
            .variable("REQUEST_METHOD", "POST")
            .variable("CONTENT_LENGTH", "17")
            .variable("EMPTY", "");
        asked
            .begin(&mut Uwsgi::new(5, 1), &mut out)
            .expect("it can be said");
        assert_eq!(out, b"\x05\x32\x00\x01\x0e\x00CONTENT_LENGTH\x01\x003\x0e\x00REQUEST_METHOD\x04\x00POST\x05\x00EMPTY\x00\x00");
        let mut out = Vec::new();
        Asked::new()
            .begin(&mut Uwsgi::new(0, 0), &mut out)
            .expect("it can be said");
        assert_eq!(out, [0, 0, 0, 0]);
    }

    #[test]
    fn a_packet_has_64_kilobytes() {
        let edge = VARIABLES_BYTES_MAX - 5;
        assert!(
            Asked::new()
                .variable("A", &"x".repeat(edge))
                .begin(&mut Uwsgi::new(0, 0), &mut Vec::new())
                .is_ok()
        );
        let over = Asked::new()
            .variable("A", &"x".repeat(edge + 1))
            .begin(&mut Uwsgi::new(0, 0), &mut Vec::new());
        assert_eq!(over, Err(Refused::VariablesTooLong));
        assert_eq!(
            Asked::new()
                .content(None)
                .begin(&mut Uwsgi::new(0, 0), &mut Vec::new()),
            Err(Refused::LengthUnknown)
        );
    }

    #[test]
    fn a_status_line_or_fields() {
        for (input, status) in [
            ("HTTP/1.1 404 Not Found\r\nA: b\r\n\r\n", 404),
            ("Status: 201\n\n", 201),
            ("A: b\r\n\r\n", 200),
        ] {
            let event = Uwsgi::new(0, 0).receive(input.as_bytes()).expect("a head");
            assert!(
                matches!(event, (_, Some(Event::Head(head))) if head.status == Status(status)),
                "{input}"
            );
        }
        let switched = Uwsgi::new(0, 0)
            .receive(b"HTTP/1.1 101 Web Socket Protocol Handshake\r\nUpgrade: websocket\r\n\r\n");
        assert!(matches!(switched, Ok((_, Some(Event::Switched(_))))));
    }
}
