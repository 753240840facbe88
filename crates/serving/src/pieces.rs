//! A response body on its way out, piece by piece, for every protocol.
//!
//! Called by: the outputs of all drivers.
//! Caveat: a piece is fetched only when the previous one has been sent, so a slow reader holds one
//! piece, not the response. If nothing can follow, the last piece says so, and no frame is spent on
//! the end.

use saker_http::Fields;
use saker_pipeline::{Body, BodyStream, Chunk, FilePart};
use std::{
    collections::VecDeque,
    task::{Context, Poll, ready},
};

pub enum Piece {
    Memory(Chunk),
    File(FilePart),
}

impl Piece {
    pub fn length(&self) -> u64 {
        match self {
            Piece::Memory(chunk) => chunk.len() as u64,
            Piece::File(part) => part.length,
        }
    }
}

/// The source of a body failed, or its content changed: the promised response can't be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

pub struct Pieces {
    piece: Option<Piece>,
    /// Body after the current piece; most bodies have none, which then costs no memory.
    next: Option<Body>,
    rest: VecDeque<Body>,
    trailers: Option<Fields>,
}

impl Pieces {
    pub fn new(body: Body) -> Pieces {
        Pieces {
            piece: None,
            next: Some(body),
            rest: VecDeque::new(),
            trailers: None,
        }
    }

    /// Fetches the next piece; `None` is the end.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&mut Piece>, Broken>> {
        while self.piece.is_none() {
            if self.next.is_none() {
                self.next = self.rest.pop_front();
            }
            match &mut self.next {
                None => break,
                Some(Body::Stream(stream)) => match ready!(poll_chunk(cx, stream.as_mut()))? {
                    Some(chunk) => self.piece = Some(Piece::Memory(chunk)),
                    None => {
                        self.trailers = stream.trailers();
                        self.next = None;
                    }
                },
                Some(_) => self.unpack(),
            }
        }
        Poll::Ready(Ok(self.piece.as_mut()))
    }

    /// Takes a body that is there already.
    fn unpack(&mut self) {
        match self.next.take() {
            Some(Body::Memory(chunk)) if !chunk.is_empty() => {
                self.piece = Some(Piece::Memory(chunk))
            }
            Some(Body::File(part)) if part.length > 0 => self.piece = Some(Piece::File(part)),
            Some(Body::Parts(parts)) => parts
                .into_iter()
                .rev()
                .for_each(|part| self.rest.push_front(part)),
            _ => {}
        }
    }

    /// `bytes` of the piece have gone.
    pub fn advance(&mut self, bytes: usize) {
        let over = match &mut self.piece {
            Some(Piece::Memory(chunk)) => {
                chunk.advance(bytes);
                chunk.is_empty()
            }
            Some(Piece::File(part)) => {
                part.offset += bytes as u64;
                part.length -= bytes as u64;
                part.length == 0
            }
            None => false,
        };
        if over {
            self.piece = None;
        }
    }

    pub fn has_piece(&self) -> bool {
        self.piece.is_some()
    }

    pub fn piece_mut(&mut self) -> Option<&mut Piece> {
        self.piece.as_mut()
    }

    /// Lets a stream continue although the client accepts nothing now. Only for streams that
    /// support it.
    pub fn read_ahead(&mut self, cx: &mut Context<'_>) {
        if let Some(Body::Stream(stream)) = &mut self.next {
            stream.read_ahead(cx);
        }
    }

    /// Promises that [`Pieces::read_ahead`] is called.
    pub fn promise_read_ahead(mut self) -> Pieces {
        if let Some(Body::Stream(stream)) = &mut self.next {
            stream.promise_read_ahead();
        }
        self
    }

    /// Returns true if what is here must not wait for what follows.
    pub fn is_prompt(&self) -> bool {
        matches!(&self.next, Some(Body::Stream(stream)) if stream.is_prompt())
    }

    /// The client has left.
    pub fn client_left(&mut self) {
        if let Some(Body::Stream(stream)) = &mut self.next {
            stream.client_left();
        }
    }

    /// Nothing follows the piece.
    pub fn is_last(&self) -> bool {
        self.next.is_none() && self.rest.is_empty()
    }

    pub fn is_over(&self) -> bool {
        self.piece.is_none() && self.is_last()
    }

    /// Takes the trailers that a stream ended with; once.
    pub fn take_trailers(&mut self) -> Option<Fields> {
        self.trailers.take()
    }
}

fn poll_chunk(
    cx: &mut Context<'_>,
    stream: &mut dyn BodyStream,
) -> Poll<Result<Option<Chunk>, Broken>> {
    loop {
        match ready!(stream.poll_chunk(cx)) {
            // An empty chunk would end a chunked body.
            Some(Ok(chunk)) if chunk.is_empty() => {}
            Some(Ok(chunk)) => return Poll::Ready(Ok(Some(chunk))),
            Some(Err(_)) => return Poll::Ready(Err(Broken)),
            None => return Poll::Ready(Ok(None)),
        }
    }
}

/// The end of a large file that is held back until its content was checked once more.
pub const CHECKED_TAIL_BYTES: u64 = 64 << 10;

/// Number of bytes of a file that may be sent now, at most `step_max`. The last bytes are sent only
/// after a check that the content is still what the head promised.
pub fn file_step(part: &FilePart, allowance: u64, step_max: u64) -> Result<usize, Broken> {
    let most = part.length.min(allowance).min(step_max);
    let Some(check) = &part.check else {
        return Ok(most as usize);
    };
    // What fits one step is checked and sent; of what does not, the end waits for the check.
    if part.length > step_max.max(CHECKED_TAIL_BYTES) {
        return Ok(most.min(part.length - CHECKED_TAIL_BYTES) as usize);
    }
    match check.still_valid() {
        true => Ok(most as usize),
        false => Err(Broken),
    }
}
