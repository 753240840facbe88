//! Request and response bodies. Data in memory is shared, not copied; data in a file stays there
//! until the socket takes it.

use crate::read_buffer::{READ_BUFFER_BYTES, ReadBuffer};
use saker_config::model::Throttle;
use saker_http::Fields;
use std::{
    collections::VecDeque,
    fs::File,
    ops::Range,
    rc::Rc,
    task::{Context, Poll},
};

/// Minimum length of a slice that shares its read buffer. Shorter ones are copied, so that they do
/// not keep the buffer alive.
const SHARED_BYTES_MIN: usize = 4 << 10;

/// A slice of a shared buffer.
#[derive(Clone, Debug)]
pub struct Chunk {
    data: Data,
    range: Range<usize>,
}

#[derive(Clone, Debug)]
enum Data {
    Own(Rc<[u8]>),
    Read(ReadBuffer),
}

impl Chunk {
    pub fn new(data: Rc<[u8]>) -> Chunk {
        let range = 0..data.len();
        Chunk {
            data: Data::Own(data),
            range,
        }
    }

    /// Creates a chunk from a range of a read buffer. The range must be within its bounds.
    pub fn of_read(buffer: &ReadBuffer, range: Range<usize>) -> Chunk {
        if range.len() < SHARED_BYTES_MIN {
            return Chunk::new(buffer[range].into());
        }
        assert!(range.end <= buffer.len());
        Chunk {
            data: Data::Read(buffer.clone()),
            range,
        }
    }

    /// Copies the bytes if the shared buffer is much larger. For chunks that are stored.
    pub fn compact(self) -> Chunk {
        match &self.data {
            Data::Read(_) if self.len() < READ_BUFFER_BYTES / 2 => Chunk::new(self.bytes().into()),
            _ => self,
        }
    }

    /// `range` counts from the start of this chunk and must lie within it.
    pub fn slice(&self, range: Range<usize>) -> Chunk {
        assert!(range.start <= range.end && range.end <= self.len());
        Chunk {
            data: self.data.clone(),
            range: self.range.start + range.start..self.range.start + range.end,
        }
    }

    /// Drops the first `bytes`; the chunk must be at least that long.
    pub fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.len());
        self.range.start += bytes;
    }

    pub fn bytes(&self) -> &[u8] {
        let data: &[u8] = match &self.data {
            Data::Own(data) => data,
            Data::Read(buffer) => buffer,
        };
        &data[self.range.clone()]
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

/// Checks whether the content behind a file body is still unchanged. Called before the last piece
/// is sent; if it has changed, the connection is closed early so that the client detects the
/// truncated body.
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
    /// Several bodies in sequence (multipart/byteranges).
    Parts(VecDeque<Body>),
    /// Generated while it is sent.
    Stream(Box<dyn BodyStream>),
}

impl Body {
    /// Returns the number of bytes, if known in advance.
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

/// A body that is generated while it is sent. The driver requests one chunk at a time, and only
/// after the socket has taken the previous one, so that a slow reader throttles the producer.
pub trait BodyStream {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>>;

    fn length(&self) -> Option<u64> {
        None
    }

    /// Returns true if the body is known to have neither content nor trailers although its length is
    /// not announced: over HTTP/2 and HTTP/3, the head ends the stream then.
    fn is_over(&self) -> bool {
        false
    }

    /// Trailer fields, asked for once after the last chunk.
    fn trailers(&mut self) -> Option<Fields> {
        None
    }

    /// Announces that the reader calls [`BodyStream::read_ahead`] whenever its receiver is blocked.
    /// Without this promise, a body that reads ahead has to do so in its own task. A wrapper that
    /// does not forward both methods makes no promise.
    fn promise_read_ahead(&mut self) {}

    /// Lets the producer read ahead, within its limits, while the receiver is blocked. It wakes
    /// `cx` when it can make progress.
    fn read_ahead(&mut self, _cx: &mut Context<'_>) {}

    /// Returns true if what is here must not wait for what follows: over HTTP/1, the head is sent
    /// before there is content.
    fn is_prompt(&self) -> bool {
        false
    }

    /// Tells the producer that the client has left, so that the rest is not read.
    fn client_left(&mut self) {}
}

/// Why a body ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// The peer closed or reset the connection or stream.
    Gone,
    /// Bad framing: answer 400 and close.
    Malformed,
    /// Over the limit: answer 413 and close.
    TooLarge,
    /// Trailers over a limit of fields: answer 431 and close.
    TrailersTooLarge,
    /// Over the time limit: answer 408 and close.
    TimedOut,
    /// The source of the body failed.
    Source,
}

/// A request body as seen by handlers; the protocol driver implements it. The driver drains or
/// aborts what a handler leaves unread.
pub trait RequestBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>>;

    /// Declared length; `None` for chunked and for HTTP/2 and 3 without Content-Length.
    fn length(&self) -> Option<u64>;

    /// Returns true if the body has ended.
    fn is_end(&self) -> bool;

    /// Trailer fields, asked for once after the last chunk.
    fn trailers(&mut self) -> Option<Fields> {
        None
    }

    /// Lifts the time limit of the rest of the body: the response has started, and the reader has
    /// its own time limit for both directions.
    fn take_time(&mut self) {}

    /// Applies the inbound rate limits of the site to the rest of the body. Called once the site is
    /// known.
    fn throttle(&mut self, _: &Throttle, _site: usize) {}

    /// Limits the size of the content, including what has already been received; 0: no limit.
    /// Content beyond it is [`BodyError::TooLarge`], and the piece that exceeds it is discarded.
    /// Called once the settings of the path are known, and again when rules change the path.
    fn limit(&mut self, _bytes_max: u64) {}
}

/// A request body in memory.
pub struct WholeBody(pub Chunk);

impl RequestBody for WholeBody {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let all = self.0.slice(0..self.0.len());
        self.0.advance(all.len());
        Poll::Ready((!all.is_empty()).then_some(Ok(all)))
    }

    fn length(&self) -> Option<u64> {
        Some(self.0.len() as u64)
    }

    fn is_end(&self) -> bool {
        self.0.is_empty()
    }
}

/// An empty request body.
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
