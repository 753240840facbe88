//! AJP/1.3: packets with words for what is frequent, spoken by servlet containers. Content of the
//! request is asked for piece by piece.
//!
//! Difficulty: who speaks when. The first piece of content follows the request without being asked
//! for, each further one an answer to GET_BODY_CHUNK, and an empty one says that there is no more.
//! The dialogue keeps what was asked for; the engine asks [`Dialogue::content_max`].
//!
//! Absent on purpose: pings inside a dialogue. [`CPING`] and [`CPONG`] are for the engine, on a
//! connection that it is about to use.

mod packet;
mod request;

use crate::{
    Broken, Dialogue, Event, Fault, ProgramRequest, Refused, ResponseHead, head::HeadBuilder,
    response::INTERIM_COUNT_MAX,
};
pub use packet::PACKET_BYTES_MAX;
pub use request::METHODS;
use saker_http::Status;

/// Asks a container whether it is there, and what it says then.
pub const CPING: [u8; 5] = [0x12, 0x34, 0, 1, 10];
pub const CPONG: [u8; 5] = [b'A', b'B', 0, 1, 9];

/// Content in one packet: less the head and the length of the content.
pub const CONTENT_BYTES_MAX: usize = PACKET_BYTES_MAX - 6;

/// Packet types of the container.
pub mod kind {
    pub const SEND_BODY_CHUNK: u8 = 3;
    pub const SEND_HEADERS: u8 = 4;
    pub const END_RESPONSE: u8 = 5;
    pub const GET_BODY_CHUNK: u8 = 6;
    pub const CPONG: u8 = 9;
}

/// Response fields that have a number (0xA001 and on).
const RESPONSE_FIELDS: [&str; 11] = [
    "Content-Type",
    "Content-Language",
    "Content-Length",
    "Date",
    "Last-Modified",
    "Location",
    "Set-Cookie",
    "Set-Cookie2",
    "Servlet-Engine",
    "Status",
    "WWW-Authenticate",
];

/// One request in AJP.
#[derive(Debug)]
pub struct Ajp {
    secret: Option<Box<[u8]>>,
    state: State,
    is_head_over: bool,
    interim_count: u32,
    /// Bytes of content that may be sent now, in one packet.
    granted: usize,
    /// A head that is not whole.
    partial: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Header,
    /// The type, and what belongs to it, of a packet of so many bytes.
    Kind {
        left: usize,
    },
    Head {
        left: usize,
    },
    /// Content, then so many bytes of the packet behind it.
    Content {
        content: usize,
        behind: usize,
    },
    Skip {
        left: usize,
    },
    Done,
}

impl Ajp {
    /// Creates the codec. `secret`: shared secret that the container requires of its clients, if
    /// any.
    pub fn new(secret: Option<&[u8]>) -> Ajp {
        Ajp {
            interim_count: 0,
            secret: secret.map(Into::into),
            state: State::Header,
            is_head_over: false,
            granted: 0,
            partial: Vec::new(),
        }
    }

    fn header(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), Broken> {
        if !b"AB".starts_with(&input[..input.len().min(2)]) {
            // Only what is sure to be there however the bytes were cut.
            return Err(Broken::at(Fault::BadRecord, &input[..1]));
        }
        let Some(&[_, _, length1, length0]) = input.first_chunk::<4>() else {
            return Ok((0, None));
        };
        let left = usize::from(u16::from_be_bytes([length1, length0]));
        if left == 0 {
            return Err(Broken::at(Fault::BadRecord, &input[..4]));
        }
        self.state = State::Kind { left };
        Ok((4, None))
    }

    /// The type, with the one number that all but heads begin with.
    fn kind(&mut self, input: &[u8], left: usize) -> Result<(usize, Option<Event>), Broken> {
        let (kind, numbers) = (input[0], &input[1..]);
        let needed = match kind {
            kind::SEND_BODY_CHUNK | kind::GET_BODY_CHUNK => 3,
            kind::END_RESPONSE => 2,
            kind::SEND_HEADERS | kind::CPONG => 1,
            _ => return Err(Broken::at(Fault::BadRecord, &[kind])),
        };
        if left < needed {
            return Err(Broken::at(Fault::BadRecord, &[kind]));
        }
        if input.len() < needed {
            return Ok((0, None));
        }
        let number = numbers
            .first_chunk::<2>()
            .map_or(0, |bytes| usize::from(u16::from_be_bytes(*bytes)));
        let left = left - needed;
        self.state = State::Skip { left };
        let event = match kind {
            kind::SEND_HEADERS if self.is_head_over => return Err(Fault::SecondHead.into()),
            kind::SEND_HEADERS if left == 0 => return Err(Broken::at(Fault::BadRecord, &[kind])),
            kind::SEND_HEADERS => {
                self.state = State::Head { left };
                None
            }
            kind::SEND_BODY_CHUNK => {
                self.content_begins(number, left)?;
                None
            }
            kind::GET_BODY_CHUNK => Some(self.grant(number)),
            kind::END_RESPONSE => {
                return self.response_end(needed, numbers.first() == Some(&1), left);
            }
            _ => None,
        };
        Ok((needed, event))
    }

    fn content_begins(&mut self, content: usize, left: usize) -> Result<(), Broken> {
        let behind = left
            .checked_sub(content)
            .ok_or_else(|| Broken::at(Fault::BadRecord, &[kind::SEND_BODY_CHUNK]))?;
        if !self.is_head_over {
            return Err(Broken::at(Fault::Misplaced, &[kind::SEND_BODY_CHUNK]));
        }
        self.state = State::Content { content, behind };
        Ok(())
    }

