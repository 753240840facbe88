//! Connections in large numbers and of odd kinds: slow ones, too many, over other sockets, behind a
//! proxy, and ones that send garbage.
//!
//! Caveat: the cost of an idle connection is hard to see: memory and CPU time are read from the
//! server's process.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{
    Client, Saker, TempDir, holds_for, raise_descriptor_limit, saker::plain, wait_for,
    wait_until_settled,
};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const PAGE: &str = "<!doctype html><title>Home</title>";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const SOON: Duration = Duration::from_secs(20);
const CROWD: usize = 1000;

fn folder() -> TempDir {
    let dir = TempDir::new("http1-connections").unwrap();
    dir.write("www/index.html", PAGE).unwrap();
    dir
}

fn start(configuration: &str) -> Saker {
    operate::native(configuration).start(folder())
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn rss(saker: &Saker) -> u64 {
    saker.server.tree().memory().rss_bytes
}

/// Normal requests while something else goes on: none of them waits for what goes on.
fn is_served(saker: &Saker) {
    for _ in 0..20 {
        let mut client = saker.connect().unwrap();
        client.set_timeout(SOON).unwrap();
        for _ in 0..5 {
            assert_eq!(client.get("/").unwrap().text(), PAGE);
        }
    }
}

#[test]
fn slow_heads_hold_a_connection_and_no_more() {
    raise_descriptor_limit(4096).unwrap();
    let saker = start(&plain("head_timeout = \"60s\"\n"));
    is_served(&saker);
    let before = rss(&saker);
    let mut crowd: Vec<TcpStream> = (0..CROWD)
        .map(|_| TcpStream::connect(saker.server.address()).unwrap())
        .collect();
    for byte in GET.as_bytes().iter().take(12) {
        crowd
            .iter_mut()
            .for_each(|client| client.write_all(&[*byte]).unwrap());
    }
    is_served(&saker);
    let grown = rss(&saker).saturating_sub(before);
    assert!(
        grown < CROWD as u64 * 6 * 1024,
        "{grown} bytes more for {CROWD} slow heads"
    );
    // They are only slow.
    for client in crowd.iter_mut().step_by(100) {
        client.write_all(&GET.as_bytes()[12..]).unwrap();
        let mut start = [0; 12];
        client.set_read_timeout(Some(SOON)).unwrap();
        client.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"HTTP/1.1 200");
    }
}

/// A client that ends its side within a head may still read (RFC 9112 section 8): it gets 400 once its
/// request line is there, and nothing before.
#[test]
fn heads_that_are_cut_short() {
    let saker = start(&plain(""));
    for (sent, status) in [
        ("GET / HT", None),
        ("\r\nGET / HTTP/1.1\r", None),
        ("\r\n", None),
        ("GET / HTTP/1.0\r\r", None),
        ("GET / HTTP/1.1\r\nHost: a", Some("HTTP/1.1 400 ")),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r", Some("HTTP/1.1 400 ")),
        (GET, Some("HTTP/1.1 200 ")),
    ] {
        let mut client = Client::connect(saker.server.address()).unwrap();
        client.send(sent).unwrap();
        client.finish_sending().unwrap();
        let received = client.read_to_close(SOON).unwrap();
        let received = String::from_utf8_lossy(&received);
        match status {
            Some(status) => assert!(received.starts_with(status), "{sent:?}: {received}"),
            None => assert_eq!(received, "", "{sent:?}"),
        }
    }
    is_served(&saker);
}

#[test]
fn slow_readers_hold_a_connection_and_no_more() {
    raise_descriptor_limit(4096).unwrap();
    let saker = start(&plain("write_timeout = \"60s\"\n"));
    saker
        .dir
        .write("www/large.bin", vec![b'x'; 21_000_000])
        .unwrap();
    is_served(&saker);
    let before = rss(&saker);
    let crowd: Vec<TcpStream> = (0..CROWD).map(|_| reader(saker.server.address())).collect();
    // Now the kernel's buffers are filled, a thousand times a megabyte or more; then there is
    // nothing left to do for them.
    is_served(&saker);
    let grown = rss(&saker).saturating_sub(before);
    assert!(
        grown < CROWD as u64 * 8 * 1024,
        "{grown} bytes more for {CROWD} readers of 21 MB that read nothing"
    );
    let cpu = saker.server.tree().cpu_time();
    holds_for("clients that do nothing cost no CPU time", ms(1000), || {
        saker.server.tree().cpu_time().saturating_sub(cpu) < ms(200)
    });
    drop(crowd);
    is_served(&saker);
}

/// Asks for the large file and reads nothing of it; a small window keeps the kernel's share of the
/// test bounded.
fn reader(address: SocketAddr) -> TcpStream {
    let mut client = TcpStream::connect(address).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&client, 4096).unwrap();
    client
        .write_all(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    client
}

