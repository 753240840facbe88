//! Bodies, in and out. What is in memory is shared, never copied; what is in a file stays there
//! until the socket takes it.

use saker_config::model::Throttle;
use saker_http::Fields;
use std::{
    collections::VecDeque,
    fs::File,
    ops::Range,
    rc::Rc,
    task::{Context, Poll},
};

/// A run of bytes of a shared buffer.
#[derive(Clone, Debug)]
pub struct Chunk {
    data: Rc<[u8]>,
    range: Range<usize>,
}

impl Chunk {
    pub fn new(data: Rc<[u8]>) -> Chunk {
        let range = 0..data.len();
        Chunk { data, range }
    }

    /// `range` counts from the start of this chunk and must lie within it.
    pub fn slice(&self, range: Range<usize>) -> Chunk {
        assert!(range.start <= range.end && range.end <= self.len());
        Chunk {
            data: Rc::clone(&self.data),
            range: self.range.start + range.start..self.range.start + range.end,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.data[self.range.clone()]
    }

    pub fn len(&self) -> usize {
        self.range.len()
    }

    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

impl From<Vec<u8>> for Chunk {
    fn from(data: Vec<u8>) -> Chunk {
        Chunk::new(data.into())
    }
}

/// Says whether the content that a file body was promised from is still there. Asked before the
/// last piece of it leaves: where the answer is no, the connection is cut so that the client sees
/// that the body is not whole.
pub trait StillValid {
    fn still_valid(&self) -> bool;
}

/// Part of an open file.
#[derive(Clone)]
pub struct FilePart {
    pub file: Rc<File>,
    pub offset: u64,
    pub length: u64,
    pub check: Option<Rc<dyn StillValid>>,
}

/// A response body.
#[derive(Default)]
pub enum Body {
    #[default]
    Empty,
    Memory(Chunk),
    File(FilePart),
    /// One after the other (multipart/byteranges).
    Parts(VecDeque<Body>),
    /// Made while it is sent.
    Stream(Box<dyn BodyStream>),
}

impl Body {
    /// Number of bytes, where it is known beforehand.
    pub fn length(&self) -> Option<u64> {
        match self {
            Body::Empty => Some(0),
            Body::Memory(chunk) => Some(chunk.len() as u64),
            Body::File(part) => Some(part.length),
            Body::Parts(parts) => parts.iter().map(Body::length).sum(),
            Body::Stream(stream) => stream.length(),
        }
    }
}

/// A body that is made while it is sent. Called by the driver, one chunk at a time, only when the
/// last one has gone to the socket: a slow reader stops the maker.
pub trait BodyStream {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>>;

    fn length(&self) -> Option<u64> {
        None
    }

    /// Trailer fields, asked for once after the last chunk.
    fn trailers(&mut self) -> Option<Fields> {
        None
    }
}

/// Why a body ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// The peer closed or reset.
    Gone,
    /// Bad framing: answer 400 and close.
    Malformed,
    /// Over the limit: answer 413 and close.
    TooLarge,
    /// Trailers over a limit of fields: answer 431 and close.
    TrailersTooLarge,
    /// Over the time limit: answer 408 and close.
    TimedOut,
    /// What we made it from failed.
    Source,
}

/// A request body as the handler reads it; the protocol driver is behind it. What a handler leaves,
/// the driver drains or cuts.
pub trait RequestBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>>;

    /// Declared length; `None` for chunked and for HTTP/2 and 3 without Content-Length.
    fn length(&self) -> Option<u64>;

    /// Nothing (more) will come.
    fn is_end(&self) -> bool;

    /// Trailer fields, asked for once after the last chunk.
    fn trailers(&mut self) -> Option<Fields> {
        None
    }

    /// What is still to come may take its time: who reads it has a time limit for both directions
    /// together, since it has answered already.
    fn take_time(&mut self) {}

    /// Puts what is still to come under the inward limits of its site. Called once the site is
    /// known.
    fn throttle(&mut self, _: &Throttle, _site: usize) {}

    /// Bounds the content as a whole, what has come already included; 0: no limit. Content beyond
    /// it is [`BodyError::TooLarge`], and nothing of the piece that goes beyond it is handed out.
    /// Called once the settings of the path are known, and again when rules lead to another path.
    fn limit(&mut self, _bytes_max: u64) {}
}

/// The body of a request that has none.
pub struct NoBody;

impl RequestBody for NoBody {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        Poll::Ready(None)
    }

    fn length(&self) -> Option<u64> {
        Some(0)
    }

    fn is_end(&self) -> bool {
        true
    }
}
