//! `resolver`: names of upstreams that are resolved at run time, by a name server of the test.
//!
//! Called by: `cargo test -p saker --test applications nginx_resolver`.
//! Caveat: nginx 1.22 has `resolve` in its commercial edition only, so there the documentation of
//! nginx 1.27.3 decides.

use crate::{nginx_pair::Pair, operate};
use saker_testkit::{Client, Saker, TempDir, wait_until};
use std::{
    collections::HashMap,
    fs,
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, UdpSocket},
    sync::{Arc, Mutex},
    thread,
};

const A: u16 = 1;
const ALIAS: u16 = 5;
const AAAA: u16 = 28;
const SRV: u16 = 33;

/// A record: owner, kind, lifetime, data.
type Record = (&'static str, u16, u32, Vec<u8>);

/// A name server, with the questions that it was asked.
struct Names {
    address: SocketAddr,
    asked: Arc<Mutex<HashMap<(String, u16), usize>>>,
    /// The address of `moves.test`; `None`: SERVFAIL.
    moving: Arc<Mutex<Option<u8>>>,
}

impl Names {
    fn start(port: u16) -> Names {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
                break (udp, tcp);
            }
        };
        let names = Names {
            address: udp.local_addr().unwrap(),
            asked: Arc::default(),
            moving: Arc::new(Mutex::new(Some(3))),
        };
        let (asked, moving) = (Arc::clone(&names.asked), Arc::clone(&names.moving));
        thread::spawn(move || {
            let mut buffer = [0; 512];
            while let Ok((length, client)) = udp.recv_from(&mut buffer) {
                let question = &buffer[..length];
                let (name, kind) = read(question);
                *asked
                    .lock()
                    .unwrap()
                    .entry((name.clone(), kind))
                    .or_default() += 1;
                let moved = *moving.lock().unwrap();
                for answer in answers(question, &name, kind, (moved, port)) {
                    let _ = udp.send_to(&answer, client);
                }
            }
        });
        thread::spawn(move || {
            for mut stream in tcp.incoming().flatten() {
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut question).unwrap();
                let answer = message(&question, 0, &[("big.test", A, 60, vec![127, 0, 0, 3])]);
                let length = (answer.len() as u16).to_be_bytes();
                stream.write_all(&[&length[..], &answer].concat()).unwrap();
            }
        });
        names
    }

    fn asked(&self, name: &str, kind: u16) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.get(&(name.to_owned(), kind)).copied().unwrap_or(0)
    }
}

/// Name and kind of a question.
fn read(message: &[u8]) -> (String, u16) {
    let (mut at, mut labels) = (12, Vec::new());
    while message[at] != 0 {
        let end = at + 1 + usize::from(message[at]);
        labels.push(String::from_utf8_lossy(&message[at + 1..end]).into_owned());
        at = end;
    }
    (
        labels.join("."),
        u16::from_be_bytes([message[at + 1], message[at + 2]]),
    )
}