#[test]
fn out_of_descriptors_clients_wait_and_all_are_served() {
    raise_descriptor_limit(4096).unwrap();
    let dir = folder();
    (0..CROWD).for_each(|number| {
        drop(
            dir.write(&format!("www/{number}.txt"), format!("text {number}"))
                .unwrap(),
        )
    });
    let saker = operate::native(&plain(""))
        .under_ulimit("-n 256")
        .start(dir);
    let mut crowd: Vec<Client> = (0..CROWD).map(|_| saker.connect().unwrap()).collect();
    // The first are in and unfinished; the rest have said all and wait.
    for (number, client) in crowd.iter_mut().enumerate() {
        let request = format!("GET /{number}.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client
            .send(if number < 300 {
                &request[..10]
            } else {
                &request
            })
            .unwrap();
    }
    wait_until_settled("as many as there are descriptors are in", || {
        saker.server.tree().open_descriptors()
    });
    let cpu = saker.server.tree().cpu_time();
    holds_for("waiting costs no CPU time", ms(2000), || {
        saker.server.tree().cpu_time().saturating_sub(cpu) < ms(300)
    });
    for (number, client) in crowd.iter_mut().enumerate() {
        if number < 300 {
            let request =
                format!("GET /{number}.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            client.send(&request[10..]).unwrap();
        }
    }
    for (number, client) in crowd.iter_mut().enumerate() {
        let response = client.read_response().unwrap();
        assert_eq!(
            (response.status, response.text()),
            (200, format!("text {number}"))
        );
    }
    drop(crowd);
    is_served(&saker);
}

#[test]
fn unix_sockets() {
    let configuration = plain("").replace(
        "[[site]]",
        "[[listener]]\naddress = \"unix:{dir}/saker.sock\"\nmode = \"0600\"\n\n[[site]]",
    );
    let saker = start(&configuration);
    for _ in 0..3 {
        let mut client = Client::connect_unix(saker.dir.join("saker.sock")).unwrap();
        assert_eq!(client.get("/").unwrap().text(), PAGE);
        client
            .send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .unwrap();
        assert_eq!(client.read_response().unwrap().text(), PAGE);
        assert!(client.closed_within(SOON));
    }
}

#[test]
fn ipv6() {
    let Ok(free) = TcpListener::bind("[::1]:0") else {
        println!("skipped: this machine has no IPv6");
        return;
    };
    let address = free.local_addr().unwrap();
    drop(free);
    let saker = start(&plain("").replace(
        "[[site]]",
        &format!("[[listener]]\naddress = \"{address}\"\n\n[[site]]"),
    ));
    let mut client = Client::connect_when_up(address).unwrap();
    assert_eq!(
        client
            .request("GET", "/", &[("Host", &address.to_string())])
            .unwrap()
            .text(),
        PAGE
    );
    assert_eq!(saker.connect().unwrap().get("/").unwrap().text(), PAGE);
}

/// Trusts loopback, or a network without clients.
fn behind_a_proxy(trusted: &str) -> Saker {
    let configuration = plain("head_timeout = \"2s\"\n").replace(
        "[[site]]",
        &format!(
            "proxy_protocol_from = [\"{trusted}\"]\n\n[[site]]\naccess_log = \"{{dir}}/access.log\""
        ),
    );
    start(&configuration)
}

fn wait_for_line(saker: &Saker, wanted: impl Fn(&str) -> bool) -> String {
    wait_for("a line in the access log", || {
        let text = fs::read_to_string(saker.dir.join("access.log")).unwrap_or_default();
        text.lines().find(|line| wanted(line)).map(str::to_owned)
    })
}

fn preface_v2() -> Vec<u8> {
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c".to_vec();
    bytes.extend_from_slice(&[203, 0, 113, 9, 192, 0, 2, 1, 0x10, 0x00, 0x00, 0x50]);
    bytes
}

#[test]
fn prefaces_of_trusted_proxies_name_the_client() {
    let saker = behind_a_proxy("127.0.0.0/8");
    let mut client = saker.connect().unwrap();
    client
        .send("PROXY TCP4 198.51.100.7 192.0.2.1 5000 80\r\n")
        .unwrap();
    client.send("GET /?v1 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(client.read_response().unwrap().text(), PAGE);
    let mut client = saker.connect().unwrap();
    client
        .send([&preface_v2()[..], b"GET /?v2 HTTP/1.1\r\nHost: a\r\n\r\n"].concat())
        .unwrap();
    assert_eq!(client.read_response().unwrap().text(), PAGE);
    // Byte by byte, and from IPv6.
    let mut client = saker.connect().unwrap();
    for byte in
        "PROXY TCP6 2001:db8::7 2001:db8::1 5000 80\r\nGET /?v6 HTTP/1.1\r\nHost: a\r\n\r\n".bytes()
    {
        client.send([byte]).unwrap();
    }
    assert_eq!(client.read_response().unwrap().text(), PAGE);
    for (query, address) in [
        ("v1", "198.51.100.7"),
        ("v2", "203.0.113.9"),
        ("v6", "2001:db8::7"),
    ] {
        let line = wait_for_line(&saker, |line| line.contains(&format!("/?{query} ")));
        assert!(line.starts_with(&format!("{address} ")), "{line}");
    }
}

#[test]
fn trusted_proxies_without_a_good_preface_are_closed() {
    let saker = behind_a_proxy("127.0.0.0/8");
    for opening in [
        GET,
        "PROXY TCP4 198.51.100.777 192.0.2.1 5000 80\r\n",
        "PROXY TCP4 1.2.3.4",
        "",
    ] {
        let mut client = saker.connect().unwrap();
        client.send(opening).unwrap();
        let rest = client.read_to_close(SOON).unwrap();
        assert!(
            rest.is_empty(),
            "{opening:?} was answered: {:?}",
            String::from_utf8_lossy(&rest)
        );
    }
}

#[test]
fn prefaces_of_strangers_are_bad_requests() {
    let saker = behind_a_proxy("192.0.2.0/24");
    for opening in [
        b"PROXY TCP4 198.51.100.7 192.0.2.1 5000 80\r\n".to_vec(),
        preface_v2(),
    ] {
        let mut client = saker.connect().unwrap();
        client
            .send([&opening[..], GET.as_bytes()].concat())
            .unwrap();
        assert_eq!(client.read_response().unwrap().status, 400);
        assert!(client.closed_within(SOON));
    }
    let mut client = saker.connect().unwrap();
    assert_eq!(client.get("/?plain").unwrap().text(), PAGE);
    assert!(wait_for_line(&saker, |line| line.contains("/?plain ")).starts_with("127.0.0.1 "));
}

#[test]
fn ten_thousand_requests_at_once_on_one_connection() {
    const REQUESTS: usize = 10_000;
    let saker = start(&plain(""));
    let mut stream = TcpStream::connect(saker.server.address()).unwrap();
    let mut sender = stream.try_clone().unwrap();
    // Reading begins only when the server can't take more: both directions are full then.
    let sent = Arc::new(AtomicUsize::new(0));
    let sending = {
        let sent = Arc::clone(&sent);
        thread::spawn(move || {
            for _ in 0..REQUESTS / 100 {
                sender.write_all(GET.repeat(100).as_bytes()).unwrap();
                sent.fetch_add(100, Ordering::Relaxed);
            }
        })
    };
    wait_until_settled("the server takes no more", || sent.load(Ordering::Relaxed));
    let began = Instant::now();
    let (mut answers, mut chunk, mut tail) = (0, vec![0; 64 << 10], Vec::new());
    stream.set_read_timeout(Some(SOON)).unwrap();
    while answers < REQUESTS {
        let count = stream.read(&mut chunk).unwrap();
        assert!(
            count > 0 && began.elapsed() < SOON * 2,
            "{answers} answers in {:?}",
            began.elapsed()
        );
        tail.extend_from_slice(&chunk[..count]);
        answers += tail
            .windows(PAGE.len())
            .filter(|bytes| *bytes == PAGE.as_bytes())
            .count();
        // What could be the beginning of a page stays.
        tail.drain(..tail.len().saturating_sub(PAGE.len() - 1));
    }
    sending.join().unwrap();
    assert_eq!(answers, REQUESTS);
}

/// Bytes that often look like HTTP, from a generator with a fixed seed.
fn nonsense(state: &mut u64) -> Vec<u8> {
    const WORDS: [&str; 24] = [
        "GET ",
        "POST ",
        "/ ",
        "HTTP/1.1",
        "\r\n",
        "\r\n\r\n",
        "Host: a\r\n",
        "Content-Length: ",
        "Transfer-Encoding: chunked\r\n",
        "5\r\nhello\r\n",
        "0\r\n\r\n",
        "\0",
        ": ",
        "\n",
        "Expect: 100-continue\r\n",
        "Range: bytes=",
        "-",
        "18446744073709551615",
        "%2e%2e/",
        "*",
        "http://",
        "\x7f",
        "Connection: close\r\n",
        "ff",
    ];
    let mut next = || {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 16) as usize
    };
    let mut bytes = if next() % 2 == 0 {
        b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec()
    } else {
        Vec::new()
    };
    for _ in 0..next() % 24 {
        match next() % 4 {
            0 => bytes.push(next() as u8),
            _ => bytes.extend_from_slice(WORDS[next() % WORDS.len()].as_bytes()),
        }
    }
    bytes
}

#[test]
fn nonsense_does_no_harm() {
    let saker = start(&plain(
        "head_timeout = \"1s\"\nkeep_alive_timeout = \"1s\"\nbody_timeout = \"1s\"\n",
    ));
    let (end, mut state) = (
        Instant::now() + Duration::from_secs(4),
        0x5a6b_1c2d_3e4f_9081,
    );
    let mut open = Vec::new();
    while Instant::now() < end {
        let mut stream = TcpStream::connect(saker.server.address()).unwrap();
        for _ in 0..3 {
            // It may have been closed already, which is fine.
            let _ = stream.write_all(&nonsense(&mut state));
        }
        open.push(stream);
        if open.len() > 100 {
            open.clear();
        }
    }
    is_served(&saker);
    let words = saker.server.stderr();
    assert!(!words.contains("panic"), "{words}");
}
