//! PROXY headers in streams: taken from trusted peers, and sent to servers.
//!
//! Called by: `mod`.
//! Caveat: every peer is 127.0.0.1, so trust is tested with networks that hold it, and that don't.

use super::{Streams, rest};
use crate::operate;
use saker_testkit::PATIENCE;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    thread,
};

/// A server that sends back what it hears first, up to a line feed behind its `length`th byte.
fn mirror(length: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut heard = Vec::new();
                let mut byte = [0; 1];
                while stream.read_exact(&mut byte).is_ok() {
                    heard.push(byte[0]);
                    if heard.len() > length && byte[0] == b'\n' && heard.ends_with(b"end\n") {
                        break;
                    }
                }
                let _ = stream.write_all(&heard);
            });
        }
    });
    address
}

fn said(stream: &mut TcpStream, bytes: &[u8]) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    stream.write_all(b"end\n").unwrap();
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    heard
}

#[test]
fn headers_are_sent_in_both_versions() {
    let server = mirror(0);
    let streams = Streams::start(
        "stream-preface-sent",
        &format!(
            "[[stream]]\nlisten = \"127.0.0.1:{{p}}\"\nproxy = \"{server}\"\nsend_proxy_protocol = \"v1\"\n\
             [[stream]]\nlisten = \"127.0.0.1:{{q}}\"\nsend_proxy_protocol = \"v1\"\n\
             [[stream.route]]\nclient = [\"127.0.0.0/8\"]\nproxy = \"{server}\"\nsend_proxy_protocol = \"v2\"\n\
             [[upstream]]\nname = \"told\"\nservers = [\"tcp://{server}\"]\nsend_proxy_protocol = \"v1\"\n\
             [[stream]]\nlisten = \"127.0.0.1:{{r}}\"\nproxy = \"told\"\n"
        ),
    );
    for number in [0, 2] {
        let mut stream = TcpStream::connect(streams.address(number)).unwrap();
        let (from, to) = (stream.local_addr().unwrap(), streams.address(number));
        let heard = said(&mut stream, b"text");
        let line = format!(
            "PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\ntextend\n",
            from.port(),
            to.port()
        );
        assert_eq!(String::from_utf8_lossy(&heard), line);
    }
    let mut stream = TcpStream::connect(streams.address(1)).unwrap();
    let (from, to) = (stream.local_addr().unwrap(), streams.address(1));
    let heard = said(&mut stream, b"text");
    let ports = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    let expected = [
        &b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01"[..],
        &ports,
        b"textend\n",
    ]
    .concat();
    assert_eq!(heard, expected);
}

#[test]
fn headers_of_trusted_peers_name_the_client() {
    let server = mirror(0);
    let streams = Streams::start(
        "stream-preface-taken",
        &format!(
            "[[stream]]\nlisten = \"127.0.0.1:{{p}}\"\nproxy = \"{server}\"\nsend_proxy_protocol = \"v1\"\n\
             proxy_protocol_from = [\"127.0.0.1\"]\n\
             access_log = {{ path = \"{{dir}}/stream.log\", format = \"$remote_addr $realip_remote_addr $proxy_protocol_port $status\" }}\n\
             [stream.access]\ndeny = [\"192.0.2.66\", \"2001:db8:bad::/48\"]\n\
             [[stream]]\nlisten = \"127.0.0.1:{{q}}\"\nproxy = \"{server}\"\nproxy_protocol_from = [\"192.0.2.0/24\"]\n"
        ),
    );
    let v1 = |client: &str, family: &str| {
        format!(
            "PROXY {family} {client} {} 5000 443\r\n",
            match family {
                "TCP6" => "2001:db8::2",
                _ => "203.0.113.1",
            }
        )
    };
    let mut v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    v2.extend([192, 0, 2, 7, 203, 0, 113, 1, 0x13, 0x88, 1, 0xbb]);
    let heard = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(streams.address(0)).unwrap();
        String::from_utf8(said(&mut stream, &[bytes, b"text"].concat())).unwrap()
    };
    let text = heard(v1("192.0.2.7", "TCP4").as_bytes());
    assert!(
        text.starts_with("PROXY TCP4 192.0.2.7 127.0.0.1 5000 "),
        "{text}"
    );
    let text = heard(&v2);
    assert!(
        text.starts_with("PROXY TCP4 192.0.2.7 127.0.0.1 5000 "),
        "{text}"
    );
    let text = heard(v1("2001:db8::1", "TCP6").as_bytes());
    assert!(
        text.starts_with("PROXY TCP6 2001:db8::1 ::ffff:7f00:1 5000 "),
        "{text}"
    );
    // A proxy that does not know its client stands for itself.
    let text = heard(b"PROXY UNKNOWN\r\n");
    assert!(
        text.starts_with("PROXY TCP4 127.0.0.1 127.0.0.1 "),
        "{text}"
    );
    // Refused, in every spelling of the address.
    for (client, family) in [
        ("192.0.2.66", "TCP4"),
        ("::ffff:192.0.2.66", "TCP6"),
        ("2001:db8:bad::1", "TCP6"),
    ] {
        let mut stream = streams.connect();
        stream.write_all(v1(client, family).as_bytes()).unwrap();
        assert_eq!(rest(&mut stream), "", "{client}");
    }
    let lines = streams.lines("stream.log", 7);
    assert_eq!(lines[0], "192.0.2.7 127.0.0.1 5000 200");
    assert_eq!(lines[4], "192.0.2.66 127.0.0.1 5000 403");
    assert_eq!(lines[5], "192.0.2.66 127.0.0.1 5000 403");
    // What an untrusted peer says is content.
    let mut stream = TcpStream::connect(streams.address(1)).unwrap();
    let header = v1("192.0.2.7", "TCP4");
    let heard = said(&mut stream, header.as_bytes());
    assert_eq!(String::from_utf8_lossy(&heard), format!("{header}end\n"));
}

