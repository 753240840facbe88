//! Field blocks: HEADERS and CONTINUATION joined, decoded, and made into a request, a response or
//! trailers (RFC 9113 sections 4.3, 5.1, 6.2, 6.10 and 8.1).
//!
//! The one difficulty: a block is decoded whatever becomes of its stream, because the decoder's
//! table is the connection's.

use saker_http::Version;
use saker_http_mux::{HeadFacts, HeadFault, HeadReader, HeadRefusal, HeadStore, Shape};

use super::state::{Opening, PendingBlock, Turn};
use super::{Connection, Event};
use crate::error::Reason;
use crate::frame::{FrameHeader, flag};
use crate::stream::{Stream, StreamId};

impl Connection {
    pub(super) fn receive_headers<'a>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        if header.stream == StreamId::CONNECTION {
            return Err(Reason::FrameOnConnection);
        }
        let mut fragment = unpadded(header, payload)?;
        let mut opening = Opening {
            stream: header.stream,
            end_stream: header.has(flag::END_STREAM),
            is_self_dependent: false,
        };
        if header.has(flag::PRIORITY) {
            let (priority, rest) = fragment
                .split_first_chunk::<5>()
                .ok_or(Reason::BadFrameSize)?;
            (opening.is_self_dependent, fragment) = (depends_on(priority) == header.stream, rest);
        }
        if header.has(flag::END_HEADERS) {
            return self.receive_block(opening, fragment, turn);
        }
        self.block = Some(Box::new(PendingBlock {
            opening,
            continuations: 0,
            bytes: fragment.to_vec(),
        }));
        Ok(None)
    }

    pub(super) fn receive_continuation<'a>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        let mut block = self.block.take().ok_or(Reason::UnexpectedContinuation)?;
        if header.stream != block.opening.stream {
            return Err(Reason::ContinuationExpected);
        }
        block.continuations += 1;
        if block.continuations > self.limits.continuation_frames_max {
            return Err(Reason::TooManyContinuations);
        }
        block.bytes.extend_from_slice(payload);
        if header.has(flag::END_HEADERS) {
            return self.receive_block(block.opening, &block.bytes, turn);
        }
        self.block = Some(block);
        Ok(None)
    }

    /// A whole block.
    fn receive_block<'a>(
        &mut self,
        opening: Opening,
        bytes: &[u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        match self.streams.get(opening.stream) {
            Some(stream) if self.is_server() || stream.head_received => {
                self.receive_trailers(opening, bytes, turn)
            }
            Some(_) => self.receive_response(opening, bytes, turn),
            None if self.is_idle(opening.stream) => self.receive_request(opening, bytes, turn),
            None => self.receive_late_block(opening.stream, bytes, turn),
        }
    }

    fn receive_request<'a>(
        &mut self,
        opening: Opening,
        bytes: &[u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        // RFC 9113 section 5.1.1. A server opens no streams, because nothing is pushed.
        if !self.is_server() || !opening.stream.is_of_client() {
            return Err(Reason::BadStreamId);
        }
        self.streams.note_used(opening.stream);
        self.floods.priority_updates.credit(2);
        let priority = self.idle_priorities.take(opening.stream.0.into());
        let shape = Shape::Request {
            extended_connect: self.extended_connect,
        };
        let facts = self.decode(bytes, shape, turn.head)?;
        if self.limits.ends_large_heads
            && let Ok(HeadFacts {
                refusal: Some(HeadRefusal::Target | HeadRefusal::Fields),
                ..
            }) = facts
        {
            return Err(Reason::HeadTooLarge);
        }
        match self
            .admit(opening)
            .and(facts)
            .and_then(|facts| self.request_stream(opening, facts))
        {
            Ok((stream, facts)) => {
                self.streams
                    .insert(stream, priority.unwrap_or(facts.priority));
                self.last_processed = stream.id;
                Ok(Some(head_event(opening, facts.refusal)))
            }
            Err(reason) => self.reset_for(opening.stream, reason, turn),
        }
    }

    /// True if there is room for a stream (RFC 9113 sections 5.1.2 and 6.8).
    fn admit(&self, opening: Opening) -> Result<(), Reason> {
        if opening.is_self_dependent {
            Err(Reason::SelfDependency)
        } else if self.is_refusing() {
            Err(Reason::ShuttingDown)
        } else if self.streams.len() >= self.limits.concurrent_streams_max as usize {
            Err(Reason::TooManyStreams)
        } else {
            Ok(())
        }
    }

    fn request_stream(
        &self,
        opening: Opening,
        mut facts: HeadFacts,
    ) -> Result<(Stream, HeadFacts), Reason> {
        let mut stream = Stream::new(
            opening.stream,
            self.peer.initial_window_bytes,
            self.limits.stream_window_bytes,
        );
        stream.head_received = true;
        stream.is_tunnel = facts.is_connect && facts.refusal.is_none();
        stream.content_left = facts
            .content_length
            .filter(|_| facts.refusal.is_none() && !facts.is_connect);
        match stream.end_remote_if(opening.end_stream) {
            Err(_) if self.limits.answers_malformed => {
                facts.refusal = Some(HeadRefusal::Malformed(HeadFault::BadLength));
                stream.remote_ended = true;
            }
            other => other?,
        }
        Ok((stream, facts))
    }

    fn receive_response<'a>(
        &mut self,
        opening: Opening,
        bytes: &[u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        let facts = self.decode(bytes, Shape::Response, turn.head)?;
        let id = opening.stream;
        let status = turn.head.status();
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(None);
        };
        let outcome = facts.and_then(|facts| {
            if opening.is_self_dependent {
                return Err(Reason::SelfDependency);
            }
            if status.is_informational() {
                // RFC 9113 section 8.1: never the end of the stream.
                return if opening.end_stream {
                    Err(Reason::UnexpectedResponse)
                } else {
                    Ok(None)
                };
            }
            stream.accept_response(status, facts);
            stream.end_remote_if(opening.end_stream)?;
            Ok(Some(facts.refusal))
        });
        match outcome {
            Ok(None) => self
                .count_empty_frame(turn.now_ms)
                .map(|()| Some(Event::Informational { stream: id })),
            Ok(Some(refusal)) => {
                self.close_if_ended(id);
                Ok(Some(head_event(opening, refusal)))
            }
            Err(reason) => self.reset_for(id, reason, turn),
        }
    }

    fn receive_trailers<'a>(
        &mut self,
        opening: Opening,
        bytes: &[u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        let facts = self.decode(bytes, Shape::Trailers, turn.head)?;
        let id = opening.stream;
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(None);
        };
        let outcome = match (stream.remote_ended, opening.end_stream, facts) {
            // RFC 9113 section 5.1, half-closed (remote).
            (true, ..) => Err(Reason::FrameOnClosedStream),
            _ if opening.is_self_dependent => Err(Reason::SelfDependency),
            // RFC 9113 section 8.1.
            (_, false, _) => Err(Reason::NotTrailers),
            (_, _, Err(reason)) => Err(reason),
            (
                _,
                _,
                Ok(HeadFacts {
                    refusal: Some(_), ..
                }),
            ) => Err(Reason::TrailersTooLarge),
            _ => stream.end_remote_if(true),
        };
        if let Err(reason) = outcome {
            return self.reset_for(id, reason, turn);
        }
        let is_of_interest = self
            .streams
            .get(id)
            .is_some_and(|stream| self.is_of_interest(stream));
        self.close_if_ended(id);
        Ok(is_of_interest.then_some(Event::Trailers { stream: id }))
    }

    /// RFC 9113 section 5.1: on a stream that we reset a block may have been under way; on one that
    /// has ended otherwise it is an error, and an identifier that was passed over can't be used any
    /// more (section 5.1.1).
    fn receive_late_block<'a>(
        &mut self,
        stream: StreamId,
        bytes: &[u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        if !self.streams.was_reset(stream) {
            return Err(if self.streams.was_skipped(stream) {
                Reason::BadStreamId
            } else {
                Reason::FrameOnClosedStream
            });
        }
        let _ignored = self.decode(bytes, Shape::Trailers, turn.head)?;
        self.count_empty_frame(turn.now_ms).map(|()| None)
    }

    /// The outer error is the connection's, the inner one the stream's.
    fn decode(
        &mut self,
        bytes: &[u8],
        shape: Shape,
        head: &mut HeadStore,
    ) -> Result<Result<HeadFacts, Reason>, Reason> {
        let mut reader = HeadReader::new(head, shape, Version::Http2, &self.limits.of_heads());
        self.decoder
            .decode(bytes, &mut reader)
            .map_err(|_| Reason::BadFieldBlock)?;
        Ok(reader.finish().map_err(Reason::from))
    }

    pub(super) fn close_if_ended(&mut self, id: StreamId) {
        if self
            .streams
            .get(id)
            .is_some_and(|stream| stream.remote_ended && stream.local_ended)
        {
            self.streams.remove(id);
        }
    }
}

fn head_event<'a>(opening: Opening, refusal: Option<HeadRefusal>) -> Event<'a> {
    let Opening {
        stream, end_stream, ..
    } = opening;
    match refusal {
        Some(what) => Event::HeadRefused {
            stream,
            end_stream,
            what,
        },
        None => Event::Head { stream, end_stream },
    }
}

/// RFC 9113 section 6.1: the first byte of a padded frame says how many at its end are padding.
pub(super) fn unpadded(header: FrameHeader, payload: &[u8]) -> Result<&[u8], Reason> {
    if !header.has(flag::PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(Reason::BadFrameSize)?;
    let content_bytes = rest
        .len()
        .checked_sub(usize::from(*padding))
        .ok_or(Reason::BadPadding)?;
    Ok(&rest[..content_bytes])
}

/// RFC 9113 section 6.3: the stream dependency, without the exclusive flag. Deprecated, read only
/// for the check of RFC 7540 section 5.3.1.
pub(super) fn depends_on(priority: &[u8; 5]) -> StreamId {
    let [s0, s1, s2, s3, _weight] = *priority;
    StreamId(u32::from_be_bytes([s0, s1, s2, s3]) & crate::frame::STREAM_ID_MAX)
}
