//! The block `stream`, read by nginx and by Saker: the same sessions over TCP and UDP, with the
//! same bytes at clients, at upstreams, and in logs.
//!
//! Called by: `cargo test -p saker --test applications nginx_stream`.
//! Caveat: both servers have the same upstreams, which say who they are.

use crate::nginx_pair::{Pair, SECOND};
use saker_testkit::wait_until;
use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket},
    path::Path,
    thread,
    time::Duration,
};

/// Time after which a silent end counts as dead.
const PATIENCE: Duration = Duration::from_secs(20);

/// Upstreams that say who they are, and then what they hear.
struct Upstreams {
    ports: Vec<u16>,
    datagrams: u16,
}

impl Upstreams {
    fn start() -> Upstreams {
        let ports = ["a", "b", "c"].map(|name| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    thread::spawn(move || echo(stream, name));
                }
            });
            port
        });
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let datagrams = socket.local_addr().unwrap().port();
        thread::spawn(move || {
            let mut buffer = [0; 65_535];
            while let Ok((bytes, from)) = socket.recv_from(&mut buffer) {
                let answer = [b"heard ", &buffer[..bytes]].concat();
                socket.send_to(&answer, from).unwrap();
            }
        });
        Upstreams {
            ports: ports.into(),
            datagrams,
        }
    }

    /// The upstreams as words of a configuration.
    fn words(&self) -> Vec<(&'static str, String)> {
        let names = ["a", "b", "c"].iter().zip(&self.ports);
        let mut words: Vec<_> = names
            .map(|(name, port)| (*name, format!("127.0.0.1:{port}")))
            .collect();
        words.push(("udp", self.datagrams.to_string()));
        words
    }
}

/// Says its name, then what it hears, and `bye` at the client's end.
fn echo(mut stream: TcpStream, name: &str) {
    let mut buffer = [0; 65_536];
    if stream.write_all(format!("{name}\n").as_bytes()).is_err() {
        return;
    }
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => {
                let _ = stream.write_all(b"bye\n");
                return;
            }
            Ok(bytes) if buffer[..bytes].starts_with(b"end") => return,
            Ok(bytes) => {
                if stream.write_all(&buffer[..bytes]).is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Everything that comes until the end. A reset counts as an end.
fn rest(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => all.extend_from_slice(&buffer[..bytes]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("no end: {error}"),
        }
    }
    String::from_utf8_lossy(&all).replace("127.0.0.2", "127.0.0.1")
}

/// Sends a text behind the upstream's name, and hears both.
fn talk(address: SocketAddr, text: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(text.as_bytes()).unwrap();
    let mut heard = vec![0; 2 + text.len()];
    stream.read_exact(&mut heard).unwrap();
    String::from_utf8(heard).unwrap()
}

/// A socket that has something to say, and hears one answer; `None`: none comes.
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

/// A ClientHello that names a server and a protocol.
fn hello(name: &str) -> Vec<u8> {
    let long = |bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        [&length[..], bytes].concat()
    };
    let extension = |kind: u16, content: &[u8]| [&kind.to_be_bytes()[..], &long(content)].concat();
    let names = long(&[&[0][..], &long(name.as_bytes())].concat());
    let extensions = [
        extension(0, &names),
        extension(16, &long(b"\x02h2\x08http/1.1")),
        extension(43, &[4, 3, 4, 3, 3]),
    ]
    .concat();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &long(&[0x13, 1]),
        &[1, 0],
        &long(&extensions),
    ]
    .concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[1][..], &length[1..], &body].concat();
    [&[22, 3, 1][..], &long(&message)].concat()
}

#[test]
fn nginx_stream_balances_as_nginx() {
    let upstreams = Upstreams::start();
    let pair = Pair::start(
        "nginx-stream-balance",
        &upstreams.words(),
        "log_format f '$remote_addr $protocol $status $bytes_sent $bytes_received $upstream_addr $upstream_bytes_sent $upstream_bytes_received';\n\
         access_log {dir}/access.log f;\n\
         upstream turns { server {a} weight=3; server {b}; server {dead} down; server {c} backup; }\n\
         server { listen {ip}:{p}; proxy_pass turns; }",
    );
    let order = pair.both(|address| {
        let names = (0..8).map(|_| talk(address, "x\n"));
        names.collect::<Vec<_>>()
    });
    assert_eq!(order.iter().filter(|name| name.starts_with('a')).count(), 6);
    let lines = pair.logs_in_any_order("access.log", 8);
    assert!(lines[0].contains(" TCP 200 4 2 "), "{lines:?}");
}

