//! GOAWAY, from either side (RFC 9113 section 6.8).
//!
//! A server that shuts down says so twice: first without a real last stream, so that nothing under
//! way is lost, then, when a PING has come back or the driver asks again, with the last stream it
//! will answer. Later ones are refused.

use super::control::on_connection;
use super::state::{Ending, Turn};
use super::{Connection, Event};
use crate::error::{ConnectionError, ErrorCode, Reason};
use crate::frame::{self, FrameHeader, STREAM_ID_MAX};
use crate::settings::Role;
use crate::stream::StreamId;

/// Tells our PING from any other.
const SHUT_DOWN_PING: [u8; 8] = *b"shutdown";

impl Connection {
    /// Graceful end. A second call does not wait for the PING of the first.
    pub fn shut_down(&mut self, out: &mut Vec<u8>) {
        match self.ending {
            Ending::No if self.role == Role::Server => {
                frame::write_goaway(StreamId(STREAM_ID_MAX), ErrorCode::NoError, "", out);
                frame::write_ping(false, SHUT_DOWN_PING, out);
                self.ending = Ending::Announced;
            }
            Ending::Final => {}
            _ => self.go_away(ErrorCode::NoError, out),
        }
    }

    /// Says which was the last stream, and why. Streams that are open go on; the caller may close
    /// the connection at once, too.
    pub fn go_away(&mut self, code: ErrorCode, out: &mut Vec<u8>) {
        frame::write_goaway(self.last_processed, code, "", out);
        self.ending = Ending::Final;
    }

    /// One side has named its last stream, and no stream is open.
    pub fn is_finished(&self) -> bool {
        (self.ending == Ending::Final || self.is_peer_going_away)
            && self.streams.len() == 0
            && self.stops.is_empty()
    }

    pub fn peer_is_going_away(&self) -> bool {
        self.is_peer_going_away
    }

    pub(super) fn is_refusing(&self) -> bool {
        self.ending == Ending::Final
    }

    /// No stream may be opened by us.
    pub(super) fn is_ending(&self) -> bool {
        self.is_peer_going_away || self.ending != Ending::No || self.fault.is_some()
    }

    pub(super) fn receive_ping_ack(&mut self, payload: [u8; 8], out: &mut Vec<u8>) {
        if self.ending == Ending::Announced && payload == SHUT_DOWN_PING {
            self.go_away(ErrorCode::NoError, out);
        }
    }

    pub(super) fn receive_goaway<'a>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        on_connection(header)?;
        let (fixed, _debug) = payload
            .split_first_chunk::<8>()
            .ok_or(Reason::BadFrameSize)?;
        let [l0, l1, l2, l3, c0, c1, c2, c3] = *fixed;
        self.count_empty_frame(turn.now_ms)?;
        self.is_peer_going_away = true;
        let last = StreamId(u32::from_be_bytes([l0, l1, l2, l3]) & STREAM_ID_MAX);
        if self.role == Role::Client {
            self.streams.remove_above(last);
        }
        Ok(Some(Event::GoAway {
            last,
            code: ErrorCode::from(u32::from_be_bytes([c0, c1, c2, c3])),
        }))
    }

    /// A connection error (RFC 9113 section 5.4.1).
    #[cold]
    pub(super) fn fail(&mut self, reason: Reason, out: &mut Vec<u8>) -> ConnectionError {
        let fault = ConnectionError::from(reason);
        frame::write_goaway(self.last_processed, fault.code, reason.as_str(), out);
        self.ending = Ending::Final;
        self.fault = Some(fault);
        fault
    }
}
