//! A response on its way to the socket: bytes that are ready, then a body, piece by piece.
//!
//! A piece is only fetched when the one before it has gone, so a slow reader holds a connection and one piece, not the response. Files
//! go out by sendfile, their head held back (MSG_MORE) so that both leave in one packet.

use super::io::Io;
use crate::worker::Worker;
use saker_http1::{CHUNK_END, encode_chunk_head, encode_last_chunk};
use saker_pipeline::{Body, BodyStream, Chunk, FilePart};
use saker_telemetry::Metric;
use std::{
    cell::RefCell,
    collections::VecDeque,
    io::{self, IoSlice},
    task::{Context, Poll, ready},
};

/// Sendfile calls are cut to this.
const SENDFILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes after which the other connections get their turn, however fast this one's reader is.
const TURN_BYTES_MAX: u64 = 2 << 20;
/// The end of a large file that is held back until its content was checked once more.
const CHECKED_TAIL_BYTES: u64 = 64 << 10;

pub struct Outgoing {
    /// Framing and heads, before `piece`.
    ready: Vec<u8>,
    ready_sent: usize,
    piece: Option<Piece>,
    /// What comes after the piece; most bodies have nothing behind it, which then costs no memory.
    next: Option<Body>,
    rest: VecDeque<Body>,
    chunked: bool,
    body_bytes: u64,
    bytes: u64,
}

enum Piece {
    Memory(Chunk),
    File(FilePart),
}

/// Why a response could not be sent whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    Gone,
    /// The content changed while it was sent, or its maker failed: the connection is cut, so that the client sees it.
    Cut,
}

impl From<io::Error> for SendError {
    fn from(_: io::Error) -> Self {
        SendError::Gone
    }
}

impl Outgoing {
    pub fn new(ready: Vec<u8>, body: Body, chunked: bool) -> Outgoing {
        Outgoing { ready, ready_sent: 0, piece: None, next: Some(body), rest: VecDeque::new(), chunked, body_bytes: 0, bytes: 0 }
    }

    /// Puts bytes before everything else. Only before the first poll.
    pub fn prefix(&mut self, mut bytes: Vec<u8>) {
        if !bytes.is_empty() {
            bytes.extend_from_slice(&self.ready);
            self.ready = bytes;
        }
    }

    /// Content bytes sent so far, without framing.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// All bytes sent so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sends at most `allowance` bytes of content (and any amount of framing). Ready when everything has gone or the allowance is used up
    /// ([`Outgoing::is_done`] tells which). `progress` is set as soon as anything was sent.
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
            if self.piece.is_none() {
                ready!(self.poll_piece(cx))?;
            }
            if self.is_done() || (self.body_bytes >= end && self.ready_sent == self.ready.len()) {
                return Poll::Ready(Ok(()));
            }
            let sent = ready!(self.poll_step(cx, io, end - self.body_bytes))?;
            worker.counters.add(Metric::BytesOut, sent);
            self.bytes += sent;
            *progress = true;
        }
    }

    pub fn is_done(&self) -> bool {
        self.ready_sent == self.ready.len() && self.piece.is_none() && self.next.is_none() && self.rest.is_empty()
    }

    /// Finds what comes next; leaves `piece` empty only at the end.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        while self.piece.is_none() {
            if self.next.is_none() {
                self.next = self.rest.pop_front();
            }
            let Some(front) = &mut self.next else { break };
            match front {
                Body::Stream(stream) => {
                    if let Some(chunk) = ready!(poll_chunk(cx, stream.as_mut()))? {
                        self.frame(chunk);
                        return Poll::Ready(Ok(()));
                    }
                    let trailers = stream.trailers();
                    if self.chunked {
                        encode_last_chunk(trailers.as_ref(), &mut self.ready);
                    }
                    self.next = None;
                }
                _ => self.unpack(),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes a body that is there already.
    fn unpack(&mut self) {
        match self.next.take() {
            Some(Body::Memory(chunk)) if !chunk.is_empty() => self.piece = Some(Piece::Memory(chunk)),
            Some(Body::File(part)) if part.length > 0 => self.piece = Some(Piece::File(part)),
            Some(Body::Parts(parts)) => parts.into_iter().rev().for_each(|part| self.rest.push_front(part)),
            _ => {}
        }
    }

    fn frame(&mut self, chunk: Chunk) {
        if self.chunked {
            encode_chunk_head(chunk.len(), &mut self.ready);
        }
        self.piece = Some(Piece::Memory(chunk));
    }

    /// One write.
    fn poll_step(&mut self, cx: &mut Context<'_>, io: &RefCell<Io>, allowance: u64) -> Poll<Result<u64, SendError>> {
        let stream = &mut io.borrow_mut().stream;
        let ready_left = &self.ready[self.ready_sent..];
        let sent = match &mut self.piece {
            None => ready!(stream.poll_write(cx, ready_left))?,
            Some(Piece::Memory(chunk)) => {
                let piece = &chunk.bytes()[..usize::try_from(allowance).unwrap_or(usize::MAX).min(chunk.len())];
                match ready_left.is_empty() {
                    true => ready!(stream.poll_write(cx, piece))?,
                    false => ready!(stream.poll_write_vectored(cx, &[IoSlice::new(ready_left), IoSlice::new(piece)]))?,
                }
            }
            Some(Piece::File(_)) if !ready_left.is_empty() => ready!(stream.poll_send_more_now(cx, ready_left))?,
            Some(Piece::File(part)) => {
                let count = file_step(part, allowance)?;
                // 0: the file has shrunk below what was promised.
                match ready!(stream.poll_sendfile_now(cx, &part.file, part.offset, count))? {
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
        let over = match &mut self.piece {
            Some(Piece::Memory(chunk)) => {
                *chunk = chunk.slice(of_piece..chunk.len());
                chunk.is_empty()
            }
            Some(Piece::File(part)) => {
                part.offset += of_piece as u64;
                part.length -= of_piece as u64;
                part.length == 0
            }
            None => false,
        };
        if over {
            self.end_piece();
        }
    }

    fn end_piece(&mut self) {
        self.piece = None;
        if self.chunked && matches!(self.next, Some(Body::Stream(_))) {
            self.ready.extend_from_slice(CHUNK_END);
        }
    }
}

fn poll_chunk(cx: &mut Context<'_>, stream: &mut dyn BodyStream) -> Poll<Result<Option<Chunk>, SendError>> {
    loop {
        match ready!(stream.poll_chunk(cx)) {
            // An empty chunk would end a chunked body.
            Some(Ok(chunk)) if chunk.is_empty() => {}
            Some(Ok(chunk)) => return Poll::Ready(Ok(Some(chunk))),
            Some(Err(_)) => return Poll::Ready(Err(SendError::Cut)),
            None => return Poll::Ready(Ok(None)),
        }
    }
}

/// How much of a file may go now. Its end goes only after a look at whether the content is still what the head promised.
fn file_step(part: &FilePart, allowance: u64) -> Result<usize, SendError> {
    let most = part.length.min(allowance).min(SENDFILE_BYTES_MAX);
    let Some(check) = &part.check else { return Ok(most as usize) };
    // What fits one call is checked and sent; of what does not, the end waits for the check.
    if part.length > SENDFILE_BYTES_MAX {
        return Ok(most.min(part.length - CHECKED_TAIL_BYTES) as usize);
    }
    match check.still_valid() {
        true => Ok(most as usize),
        false => Err(SendError::Cut),
    }
}
