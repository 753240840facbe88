//! FastCGI 1.0: records of up to 64 kB with padding, one request at a time on a connection
//! (multiplexing is off: no program that matters has it).
//!
//! Difficulty: records end anywhere, and a CGI response head may lie across several of them.
//! Framing is a state of four variants; what is in STDOUT goes through [`Response`], as it comes.
//!
//! Absent on purpose: FCGI_ABORT_REQUEST (php-fpm and others do not read while a script runs;
//! closing is what stops one), FCGI_GET_VALUES (its answers never said anything true), the
//! application's exit status (no server looks at it).

use crate::{
    Broken, Dialogue, Event, Fault, ProgramRequest, Refused, ResponseHead, Variables,
    response::{Response, Style},
    variables::push_length,
};
use saker_http::Status;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 8;
/// Every record of ours, and of the program's, is about this request.
const REQUEST_ID: [u8; 2] = [0, 1];
const MANAGEMENT_ID: [u8; 2] = [0, 0];
/// A multiple of 8, so that no padding is needed.
const CONTENT_BYTES_MAX: usize = 65528;
/// All variables together. Programs keep them all in memory.
pub const VARIABLES_BYTES_MAX: usize = 1 << 20;

/// Record types (section 8).
pub mod kind {
    pub const BEGIN_REQUEST: u8 = 1;
    pub const END_REQUEST: u8 = 3;
    pub const PARAMS: u8 = 4;
    pub const STDIN: u8 = 5;
    pub const STDOUT: u8 = 6;
    pub const STDERR: u8 = 7;
}

/// Role requested of the program (section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Responder = 1,
    Authorizer = 2,
}

/// One request in FastCGI.
#[derive(Debug)]
pub struct FastCgi {
    role: Role,
    keeps: bool,
    state: State,
    response: Response,
    is_said: bool,
}

/// Decoder state: the part of a record that the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Header,
    /// Content of a stream, then padding.
    Stream {
        kind: u8,
        content: u16,
        padding: u8,
    },
    /// FCGI_EndRequestBody, then what else the record has.
    EndBody {
        rest: usize,
    },
    /// To be passed over; then the response is whole, or another record begins.
    Skip {
        left: usize,
        is_end: bool,
    },
    Done,
}

impl FastCgi {
    /// `keeps`: the program shall keep the connection after the request.
    pub fn new(role: Role, keeps: bool) -> FastCgi {
        FastCgi {
            role,
            keeps,
            state: State::Header,
            response: Response::new(Style::Fields, false),
            is_said: false,
        }
    }

    fn header(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), Broken> {
        let Some(&[version, kind, id1, id0, content1, content0, padding, _]) =
            input.first_chunk::<HEADER_BYTES>()
        else {
            return if input.first().is_some_and(|version| *version != VERSION) {
                Err(wrong_version(input))
            } else {
                Ok((0, None))
            };
        };
        let content = u16::from_be_bytes([content1, content0]);
        let whole = usize::from(content) + usize::from(padding);
        self.state = match ([id1, id0], kind) {
            _ if version != VERSION => return Err(wrong_version(input)),
            // Section 4: answers to management records, and types it does not know, of no request.
            (MANAGEMENT_ID, _) => State::Skip {
                left: whole,
                is_end: false,
            },
            (REQUEST_ID, kind::STDOUT | kind::STDERR) => State::Stream {
                kind,
                content,
                padding,
            },
            (REQUEST_ID, kind::END_REQUEST) if content >= 8 => State::EndBody { rest: whole - 8 },
            (REQUEST_ID, kind::END_REQUEST) => {
                return Err(Broken::at(Fault::BadRecord, &input[..HEADER_BYTES]));
            }
            (REQUEST_ID, _) => return Err(Broken::at(Fault::Misplaced, &input[..HEADER_BYTES])),
            _ => return Err(Broken::at(Fault::WrongRequest, &input[..HEADER_BYTES])),
        };
        self.passed(HEADER_BYTES, None)
    }

