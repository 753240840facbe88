//! Upgrades while WebSockets, uploads, and downloads last, over HTTP/1.1, HTTP/2, and HTTP/3; and
//! successors that are killed at random moments of the hand-over.
//!
//! Caveat: what lasts keeps the old server, so it ends before the next upgrade. `SAKER_UPGRADES`,
//! `SAKER_LASTING` (connections over QUIC, and as many WebSockets over TCP), `SAKER_REQUESTS`, and
//! `SAKER_CRASHES` ask for more of each.

use crate::{
    http3_client::{self, Http3, site},
    operate::{self, SAKER, folder, pattern, wait_until},
    tls_site,
    upgrade::{LARGE, Load, State, keeping, knocking, over_http3, text},
    upgrades::{Http2, WEBSOCKET, read_head},
};
use saker_testkit::{Client, PATIENCE, Saker, poll, require};
use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::fs::FileExt,
    process::{Command, Stdio},
};

/// Far more than all buffers on the way hold.
const HUGE: u64 = 1 << 28;
/// Distance of the marks in the large file, which is sparse otherwise.
const MARKS: u64 = 1 << 20;

fn asked(variable: &str, usual: usize) -> usize {
    let text = std::env::var(variable).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Something that lasts over an upgrade: to be called afterwards.
type Lasting = Box<dyn FnOnce()>;

struct Front {
    saker: Saker,
    plain: SocketAddr,
    secure: SocketAddr,
    client: http3_client::Client,
}

fn front(name: &str) -> Front {
    let dir = folder(name);
    dir.write("www/large.bin", pattern(LARGE)).unwrap();
    let huge = File::create(dir.join("www/huge.bin")).unwrap();
    huge.set_len(HUGE).unwrap();
    for at in (0..HUGE).step_by(MARKS as usize) {
        huge.write_all_at(&(at + 1).to_le_bytes(), at).unwrap();
    }
    tls_site::certificate(&dir, "site", "localhost");
    let plain = SocketAddr::from(([127, 0, 0, 1], saker_testkit::free_port().unwrap()));
    let more = format!(
        "[server]\nworkers = 2\nstate_dir = \"{{dir}}/state\"\nshutdown_timeout = \"10m\"\n[limits]\nkeep_alive_timeout = \"10m\"\nwrite_timeout = \"10m\"\nbody_timeout = \"10m\"\n[[listener]]\naddress = \"{plain}\"\n"
    );
    let routes = format!(
        "[[site.route]]\npath = \"/app/*\"\nproxy = \"http://{}\"\nproxy_timeout = \"10m\"\n[[site.route]]\npath = \"/socket\"\nproxy = \"http://{}\"\nproxy_timeout = \"10m\"\n",
        site::backend(),
        site::websockets()
    );
    let configuration = site::configuration("", &routes);
    let (_, rest) = configuration.split_once("[[listener]]").unwrap();
    let saker = operate::start_in(dir, &format!("{more}\n[[listener]]{rest}"));
    // Those that wait for many others to be opened are not idle.
    let mut client = http3_client::Client::default();
    client.settings.idle_timeout_ms = 600_000;
    Front {
        plain,
        secure: saker.server.address(),
        client,
        saker,
    }
}

fn sum_of(content: &[u8]) -> String {
    let sum: u64 = content.iter().map(|byte| u64::from(*byte)).sum();
    format!("{} {sum}", content.len())
}

fn upload() -> (Vec<u8>, Vec<u8>) {
    let content = pattern(200_000);
    let (first, rest) = content.split_at(70_000);
    (first.to_vec(), rest.to_vec())
}

impl Front {
    fn socket_over_http1(&self) -> Client {
        let mut socket = Client::connect(self.plain).unwrap();
        let head = socket.request("GET", "/socket", WEBSOCKET).unwrap();
        assert_eq!(head.status, 101, "{head:?}");
        socket.send("before").unwrap();
        assert_eq!(socket.read_bytes(6).unwrap(), b"before");
        socket
    }

    fn http1(&self) -> Vec<Lasting> {
        let mut socket = self.socket_over_http1();
        let mut uploading = Client::connect(self.plain).unwrap();
        let (first, rest) = upload();
        let all = first.len() + rest.len();
        uploading
            .send(format!(
                "POST /app/sum HTTP/1.1\r\nHost: localhost\r\nContent-Length: {all}\r\n\r\n"
            ))
            .unwrap();
        uploading.send(&first).unwrap();
        let mut huge = TcpStream::connect(self.plain).unwrap();
        huge.set_read_timeout(Some(PATIENCE)).unwrap();
        huge.write_all(b"GET /huge.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        let head = read_head(&mut huge).unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        vec![
            Box::new(move || {
                let message = pattern(80_000);
                socket.send(&message).unwrap();
                assert!(socket.read_bytes(message.len()).unwrap() == message);
                socket.finish_sending().unwrap();
                assert!(socket.closed_within(PATIENCE));
            }),
            Box::new(move || {
                uploading.send(&rest).unwrap();
                let response = uploading.read_response().unwrap();
                let whole = [first, rest].concat();
                assert!(
                    response.status == 200 && response.text().ends_with(&sum_of(&whole)),
                    "{response:?}"
                );
            }),
            Box::new(move || {
                let (mut piece, hole) = (vec![0; MARKS as usize], vec![0; MARKS as usize - 8]);
                for at in (0..HUGE).step_by(MARKS as usize) {
                    huge.read_exact(&mut piece).unwrap();
                    assert_eq!(piece[..8], (at + 1).to_le_bytes(), "the mark at {at}");
                    // As a whole, which is fast in a debug build, too.
                    assert!(piece[8..] == hole, "behind {at}");
                }
            }),
        ]
    }

    fn http2(&self) -> Vec<Lasting> {
        let mut client = Http2::connect(self.plain).greeted();
        let socket = client.connect_to("/socket", "websocket");
        client.until(socket, |heard| heard.status == 200);
        client.send(socket, b"before", false);
        client.until(socket, |heard| heard.data == b"before");
        let (first, rest) = upload();
        let length = (first.len() + rest.len()).to_string();
        let head = |method, path| {
            [
                (":method", method),
                (":scheme", "http"),
                (":authority", "localhost"),
                (":path", path),
            ]
        };
        let fields = [("content-length", length.as_str())];
        let uploading = [&head("POST", "/app/sum")[..], &fields].concat();
        let uploading = client.open(&uploading, false);
        client.send(uploading, &first, false);
        let large = client.open(&head("GET", "/large.bin"), true);
        client.until(large, |heard| !heard.data.is_empty());
        vec![Box::new(move || {
            client.send(uploading, &rest, true);
            let heard = client.until(uploading, |heard| heard.has_ended);
            let said = String::from_utf8_lossy(&heard.data);
            assert!(said.ends_with(&sum_of(&[first, rest].concat())), "{said}");
            client.send(socket, b"after", true);
            client.until(socket, |heard| heard.has_ended);
            assert_eq!(client.streams[&socket].data, b"beforeafter");
            let heard = client.until(large, |heard| heard.has_ended);
            assert!(heard.data == pattern(LARGE), "the download is not whole");
        })]
    }

    fn socket_over_http3(&self) -> (Http3, u64) {
        let mut client = self.client.connect(&self.secure.to_string());
        client.until(|peer| peer.allows_tunnels());
        let pseudo = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", "/socket"),
        ];
        let socket = client.open_with(&pseudo, &[("sec-websocket-version", "13")], false);
        client.until(|peer| peer.responses[&socket].status != 0);
        assert_eq!(client.peer().responses[&socket].status, 200);
        client.send(socket, b"before", false);
        client.until(|peer| peer.responses[&socket].body == b"before");
        (client, socket)
    }

    fn http3(&self) -> Vec<Lasting> {
        let (mut client, socket) = self.socket_over_http3();
        let (first, rest) = upload();
        let length = (first.len() + rest.len()).to_string();
        let fields = [("content-length", length.as_str())];
        let uploading = client.open("POST", "/app/sum", &fields, false);
        client.send(uploading, &first, false);
        let mut downloading = self.client.connect(&self.secure.to_string());
        let large = downloading.open("GET", "/large.bin", &[], true);
        downloading.until(|peer| !peer.responses[&large].body.is_empty());
        vec![
            Box::new(move || {
                client.send(uploading, &rest, true);
                let response = client.response(uploading);
                let whole = [first, rest].concat();
                assert!(response.text().ends_with(&sum_of(&whole)), "{response:?}");
                end_socket(client, socket);
            }),
            Box::new(move || {
                let response = downloading.response(large);
                assert!(response.body == pattern(LARGE), "{:?}", response.reset);
                downloading.close();
            }),
        ]
    }
}

