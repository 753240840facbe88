//! The output of a connection's exchanges: how a driver sends a head, content, and an end.
//!
//! Called by: the exchanges. A driver makes one for each turn, over its machine and its output.
//! Caveat: all operations ignore streams that are gone, because the client may reset one at any
//! time.

use crate::{
    common_headers::CommonHeaders,
    pieces::{Broken, Pieces},
};
use saker_http::Fields;
use saker_pipeline::Response;
use saker_telemetry::Metric;

/// A request's stream, by its number in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId(pub u64);

/// Why we end a stream before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The response is whole; the rest of the request is not wanted (RFC 9113 section 8.1, RFC 9114
    /// section 4.1.1).
    NoError,
    /// What was promised can't be sent.
    Internal,
    /// The client is refused (RFC 9113 section 7, ENHANCE_YOUR_CALM; RFC 9114 section 8.1,
    /// H3_EXCESSIVE_LOAD).
    Refused,
}

pub trait Wire {
    /// What requests are counted under.
    const REQUESTS: Metric;
    /// What streams that clients have reset are counted under.
    const STREAMS_RESET: Metric;

    /// The head of a response whose content has `length` (for HEAD: would have, where that is
    /// known). `ends`: nothing follows.
    fn send_head(
        &mut self,
        stream: StreamId,
        response: &Response,
        length: Option<u64>,
        ends: bool,
        common: &mut CommonHeaders,
        now: i64,
    );

    /// `100 Continue`.
    fn send_continue(&mut self, stream: StreamId);

    /// `103 Early Hints`.
    fn send_hints(&mut self, stream: StreamId, fields: &Fields);

    /// Whether so much content can leave now.
    fn fits(&self, stream: StreamId, bytes: usize) -> bool;

    /// All content of a response, which fits, and its end.
    fn send_whole(&mut self, stream: StreamId, bytes: &[u8]);

    /// One frame of the piece at hand, at most `allowance` bytes of it, with the end where nothing
    /// follows. Returns how much went; `None`: nothing can go now, and the stream has no turn until
    /// the wire gives it one by itself.
    fn send_piece(
        &mut self,
        stream: StreamId,
        pieces: &mut Pieces,
        allowance: u64,
    ) -> Result<Option<u64>, Broken>;

    /// The end after content that has gone.
    fn send_end(&mut self, stream: StreamId);

    /// Trailers, which are an end, too.
    fn send_trailers(&mut self, stream: StreamId, trailers: &Fields);

    fn reset(&mut self, stream: StreamId, reset: Reset);

    /// `bytes` of a request's content are not held any more: as many may come.
    fn release(&mut self, stream: StreamId, bytes: usize);

    /// Whether there is content for a stream.
    fn set_ready(&mut self, stream: StreamId, ready: bool);

    /// Which of the ready streams sends next.
    fn next_ready(&mut self) -> Option<StreamId>;

    /// Whether more may be made in this turn.
    fn has_room(&self) -> bool;

    /// Bytes made so far, to count by.
    fn made(&self) -> u64;

    /// No further requests: those that have come are answered.
    fn shut_down(&mut self);
}
