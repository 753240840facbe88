//! Streams to servers: a real database, weights, standbys, failures, datagrams, limits, logs.
//!
//! Called by: `mod`.
//! Caveat: Redis and dig come from Debian.

use super::{Streams, connect, dead, named, named_udp, rest, talk};
use saker_testkit::{PATIENCE, ServerProcess, TempDir, free_port, require, wait_until};
use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, UdpSocket},
    os::unix::net::UnixListener,
    process::Command,
    thread,
};

/// Redis without persistence, on a port of its own.
fn redis(dir: &TempDir) -> ServerProcess {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let mut command = Command::new(require("redis-server").unwrap());
    command
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--port", &address.port().to_string(), "--dir"])
        .arg(&**dir);
    ServerProcess::start(&mut command, address).unwrap()
}

fn redis_cli(port: u16, words: &[&str]) -> String {
    let output = Command::new(require("redis-cli").unwrap())
        .args(["-h", "127.0.0.1", "-p", &port.to_string()])
        .args(words)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn redis_through_a_stream() {
    let dir = TempDir::new("stream-redis-server").unwrap();
    let server = redis(&dir);
    let streams = Streams::start(
        "stream-redis",
        &format!(
            "[[upstream]]\nname = \"redis\"\nservers = [\"tcp://{}\"]\nhealth_interval = \"200ms\"\n\
             [[stream]]\nname = \"cache\"\nlisten = \"127.0.0.1:{{p}}\"\nproxy = \"redis\"\n\
             access_log = {{ path = \"{{dir}}/stream.log\", format = \"json\" }}\n",
            server.address()
        ),
    );
    let port = streams.address(0).port();
    assert_eq!(redis_cli(port, &["SET", "a", "one"]), "OK");
    assert_eq!(redis_cli(port, &["GET", "a"]), "one");
    let large = "x".repeat(3 << 20);
    let mut stream = connect(streams.address(0));
    let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nb\r\n${}\r\n", large.len());
    stream
        .write_all(format!("{head}{large}\r\n").as_bytes())
        .unwrap();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+OK\r\n");
    drop(stream);
    assert_eq!(redis_cli(port, &["STRLEN", "b"]), large.len().to_string());
    let lines = streams.lines("stream.log", 4);
    let line: serde_json::Value = serde_json::from_str(&lines[2]).unwrap();
    assert_eq!(line["stream"], "cache", "{line}");
    assert_eq!(line["status"], 200, "{line}");
    assert_eq!(
        line["bytes_received"],
        (head.len() + large.len() + 2) as u64,
        "{line}"
    );
    assert_eq!(line["bytes_sent"], 5, "{line}");
    assert_eq!(
        line["upstream_addr"],
        server.address().to_string(),
        "{line}"
    );
    assert_eq!(line["protocol"], "TCP", "{line}");
    assert!(
        line["sni"].is_null() && line["session_time"].is_number(),
        "{line}"
    );
    assert!(streams.metric("saker_stream_sessions_total{protocol=\"tcp\"}") >= 4);
    assert!(streams.metric("saker_stream_bytes_received_total") >= large.len() as u64);
}

#[test]
fn weights_standbys_and_failures() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    // A server that has failed is not used for a while, by any stream.
    let (gone, other) = (dead(), dead());
    let streams = Streams::start(
        "stream-weights",
        &format!(
            "[[stream]]\nlisten = \"127.0.0.1:{{p}}\"\n\
             proxy = [{{ address = \"{a}\", weight = 3 }}, \"tcp://{b}\", {{ address = \"{c}\", standby = true }}]\n\
             [[stream]]\nlisten = \"127.0.0.1:{{q}}\"\nproxy = [\"{gone}\", {{ address = \"{c}\", standby = true }}]\n\
             [[upstream]]\nname = \"one-try\"\nservers = [\"tcp://{other}\", \"tcp://{a}\"]\nattempts = 1\n\
             [[stream]]\nlisten = \"127.0.0.1:{{r}}\"\nproxy = \"one-try\"\naccess_log = \"{{dir}}/stream.log\"\n"
        ),
    );
    let mut heard: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..8 {
        *heard.entry(talk(streams.address(0), "x")).or_default() += 1;
    }
    assert_eq!(heard.get("a\nx"), Some(&6), "{heard:?}");
    assert_eq!(heard.get("b\nx"), Some(&2), "{heard:?}");
    assert_eq!(talk(streams.address(1), "y"), "c\ny");
    // The first is tried, and no other one.
    assert_eq!(rest(&mut connect(streams.address(2))), "");
    let lines = streams.lines("stream.log", 1);
    assert!(
        lines[0].contains(" 502 ") && lines[0].contains(&format!("\"{other}\"")),
        "{lines:?}"
    );
    assert!(streams.metric("saker_stream_sessions_unreachable_total") >= 1);
}

