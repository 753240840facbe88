//! A backend that has changed its protocol: what the handler leaves for the driver, and the time
//! without a byte.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

// Uses its part of it.

use super::bench;
use super::bench::{answer, exchange, hold, impatient, member, read_request, script, with_gateway};
use saker_config::model::Upstream;
use saker_http::{RequestHead, Version};
use saker_pipeline::Response;
use std::{future::poll_fn, io::Write, sync::Arc};

const SWITCHING: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\nConnection: upgrade\r\nX-Own: 1\r\n\r\nahead";

async fn upgraded(gateway: &saker_gateway::Gateway, backend: &bench::Script) -> Response {
    let upstream = Arc::new(Upstream::new(
        "tunnel",
        vec![member(&backend.path, impatient())],
    ));
    let mut exchange = exchange("GET", &upstream);
    exchange.head = RequestHead::build(
        "GET",
        "/",
        Version::Http11,
        &[
            ("Host", "test"),
            ("Connection", "upgrade"),
            ("Upgrade", "foo"),
        ],
    );
    answer(gateway, &mut exchange).await
}

#[test]
fn what_came_ahead_is_read_first_and_silence_has_a_limit() {
    let backend = script(|mut stream, _| {
        if read_request(&mut stream).is_some() {
            let _ = stream.write_all(SWITCHING);
            hold(&mut stream);
        }
    });
    with_gateway(1, |gateway| async move {
        let mut response = upgraded(&gateway, &backend).await;
        assert_eq!(
            (response.status.0, response.fields().first("upgrade")),
            (101, Some(&b"foo"[..]))
        );
        assert_eq!(
            (
                response.fields().first("x-own"),
                response.fields().has("connection")
            ),
            (Some(&b"1"[..]), false)
        );
        let mut tunnel = response.tunnel.take().unwrap();
        let mut buf = [0; 3];
        assert_eq!(
            poll_fn(|cx| tunnel.poll_read(cx, &mut buf)).await.unwrap(),
            3
        );
        assert_eq!(&buf, b"ahe");
        assert_eq!(
            poll_fn(|cx| tunnel.poll_read(cx, &mut buf)).await.unwrap(),
            2
        );
        // The limit of an impatient member.
        poll_fn(|cx| tunnel.poll_idle(cx)).await;
    });
}

#[test]
fn a_change_to_something_else_is_refused() {
    let backend = script(|mut stream, _| {
        if read_request(&mut stream).is_some() {
            let _ = stream.write_all(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: bar\r\nConnection: upgrade\r\n\r\n",
            );
        }
    });
    with_gateway(1, |gateway| async move {
        let response = upgraded(&gateway, &backend).await;
        assert!(response.status.0 == 502 && response.tunnel.is_none());
    });
}
