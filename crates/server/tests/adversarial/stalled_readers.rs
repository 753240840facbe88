//! Clients that ask for much and read nothing, over connections and streams without number: others
//! are served all the same, and what is kept on disk for those that don't read stays within its
//! bounds. And upstreams that never stop talking.

use crate::{
    harness::{Protocol, Request, apache, ask, native},
    http3_client,
    operate::{PATIENCE, configuration, folder, start, wait_until},
};
use saker_testkit::{
    Client,
    frames::{self, Frames},
};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::MetadataExt,
    path::Path,
    thread,
    time::Duration,
};

const BIG: usize = 50_000_000;
const MIB: u64 = 1 << 20;
const LIMITS: &str = "[limits]\nbuffer_files = \"16MiB\"\nbuffer_files_per_address = \"8MiB\"\n";

/// `/big` is long, `/hints` never comes to an answer, `/redirect` is one whose content has no end;
/// all else is short.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || while answer(&stream).is_some() {});
        }
    });
    address
}

fn answer(mut stream: &TcpStream) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let path = String::from_utf8_lossy(&head).split(' ').nth(1)?.to_owned();
    let piece = [b'x'; 100_000];
    match path.as_str() {
        "/big" => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {BIG}\r\n\r\n").ok()?;
            (0..BIG / piece.len())
                .try_for_each(|_| stream.write_all(&piece))
                .ok()
        }
        "/hints" => {
            let hints = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(4000);
            while stream.write_all(hints.as_bytes()).is_ok() {}
            None
        }
        "/redirect" => {
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /index.html\r\n\r\n"
            )
            .ok()?;
            while stream.write_all(&piece).is_ok() {}
            None
        }
        _ => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nshort").ok(),
    }
}

fn routes(upstream: SocketAddr) -> String {
    format!(
        "[[site.route]]\npath = \"/index.html\"\n[[site.route]]\npath = \"/*\"\nproxy = \"talker\"\n\n\
         [[upstream]]\nname = \"talker\"\nservers = [\"http://{upstream}\"]\ninternal_redirects = true\n"
    )
}

/// Disk space of the unnamed files.
fn on_disk(pid: u32) -> u64 {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return 0;
    };
    let unnamed = entries
        .flatten()
        .filter_map(|entry| fs::metadata(entry.path()).ok())
        .filter(|found| found.is_file() && found.nlink() == 0);
    unnamed.map(|found| found.blocks() * 512).sum()
}

pub fn metric(state_dir: &Path, name: &str) -> u64 {
    let answer = crate::operate::ask(state_dir, "metrics").unwrap();
    let text = answer["metrics"]
        .as_str()
        .or_else(|| answer["text"].as_str())
        .unwrap_or_default()
        .to_owned();
    let line = text.lines().find(|line| {
        line.split([' ', '{'])
            .next()
            .is_some_and(|known| known.ends_with(name))
    });
    line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .unwrap_or_else(|| panic!("no {name} in {answer}")) as u64
}

/// Others get their answers, and the disk is not filled.
fn others_are_served(address: SocketAddr, pid: u32, most: u64) {
    for round in 0..30 {
        for (path, text) in [("/index.html", "<p>hello</p>\n"), ("/short", "short")] {
            let mut client = Client::connect(address).unwrap();
            client.set_timeout(PATIENCE).unwrap();
            let answer = client.get(path).unwrap();
            assert_eq!(
                (answer.status, answer.text().as_str()),
                (200, text),
                "round {round}"
            );
            let taken = on_disk(pid);
            assert!(taken <= most, "{taken} bytes on disk, {most} at most");
        }
    }
}

fn stalled_http1(address: SocketAddr, connections: usize) -> Vec<TcpStream> {
    let stall = |_| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .write_all(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        stream
    };
    (0..connections).map(stall).collect()
}

/// Streams whose windows are closed from the beginning.
fn stalled_http2(address: SocketAddr, connections: usize, streams: u32) -> Vec<Frames> {
    let stall = |_| {
        let mut client = Frames::connect_silently(address).unwrap();
        client.send_bytes(frames::PREFACE).unwrap();
        // SETTINGS_INITIAL_WINDOW_SIZE.
        client
            .send(frames::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])
            .unwrap();
        (0..streams).for_each(|at| client.get(2 * at + 1, "/big").unwrap());
        client
    };
    (0..connections).map(stall).collect()
}