    fn stream(
        &mut self,
        input: &[u8],
        kind: u8,
        content: u16,
        padding: u8,
    ) -> Result<(usize, Option<Event>), Broken> {
        let piece = &input[..input.len().min(usize::from(content))];
        let (used, event) = match kind {
            kind::STDERR => (piece.len(), Some(Event::Log(0..piece.len()))),
            _ => self.response.receive(piece)?,
        };
        self.state = State::Stream {
            kind,
            content: content - used as u16,
            padding,
        };
        self.passed(used, event)
    }

    /// Section 5.5.
    fn end_body(&mut self, input: &[u8], rest: usize) -> Result<(usize, Option<Event>), Broken> {
        let Some(&[_, _, _, _, status, _, _, _]) = input.first_chunk::<8>() else {
            return Ok((0, None));
        };
        match status {
            0 => self.response.closed()?,
            1 => return Err(Broken::untouched(Fault::CannotMultiplex)),
            2 => return Err(Broken::untouched(Fault::Overloaded)),
            3 => return Err(Broken::untouched(Fault::UnknownRole)),
            _ => return Err(Broken::at(Fault::BadRecord, &input[..8])),
        }
        self.state = State::Skip {
            left: rest,
            is_end: true,
        };
        self.passed(8, None)
    }

    /// After `used` bytes: states that have nothing left go over into the next.
    fn passed(
        &mut self,
        used: usize,
        event: Option<Event>,
    ) -> Result<(usize, Option<Event>), Broken> {
        if let State::Stream {
            content: 0,
            padding,
            ..
        } = self.state
        {
            self.state = State::Skip {
                left: usize::from(padding),
                is_end: false,
            };
        }
        let State::Skip { left: 0, is_end } = self.state else {
            return Ok((used, event));
        };
        self.state = if is_end { State::Done } else { State::Header };
        Ok((
            used,
            if is_end {
                Some(Event::End {
                    stays: self.keeps && self.is_said,
                })
            } else {
                event
            },
        ))
    }
}

impl Dialogue for FastCgi {
    fn begin(&mut self, request: &ProgramRequest<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
        let before = out.len();
        push_header(kind::BEGIN_REQUEST, 8, out);
        out.extend_from_slice(&[0, self.role as u8, u8::from(self.keeps), 0, 0, 0, 0, 0]);
        push_variables(request.variables, self.role, out);
        if out.len() - before > VARIABLES_BYTES_MAX {
            out.truncate(before);
            return Err(Refused::VariablesTooLong);
        }
        push_header(kind::PARAMS, 0, out);
        Ok(())
    }

    fn content(&mut self, content: &[u8], out: &mut Vec<u8>) {
        // Section 6.3: an authorizer gets no content.
        if self.role == Role::Responder {
            push_stream(kind::STDIN, content, out);
        }
    }

    fn frame(&mut self, bytes: usize, out: &mut Vec<u8>) -> Option<&'static [u8]> {
        if self.role != Role::Responder || bytes > CONTENT_BYTES_MAX {
            return None;
        }
        push_header(kind::STDIN, bytes as u16, out);
        Some(b"")
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.is_said = true;
        push_header(kind::STDIN, 0, out);
    }

    fn receive(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), Broken> {
        if input.is_empty() {
            return Ok((0, None));
        }
        match self.state {
            State::Header => self.header(input),
            State::Stream {
                kind,
                content,
                padding,
            } => self.stream(input, kind, content, padding),
            State::EndBody { rest } => self.end_body(input, rest),
            State::Skip { left, is_end } => {
                let used = left.min(input.len());
                self.state = State::Skip {
                    left: left - used,
                    is_end,
                };
                self.passed(used, None)
            }
            State::Done => Ok((0, None)),
        }
    }

    fn closed(&mut self) -> Result<Option<Event>, Broken> {
        if self.state == State::Done {
            return Ok(None);
        }
        self.response.closed()?;
        Err(Fault::Cut.into())
    }
}