#[test]
fn a_site_behind_a_stream_knows_its_client() {
    let dir = operate::folder("stream-preface-site");
    let streams = Streams::start_in(
        dir,
        "access_log = { path = \"{dir}/access.log\", format = \"%a\" }\n\
         [[listener]]\naddress = \"127.0.0.1:{q}\"\nproxy_protocol_from = [\"127.0.0.1\"]\n\
         [[stream]]\nlisten = \"127.0.0.1:{p}\"\nproxy = \"127.0.0.1:{q}\"\nproxy_protocol_from = [\"127.0.0.1\"]\nsend_proxy_protocol = \"v2\"\n",
    );
    let mut stream = streams.connect();
    stream
        .write_all(b"PROXY TCP4 192.0.2.7 203.0.113.1 5000 443\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    assert!(rest(&mut stream).starts_with("HTTP/1.1 200 "));
    assert_eq!(streams.lines("access.log", 1), ["192.0.2.7"]);
}

/// A server over UDP that sends back what it hears, without the ports of a header.
fn mirror_of_datagrams() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut heard = [0; 65_535];
        while let Ok((bytes, from)) = socket.recv_from(&mut heard) {
            let _ = socket.send_to(&heard[..bytes], from);
        }
    });
    address
}

/// A header of version 2 for a datagram from `client` to 203.0.113.1:53.
fn header(client: [u8; 4], port: u16) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x0c".to_vec();
    header.extend(client);
    header.extend([203, 0, 113, 1]);
    header.extend(port.to_be_bytes());
    header.extend(53_u16.to_be_bytes());
    header
}

fn asked(socket: &UdpSocket, datagram: &[u8]) -> Vec<u8> {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send(datagram).unwrap();
    let mut heard = [0; 65_535];
    let bytes = socket.recv(&mut heard).unwrap();
    heard[..bytes].to_vec()
}

fn client_of(streams: &Streams, number: usize) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(streams.address(number)).unwrap();
    socket
}

#[test]
fn datagrams_begin_with_a_header() {
    let server = mirror_of_datagrams();
    let streams = Streams::start(
        "stream-preface-udp",
        &format!(
            "[[stream]]\nlisten = \"udp:127.0.0.1:{{p}}\"\nproxy = \"{server}\"\nsend_proxy_protocol = \"v2\"\n\
             [[stream]]\nlisten = \"udp:127.0.0.1:{{q}}\"\nproxy = \"{server}\"\nsend_proxy_protocol = \"v2\"\nrequests = 1\n"
        ),
    );
    for number in [0, 1] {
        let client = client_of(&streams, number);
        let (from, to) = (client.local_addr().unwrap(), streams.address(number));
        let ports = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
        let expected = [
            &b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x0c\x7f\0\0\x01\x7f\0\0\x01"[..],
            &ports,
            b"one",
        ]
        .concat();
        assert_eq!(asked(&client, b"one"), expected);
        let second = asked(&client, b"two");
        match number {
            0 => assert_eq!(second, b"two"),
            _ => assert!(second.starts_with(b"\r\n\r\n") && second.ends_with(b"two")),
        }
    }
    // What the header makes too long is dropped, and no fault of the server's.
    let client = client_of(&streams, 0);
    client.send(&[b'x'; 65_500]).unwrap();
    let heard = asked(&client, b"short");
    assert!(heard.starts_with(b"\r\n\r\n") && heard.ends_with(b"short"));
    assert!(!streams.saker.server.stderr().contains("SK0960"));
}