fn end_socket(mut client: Http3, socket: u64) {
    client.send(socket, b"after", true);
    let heard = client.response(socket);
    assert!(heard.ended && heard.body == b"beforeafter", "{heard:?}");
    client.close();
}

#[test]
fn what_lasts_goes_on_in_the_old_server() {
    let _turn = saker_testkit::heavy();
    let sockets = asked("SAKER_LASTING", 1000);
    // Each WebSocket has its client's descriptor here, and two of the server behind.
    let descriptors = saker_net::process::raise_descriptor_limit().expect("a limit");
    assert!(
        descriptors > 6 * sockets as u64 + 500,
        "{descriptors} descriptors"
    );
    let front = front("upgrade-lasting");
    let state = State::of(&front.saker);
    let load = Load::start(vec![
        knocking(front.plain),
        keeping(front.plain),
        over_http3(front.client.clone(), front.secure),
    ]);
    let upgrades = asked("SAKER_UPGRADES", 1);
    let requests = asked("SAKER_REQUESTS", 1) as u64;
    for round in 0..upgrades {
        load.goes_on();
        let before = state.pid();
        // Clients of HTTP/3 do nothing for their connections meanwhile, so they go on first.
        let mut lasting = front.http3();
        lasting.extend(front.http2());
        lasting.extend(front.http1());
        let over_quic: Vec<_> = (0..sockets).map(|_| front.socket_over_http3()).collect();
        let over_tcp: Vec<_> = (0..sockets).map(|_| front.socket_over_http1()).collect();
        let upgraded = state.upgrade(&[]);
        assert!(upgraded.status.success(), "{round}: {}", text(&upgraded));
        assert_eq!(state.status()["finishing_pid"], before);
        load.goes_on();
        for (client, socket) in over_quic {
            end_socket(client, socket);
        }
        for mut socket in over_tcp {
            socket.send("after").unwrap();
            assert_eq!(socket.read_bytes(5).unwrap(), b"after");
            socket.finish_sending().unwrap();
            assert!(socket.closed_within(PATIENCE));
        }
        lasting.into_iter().for_each(|go_on| go_on());
        wait_until("it is alone", || state.status()["finishing_pid"].is_null());
        // As many before each upgrade.
        load.comes_to(requests * (round + 1) as u64 / upgrades as u64);
    }
    let answered = load
        .finish()
        .unwrap_or_else(|why| panic!("{why}\n{}", front.saker.server.stderr()));
    println!("{answered} requests");
}

