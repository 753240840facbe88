//! `[site.throttle]` on a running server: bandwidth in both directions, request rates that refuse
//! or delay.
//!
//! The arithmetic is tested to the nanosecond beside its code; here is whether it reaches the wire.
//! Tests count what has come against what was due by then: nothing may come early, and a busy
//! machine may be as late as it likes.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate;
use crate::operate::{configuration, folder, start_in};
use saker_testkit::{Client, PATIENCE, Response, Saker};
use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

const FILE_BYTES: usize = 4_000_000;
const READ_BYTES: usize = 20_000;
/// A piece may exceed what is due, and a late timer catches up; what follows waits for it.
const PIECE_S: f64 = 0.15;
const PIECE_BYTES_MIN: f64 = 10_000.0;
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

/// A limit, and what has come under it, over one connection or several.
struct Meter {
    began: Instant,
    free_bytes: f64,
    bytes_per_s: f64,
    received: AtomicUsize,
}

impl Meter {
    /// `free_bytes`: the burst, and whatever else is not counted.
    fn start(free_bytes: f64, bytes_per_s: f64) -> Meter {
        Meter {
            began: Instant::now(),
            free_bytes,
            bytes_per_s,
            received: AtomicUsize::new(0),
        }
    }

    /// Counts bytes that have come, none of which may be early.
    fn count(&self, bytes: usize) {
        let received = self.received.fetch_add(bytes, SeqCst) + bytes;
        let due = self.free_bytes + self.bytes_per_s * self.began.elapsed().as_secs_f64();
        let piece = self.bytes_per_s * PIECE_S + PIECE_BYTES_MIN;
        assert!(
            received as f64 <= due + piece,
            "{received} bytes have come where {due:.0} were due"
        );
    }

    /// Downloads the file.
    fn download(&self, client: &mut Client) {
        client
            .send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        assert_eq!(client.read_head_response().unwrap().status, 200);
        let mut body = Vec::new();
        while body.len() < FILE_BYTES {
            let piece = client
                .read_bytes(READ_BYTES.min(FILE_BYTES - body.len()))
                .unwrap();
            self.count(piece.len());
            body.extend(piece);
        }
        assert!(body == operate::pattern(FILE_BYTES), "another body");
    }
}

#[test]
fn a_connection_gets_its_bandwidth() {
    let saker = start("out_per_connection = { rate = \"1MB/s\", burst = \"100kB\" }");
    let meter = Meter::start(100e3, 1e6);
    meter.download(&mut saker.connect().unwrap());
}

#[test]
fn each_connection_has_a_limit_of_its_own() {
    // A connection that had to wait for the other's burst would wait for 100 s.
    let saker = start("out_per_connection = { rate = \"1kB/s\", burst = \"100kB\" }");
    for _ in 0..2 {
        let mut client = saker.connect().unwrap();
        let began = Instant::now();
        client
            .send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        assert_eq!(client.read_head_response().unwrap().status, 200);
        client.read_bytes(95_000).unwrap();
        assert!(began.elapsed() < PATIENCE);
    }
}

#[test]
fn connections_of_an_address_share_its_bandwidth() {
    let saker = start("out_per_address = { rate = \"2MB/s\", burst = \"100kB\" }");
    let meter = Meter::start(100e3, 2e6);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| meter.download(&mut saker.connect().unwrap()));
        }
    });
}

