//! A body that an asynchronous function generates while it is sent.
//!
//! The function writes to an [`Out`], which takes the next piece only when the last one has been
//! sent: a slow reader stops the generator, and a reader that goes away drops it.
//!
//! Called by: `ext_filter` and server-side includes.
//! Out of scope: tasks. The generator runs where its body is polled.

use saker_pipeline::{Body, BodyError, BodyStream, Chunk, RequestBody};
use std::{
    cell::Cell,
    future::{Future, poll_fn},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

/// The end of a body that its generator writes to.
#[derive(Clone)]
pub struct Out(Rc<Cell<Option<Chunk>>>);

type Maker = Pin<Box<dyn Future<Output = Result<(), BodyError>>>>;

/// A body and its generator.
pub struct Made {
    slot: Rc<Cell<Option<Chunk>>>,
    /// Sent before the rest of the output.
    begun: Option<Chunk>,
    /// `None` after the end.
    maker: Option<Maker>,
}

impl Out {
    /// Waits until the piece has been taken and the next one is wanted.
    pub async fn send(&self, chunk: Chunk) {
        if chunk.is_empty() {
            return;
        }
        self.0.set(Some(chunk));
        poll_fn(|_| {
            let chunk = self.0.take();
            let is_taken = chunk.is_none();
            self.0.set(chunk);
            // The reader that takes the piece polls again for the next one.
            if is_taken {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// Sends all of another body.
    pub async fn pass_on(&self, source: &mut dyn BodyStream) -> Result<(), BodyError> {
        while let Some(chunk) = next(source).await {
            self.send(chunk?).await;
        }
        Ok(())
    }
}

/// Returns the next piece of a body.
pub async fn next(source: &mut dyn BodyStream) -> Option<Result<Chunk, BodyError>> {
    poll_fn(|cx| source.poll_chunk(cx)).await
}

impl Made {
    pub fn by<F: Future<Output = Result<(), BodyError>> + 'static>(
        maker: impl FnOnce(Out) -> F,
    ) -> Made {
        let slot = Rc::new(Cell::new(None));
        let maker = maker(Out(Rc::clone(&slot)));
        Made {
            slot,
            begun: None,
            maker: Some(Box::pin(maker)),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if let Some(begun) = self.begun.take() {
            return Poll::Ready(Some(Ok(begun)));
        }
        let Some(maker) = &mut self.maker else {
            return Poll::Ready(None);
        };
        match maker.as_mut().poll(cx) {
            Poll::Ready(outcome) => {
                self.maker = None;
                Poll::Ready(outcome.err().map(Err))
            }
            Poll::Pending => match self.slot.take() {
                Some(chunk) => Poll::Ready(Some(Ok(chunk))),
                None => Poll::Pending,
            },
        }
    }
}

impl BodyStream for Made {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.poll(cx)
    }
}

impl RequestBody for Made {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.poll(cx)
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn is_end(&self) -> bool {
        self.maker.is_none()
    }
}

/// Waits for up to `bytes_max` bytes of output. A body that ends by then comes whole with its
/// length; the rest of a longer one is generated while it is sent.
pub async fn beginning(mut made: Made, bytes_max: usize) -> Result<Body, BodyError> {
    let mut begun = Vec::new();
    while begun.len() <= bytes_max {
        match next(&mut made).await {
            None => return Ok(Body::Memory(Chunk::from(begun))),
            Some(chunk) => begun.extend_from_slice(chunk?.bytes()),
        }
    }
    made.begun = Some(Chunk::from(begun));
    Ok(Body::Stream(Box::new(made)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    fn poll(made: &mut Made) -> Poll<Option<Result<Vec<u8>, BodyError>>> {
        made.poll(&mut Context::from_waker(Waker::noop()))
            .map(|step| step.map(|chunk| chunk.map(|chunk| chunk.bytes().to_vec())))
    }

    fn chunk(text: &str) -> Chunk {
        Chunk::from(text.as_bytes().to_vec())
    }

    #[test]
    fn one_piece_at_a_time() {
        let steps = Rc::new(Cell::new(0));
        let seen = Rc::clone(&steps);
        let mut made = Made::by(|out| async move {
            out.send(chunk("a")).await;
            seen.set(1);
            out.send(chunk("")).await;
            out.send(chunk("b")).await;
            Err(BodyError::Source)
        });
        assert_eq!(
            (poll(&mut made), steps.get()),
            (Poll::Ready(Some(Ok(b"a".to_vec()))), 0)
        );
        assert_eq!(
            (poll(&mut made), steps.get()),
            (Poll::Ready(Some(Ok(b"b".to_vec()))), 1)
        );
        assert_eq!(poll(&mut made), Poll::Ready(Some(Err(BodyError::Source))));
        assert_eq!(poll(&mut made), Poll::Ready(None));
    }

    fn begun(made: Made) -> Body {
        let mut future = Box::pin(beginning(made, 3));
        match future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(Ok(body)) => body,
            _ => panic!("waits, or fails"),
        }
    }

    #[test]
    fn short_bodies_come_whole() {
        let saying = |words: &'static [&'static str]| {
            Made::by(|out| async move {
                for word in words {
                    out.send(chunk(word)).await;
                }
                Ok(())
            })
        };
        assert!(
            matches!(begun(saying(&["ab", "c"])), Body::Memory(text) if text.bytes() == b"abc")
        );
        let Body::Stream(mut long) = begun(saying(&["abcd", "e"])) else {
            panic!("whole")
        };
        let mut cx = Context::from_waker(Waker::noop());
        let mut piece = || {
            long.poll_chunk(&mut cx)
                .map(|piece| piece.map(|piece| piece.unwrap().bytes().to_vec()))
        };
        assert_eq!(
            (piece(), piece()),
            (
                Poll::Ready(Some(b"abcd".to_vec())),
                Poll::Ready(Some(b"e".to_vec()))
            )
        );
        assert_eq!(piece(), Poll::Ready(None));
    }
}
