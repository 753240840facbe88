//! A response on its way to the socket: encoded bytes first, then the body, piece by piece.
//!
//! Called by: `turn`, while a response is being sent.
//! Caveat: a piece is fetched only when the previous one has been sent, so a slow reader holds one
//! piece, not the response. Files are sent with sendfile, and their head is held back (MSG_MORE)
//! so that both leave in one packet.

use crate::{
    io::Io,
    pieces::{Broken, Piece, Pieces, file_step},
    worker::Worker,
};
use saker_http::Fields;
use saker_http1::{CHUNK_END, encode_chunk_head, encode_last_chunk};
use saker_pipeline::Body;
use saker_telemetry::Metric;
use std::{
    cell::RefCell,
    io,
    task::{Context, Poll, ready},
};

/// Sendfile calls are cut to this.
const SENDFILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes after which the other connections get their turn, however fast this one's reader is.
const TURN_BYTES_MAX: u64 = 2 << 20;

pub struct Outgoing {
    /// Framing and heads, before `piece`.
    ready: Vec<u8>,
    ready_sent: usize,
    pieces: Pieces,
    /// The last chunk is still to come.
    chunked: bool,
    trailers: Option<Fields>,
    body_bytes: u64,
    bytes: u64,
    /// Bytes before the body and its framing.
    head_bytes: u64,
    /// Everything that the source of the body has made was sent, or waits for more of it.
    awaits_source: bool,
}

/// Reason for an incomplete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    Gone,
    /// The content changed while it was sent, or its maker failed: the connection is cut, so that
    /// the client sees it.
    Cut,
}

impl From<Broken> for SendError {
    fn from(_: Broken) -> Self {
        SendError::Cut
    }
}

impl From<io::Error> for SendError {
    fn from(_: io::Error) -> Self {
        SendError::Gone
    }
}

impl Outgoing {
    pub fn new(ready: Vec<u8>, body: Body, chunked: bool) -> Outgoing {
        Outgoing {
            head_bytes: ready.len() as u64,
            ready,
            ready_sent: 0,
            pieces: Pieces::new(body).promise_read_ahead(),
            chunked,
            trailers: None,
            body_bytes: 0,
            bytes: 0,
            awaits_source: false,
        }
    }

    /// The rest of a response whose head and content have been sent in part: `bytes` of it, and
    /// among them `body_bytes` of content.
    pub fn resumed(ready: Vec<u8>, rest: Body, bytes: u64, body_bytes: u64) -> Outgoing {
        Outgoing {
            head_bytes: bytes.saturating_sub(body_bytes) + ready.len() as u64,
            body_bytes,
            bytes,
            ..Outgoing::new(ready, rest, false)
        }
    }

