//! WebSockets and other upgrades through the gateway, over HTTP/1.1 and HTTP/2 (RFC 8441): bytes,
//! ends, faults, memory.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::upgrades;
use crate::upgrades::{Front, Heard, Http2, WEBSOCKET, backend, echo, field, read_head, switching};
use saker_testkit::{Client, PATIENCE, holds_for, keep_waiting, wait_until};
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};

/// Does what the path says.
fn serve(mut stream: TcpStream) {
    let Some(head) = read_head(&mut stream) else {
        return;
    };
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut say = |text: &str| stream.write_all(text.as_bytes()).is_ok();
    match path.as_str() {
        "/refuse" => _ = say("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"),
        "/plain" => _ = say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain"),
        "/other" => {
            _ = say(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: smtp\r\n\r\n",
            )
        }
        "/unproved" => {
            _ = say(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n",
            );
        }
        "/greets" => _ = say(&(switching(&head) + "hello")) && say(" there"),
        "/head" => _ = say(&(switching(&head) + &head)),
        "/reset" => {
            say(&(switching(&head) + "par"));
            let _ = keep_waiting(&stream, Duration::from_millis(50));
            rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        }
        "/late" => {
            // Ends its side first, and hears the client out.
            say(&(switching(&head) + "bye"));
            stream.shutdown(Shutdown::Write).unwrap();
            let mut heard = String::new();
            let _ = stream.read_to_string(&mut heard);
            LATE.lock().unwrap().push(heard);
        }
        "/deaf" => {
            say(&switching(&head));
            let _ = keep_waiting(&stream, PATIENCE);
        }
        _ => {
            say(&switching(&head));
            echo(&mut stream);
        }
    }
}

static LATE: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());

fn start(name: &str, more: &str) -> Front {
    let address = backend(serve);
    Front::start(
        name,
        &format!(
            "LoadModule proxy_module modules/mod_proxy.so\nProxyPassMatch \"^(/(?!page).*)$\" \"http://{address}$1\" upgrade=ANY\n{more}"
        ),
    )
}

fn upgraded(front: &Front, path: &str) -> Client {
    let mut client = front.client();
    let head = client.request("GET", path, WEBSOCKET).unwrap();
    assert_eq!(head.status, 101, "{path}: {head:?}");
    assert_eq!(
        (head.field("upgrade"), head.field("connection")),
        (Some("websocket"), Some("upgrade"))
    );
    client
}