#[test]
fn nginx_stream_keys_lead_to_the_same_members() {
    let upstreams = Upstreams::start();
    for (name, method) in [("share", ""), ("ring", " consistent")] {
        let pair = Pair::start(
            &format!("nginx-stream-{name}"),
            &upstreams.words(),
            &format!(
                "upstream keyed {{ hash $ssl_preread_server_name{method}; server {{a}} weight=2; server {{b}}; server {{c}}; }}\n\
                 server {{ listen {{ip}}:{{p}}; ssl_preread on; proxy_pass keyed; }}"
            ),
        );
        let members = pair.both(|address| {
            let names = (0..24).map(|key| {
                let mut stream = connect(address);
                stream.write_all(&hello(&format!("key{key}.test"))).unwrap();
                let mut name = [0; 1];
                stream.read_exact(&mut name).unwrap();
                name[0]
            });
            names.collect::<Vec<u8>>()
        });
        assert!(
            b"abc".iter().all(|name| members.contains(name)),
            "{members:?}"
        );
    }
}

#[test]
fn nginx_stream_tries_the_next_member() {
    let upstreams = Upstreams::start();
    let pair = Pair::start(
        "nginx-stream-next",
        &upstreams.words(),
        "log_format f '$status $upstream_addr';\naccess_log {dir}/access.log f;\n\
         upstream some { server {dead}; server {a}; }\n\
         upstream spare { server {dead}; server {c} backup; }\n\
         server { listen {ip}:{p}; proxy_pass some; }\n\
         server { listen {ip}:{q}; proxy_pass spare; }\n\
         server { listen {ip}:{r}; proxy_next_upstream off; proxy_pass {dead}; }",
    );
    assert_eq!(pair.both(|address| talk(address, "x")), "a\nx");
    assert_eq!(pair.both(|address| talk(address, "y")), "a\ny");
    let text = fs::read_to_string(pair.dir.join("saker/nginx.conf")).unwrap();
    let port_of = |tail: &str| {
        let line = text.lines().find(|line| line.ends_with(tail)).unwrap();
        let port = line.split(':').nth(1).unwrap().split(';').next().unwrap();
        port.parse::<u16>().unwrap()
    };
    let spare = port_of("proxy_pass spare; }");
    let at = |port: u16| move |address: SocketAddr| SocketAddr::new(address.ip(), port);
    assert_eq!(pair.both(|address| talk(at(spare)(address), "x")), "c\nx");
    let dead = text
        .lines()
        .find(|line| line.contains("next_upstream off"))
        .unwrap();
    let dead: u16 = dead
        .split(':')
        .nth(1)
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(
        pair.both(|address| rest(&mut connect(at(dead)(address)))),
        ""
    );
}

#[test]
fn nginx_stream_evaluates_variables() {
    let upstreams = Upstreams::start();
    let pair = Pair::start(
        "nginx-stream-variables",
        &upstreams.words(),
        "map $ssl_preread_server_name $target { hostnames; default nothing; a.test first; *.b.test second; ~^c(?<rest>.*)\\.test$ $rest; }\n\
         map $ssl_preread_alpn_protocols $alpn { default other; ~\\bh2\\b h2; }\n\
         geo $net { default out; 127.0.0.0/8 loop; 10.0.0.0/8 ten; }\n\
         geo $proxy_protocol_addr $far { default far; 192.0.2.0/24 near; }\n\
         split_clients $remote_addr $half { 50% low; * high; }\n\
         server { listen {ip}:{p}; ssl_preread on; set $kept \"$server_port/$net\"; \
         return '$kept|$target/$alpn|$ssl_preread_protocol|$net|$far|$half|$protocol|$server_port|$remote_addr|$status|$rest|${alpn}x'; }",
    );
    for name in ["a.test", "x.b.test", "cxyz.test", "d.test", "A.TEST"] {
        let heard = pair.both(|address| {
            let mut stream = connect(address);
            stream.write_all(&hello(name)).unwrap();
            rest(&mut stream)
        });
        assert!(heard.contains("/h2|TLSv1.3|loop|far|"), "{heard}");
    }
    // Not TLS; and bytes that come one by one.
    pair.both(|address| {
        let mut stream = connect(address);
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        rest(&mut stream)
    });
    let slow = pair.both(|address| {
        let mut stream = connect(address);
        stream.set_nodelay(true).unwrap();
        for byte in hello("a.test") {
            stream.write_all(&[byte]).unwrap();
        }
        rest(&mut stream)
    });
    assert!(slow.contains("|first/h2|"), "{slow}");
}

