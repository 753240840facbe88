//! Upstreams that answer before they have the whole request, over HTTP/1: the client is sent the
//! answer and heard at the same time, and one that leaves, or says nothing, holds nothing.

use crate::operate::{PATIENCE, configuration, start, wait_until};
use saker_testkit::Client;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

/// Content of the long answer.
const BIG: usize = 50_000_000;
const UPLOAD: usize = 10_000_000;
/// Content of an answer that is not ended.
const STOPS_AT: usize = 1_000_000;

/// Answers each request from its head: `/echo` with its content as it comes, `/stops` with less than
/// it promises, all others with much that does not depend on it.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(&stream));
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
    let is_echo = head.starts_with(b"POST /echo");
    let length = if is_echo { UPLOAD } else { BIG };
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"
    )
    .ok()?;
    let stops_at = if head.starts_with(b"GET /stops") {
        STOPS_AT
    } else {
        length
    };
    let (mut piece, mut sent) = ([b'x'; 50_000], 0);
    while sent < stops_at {
        let count = match is_echo {
            true => stream.read(&mut piece).ok().filter(|count| *count > 0)?,
            false => piece.len(),
        };
        stream.write_all(&piece[..count]).ok()?;
        sent += count;
    }
    // Until the other side closes.
    while stream.read(&mut piece).ok()? > 0 {}
    Some(())
}

fn site(upstream: SocketAddr, upstream_rows: &str, limits: &str) -> String {
    configuration(
        "workers = 1",
        &format!(
            "[[site.route]]\npath = \"/*\"\nproxy = \"early\"\n\n[[upstream]]\nname = \"early\"\n\
             servers = [\"http://{upstream}\"]\n{upstream_rows}\n[limits]\n{limits}\n"
        ),
    )
}

fn ask(address: SocketAddr, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{head}\r\nHost: localhost\r\n").unwrap();
    stream
}

#[test]
fn an_upload_and_its_echo_pass_each_other() {
    let saker = start("early-echo", &site(upstream(), "buffer_file = 0", ""));
    let mut stream = ask(saker.server.address(), "POST /echo HTTP/1.1");
    write!(stream, "Content-Length: {UPLOAD}\r\n\r\n").unwrap();
    let content: Vec<u8> = (0..UPLOAD).map(|at| (at / 100_000) as u8).collect();
    let (mut upload, sent) = (stream.try_clone().unwrap(), content.clone());
    let writer = thread::spawn(move || upload.write_all(&sent).unwrap());
    let response = Client::over_tcp(stream).unwrap().read_response().unwrap();
    writer.join().unwrap();
    assert!(response.status == 200 && response.body == content);
}

#[test]
fn clients_that_leave_before_their_content_give_everything_back() {
    let limits = "buffer_files = \"16MiB\"\nbuffer_files_per_address = \"8MiB\"";
    let saker = start("early-leave", &site(upstream(), "", limits));
    let state = saker.dir.join("state");
    let metric = |name: &str| crate::stalled_readers::metric(&state, name);
    let ask = |_| {
        let mut stream = ask(saker.server.address(), "GET /big HTTP/1.1");
        stream.write_all(b"Content-Length: 100\r\n\r\n").unwrap();
        stream
    };
    let clients: Vec<TcpStream> = (0..5).map(ask).collect();
    wait_until("the files have no more room", || {
        metric("buffer_file_waits_total") > 0
    });
    drop(clients);
    wait_until("the room is given back", || {
        metric("buffer_file_bytes") == 0
    });
}

#[test]
fn content_that_does_not_come_ends_the_answer() {
    let limits = "body_timeout = \"1s\"";
    let saker = start("early-silent", &site(upstream(), "buffer_file = 0", limits));
    let mut stream = ask(saker.server.address(), "GET /stops HTTP/1.1");
    stream.write_all(b"Content-Length: 100\r\n\r\n").unwrap();
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    assert!(heard.starts_with(b"HTTP/1.1 200 OK\r\n") && heard.len() > STOPS_AT);
}