#[test]
fn bytes_pass_both_ways_over_http1_and_the_line_comes_at_the_end() {
    let front = start("tunnel-h1", "");
    let mut client = front.client();
    let head = client.request("GET", "/echo", WEBSOCKET).unwrap();
    // RFC 6455 section 1.3: the proof is the server's own.
    assert_eq!(
        (head.status, head.field("sec-websocket-accept")),
        (101, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="))
    );
    for round in 0..20 {
        let message = vec![round; 1 + usize::from(round) * 5000];
        client.send(&message).unwrap();
        assert_eq!(client.read_bytes(message.len()).unwrap(), message);
    }
    client.finish_sending().unwrap();
    assert!(
        client.closed_within(Duration::from_secs(10)),
        "the end comes back"
    );
    let content = (0..20).map(|round| 1 + round * 5000).sum::<u64>();
    let line = front.log(1).remove(0);
    let figures: Vec<&str> = line.rsplitn(4, ' ').collect();
    assert!(
        line.starts_with("GET /echo HTTP/1.1 101 ") && figures[0] == "-",
        "{line}"
    );
    let (bytes_out, bytes_in) = (
        figures[1].parse::<u64>().unwrap(),
        figures[2].parse::<u64>().unwrap(),
    );
    assert!(
        (content + 100..content + 400).contains(&bytes_in)
            && (content + 100..content + 400).contains(&bytes_out),
        "{line}"
    );
}

#[test]
fn what_comes_behind_the_heads_is_not_lost() {
    let front = start("tunnel-ahead", "");
    let mut client = front.client();
    let fields: String = WEBSOCKET
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    client
        .send(format!(
            "GET /echo HTTP/1.1\r\nHost: x\r\n{fields}\r\nahead"
        ))
        .unwrap();
    assert_eq!(client.read_response().unwrap().status, 101);
    assert_eq!(client.read_bytes(5).unwrap(), b"ahead");
    let mut client = upgraded(&front, "/greets");
    assert_eq!(client.read_bytes(11).unwrap(), b"hello there");
    assert!(client.closed_within(Duration::from_secs(10)) || client.finish_sending().is_ok());
}

/// The request that asks for HTTP/2 is a stream's, and its other proposals end there.
#[test]
fn a_change_to_http2_is_no_websocket() {
    let (heads, heard) = mpsc::channel();
    let address = backend(move |mut stream| {
        let head = read_head(&mut stream).unwrap_or_default();
        let _ = stream.write_all(switching(&head).as_bytes());
        let _ = heads.send(head);
    });
    let front = Front::start(
        "tunnel-h2c",
        &format!(
            "LoadModule proxy_module modules/mod_proxy.so\nProxyPass / http://{address}/ upgrade=ANY\n"
        ),
    );
    let mut client = front.client();
    client
        .send(
            "GET /echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c, websocket\r\n\
             HTTP2-Settings: AAMAAABkAAQAAP__\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\
             PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        )
        .unwrap();
    let head = heard.recv_timeout(PATIENCE).unwrap();
    assert_eq!(field(&head, "upgrade"), None, "{head}");
    assert_eq!(field(&head, "http2-settings"), None, "{head}");
    let lines = front.log(1);
    assert!(lines[0].contains(" 502 "), "{lines:?}");
}

#[test]
fn only_what_was_asked_for_is_passed_on() {
    let front = start("tunnel-asked", "");
    let told = |fields: &[(&str, &str)]| {
        let mut client = front.client();
        let head = client.request("GET", "/head", fields).unwrap();
        (head.status == 101).then(|| {
            client.finish_sending().unwrap();
            String::from_utf8(client.read_to_close(Duration::from_secs(10)).unwrap()).unwrap()
        })
    };
    let head = told(WEBSOCKET).unwrap();
    assert_eq!(
        (field(&head, "upgrade"), field(&head, "connection")),
        (Some("websocket"), Some("upgrade")),
        "{head}"
    );
    // HTTP itself is never passed on: what is said in it would pass by all rules.
    let head = told(&[("Connection", "upgrade"), ("Upgrade", "h2c, foo/1")]).unwrap();
    assert_eq!(field(&head, "upgrade"), Some("foo/1"), "{head}");
    assert_eq!(told(&[("Connection", "upgrade"), ("Upgrade", "h2c")]), None);
    assert_eq!(
        told(&[("Upgrade", "websocket")]),
        None,
        "without Connection it says nothing"
    );
    let mut client = front.client();
    client
        .send("GET /head HTTP/1.0\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
        .unwrap();
    assert_eq!(
        client.read_response().unwrap().status,
        502,
        "HTTP/1.0 can't ask"
    );
}

#[test]
fn answers_that_are_no_tunnel() {
    let front = start("tunnel-none", "");
    let rows = [
        ("/refuse", 403, 403),
        ("/plain", 200, 501),
        ("/other", 502, 502),
        ("/page.txt", 200, 501),
    ];
    for (path, over_http1, over_http2) in rows {
        let mut client = front.client();
        let answer = client.request("GET", path, WEBSOCKET).unwrap();
        assert_eq!(answer.status, over_http1, "{path}: {answer:?}");
        if over_http1 < 500 {
            assert_eq!(
                client.get("/page.txt").unwrap().text(),
                "page\n",
                "{path}: the connection goes on"
            );
        }
        let mut client = Http2::connect(front.address).greeted();
        let stream = client.connect_to(path, "websocket");
        let heard = client.until(stream, |heard| heard.has_ended);
        assert_eq!(heard.status, over_http2, "{path}");
    }
    let mut client = Http2::connect(front.address).greeted();
    let stream = client.connect_to("/unproved", "websocket");
    assert_eq!(
        client.until(stream, |heard| heard.has_ended).status,
        502,
        "the proof is looked at"
    );
}

#[test]
fn bytes_pass_both_ways_over_http2() {
    let front = start("tunnel-h2", "");
    let mut client = Http2::connect(front.address).greeted();
    assert!(client.machine.peer_allows_extended_connect());
    let (one, other) = (
        client.connect_to("/echo", "websocket"),
        client.connect_to("/echo", "foo"),
    );
    for stream in [one, other] {
        assert_eq!(client.until(stream, |heard| heard.status != 0).status, 200);
        assert_eq!(
            (
                client.streams[&stream].field("upgrade"),
                client.streams[&stream].field("sec-websocket-accept")
            ),
            (None, None)
        );
    }
    // More than all windows together.
    let long: Vec<u8> = (0..3_000_000u32)
        .map(|number| (number % 251) as u8)
        .collect();
    client.send(other, b"small", false);
    client.send(one, &long, false);
    assert!(
        client
            .until(one, |heard| heard.data.len() >= long.len())
            .data
            == long
    );
    assert_eq!(
        client.until(other, |heard| heard.data.len() >= 5).data,
        b"small"
    );
    client.send(one, b"", true);
    assert!(client.until(one, |heard| heard.has_ended).reset.is_none());
    client.send(other, b"still here", false);
    assert_eq!(
        client.until(other, |heard| heard.data.len() >= 15).data,
        b"smallstill here"
    );
    let line = front.log(1).remove(0);
    assert!(line.starts_with("GET /echo HTTP/2.0 200 30"), "{line}");
}

#[test]
fn either_end_may_end_first() {
    let front = start("tunnel-ends", "");
    let mut client = upgraded(&front, "/late");
    assert_eq!(
        client.read_to_close(Duration::from_secs(10)).unwrap(),
        b"bye"
    );
    client.send("heard").unwrap();
    client.finish_sending().unwrap();
    let mut client = Http2::connect(front.address).greeted();
    let stream = client.connect_to("/late", "websocket");
    assert_eq!(client.until(stream, |heard| heard.has_ended).data, b"bye");
    client.send(stream, b"heard", true);
    front.log(2);
    wait_until("both clients are heard out", || {
        LATE.lock().unwrap().len() >= 2
    });
    assert_eq!(*LATE.lock().unwrap(), ["heard", "heard"]);
}

#[test]
fn a_program_that_breaks_off_is_seen_to() {
    let front = start("tunnel-reset", "");
    let mut client = upgraded(&front, "/reset");
    assert_eq!(
        client.read_to_close(Duration::from_secs(10)).unwrap(),
        b"par"
    );
    let mut client = Http2::connect(front.address).greeted();
    let stream = client.connect_to("/reset", "websocket");
    let heard = client.until(stream, |heard| heard.reset.is_some() || heard.has_ended);
    assert!(heard.reset.is_some() && heard.data == b"par");
    let errors = || std::fs::read_to_string(front.dir.join("error.log")).unwrap();
    wait_until("both are logged", || {
        errors().matches("SK0902").count() == 2
    });
    assert_eq!(front.client().get("/page.txt").unwrap().status, 200);
}

#[test]
fn a_client_that_goes_takes_the_connection_behind_it_along() {
    let (gone, ended) = mpsc::channel();
    let address: SocketAddr = backend(move |mut stream| {
        let Some(head) = read_head(&mut stream) else {
            return;
        };
        stream.write_all(switching(&head).as_bytes()).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
        gone.send(()).unwrap();
    });
    let front = Front::start(
        "tunnel-gone",
        &format!(
            "LoadModule proxy_module modules/mod_proxy.so\nProxyPass / http://{address}/ upgrade=ANY"
        ),
    );
    drop(upgraded(&front, "/x"));
    ended
        .recv_timeout(Duration::from_secs(10))
        .expect("closed after a client of HTTP/1.1");
    let mut client = Http2::connect(front.address).greeted();
    let (one, other) = (
        client.connect_to("/x", "websocket"),
        client.connect_to("/x", "websocket"),
    );
    client.until(one, |heard| heard.status == 200);
    client.until(other, |heard: &Heard| heard.status == 200);
    client.reset(one);
    ended
        .recv_timeout(Duration::from_secs(10))
        .expect("closed after a reset");
    drop(client);
    ended
        .recv_timeout(Duration::from_secs(10))
        .expect("closed with its connection");
}

#[test]
fn a_deaf_program_makes_the_client_wait() {
    let front = start("tunnel-deaf", "");
    let before = front.process.tree().memory().anonymous_bytes;
    let mut socket = TcpStream::connect(front.address).unwrap();
    let fields: String = WEBSOCKET
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    socket
        .write_all(format!("GET /deaf HTTP/1.1\r\nHost: x\r\n{fields}\r\n").as_bytes())
        .unwrap();
    assert!(read_head(&mut socket).is_some_and(|head| head.starts_with("HTTP/1.1 101 ")));
    // Ends with the server, in the middle of it.
    let sender = thread::spawn(move || socket.write_all(&vec![0; 200 << 20]).is_err());
    let grown = || {
        let now = front.process.tree().memory().anonymous_bytes;
        now.saturating_sub(before)
    };
    holds_for("the tunnel keeps little", Duration::from_secs(2), || {
        grown() < 8 << 20
    });
    assert!(!sender.is_finished());
    drop(front);
    assert!(sender.join().unwrap());
}

#[test]
fn over_http2_only_where_the_listener_allows_it() {
    for (listener, is_allowed) in [("", true), ("http2_websockets = false\n", false)] {
        let text = crate::operate::configuration("workers = 1", "");
        let text = text.replace("[[site]]", &format!("http2 = true\n{listener}\n[[site]]"));
        let saker = crate::operate::start("h2-websockets", &text);
        let client = Http2::connect(saker.server.address()).greeted();
        assert_eq!(client.machine.peer_allows_extended_connect(), is_allowed);
    }
}

#[test]
fn over_http2_only_where_it_is_allowed() {
    let front = start("tunnel-off", "H2WebSockets off");
    let mut client = Http2::connect(front.address).greeted();
    assert!(!client.machine.peer_allows_extended_connect());
    let stream = client.connect_to("/echo", "websocket");
    assert!(
        client
            .until(stream, |heard| heard.reset.is_some())
            .reset
            .is_some()
    );
    assert_eq!(upgraded(&front, "/greets").read_bytes(5).unwrap(), b"hello");
}

#[test]
fn silent_tunnels_cost_little() {
    const TUNNELS: usize = 1000;
    const BYTES_MAX: usize = 20_000;
    let front = start("tunnel-memory", "");
    let open = |count: usize| -> Vec<Client> {
        let clients = (0..count).map(|_| {
            let mut client = upgraded(&front, "/echo");
            client.send(vec![b'x'; 4000]).unwrap();
            assert_eq!(client.read_bytes(4000).unwrap().len(), 4000);
            client
        });
        clients.collect()
    };
    let first = open(20);
    let before = front.process.tree().memory().rss_bytes;
    let more = open(TUNNELS);
    let each = front
        .process
        .tree()
        .memory()
        .rss_bytes
        .saturating_sub(before) as usize
        / TUNNELS;
    assert!(each < BYTES_MAX, "{each} bytes for each over HTTP/1.1");
    let mut client = Http2::connect(front.address).greeted();
    let before = front.process.tree().memory().rss_bytes;
    let mut streams = Vec::new();
    for _ in 0..100 {
        let stream = client.connect_to("/echo", "websocket");
        client.send(stream, &[b'x'; 4000], false);
        client.until(stream, |heard| heard.data.len() == 4000);
        streams.push(stream);
    }
    let each = front
        .process
        .tree()
        .memory()
        .rss_bytes
        .saturating_sub(before) as usize
        / streams.len();
    assert!(each < BYTES_MAX, "{each} bytes for each over HTTP/2");
    drop((first, more));
}

/// A forward proxy: to the ports that are allowed, for those whom a rule lets, and never without
/// one.
#[test]
fn connect_is_for_those_whom_a_rule_lets() {
    let address = upgrades::backend(|mut stream| {
        let (mut reader, mut piece) = (stream.try_clone().unwrap(), [0; 1000]);
        while let Ok(bytes @ 1..) = std::io::Read::read(&mut reader, &mut piece) {
            std::io::Write::write_all(&mut stream, &piece[..bytes]).unwrap();
        }
    });
    let modules = "LoadModule proxy_module modules/mod_proxy.so\nLoadModule proxy_connect_module modules/mod_proxy_connect.so\nProxyRequests On\n";
    let port = address.port();
    let status = |front: &Front| {
        let mut client = front.client();
        client
            .send(format!(
                "CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n"
            ))
            .unwrap();
        client.read_response().unwrap().status
    };
    let open = Front::start("connect-open", &format!("{modules}AllowCONNECT {port}\n"));
    assert_eq!(status(&open), 403, "no rule lets anybody");
    let usual = Front::start(
        "connect-usual",
        &format!("{modules}<Proxy *>\nRequire local\n</Proxy>\n"),
    );
    assert_eq!(
        status(&usual),
        403,
        "443 and 563 are the ports where none are named"
    );
    let front = Front::start(
        "connect",
        &format!("{modules}AllowCONNECT {port}\n<Proxy *>\nRequire local\n</Proxy>\n"),
    );
    let mut client = front.client();
    client
        .send(format!(
            "CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\nearly"
        ))
        .unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(client.read_bytes(1).unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    assert!(
        head.starts_with("http/1.1 200 ")
            && !head.contains("content-length")
            && !head.contains("transfer-encoding"),
        "{head}"
    );
    assert_eq!(client.read_bytes(5).unwrap(), b"early");
    client.send("later").unwrap();
    assert_eq!(client.read_bytes(5).unwrap(), b"later");
    drop(client);
    assert!(
        front.log(1)[0].starts_with(&format!("CONNECT {address} HTTP/1.1 200 ")),
        "{:?}",
        front.log(1)
    );
}