fn labels(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// A response with records.
fn message(question: &[u8], code: u8, records: &[Record]) -> Vec<u8> {
    let mut message = question.to_vec();
    message[2..4].copy_from_slice(&[0x81, 0x80 | code]);
    message[7] = records.len() as u8;
    for (owner, kind, ttl, data) in records {
        message.extend(labels(owner));
        message.extend([kind.to_be_bytes(), [0, 1]].concat());
        message.extend(ttl.to_be_bytes());
        message.extend((data.len() as u16).to_be_bytes());
        message.extend(data);
    }
    message
}

/// Datagrams of the name server in answer to a question.
fn answers(
    question: &[u8],
    name: &str,
    kind: u16,
    (moved, port): (Option<u8>, u16),
) -> Vec<Vec<u8>> {
    let records = |records: &[Record]| vec![message(question, 0, records)];
    let ip = |last: u8| vec![127, 0, 0, last];
    match (name, kind) {
        ("silent.test", _) => vec![],
        ("none.test", _) => vec![message(question, 3, &[])],
        ("broken.test", _) => vec![message(question, 2, &[])],
        ("refused.test", _) => vec![message(question, 5, &[])],
        ("one.test", A) => records(&[("one.test", A, 60, ip(3))]),
        ("short.test", A) => records(&[("short.test", A, 0, ip(3))]),
        ("two.test", A) => records(&[("two.test", A, 60, ip(3)), ("two.test", A, 60, ip(4))]),
        ("alias.test", A) => records(&[
            ("alias.test", ALIAS, 60, labels("one.test")),
            ("one.test", A, 60, ip(3)),
        ]),
        ("far.test", A) => records(&[("far.test", ALIAS, 60, labels("one.test"))]),
        ("circle.test", A) => records(&[("circle.test", ALIAS, 60, labels("circle.test"))]),
        ("pointer.test", A) => records(&[("pointer.test", ALIAS, 60, vec![0xc0, 40])]),
        // Another name's address does not count, and is not remembered.
        ("stranger.test", A) => records(&[("bank.test", A, 60, ip(4))]),
        ("bank.test", A) => records(&[("bank.test", A, 60, ip(3))]),
        ("six.test", AAAA) => records(&[(
            "six.test",
            AAAA,
            60,
            "::1"
                .parse::<std::net::Ipv6Addr>()
                .unwrap()
                .octets()
                .to_vec(),
        )]),
        ("big.test", A) => {
            let mut cut = message(question, 0, &[]);
            cut[2] |= 2;
            vec![cut]
        }
        ("spoof.test", A) => {
            let forged: Record = ("spoof.test", A, 60, ip(4));
            let mut other_id = message(question, 0, std::slice::from_ref(&forged));
            other_id[0] ^= 1;
            let mut other_question = message(question, 0, std::slice::from_ref(&forged));
            other_question[13] ^= 1;
            let right = message(question, 0, &[("spoof.test", A, 60, ip(3))]);
            vec![other_id, other_question, vec![0; 5], right]
        }
        ("moves.test", A) => match moved {
            None => vec![message(question, 2, &[])],
            Some(last) => records(&[("moves.test", A, 0, ip(last))]),
        },
        ("_http._tcp.service.test", SRV) => {
            let server = |priority: u16, port: u16, host: &str| {
                let numbers = [priority, 1, port].map(u16::to_be_bytes).concat();
                [numbers, labels(host)].concat()
            };
            records(&[
                (
                    "_http._tcp.service.test",
                    SRV,
                    60,
                    server(1, port, "one.test"),
                ),
                (
                    "_http._tcp.service.test",
                    SRV,
                    60,
                    server(2, port, "two.test"),
                ),
            ])
        }
        _ => records(&[]),
    }
}

/// Servers at three addresses and one port, which answer with their address.
fn backends() -> u16 {
    let listeners = loop {
        let first = TcpListener::bind("127.0.0.3:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let others = ["127.0.0.4", "::1"].map(|ip| {
            let ip: IpAddr = ip.parse().unwrap();
            TcpListener::bind(SocketAddr::new(ip, port))
        });
        if let [Ok(second), Ok(third)] = others {
            break [first, second, third];
        }
    };
    let port = listeners[0].local_addr().unwrap().port();
    for listener in listeners {
        let ip = listener.local_addr().unwrap().ip().to_string();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer);
                let length = ip.len();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{ip}"
                );
                let _ = stream.write_all(answer.as_bytes());
            }
        });
    }
    port
}

fn get(address: SocketAddr, target: &str) -> String {
    let response = Client::connect(address).unwrap().get(target).unwrap();
    let body = match response.status {
        200 => String::from_utf8_lossy(&response.body).into_owned(),
        _ => String::new(),
    };
    let from = response
        .field_values("X-From")
        .collect::<Vec<_>>()
        .join(";");
    format!("{} {body} {from}", response.status)
}

