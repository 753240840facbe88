//! Clients of streams that mean no good: slow and silent ones, headers and hellos without an end,
//! names in odd spellings, and refused addresses.
//!
//! Called by: `mod`.
//! Caveat: timeouts are short here; a test waits for an end, and measures no time.

use super::{Streams, connect, hello, named, rest, talk};
use crate::{operate, tls_site::certificate};
use saker_testkit::PATIENCE;
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
};

/// Everything that comes until the end, which is long before the one of the default.
fn early_rest(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(PATIENCE / 3)).unwrap();
    rest(&mut stream)
}

#[test]
fn slow_and_silent_clients_end() {
    let a = named("a");
    let dir = operate::folder("stream-slow");
    certificate(&dir, "db", "db.test");
    let streams = Streams::start_in(
        dir,
        &format!(
            "[[stream]]\nlisten = \"127.0.0.1:{{p}}\"\nhandshake_timeout = \"400ms\"\n\
             access_log = {{ path = \"{{dir}}/stream.log\", format = \"$status $upstream_addr\" }}\n\
             [[stream.route]]\nsni = \"*\"\nproxy = \"{a}\"\n\
             [[stream]]\nlisten = \"127.0.0.1:{{q}}\"\nproxy = \"{a}\"\nproxy_protocol_from = [\"127.0.0.1\"]\nhandshake_timeout = \"400ms\"\n\
             [[stream]]\nlisten = \"127.0.0.1:{{r}}\"\nproxy = \"{a}\"\nhandshake_timeout = \"400ms\"\n\
             [stream.tls]\ncertificate = \"{{dir}}/db.pem\"\nkey = \"{{dir}}/db.key\"\n"
        ),
    );
    // No byte at all, and a hello that never ends.
    assert_eq!(early_rest(streams.connect()), "");
    let mut slow = streams.connect();
    slow.write_all(&hello(b"a.test", b"\x02h2", 0)[..40])
        .unwrap();
    assert_eq!(early_rest(slow), "");
    for line in streams.lines("stream.log", 2) {
        assert!(line.ends_with(" -"), "no server was bothered: {line}");
    }
    // Half of a PROXY header, and none.
    let mut half = connect(streams.address(1));
    half.write_all(b"PROXY TCP4 192.0.2.1 ").unwrap();
    assert_eq!(early_rest(half), "");
    assert_eq!(early_rest(connect(streams.address(1))), "");
    // No handshake, and half of one.
    assert_eq!(early_rest(connect(streams.address(2))), "");
    let mut half = connect(streams.address(2));
    half.write_all(&hello(b"db.test", b"\x02h2", 0)[..40])
        .unwrap();
    assert_eq!(early_rest(half), "");
    // A client that is half gone does not take the place of others.
    let gone = streams.connect();
    gone.shutdown(Shutdown::Write).unwrap();
    let mut well = streams.connect();
    well.write_all(&hello(b"a.test", b"\x02h2", 0)).unwrap();
    let mut name = [0; 2];
    well.read_exact(&mut name).unwrap();
    assert_eq!(&name, b"a\n");
}

#[test]
fn headers_that_are_too_long_or_wrong_are_refused() {
    let a = named("a");
    let streams = Streams::start(
        "stream-long-header",
        &format!(
            "[[stream]]\nlisten = \"127.0.0.1:{{p}}\"\nproxy = \"{a}\"\nproxy_protocol_from = [\"127.0.0.1\"]\n"
        ),
    );
    let long_v1 = [b"PROXY TCP4 ", "1".repeat(200).as_bytes(), b"\r\n"].concat();
    // Version 2 that announces 65,535 bytes, and sends them.
    let mut long_v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff".to_vec();
    long_v2.extend([0; 65_535]);
    for bytes in [
        &long_v1[..],
        &long_v2,
        b"PROXY TCP4 192.0.2.1 203.0.113.1 5000\r\n",
        b"PROXY TCP4 192.0.2.256 203.0.113.1 5000 443\r\n",
        b"PROXY TCP4 ::1 ::1 5000 443\r\n",
        b"PROXY TCP4 192.0.2.1 203.0.113.1 5000 443\n\n",
        b"proxy TCP4 192.0.2.1 203.0.113.1 5000 443\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01\0\x01\0\x01",
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let mut stream = streams.connect();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        assert_eq!(
            rest(&mut stream),
            "",
            "{:?}",
            String::from_utf8_lossy(&bytes[..20])
        );
    }
}

