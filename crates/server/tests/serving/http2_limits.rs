//! HTTP/2's limits as the configuration sets them, on both sides of each edge.
//!
//! The machine's own tests (`http2/src/connection/tests/floods.rs`, `flow.rs`,
//! `head_reader/tests.rs`) are exact to the frame and byte; here is whether a setting reaches the
//! wire. Buckets leak while a test runs, so that "beyond" is well beyond. Windows that stay closed
//! are in `http2.rs`, floods of ten seconds in `http2_floods.rs`.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate::{configuration, folder, start_in};
use saker_testkit::{
    Saker,
    frames::{self, Frames, block, frame},
};

const ENHANCE_YOUR_CALM: u32 = 11;
const REFUSED_STREAM: u32 = 7;
const HELLO: &[u8] = b"<p>hello</p>\n";
/// Above all that a test opens before.
const LAST: u32 = 9_001;

fn start(limits: &str) -> Saker {
    let dir = folder("http2-limits");
    start_in(
        dir,
        &configuration("workers = 1", "").replace(
            "[[listener]]",
            &format!("[limits]\n{limits}\n\n[[listener]]"),
        ),
    )
}

fn whole(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    let get = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/index.html"),
    ];
    frame(
        frames::HEADERS,
        frames::END_HEADERS | frames::END_STREAM,
        stream,
        &block(&[&get, fields].concat()),
    )
}

/// The content that answers stream `LAST`.
fn answer(client: &mut Frames) -> Option<Vec<u8>> {
    loop {
        match client.read().unwrap() {
            Some(frame) if frame.kind == frames::DATA && frame.stream == LAST => {
                return Some(frame.payload);
            }
            Some(frame) if frame.kind == frames::GOAWAY => panic!("{frame:?}"),
            Some(_) => {}
            None => return None,
        }
    }
}

/// `number` frames (or pairs of them) are let pass, and `more` are a flood.
fn edge(limits: &str, number: u32, more: u32, make: impl Fn(u32) -> Vec<u8>) {
    let saker = start(limits);
    let mut client = Frames::connect(saker.server.address()).unwrap();
    client
        .send_bytes(&(0..number).flat_map(&make).collect::<Vec<_>>())
        .unwrap();
    client.send_bytes(&whole(LAST, &[])).unwrap();
    assert_eq!(
        answer(&mut client).as_deref(),
        Some(HELLO),
        "{limits}: {number}"
    );
    let mut client = Frames::connect(saker.server.address()).unwrap();
    client
        .send_bytes(&(0..more).flat_map(&make).collect::<Vec<_>>())
        .unwrap();
    let goaway = client.read_until(frames::GOAWAY).unwrap();
    assert_eq!(
        goaway.and_then(|frame| frame.error_code()),
        Some(ENHANCE_YOUR_CALM),
        "{limits}: {more}"
    );
}

#[test]
fn pings() {
    edge("http2_pings = 50", 50, 100, |_| {
        frame(frames::PING, 0, 0, &[0; 8])
    });
}

#[test]
fn settings() {
    // The client's first counts, too.
    edge("http2_settings = 30", 29, 60, |_| {
        frame(frames::SETTINGS, 0, 0, &[])
    });
}

#[test]
fn resets() {
    let post = block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/"),
    ]);
    edge("http2_resets = 50", 50, 200, |at| {
        let open = frame(frames::HEADERS, frames::END_HEADERS, 2 * at + 1, &post);
        [
            open,
            frame(frames::RST_STREAM, 0, 2 * at + 1, &8u32.to_be_bytes()),
        ]
        .concat()
    });
}

#[test]
fn continuations() {
    let saker = start("http2_continuations = 4");
    for (count, passes) in [(4, true), (5, false)] {
        let mut client = Frames::connect(saker.server.address()).unwrap();
        client
            .send(
                frames::HEADERS,
                frames::END_STREAM,
                LAST,
                &frames::get_block("/index.html"),
            )
            .unwrap();
        for number in 1..=count {
            let flags = if number == count {
                frames::END_HEADERS
            } else {
                0
            };
            client
                .send(
                    frames::CONTINUATION,
                    flags,
                    LAST,
                    &block(&[("x-more", "and more")]),
                )
                .unwrap();
        }
        if passes {
            assert_eq!(answer(&mut client).as_deref(), Some(HELLO));
        } else {
            let goaway = client.read_until(frames::GOAWAY).unwrap().unwrap();
            assert_eq!(goaway.error_code(), Some(ENHANCE_YOUR_CALM));
        }
    }
}

/// Streams that the client's closed windows keep open.
#[test]
fn concurrent_streams() {
    let saker = start("http2_streams = 3");
    let mut client = Frames::connect(saker.server.address()).unwrap();
    // SETTINGS_MAX_CONCURRENT_STREAMS is told, in the server's first frame.
    let told = client.read().unwrap().unwrap();
    assert!(
        told.kind == frames::SETTINGS
            && told
                .payload
                .chunks(6)
                .any(|entry| entry == [0, 3, 0, 0, 0, 3]),
        "{told:?}"
    );
    // SETTINGS_INITIAL_WINDOW_SIZE.
    client
        .send(frames::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])
        .unwrap();
    for stream in [1, 3, 5] {
        client.get(stream, "/index.html").unwrap();
        assert_eq!(
            client.read_until(frames::HEADERS).unwrap().unwrap().stream,
            stream
        );
    }
    client.get(7, "/index.html").unwrap();
    let refused = client.read_until(frames::RST_STREAM).unwrap().unwrap();
    assert_eq!(
        (refused.stream, refused.error_code()),
        (7, Some(REFUSED_STREAM))
    );
    // One that ends makes room.
    client
        .send(frames::WINDOW_UPDATE, 0, 3, &100u32.to_be_bytes())
        .unwrap();
    assert_eq!(client.read_until(frames::DATA).unwrap().unwrap().stream, 3);
    client.get(9, "/index.html").unwrap();
    assert_eq!(
        client.read_until(frames::HEADERS).unwrap().unwrap().stream,
        9
    );
}

#[test]
fn heads_by_bytes_and_by_fields() {
    let saker = start("head_size = \"4kB\"\nheader_count = 10");
    let value = "v".repeat(3_000);
    let too_long = "v".repeat(4_100);
    // `:authority` counts, as Host does in HTTP/1; the other pseudo-fields do not.
    let fields = |count: usize| vec![("x-a", "b"); count];
    let rows = [
        (vec![("x-long", value.as_str())], true),
        (vec![("x-long", too_long.as_str())], false),
        (fields(9), true),
        (fields(10), false),
    ];
    for (number, (fields, passes)) in rows.iter().enumerate() {
        let mut client = Frames::connect(saker.server.address()).unwrap();
        client.send_bytes(&whole(LAST, fields)).unwrap();
        let content = answer(&mut client).unwrap();
        let text = String::from_utf8_lossy(&content);
        assert_eq!(content == HELLO, *passes, "row {number}: {text}");
        assert!(*passes || text.contains("431"), "row {number}: {text}");
    }
}
