//! Lines of error logs about sessions of `stream`, and what is read ahead of them, beside nginx.
//!
//! Called by: `cargo test -p saker --test applications nginx_stream_steps`.
//! Caveat: nginx leaves bytes that it has read ahead out of those of the client; none are counted here.

use crate::nginx_pair::Pair;
use saker_testkit::{PATIENCE, wait_until};
use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket},
    thread,
    time::Duration,
};

/// An upstream that does as the first bytes say: `end`, `reset`, or anything else, which it repeats.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut buffer = [0; 1024];
                while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
                    match &buffer[..bytes] {
                        b"end" => return,
                        b"reset" => {
                            let now = Some(Duration::ZERO);
                            rustix::net::sockopt::set_socket_linger(&stream, now).unwrap();
                            return;
                        }
                        text => stream.write_all(text).unwrap(),
                    }
                }
            });
        }
    });
    address
}

/// An upstream of datagrams, which answers each with itself and an empty one.
fn datagrams() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut buffer = [0; 1024];
        while let Ok((bytes, from)) = socket.recv_from(&mut buffer) {
            // One answer is missing.
            if &buffer[..bytes] != b"half" {
                socket.send_to(b"", from).unwrap();
            }
            socket.send_to(&buffer[..bytes], from).unwrap();
        }
    });
    port
}

/// Lines about sessions, without times, numbers, and the ports of clients.
fn lines(pair: &Pair, file: &str, count: usize) -> [Vec<String>; 2] {
    ["nginx", "saker"].map(|folder| {
        let path = pair.dir.join(folder).join(file);
        let mut found = Vec::new();
        wait_until("the log has its lines", || {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let text = text.replace("127.0.0.2", "127.0.0.1");
            found = text.lines().filter_map(told).collect();
            found.len() >= count
        });
        found
    })
}

fn told(line: &str) -> Option<String> {
    let (level, rest) = line.split_once(" [")?.1.split_once("] ")?;
    let rest = rest.split_once(": *")?.1.split_once(' ')?.1;
    let words = rest.split_once(" connected to ");
    let rest = match words.and_then(|(before, to)| Some((before.rsplit_once(':')?.0, to))) {
        Some((before, to)) => format!("{before} connected to {to}"),
        None => rest.to_owned(),
    };
    Some(format!("[{level}] {rest}"))
}

fn say(address: SocketAddr, text: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(text).unwrap();
    stream
}

/// Waits for the end, and counts the bytes before.
fn end(mut stream: TcpStream) -> usize {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    all.len()
}

#[test]
fn nginx_stream_steps_of_sessions_are_logged() {
    let pair = Pair::start(
        "nginx-stream-steps",
        &[("a", upstream().to_string())],
        "log_format f '$status $bytes_received $bytes_sent';\naccess_log {dir}/access.log f;\n\
         server { listen {ip}:{p}; error_log {dir}/own.log info; proxy_timeout 1s; proxy_pass {a}; }",
    );
    let sessions: [&dyn Fn(SocketAddr) -> usize; 4] = [
        &|address| {
            let mut stream = say(address, b"text");
            let mut heard = [0; 4];
            stream.read_exact(&mut heard).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            end(stream)
        },
        &|address| end(say(address, b"end")),
        &|address| end(say(address, b"reset")),
        // Too long without a byte.
        &|address| end(say(address, b"")),
    ];
    let mut count = 0;
    for (session, own) in sessions.iter().zip([3, 3, 4, 3]) {
        pair.both(session);
        count += own;
        let [nginx, saker] = lines(&pair, "own.log", count);
        assert_eq!(saker, nginx);
    }
    let statuses = pair.logs("access.log", 4);
    assert_eq!(statuses, ["200 4 4", "200 3 0", "200 5 0", "200 0 0"]);
}

#[test]
fn nginx_stream_steps_know_broken_headers() {
    let pair = Pair::start(
        "nginx-stream-headers",
        &[],
        "log_format f '$status $bytes_sent [$proxy_protocol_port]';\naccess_log {dir}/access.log f;\n\
         server { listen {ip}:{p} proxy_protocol; error_log {dir}/own.log info; proxy_protocol_timeout 1s;\n\
         return '$proxy_protocol_addr $proxy_protocol_port'; }",
    );
    let signature = b"\r\n\r\n\0\r\nQUIT\n";
    let of_version = |version: u8, length: u16| {
        let rest = [&[version, 0x11][..], &length.to_be_bytes(), &[1; 12]].concat();
        [&signature[..], &rest].concat()
    };
    let rows: [(Vec<u8>, usize); 6] = [
        (b"GET / HTTP/1.0".to_vec(), 2),
        ([&b"PROXY "[..], &[b'x'; 200]].concat(), 2),
        (of_version(0x31, 12), 2),
        (of_version(0x21, 9000), 2),
        // Nothing, until the time is over.
        (Vec::new(), 2),
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 0 0\r\n".to_vec(), 1),
    ];
    let mut count = 0;
    for (header, own) in rows {
        // What broken headers leave unread resets the connection in nginx.
        pair.both(|address| end(say(address, &header)));
        count += own;
        let [nginx, saker] = lines(&pair, "own.log", count);
        assert_eq!(saker, nginx);
    }
    let statuses = pair.logs("access.log", 6);
    assert_eq!(statuses.last().unwrap(), "200 8 []");
}