#[test]
fn silent_servers_have_their_time_and_the_next_one_follows() {
    let b = named("b");
    // The kernel accepts the connections, and no handshake follows. With the default timeout for
    // each, the client would wait for longer than its patience.
    let silent = [(); 6].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let servers: Vec<String> = silent
        .iter()
        .map(|server| format!("\"tls://{}\"", server.local_addr().unwrap()))
        .collect();
    let streams = Streams::start(
        "stream-connect-timeout",
        &format!(
            "[[stream]]\nlisten = \"127.0.0.1:{{p}}\"\nconnect_timeout = \"100ms\"\n\
             proxy = [{}, {{ address = \"{b}\", standby = true }}]\n",
            servers.join(", ")
        ),
    );
    assert_eq!(talk(streams.address(0), "x"), "b\nx");
}

#[test]
fn large_logs_are_rotated() {
    let a = named("a");
    let streams = Streams::start(
        "stream-rotation",
        &format!(
            "[[stream]]\nlisten = \"127.0.0.1:{{p}}\"\nproxy = \"{a}\"\n\
             access_log = {{ path = \"{{dir}}/stream.log\", format = \"$remote_addr {} end\", rotate = {{ size = \"1KiB\", keep = 1000 }} }}\n",
            "x".repeat(200)
        ),
    );
    let renamed = || {
        let entries = fs::read_dir(&*streams.saker.dir).unwrap().flatten();
        let mut paths = entries.map(|entry| entry.path());
        paths.find(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("stream.log.")
        })
    };
    wait_until("a log is renamed", || {
        rest_with_end(&streams);
        renamed().is_some()
    });
    let path = renamed().unwrap();
    let mut text = String::new();
    // Its last line may be in the writing still.
    wait_until("its lines are whole", || {
        text = fs::read_to_string(&path).unwrap();
        text.len() >= 1 << 10 && text.ends_with(" end\n")
    });
    for line in text.lines() {
        assert!(
            line.starts_with("127.0.0.1 x") && line.ends_with(" end"),
            "{line}"
        );
    }
}

#[test]
fn an_end_of_one_direction_is_passed_on() {
    let a = named("a");
    let streams = Streams::start(
        "stream-half-close",
        &format!(
            "[[stream]]\nlisten = \"127.0.0.1:{{p}}\"\nproxy = \"{a}\"\n\
             [[stream]]\nlisten = \"127.0.0.1:{{q}}\"\nproxy = \"{a}\"\nhalf_close = false\n"
        ),
    );
    let mut stream = streams.connect();
    stream.write_all(b"all").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&mut stream), "a\nallbye\n");
    let mut stream = connect(streams.address(1));
    let mut name = [0; 2];
    stream.read_exact(&mut name).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(!rest(&mut stream).contains("bye"), "both directions end");
}

#[test]
fn a_unix_socket_on_both_sides() {
    let dir = crate::operate::folder("stream-unix");
    let behind = UnixListener::bind(dir.join("behind.sock")).unwrap();
    thread::spawn(move || {
        for mut stream in behind.incoming().flatten() {
            let _ = stream.write_all(b"behind");
        }
    });
    let streams = Streams::start_in(
        dir,
        "[[stream]]\nlisten = [\"127.0.0.1:{p}\", \"unix:{dir}/front.sock\"]\nproxy = \"unix:{dir}/behind.sock\"\n",
    );
    assert_eq!(rest(&mut streams.connect()), "behind");
    let path = streams.saker.dir.join("front.sock");
    let mut front = std::os::unix::net::UnixStream::connect(path).unwrap();
    front.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut heard = String::new();
    front.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "behind");
}

/// Asks over UDP; `None`: no answer comes.
fn ask(socket: &UdpSocket, text: &str) -> Option<String> {
    socket.send(text.as_bytes()).unwrap();
    let mut buffer = [0; 65_535];
    let bytes = socket.recv(&mut buffer).ok()?;
    Some(String::from_utf8_lossy(&buffer[..bytes]).into_owned())
}

