//! Frames out: heads, content, trailers, resets, and whose turn it is (RFC 9113 sections 6.1, 6.2,
//! 6.4 and 8.1; RFC 9218 section 10).
//!
//! A verb for a stream that is gone does nothing: the peer may have reset it while the driver was
//! at work. What a driver must not do (two heads, content before the head) is asserted and ignored.

use saker_http_mux::{MethodFacts, Priority};

use super::Connection;
use crate::error::ErrorCode;
use crate::frame::{self, FRAME_BYTES_MIN, FrameHeader, HEADER_BYTES, STREAM_ID_MAX, flag, kind};
use crate::hpack::Encoder;
use crate::settings::Role;
use crate::stream::{Stream, StreamId};

/// No frame of content is larger: header and content fit one TLS record, and every peer takes as
/// much (RFC 9113 section 4.2).
const DATA_BYTES_MAX: usize = FRAME_BYTES_MIN as usize - HEADER_BYTES;
/// The same for field blocks.
const FRAGMENT_BYTES_MAX: usize = FRAME_BYTES_MIN as usize;

/// Why no stream could be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// As many are open as the peer allows; again when one has ended.
    TooMany,
    /// One side is going away, or this is a server: another connection is needed.
    GoingAway,
    /// All identifiers are used up (RFC 9113 section 5.1.1): another connection is needed.
    Exhausted,
}

/// Appends the fields of a head.
pub type HeadEncoder<'a> = saker_http_mux::HeadEncoder<'a, Encoder>;