/// Connections that do not end in time are cut: clients of WebSockets see an end.
#[test]
fn what_does_not_end_in_time_is_closed() {
    let sockets = site::websockets();
    let routes = format!("[[site.route]]\npath = \"/socket\"\nproxy = \"http://{sockets}\"");
    let configuration =
        operate::configuration("workers = 1\nshutdown_timeout = \"500ms\"", &routes);
    let saker = operate::start("upgrade-bounded", &configuration);
    let state = State::of(&saker);
    let mut socket = saker.connect().unwrap();
    let head = socket.request("GET", "/socket", WEBSOCKET).unwrap();
    assert_eq!(head.status, 101, "{head:?}");
    let upgraded = state.upgrade(&[]);
    assert!(upgraded.status.success(), "{}", text(&upgraded));
    assert!(socket.closed_within(PATIENCE));
    wait_until("it is alone", || state.status()["finishing_pid"].is_null());
}

/// Successors that are killed by the kernel at a system call of their main thread, which does the
/// whole hand-over.
#[test]
fn successors_may_crash_at_any_moment() {
    let _turn = saker_testkit::heavy();
    let strace = require("strace").unwrap();
    let configuration = operate::configuration("workers = 2", "cache = true");
    let successor = |saker: &Saker, options: &[&str]| {
        let mut command = Command::new(&strace);
        command.arg("-qq").args(options).arg(SAKER);
        command
            .args(["run", "-c"])
            .arg(saker.dir.join("saker.toml"));
        command.env("SAKER_UPGRADE", "take over");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    // A name as long as the other's, since paths are in what is read byte by byte.
    let traced = |name: &str| {
        let saker = operate::start(name, &configuration);
        let (state, trace) = (State::of(&saker), saker.dir.join("trace"));
        let before = state.pid();
        let mut child = successor(&saker, &["-o", &trace.display().to_string()]);
        wait_until("it has taken over", || state.pid() != before);
        let trace = fs::read_to_string(trace).unwrap();
        drop(state);
        child.wait().unwrap();
        calls_before_it_listens(&trace)
    };
    // One that is not made each time kills none.
    let other: HashSet<_> = traced("upgrade-crash-0").into_iter().collect();
    let mut calls = traced("upgrade-crash-1");
    calls.retain(|call| other.contains(call));
    assert!(calls.len() > 100, "{calls:?}");
    let saker = operate::start("upgrade-crash-2", &configuration);
    let state = State::of(&saker);
    let before = state.pid();
    let load = Load::start(vec![
        knocking(saker.server.address()),
        keeping(saker.server.address()),
    ]);
    let crashes = asked("SAKER_CRASHES", 12);
    let mut chance = u64::from(std::process::id());
    for attempt in 0..crashes {
        // A random moment in each of as many equal parts.
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let part = (calls.len() / crashes).max(1);
        let at = (attempt * part + (chance >> 33) as usize % part).min(calls.len() - 1);
        let (name, occurrence) = &calls[at];
        let kill = format!("inject={name}:signal=KILL:when={occurrence}");
        let mut child = successor(&saker, &["-o", "/dev/null", "-e", &kill]);
        let is_killed = poll(PATIENCE, || child.try_wait().unwrap()).is_some();
        if !is_killed {
            let _ = child.kill();
        }
        assert!(is_killed, "{kill}, {at} of {}, killed none", calls.len());
        load.goes_on();
        let pid = operate::ask(&state.0, "status").map(|status| status["pid"].as_u64());
        assert_eq!(
            pid,
            Some(Some(before)),
            "{kill}, {at} of {}: {}",
            calls.len(),
            saker.server.stderr()
        );
        wait_until("the page cache is open again", || {
            state.status()["page_cache"].is_array()
        });
    }
    let upgraded = state.upgrade(&[]);
    assert!(upgraded.status.success(), "{}", text(&upgraded));
    assert_ne!(state.pid(), before);
    let answered = load
        .finish()
        .unwrap_or_else(|why| panic!("{why}\n{}", saker.server.stderr()));
    println!(
        "{crashes} crashes within {} system calls, {answered} requests",
        calls.len()
    );
}

/// System calls up to the word that it listens, from which on it is the server: the name of each
/// and how many of this name there were with it. Some vary from run to run by a few.
fn calls_before_it_listens(trace: &str) -> Vec<(String, usize)> {
    let listening = trace
        .lines()
        .take_while(|line| !line.contains("\"listening\\n"));
    assert!(trace.contains("\"listening\\n"), "it never says so");
    let names: Vec<&str> = listening
        .filter_map(|line| Some(line.split_once('(')?.0))
        .filter(|name| {
            name.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        })
        .collect();
    let mut totals = HashMap::<&str, usize>::new();
    names
        .iter()
        .for_each(|name| *totals.entry(name).or_default() += 1);
    let mut counts = HashMap::<&str, usize>::new();
    let numbered = names.iter().map(|name| {
        let count = counts.entry(name).or_default();
        *count += 1;
        (*name, *count)
    });
    // In another run, the last ones may come after it listens: a kill then is that of the server.
    let is_sure = |(name, count): &(&str, usize)| {
        let total = totals[name];
        // Their number depends on when other threads run; the first call of all is made before strace
        // interferes.
        let others = [
            "futex",
            "epoll_wait",
            "sched_yield",
            "madvise",
            "munmap",
            "execve",
        ];
        if others.contains(name) {
            return false;
        }
        total == 1 || count + (total / 10).max(2) <= total
    };
    numbered
        .filter(is_sure)
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}