#[test]
fn nginx_stream_compares_nothing_with_no_expression() {
    let pair = Pair::start(
        "nginx-stream-empty",
        &[],
        "map $ssl_preread_server_name $name { default none; ~^$ empty; ~.* any; }\n\
         geo $ssl_preread_server_name $place { default far; 255.255.255.255 nowhere; }\n\
         server { listen {ip}:{p}; ssl_preread on; return '[$name|$place]'; }",
    );
    let heard = pair.both(|address| {
        let mut stream = connect(address);
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        rest(&mut stream)
    });
    assert_eq!(heard, "[none|nowhere]");
    let heard = pair.both(|address| {
        let mut stream = connect(address);
        stream.write_all(&hello("a.test")).unwrap();
        rest(&mut stream)
    });
    assert_eq!(heard, "[any|nowhere]");
}

#[test]
fn nginx_stream_refuses_as_nginx() {
    let upstreams = Upstreams::start();
    let pair = Pair::start(
        "nginx-stream-access",
        &upstreams.words(),
        "log_format f '$remote_addr $status $limit_conn_status';\naccess_log {dir}/access.log f;\n\
         limit_conn_zone $binary_remote_addr zone=z:1m;\n\
         server { listen {ip}:{p} proxy_protocol; set_real_ip_from 127.0.0.1; limit_conn z 1; \
         deny 192.0.2.1; allow 192.0.2.0/24; allow 198.51.100.0/24; deny all; proxy_pass {a}; }",
    );
    let from = |client: &str| format!("PROXY TCP4 {client} 203.0.113.1 5000 443\r\n");
    let begin = |address: SocketAddr, client: &str| {
        let mut stream = connect(address);
        stream.write_all(from(client).as_bytes()).unwrap();
        stream
    };
    for refused in ["192.0.2.1", "203.0.113.5"] {
        assert_eq!(pair.both(|address| rest(&mut begin(address, refused))), "");
    }
    let heard = pair.both(|address| {
        let mut first = begin(address, "192.0.2.7");
        let mut name = [0; 2];
        first.read_exact(&mut name).unwrap();
        let second = rest(&mut begin(address, "192.0.2.7"));
        let mut other = begin(address, "198.51.100.9");
        let mut also = [0; 2];
        other.read_exact(&mut also).unwrap();
        (name, second, also)
    });
    assert_eq!(heard, (*b"a\n", String::new(), *b"a\n"));
    // No header, and one that is cut.
    for bytes in [
        &b"hello there, no header at all\r\n"[..],
        b"PROXY TCP4 x y z\r\n",
    ] {
        pair.both(|address| {
            let mut stream = connect(address);
            stream.write_all(bytes).unwrap();
            rest(&mut stream)
        });
    }
    wait_until("the sessions are logged", || {
        ["nginx", "saker"].iter().all(|folder| {
            let text = fs::read_to_string(pair.dir.join(format!("{folder}/access.log")));
            text.is_ok_and(|text| text.lines().count() == 7)
        })
    });
    let sorted = |folder: &str| {
        let text = fs::read_to_string(pair.dir.join(format!("{folder}/access.log"))).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted("saker"), sorted("nginx"));
    assert!(sorted("nginx").contains(&"192.0.2.7 503 REJECTED".to_owned()));
}

#[test]
fn nginx_stream_sends_and_reads_proxy_headers() {
    let upstreams = Upstreams::start();
    let pair = Pair::start(
        "nginx-stream-preface",
        &upstreams.words(),
        "server { listen {ip}:{p}; proxy_protocol on; proxy_pass {ip}:{q}; }\n\
         server { listen {ip}:{q} proxy_protocol; set_real_ip_from 127.0.0.0/8; proxy_protocol on; proxy_pass {ip}:{r}; }\n\
         server { listen {ip}:{r} proxy_protocol; \
         return '$remote_addr $proxy_protocol_addr $proxy_protocol_server_addr $proxy_protocol_server_port $realip_remote_addr'; }",
    );
    let heard = pair.both(|address| {
        let text = rest(&mut connect(address));
        text.replace(&address.port().to_string(), "P")
    });
    assert_eq!(heard.split(' ').nth(1), Some("127.0.0.1"), "{heard}");
}

