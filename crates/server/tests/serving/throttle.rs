//! `[site.throttle]` on a running server: bandwidth in both directions, request rates that refuse
//! or delay.
//!
//! The arithmetic is tested to the nanosecond beside its code; here is whether it reaches the wire.
//! Bounds on time are those of a busy machine: nothing may come early, and lateness
//! has a generous limit.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate;
use crate::operate::{configuration, folder, start_in};
use saker_testkit::{Client, Response, Saker};
use std::{
    thread,
    time::{Duration, Instant},
};

const FILE_BYTES: usize = 4_000_000;
const GET: &str = "GET /index.html HTTP/1.1\r\nHost: a\r\n\r\n";

fn start(throttle: &str) -> Saker {
    let dir = folder("throttle");
    dir.write("www/large.bin", operate::pattern(FILE_BYTES))
        .unwrap();
    start_in(
        dir,
        &configuration("workers = 1", &format!("[site.throttle]\n{throttle}")),
    )
}

fn download_s(client: &mut Client) -> f64 {
    let began = Instant::now();
    let response = client.get("/large.bin").unwrap();
    let took_s = began.elapsed().as_secs_f64();
    assert!(
        response.status == 200 && response.body == operate::pattern(FILE_BYTES),
        "another body"
    );
    took_s
}

/// Delay that a busy machine adds at most.
const LATE_FACTOR: f64 = 4.0;

fn assert_about(took_s: f64, expected_s: f64) {
    // Without a limit it would take a few milliseconds; a busy machine may take longer.
    assert!(
        (expected_s * 0.9..expected_s * LATE_FACTOR).contains(&took_s),
        "took {took_s:.2} s, expected {expected_s} s or a little more"
    );
}

#[test]
fn a_connection_gets_its_bandwidth() {
    let saker = start("out_per_connection = { rate = \"1MB/s\", burst = \"100kB\" }");
    // Two at once: the limit is each connection's own.
    thread::scope(|scope| {
        let downloads: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| download_s(&mut saker.connect().unwrap())))
            .collect();
        downloads
            .into_iter()
            .for_each(|download| assert_about(download.join().unwrap(), 3.9));
    });
}

#[test]
fn connections_of_an_address_share_its_bandwidth() {
    let saker = start("out_per_address = { rate = \"2MB/s\", burst = \"100kB\" }");
    let times_s: Vec<f64> = thread::scope(|scope| {
        let downloads: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| download_s(&mut saker.connect().unwrap())))
            .collect();
        downloads
            .into_iter()
            .map(|download| download.join().unwrap())
            .collect()
    });
    // Both began together, so the slower one's time is that of all bytes; comparing the bodies is
    // not part of it.
    assert_about(times_s.into_iter().fold(0.0, f64::max), 3.95);
}

#[test]
fn the_first_bytes_of_each_response_are_free() {
    let saker =
        start("out_per_connection = { rate = \"1MB/s\", burst = \"100kB\", after = \"2MB\" }");
    let mut client = saker.connect().unwrap();
    assert_about(download_s(&mut client), 1.9);
    // The next response has its own free part; the burst is used up, so that all that is counted
    // waits.
    assert_about(download_s(&mut client), 2.0);
}

fn pipelined(client: &mut Client, count: usize) -> Vec<Response> {
    client.pipeline(&vec![GET; count]).unwrap()
}

fn passed(responses: &[Response]) -> usize {
    responses
        .iter()
        .filter(|response| response.status == 200)
        .count()
}

#[test]
fn requests_beyond_the_burst_are_refused() {
    let saker = start("requests_static = \"10/s\"");
    let (mut one, mut other) = (saker.connect().unwrap(), saker.connect().unwrap());
    let began = Instant::now();
    let responses = pipelined(&mut one, 40);
    let more = other.get("/index.html").unwrap();
    // One place comes back every 100 ms.
    let regained = (began.elapsed().as_secs_f64() * 10.0) as usize;
    assert!(
        (11..=11 + regained).contains(&passed(&responses)),
        "{} passed, {regained} regained",
        passed(&responses)
    );
    assert_eq!(
        passed(&responses[..11]),
        11,
        "the burst, and the one that always may"
    );
    for refused in responses.iter().filter(|response| response.status != 200) {
        assert_eq!(
            (refused.status, refused.field("retry-after")),
            (429, Some("1"))
        );
    }
    assert!(
        more.status == 429 || regained > 0,
        "the rate is the address's, not the connection's"
    );
    one.pause(Duration::from_millis(1100)).unwrap();
    assert!(
        passed(&pipelined(&mut other, 10)) == 10,
        "a second later ten may come"
    );
}

#[test]
fn requests_beyond_the_burst_wait() {
    let saker = start(
        "requests_static = { rate = \"10/s\", burst = 1, excess = \"delay\", delay_max = \"1s\" }",
    );
    let mut client = saker.connect().unwrap();
    let began = Instant::now();
    let responses = pipelined(&mut client, 9);
    let took_s = began.elapsed().as_secs_f64();
    assert_eq!(passed(&responses), 9);
    assert!(
        (0.68..1.5 * LATE_FACTOR).contains(&took_s),
        "two at once and seven at 100 ms each took {took_s:.2} s"
    );
}

#[test]
fn requests_that_would_wait_too_long_are_refused() {
    let saker = start(
        "requests_static = { rate = \"10/s\", burst = 1, excess = \"delay\", delay_max = \"1s\" }",
    );
    let mut clients: Vec<Client> = (0..30).map(|_| saker.connect().unwrap()).collect();
    let began = Instant::now();
    clients
        .iter_mut()
        .for_each(|client| client.send(GET).unwrap());
    let last = clients[29].read_response().unwrap();
    // It was refused, so everyone before it had asked by then.
    let regained = (began.elapsed().as_secs_f64() * 10.0) as usize;
    let mut responses: Vec<Response> = clients[..29]
        .iter_mut()
        .map(|client| client.read_response().unwrap())
        .collect();
    let took_s = began.elapsed().as_secs_f64();
    responses.push(last);
    // Two at once, and those whose turn comes within a second.
    assert!(
        (12..=12 + regained).contains(&passed(&responses)),
        "{} passed, {regained} regained",
        passed(&responses)
    );
    assert!(
        (0.98..2.5 * LATE_FACTOR).contains(&took_s),
        "the last of them waits a second, not {took_s:.2} s"
    );
    assert!(
        responses
            .iter()
            .all(|response| response.status == 200 || response.field("retry-after").is_some())
    );
}

/// The rest of a refused body is read, so that the connection can be reused; at its own pace.
#[test]
fn an_upload_that_is_only_drained_is_paced() {
    const BODY_BYTES: usize = 200_000;
    let saker = start("in_per_connection = { rate = \"100kB/s\", burst = \"50kB\" }");
    let mut client = saker.connect().unwrap();
    let began = Instant::now();
    client
        .send(format!(
            "POST /index.html HTTP/1.1\r\nHost: a\r\nContent-Length: {BODY_BYTES}\r\n\r\n"
        ))
        .unwrap();
    client.send(vec![b'x'; BODY_BYTES]).unwrap();
    client.send(GET).unwrap();
    assert_eq!(client.read_response().unwrap().status, 405);
    assert_eq!(client.read_response().unwrap().status, 200);
    let took_s = began.elapsed().as_secs_f64();
    // What the last piece exceeds its allowance by (a read of 64 KiB) is not waited for by the
    // request after it.
    assert!(
        (0.8..2.5 * LATE_FACTOR).contains(&took_s),
        "150 kB at 100 kB/s took {took_s:.2} s"
    );
}
