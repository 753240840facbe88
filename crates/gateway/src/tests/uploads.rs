//! Content of requests on its way to an upstream: every byte arrives, in order, however long the
//! pieces are and however slowly the upstream takes them.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::bench::*;
use saker_pipeline::{BodyError, Chunk, ProxyOptions, RequestBody};
use std::{
    cell::RefCell,
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::{Arc, mpsc},
    task::{Context, Poll},
    time::Duration,
};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Bytes that differ from place to place.
fn text(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

/// Reads a request up to its `end`, in small pieces.
fn read_until(stream: &mut UnixStream, end: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut all = Vec::new();
    let mut piece = [0; 3000];
    while !end(&all) {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(count) => all.extend_from_slice(&piece[..count]),
        }
    }
    all
}

fn content_of(request: &[u8]) -> &[u8] {
    let at = request.windows(4).position(|four| four == b"\r\n\r\n");
    &request[at.unwrap() + 4..]
}

fn dechunked(mut coded: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let line = coded.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = usize::from_str_radix(str::from_utf8(&coded[..line]).unwrap(), 16).unwrap();
        content.extend_from_slice(&coded[line + 2..line + 2 + size]);
        assert_eq!(&coded[line + 2 + size..][..2], b"\r\n");
        coded = &coded[line + 4 + size..];
        if size == 0 {
            return content;
        }
    }
}

#[test]
fn content_arrives_in_order_whatever_its_pieces() {
    for (piece, length) in [
        (100, Some(300_000)),
        (8_191, Some(300_000)),
        (8_192, Some(300_000)),
        (200_000, Some(300_000)),
        (8_192, None),
        (70_000, None),
    ] {
        with_gateway(1, |gateway| async move {
            let (tell, told) = mpsc::channel();
            let tell = std::sync::Mutex::new(tell);
            let backend = script(move |mut stream, _| {
                let request = read_until(&mut stream, |all| match length {
                    Some(length) => {
                        let head = all.windows(4).position(|four| four == b"\r\n\r\n");
                        head.is_some_and(|at| all.len() >= at + 4 + length)
                    }
                    None => all.ends_with(b"\r\n0\r\n\r\n"),
                });
                let _ = tell.lock().unwrap().send(request);
                let _ = stream.write_all(OK);
            });
            let upstream = upstream(&backend.path);
            let mut exchange = exchange("POST", &upstream);
            let whole = text(300_000);
            exchange.body = Box::new(Pieces {
                left: RefCell::new(whole.chunks(piece).rev().map(<[u8]>::to_vec).collect()),
                length: length.map(|length| length as u64),
                fails: false,
            });
            let mut response = answer(&gateway, &mut exchange).await;
            assert_eq!(content(&mut response).await, Ok(b"ok".to_vec()));
            let request = told.recv_timeout(Duration::from_secs(20)).unwrap();
            let content = match length {
                Some(_) => content_of(&request).to_vec(),
                None => dechunked(content_of(&request)),
            };
            assert!(content == whole, "pieces of {piece}, {length:?}");
        });
    }
}

#[test]
fn an_upstream_that_goes_in_the_middle_of_a_long_piece() {
    with_gateway(1, |gateway| async move {
        let backend = script(|mut stream, _| {
            read_until(&mut stream, |all| all.len() > 10_000);
        });
        let upstream = upstream(&backend.path);
        let mut exchange = exchange("POST", &upstream);
        exchange.body = Box::new(Pieces {
            left: RefCell::new(vec![text(4_000_000); 2]),
            length: Some(8_000_000),
            fails: false,
        });
        assert_eq!(answer(&gateway, &mut exchange).await.status.0, 502);
    });
}

/// Content that does not come.
struct Silent;

impl RequestBody for Silent {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        Poll::Pending
    }

    fn length(&self) -> Option<u64> {
        Some(100)
    }

    fn is_end(&self) -> bool {
        false
    }
}

/// A response that there is no room for begins, so that its client is waited for.
#[test]
fn a_long_answer_does_not_wait_for_content_that_does_not_come() {
    const BYTES: usize = 4_000_000;
    with_gateway(1, |gateway| async move {
        let backend = script(|mut stream, _| {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n");
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(&text(BYTES));
            hold(&mut stream);
        });
        let upstream = upstream(&backend.path);
        let mut exchange = exchange("POST", &upstream);
        exchange.body = Box::new(Silent);
        if let Some(call) = &mut exchange.upstream.call {
            call.manner = Arc::new(ProxyOptions {
                is_unbuffered: true,
                ..ProxyOptions::default()
            });
        }
        let mut response = answer(&gateway, &mut exchange).await;
        assert!(content(&mut response).await == Ok(text(BYTES)));
    });
}