    /// A container that asks for nothing means as much as there is room for.
    fn grant(&mut self, wanted: usize) -> Event {
        self.granted = if wanted == 0 {
            CONTENT_BYTES_MAX
        } else {
            wanted.min(CONTENT_BYTES_MAX)
        };
        Event::Asks(self.granted)
    }

    fn response_end(
        &mut self,
        used: usize,
        stays: bool,
        left: usize,
    ) -> Result<(usize, Option<Event>), Broken> {
        match (self.is_head_over, left) {
            (false, _) => Err(Fault::Premature.into()),
            (true, 0) => {
                self.state = State::Done;
                Ok((used, Some(Event::End { stays })))
            }
            _ => Err(Broken::at(Fault::BadRecord, &[kind::END_RESPONSE])),
        }
    }

    fn head(&mut self, input: &[u8], left: usize) -> Result<(usize, Option<Event>), Broken> {
        let used = left.min(input.len());
        self.partial.extend_from_slice(&input[..used]);
        if used < left {
            self.state = State::Head { left: left - used };
            return Ok((used, None));
        }
        let payload = std::mem::take(&mut self.partial);
        let head = parse_head(&payload)?;
        if head.status == Status::SWITCHING_PROTOCOLS {
            return Err(Fault::Unswitchable.into());
        }
        self.state = State::Header;
        self.is_head_over = head.status.0 >= 200;
        self.interim_count += u32::from(!self.is_head_over);
        if self.interim_count > INTERIM_COUNT_MAX {
            return Err(Fault::HeadTooLarge.into());
        }
        Ok((
            used,
            Some(if self.is_head_over {
                Event::Head(head)
            } else {
                Event::Interim(head)
            }),
        ))
    }
}

impl Dialogue for Ajp {
    fn begin(&mut self, request: &ProgramRequest<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
        request::encode(request, self.secret.as_deref(), out)?;
        // The first piece goes unasked, if it is known that there is one.
        self.granted = request
            .content_length
            .filter(|length| *length > 0)
            .map_or(0, |_| CONTENT_BYTES_MAX);
        Ok(())
    }

    fn content(&mut self, content: &[u8], out: &mut Vec<u8>) {
        self.granted = 0;
        for piece in content.chunks(CONTENT_BYTES_MAX) {
            let length = piece.len() as u16;
            out.extend_from_slice(&request::MAGIC);
            out.extend_from_slice(&(length + 2).to_be_bytes());
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(piece);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.granted) > 0 {
            out.extend_from_slice(&request::MAGIC);
            out.extend_from_slice(&[0, 0]);
        }
    }

    fn content_max(&self) -> usize {
        self.granted
    }

    fn receive(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), Broken> {
        if let State::Skip { left: 0 }
        | State::Content {
            content: 0,
            behind: 0,
        } = self.state
        {
            self.state = State::Header;
        }
        if input.is_empty() {
            return Ok((0, None));
        }
        match self.state {
            State::Header => self.header(input),
            State::Kind { left } => self.kind(input, left),
            State::Head { left } => self.head(input, left),
            State::Content { content: 0, behind } | State::Skip { left: behind } => {
                let used = behind.min(input.len());
                self.state = State::Skip {
                    left: behind - used,
                };
                Ok((used, None))
            }
            State::Content { content, behind } => {
                let used = content.min(input.len());
                self.state = State::Content {
                    content: content - used,
                    behind,
                };
                Ok((used, Some(Event::Content(0..used))))
            }
            State::Done => Ok((0, None)),
        }
    }

    fn closed(&mut self) -> Result<Option<Event>, Broken> {
        match self.state {
            State::Done => Ok(None),
            _ if !self.is_head_over => Err(Fault::Premature.into()),
            _ => Err(Fault::Cut.into()),
        }
    }
}

/// SEND_HEADERS, behind its type: status, words, fields.
fn parse_head(payload: &[u8]) -> Result<ResponseHead, Broken> {
    let mut reader = Reader(payload);
    head_of(&mut reader).unwrap_or_else(|| Err(Broken::at(Fault::BadRecord, payload)))
}

/// `None`: the packet is shorter than what it says.
fn head_of(reader: &mut Reader<'_>) -> Option<Result<ResponseHead, Broken>> {
    let mut builder = HeadBuilder::default();
    builder.status(u32::from(reader.number()?), reader.string()?);
    for _ in 0..reader.number()? {
        let name = reader.name()?;
        if let Err(broken) = builder.field(name, reader.string()?) {
            return Some(Err(broken));
        }
    }
    Some(Ok(builder.finish(false)))
}

/// Cursor over the unread rest of a packet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u16> {
        let (number, rest) = self.0.split_first_chunk::<2>()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*number))
    }

    /// A length, so many bytes, a NUL. The length 0xffff stands for no string.
    fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        if length == u16::MAX {
            return Some(b"");
        }
        let (string, rest) = self.0.split_at_checked(usize::from(length))?;
        self.0 = rest.strip_prefix(b"\0")?;
        Some(string)
    }

    fn name(&mut self) -> Option<&'a [u8]> {
        match self.0 {
            [0xa0, number, rest @ ..] => {
                self.0 = rest;
                RESPONSE_FIELDS
                    .get(usize::from(*number).checked_sub(1)?)
                    .map(|name| name.as_bytes())
            }
            _ => self.string(),
        }
    }
}

#[cfg(test)]
mod tests;