#[test]
fn nginx_stream_steps_read_so_much_ahead() {
    let pair = Pair::start(
        "nginx-stream-ahead",
        &[("a", upstream().to_string())],
        "log_format f '$status [$ssl_preread_server_name|$ssl_preread_protocol|$ssl_preread_alpn_protocols]';\n\
         access_log {dir}/access.log f;\n\
         server { listen {ip}:{p}; error_log {dir}/own.log; ssl_preread on; preread_buffer_size 100; preread_timeout 1s; \
         return ok; }\n\
         server { listen {ip}:{q}; ssl_preread on; return '$ssl_preread_server_name|$ssl_preread_protocol'; }",
    );
    // A hello that says to be longer than what is read, all at once and in parts.
    let long = [&[22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3][..], &[0; 300]].concat();
    for (index, length) in [300, 100].into_iter().enumerate() {
        assert_eq!(pair.both(|address| end(say(address, &long[..length]))), 0);
        let [nginx, saker] = lines(&pair, "own.log", index + 1);
        assert_eq!(saker, nginx);
        assert!(saker[index].starts_with("[error] preread buffer full while prereading"));
    }
    // One that does not go on.
    assert_eq!(pair.both(|address| end(say(address, &long[..5]))), 0);
    // Other bytes, however many.
    assert_eq!(pair.both(|address| end(say(address, &[b'x'; 150]))), 2);
    let statuses = pair.logs("access.log", 4);
    let shown = ["400 [||]", "400 [||]", "200 [||]", "200 [-|-|-]"];
    assert_eq!(statuses, shown);
    // The name as it was sent.
    let named = hello("A.Test");
    let port: u16 = pair.word("q").parse().unwrap();
    let said = pair.both(|address| {
        let mut text = String::new();
        let address = SocketAddr::new(address.ip(), port);
        say(address, &named).read_to_string(&mut text).unwrap();
        text
    });
    assert_eq!(said, "A.Test|TLSv1.2");
}

/// A ClientHello with a name.
fn hello(name: &str) -> Vec<u8> {
    let long = |bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        [&length[..], bytes].concat()
    };
    let names = long(&[&[0][..], &long(name.as_bytes())].concat());
    let extension = [&[0, 0][..], &long(&names)].concat();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0, 0, 2, 0x13, 1, 1, 0],
        &long(&extension),
    ]
    .concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[1][..], &length[1..], &body].concat();
    [&[22, 3, 1][..], &long(&message)].concat()
}

#[test]
fn nginx_stream_steps_pass_empty_datagrams() {
    let pair = Pair::start(
        "nginx-stream-empty",
        &[("udp", datagrams().to_string())],
        "log_format f '$status $bytes_sent';\naccess_log {dir}/access.log f;\n\
         server { listen {ip}:{p} udp; error_log {dir}/own.log; proxy_timeout 1s; proxy_requests 1; proxy_responses 2;\n\
         proxy_pass 127.0.0.1:{udp}; }",
    );
    let heard = pair.both(|address| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut all = Vec::new();
        for (text, count) in [(&b""[..], 2), (b"x", 2), (b"half", 1)] {
            socket.send(text).unwrap();
            for _ in 0..count {
                let mut buffer = [0; 16];
                let bytes = socket.recv(&mut buffer).unwrap();
                all.push(buffer[..bytes].to_vec());
            }
        }
        all
    });
    assert_eq!(heard, [&b""[..], b"", b"", b"x", b"half"]);
    // An upstream that answers half is to blame.
    let statuses = pair.logs("access.log", 3);
    assert_eq!(statuses, ["200 0", "200 1", "502 4"]);
    let [nginx, saker] = lines(&pair, "own.log", 1).map(|lines| {
        let plain = |line: &String| line.split_once(", bytes ").map(|(line, _)| line.to_owned());
        lines.iter().filter_map(plain).collect::<Vec<_>>()
    });
    assert_eq!(saker, nginx);
}