    /// Puts bytes before everything else. Only before the first poll.
    pub fn prefix(&mut self, mut bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.head_bytes += bytes.len() as u64;
            bytes.extend_from_slice(&self.ready);
            self.ready = bytes;
        }
    }

    /// Content bytes sent so far, without framing.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Bytes behind the head sent so far: content and framing.
    pub fn framed_body_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.head_bytes)
    }

    /// Takes the trailers that were sent after the content.
    pub fn take_trailers(&mut self) -> Option<Fields> {
        self.trailers.take()
    }

    /// All bytes sent so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sends at most `allowance` bytes of content (and any amount of framing). Ready when
    /// everything has gone or the allowance is used up ([`Outgoing::is_done`] tells which).
    /// `progress` is set as soon as anything was sent.
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        io: &RefCell<Io>,
        worker: &Worker,
        allowance: u64,
        progress: &mut bool,
    ) -> Poll<Result<(), SendError>> {
        let end = self.body_bytes.saturating_add(allowance);
        let turn_end = self.bytes + TURN_BYTES_MAX;
        loop {
            if self.bytes >= turn_end {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if !self.pieces.has_piece() {
                let Poll::Ready(piece) = self.poll_piece(cx) else {
                    let sent = ready!(self.poll_made(cx, io))?;
                    worker.counters.add(Metric::BytesOut, sent);
                    *progress |= sent > 0;
                    self.awaits_source = true;
                    return Poll::Pending;
                };
                piece?;
            }
            self.awaits_source = false;
            if self.is_done() {
                return io
                    .borrow_mut()
                    .transport
                    .poll_flush(cx)
                    .map_err(SendError::from);
            }
            if self.body_bytes >= end && self.ready_sent == self.ready.len() {
                return Poll::Ready(Ok(()));
            }
            let Poll::Ready(sent) = self.poll_step(cx, io, end - self.body_bytes) else {
                self.pieces.read_ahead(cx);
                return Poll::Pending;
            };
            let sent = sent?;
            worker.counters.add(Metric::BytesOut, sent);
            self.bytes += sent;
            *progress = true;
        }
    }

    /// Lets the source of the body continue while the client is slow.
    pub fn read_ahead(&mut self, cx: &mut Context<'_>) {
        self.pieces.read_ahead(cx);
    }

    /// Returns true if the source of the body is waited for, and not the client.
    pub fn awaits_source(&self) -> bool {
        self.awaits_source
    }

    /// The client has left before the end.
    pub fn client_left(&mut self) {
        self.pieces.client_left();
    }

    pub fn is_done(&self) -> bool {
        self.ready_sent == self.ready.len() && self.pieces.is_over() && !self.chunked
    }

    /// Fetches and frames the next piece. A body of unknown length is chunked as a whole, whatever
    /// its parts are.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        match ready!(self.pieces.poll_piece(cx))? {
            Some(piece) if self.chunked => encode_chunk_head(
                usize::try_from(piece.length()).unwrap_or(usize::MAX),
                &mut self.ready,
            ),
            Some(_) => {}
            None if self.chunked => {
                self.trailers = self.pieces.take_trailers();
                encode_last_chunk(self.trailers.as_ref(), &mut self.ready);
                self.chunked = false;
            }
            None => {}
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what must not wait for more of the body, and what TLS keeps back. Pending: the client
    /// takes nothing.
    fn poll_made(
        &mut self,
        cx: &mut Context<'_>,
        io: &RefCell<Io>,
    ) -> Poll<Result<u64, SendError>> {
        self.awaits_source = false;
        let transport = &mut io.borrow_mut().transport;
        let mut all = 0;
        while self.ready_sent < self.ready.len() && self.pieces.is_prompt() {
            let sent = ready!(transport.poll_write(cx, &self.ready[self.ready_sent..]))?;
            if sent == 0 {
                return Poll::Ready(Err(SendError::Gone));
            }
            self.advance(sent);
            self.bytes += sent as u64;
            all += sent as u64;
        }
        if transport.has_unsent() {
            ready!(transport.poll_flush(cx))?;
        }
        Poll::Ready(Ok(all))
    }

    /// One write.
    fn poll_step(
        &mut self,
        cx: &mut Context<'_>,
        io: &RefCell<Io>,
        allowance: u64,
    ) -> Poll<Result<u64, SendError>> {
        let transport = &mut io.borrow_mut().transport;
        let ready_left = &self.ready[self.ready_sent..];
        let sent = match self.pieces.piece_mut() {
            None => ready!(transport.poll_write(cx, ready_left))?,
            Some(Piece::Memory(chunk)) => {
                let piece = &chunk.bytes()[..usize::try_from(allowance)
                    .unwrap_or(usize::MAX)
                    .min(chunk.len())];
                match ready_left.is_empty() {
                    true => ready!(transport.poll_write(cx, piece))?,
                    false => ready!(transport.poll_write_vectored(cx, ready_left, piece))?,
                }
            }
            Some(Piece::File(_)) if !ready_left.is_empty() => {
                ready!(transport.poll_send_more_now(cx, ready_left))?
            }
            Some(Piece::File(part)) => {
                let count = file_step(part, allowance, SENDFILE_BYTES_MAX)?;
                // 0: the file has shrunk below the promised length.
                match ready!(transport.poll_sendfile(cx, &part.file, part.offset, count))? {
                    0 => return Poll::Ready(Err(SendError::Cut)),
                    sent => sent,
                }
            }
        };
        if sent == 0 {
            return Poll::Ready(Err(SendError::Gone));
        }
        self.advance(sent);
        Poll::Ready(Ok(sent as u64))
    }

    fn advance(&mut self, sent: usize) {
        let of_ready = sent.min(self.ready.len() - self.ready_sent);
        self.ready_sent += of_ready;
        if self.ready_sent == self.ready.len() {
            self.ready = Vec::new();
            self.ready_sent = 0;
        }
        let of_piece = sent - of_ready;
        self.body_bytes += of_piece as u64;
        if !self.pieces.has_piece() {
            return;
        }
        self.pieces.advance(of_piece);
        if self.chunked && !self.pieces.has_piece() {
            self.ready.extend_from_slice(CHUNK_END);
        }
    }
}
