//! Frames in: cutting the input into frames, and which frame may come when (RFC 9113 sections 3.4,
//! 4 and 6.2).

use saker_http_mux::HeadStore;

use super::state::{Progress, Turn};
use super::{Connection, Event, PREFACE};
use crate::error::{ConnectionError, Reason};
use crate::frame::{self, FrameHeader, HEADER_BYTES, flag, kind};
use crate::settings::Role;
use crate::stream::StreamId;

impl Connection {
    /// Looks at the next bytes. Returns how many were used and what came of them; none: more input
    /// is needed. Call again with the rest until then. A frame is never used in part, so that a
    /// driver keeps at most one: `frame_bytes_max` and nine bytes. Replies are appended to `out`.
    /// After an error, for which GOAWAY is in `out`, nothing more is read.
    ///
    /// `now_ms`: any clock that does not run back.
    pub fn receive<'a>(
        &mut self,
        input: &'a [u8],
        now_ms: u64,
        head: &mut HeadStore,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Event<'a>>), ConnectionError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if out.is_empty() {
            self.control_bytes = 0;
        }
        let mut turn = Turn { now_ms, head, out };
        let outcome = self.receive_frames(input, &mut turn);
        outcome.map_err(|reason| self.fail(reason, turn.out))
    }

    fn receive_frames<'a>(
        &mut self,
        input: &'a [u8],
        turn: &mut Turn<'_>,
    ) -> Result<(usize, Option<Event<'a>>), Reason> {
        let mut used = self.receive_preface(input)?;
        while self.progress != Progress::Preface
            && let Some((header, payload)) =
                self.next_frame(input.get(used..).unwrap_or_default())?
        {
            used += HEADER_BYTES + payload.len();
            let before = turn.out.len();
            let event = self.receive_frame(header, payload, turn)?;
            self.owe(turn.out.len() - before)?;
            if event.is_some() {
                return Ok((used, event));
            }
        }
        Ok((used, None))
    }

    /// RFC 9113 section 3.4. Returns the bytes used.
    fn receive_preface(&mut self, input: &[u8]) -> Result<usize, Reason> {
        if self.progress != Progress::Preface {
            return Ok(0);
        }
        if input.starts_with(PREFACE) {
            self.progress = Progress::Settings;
            return Ok(PREFACE.len());
        }
        if PREFACE.starts_with(input) {
            Ok(0)
        } else {
            Err(Reason::BadPreface)
        }
    }

    /// `None`: the frame is not complete. Its length is checked before its payload is waited for
    /// (RFC 9113 section 4.2).
    fn next_frame<'a>(&self, input: &'a [u8]) -> Result<Option<(FrameHeader, &'a [u8])>, Reason> {
        let Some(header) = FrameHeader::parse(input) else {
            return Ok(None);
        };
        if header.length > self.limits.frame_bytes_max {
            return Err(Reason::FrameTooLarge);
        }
        let payload = input.get(HEADER_BYTES..HEADER_BYTES + header.length as usize);
        Ok(payload.map(|payload| (header, payload)))
    }

    fn receive_frame<'a>(
        &mut self,
        header: FrameHeader,
        payload: &'a [u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        self.check_order(header)?;
        match header.kind {
            kind::DATA => self.receive_data(header, payload, turn),
            kind::HEADERS => self.receive_headers(header, payload, turn),
            kind::PRIORITY => self.receive_priority(header, payload, turn),
            kind::RST_STREAM => self.receive_reset(header, payload, turn),
            kind::SETTINGS => self.receive_settings(header, payload, turn),
            // RFC 9113 section 8.4: a client can't push, and as a client we have disabled push.
            kind::PUSH_PROMISE => Err(Reason::PushRefused),
            kind::PING => self.receive_ping(header, payload, turn),
            kind::GOAWAY => self.receive_goaway(header, payload, turn),
            kind::WINDOW_UPDATE => self.receive_window_update(header, payload, turn),
            kind::CONTINUATION => self.receive_continuation(header, payload, turn),
            kind::PRIORITY_UPDATE => self.receive_priority_update(header, payload, turn),
            // RFC 9113 section 5.5: unknown types are ignored.
            _ => self.count_empty_frame(turn.now_ms).map(|()| None),
        }
    }

    fn check_order(&mut self, header: FrameHeader) -> Result<(), Reason> {
        if self.progress == Progress::Settings {
            if header.kind != kind::SETTINGS || header.has(flag::ACK) {
                return Err(Reason::NoSettings);
            }
            self.progress = Progress::Open;
        }
        // RFC 9113 section 6.10.
        if self.block.is_some() && header.kind != kind::CONTINUATION {
            Err(Reason::ContinuationExpected)
        } else {
            Ok(())
        }
    }

    /// Replies wait in the output; a peer that asks and does not read makes it grow.
    fn owe(&mut self, bytes: usize) -> Result<(), Reason> {
        self.control_bytes += bytes;
        if self.control_bytes > self.limits.control_bytes_max {
            Err(Reason::RepliesUnread)
        } else {
            Ok(())
        }
    }

    /// A stream error (RFC 9113 section 5.4.2). The driver is told if it has to do with the stream.
    pub(super) fn reset_for<'a>(
        &mut self,
        stream: StreamId,
        reason: Reason,
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        // While shutting down the client could not know; everything else is its fault.
        if reason != Reason::ShuttingDown {
            self.count_reset(turn.now_ms)?;
        }
        let code = reason.code();
        frame::write_reset(stream, code, turn.out);
        self.stream_fault = Some((stream, reason));
        let is_of_interest = self
            .streams
            .get(stream)
            .is_some_and(|stream| self.is_of_interest(stream));
        self.streams.remove(stream);
        self.streams.note_reset(stream);
        Ok(is_of_interest.then_some(Event::Reset { stream, code }))
    }

    pub(super) fn count_reset(&mut self, now_ms: u64) -> Result<(), Reason> {
        let fits = self.floods.resets.take(
            self.limits.resets_max,
            self.limits.resets_per_second,
            now_ms,
        );
        if fits {
            Ok(())
        } else {
            Err(Reason::TooManyResets)
        }
    }

    pub(super) fn count_empty_frame(&mut self, now_ms: u64) -> Result<(), Reason> {
        let limits = &self.limits;
        let fits = self.floods.empty_frames.take(
            limits.empty_frames_max,
            limits.empty_frames_per_second,
            now_ms,
        );
        if fits {
            Ok(())
        } else {
            Err(Reason::TooManyEmptyFrames)
        }
    }

    pub(super) fn is_server(&self) -> bool {
        self.role == Role::Server
    }
}