#[test]
fn nginx_stream_sends_a_proxy_header_before_the_first_datagram() {
    let upstreams = Upstreams::start();
    let pair = Pair::start(
        "nginx-stream-preface-udp",
        &upstreams.words(),
        "server { listen {ip}:{p} udp; proxy_protocol on; proxy_pass 127.0.0.1:{udp}; }\n\
         server { listen {ip}:{q} udp; return a; }\nserver { listen {ip}:{r} udp; return a; }",
    );
    pair.both(|address| {
        let socket = datagrams(address);
        let own = socket.local_addr().unwrap();
        let header = format!(
            "PROXY TCP4 {} {} {} {}",
            own.ip(),
            address.ip(),
            own.port(),
            address.port()
        );
        assert_eq!(
            ask(&socket, "one").unwrap(),
            format!("heard {header}\r\none")
        );
        assert_eq!(ask(&socket, "two").unwrap(), "heard two");
    });
}

#[test]
fn nginx_stream_ends_and_begins_tls() {
    let upstreams = Upstreams::start();
    let pair = Pair::start(
        "nginx-stream-tls",
        &upstreams.words(),
        "log_format f '$status $ssl_server_name';\n\
         server { listen {ip}:{p}; proxy_ssl on; proxy_ssl_verify on; proxy_ssl_name stream.test; proxy_ssl_server_name on; \
         proxy_ssl_trusted_certificate {shared}/cert.pem; proxy_pass {ip}:{q}; }\n\
         server { listen {ip}:{q} ssl; ssl_certificate {shared}/cert.pem; ssl_certificate_key {shared}/key.pem; \
         access_log {dir}/access.log f; proxy_pass {a}; }\n\
         server { listen {ip}:{r}; proxy_ssl on; proxy_ssl_verify on; proxy_ssl_name other.test; \
         proxy_ssl_trusted_certificate {shared}/cert.pem; proxy_pass {ip}:{q}; }",
    );
    let long = "0123456789".repeat(20_000);
    assert!(pair.both(|address| talk(address, &long)).ends_with("789"));
    assert_eq!(pair.logs("access.log", 1), ["200 stream.test"]);
    // A certificate of another name is no upstream.
    let text = fs::read_to_string(pair.dir.join("saker/nginx.conf")).unwrap();
    let line = text
        .lines()
        .find(|line| line.contains("other.test"))
        .unwrap();
    let port: u16 = line
        .split(':')
        .nth(1)
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let refused = pair.both(|address| rest(&mut connect(SocketAddr::new(address.ip(), port))));
    assert_eq!(refused, "");
}

#[test]
fn nginx_stream_ends_sessions_as_nginx() {
    let upstreams = Upstreams::start();
    let pair = Pair::start(
        "nginx-stream-ends",
        &upstreams.words(),
        "server { listen {ip}:{p}; proxy_half_close on; proxy_pass {a}; }\n\
         server { listen {ip}:{q}; proxy_timeout 1s; proxy_pass {a}; }\n\
         server { listen unix:{dir}/s.sock; proxy_pass {b}; }\n\
         server { listen {ip}:{r}; proxy_pass unix:{dir}/s.sock; }",
    );
    let half = pair.both(|address| {
        let mut stream = connect(address);
        stream.write_all(b"last").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        rest(&mut stream)
    });
    assert_eq!(half, "a\nlastbye\n");
    // The upstream's end is that of the session.
    pair.both(|address| {
        let mut stream = connect(address);
        stream.write_all(b"end").unwrap();
        rest(&mut stream)
    });
    let text = fs::read_to_string(pair.dir.join("saker/nginx.conf")).unwrap();
    let port = |mark: &str| -> u16 {
        let line = text.lines().find(|line| line.contains(mark)).unwrap();
        line.split(':')
            .nth(1)
            .unwrap()
            .split(';')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    };
    let (idle, unix) = (port("proxy_timeout"), port("proxy_pass unix:"));
    let silent = pair.both(|address| rest(&mut connect(SocketAddr::new(address.ip(), idle))));
    assert_eq!(silent, "a\n");
    let over_unix = pair.both(|address| talk(SocketAddr::new(address.ip(), unix), "x"));
    assert_eq!(over_unix, "b\nx");
}