fn datagrams(address: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

#[test]
fn datagrams_of_clients_stay_apart() {
    let (a, b) = (named_udp("a"), named_udp("b"));
    let streams = Streams::start(
        "stream-udp",
        &format!(
            "[[stream]]\nlisten = \"udp:127.0.0.1:{{p}}\"\nproxy = \"udp://{a}\"\nconnections_per_client = 2\n\
             access_log = {{ path = \"{{dir}}/stream.log\", format = \"$protocol $status $bytes_received $bytes_sent\" }}\n\
             [[stream]]\nlisten = \"udp:127.0.0.1:{{q}}\"\nproxy = [\"{a}\", \"{b}\"]\nresponses = 1\nrequests = 1\n\
             access_log = {{ path = \"{{dir}}/once.log\", format = \"$upstream_addr\" }}\n"
        ),
    );
    let (one, two) = (datagrams(streams.address(0)), datagrams(streams.address(0)));
    assert_eq!(ask(&one, "1").unwrap(), "a 1");
    assert_eq!(ask(&two, "2").unwrap(), "a 2");
    assert_eq!(ask(&one, "3").unwrap(), "a 3");
    let large = "x".repeat(60_000);
    assert_eq!(ask(&two, &large).unwrap(), format!("a {large}"));
    // A third client of the same address has no place.
    let three = datagrams(streams.address(0));
    three.send(b"4").unwrap();
    let lines = streams.lines("stream.log", 1);
    assert_eq!(lines[0], "UDP 503 0 0");
    assert!(streams.metric("saker_stream_sessions_refused_total") >= 1);
    // Each datagram is a session where that is said, and goes to the next server.
    let other = datagrams(streams.address(1));
    let mut heard: Vec<String> = (0..4).map(|_| ask(&other, "n").unwrap()).collect();
    heard.sort();
    assert_eq!(heard, ["a n", "a n", "b n", "b n"]);
    streams.lines("once.log", 4);
}

#[test]
fn a_session_over_udp_has_its_number_of_requests() {
    let (a, b) = (named_udp("a"), named_udp("b"));
    let streams = Streams::start(
        "stream-udp-requests",
        &format!(
            "[[stream]]\nlisten = \"udp:127.0.0.1:{{p}}\"\nproxy = [\"{a}\", \"{b}\"]\nrequests = 2\n"
        ),
    );
    let client = datagrams(streams.address(0));
    let heard: Vec<String> = (0..4).map(|_| ask(&client, "n").unwrap()).collect();
    assert_eq!(heard, ["a n", "a n", "b n", "b n"]);
}

#[test]
fn dns_over_tcp_and_udp() {
    // An answer for every question: the header, the question, and one address.
    fn answer(question: &[u8]) -> Vec<u8> {
        let mut end = 12;
        while question[end] != 0 {
            end += 1 + usize::from(question[end]);
        }
        let asked = &question[12..end + 5];
        let head = [&question[..2], &[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]].concat();
        let record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 53];
        [&head, asked, &record].concat()
    }
    let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let udp = UdpSocket::bind(address).unwrap();
    let tcp = TcpListener::bind(address).unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((bytes, from)) = udp.recv_from(&mut buffer) {
            udp.send_to(&answer(&buffer[..bytes]), from).unwrap();
        }
    });
    thread::spawn(move || {
        for mut stream in tcp.incoming().flatten() {
            let mut length = [0; 2];
            stream.read_exact(&mut length).unwrap();
            let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
            stream.read_exact(&mut question).unwrap();
            let answer = answer(&question);
            let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
            stream.write_all(&[&length[..], &answer].concat()).unwrap();
        }
    });
    let streams = Streams::start(
        "stream-dns",
        &format!(
            "[[stream]]\nlisten = [\"127.0.0.1:{{p}}\", \"udp:127.0.0.1:{{p}}\"]\nproxy = \"{address}\"\nresponses = 1\n"
        ),
    );
    let port = streams.address(0).port().to_string();
    for more in ["+notcp", "+tcp"] {
        let output = Command::new(require("dig").unwrap())
            .args([
                "@127.0.0.1",
                "-p",
                &port,
                "+short",
                "+noedns",
                more,
                "www.example.test",
            ])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.trim(), "192.0.2.53", "{more}: {output:?}");
    }
}

