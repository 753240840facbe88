//! Bodies that are produced from other bodies, piece by piece.
//!
//! Called by: every filter of this crate that changes content, and server-side includes.
//! Caveat: a filter may hold input back, and a source may always have more. So output gathers up to
//! [`OUTPUT_BYTES`], is sent early when the source has to wait, and the stream yields to the
//! worker's other connections after [`INPUT_BYTES_MAX`] or [`TURN_MAX`].

use saker_http::Fields;
use saker_pipeline::{Body, BodyError, BodyStream, Chunk, FilePart, RequestBody, Response};
use std::{
    collections::VecDeque,
    os::unix::fs::FileExt,
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// Output of this size is sent at once.
const OUTPUT_BYTES: usize = 16 << 10;
/// Input taken in one call at most.
const INPUT_BYTES_MAX: usize = 256 << 10;
/// Time after which a filter yields to the worker's other connections.
const TURN_MAX: Duration = Duration::from_millis(10);
/// Input pushed at a time, so that content that grows a thousandfold does so in small steps.
const PUSHED_BYTES_MAX: usize = 8 << 10;
/// Bytes of a file read at a time.
const FILE_BYTES: usize = 64 << 10;

/// A filter from bytes to bytes. How the input is split never changes the output as a whole.
pub trait Transform {
    /// Takes a piece of input and appends the output that is ready.
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BodyError>;

    /// Appends the rest of the output after the last input.
    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BodyError>;
}

/// A source of input.
trait Pieces {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>>;
}

impl Pieces for Box<dyn BodyStream> {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.poll_chunk(cx)
    }
}

impl Pieces for Box<dyn RequestBody> {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.poll_chunk(cx)
    }
}

struct Transformed<S> {
    source: S,
    /// Input that has not been pushed yet.
    input: Option<Chunk>,
    /// `None` after the end.
    transform: Option<Box<dyn Transform>>,
    output: Vec<u8>,
}

impl<S: Pieces> Transformed<S> {
    fn new(source: S, transform: Box<dyn Transform>) -> Transformed<S> {
        Transformed {
            source,
            input: None,
            transform: Some(transform),
            output: Vec::new(),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let (mut taken, begun) = (0, Instant::now());
        while let Some(transform) = &mut self.transform {
            if let Some(chunk) = self.input.take() {
                let length = chunk.len().min(PUSHED_BYTES_MAX);
                taken += length;
                self.input = (length < chunk.len()).then(|| chunk.slice(length..chunk.len()));
                if let Err(error) = transform.push(chunk.slice(0..length).bytes(), &mut self.output)
                {
                    return self.fail(error);
                }
                if self.output.len() >= OUTPUT_BYTES {
                    break;
                }
                if taken >= INPUT_BYTES_MAX || begun.elapsed() >= TURN_MAX {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                continue;
            }
            match self.source.poll_piece(cx) {
                Poll::Ready(Some(Ok(chunk))) => self.input = Some(chunk),
                Poll::Ready(Some(Err(error))) => return self.fail(error),
                Poll::Ready(None) => {
                    let finished = transform.finish(&mut self.output);
                    self.transform = None;
                    if let Err(error) = finished {
                        return self.fail(error);
                    }
                }
                Poll::Pending if self.output.is_empty() => return Poll::Pending,
                // The source wakes this task; the output so far is sent meanwhile.
                Poll::Pending => break,
            }
        }
        let output = std::mem::take(&mut self.output);
        Poll::Ready((!output.is_empty()).then(|| Ok(Chunk::from(output))))
    }

    fn fail(&mut self, error: BodyError) -> Poll<Option<Result<Chunk, BodyError>>> {
        (self.transform, self.input) = (None, None);
        self.output.clear();
        Poll::Ready(Some(Err(error)))
    }
}

/// A response body behind a filter.
pub struct TransformedStream(Transformed<Box<dyn BodyStream>>);

impl TransformedStream {
    pub fn new(source: Box<dyn BodyStream>, transform: Box<dyn Transform>) -> TransformedStream {
        TransformedStream(Transformed::new(source, transform))
    }
}

impl BodyStream for TransformedStream {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.0.poll(cx)
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.0.source.trailers()
    }
}

/// A request body behind a filter.
pub struct TransformedBody {
    inner: Transformed<Box<dyn RequestBody>>,
    /// Length of the body, where the filter does not change it.
    length: Option<u64>,
}

impl TransformedBody {
    pub fn new(source: Box<dyn RequestBody>, transform: Box<dyn Transform>) -> TransformedBody {
        TransformedBody {
            inner: Transformed::new(source, transform),
            length: None,
        }
    }

