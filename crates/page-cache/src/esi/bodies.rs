//! Bodies in memory: of templates, and of what they include.
//!
//! Called by: `detect`, `fragment`, `background_fetch`.
//! Caveat: memory is reserved before content is read where its length is known, otherwise as it
//! arrives.
//! Out of scope: decoding.

use crate::esi::memory_budget::{MemoryBudget, Reservation};
use saker_net::jobs::{self, JobKind};
use saker_pipeline::{Body, BodyError, BodyStream, Chunk, FilePart, RequestBody};
use std::{
    collections::VecDeque,
    future::poll_fn,
    os::unix::fs::FileExt,
    task::{Context, Poll},
};

pub enum CollectError {
    /// The whole body, to be sent unchanged.
    TooLarge(Body),
    Broken,
}

/// Reads a whole body, up to a size and within a memory budget.
pub async fn collect(
    body: Body,
    bytes_max: usize,
    budget: &MemoryBudget,
) -> Result<(Chunk, Reservation), CollectError> {
    let length = body
        .length()
        .map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    let held = budget
        .take(length.unwrap_or(0))
        .filter(|_| length.is_none_or(|length| length <= bytes_max));
    let Some(held) = held else {
        return Err(CollectError::TooLarge(body));
    };
    match body {
        Body::Empty => Ok((Chunk::from(Vec::new()), held)),
        Body::Memory(chunk) => Ok((chunk, held)),
        Body::File(part) => read(&part)
            .await
            .map(|bytes| (Chunk::from(bytes), held))
            .ok_or(CollectError::Broken),
        Body::Parts(_) => Err(CollectError::TooLarge(body)),
        Body::Stream(stream) => collect_stream(stream, bytes_max, length.unwrap_or(0), held).await,
    }
}

async fn collect_stream(
    mut stream: Box<dyn BodyStream>,
    bytes_max: usize,
    length: usize,
    mut held: Reservation,
) -> Result<(Chunk, Reservation), CollectError> {
    let mut bytes = Vec::with_capacity(length);
    while let Some(chunk) = poll_fn(|cx| stream.poll_chunk(cx)).await {
        let chunk = chunk.map_err(|_| CollectError::Broken)?;
        let all = bytes.len() + chunk.len();
        if all > bytes_max || !held.grow_to(all) {
            let first = VecDeque::from([Chunk::from(bytes), chunk]);
            return Err(CollectError::TooLarge(Body::Stream(Box::new(Rejoined {
                first,
                rest: stream,
            }))));
        }
        bytes.extend_from_slice(chunk.bytes());
    }
    Ok((bytes.into(), held))
}

/// Reads a whole body up to a size, without a shared budget.
pub async fn collect_all(body: Body, bytes_max: usize) -> Option<Vec<u8>> {
    collect(body, bytes_max, &MemoryBudget::new(bytes_max))
        .await
        .ok()
        .map(|(chunk, _)| chunk.bytes().to_vec())
}

async fn read(part: &FilePart) -> Option<Vec<u8>> {
    let (file, offset, length) = (
        part.file.try_clone().ok()?,
        part.offset,
        usize::try_from(part.length).ok()?,
    );
    let reading = jobs::run(JobKind::PageCache, None, move |_| {
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, offset).ok().map(|()| bytes)
    });
    reading.await.ok().flatten()
}

/// The bytes read so far, followed by the rest of the body.
struct Rejoined {
    first: VecDeque<Chunk>,
    rest: Box<dyn BodyStream>,
}

impl BodyStream for Rejoined {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        match self.first.pop_front() {
            Some(chunk) => Poll::Ready(Some(Ok(chunk))),
            None => self.rest.poll_chunk(cx),
        }
    }
}

/// The body of a response to HEAD whose length is not known.
pub struct UnknownLength;

impl BodyStream for UnknownLength {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        Poll::Ready(None)
    }
}

/// The body of a combined request.
pub struct FormBody(pub Option<Chunk>);

impl RequestBody for FormBody {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        Poll::Ready(self.0.take().map(Ok))
    }

    fn length(&self) -> Option<u64> {
        Some(self.0.as_ref().map_or(0, |chunk| chunk.len() as u64))
    }

    fn is_end(&self) -> bool {
        self.0.is_none()
    }
}
