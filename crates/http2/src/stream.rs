//! One stream (RFC 9113 section 5.1): which sides have ended, its two windows, and what the content
//! still owes.
//!
//! The states of the standard's figure are two facts here, since nothing is pushed: whether the
//! peer has ended its side and whether we have. Idle and closed streams have no entry at all; see
//! `streams.rs` for how they are told apart.

use saker_http::Status;
use saker_http_mux::{HeadFacts, Transmitter};

use crate::error::Reason;
use crate::window::{ReceiveWindow, SendWindow};

/// A stream identifier (RFC 9113 section 5.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct StreamId(pub u32);

impl StreamId {
    /// Identifier for frames that belong to no stream.
    pub(crate) const CONNECTION: StreamId = StreamId(0);

    /// Clients open odd streams (RFC 9113 section 5.1.1), servers none here.
    pub(crate) fn is_of_client(self) -> bool {
        self.0 % 2 == 1
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub id: StreamId,
    pub send_window: SendWindow,
    pub receive_window: ReceiveWindow,
    /// Bytes that the peer's Content-Length still announces.
    pub content_left: Option<u64>,
    /// The peer has sent END_STREAM.
    pub remote_ended: bool,
    /// We have sent END_STREAM.
    pub local_ended: bool,
    /// We have sent the head (server: the final response).
    pub head_sent: bool,
    /// The peer's head has come (client: the final response); always so for a server, which has no
    /// stream before.
    pub head_received: bool,
    /// CONNECT: content goes on after the other side has ended, and there is no Content-Length.
    pub is_tunnel: bool,
    /// Client: the request was HEAD, so that Content-Length says nothing about this response.
    pub is_head_request: bool,
    /// The driver has content for it.
    pub is_ready: bool,
}

impl Stream {
    pub fn new(id: StreamId, send_window_bytes: u32, receive_window_bytes: u32) -> Self {
        Stream {
            id,
            send_window: SendWindow::new(send_window_bytes),
            receive_window: ReceiveWindow::new(receive_window_bytes),
            content_left: None,
            remote_ended: false,
            local_ended: false,
            head_sent: false,
            head_received: false,
            is_tunnel: false,
            is_head_request: false,
            is_ready: false,
        }
    }
}

impl Transmitter for Stream {
    /// END_STREAM does not need a window, content does.
    fn can_send(&self) -> bool {
        self.is_ready && !self.local_ended && self.send_window.is_open()
    }
}

/// Transitions caused by the peer; an error is a stream error.
impl Stream {
    /// DATA of so many bytes of content.
    pub fn accept_data(
        &mut self,
        content_bytes: usize,
        flow_bytes: usize,
        end_stream: bool,
        grace: u32,
    ) -> Result<(), Reason> {
        // RFC 9113 section 5.1, half-closed (remote).
        if self.remote_ended {
            return Err(Reason::FrameOnClosedStream);
        }
        if !self.receive_window.receive(flow_bytes, grace) {
            return Err(Reason::WindowExceeded);
        }
        if !self.head_received {
            return Err(Reason::ContentBeforeHead);
        }
        if let Some(left) = self.content_left {
            self.content_left = Some(
                left.checked_sub(content_bytes as u64)
                    .ok_or(Reason::ContentTooLong)?,
            );
        }
        self.end_remote_if(end_stream)
    }

    /// RFC 9113 section 8.1.1: the content must be as long as Content-Length says.
    pub fn end_remote_if(&mut self, end_stream: bool) -> Result<(), Reason> {
        if end_stream && self.content_left.is_some_and(|left| left > 0) {
            return Err(Reason::ContentTooShort);
        }
        self.remote_ended |= end_stream;
        Ok(())
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
