//! Field sections: gathered, decoded, and made into a request, a response or trailers (RFC 9114
//! sections 4.1 to 4.4, RFC 9204 section 2.2).
//!
//! The one difficulty: a section may refer to table entries that have not come. It is kept then,
//! within a bound, and its stream is not read until they are there; the driver hears of it by
//! `Unblocked` and calls again.

use super::request::{Input, Step};
use super::{Connection, Event, Turn};
use crate::error::{ErrorCode, Reason};
use crate::qpack::{QpackError, Section};
use crate::settings::Role;
use crate::stream::Reading;
use saker_http::Version;
use saker_http_mux::{HeadFacts, HeadReader, HeadRefusal, HeadStore, Shape};

/// A request allows so many instructions more on the encoder stream.
const TABLE_UPDATES_OF_REQUEST: u64 = 32;

impl Connection {
    pub(super) fn begin_fields<'a>(
        &mut self,
        id: u64,
        length: u64,
        input: &mut Input<'a>,
        turn: &mut Turn<'_>,
    ) -> Result<Step<'a>, Reason> {
        match usize::try_from(length)
            .ok()
            .filter(|length| *length <= self.limits.field_section_bytes_max as usize)
        {
            Some(length) => self.fields(id, length, input, turn),
            None => self.section_too_large(id, turn),
        }
    }

    /// As much of a section as is there; `left` is to come.
    pub(super) fn fields<'a>(
        &mut self,
        id: u64,
        left: usize,
        input: &mut Input<'a>,
        turn: &mut Turn<'_>,
    ) -> Result<Step<'a>, Reason> {
        let part = input.take(left);
        let left = left - part.len();
        // RFC 9114 section 7.1.
        if left > 0 && input.is_end() {
            return Err(Reason::FrameTruncated);
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(Step::Next);
        };
        if left == 0 && stream.section.is_empty() {
            return self.section(id, part, input, turn);
        }
        if self.waiting_section_bytes + part.len() > self.limits.waiting_section_bytes_max {
            return self.give_up(id, Reason::TooManyFieldBytes, turn.now_ms);
        }
        self.waiting_section_bytes += part.len();
        stream.section.extend_from_slice(part);
        stream.reading = Reading::Fields { left };
        if left > 0 {
            return Ok(Step::Next);
        }
        let bytes = self.take_section(id);
        self.section(id, &bytes, input, turn)
    }

    /// A section that had to wait, and may have to wait longer.
    pub(super) fn blocked_fields<'a>(
        &mut self,
        id: u64,
        section: Section,
        input: &mut Input<'a>,
        turn: &mut Turn<'_>,
    ) -> Result<Step<'a>, Reason> {
        if section.required > self.decoder.inserted() {
            return Ok(Step::Wait);
        }
        self.blocked.retain(|blocked| *blocked != id);
        let bytes = self.take_section(id);
        self.decode_section(id, section, &bytes, input, turn)
    }

    /// A whole section.
    fn section<'a>(
        &mut self,
        id: u64,
        bytes: &[u8],
        input: &mut Input<'a>,
        turn: &mut Turn<'_>,
    ) -> Result<Step<'a>, Reason> {
        let section = self
            .decoder
            .section(bytes)
            .map_err(|_| Reason::BadFieldSection)?;
        if section.required <= self.decoder.inserted() {
            return self.decode_section(id, section, bytes, input, turn);
        }
        // RFC 9204 section 2.1.2.
        if self.blocked.len() >= self.limits.blocked_streams_max as usize {
            return Err(Reason::TooManyBlocked);
        }
        if self.waiting_section_bytes + bytes.len() > self.limits.waiting_section_bytes_max {
            return self.give_up(id, Reason::TooManyFieldBytes, turn.now_ms);
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(Step::Next);
        };
        self.waiting_section_bytes += bytes.len();
        stream.section = bytes.to_vec();
        stream.reading = Reading::Blocked(section);
        self.blocked.push(id);
        Ok(Step::Wait)
    }

    fn decode_section<'a>(
        &mut self,
        id: u64,
        section: Section,
        bytes: &[u8],
        input: &mut Input<'a>,
        turn: &mut Turn<'_>,
    ) -> Result<Step<'a>, Reason> {
        self.read_next(id, Reading::Header);
        let ends = input.is_end();
        match self.streams.get(id) {
            None => Ok(Step::Next),
            Some(stream) if stream.head_received => self.trailers(id, section, bytes, turn),
            Some(_) if self.role == Role::Server => self.request(id, section, bytes, ends, turn),
            Some(_) => self.response(id, section, bytes, ends, turn),
        }
    }

    fn request<'a>(
        &mut self,
        id: u64,
        section: Section,
        bytes: &[u8],
        ends: bool,
        turn: &mut Turn<'_>,
    ) -> Result<Step<'a>, Reason> {
        self.floods.priority_updates.credit(2);
        self.floods.table_updates.credit(TABLE_UPDATES_OF_REQUEST);
        let shape = Shape::Request {
            extended_connect: self.extended_connect,
        };
        let facts = self.decode(id, section, bytes, shape, turn.head)?;
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(Step::Next);
        };
        let is_priority_told = stream.is_priority_told;
        let outcome = facts.and_then(|facts| {
            stream.accept_request(facts);
            stream.end_remote_if(ends)?;
            Ok(facts)
        });
        match outcome {
            Ok(facts) => {
                if !is_priority_told {
                    self.streams.set_priority(id, facts.priority);
                }
                Ok(head_event(id, ends, facts.refusal))
            }
            Err(reason) => self.give_up(id, reason, turn.now_ms),
        }
    }

    fn response<'a>(
        &mut self,
        id: u64,
        section: Section,
        bytes: &[u8],
        ends: bool,
        turn: &mut Turn<'_>,
    ) -> Result<Step<'a>, Reason> {
        let facts = self.decode(id, section, bytes, Shape::Response, turn.head)?;
        let status = turn.head.status();
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(Step::Next);
        };
        let outcome = facts.and_then(|facts| {
            if status.is_informational() {
                // RFC 9114 section 4.1: a final response must follow, which the end of the stream
                // would prevent.
                return Ok(None);
            }
            stream.accept_response(status, facts);
            stream.end_remote_if(ends)?;
            Ok(Some(facts))
        });
        match outcome {
            Ok(None) => self
                .count_empty_frame(turn.now_ms)
                .map(|()| Step::Event(Event::Informational { stream: id })),
            Ok(Some(facts)) => {
                self.close_if_ended(id);
                Ok(head_event(id, ends, facts.refusal))
            }
            Err(reason) => self.give_up(id, reason, turn.now_ms),
        }
    }

    fn trailers<'a>(
        &mut self,
        id: u64,
        section: Section,
        bytes: &[u8],
        turn: &mut Turn<'_>,
    ) -> Result<Step<'a>, Reason> {
        let facts = self.decode(id, section, bytes, Shape::Trailers, turn.head)?;
        let is_of_interest = self.is_of_interest(id);
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(Step::Next);
        };
        let outcome = match facts {
            Err(reason) => Err(reason),
            Ok(HeadFacts {
                refusal: Some(_), ..
            }) => Err(Reason::TrailersTooLarge),
            Ok(_) => stream.end_remote_if(true),
        };
        stream.trailers_received = true;
        if let Err(reason) = outcome {
            return self.give_up(id, reason, turn.now_ms);
        }
        self.close_if_ended(id);
        Ok(if is_of_interest {
            Step::Event(Event::Trailers { stream: id })
        } else {
            Step::Next
        })
    }

    /// The outer error is the connection's, the inner one the stream's.
    fn decode(
        &mut self,
        id: u64,
        section: Section,
        bytes: &[u8],
        shape: Shape,
        head: &mut HeadStore,
    ) -> Result<Result<HeadFacts, Reason>, Reason> {
        let mut reader = HeadReader::new(head, shape, Version::Http3, &self.limits.of_heads());
        let outcome: Result<(), QpackError> = self.decoder.decode(section, bytes, &mut reader);
        outcome.map_err(|_| Reason::BadFieldSection)?;
        self.decoder.acknowledge(section, id);
        Ok(reader.finish().map_err(Reason::from))
    }

    /// A section that is not even read. Of a request the head is as good as there, without fields;
    /// what else comes is not looked at.
    fn section_too_large<'a>(&mut self, id: u64, turn: &mut Turn<'_>) -> Result<Step<'a>, Reason> {
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(Step::Next);
        };
        if self.role == Role::Client || stream.head_received {
            return self.give_up(id, Reason::TrailersTooLarge, turn.now_ms);
        }
        stream.reading = Reading::Discarded;
        stream.head_received = true;
        self.decoder.cancel(id);
        // For the log: an empty head.
        let reader = HeadReader::new(
            turn.head,
            Shape::Trailers,
            Version::Http3,
            &self.limits.of_heads(),
        );
        let _empty = reader.finish();
        Ok(head_event(id, false, Some(HeadRefusal::Fields)))
    }

    fn take_section(&mut self, id: u64) -> Vec<u8> {
        let section = self
            .streams
            .get_mut(id)
            .map(|stream| std::mem::take(&mut stream.section))
            .unwrap_or_default();
        self.waiting_section_bytes -= section.len();
        section
    }

    /// Entries have been inserted: which streams can go on.
    pub(super) fn unblock(&mut self) {
        let inserted = self.decoder.inserted();
        let goes_on = |id: &u64| match self.streams.get(*id).map(|stream| stream.reading) {
            Some(Reading::Blocked(section)) => section.required <= inserted,
            _ => false,
        };
        for id in self.blocked.extract_if(.., |id| goes_on(id)) {
            self.unblocked.push_back(id);
        }
    }

    /// A stream ends before its time, and with it what was kept for it. RFC 9204 section 4.4.2: the
    /// peer's encoder is told if something of it was not decoded.
    pub(super) fn forget(&mut self, id: u64) {
        let _section = self.take_section(id);
        self.blocked.retain(|blocked| *blocked != id);
        self.unblocked.retain(|unblocked| *unblocked != id);
        let Some(stream) = self.streams.remove(id) else {
            return;
        };
        if !stream.remote_ended && !matches!(stream.reading, Reading::Discarded) {
            self.decoder.cancel(id);
        }
    }

    /// A stream error (RFC 9114 section 8).
    pub(super) fn give_up<'a>(
        &mut self,
        id: u64,
        reason: Reason,
        now_ms: u64,
    ) -> Result<Step<'a>, Reason> {
        self.count_reset(now_ms)?;
        let code: ErrorCode = reason.code();
        self.stream_fault = Some((id, reason));
        self.forget(id);
        Ok(Step::Event(Event::Reset { stream: id, code }))
    }
}

fn head_event<'a>(stream: u64, end_stream: bool, refusal: Option<HeadRefusal>) -> Step<'a> {
    Step::Event(match refusal {
        Some(what) => Event::HeadRefused {
            stream,
            end_stream,
            what,
        },
        None => Event::Head { stream, end_stream },
    })
}