#[test]
fn nginx_resolver_answers_as_nginx_does() {
    let backend = backends();
    let names = Names::start(backend);
    let given = [
        ("dns", names.address.to_string()),
        ("b", backend.to_string()),
    ];
    let text = "\
        map $remote_port $target { default one.test:{b}; }\n\
        server { listen {ip}:{q}; resolver {dns} ipv6=off; proxy_pass $target; }\n\
        == http\n\
        resolver_timeout 700ms;\n\
        server { listen {ip}:{r}; location / { proxy_pass http://$arg_h:{b}; add_header X-From $upstream_addr; } }\n\
        server { listen {ip}:{p}; resolver {dns} ipv6=off; add_header X-From $upstream_addr always;\n\
        location / { proxy_pass http://$arg_h:{b}; }\n\
        location /six { resolver {dns}; proxy_pass http://$arg_h:{b}; }\n\
        location /off { proxy_pass http://{ip}:{r}; }\n\
        location /stream { proxy_pass http://{ip}:{q}; } }";
    let pair = Pair::start("nginx-resolver", &given, text);
    for (target, expected) in [
        ("/?h=one.test", "200 127.0.0.3 127.0.0.3:"),
        ("/?h=ONE.test", "200 127.0.0.3 127.0.0.3:"),
        ("/?h=alias.test", "200 127.0.0.3 127.0.0.3:"),
        ("/?h=far.test", "200 127.0.0.3 127.0.0.3:"),
        ("/?h=big.test", "200 127.0.0.3 127.0.0.3:"),
        ("/?h=spoof.test", "200 127.0.0.3 127.0.0.3:"),
        ("/?h=127.0.0.4", "200 127.0.0.4 127.0.0.4:"),
        ("/six?h=six.test", "200 ::1 [::1]:"),
        ("/?h=six.test", "502  "),
        ("/?h=none.test", "502  "),
        ("/?h=broken.test", "502  "),
        ("/?h=refused.test", "502  "),
        ("/?h=circle.test", "502  "),
        ("/?h=silent.test", "502  "),
        ("/off?h=one.test", "502  "),
        ("/off?h=127.0.0.3", "200 127.0.0.3 "),
        ("/stream", "200 127.0.0.3 "),
    ] {
        let answer =
            pair.both(|address| get(address, target).replace(&address.ip().to_string(), ""));
        assert!(answer.starts_with(expected), "{target}: {answer}");
    }
    // Either address may come first.
    for (server, ip) in &pair.servers {
        let _ = server;
        let seen: Vec<String> = (0..4)
            .map(|_| get(SocketAddr::new((*ip).into(), pair.port), "/?h=two.test"))
            .collect();
        assert!(
            seen.iter().all(|answer| answer.starts_with("200 127.0.0.")),
            "{seen:?}"
        );
    }
    for folder in ["nginx", "saker"] {
        let log = pair.dir.join(format!("{folder}/error.log"));
        for line in [
            "none.test could not be resolved (3: Host not found), client: 127.0.0.1",
            "broken.test could not be resolved (2: Server failure), client:",
            "refused.test could not be resolved (5: Operation refused), client:",
            "silent.test could not be resolved (110: Operation timed out), client:",
            "no resolver defined to resolve one.test, client:",
        ] {
            let mut text = String::new();
            wait_until(line, || {
                text = fs::read_to_string(&log).unwrap_or_default();
                text.contains(line)
            });
        }
    }
}

