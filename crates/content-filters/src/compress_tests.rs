//! Which responses the filter compresses, which it leaves alone, and the fields that it sets.

use super::*;
use crate::test_exchange::{block_on, body_bytes, exchange, field};
use saker_config::model::{Compression, Settings};
use saker_http::Status;
use saker_pipeline::{BodyError, BodyStream};
use std::task::{Context, Poll};

struct Once(Option<Vec<u8>>, Option<u64>);

impl BodyStream for Once {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        Poll::Ready(self.0.take().map(|data| Ok(Chunk::from(data))))
    }

    fn length(&self) -> Option<u64> {
        self.1
    }
}

fn built(fields: &[(&'static str, &'static str)], body: Body) -> Response {
    let mut response = Response::new(Status::OK);
    for (name, value) in fields {
        response.fields_mut().append(*name, value.as_bytes());
    }
    response.body = body;
    response
}

fn memory(length: usize) -> Body {
    Body::Memory(Chunk::from(
        "compress me ".repeat(length / 12 + 1).into_bytes()[..length].to_vec(),
    ))
}

fn run(mut response: Response, accepted: &str) -> (Response, Exchange) {
    let mut exchange = exchange(Settings::default(), &[("Accept-Encoding", accepted)]);
    block_on(Compress::default().apply(&mut exchange, &mut response));
    (response, exchange)
}

const HTML: (&str, &str) = ("Content-Type", "text/html; charset=utf-8");

#[test]
fn memory_is_compressed_and_described() {
    for length in [1024, 100_000] {
        let fields = [
            HTML,
            ("ETag", "\"a\""),
            ("Content-Length", "0"),
            ("Accept-Ranges", "bytes"),
            ("Vary", "Accept"),
        ];
        let (response, exchange) = run(built(&fields, memory(length)), "gzip, br");
        let expected = coding::encode(
            Coding::Brotli,
            Levels::from(&Compression::default()),
            &body_bytes(&memory(length)),
        )
        .unwrap();
        assert_eq!(body_bytes(&response.body), expected);
        let shown = ["content-encoding", "etag", "accept-ranges", "vary"]
            .map(|name| field(&response, name));
        assert_eq!(shown, ["br", "W/\"a\"", "", "Accept, Accept-Encoding"]);
        assert_eq!(
            field(&response, "content-length"),
            expected.len().to_string()
        );
        assert!(exchange.cache.request_dependent);
    }
}

type Lines = &'static [(&'static str, &'static str)];

#[test]
fn what_stays_as_it_is() {
    let cases: [(Lines, Body, &str, &str); 10] = [
        (&[HTML], memory(1023), "gzip", ""),
        (&[HTML], memory((4 << 20) + 1), "gzip", ""),
        (&[HTML], memory(2000), "", "Accept-Encoding"),
        (&[HTML], memory(2000), "gzip;q=0", "Accept-Encoding"),
        (&[HTML, ("Content-Encoding", "x")], memory(2000), "gzip", ""),
        (
            &[HTML, ("Content-Range", "bytes 0-1/2")],
            memory(2000),
            "gzip",
            "",
        ),
        (
            &[HTML, ("Cache-Control", "max-age=1, No-Transform")],
            memory(2000),
            "gzip",
            "",
        ),
        (&[HTML, ("Repr-Digest", "x")], memory(2000), "gzip", ""),
        (&[("Content-Type", "image/png")], memory(2000), "gzip", ""),
        (&[], memory(2000), "gzip", ""),
    ];
    for (fields, body, accepted, vary) in cases {
        let before = body_bytes(&body);
        let (response, exchange) = run(built(fields, body), accepted);
        assert!(body_bytes(&response.body) == before, "{fields:?}");
        assert_eq!(field(&response, "vary"), vary, "{fields:?} {accepted}");
        assert_eq!(exchange.cache.request_dependent, !vary.is_empty());
    }
}

#[test]
fn a_body_that_does_not_shrink_is_sent_as_it_was() {
    let mut state = 7_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let noise: Vec<u8> = (0..2000).map(|_| next()).collect();
    let (response, _) = run(
        built(
            &[HTML, ("ETag", "\"a\"")],
            Body::Memory(Chunk::from(noise.clone())),
        ),
        "gzip",
    );
    let shown = ["content-encoding", "etag", "vary"].map(|name| field(&response, name));
    assert_eq!(
        (body_bytes(&response.body), shown),
        (noise, ["", "\"a\"", "Accept-Encoding"].map(String::from))
    );
}

#[test]
fn ready_heads_are_left_alone() {
    let head =
        saker_pipeline::ReadyHead::new(Status::OK, built(&[HTML], Body::Empty).fields().clone());
    let (response, exchange) = run(
        Response::ready(std::rc::Rc::new(head), memory(2000)),
        "gzip",
    );
    assert!(matches!(response.head, ResponseHead::Ready(_)) && !exchange.cache.request_dependent);
}

#[test]
fn streams_are_encoded_as_they_come() {
    let stream = Body::Stream(Box::new(Once(Some(b"streamed".to_vec()), None)));
    let (response, _) = run(built(&[HTML, ("Content-Length", "8")], stream), "gzip");
    assert_eq!(
        (
            field(&response, "content-encoding").as_str(),
            field(&response, "content-length").as_str()
        ),
        ("gzip", "")
    );
    let Body::Stream(mut stream) = response.body else {
        panic!("no stream")
    };
    let mut sent = Vec::new();
    while let Poll::Ready(Some(Ok(chunk))) =
        stream.poll_chunk(&mut Context::from_waker(std::task::Waker::noop()))
    {
        sent.extend_from_slice(chunk.bytes());
    }
    let mut text = String::new();
    std::io::Read::read_to_string(
        &mut flate2::read::GzDecoder::new(sent.as_slice()),
        &mut text,
    )
    .unwrap();
    assert_eq!((text.as_str(), stream.length()), ("streamed", None));
    let short = Body::Stream(Box::new(Once(Some(b"streamed".to_vec()), Some(8))));
    assert_eq!(
        field(&run(built(&[HTML], short), "gzip").0, "content-encoding"),
        ""
    );
}
