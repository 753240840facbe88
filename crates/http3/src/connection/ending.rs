//! GOAWAY, from either side (RFC 9114 section 5.2), and streams that the peer gives up (RFC 9114
//! section 4.1.1).
//!
//! A server that shuts down says so twice: first without a real identifier, so that nothing under
//! way is lost, then, when the driver asks again after a round trip, with the first request that it
//! will not answer.

use super::state::Ending;
use super::{Connection, Event};
use crate::error::{ConnectionError, Reason};
use crate::frame::{self, kind};
use crate::settings::Role;
use crate::varint;

impl Connection {
    /// Graceful end. To be called again when about a round trip has passed; then the last request
    /// is named.
    pub fn shut_down(&mut self) {
        match self.ending {
            Ending::No if self.role == Role::Server => {
                // RFC 9114 section 5.2: the largest identifier that a request can have.
                frame::write_number(kind::GOAWAY, varint::MAX - 3, &mut self.control_out);
                self.ending = Ending::Announced;
            }
            Ending::Final { .. } => {}
            _ => self.go_away(),
        }
    }

    /// Says which requests (server: by the first that was not opened; client: of pushes, none) are
    /// still answered. Streams that are open go on; the caller may close the connection at once,
    /// too.
    pub fn go_away(&mut self) {
        if matches!(self.ending, Ending::Final { .. }) {
            return;
        }
        let first_refused = if self.role == Role::Server {
            self.next_request
        } else {
            0
        };
        frame::write_number(kind::GOAWAY, first_refused, &mut self.control_out);
        self.ending = Ending::Final { first_refused };
    }

    /// True if [`Connection::shut_down`] has been called, and has to be called again.
    pub fn is_announced(&self) -> bool {
        self.ending == Ending::Announced
    }

    /// One side has named its last stream, and no stream is open.
    pub fn is_finished(&self) -> bool {
        (matches!(self.ending, Ending::Final { .. }) || self.peer_goaway.is_some())
            && self.streams.is_empty()
    }

    pub fn peer_is_going_away(&self) -> bool {
        self.peer_goaway.is_some()
    }

    /// The peer has reset a stream (RESET_STREAM): a request or response is given up, and the
    /// driver ends its own side, too. Returns whether the driver still had to do with it.
    pub fn stream_reset(&mut self, stream: u64, now_ms: u64) -> Result<bool, ConnectionError> {
        match stream & 2 {
            0 => self
                .abandoned(stream, now_ms)
                .map_err(|reason| self.fail(reason)),
            _ => self
                .unidirectional_reset(stream)
                .map(|()| false)
                .map_err(|reason| self.fail(reason)),
        }
    }

    /// The peer wants no more of a stream (STOP_SENDING). As a reset, for a request; none of our
    /// own streams may be stopped.
    pub fn stream_stopped(&mut self, stream: u64, now_ms: u64) -> Result<bool, ConnectionError> {
        match stream & 2 {
            0 => self
                .abandoned(stream, now_ms)
                .map_err(|reason| self.fail(reason)),
            _ => Err(self.fail(Reason::CriticalStreamClosed)),
        }
    }

    /// The driver has given a stream up, both ways. Nothing on one that is closed.
    pub fn abandon(&mut self, stream: u64) {
        self.forget(stream);
    }

    pub(super) fn is_refusing(&self, stream: u64) -> bool {
        matches!(self.ending, Ending::Final { first_refused } if stream >= first_refused)
    }

    /// No request may be sent by us.
    pub(super) fn is_ending(&self) -> bool {
        self.peer_goaway.is_some() || self.ending != Ending::No || self.fault.is_some()
    }

    /// RFC 9114 section 7.2.6: a server names a request, a client a push, and neither more than
    /// before.
    pub(super) fn receive_goaway<'a>(&mut self, id: u64, now_ms: u64) -> Result<Event<'a>, Reason> {
        if self.role == Role::Client && id & 3 != 0 {
            return Err(Reason::BadGoAway);
        }
        if self.peer_goaway.is_some_and(|before| id > before) {
            return Err(Reason::GoAwayRaised);
        }
        self.count_empty_frame(now_ms)?;
        self.peer_goaway = Some(id);
        if self.role == Role::Client {
            let refused: Vec<u64> = self
                .streams
                .iter()
                .map(|(stream, _)| stream)
                .filter(|stream| *stream >= id)
                .collect();
            refused.into_iter().for_each(|stream| self.forget(stream));
        }
        Ok(Event::GoAway { first_refused: id })
    }

    fn abandoned(&mut self, stream: u64, now_ms: u64) -> Result<bool, Reason> {
        let Some(open) = self.streams.get(stream) else {
            return Ok(false);
        };
        let is_unanswered = !open.local_ended;
        let is_of_interest = self.is_of_interest(stream);
        self.forget(stream);
        if self.role == Role::Server && is_unanswered {
            self.count_reset(now_ms)?;
        }
        self.check_output()?;
        Ok(is_of_interest)
    }
}