#[test]
fn the_first_bytes_of_each_response_are_free() {
    const FREE_BYTES: usize = 3_900_000;
    let saker =
        start("out_per_connection = { rate = \"50kB/s\", burst = \"10kB\", after = \"3900kB\" }");
    let mut client = saker.connect().unwrap();
    for _ in 0..2 {
        client
            .send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        assert_eq!(client.read_head_response().unwrap().status, 200);
        let meter = Meter::start(10e3 + FREE_BYTES as f64, 50e3);
        // They would take 78 s if they were counted.
        client.read_bytes(FREE_BYTES).unwrap();
        meter.count(FREE_BYTES);
        assert!(meter.began.elapsed() < PATIENCE);
        for _ in 0..5 {
            meter.count(client.read_bytes(READ_BYTES).unwrap().len());
        }
    }
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

/// A request under the limit of one site costs more than the burst of another's.
#[test]
fn a_strict_site_does_not_lock_out_of_another() {
    let dir = folder("throttle-sites");
    let strict = "[site.throttle]\nrequests_static = \"50/s\"\n\n\
        [[site]]\nnames = [\"strict.test\"]\nroot = \"{dir}/www\"\n\
        [site.throttle]\nrequests_static = { rate = \"1/m\", burst = 1 }\n";
    let saker = start_in(dir, &configuration("workers = 1", strict));
    let mut client = saker.connect().unwrap();
    let mut status = |host: &str| {
        let request = format!("GET /index.html HTTP/1.1\r\nHost: {host}\r\n\r\n");
        client.send(request).unwrap();
        client.read_response().unwrap().status
    };
    let hosts = ["strict.test", "strict.test", "strict.test", "lax.test"];
    assert_eq!(hosts.map(&mut status), [200, 200, 429, 200]);
    // Also where the limit is charged without phases.
    assert_eq!(status("lax.test"), 200);
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
        took_s > 0.68,
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
    let responses: Vec<Response> = clients
        .iter_mut()
        .map(|client| client.read_response().unwrap())
        .collect();
    let took_s = began.elapsed().as_secs_f64();
    // Places that may have come back before the last of them was looked at: on a busy machine the
    // requests don't come at once.
    let regained = (took_s * 10.0) as usize;
    // Two at once, and those whose turn comes within a second.
    assert!(
        (12..=12 + regained).contains(&passed(&responses)),
        "{} passed, {regained} regained",
        passed(&responses)
    );
    assert!(
        took_s > 0.98,
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
    for throttle in [
        "in_per_connection = { rate = \"100kB/s\", burst = \"50kB\" }",
        "in_per_address = { rate = \"100kB/s\", burst = \"50kB\" }",
        "in_per_site = { rate = \"100kB/s\", burst = \"50kB\" }",
    ] {
        paced_upload(throttle);
    }
}

fn paced_upload(throttle: &str) {
    const BODY_BYTES: usize = 200_000;
    let saker = start(throttle);
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
        took_s > 0.8,
        "{throttle}: 150 kB at 100 kB/s took {took_s:.2} s"
    );
}

/// Which of two values an application takes is not known, so a limit by key holds for both.
#[test]
fn a_key_that_is_given_twice_escapes_no_limit() {
    let saker = start(
        "requests_by_key = { \"$arg_key\" = { rate = \"1/m\", burst = 1 }, \"$cookie_key\" = { rate = \"1/m\", burst = 1 }, \"$http_x_key\" = { rate = \"1/m\", burst = 1 } }",
    );
    let mut client = saker.connect().unwrap();
    let mut status = |query: &str, fields: &str| {
        let head = format!("GET /index.html{query} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        client.pipeline(&[head]).unwrap()[0].status
    };
    // Two are let pass, and the real key is first, last, or behind an empty one.
    let mut by_query = |query: &str| status(query, "");
    let statuses = ["?key=real", "?key=x1&key=real", "?key=x2&key=real"].map(&mut by_query);
    assert_eq!(statuses, [200, 200, 429]);
    let statuses = ["?key=real&key=x3", "?key=&key=real", "?key=x4"].map(&mut by_query);
    assert_eq!(statuses, [429, 429, 200]);
    let mut by_cookie = |cookie: &str| status("", &format!("Cookie: {cookie}\r\n"));
    let statuses = [
        "key=real",
        "key=x1; key=real",
        "key=x2; key=real",
        "key=real; key=x3",
        "key=x4",
    ]
    .map(&mut by_cookie);
    assert_eq!(statuses, [200, 200, 429, 429, 200]);
    // Other spellings of the same for PHP.
    let statuses = ["%6bey=real", "key=re%61l", "x=1,key=real"].map(&mut by_cookie);
    assert_eq!(statuses, [429, 429, 429]);
    let mut by_field = |fields: &str| status("", fields);
    let statuses = [
        "X-Key: real\r\n",
        "X-Key: x1\r\nX-Key: real\r\n",
        "X-Key: x2\r\nx-key: real\r\n",
        "X-Key: real\r\nX-Key: x3\r\n",
        "X-Key: x4\r\n",
    ]
    .map(&mut by_field);
    assert_eq!(statuses, [200, 200, 429, 429, 200]);
}

/// An error page that a route makes of the client's path is one more way to that route.
#[test]
fn the_route_of_an_error_page_keeps_its_limits() {
    let dir = folder("throttle-error-page");
    dir.write("app/missing.html", "made").unwrap();
    let saker = start_in(
        dir,
        &configuration(
            "workers = 1",
            "error_pages = { 404 = \"@app\" }\n\
             route = [{ name = \"app\", path = \"/app/*\", root = \"{dir}/app\", throttle = { requests_per_site = { rate = \"1/m\", burst = 1 } } }]\n",
        ),
    );
    let mut client = saker.connect().unwrap();
    let bodies: Vec<Vec<u8>> = (0..4)
        .map(|_| {
            let head = "GET /missing.html HTTP/1.1\r\nHost: a\r\n\r\n".to_owned();
            let response = client.pipeline(&[head]).unwrap().remove(0);
            assert_eq!(response.status, 404);
            response.body
        })
        .collect();
    let made = bodies.iter().filter(|body| *body == b"made").count();
    assert_eq!(made, 2, "one and its burst");
}
