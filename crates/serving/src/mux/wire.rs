//! The output of a connection's exchanges: how a driver sends a head, content, and an end.
//!
//! Called by: the exchanges. A driver makes one for each turn, over its machine and its output.
//! Caveat: all operations ignore streams that are gone, because the client may reset one at any
//! time.

use crate::{
    common_headers::CommonHeaders,
    pieces::{Broken, Pieces},
};
use saker_http::{Fields, Status};
use saker_pipeline::Response;
use saker_telemetry::Metric;

/// A request's stream, by its number in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId(pub u64);

/// Reason for ending a stream early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The response is complete; the rest of the request is not needed (RFC 9113 section 8.1, RFC
    /// 9114 section 4.1.1).
    NoError,
    /// The promised response can't be sent.
    Internal,
    /// The request did not come as it should (RFC 9113 section 7, PROTOCOL_ERROR; RFC 9114 section 8.1,
    /// H3_GENERAL_PROTOCOL_ERROR).
    Protocol,
    /// The client is refused (RFC 9113 section 7, ENHANCE_YOUR_CALM; RFC 9114 section 8.1,
    /// H3_EXCESSIVE_LOAD).
    Refused,
}

pub trait Wire {
    /// The counter of requests.
    const REQUESTS: Metric;
    /// The counter of streams reset by clients.
    const STREAMS_RESET: Metric;

    /// Sends the head of a response whose content has `length` (for HEAD: would have, if known).
    /// `ends`: nothing follows.
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

    /// An interim response of an upstream, such as `103 Early Hints`.
    fn send_interim(&mut self, stream: StreamId, status: Status, fields: &Fields);

    /// Returns true if this much content can be sent now.
    fn fits(&self, stream: StreamId, bytes: usize) -> bool;

    /// Sends the complete content of a response, which fits, and its end.
    fn send_whole(&mut self, stream: StreamId, bytes: &[u8]);

    /// Sends one frame of the current piece, at most `allowance` bytes of it, with the end if
    /// nothing follows. Returns the number of bytes; `None`: nothing can be sent now, and the
    /// stream has no turn until the wire gives it one by itself.
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

    /// Releases `bytes` of a request's content: as many may be received.
    fn release(&mut self, stream: StreamId, bytes: usize);

    /// Notes whether there is content for a stream.
    fn set_ready(&mut self, stream: StreamId, ready: bool);

    /// Returns the ready stream that sends next.
    fn next_ready(&mut self) -> Option<StreamId>;

    /// Returns true if more may be produced in this turn.
    fn has_room(&self) -> bool;

    /// Bytes produced so far, for counting.
    fn made(&self) -> u64;

    /// No further requests: those that have come are answered.
    fn shut_down(&mut self);
}
