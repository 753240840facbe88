//! Floods over HTTP/2 (rapid reset, CONTINUATION, PING, SETTINGS, empty frames): each from 50
//! connections, while a normal client is served.
//!
//! A flooding connection is ended with ENHANCE_YOUR_CALM, and the attacker opens another at once,
//! until enough floods were ended. What counts is that every normal request in that time is
//! answered rightly. Absent on purpose: bounds on how fast.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate::{PATIENCE, ask, configuration, folder, start_in};
use saker_testkit::{
    Saker,
    frames::{self, Frames},
};
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// The nth bytes of a flood.
type Piece = fn(u32) -> Vec<u8>;

const CONNECTIONS: u64 = 50;
/// Floods that the server has to end, each after thousands of frames, and normal requests that it
/// answers meanwhile.
const ENDED: u64 = CONNECTIONS;
const SERVED: u64 = 500;
/// A single connection that floods is ended in this time.
const SINGLE_MAX: Duration = Duration::from_secs(10);
const ENHANCE_YOUR_CALM: u32 = 11;

fn start() -> Saker {
    start_in(folder("floods"), &configuration("workers = 1", ""))
}

/// Sends `piece` of the flood until the server ends the connection, or `is_over`; the code of its
/// GOAWAY, if that could still be read.
fn flood_once(
    address: SocketAddr,
    is_over: impl Fn() -> bool,
    mut piece: impl FnMut(u32) -> Vec<u8>,
) -> Option<u32> {
    let mut client = Frames::connect(address).ok()?;
    let mut count = 0;
    while !is_over() && client.send_bytes(&piece(count)).is_ok() {
        count += 1;
    }
    client.read_until(frames::GOAWAY).ok()??.error_code()
}

/// 50 connections flood, and others in their place, until enough of them were ended; a normal client
/// asks all the time.
fn withstand(saker: &Saker, piece: impl Fn(u32) -> Vec<u8> + Sync) {
    let address = saker.server.address();
    let until = Instant::now() + PATIENCE;
    let (over, calmed, ended) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let is_over = || over.load(Ordering::Relaxed) || Instant::now() > until;
    let mut served = 0;
    thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                // Only this thread's, on Linux: fifty of them would leave the server a fiftieth
                // of the machine, which is no flood's doing.
                rustix::process::nice(19).expect("nice");
                while !is_over() {
                    let code = flood_once(address, is_over, &piece);
                    if !is_over() {
                        ended.fetch_add(1, Ordering::Relaxed);
                    }
                    if code == Some(ENHANCE_YOUR_CALM) {
                        calmed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        // What fails here ends the floods, too.
        let _end = SetOnDrop(&over);
        let is_enough = |served| {
            served >= SERVED
                && ended.load(Ordering::Relaxed) >= ENDED
                && calmed.load(Ordering::Relaxed) > 0
        };
        while !is_enough(served) && Instant::now() < until {
            let mut client = Frames::connect(address).expect("connected");
            for number in 0..50 {
                client.get(2 * number + 1, "/index.html").expect("sent");
                let data = client
                    .read_until(frames::DATA)
                    .expect("read")
                    .expect("answered");
                assert_eq!(data.payload, b"<p>hello</p>\n");
                served += 1;
            }
        }
    });
    let (calmed, ended) = (calmed.into_inner(), ended.into_inner());
    println!("{served} normal requests served, {ended} floods ended, {calmed} with a reason");
    assert!(calmed > 0, "no flood was ended with a reason");
    assert!(ended >= ENDED, "{ended} floods ended in {PATIENCE:?}");
    assert!(served >= SERVED, "{served} normal requests in {PATIENCE:?}");
    let status = ask(&saker.dir.join("state"), "status").unwrap();
    assert_eq!(status["pid"], saker.server.pid());
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn rapid_reset() {
    let saker = start();
    withstand(&saker, |count| {
        let stream = 2 * count + 1;
        let mut bytes = frames::frame(
            frames::HEADERS,
            frames::END_HEADERS | frames::END_STREAM,
            stream,
            &frames::get_block("/index.html"),
        );
        bytes.extend(frames::frame(
            frames::RST_STREAM,
            0,
            stream,
            &8u32.to_be_bytes(),
        ));
        bytes
    });
}

#[test]
fn continuations_without_end() {
    let saker = start();
    withstand(&saker, |count| match count {
        0 => frames::frame(
            frames::HEADERS,
            frames::END_STREAM,
            1,
            &frames::get_block("/index.html"),
        ),
        _ => frames::frame(
            frames::CONTINUATION,
            0,
            1,
            &frames::block(&[("x-more", "and more")]),
        ),
    });
}

#[test]
fn pings() {
    let saker = start();
    withstand(&saker, |_| frames::frame(frames::PING, 0, 0, &[0; 8]));
}

#[test]
fn settings_and_empty_frames_end_a_connection() {
    let saker = start();
    let rows: [(&str, Piece); 4] = [
        ("settings", |_| {
            frames::frame(frames::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100])
        }),
        ("priority", |count| {
            frames::frame(frames::PRIORITY, 0, 2 * count + 1, &[0, 0, 0, 0, 10])
        }),
        ("window updates", |_| {
            frames::frame(frames::WINDOW_UPDATE, 0, 0, &1u32.to_be_bytes())
        }),
        ("empty data", |count| match count {
            0 => frames::frame(
                frames::HEADERS,
                frames::END_HEADERS,
                1,
                &frames::block(&[
                    (":method", "POST"),
                    (":scheme", "http"),
                    (":authority", "a"),
                    (":path", "/"),
                ]),
            ),
            _ => frames::frame(frames::DATA, 0, 1, &[]),
        }),
    ];
    for (name, piece) in rows {
        let began = Instant::now();
        let is_over = || began.elapsed() > SINGLE_MAX;
        let code = flood_once(saker.server.address(), is_over, piece);
        assert!(!is_over(), "{name}: not ended");
        println!("{name}: {code:?} after {:?}", began.elapsed());
    }
}
