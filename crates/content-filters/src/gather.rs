//! Gathers the beginning of a filtered body before the response head is sent.
//!
//! Called by: the front ends' response filters, for content that comes from files.
//! Caveat: a filter that fails can only be answered with an error page while the head has not been
//! sent, so what is ready without waiting is read first.
//! Out of scope: content of programs, which goes out as it comes.

use crate::transform::as_stream;
use saker_http::Fields;
use saker_pipeline::{Body, BodyError, BodyStream, Chunk};
use std::{
    future::poll_fn,
    task::{Context, Poll},
};

/// Content gathered before the head is sent.
const GATHERED_BYTES_MAX: usize = 256 << 10;

/// Reads as much of a stream as is ready. A short one becomes a body in memory with a known length.
///
/// # Errors
/// The stream's own error, while the response head can still be replaced.
pub async fn gather(body: &mut Body) -> Result<(), BodyError> {
    if !matches!(body, Body::Stream(_)) {
        return Ok(());
    }
    let mut stream = as_stream(std::mem::take(body));
    let mut gathered = Vec::new();
    loop {
        let step = poll_fn(|cx| Poll::Ready(stream.poll_chunk(cx))).await;
        match step {
            Poll::Ready(Some(Ok(chunk))) => gathered.extend_from_slice(chunk.bytes()),
            Poll::Ready(Some(Err(error))) => return Err(error),
            Poll::Ready(None) => {
                *body = Body::Memory(Chunk::from(gathered));
                return Ok(());
            }
            Poll::Pending => break,
        }
        if gathered.len() > GATHERED_BYTES_MAX {
            break;
        }
    }
    *body = Body::Stream(Box::new(Resumed { gathered, stream }));
    Ok(())
}

/// Returns the beginning of a body, which stays whole: all of it, or `bytes_max` bytes. Waits for them.
///
/// # Errors
/// The stream's own error, while the response head can still be replaced.
pub async fn beginning(body: &mut Body, bytes_max: usize) -> Result<Vec<u8>, BodyError> {
    let mut stream = as_stream(std::mem::take(body));
    let mut gathered = Vec::new();
    while gathered.len() < bytes_max {
        match poll_fn(|cx| stream.poll_chunk(cx)).await {
            Some(Ok(chunk)) => gathered.extend_from_slice(chunk.bytes()),
            Some(Err(error)) => return Err(error),
            None => {
                let begins = gathered.clone();
                *body = Body::Memory(Chunk::from(gathered));
                return Ok(begins);
            }
        }
    }
    let begins = gathered.get(..bytes_max).unwrap_or_default().to_vec();
    *body = Body::Stream(Box::new(Resumed { gathered, stream }));
    Ok(begins)
}

/// The gathered bytes, then the rest of the stream.
struct Resumed {
    gathered: Vec<u8>,
    stream: Box<dyn BodyStream>,
}

impl BodyStream for Resumed {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if self.gathered.is_empty() {
            return self.stream.poll_chunk(cx);
        }
        Poll::Ready(Some(Ok(Chunk::from(std::mem::take(&mut self.gathered)))))
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.stream.trailers()
    }
}
