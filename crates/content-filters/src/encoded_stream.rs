//! A body stream that encodes another one as it arrives.
//!
//! Called by: `compress`.
//! Caveat: encoders buffer, but the pieces of a streamed page should be visible at once. So output
//! gathers while the source has more; when the source has to wait, everything is flushed first.

use saker_content::coding::Encoder;
use saker_http::Fields;
use saker_pipeline::{BodyError, BodyStream, Chunk};
use std::task::{Context, Poll};

/// Output of this size is sent at once.
const OUTPUT_BYTES: usize = 16 << 10;
/// Input taken in one call at most, so that a source that is always ready does not hold the worker.
const INPUT_BYTES_MAX: usize = 256 << 10;

pub struct EncodedStream {
    source: Box<dyn BodyStream>,
    /// `None` after the end.
    encoder: Option<Encoder>,
    /// Something was written since the last flush.
    unflushed: bool,
}

impl EncodedStream {
    pub fn new(source: Box<dyn BodyStream>, encoder: Encoder) -> EncodedStream {
        EncodedStream {
            source,
            encoder: Some(encoder),
            unflushed: false,
        }
    }

    /// The encoder's output, if any.
    fn output(&mut self) -> Option<Chunk> {
        let encoder = self.encoder.as_mut()?;
        (encoder.ready_bytes() > 0).then(|| Chunk::from(encoder.take()))
    }

    fn write(&mut self, data: &[u8]) -> Result<(), BodyError> {
        self.unflushed = true;
        self.encoder
            .as_mut()
            .map_or(Ok(()), |encoder| encoder.write(data))
            .map_err(|_| BodyError::Source)
    }

    fn flush(&mut self) -> Result<Option<Chunk>, BodyError> {
        if std::mem::take(&mut self.unflushed) {
            self.encoder
                .as_mut()
                .map_or(Ok(()), Encoder::flush)
                .map_err(|_| BodyError::Source)?;
        }
        Ok(self.output())
    }

    fn finish(&mut self) -> Option<Result<Chunk, BodyError>> {
        let rest = self.encoder.take()?.finish();
        Some(rest.map(Chunk::from).map_err(|_| BodyError::Source))
    }
}

impl BodyStream for EncodedStream {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let mut taken = 0;
        loop {
            if self.encoder.is_none() {
                return Poll::Ready(None);
            }
            match self.source.poll_chunk(cx) {
                Poll::Ready(Some(Ok(chunk))) => {
                    taken += chunk.len();
                    if let Err(error) = self.write(chunk.bytes()) {
                        return Poll::Ready(Some(Err(error)));
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    return Poll::Ready(
                        self.finish()
                            .filter(|rest| !matches!(rest, Ok(chunk) if chunk.is_empty())),
                    );
                }
                // The source wakes this task; the output so far is sent meanwhile.
                Poll::Pending => {
                    return self
                        .flush()
                        .map_or_else(|error| Poll::Ready(Some(Err(error))), ready_or_pending);
                }
            }
            let ready = self.encoder.as_mut().map_or(0, Encoder::ready_bytes);
            if ready >= OUTPUT_BYTES {
                return Poll::Ready(self.output().map(Ok));
            }
            if taken >= INPUT_BYTES_MAX {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.source.trailers()
    }
}

fn ready_or_pending(output: Option<Chunk>) -> Poll<Option<Result<Chunk, BodyError>>> {
    output.map_or(Poll::Pending, |chunk| Poll::Ready(Some(Ok(chunk))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::model::Compression;
    use saker_content::coding::Levels;
    use saker_http::content_coding::Coding;
    use std::{collections::VecDeque, io::Read};

    /// `None` is a wait.
    struct Script(VecDeque<Option<Result<Vec<u8>, BodyError>>>);

    impl BodyStream for Script {
        fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
            match self.0.pop_front() {
                Some(Some(step)) => Poll::Ready(Some(step.map(Chunk::from))),
                Some(None) => Poll::Pending,
                None => Poll::Ready(None),
            }
        }
    }

    fn stream(steps: Vec<Option<Result<Vec<u8>, BodyError>>>) -> EncodedStream {
        let encoder =
            Encoder::new(Coding::Gzip, Levels::from(&Compression::default()), None).unwrap();
        EncodedStream::new(Box::new(Script(steps.into())), encoder)
    }

    fn poll(stream: &mut EncodedStream) -> Poll<Option<Result<Vec<u8>, BodyError>>> {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        stream
            .poll_chunk(&mut cx)
            .map(|step| step.map(|chunk| chunk.map(|chunk| chunk.bytes().to_vec())))
    }

    #[test]
    fn a_pause_of_the_source_flushes() {
        let mut stream = stream(vec![
            Some(Ok(b"one ".to_vec())),
            Some(Ok(b"two ".to_vec())),
            None,
            None,
            Some(Ok(b"three".to_vec())),
        ]);
        let Poll::Ready(Some(Ok(first))) = poll(&mut stream) else {
            panic!("nothing flushed")
        };
        let mut start = [0; 8];
        flate2::read::GzDecoder::new(first.as_slice())
            .read_exact(&mut start)
            .unwrap();
        assert_eq!(&start, b"one two ");
        assert_eq!(poll(&mut stream), Poll::Pending, "flushes only what is new");
        let Poll::Ready(Some(Ok(second))) = poll(&mut stream) else {
            panic!("no end")
        };
        assert_eq!(poll(&mut stream), Poll::Ready(None));
        let mut text = String::new();
        flate2::read::GzDecoder::new([first, second].concat().as_slice())
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "one two three");
    }

    #[test]
    fn a_failing_source_fails_the_body() {
        let mut stream = stream(vec![
            Some(Ok(b"one".to_vec())),
            Some(Err(BodyError::Source)),
        ]);
        assert_eq!(poll(&mut stream), Poll::Ready(Some(Err(BodyError::Source))));
    }

    #[test]
    fn a_source_that_never_waits_gives_way() {
        let zeros = vec![0; 64 << 10];
        let mut stream = stream((0..5).map(|_| Some(Ok(zeros.clone()))).collect());
        assert_eq!(poll(&mut stream), Poll::Pending);
        assert!(matches!(poll(&mut stream), Poll::Ready(Some(Ok(_)))));
    }
}