#[test]
fn hellos_have_a_bound_and_names_one_form() {
    let (a, b) = (named("a"), named("b"));
    let streams = Streams::start(
        "stream-hello",
        &format!(
            "[[stream]]\nlisten = \"127.0.0.1:{{p}}\"\nproxy = \"{b}\"\n\
             access_log = {{ path = \"{{dir}}/stream.log\", format = \"json\" }}\n\
             [[stream.route]]\nsni = [\"inner.test\", \"*.inner.test\"]\nproxy = \"{a}\"\n\
             [stream.access]\nallow = [\"127.0.0.1\"]\n"
        ),
    );
    let first = |bytes: &[u8]| {
        let mut stream = streams.connect();
        let _ = stream.write_all(bytes);
        let mut first = [0; 1];
        match stream.read(&mut first) {
            Ok(1) => char::from(first[0]),
            _ => '-',
        }
    };
    let named = |name: &[u8]| first(&hello(name, b"\x02h2", 0));
    for name in [
        &b"inner.test"[..],
        b"INNER.tEsT",
        b"inner.test.",
        b"x.Inner.Test.",
    ] {
        assert_eq!(named(name), 'a', "{:?}", String::from_utf8_lossy(name));
    }
    for name in [
        &b"inner.test.evil"[..],
        b"xinner.test",
        b".inner.test",
        b"inner.test..",
        b"inner.test\0",
        b"inner.test\r\nb",
        b"inner\xff.test",
        b"127.0.0.1",
    ] {
        assert_ne!(named(name), 'a', "{:?}", String::from_utf8_lossy(name));
    }
    // Up to 16 KiB of a hello are looked at.
    assert_eq!(first(&hello(b"inner.test", b"\x02h2", 14_000)), 'a');
    assert_eq!(first(&hello(b"inner.test", b"\x02h2", 40_000)), '-');
    // Lines of the log are whole, whatever a client calls itself.
    let lines = streams.lines("stream.log", 13);
    for line in lines {
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["remote_addr"], "127.0.0.1", "{line}");
    }
}

#[test]
fn address_rules_hold_for_every_form_of_an_address() {
    let a = named("a");
    let dir = operate::folder("stream-mapped");
    dir.write("bad.txt", "192.0.2.0/24\n127.0.0.0/8 # here\n")
        .unwrap();
    let streams = Streams::start_in(
        dir,
        &format!(
            "[[stream]]\nlisten = \"[::]:{{p}}\"\nproxy = \"{a}\"\n\
             access_log = {{ path = \"{{dir}}/stream.log\", format = \"$remote_addr $status\" }}\n\
             [stream.access]\ndeny_files = [\"{{dir}}/bad.txt\"]\n\
             [[stream]]\nlisten = \"127.0.0.1:{{q}}\"\nproxy = \"{a}\"\n\
             [stream.access]\nallow = [\"192.0.2.0/24\"]\n\
             [[stream]]\nlisten = [\"127.0.0.1:{{r}}\", \"udp:127.0.0.1:{{r}}\", \"unix:{{dir}}/s.sock\"]\nproxy = \"{a}\"\n\
             access_log = {{ path = \"{{dir}}/other.log\", format = \"$remote_addr $protocol $status\" }}\n\
             [stream.access]\nallow = [\"192.0.2.0/24\"]\n"
        ),
    );
    let port = streams.address(0).port();
    let mut v6 = connect(format!("[::1]:{port}").parse().unwrap());
    let mut name = [0; 2];
    v6.read_exact(&mut name).unwrap();
    assert_eq!(&name, b"a\n");
    // Such a socket sees it as ::ffff:127.0.0.1.
    assert_eq!(rest(&mut streams.connect()), "", "in the file");
    assert_eq!(streams.lines("stream.log", 1), ["127.0.0.1 403"]);
    assert_eq!(
        rest(&mut connect(streams.address(1))),
        "",
        "not in the list"
    );
    assert_eq!(rest(&mut connect(streams.address(2))), "");
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.send_to(b"x", streams.address(2)).unwrap();
    // A client without an address is in no list.
    let mut unix =
        std::os::unix::net::UnixStream::connect(streams.saker.dir.join("s.sock")).unwrap();
    let mut heard = Vec::new();
    let _ = unix.read_to_end(&mut heard);
    assert!(heard.is_empty());
    let mut lines = streams.lines("other.log", 3);
    lines.sort();
    assert_eq!(
        lines,
        ["127.0.0.1 TCP 403", "127.0.0.1 UDP 403", "unix: TCP 403"]
    );
}

#[test]
fn a_client_that_reads_nothing_holds_little() {
    let a = named("a");
    let streams = Streams::start(
        "stream-stalled",
        &format!(
            "[[stream]]\nlisten = \"127.0.0.1:{{p}}\"\nproxy = \"{a}\"\nidle_timeout = \"500ms\"\n"
        ),
    );
    // It sends, and takes none of the echo: what is between must be bounded, and end.
    let mut stalled = streams.connect();
    let piece = vec![b'x'; 1 << 16];
    let mut sent = 0usize;
    while stalled.write_all(&piece).is_ok() {
        sent += piece.len();
        assert!(sent < 1 << 30, "the writer is never stopped");
    }
    assert_eq!(talk(streams.address(0), "x"), "a\nx", "others are served");
}