/// Decision of an authorizer (section 6.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authorization {
    /// 200: the request goes on, with these variables added.
    Allowed(Variables),
    /// The client gets this response.
    Answered(ResponseHead),
}

/// Reads an authorizer's head.
pub fn authorization(head: ResponseHead) -> Authorization {
    const PREFIX: &[u8] = b"Variable-";
    if head.status != Status::OK {
        return Authorization::Answered(head);
    }
    let mut variables = Variables::new();
    for (name, value) in head.fields.iter() {
        match name.as_bytes().split_at_checked(PREFIX.len()) {
            Some((prefix, rest)) if prefix.eq_ignore_ascii_case(PREFIX) && !rest.is_empty() => {
                variables.push(rest, value)
            }
            _ => {}
        }
    }
    Authorization::Allowed(variables)
}

fn wrong_version(input: &[u8]) -> Broken {
    // Only what is sure to be there however the bytes were cut.
    Broken::at(Fault::WrongVersion, &input[..1])
}

fn push_header(kind: u8, content: u16, out: &mut Vec<u8>) {
    let [content1, content0] = content.to_be_bytes();
    out.extend_from_slice(&[
        VERSION,
        kind,
        REQUEST_ID[0],
        REQUEST_ID[1],
        content1,
        content0,
        0,
        0,
    ]);
}

fn push_stream(kind: u8, content: &[u8], out: &mut Vec<u8>) {
    for piece in content.chunks(CONTENT_BYTES_MAX) {
        push_header(kind, piece.len() as u16, out);
        out.extend_from_slice(piece);
    }
}

/// PHP reads each PARAMS record for itself, so a pair is kept in one record where it fits in one.
fn push_variables(variables: &Variables, role: Role, out: &mut Vec<u8>) {
    if role == Role::Responder
        && let Some(pairs) = variables
            .pairs()
            .filter(|pairs| (1..=CONTENT_BYTES_MAX).contains(&pairs.len()))
    {
        push_header(kind::PARAMS, pairs.len() as u16, out);
        out.extend_from_slice(pairs);
        return;
    }
    let mut record = open_record(out);
    for (name, value) in variables.iter().filter(|(name, _)| is_told(name, role)) {
        let pair = length_bytes(name) + length_bytes(value) + name.len() + value.len();
        if out.len() - record + pair > CONTENT_BYTES_MAX {
            close_record(record, out);
            if pair > CONTENT_BYTES_MAX {
                push_long_pair(name, value, out);
                record = open_record(out);
                continue;
            }
            record = open_record(out);
        }
        push_pair(name, value, out);
    }
    close_record(record, out);
}

/// Section 6.3: what is about the content and about the path is not for an authorizer.
fn is_told(name: &[u8], role: Role) -> bool {
    role == Role::Responder
        || !matches!(
            name,
            b"CONTENT_LENGTH" | b"PATH_INFO" | b"PATH_TRANSLATED" | b"SCRIPT_NAME"
        )
}

/// Leaves room for a header; where the content begins.
fn open_record(out: &mut Vec<u8>) -> usize {
    push_header(kind::PARAMS, 0, out);
    out.len()
}

/// Writes the length into the header, or takes it back if there is no content: an empty record
/// would end the stream.
fn close_record(start: usize, out: &mut Vec<u8>) {
    match out.len() - start {
        0 => out.truncate(start - HEADER_BYTES),
        length => out[start - 4..start - 2].copy_from_slice(&(length as u16).to_be_bytes()),
    }
}

fn push_long_pair(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let mut pair = Vec::with_capacity(name.len() + value.len() + 8);
    push_pair(name, value, &mut pair);
    push_stream(kind::PARAMS, &pair, out);
}

/// Section 3.4.
fn push_pair(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    push_length(name.len(), out);
    push_length(value.len(), out);
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

fn length_bytes(part: &[u8]) -> usize {
    if part.len() < 128 { 1 } else { 4 }
}

#[cfg(test)]
mod tests;