/// nginx takes any address of an answer, whatever its name.
#[test]
fn nginx_resolver_believes_answers_to_its_questions_only() {
    let backend = backends();
    let names = Names::start(backend);
    let dns = names.address;
    let text = format!(
        "daemon off; pid {{dir}}/pid; worker_processes 1; events {{ }} http {{ resolver {dns} ipv6=off; resolver_timeout 1s; server {{ listen {{address}}; \
         location / {{ proxy_pass http://$arg_h:{backend}; }} \
         location /valid {{ resolver {dns} ipv6=off valid=1h; proxy_pass http://$arg_h:{backend}; }} }} }}"
    );
    let dir = TempDir::new("nginx-resolver-trust").unwrap();
    let saker = Saker::nginx(operate::SAKER, &text).start(dir);
    let ask = |target: &str| {
        let response = saker.connect().unwrap().get(target).unwrap();
        (
            response.status,
            String::from_utf8_lossy(&response.body).into_owned(),
        )
    };
    assert_eq!(ask("/?h=stranger.test").0, 502);
    assert_eq!(ask("/?h=bank.test"), (200, "127.0.0.3".to_owned()));
    assert_eq!(
        ask("/?h=pointer.test&x=1").0,
        502,
        "a name that points nowhere"
    );
    // Answers hold as long as they say, or the configuration.
    for _ in 0..3 {
        assert_eq!(ask("/?h=one.test").0, 200);
        assert_eq!(ask("/?h=short.test").0, 200);
        assert_eq!(ask("/valid?h=short.test").0, 200);
    }
    assert_eq!(names.asked("one.test", A), 1);
    assert_eq!(names.asked("short.test", A), 4);
    assert_eq!(names.asked("one.test", AAAA), 0, "ipv6=off");
    // What has no address is asked for again.
    for _ in 0..2 {
        assert_eq!(ask("/?h=none.test").0, 502);
    }
    assert_eq!(names.asked("none.test", A), 2);
    for bad in ["", "a..b", &"a".repeat(64), "a%20b", "one.test@x", "[::1"] {
        let status = ask(&format!("/?h={bad}")).0;
        assert!(matches!(status, 400 | 500 | 502), "{bad}: {status}");
    }
}

#[test]
fn nginx_resolver_follows_names_of_groups() {
    let backend = backends();
    let names = Names::start(backend);
    let dns = names.address;
    let text = format!(
        "daemon off; pid {{dir}}/pid; worker_processes 1; events {{ }} http {{ resolver {dns} ipv6=off; \
         upstream pair {{ zone pair 64k; server two.test:{backend} resolve; }} \
         upstream moving {{ zone moving 64k; resolver {dns} ipv6=off; resolver_timeout 2s; \
         server moves.test:{backend} resolve; server 127.0.0.3:1 down; }} \
         upstream gone {{ zone gone 64k; server none.test:{backend} resolve; }} \
         upstream service {{ zone service 64k; server service.test service=http resolve; }} \
         server {{ listen {{address}}; add_header X-From $upstream_addr always; \
         location /pair {{ proxy_pass http://pair/; }} location /moving {{ proxy_pass http://moving; }} \
         location /gone {{ proxy_pass http://gone; }} location /service {{ proxy_pass http://service; }} \
         location /named {{ set $to moving; proxy_pass http://$to; }} }} }}"
    );
    let dir = TempDir::new("nginx-resolver-groups").unwrap();
    let saker = Saker::nginx(operate::SAKER, &text).start(dir);
    let ask = |target: &str| get(saker.server.address(), target);
    let mut seen: Vec<String> = (0..4).map(|_| ask("/pair")).collect();
    seen.sort_unstable();
    let of = |ip: &str| format!("200 {ip} {ip}:{backend}");
    let expected = ["127.0.0.3", "127.0.0.3", "127.0.0.4", "127.0.0.4"].map(of);
    assert_eq!(seen, expected, "each address is a member");
    assert_eq!(ask("/moving"), of("127.0.0.3"));
    *names.moving.lock().unwrap() = Some(4);
    assert_eq!(ask("/moving"), of("127.0.0.4"));
    assert_eq!(ask("/named"), of("127.0.0.4"));
    *names.moving.lock().unwrap() = None;
    assert_eq!(ask("/moving"), of("127.0.0.4"), "the last addresses stay");
    assert_eq!(ask("/gone"), "502  ");
    for _ in 0..3 {
        assert_eq!(ask("/service"), of("127.0.0.3"), "the others are backup");
    }
}
