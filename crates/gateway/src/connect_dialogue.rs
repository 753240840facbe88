//! The dialogue of CONNECT (RFC 9110 section 9.3.6): nothing is said, and the connection is the
//! client's as soon as it stands.

use saker_cgi::{Broken, Dialogue, Event, ProgramRequest, Refused, ResponseHead};
use saker_http::{Fields, Status};

#[derive(Default)]
pub struct ConnectDialogue {
    is_switched: bool,
}

impl Dialogue for ConnectDialogue {
    fn begin(&mut self, _: &ProgramRequest<'_>, _: &mut Vec<u8>) -> Result<(), Refused> {
        Ok(())
    }

    fn content(&mut self, content: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(content);
    }

    fn end(&mut self, _: &mut Vec<u8>) {}

    fn receive(&mut self, _: &[u8]) -> Result<(usize, Option<Event>), Broken> {
        if std::mem::replace(&mut self.is_switched, true) {
            return Ok((0, None));
        }
        let head = ResponseHead {
            status: Status::SWITCHING_PROTOCOLS,
            reason: None,
            fields: Fields::new(),
            length: None,
            is_status_said: true,
            first_status: None,
            is_status_invalid: false,
            is_local_redirect: false,
        };
        Ok((0, Some(Event::Switched(head))))
    }

    fn closed(&mut self) -> Result<Option<Event>, Broken> {
        Ok(None)
    }
}
