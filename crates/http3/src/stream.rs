//! One request stream (RFC 9114 sections 4.1 and 6.1): where its reader stands, which sides have
//! ended, and what the content still owes.

use crate::error::Reason;
use crate::frame::HeaderInParts;
use crate::qpack::Section;
use saker_http::Status;
use saker_http_mux::{HeadFacts, Transmitter};

/// Reading position on a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading {
    /// A frame header, of which some may have come.
    Header,
    /// Content.
    Data { left: u64 },
    /// A field section, of which some is in `section`.
    Fields { left: usize },
    /// The section in `section` waits for the dynamic table; nothing is read until then.
    Blocked(Section),
    /// Rest of a frame of unknown or ignored type.
    Skipped { left: u64 },
    /// Nothing that comes is of interest.
    Discarded,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub reading: Reading,
    pub header: HeaderInParts,
    /// A field section that is not complete, or waits.
    pub section: Vec<u8>,
    /// Bytes that the peer's Content-Length still announces.
    pub content_left: Option<u64>,
    /// The peer's message is complete.
    pub remote_ended: bool,
    /// So is ours.
    pub local_ended: bool,
    /// We have sent the head (server: the final response).
    pub head_sent: bool,
    /// The peer's head has come (client: the final response).
    pub head_received: bool,
    /// The peer's trailers have come.
    pub trailers_received: bool,
    /// CONNECT: content goes on after the other side has ended, and there is no Content-Length.
    pub is_tunnel: bool,
    /// Client: the request was HEAD, so that Content-Length says nothing about this response.
    pub is_head_request: bool,
    /// A PRIORITY_UPDATE has come, which counts for more than the head's field (RFC 9218 section
    /// 7).
    pub is_priority_told: bool,
    /// The driver has content for it.
    pub is_ready: bool,
}

impl Stream {
    pub fn new() -> Self {
        Stream {
            reading: Reading::Header,
            header: HeaderInParts::default(),
            section: Vec::new(),
            content_left: None,
            remote_ended: false,
            local_ended: false,
            head_sent: false,
            head_received: false,
            trailers_received: false,
            is_tunnel: false,
            is_head_request: false,
            is_priority_told: false,
            is_ready: false,
        }
    }

    /// True if the stream may end here without cutting a frame (RFC 9114 section 7.1).
    pub fn is_between_frames(&self) -> bool {
        match self.reading {
            Reading::Header => self.header.is_empty(),
            Reading::Data { left } | Reading::Skipped { left } => left == 0,
            Reading::Fields { .. } => false,
            Reading::Blocked(_) | Reading::Discarded => true,
        }
    }
}

impl Transmitter for Stream {
    /// Flow control is QUIC's: a driver whose stream is full takes its turn away.
    fn can_send(&self) -> bool {
        self.is_ready && !self.local_ended
    }
}

/// Transitions caused by the peer; an error is a stream error.
impl Stream {
    /// Content of a frame that is not longer than `content_left`.
    pub fn accept_data(&mut self, bytes: usize) {
        self.content_left = self
            .content_left
            .map(|left| left.saturating_sub(bytes as u64));
    }

    /// RFC 9114 section 4.1.2: the content must be as long as Content-Length says.
    pub fn end_remote_if(&mut self, ends: bool) -> Result<(), Reason> {
        if ends && self.content_left.is_some_and(|left| left > 0) {
            return Err(Reason::ContentTooShort);
        }
        self.remote_ended |= ends;
        Ok(())
    }

    pub fn accept_request(&mut self, facts: HeadFacts) {
        self.head_received = true;
        self.is_tunnel = facts.is_connect;
        self.content_left = facts
            .content_length
            .filter(|_| facts.refusal.is_none() && !facts.is_connect);
    }

    /// The final response to our request.
    pub fn accept_response(&mut self, status: Status, facts: HeadFacts) {
        self.head_received = true;
        self.is_tunnel &= status.is_success();
        self.content_left = match facts.content_length {
            _ if self.is_tunnel => None,
            // RFC 9110 section 6.4.1: no content, whatever Content-Length says.
            _ if self.is_head_request || status.forbids_content() => Some(0),
            _ if facts.refusal.is_some() => None,
            length => length,
        };
    }
}
