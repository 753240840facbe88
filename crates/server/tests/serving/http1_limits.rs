//! `[limits]` of the configuration, each on both sides of its edge, on a running server.
//!
//! Caveat: time on a busy machine: a time limit must not strike early, and may strike late by a
//! tick (250 ms) and the machine's delays. So lower bounds are tight and upper ones generous.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{Client, Saker, TempDir, wait_until};
use std::{
    io,
    time::{Duration, Instant},
};

const PAGE: &str = "<!doctype html><title>Home</title>";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/// For what has to happen at some time.
const SOON: Duration = Duration::from_secs(15);

fn start(limits: &str) -> Saker {
    let dir = TempDir::new("http1-limits").unwrap();
    dir.write("www/index.html", PAGE).unwrap();
    operate::native(&saker_testkit::saker::plain(limits)).start(dir)
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A limit of one second, seen by a clock that goes in steps of a few milliseconds.
const EARLIEST: Duration = Duration::from_millis(980);

/// Asks for the page once more on the same connection.
fn is_served(client: &mut Client) -> bool {
    client.get("/").is_ok_and(|response| response.status == 200)
}

#[test]
fn connections() {
    let saker = start("connections = 3\n");
    let mut clients: Vec<Client> = (0..3).map(|_| saker.connect().unwrap()).collect();
    // The connection that found out whether the server accepts may still be open for a moment.
    clients
        .iter_mut()
        .for_each(|client| assert!(is_served(client)));
    let mut fourth = saker.connect().unwrap();
    fourth.send(GET).unwrap();
    assert!(
        fourth.silent_for(ms(400)).unwrap(),
        "the fourth of three connections is served"
    );
    clients
        .iter_mut()
        .for_each(|client| assert!(is_served(client), "those inside are served on"));
    clients.pop();
    assert_eq!(
        fourth.read_response().unwrap().text(),
        PAGE,
        "accepting goes on when one has left"
    );
    saker
        .server
        .wait_for_stderr("connection limit reached", SOON)
        .unwrap();
}

#[test]
fn connections_per_address() {
    let saker = start("connections_per_address = 3\n");
    let mut clients: Vec<Client> = Vec::new();
    let end = Instant::now() + SOON;
    // The connection that found out whether the server accepts counts until the server has seen its
    // end.
    while clients.len() < 3 {
        assert!(Instant::now() < end);
        let mut client = saker.connect().unwrap();
        if is_served(&mut client) {
            clients.push(client);
        }
    }
    for _ in 0..3 {
        let mut more = saker.connect().unwrap();
        let _ = more.send(GET);
        assert!(
            more.closed_within(SOON),
            "the fourth connection of an address is closed without an answer"
        );
    }
    clients
        .iter_mut()
        .for_each(|client| assert!(is_served(client)));
    clients.pop();
    wait_until("a place that was given back is given away again", || {
        is_served(&mut saker.connect().unwrap())
    });
}

#[test]
fn requests_per_connection() {
    let saker = start("requests_per_connection = 3\n");
    // One by one, and all at once.
    let mut client = saker.connect().unwrap();
    for last in [false, false, true] {
        let response = client.get("/").unwrap();
        assert_eq!(
            (response.status, response.field("connection")),
            (200, last.then_some("close"))
        );
    }
    assert!(client.closed_within(SOON));
    let mut client = saker.connect().unwrap();
    client.send(GET.repeat(5)).unwrap();
    for last in [false, false, true] {
        assert_eq!(
            client.read_response().unwrap().field("connection"),
            last.then_some("close")
        );
    }
    assert!(client.closed_within(SOON));
}

/// A request whose head has exactly that many bytes.
fn head_of(bytes: usize) -> String {
    let (before, after) = ("GET / HTTP/1.1\r\nHost: a\r\nX: ", "\r\n\r\n");
    format!(
        "{before}{}{after}",
        "x".repeat(bytes - before.len() - after.len())
    )
}

#[test]
fn head_size() {
    let saker = start("head_size = 2048\n");
    let mut client = saker.connect().unwrap();
    client.send(head_of(2048)).unwrap();
    assert_eq!(client.read_response().unwrap().status, 200);
    // Without the head's end, too: nothing waits for it.
    for request in [
        head_of(2049),
        head_of(100_000),
        head_of(2053)[..2049].to_owned(),
    ] {
        let mut client = saker.connect().unwrap();
        let _ = client.send(&request);
        let response = client.read_response().unwrap();
        assert_eq!(
            (response.status, response.field("connection")),
            (431, Some("close"))
        );
        assert!(client.closed_within(SOON));
    }
    // The request line alone is too long.
    let mut client = saker.connect().unwrap();
    client
        .send(format!(
            "GET /{} HTTP/1.1\r\nHost: a\r\n\r\n",
            "a".repeat(3000)
        ))
        .unwrap();
    assert_eq!(client.read_response().unwrap().status, 414);
}

#[test]
fn header_count() {
    let saker = start("header_count = 10\n");
    let request = |fields: usize| {
        format!(
            "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
            "A: b\r\n".repeat(fields - 1)
        )
    };
    let mut client = saker.connect().unwrap();
    client.send(request(10)).unwrap();
    assert_eq!(client.read_response().unwrap().status, 200);
    client.send(request(11)).unwrap();
    assert_eq!(client.read_response().unwrap().status, 431);
    assert!(client.closed_within(SOON));
}

fn post(framing: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n")
}

#[test]
fn body_size_declared() {
    let saker = start("body_size = 1000\n");
    let mut client = saker.connect().unwrap();
    client
        .send(post("Content-Length: 1000") + &"x".repeat(1000))
        .unwrap();
    // The method is refused, the size is not.
    assert_eq!(client.read_response().unwrap().status, 405);
    assert!(is_served(&mut client));
    client
        .send(post("Content-Length: 1001") + &"x".repeat(1001))
        .unwrap();
    assert_eq!(client.read_response().unwrap().status, 413);
    // Refused before it is sent.
    let mut client = saker.connect().unwrap();
    client
        .send(post("Expect: 100-continue\r\nContent-Length: 1001"))
        .unwrap();
    assert_eq!(client.read_response().unwrap().status, 413);
    assert!(client.closed_within(SOON));
}

#[test]
fn body_size_in_chunks() {
    let saker = start("body_size = 1000\n");
    let chunk = format!("1f4\r\n{}\r\n", "x".repeat(500));
    let mut client = saker.connect().unwrap();
    client
        .send(post("Transfer-Encoding: chunked") + &chunk.repeat(2) + "0\r\n\r\n")
        .unwrap();
    assert_eq!(client.read_response().unwrap().status, 405);
    assert!(
        is_served(&mut client),
        "a body of the allowed size is read to its end"
    );
    client
        .send(post("Transfer-Encoding: chunked") + &chunk.repeat(2) + "1\r\nx\r\n0\r\n\r\n" + GET)
        .unwrap();
    assert!(matches!(client.read_response().unwrap().status, 405 | 413));
    assert!(
        client.closed_within(SOON),
        "what follows a body that is too large is not looked at"
    );
}

#[test]
fn head_timeout_byte_by_byte() {
    let saker = start("head_timeout = \"1s\"\n");
    let began = Instant::now();
    let mut client = saker.connect().unwrap();
    // Every byte comes well before the limit; the head as a whole does not.
    let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{}", "A: b\r\n".repeat(100));
    let answered = text
        .bytes()
        .any(|byte| client.send([byte]).is_err() || !client.silent_for(ms(30)).unwrap());
    let after = began.elapsed();
    assert!(answered, "it may take {after:?}");
    // Without the setting it would be 15 s.
    assert!(after >= EARLIEST && after < ms(12_000), "{after:?}");
    let response = client.read_response().unwrap();
    assert_eq!(
        (response.status, response.field("connection")),
        (408, Some("close"))
    );
    assert!(client.closed_within(SOON));
}

#[test]
fn head_timeout_is_for_each_head() {
    let saker = start("head_timeout = \"3s\"\nkeep_alive_timeout = \"30s\"\n");
    let mut client = saker.connect().unwrap();
    // Each head takes 900 ms, all of them longer than the limit.
    for _ in 0..4 {
        let (first, second) = GET.split_at(10);
        client.send(first).unwrap();
        assert!(client.silent_for(ms(900)).unwrap());
        client.send(second).unwrap();
        assert_eq!(client.read_response().unwrap().status, 200);
    }
    // Silence between two requests is not a slow head.
    assert!(client.silent_for(ms(3600)).unwrap());
    assert!(is_served(&mut client));
}

#[test]
fn body_timeout() {
    let saker = start("body_timeout = \"4s\"\n");
    let mut client = saker.connect().unwrap();
    client.send(post("Content-Length: 10") + "abc").unwrap();
    assert_eq!(client.read_response().unwrap().status, 405);
    // Slow, but never silent for long.
    let mut began = Instant::now();
    for byte in ["d", "e", "f"] {
        assert!(client.silent_for(ms(1500)).unwrap());
        began = Instant::now();
        client.send(byte).unwrap();
    }
    assert!(client.closed_within(SOON));
    let after = began.elapsed();
    assert!(after >= EARLIEST * 4, "{after:?}");
}

#[test]
fn keep_alive_timeout() {
    let saker = start("keep_alive_timeout = \"4s\"\nhead_timeout = \"20s\"\n");
    let mut used = saker.connect().unwrap();
    for _ in 0..3 {
        assert!(is_served(&mut used));
        assert!(used.silent_for(ms(1500)).unwrap());
    }
    let mut unused = saker.connect().unwrap();
    // A head that has begun is under another limit.
    let mut begun = saker.connect().unwrap();
    begun.send("GET").unwrap();
    let began = Instant::now();
    assert!(is_served(&mut used));
    assert!(used.closed_within(SOON));
    let after = began.elapsed();
    assert!(after >= EARLIEST * 4, "{after:?}");
    // The kernel holds a silent connection back for some seconds before the server sees it.
    assert!(
        unused.closed_within(SOON),
        "a connection that never says anything is closed"
    );
    assert!(begun.silent_for(ms(50)).unwrap());
    begun.send(&GET[3..]).unwrap();
    assert_eq!(begun.read_response().unwrap().status, 200);
}

#[test]
fn write_timeout_frees_readers_that_stop() -> io::Result<()> {
    let saker = start("write_timeout = \"1s\"\n");
    let large = vec![b'x'; 21_000_000];
    saker.dir.write("www/large.bin", &large)?;
    // Accepting begins before the start is over.
    assert!(is_served(&mut saker.connect()?));
    let before = saker.server.tree().memory().rss_bytes;
    let descriptors = saker.server.tree().open_descriptors();
    let mut stopped = Vec::new();
    for _ in 0..20 {
        let mut client = saker.connect()?;
        client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n")?;
        stopped.push(client);
    }
    // One that reads slowly, but does read, is served to the end.
    let mut slow = saker.connect()?;
    slow.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n")?;
    let mut read = slow.read_bytes(2_000_000)?.len();
    for _ in 0..8 {
        slow.pause(ms(500))?;
        read += slow.read_bytes(2_000_000)?.len();
    }
    let grown = saker
        .server
        .tree()
        .memory()
        .rss_bytes
        .saturating_sub(before);
    assert!(
        grown < 8 << 20,
        "{grown} bytes more for 20 readers that read nothing"
    );
    let now = saker.server.tree().open_descriptors();
    assert!(
        now <= descriptors + 3,
        "those who stopped reading are still there: {descriptors} descriptors, then {now}"
    );
    read += slow.read_bytes(large.len() - read)?.len();
    assert_eq!(read, large.len());
    for mut client in stopped {
        assert!(
            client.read_bytes(large.len()).is_err(),
            "cut, not served to the end"
        );
    }
    assert!(is_served(&mut saker.connect()?));
    Ok(())
}