#[test]
fn nginx_stream_passes_datagrams() {
    let upstreams = Upstreams::start();
    let pair = Pair::start(
        "nginx-stream-udp",
        &upstreams.words(),
        "log_format f '$protocol $status $bytes_received $bytes_sent';\n\
         server { listen {ip}:{p} udp; proxy_responses 1; access_log {dir}/access.log f; proxy_pass 127.0.0.1:{udp}; }\n\
         server { listen {ip}:{q} udp; return '$protocol $remote_addr $bytes_received'; }\n\
         server { listen {ip}:{r} udp; deny all; proxy_pass 127.0.0.1:{udp}; }",
    );
    let heard = pair.both(|address| {
        let socket = datagrams(address);
        let all = ["one", "two", &"x".repeat(9000)].map(|text| ask(&socket, text));
        let other = ask(&datagrams(address), "other");
        (all, other)
    });
    assert_eq!(heard.0[0].as_deref(), Some("heard one"));
    assert_eq!(heard.1.as_deref(), Some("heard other"));
    let lines = pair.logs("access.log", 4);
    assert_eq!(lines[0], "UDP 200 3 9");
    let text = fs::read_to_string(pair.dir.join("saker/nginx.conf")).unwrap();
    let port = |mark: &str| -> u16 {
        let line = text.lines().find(|line| line.contains(mark)).unwrap();
        line.split(':')
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    };
    let (returns, denied) = (port("return '$protocol"), port("deny all"));
    let at = |address: SocketAddr, port: u16| SocketAddr::new(address.ip(), port);
    let said = pair.both(|address| ask(&datagrams(at(address, returns)), "?"));
    assert_eq!(said.as_deref(), Some("UDP 127.0.0.1 1"));
    pair.both(|address| {
        let socket = datagrams(at(address, denied));
        socket
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        assert_eq!(ask(&socket, "?"), None);
    });
}

/// Sessions outlive a reload, and new ones have the new configuration; a stop waits for them.
#[test]
fn nginx_stream_reloads_and_stops() {
    use rustix::process::Signal;
    let upstreams = Upstreams::start();
    let pair = Pair::start(
        "nginx-stream-reload",
        &upstreams.words(),
        "server { listen {ip}:{p}; proxy_pass {a}; }\nserver { listen {ip}:{q} udp; return old; }",
    );
    let address = SocketAddr::from((SECOND, pair.port));
    let mut session = connect(address);
    let mut name = [0; 2];
    session.read_exact(&mut name).unwrap();
    let file = pair.dir.join("saker/nginx.conf");
    let text = fs::read_to_string(&file).unwrap();
    let [a, b] = [0, 1].map(|at| upstreams.ports[at].to_string());
    let line = text.lines().find(|line| line.contains(" udp")).unwrap();
    let udp: u16 = line
        .split(':')
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let socket = datagrams(SocketAddr::new(address.ip(), udp));
    assert_eq!(ask(&socket, "?").as_deref(), Some("old"));
    fs::write(
        &file,
        text.replace(&a, &b).replace("return old", "return new"),
    )
    .unwrap();
    pair.servers[1].0.signal(Signal::HUP).unwrap();
    wait_until("new sessions go elsewhere", || talk(address, "x") == "b\nx");
    wait_until("datagrams, too", || {
        ask(&socket, "?").as_deref() == Some("new")
    });
    session.write_all(b"still").unwrap();
    let mut heard = [0; 5];
    session.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"still");
    pair.servers[1].0.signal(Signal::QUIT).unwrap();
    wait_until("nothing is accepted", || {
        TcpStream::connect(address).is_err()
    });
    session.write_all(b"again").unwrap();
    session.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"again");
    drop(session);
    let pid = Path::new("/proc").join(pair.servers[1].0.pid().to_string());
    wait_until("it is gone", || {
        let state = fs::read_to_string(pid.join("stat")).unwrap_or_default();
        state.is_empty() || state.contains(") Z ")
    });
}

#[test]
fn nginx_stream_leaves_from_an_address() {
    let pair = Pair::start(
        "nginx-stream-bind",
        &[],
        "server { listen {ip}:{p}; proxy_pass {ip}:{q}; proxy_bind 127.0.0.9; }\n\
         server { listen {ip}:{q}; return $remote_addr; }",
    );
    let told = pair.both(|address| {
        let mut text = String::new();
        connect(address).read_to_string(&mut text).unwrap();
        text
    });
    assert_eq!(told, "127.0.0.9");
}