#[test]
fn connections_have_limits() {
    let a = named("a");
    let streams = Streams::start(
        "stream-limits",
        &format!(
            "[[stream]]\nlisten = \"127.0.0.1:{{p}}\"\nproxy = \"{a}\"\nconnections = 3\nconnections_per_client = 2\n\
             proxy_protocol_from = [\"127.0.0.0/8\"]\n\
             access_log = {{ path = \"{{dir}}/stream.log\", format = \"$remote_addr $status\" }}\n"
        ),
    );
    let begin = |client: &str| {
        let mut stream = streams.connect();
        let family = if client.contains(':') { "TCP6" } else { "TCP4" };
        let to = if client.contains(':') {
            "2001:db8::2"
        } else {
            "203.0.113.1"
        };
        stream
            .write_all(format!("PROXY {family} {client} {to} 5000 443\r\n").as_bytes())
            .unwrap();
        stream
    };
    let served = |client: &str| {
        let mut stream = begin(client);
        let mut name = [0; 2];
        stream.read_exact(&mut name).unwrap();
        stream
    };
    let (first, second) = (served("192.0.2.1"), served("192.0.2.1"));
    assert_eq!(rest(&mut begin("192.0.2.1")), "", "two of a client");
    let third = served("2001:db8::1");
    assert_eq!(rest(&mut begin("192.0.2.9")), "", "three of all");
    assert_eq!(
        streams.lines("stream.log", 2),
        ["192.0.2.1 503", "192.0.2.9 503"]
    );
    drop((first, second, third));
    streams.lines("stream.log", 5);
    // A /64 is one client.
    let (_first, _second) = (served("2001:db8::1"), served("2001:db8::2"));
    assert_eq!(rest(&mut begin("2001:db8::3")), "");
}

#[test]
fn a_silent_session_ends_and_a_slow_one_has_its_rate() {
    let a = named("a");
    let streams = Streams::start(
        "stream-idle",
        &format!(
            "[[stream]]\nlisten = \"127.0.0.1:{{p}}\"\nproxy = \"{a}\"\nidle_timeout = \"300ms\"\n\
             [[stream]]\nlisten = \"127.0.0.1:{{q}}\"\nproxy = \"{a}\"\nupload_rate = \"1KB/s\"\n\
             access_log = {{ path = \"{{dir}}/stream.log\", format = \"$bytes_received $session_time\" }}\n\
             [[stream]]\nlisten = \"127.0.0.1:{{r}}\"\nproxy = \"{a}\"\ndownload_rate = \"1KB/s\"\n\
             access_log = {{ path = \"{{dir}}/down.log\", format = \"$session_time\" }}\n"
        ),
    );
    assert_eq!(rest(&mut streams.connect()), "a\n", "ends by itself");
    let mut stream = connect(streams.address(1));
    stream.write_all(&[b'x'; 2500]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&mut stream).len(), "a\n".len() + 2500 + "bye\n".len());
    let lines = streams.lines("stream.log", 1);
    let (bytes, time) = lines[0].split_once(' ').unwrap();
    assert_eq!(bytes, "2500");
    // The first second's share passes at once; the rest takes its time.
    assert!(time.parse::<f64>().unwrap() >= 1.0, "{lines:?}");
    // The echo has a rate of its own.
    let mut stream = connect(streams.address(2));
    stream.write_all(&[b'x'; 2500]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&mut stream).len(), "a\n".len() + 2500 + "bye\n".len());
    let lines = streams.lines("down.log", 1);
    assert!(lines[0].parse::<f64>().unwrap() >= 1.0, "{lines:?}");
}

#[test]
fn a_server_that_is_ill_is_left_out() {
    let (a, gone) = (named("a"), dead());
    let streams = Streams::start(
        "stream-health",
        &format!(
            "[[upstream]]\nname = \"checked\"\nservers = [\"tcp://{gone}\", \"tcp://{a}\"]\n\
             health_interval = \"100ms\"\nhealth_fall = 1\nattempts = 1\n\
             [[stream]]\nlisten = \"127.0.0.1:{{p}}\"\nproxy = \"checked\"\n"
        ),
    );
    wait_until("the check has found it", || {
        (0..4).all(|_| rest_with_end(&streams) == "a\nbye\n")
    });
    assert!((0..4).all(|_| rest_with_end(&streams) == "a\nbye\n"));
}

/// Everything that a client hears which says nothing.
fn rest_with_end(streams: &Streams) -> String {
    let mut stream = streams.connect();
    let _ = stream.shutdown(Shutdown::Write);
    rest(&mut stream)
}
