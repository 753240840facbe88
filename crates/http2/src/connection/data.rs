//! Incoming content, and the windows that we grant for it (RFC 9113 sections 5.2, 6.1 and 6.9).
//!
//! Content of streams that we have reset or answered counts toward the connection's window like any
//! other, and is released at once, or the connection would run dry. An answered stream may use up
//! most of its own window.

use super::headers::unpadded;
use super::state::Turn;
use super::{Connection, Event};
use crate::error::{ErrorCode, Reason};
use crate::frame::{self, FrameHeader, flag};
use crate::stream::StreamId;
use crate::window;

impl Connection {
    pub(super) fn receive_data<'a>(
        &mut self,
        header: FrameHeader,
        payload: &'a [u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        if header.stream == StreamId::CONNECTION {
            return Err(Reason::FrameOnConnection);
        }
        let data = unpadded(header, payload)?;
        if !self.receive_window.receive(payload.len(), 0) {
            return Err(Reason::WindowExceeded);
        }
        let end_stream = header.has(flag::END_STREAM);
        if data.is_empty() && !end_stream {
            self.count_empty_frame(turn.now_ms)?;
        }
        let event = self.take_data(header.stream, data, payload.len(), end_stream, turn)?;
        if !matches!(event, Some(Event::Data { .. })) {
            self.release_connection(payload.len(), turn.out);
        }
        Ok(event)
    }

    fn take_data<'a>(
        &mut self,
        id: StreamId,
        data: &'a [u8],
        flow_bytes: usize,
        end_stream: bool,
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        let grace = self.stream_window_grace();
        let Some(stream) = self.streams.get_mut(id) else {
            return self.check_late_data(id);
        };
        if let Err(reason) = stream.accept_data(data.len(), flow_bytes, end_stream, grace) {
            let is_refused = self.limits.answers_malformed
                && matches!(reason, Reason::ContentTooLong | Reason::ContentTooShort);
            if !is_refused {
                return self.reset_for(id, reason, turn);
            }
            return Ok(self.refuse_content(id, end_stream));
        }
        let is_of_interest = self
            .streams
            .get(id)
            .is_some_and(|stream| self.is_of_interest(stream));
        self.close_if_ended(id);
        if !is_of_interest {
            self.stop_unwanted(id, turn);
        }
        Ok(is_of_interest.then_some(Event::Data {
            stream: id,
            data,
            flow_bytes,
            end_stream,
        }))
    }

    /// Lets content of the wrong length come, and tells so.
    fn refuse_content<'a>(&mut self, id: StreamId, end_stream: bool) -> Option<Event<'a>> {
        let stream = self.streams.get_mut(id)?;
        stream.content_left = None;
        stream.remote_ended |= end_stream;
        let stream = self.streams.get(id)?;
        let is_of_interest = self.is_of_interest(stream);
        self.close_if_ended(id);
        is_of_interest.then_some(Event::ContentRefused {
            stream: id,
            end_stream,
        })
    }

    /// Content after our whole response is accepted, because some clients take a reset for a
    /// failure; but its window is never opened again, so that a client with more content would wait
    /// forever. RFC 9113 section 8.1: the client is told to stop, without an error.
    fn stop_unwanted(&mut self, id: StreamId, turn: &mut Turn<'_>) {
        if self.streams.get(id).is_some_and(|stream| {
            stream
                .receive_window
                .is_nearly_used(self.limits.stream_window_bytes)
        }) {
            self.send_reset(id, ErrorCode::NoError, turn.out);
        }
    }

    /// RFC 9113 sections 5.1 and 6.1.
    fn check_late_data<'a>(&self, id: StreamId) -> Result<Option<Event<'a>>, Reason> {
        if self.is_idle(id) {
            return Err(Reason::FrameOnIdleStream);
        }
        if self.streams.was_reset(id) {
            Ok(None)
        } else {
            Err(Reason::FrameOnClosedStream)
        }
    }

    /// The application took `bytes` (of `flow_bytes`) of what came on a stream. To be called for
    /// everything that came, also when the stream is gone: the connection's window depends on it.
    /// The windows are opened again when half of one is used up.
    pub fn release(&mut self, stream: StreamId, bytes: usize, out: &mut Vec<u8>) {
        self.release_connection(bytes, out);
        let full = self.limits.stream_window_bytes;
        if let Some(open) = self
            .streams
            .get_mut(stream)
            .filter(|stream| !stream.remote_ended)
        {
            let increment = open.receive_window.release(bytes, full);
            if increment > 0 {
                frame::write_window_update(stream, increment, out);
            }
        }
    }

    fn release_connection(&mut self, bytes: usize, out: &mut Vec<u8>) {
        let increment = self
            .receive_window
            .release(bytes, self.limits.connection_window_bytes);
        if increment > 0 {
            frame::write_window_update(StreamId::CONNECTION, increment, out);
        }
    }

    /// RFC 9113 section 6.9.2: until our SETTINGS are acknowledged the peer may go by the window it
    /// knew before.
    fn stream_window_grace(&self) -> u32 {
        if self.is_settings_acked {
            0
        } else {
            window::INITIAL_BYTES.saturating_sub(self.limits.stream_window_bytes)
        }
    }
}
