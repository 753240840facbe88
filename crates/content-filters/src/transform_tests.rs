use super::*;
use std::{rc::Rc, task::Waker};

/// `None` is a wait.
struct Script(VecDeque<Option<Result<Vec<u8>, BodyError>>>);

impl Script {
    fn next(&mut self) -> Poll<Option<Result<Chunk, BodyError>>> {
        match self.0.pop_front() {
            Some(Some(step)) => Poll::Ready(Some(step.map(Chunk::from))),
            Some(None) => Poll::Pending,
            None => Poll::Ready(None),
        }
    }
}

impl BodyStream for Script {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.next()
    }
}

impl RequestBody for Script {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.next()
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn is_end(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes everything in capital letters; the last byte of each piece waits for the next.
#[derive(Default)]
struct Capitals(Vec<u8>);

impl Transform for Capitals {
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BodyError> {
        if input.contains(&b'!') {
            return Err(BodyError::Malformed);
        }
        self.0.extend_from_slice(input);
        let last = self.0.pop();
        output.extend(self.0.drain(..).map(|byte| byte.to_ascii_uppercase()));
        self.0.extend(last);
        Ok(())
    }

    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BodyError> {
        output.extend(self.0.drain(..).map(|byte| byte.to_ascii_uppercase()));
        Ok(())
    }
}

fn script(steps: &[Option<Result<&[u8], BodyError>>]) -> Script {
    Script(
        steps
            .iter()
            .map(|step| step.map(|step| step.map(<[u8]>::to_vec)))
            .collect(),
    )
}

fn text(polled: Poll<Option<Result<Chunk, BodyError>>>) -> Poll<Option<Result<String, BodyError>>> {
    polled.map(|step| {
        step.map(|chunk| chunk.map(|chunk| String::from_utf8_lossy(chunk.bytes()).into_owned()))
    })
}

fn poll(stream: &mut dyn BodyStream) -> Poll<Option<Result<String, BodyError>>> {
    text(stream.poll_chunk(&mut Context::from_waker(Waker::noop())))
}

#[test]
fn what_is_ready_goes_out_when_the_source_waits() {
    let source = script(&[
        Some(Ok(b"one ")),
        Some(Ok(b"two")),
        None,
        None,
        Some(Ok(b" three")),
    ]);
    let mut stream = TransformedStream::new(Box::new(source), Box::new(Capitals::default()));
    assert_eq!(poll(&mut stream), Poll::Ready(Some(Ok("ONE TW".into()))));
    assert_eq!(poll(&mut stream), Poll::Pending);
    assert_eq!(poll(&mut stream), Poll::Ready(Some(Ok("O THREE".into()))));
    assert_eq!(poll(&mut stream), Poll::Ready(None));
}

#[test]
fn errors_of_both_sides_end_the_body() {
    for (steps, expected) in [
        (
            vec![Some(Ok(&b"one"[..])), Some(Err(BodyError::Gone))],
            BodyError::Gone,
        ),
        (
            vec![Some(Ok(&b"one"[..])), Some(Ok(&b"!"[..]))],
            BodyError::Malformed,
        ),
    ] {
        let mut stream =
            TransformedStream::new(Box::new(script(&steps)), Box::new(Capitals::default()));
        assert_eq!(poll(&mut stream), Poll::Ready(Some(Err(expected))));
        assert_eq!(poll(&mut stream), Poll::Ready(None));
    }
}

#[test]
fn a_source_that_never_waits_gives_way() {
    struct Nothing;
    impl Transform for Nothing {
        fn push(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<(), BodyError> {
            Ok(())
        }
        fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), BodyError> {
            Ok(())
        }
    }
    let zeros = vec![0; 64 << 10];
    let source = Script((0..5).map(|_| Some(Ok(zeros.clone()))).collect());
    let mut stream = TransformedStream::new(Box::new(source), Box::new(Nothing));
    assert_eq!(poll(&mut stream), Poll::Pending);
    assert_eq!(poll(&mut stream), Poll::Ready(None));
}

#[test]
fn request_bodies_end_when_everything_is_out() {
    let mut body = TransformedBody::new(
        Box::new(script(&[Some(Ok(b"one")), None])),
        Box::new(Capitals::default()),
    );
    let mut cx = Context::from_waker(Waker::noop());
    assert!(!body.is_end() && body.length().is_none());
    assert_eq!(
        text(body.poll_chunk(&mut cx)),
        Poll::Ready(Some(Ok("ON".into())))
    );
    assert_eq!(
        text(body.poll_chunk(&mut cx)),
        Poll::Ready(Some(Ok("E".into())))
    );
    assert_eq!(text(body.poll_chunk(&mut cx)), Poll::Ready(None));
    assert!(body.is_end());
}

#[test]
fn stored_bodies_come_in_order() {
    struct Gone;
    impl saker_pipeline::StillValid for Gone {
        fn still_valid(&self) -> bool {
            false
        }
    }
    let folder = saker_testkit::TempDir::new("content-filters").unwrap();
    std::fs::write(folder.join("a"), vec![b'x'; FILE_BYTES + 1]).unwrap();
    let file = Rc::new(std::fs::File::open(folder.join("a")).unwrap());
    let memory = |text: &str| Body::Memory(Chunk::from(text.as_bytes().to_vec()));
    let part = |check| {
        Body::File(FilePart {
            file: Rc::clone(&file),
            offset: 0,
            length: FILE_BYTES as u64 + 1,
            check,
        })
    };
    let mut stream = as_stream(Body::Parts(VecDeque::from([
        memory("a"),
        Body::Empty,
        part(None),
        memory("b"),
    ])));
    assert_eq!(stream.length(), Some(FILE_BYTES as u64 + 3));
    let mut lengths = Vec::new();
    while let Poll::Ready(Some(Ok(chunk))) = poll(&mut *stream) {
        lengths.push(chunk.len());
    }
    assert_eq!(lengths, [1, FILE_BYTES, 1, 1]);
    let mut changed = as_stream(part(Some(Rc::new(Gone))));
    assert!(matches!(poll(&mut *changed), Poll::Ready(Some(Ok(_)))));
    assert_eq!(
        poll(&mut *changed),
        Poll::Ready(Some(Err(BodyError::Source)))
    );
}