    pub fn same_length(
        source: Box<dyn RequestBody>,
        transform: Box<dyn Transform>,
    ) -> TransformedBody {
        let length = source.length();
        TransformedBody {
            inner: Transformed::new(source, transform),
            length,
        }
    }
}

impl RequestBody for TransformedBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.inner.poll(cx)
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.inner.source.trailers()
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn is_end(&self) -> bool {
        self.inner.transform.is_none() && self.inner.output.is_empty()
    }

    fn take_time(&mut self) {
        self.inner.source.take_time();
    }

    fn throttle(&mut self, throttle: &saker_config::model::Throttle, site: usize) {
        self.inner.source.throttle(throttle, site);
    }

    fn limit(&mut self, bytes_max: u64) {
        self.inner.source.limit(bytes_max);
    }
}

/// Sends the body of a response through `transform`. Its length is unknown from then on.
pub fn transform_response(response: &mut Response, transform: impl Transform + 'static) {
    let source = as_stream(std::mem::take(&mut response.body));
    response.body = Body::Stream(Box::new(TransformedStream::new(
        source,
        Box::new(transform),
    )));
    response.fields_mut().remove("Content-Length");
}

/// Passes content on unchanged, which makes its length unknown.
pub struct PassThrough;

impl Transform for PassThrough {
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BodyError> {
        output.extend_from_slice(input);
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), BodyError> {
        Ok(())
    }
}

/// Returns any body as a stream.
pub fn as_stream(body: Body) -> Box<dyn BodyStream> {
    match body {
        Body::Stream(stream) => stream,
        other => Box::new(Stored(VecDeque::from([other]))),
    }
}

/// Content in memory or in files.
struct Stored(VecDeque<Body>);

impl BodyStream for Stored {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        loop {
            match self.0.pop_front() {
                None => return Poll::Ready(None),
                Some(Body::Empty) => {}
                Some(Body::Memory(chunk)) if chunk.is_empty() => {}
                Some(Body::Memory(chunk)) => return Poll::Ready(Some(Ok(chunk))),
                Some(Body::Parts(parts)) => parts
                    .into_iter()
                    .rev()
                    .for_each(|part| self.0.push_front(part)),
                Some(Body::File(part)) if part.length == 0 => {}
                Some(Body::File(part)) => return Poll::Ready(Some(self.read(part))),
                Some(Body::Stream(mut stream)) => match stream.poll_chunk(cx) {
                    Poll::Ready(None) => {}
                    polled => {
                        self.0.push_front(Body::Stream(stream));
                        return polled;
                    }
                },
            }
        }
    }

    fn length(&self) -> Option<u64> {
        self.0.iter().map(Body::length).sum()
    }
}

impl Stored {
    /// The next piece of a file; the rest stays.
    fn read(&mut self, mut part: FilePart) -> Result<Chunk, BodyError> {
        let length = usize::try_from(part.length)
            .unwrap_or(usize::MAX)
            .min(FILE_BYTES);
        let mut piece = vec![0; length];
        part.file
            .read_exact_at(&mut piece, part.offset)
            .map_err(|_| BodyError::Source)?;
        (part.offset, part.length) = (part.offset + length as u64, part.length - length as u64);
        if part.length > 0 {
            self.0.push_front(Body::File(part));
        } else if part.check.is_some_and(|check| !check.still_valid()) {
            // Changed while it was read: two halves must not pass for one whole.
            return Err(BodyError::Source);
        }
        Ok(Chunk::from(piece))
    }
}

#[cfg(test)]
#[path = "transform_tests.rs"]
mod tests;