#[test]
fn headers_of_datagrams_name_the_client() {
    let server = mirror_of_datagrams();
    let streams = Streams::start(
        "stream-preface-udp-taken",
        &format!(
            "[[stream]]\nlisten = \"udp:127.0.0.1:{{p}}\"\nproxy = \"{server}\"\nproxy_protocol_from = [\"127.0.0.1\"]\n\
             requests = 1\nresponses = 1\naccess_log = {{ path = \"{{dir}}/stream.log\", format = \"$remote_addr $remote_port $realip_remote_addr $status\" }}\n\
             [stream.access]\ndeny = [\"192.0.2.66\", \"127.0.0.1\"]\n\
             [[stream]]\nlisten = \"udp:127.0.0.1:{{q}}\"\nproxy = \"{server}\"\nproxy_protocol_from = [\"192.0.2.0/24\"]\n"
        ),
    );
    let proxy = client_of(&streams, 0);
    let with = |client, text: &[u8]| [&header(client, 7)[..], text].concat();
    // Without a header nothing is known, and a broken one says nothing; of a rule, the client counts.
    proxy.send(b"lost").unwrap();
    proxy.send(&header([192, 0, 2, 7], 7)[..20]).unwrap();
    proxy.send(&with([192, 0, 2, 66], b"denied")).unwrap();
    proxy.send(b"of the denied one").unwrap();
    assert_eq!(asked(&proxy, &with([192, 0, 2, 7], b"one")), b"one");
    assert_eq!(asked(&proxy, &with([192, 0, 2, 8], b"two")), b"two");
    let mut lines = streams.lines("stream.log", 3);
    lines.sort();
    assert_eq!(
        lines[..3],
        [
            "192.0.2.66 7 127.0.0.1 403",
            "192.0.2.7 7 127.0.0.1 200",
            "192.0.2.8 7 127.0.0.1 200"
        ]
    );
    streams
        .saker
        .server
        .wait_for_stderr("SK0309", PATIENCE)
        .unwrap();
    // Of peers that are not trusted it is content.
    let other = client_of(&streams, 1);
    let whole = with([192, 0, 2, 7], b"three");
    assert_eq!(asked(&other, &whole), whole);
}

/// A header is read from the first datagram of a port alone: what looks like one in a later datagram is
/// of the client, which does not change its address with it.
#[test]
fn later_datagrams_name_no_client() {
    let server = mirror_of_datagrams();
    let streams = Streams::start(
        "stream-preface-udp-on",
        &format!(
            "[[stream]]\nlisten = \"udp:127.0.0.1:{{p}}\"\nproxy = \"{server}\"\nproxy_protocol_from = [\"127.0.0.1\"]\n\
             send_proxy_protocol = \"v2\"\naccess_log = {{ path = \"{{dir}}/stream.log\", format = \"$remote_addr $status\" }}\n\
             [stream.access]\ndeny = [\"192.0.2.66\"]\n\
             [[stream]]\nlisten = \"udp:127.0.0.1:{{q}}\"\nproxy = \"udp://127.0.0.1:{{p}}\"\nsend_proxy_protocol = \"v2\"\n"
        ),
    );
    let proxy = client_of(&streams, 0);
    let with = |client, text: &[u8]| [&header(client, 7)[..], text].concat();
    let heard = asked(&proxy, &with([192, 0, 2, 7], b"one"));
    assert!(heard.windows(4).any(|part| part == [192, 0, 2, 7]));
    assert_eq!(asked(&proxy, b"more"), b"more");
    let forged = with([192, 0, 2, 8], b"two");
    assert_eq!(asked(&proxy, &forged), forged);
    // A port that was refused, or that names no client, has no second try.
    let refused = [with([192, 0, 2, 66], b"denied"), b"without".to_vec()].map(|first| {
        let proxy = client_of(&streams, 0);
        proxy.send(&first).unwrap();
        proxy.send(&forged).unwrap();
        proxy
    });
    // Through a server that names its client once, as a client of that.
    let client = client_of(&streams, 1);
    assert!(asked(&client, b"three").ends_with(b"three"));
    assert_eq!(asked(&client, &forged), forged);
    assert_eq!(streams.lines("stream.log", 1)[0], "192.0.2.66 403");
    for proxy in refused {
        proxy.set_nonblocking(true).unwrap();
        assert!(proxy.recv(&mut [0; 100]).is_err());
    }
}
