//! SCGI: the variables as one netstring, the content, and a CGI response until the connection
//! closes. A connection per request.
//!
//! Absent on purpose: kept connections; the protocol has none.

use crate::{
    Broken, Dialogue, Event, ProgramRequest, Refused,
    plain_cgi::until_close,
    response::{Response, Style},
};

/// All variables together.
pub const VARIABLES_BYTES_MAX: usize = 1 << 20;

/// One request in SCGI.
#[derive(Debug)]
pub struct Scgi {
    response: Response,
    is_done: bool,
}

impl Scgi {
    pub fn new() -> Scgi {
        Scgi {
            response: Response::new(Style::StatusLineOrFields, true),
            is_done: false,
        }
    }
}

impl Default for Scgi {
    fn default() -> Scgi {
        Scgi::new()
    }
}

impl Dialogue for Scgi {
    /// CONTENT_LENGTH comes first and is always there; `SCGI=1` says what this is.
    fn begin(&mut self, request: &ProgramRequest<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
        let length = request
            .content_length
            .ok_or(Refused::LengthUnknown)?
            .to_string();
        let own: [(&[u8], &[u8]); 2] = [(b"CONTENT_LENGTH", length.as_bytes()), (b"SCGI", b"1")];
        let others = request
            .variables
            .iter()
            .filter(|(name, _)| !matches!(*name, b"CONTENT_LENGTH" | b"SCGI" | b""));
        let all = || own.into_iter().chain(others.clone());
        if all().any(|(name, value)| {
            memchr::memchr(0, name).is_some() || memchr::memchr(0, value).is_some()
        }) {
            return Err(Refused::NulInVariable);
        }
        let size: usize = all()
            .map(|(name, value)| name.len() + value.len() + 2)
            .sum();
        if size > VARIABLES_BYTES_MAX {
            return Err(Refused::VariablesTooLong);
        }
        out.extend_from_slice(size.to_string().as_bytes());
        out.push(b':');
        all()
            .flat_map(|(name, value)| [name, &[0], value, &[0]])
            .for_each(|part| out.extend_from_slice(part));
        out.push(b',');
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
    use crate::{Fault, test_peer::Asked};

    #[test]
    fn the_request_of_the_specification() {
        let asked = Asked::new()
            .content(Some(27))
            .variable("CONTENT_LENGTH", "27")
            .variable("REQUEST_METHOD", "POST")
            .variable("REQUEST_URI", "/deepthought");
        let mut out = Vec::new();
        asked
            .begin(&mut Scgi::new(), &mut out)
            .expect("it can be said");
        assert_eq!(out, b"70:CONTENT_LENGTH\x0027\x00SCGI\x001\x00REQUEST_METHOD\x00POST\x00REQUEST_URI\x00/deepthought\x00,");
    }

    #[test]
    fn what_can_not_be_said_is_refused_and_appends_nothing() {
        let rows = [
            (Asked::new().content(None), Refused::LengthUnknown),
            (Asked::new().variable("A", "b\0c"), Refused::NulInVariable),
            (
                Asked::new().variable("A", &"x".repeat(VARIABLES_BYTES_MAX)),
                Refused::VariablesTooLong,
            ),
        ];
        for (asked, refused) in rows {
            let mut out = b"before".to_vec();
            assert_eq!(asked.begin(&mut Scgi::new(), &mut out), Err(refused));
            assert_eq!(out, b"before");
        }
        let edge = VARIABLES_BYTES_MAX - "CONTENT_LENGTH\x000\x00SCGI\x001\x00A\x00\x00".len();
        assert!(
            Asked::new()
                .variable("A", &"x".repeat(edge))
                .begin(&mut Scgi::new(), &mut Vec::new())
                .is_ok()
        );
        assert!(
            Asked::new()
                .variable("A", &"x".repeat(edge + 1))
                .begin(&mut Scgi::new(), &mut Vec::new())
                .is_err()
        );
    }

    #[test]
    fn the_response_ends_with_the_connection() {
        let mut scgi = Scgi::new();
        assert_eq!(scgi.closed(), Err(Fault::Premature.into()));
        let mut scgi = Scgi::new();
        assert!(matches!(
            scgi.receive(b"Status: 200 OK\r\n\r\n42"),
            Ok((18, Some(Event::Head(_))))
        ));
        assert_eq!(scgi.receive(b"42"), Ok((2, Some(Event::Content(0..2)))));
        assert_eq!(scgi.closed(), Ok(Some(Event::End { stays: false })));
        assert_eq!(scgi.closed(), Ok(None));
    }
}