impl Connection {
    /// Server: the final response head. Returns whether the stream was there to be answered.
    pub fn send_head(
        &mut self,
        stream: StreamId,
        end_stream: bool,
        out: &mut Vec<u8>,
        encode: impl FnOnce(&mut HeadEncoder<'_>),
    ) -> bool {
        let Some(open) = self
            .streams
            .get_mut(stream)
            .filter(|stream| !stream.local_ended && !stream.head_sent)
        else {
            return false;
        };
        open.head_sent = true;
        self.write_block(stream, end_stream, out, encode);
        if end_stream {
            self.streams.end_local(stream);
        }
        true
    }

    /// Server: a head with a status of 1xx, before the final one.
    pub fn send_informational(
        &mut self,
        stream: StreamId,
        out: &mut Vec<u8>,
        encode: impl FnOnce(&mut HeadEncoder<'_>),
    ) -> bool {
        let is_possible = self
            .streams
            .get(stream)
            .is_some_and(|stream| !stream.local_ended && !stream.head_sent);
        if is_possible {
            self.write_block(stream, false, out, encode);
        }
        is_possible
    }

    /// Trailers, which end our side of the stream.
    pub fn send_trailers(
        &mut self,
        stream: StreamId,
        out: &mut Vec<u8>,
        encode: impl FnOnce(&mut HeadEncoder<'_>),
    ) -> bool {
        let is_possible = self
            .streams
            .get(stream)
            .is_some_and(|stream| !stream.local_ended && stream.head_sent);
        if is_possible {
            self.write_block(stream, true, out, encode);
            self.streams.end_local(stream);
        }
        is_possible
    }

    /// Client: a request head on a stream of its own.
    pub fn open(
        &mut self,
        end_stream: bool,
        out: &mut Vec<u8>,
        encode: impl FnOnce(&mut HeadEncoder<'_>),
    ) -> Result<StreamId, OpenError> {
        if self.role != Role::Client || self.is_ending() {
            return Err(OpenError::GoingAway);
        }
        if self.streams.len() >= self.peer.concurrent_streams_max as usize {
            return Err(OpenError::TooMany);
        }
        let id = StreamId(if self.streams.highest().0 == 0 {
            1
        } else {
            self.streams.highest().0 + 2
        });
        if id.0 > STREAM_ID_MAX {
            return Err(OpenError::Exhausted);
        }
        let mut stream = Stream::new(
            id,
            self.peer.initial_window_bytes,
            self.limits.stream_window_bytes,
        );
        let method = self.write_block(id, end_stream, out, encode);
        (stream.is_head_request, stream.is_tunnel) = (method.is_head, method.is_connect);
        (stream.head_sent, stream.local_ended) = (true, end_stream);
        self.streams.note_used(id);
        self.streams.insert(stream, Priority::default());
        Ok(id)
    }

    /// Client: how many more streams could be opened now.
    pub fn streams_available(&self) -> usize {
        let is_possible = self.role == Role::Client
            && !self.is_ending()
            && self.streams.highest().0 < STREAM_ID_MAX - 1;
        if is_possible {
            (self.peer.concurrent_streams_max as usize).saturating_sub(self.streams.len())
        } else {
            0
        }
    }

    /// The frame header for up to `wanted` bytes of content. Returns how many the caller must
    /// append to `out` at once; 0: the window is closed or the stream gone, and nothing was
    /// written, unless `wanted` is 0 and `end`: then an empty frame has ended the stream.
    /// END_STREAM is set if `end` and all that was wanted is granted.
    pub fn begin_data(
        &mut self,
        stream: StreamId,
        wanted: usize,
        end: bool,
        out: &mut Vec<u8>,
    ) -> usize {
        let window = self.send_window.available();
        let Some(open) = self
            .streams
            .get_mut(stream)
            .filter(|stream| !stream.local_ended)
        else {
            return 0;
        };
        debug_assert!(open.head_sent, "content before the head");
        let granted = wanted
            .min(window)
            .min(open.send_window.available())
            .min(DATA_BYTES_MAX);
        let ends = end && granted == wanted;
        if (granted == 0 && !ends) || !open.head_sent {
            return 0;
        }
        open.send_window.spend(granted);
        self.send_window.spend(granted);
        let flags = if ends { flag::END_STREAM } else { 0 };
        FrameHeader {
            length: granted as u32,
            kind: kind::DATA,
            flags,
            stream,
        }
        .write(out);
        self.credit_content();
        if ends {
            self.streams.end_local(stream)
        } else {
            _ = self.streams.requeue(stream)
        };
        granted
    }

    /// Returns the content bytes that could be sent on a stream now: the smaller of its own window
    /// and the connection's.
    pub fn send_capacity(&self, stream: StreamId) -> usize {
        let open = self
            .streams
            .get(stream)
            .filter(|stream| !stream.local_ended);
        open.map_or(0, |stream| {
            stream
                .send_window
                .available()
                .min(self.send_window.available())
        })
    }

    /// The same for all streams together.
    pub fn connection_capacity(&self) -> usize {
        self.send_window.available()
    }

    /// Ends a stream at once, both ways. Nothing on one that is closed. A server that has answered
    /// while content was still to come ends the stream with NO_ERROR (RFC 9113 section 8.1), which
    /// waits for [`Connection::write_stops`].
    pub fn send_reset(&mut self, stream: StreamId, code: ErrorCode, out: &mut Vec<u8>) {
        if self.streams.get(stream).is_some() {
            match code {
                ErrorCode::NoError => self.stops.push(stream),
                _ => frame::write_reset(stream, code, out),
            }
            self.streams.remove(stream);
            self.streams.note_reset(stream);
        }
    }

    /// True if the driver has content for a stream, for [`Connection::next_ready`]. A stream that
    /// has ended is not ready any more by itself.
    pub fn set_ready(&mut self, stream: StreamId, ready: bool) {
        if let Some(open) = self.streams.get_mut(stream) {
            open.is_ready = ready;
            self.streams.requeue(stream);
        }
    }

    /// Which of the ready streams sends next, of those with an open window. One frame each, then
    /// ask again. The end of a stream without content needs no window, hence no turn:
    /// [`Connection::begin_data`] with nothing at once.
    pub fn next_ready(&mut self) -> Option<StreamId> {
        if self.send_window.is_open() {
            self.streams.next_ready()
        } else {
            None
        }
    }

    /// Returns the stream's priority: the request's, or the last update since.
    pub fn priority(&self, stream: StreamId) -> Option<Priority> {
        self.streams.priority(stream)
    }

    /// For a response that knows better than its request (RFC 9218 section 8). What the client
    /// itself says is read by the machine.
    pub fn set_priority(&mut self, stream: StreamId, priority: Priority) {
        self.streams.set_priority(stream, priority);
    }

    fn write_block(
        &mut self,
        stream: StreamId,
        end_stream: bool,
        out: &mut Vec<u8>,
        encode: impl FnOnce(&mut HeadEncoder<'_>),
    ) -> MethodFacts {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        self.encoder.begin(out);
        let mut encoder = HeadEncoder::new(&mut self.encoder, out);
        encode(&mut encoder);
        let method = encoder.method();
        frame_block(stream, end_stream, start, out);
        method
    }

    /// Some clients answer each frame of content.
    fn credit_content(&mut self) {
        self.floods.window_updates.credit(4);
        self.floods.pings.credit(1);
    }
}

/// Turns what follows the place of a frame header at `start` into HEADERS, and CONTINUATION where
/// it is too long for one (RFC 9113 section 6.10).
fn frame_block(stream: StreamId, end_stream: bool, start: usize, out: &mut Vec<u8>) {
    let content_at = start + HEADER_BYTES;
    let rest = if out.len() - content_at > FRAGMENT_BYTES_MAX {
        out.split_off(content_at + FRAGMENT_BYTES_MAX)
    } else {
        Vec::new()
    };
    let flags = if end_stream { flag::END_STREAM } else { 0 }
        | if rest.is_empty() {
            flag::END_HEADERS
        } else {
            0
        };
    let header = FrameHeader {
        length: (out.len() - content_at) as u32,
        kind: kind::HEADERS,
        flags,
        stream,
    };
    if let Some(place) = out.get_mut(start..content_at) {
        place.copy_from_slice(&header.to_bytes());
    }
    let mut fragments = rest.chunks(FRAGMENT_BYTES_MAX).peekable();
    while let Some(fragment) = fragments.next() {
        let flags = if fragments.peek().is_none() {
            flag::END_HEADERS
        } else {
            0
        };
        FrameHeader {
            length: fragment.len() as u32,
            kind: kind::CONTINUATION,
            flags,
            stream,
        }
        .write(out);
        out.extend_from_slice(fragment);
    }
}
