//! Output between the exchanges and QUIC: a head that its content may still join, and, by stream,
//! the bytes that QUIC did not accept.
//!
//! Called by: `wire` and `turn`.
//! Caveat: heads and frame headers must be sent whole, so their rest is kept here. Body content is
//! not, except for one piece of a file per stream that was already read.

use crate::mux::ByStream;
use bytes::Bytes;
use saker_quic::{Connection, Written};

#[derive(Default)]
pub struct Unsent {
    streams: ByStream<u64, Waiting>,
    /// Bytes of the most recently written stream, which are sent with the next ones of that stream.
    gathered: Vec<u8>,
    gathering: Option<u64>,
    /// Streams whose request may be read further.
    pub resumed: Vec<u64>,
    /// The next request is to be the last.
    pub wants_shut_down: bool,
    /// Bytes made, to count by.
    pub made: u64,
    /// May still be made in this turn.
    pub left: u64,
}

/// A stream with a response that is not all with QUIC.
#[derive(Default)]
pub struct Waiting {
    /// Goes before anything else.
    backlog: Vec<u8>,
    /// The backlog ends the stream.
    ends: bool,
    /// Rest of the DATA frame whose header has been written (RFC 9114 section 7.2.1).
    pub frame_left: u64,
    /// The next content of a file, read already.
    pub held: Bytes,
    /// Has no turn until QUIC has room.
    is_blocked: bool,
}

impl Unsent {
    /// A buffer for bytes of that stream.
    pub fn gather(&mut self, stream: u64, quic: &mut Connection) -> &mut Vec<u8> {
        if self.gathering != Some(stream) {
            self.flush(quic);
            self.gathering = Some(stream);
        }
        &mut self.gathered
    }

    /// Hands over the gathered bytes.
    pub fn flush(&mut self, quic: &mut Connection) {
        let Some(stream) = self.gathering.take() else {
            return;
        };
        let gathered = std::mem::take(&mut self.gathered);
        self.write(stream, &gathered, quic);
        self.gathered = gathered;
        self.gathered.clear();
    }

    /// Hands over bytes that have to go whole.
    fn write(&mut self, stream: u64, bytes: &[u8], quic: &mut Connection) {
        if let Some(waiting) = self
            .streams
            .get_mut(&stream)
            .filter(|waiting| !waiting.backlog.is_empty())
        {
            return waiting.backlog.extend_from_slice(bytes);
        }
        match write_some(stream, bytes, quic) {
            Some(taken) if taken < bytes.len() => self
                .streams
                .entry(stream)
                .or_default()
                .backlog
                .extend_from_slice(&bytes[taken..]),
            Some(_) => {}
            None => self.forget(stream),
        }
    }

    /// Ends the stream after everything that was written.
    pub fn end(&mut self, stream: u64, quic: &mut Connection) {
        if self.gathering == Some(stream) {
            self.flush(quic);
        }
        match self
            .streams
            .get_mut(&stream)
            .filter(|waiting| !waiting.backlog.is_empty())
        {
            Some(waiting) => waiting.ends = true,
            None => {
                quic.finish(stream);
                self.forget(stream);
            }
        }
    }

    /// Forgets the output of a stream.
    pub fn forget(&mut self, stream: u64) {
        if self.gathering == Some(stream) {
            self.gathering = None;
            self.gathered.clear();
        }
        self.streams.remove(&stream);
    }

    /// A stream that content is to be sent on. `None`: it has a backlog, and no turn until that has
    /// gone.
    pub fn ready(&mut self, stream: u64) -> Option<&mut Waiting> {
        let waiting = self.streams.entry(stream).or_default();
        waiting.is_blocked = !waiting.backlog.is_empty();
        (!waiting.is_blocked).then_some(waiting)
    }

    pub fn is_gathering(&self, stream: u64) -> bool {
        self.gathering == Some(stream)
    }

    /// Hands over the bytes that precede content. `false`: they were not all accepted.
    pub fn clear_way(&mut self, stream: u64, quic: &mut Connection) -> bool {
        self.flush(quic);
        self.streams
            .get(&stream)
            .is_none_or(|waiting| waiting.backlog.is_empty())
    }

    /// So much of the stream's frame has gone.
    pub fn note_content(&mut self, stream: u64, bytes: u64) {
        if let Some(waiting) = self.streams.get_mut(&stream) {
            waiting.frame_left = waiting.frame_left.saturating_sub(bytes);
        }
    }

    /// QUIC took no content of it.
    pub fn block(&mut self, stream: u64) {
        self.streams.entry(stream).or_default().is_blocked = true;
    }

    /// QUIC has room. Whether the stream has turns again.
    pub fn unblock(&mut self, stream: u64, quic: &mut Connection) -> bool {
        let Some(waiting) = self.streams.get_mut(&stream) else {
            return false;
        };
        match write_some(stream, &waiting.backlog, quic) {
            Some(taken) => drop(waiting.backlog.drain(..taken)),
            None => {
                self.streams.remove(&stream);
                return false;
            }
        }
        if !waiting.backlog.is_empty() {
            return false;
        }
        waiting.backlog = Vec::new();
        if waiting.ends {
            quic.finish(stream);
            self.streams.remove(&stream);
            return false;
        }
        std::mem::take(&mut waiting.is_blocked)
    }

    /// A client that takes nothing holds up bytes that have been made.
    pub fn is_held_up(&self) -> bool {
        self.streams
            .values()
            .any(|waiting| !waiting.backlog.is_empty())
    }

    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    pub fn trim(&mut self) {
        self.streams.shrink_to_fit();
        (self.gathered, self.resumed) = (Vec::new(), Vec::new());
    }
}

/// Writes as much as QUIC accepts; `None`: the peer no longer receives the stream. After a partial
/// write QUIC reports when there is room.
fn write_some(stream: u64, bytes: &[u8], quic: &mut Connection) -> Option<usize> {
    let mut taken = 0;
    while taken < bytes.len() {
        match quic.write(stream, &bytes[taken..]) {
            Written::Bytes(more) => taken += more,
            Written::Blocked => break,
            Written::Stopped(_) | Written::Gone => return None,
        }
    }
    Some(taken)
}
