//! Frames of requests and responses (RFC 9114 sections 4.1 and 7.2).
//!
//! The one difficulty: QUIC delivers bytes, not frames, so a stream remembers how far its frame has
//! come. What is whole is used where it stands; only headers of frames and field sections that come
//! in parts are copied.

use super::{Connection, Event, Turn};
use crate::error::Reason;
use crate::frame::{FrameHeader, kind};
use crate::settings::Role;
use crate::stream::Reading;

/// So many bytes of a frame that is skipped count as one more frame.
const SKIPPED_BYTES_UNIT: u64 = 1024;

/// Result of reading a frame.
pub(super) enum Step<'a> {
    /// The next may be looked at.
    Next,
    Event(Event<'a>),
    /// The stream has to wait.
    Wait,
}

/// A request stream's input: what is left of it, and whether it is the last.
pub(super) struct Input<'a> {
    pub rest: &'a [u8],
    fin: bool,
}

impl<'a> Input<'a> {
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// The stream ends here.
    pub fn is_end(&self) -> bool {
        self.fin && self.rest.is_empty()
    }
}

impl Connection {
    pub(super) fn receive_request_stream<'a>(
        &mut self,
        id: u64,
        bytes: &'a [u8],
        fin: bool,
        turn: &mut Turn<'_>,
    ) -> Result<(usize, Option<Event<'a>>), Reason> {
        let mut input = Input { rest: bytes, fin };
        loop {
            let step = self.step(id, &mut input, turn)?;
            let used = bytes.len() - input.rest.len();
            match step {
                Step::Event(event) => return Ok((used, Some(event))),
                Step::Wait => return Ok((used, None)),
                Step::Next if input.rest.is_empty() => break,
                Step::Next => {}
            }
        }
        if !fin {
            return Ok((bytes.len(), None));
        }
        Ok((bytes.len(), self.end_of_stream(id, turn.now_ms)?))
    }

    /// One step through a stream's input: a frame header, or what is there of a payload.
    fn step<'a>(
        &mut self,
        id: u64,
        input: &mut Input<'a>,
        turn: &mut Turn<'_>,
    ) -> Result<Step<'a>, Reason> {
        let Some(stream) = self.streams.get_mut(id) else {
            // We gave it up, and the peer does not know yet.
            input.rest = &[];
            return Ok(Step::Next);
        };
        match stream.reading {
            Reading::Header => {
                let (header, used) = stream.header.take(input.rest);
                input.take(used);
                match header {
                    Some(header) => self.begin_frame(id, header, input, turn),
                    None => Ok(Step::Next),
                }
            }
            Reading::Data { left } => self.data(id, left, input, turn),
            Reading::Fields { left } => self.fields(id, left, input, turn),
            Reading::Blocked(section) => self.blocked_fields(id, section, input, turn),
            Reading::Skipped { left } => {
                let skipped = input
                    .take(usize::try_from(left).unwrap_or(usize::MAX))
                    .len() as u64;
                stream.reading = if skipped == left {
                    Reading::Header
                } else {
                    Reading::Skipped {
                        left: left - skipped,
                    }
                };
                Ok(Step::Next)
            }
            Reading::Discarded => {
                input.rest = &[];
                Ok(Step::Next)
            }
        }
    }

    fn begin_frame<'a>(
        &mut self,
        id: u64,
        header: FrameHeader,
        input: &mut Input<'a>,
        turn: &mut Turn<'_>,
    ) -> Result<Step<'a>, Reason> {
        self.check_frame(id, header)?;
        match header.kind {
            kind::DATA => self.begin_data_frame(id, header.length, input, turn),
            kind::HEADERS => self.begin_fields(id, header.length, input, turn),
            // RFC 9114 section 9: unknown types are ignored.
            _ => {
                self.count_skipped(header.length, turn.now_ms)?;
                self.read_next(
                    id,
                    Reading::Skipped {
                        left: header.length,
                    },
                );
                Ok(Step::Next)
            }
        }
    }

    /// Which frame may come when (RFC 9114 sections 4.1, 4.4 and 7.2).
    fn check_frame(&self, id: u64, header: FrameHeader) -> Result<(), Reason> {
        let Some(stream) = self.streams.get(id) else {
            return Ok(());
        };
        match header.kind {
            kind::DATA if !stream.head_received => Err(Reason::ContentBeforeHead),
            kind::DATA | kind::HEADERS if stream.trailers_received => {
                Err(Reason::FrameAfterTrailers)
            }
            kind::HEADERS if stream.head_received && stream.is_tunnel => {
                Err(Reason::FieldsInTunnel)
            }
            // RFC 9114 sections 4.6 and 7.2.5: a client can't push, and as a client we never send
            // MAX_PUSH_ID, so the server may not push either.
            kind::PUSH_PROMISE if self.role == Role::Server => Err(Reason::PushFromClient),
            kind::PUSH_PROMISE => Err(Reason::PushRefused),
            kind::CANCEL_PUSH | kind::SETTINGS | kind::GOAWAY | kind::MAX_PUSH_ID => {
                Err(Reason::FrameOnRequestStream)
            }
            kind::PRIORITY_UPDATE | kind::PRIORITY_UPDATE_OF_PUSH => {
                Err(Reason::FrameOnRequestStream)
            }
            other if kind::is_of_http2(other) => Err(Reason::FrameOfHttp2),
            _ => Ok(()),
        }
    }

    fn begin_data_frame<'a>(
        &mut self,
        id: u64,
        length: u64,
        input: &mut Input<'a>,
        turn: &mut Turn<'_>,
    ) -> Result<Step<'a>, Reason> {
        if length == 0 {
            // The next frame follows at once.
            return self.count_empty_frame(turn.now_ms).map(|()| Step::Next);
        }
        // RFC 9114 section 4.1.2, as soon as it can be known, so that it does not depend on how
        // much has come.
        if self
            .streams
            .get(id)
            .is_some_and(|stream| stream.content_left.is_some_and(|left| length > left))
        {
            return self.give_up(id, Reason::ContentTooLong, turn.now_ms);
        }
        self.data(id, length, input, turn)
    }

    /// As much content as is there.
    fn data<'a>(
        &mut self,
        id: u64,
        left: u64,
        input: &mut Input<'a>,
        turn: &mut Turn<'_>,
    ) -> Result<Step<'a>, Reason> {
        let data = input.take(usize::try_from(left).unwrap_or(usize::MAX));
        let left = left - data.len() as u64;
        let ends = input.is_end();
        // RFC 9114 section 7.1.
        if ends && left > 0 {
            return Err(Reason::FrameTruncated);
        }
        self.read_next(
            id,
            if left == 0 {
                Reading::Header
            } else {
                Reading::Data { left }
            },
        );
        if data.is_empty() {
            return Ok(Step::Next);
        }
        let is_of_interest = self.is_of_interest(id);
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(Step::Next);
        };
        stream.accept_data(data.len());
        if let Err(reason) = stream.end_remote_if(ends) {
            return self.give_up(id, reason, turn.now_ms);
        }
        self.close_if_ended(id);
        Ok(if is_of_interest {
            Step::Event(Event::Data {
                stream: id,
                data,
                end_stream: ends,
            })
        } else {
            Step::Next
        })
    }

    /// The peer's side has ended, after everything that came before was looked at.
    fn end_of_stream<'a>(&mut self, id: u64, now_ms: u64) -> Result<Option<Event<'a>>, Reason> {
        let is_of_interest = self.is_of_interest(id);
        let role = self.role;
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(None);
        };
        if !stream.is_between_frames() {
            return Err(Reason::FrameTruncated);
        }
        if stream.remote_ended || matches!(stream.reading, Reading::Blocked(_)) {
            return Ok(None);
        }
        let outcome = match (stream.head_received, role) {
            (true, _) => stream.end_remote_if(true),
            // RFC 9114 section 4.1.
            (false, Role::Server) => Err(Reason::RequestIncomplete),
            (false, Role::Client) => Err(Reason::ResponseIncomplete),
        };
        if let Err(reason) = outcome {
            return self.give_up(id, reason, now_ms).map(into_event);
        }
        self.close_if_ended(id);
        Ok(is_of_interest.then_some(Event::Data {
            stream: id,
            data: &[],
            end_stream: true,
        }))
    }

    /// Frames of unknown types, by their number and size.
    pub(super) fn count_skipped(&mut self, length: u64, now_ms: u64) -> Result<(), Reason> {
        let events = (length / SKIPPED_BYTES_UNIT).min(u64::from(self.limits.empty_frames_max)) + 1;
        (0..events).try_for_each(|_| self.count_empty_frame(now_ms))
    }

    pub(super) fn read_next(&mut self, id: u64, reading: Reading) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.reading = reading;
        }
    }

    pub(super) fn close_if_ended(&mut self, id: u64) {
        if self
            .streams
            .get(id)
            .is_some_and(|stream| stream.remote_ended && stream.local_ended)
        {
            self.forget(id);
        }
    }
}

fn into_event(step: Step<'_>) -> Option<Event<'_>> {
    match step {
        Step::Event(event) => Some(event),
        Step::Next | Step::Wait => None,
    }
}