#[test]
fn five_hundred_streams_that_do_not_read() {
    let saker = start(
        "stalled",
        &configuration("workers = 1", &format!("{}\n{LIMITS}", routes(upstream()))),
    );
    let (address, pid, state) = (
        saker.server.address(),
        saker.server.pid(),
        saker.dir.join("state"),
    );
    let clients = stalled_http2(address, 5, 100);
    others_are_served(address, pid, 8 * MIB);
    wait_until("files are in use", || {
        metric(&state, "buffer_file_bytes") > MIB && metric(&state, "buffer_file_waits_total") > 0
    });
    others_are_served(address, pid, 8 * MIB);
    assert!(metric(&state, "buffer_file_bytes") <= 8 * MIB);
    drop(clients);
    wait_until("the room is given back", || {
        metric(&state, "buffer_file_bytes") == 0
    });
    assert_eq!(on_disk(pid), 0);
}

/// Those that read in the end get every byte, however long they were kept waiting.
#[test]
fn connections_that_do_not_read_until_later() {
    let saker = start(
        "stalled-later",
        &configuration("workers = 2", &format!("{}\n{LIMITS}", routes(upstream()))),
    );
    let (address, pid, state) = (
        saker.server.address(),
        saker.server.pid(),
        saker.dir.join("state"),
    );
    let mut clients = stalled_http1(address, 60);
    others_are_served(address, pid, 8 * MIB);
    wait_until("files are in use", || {
        metric(&state, "buffer_file_bytes") > MIB
    });
    let readers: Vec<_> = clients
        .drain(..4)
        .map(|stream| thread::spawn(move || read_big(stream)))
        .collect();
    others_are_served(address, pid, 8 * MIB);
    readers
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
    drop(clients);
    wait_until("the room is given back", || {
        metric(&state, "buffer_file_bytes") == 0
    });
}

fn read_big(stream: TcpStream) {
    let mut client = Client::over_tcp(stream).unwrap();
    client.set_timeout(3 * PATIENCE).unwrap();
    let response = client.read_response().unwrap();
    assert!(
        response.status == 200
            && response.body.len() == BIG
            && response.body.iter().all(|byte| *byte == b'x')
    );
}

#[test]
fn streams_of_http3_that_are_not_read() {
    let saker = native(folder("stalled-http3"), LIMITS, &routes(upstream()));
    let (address, pid) = (saker.server.address(), saker.server.pid());
    let mut clients: Vec<_> = (0..3)
        .map(|_| http3_client::Client::default().connect(&address.to_string()))
        .collect();
    for client in &mut clients {
        client.be_lazy(true);
        for _ in 0..50 {
            client.open("GET", "/big", &[], true);
        }
        client.pass(Duration::from_millis(50));
    }
    for protocol in [Protocol::Http1, Protocol::Http2, Protocol::Http3]
        .into_iter()
        .cycle()
        .take(12)
    {
        for (path, text) in [("/index.html", "<p>hello</p>\n"), ("/short", "short")] {
            let answer = ask(address, protocol, &Request::get("localhost", path));
            assert_eq!(
                (answer.status, answer.text().as_str()),
                (200, text),
                "{protocol:?}"
            );
        }
        clients
            .iter_mut()
            .for_each(|client| client.pass(Duration::from_millis(5)));
        let taken = on_disk(pid);
        assert!(taken <= 8 * MIB, "{taken} bytes on disk");
    }
}

/// With what goes without saying: 64 MiB for an address.
#[test]
fn by_apaches_configuration() {
    let conf = format!(
        "<Location /index.html>\nProxyPass !\n</Location>\nProxyPass / http://{}/\n",
        upstream()
    );
    let site = apache(folder("stalled-apache"), &conf);
    let clients = stalled_http1(site.plain, 40);
    others_are_served(site.plain, site.server.pid(), 64 * MIB);
    wait_until("files are in use", || on_disk(site.server.pid()) > MIB);
    others_are_served(site.plain, site.server.pid(), 64 * MIB);
    drop(clients);
    wait_until("the room is given back", || on_disk(site.server.pid()) == 0);
}

/// One that is always ready to say more has no more of the worker than others.
#[test]
fn upstreams_that_never_stop_talking() {
    let saker = start(
        "stalled-talkers",
        &configuration("workers = 1", &routes(upstream())),
    );
    let address = saker.server.address();
    let talkers: Vec<TcpStream> = (0..4)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream
                .write_all(b"GET /hints HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .unwrap();
            stream
        })
        .collect();
    let redirected = thread::spawn(move || {
        let mut client = Client::connect(address).unwrap();
        client.set_timeout(PATIENCE).unwrap();
        client.get("/redirect").unwrap()
    });
    others_are_served(address, saker.server.pid(), 0);
    let answer = redirected.join().unwrap();
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (200, "<p>hello</p>\n"),
        "the rest is not waited for"
    );
    drop(talkers);
}
