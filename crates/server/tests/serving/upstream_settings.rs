//! Keys of `[[upstream]]` about time and names: slow starts, health checks, requests read ahead, names whose
//! addresses change, and responses that wait in files for slow clients.
//!
//! Called by: `cargo test -p saker --test serving upstream_settings::`.
//! Caveat: another `/etc/hosts` needs a mount namespace, which needs root.
//! Out of scope: balancing (`balancing`), checks by content (`health`).

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate::{self, wait_until};
use crate::upgrades::backend;
use saker_testkit::Saker;
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
    thread,
};

/// A server that says its name; requests for `/health` get the status.
fn named(name: &'static str, health: &Arc<AtomicU16>) -> SocketAddr {
    let health = Arc::clone(health);
    backend(move |stream| {
        let mut reader = BufReader::new(stream);
        let (mut line, mut first) = (String::new(), String::new());
        while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
            let text = std::mem::take(&mut line);
            if first.is_empty() {
                first = text;
            } else if text == "\r\n" {
                let status = match std::mem::take(&mut first).contains("/health") {
                    true => health.load(Ordering::SeqCst),
                    false => 200,
                };
                let answer = format!(
                    "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{name}",
                    name.len()
                );
                if reader.get_mut().write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        }
    })
}

fn configuration(upstream: &str) -> String {
    let text = operate::configuration(
        "workers = 1",
        "[[site.route]]\npath = \"/*\"\nproxy = \"app\"\n",
    );
    format!("{text}[[upstream]]\nname = \"app\"\n{upstream}\n")
}

fn counts(saker: &Saker, number: usize) -> BTreeMap<String, usize> {
    let mut client = saker.connect().unwrap();
    (0..number).fold(BTreeMap::new(), |mut counts, _| {
        *counts.entry(client.get("/").unwrap().text()).or_default() += 1;
        counts
    })
}

#[test]
fn a_server_that_is_back_gets_its_share_slowly() {
    let (ill, well) = (Arc::new(AtomicU16::new(200)), Arc::new(AtomicU16::new(200)));
    let (one, two) = (named("one", &ill), named("two", &well));
    let saker = operate::start(
        "slow-start",
        &configuration(&format!(
            "servers = [\"http://{one}\", \"http://{two}\"]\nslow_start = \"1h\"\nhealth_path = \"/health\"\n\
             health_interval = \"100ms\"\nhealth_timeout = \"10s\"\nhealth_statuses = [200, 503]\nhealth_rise = 1\nhealth_fall = 1"
        )),
    );
    let has_one = || counts(&saker, 40).get("one").copied().unwrap_or_default();
    assert_eq!(has_one(), 20, "servers of the beginning have their share");
    // A status of the list is as good as another.
    ill.store(503, Ordering::SeqCst);
    assert_eq!(has_one(), 20);
    ill.store(204, Ordering::SeqCst);
    wait_until("one is away", || has_one() == 0);
    ill.store(200, Ordering::SeqCst);
    let mut share = 0;
    wait_until("one is back", || {
        share = has_one();
        share > 0
    });
    assert!(share < 10, "{share} of 40 in the first of 3600 seconds");
}

/// A check that is not answered in time counts as failed.
#[test]
fn a_check_has_its_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let checks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&checks);
    thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in silent.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            kept.push(stream);
        }
    });
    let two = named("two", &Arc::new(AtomicU16::new(200)));
    let saker = operate::start(
        "health-timeout",
        &configuration(&format!(
            "servers = [\"http://{address}\", \"http://{two}\"]\nhealth_path = \"/health\"\nhealth_interval = \"100ms\"\n\
             health_timeout = \"100ms\"\nhealth_fall = 1"
        )),
    );
    wait_until("the silent one is away", || {
        let output = Command::new(operate::SAKER)
            .args(["status", "--json", "--state-dir"])
            .arg(saker.dir.join("state"))
            .output()
            .unwrap();
        operate::stdout(&output).contains("\"state\": \"down\"")
    });
    // Its neighbor may have been late, too, on a busy machine.
    let others: BTreeMap<_, _> = [("two".to_owned(), 6)].into();
    wait_until("the other one answers all", || counts(&saker, 6) == others);
}

#[test]
fn names_are_looked_up_again() {
    let possible = Command::new("unshare").args(["-m", "true"]).status();
    if !possible.is_ok_and(|status| status.success()) {
        println!("left out: mount namespaces are needed");
        return;
    }
    let well = Arc::new(AtomicU16::new(200));
    let one = named("one", &well);
    // The same port of another address of this machine.
    let other = TcpListener::bind(("127.0.0.2", one.port())).unwrap();
    thread::spawn(move || {
        for mut stream in other.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
                line.clear();
            }
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nother",
            );
        }
    });
    let dir = operate::folder("resolve-every");
    let hosts = dir.write("hosts", "127.0.0.1 app.test\n").unwrap();
    let mount = format!(
        "mount --bind '{}' /etc/hosts && exec \"$@\"",
        hosts.display()
    );
    let upstream = format!(
        "servers = [\"http://app.test:{}\"]\nresolve_every = \"100ms\"\nkeep = 0",
        one.port()
    );
    let saker = operate::native(&configuration(&upstream))
        .wrapped(&["unshare", "-m", "sh", "-c", &mount, "sh"])
        .start(dir);
    let answer = || saker.connect().unwrap().get("/").unwrap().text();
    assert_eq!(answer(), "one");
    // With the default interval, so many changes would take longer than the test waits.
    let mut changes = ["other", "one", "other", "one"].into_iter();
    let mut expected = "one";
    wait_until("the new address is used each time", || {
        if answer() != expected {
            return false;
        }
        let Some(next) = changes.next() else {
            return true;
        };
        expected = next;
        let address = if next == "one" {
            "127.0.0.1"
        } else {
            "127.0.0.2"
        };
        fs::write(&hosts, format!("{address} app.test\n")).unwrap();
        false
    });
}

/// Connecting has its time, TLS included, after which the next server is tried.
#[test]
fn silent_servers_are_given_up() {
    // The kernel accepts the connections, and no handshake follows. With the default timeout for
    // each, the client would wait for longer than its patience.
    let silent = [(); 6].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let mut servers: Vec<String> = silent
        .iter()
        .map(|server| format!("\"https://{}\"", server.local_addr().unwrap()))
        .collect();
    let well = named("well", &Arc::new(AtomicU16::new(200)));
    servers.push(format!("{{ address = \"http://{well}\", standby = true }}"));
    let saker = operate::start(
        "connect-timeout",
        &configuration(&format!(
            "servers = [{}]\nconnect_timeout = \"100ms\"",
            servers.join(", ")
        )),
    );
    assert_eq!(saker.connect().unwrap().get("/").unwrap().text(), "well");
}

/// Responses to slow clients are kept in memory and in a file, so that the server is free.
#[test]
fn responses_wait_in_files() {
    const BYTES: usize = 32 << 20;
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let address = backend(move |stream| {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
            line.clear();
        }
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n");
        reader.get_mut().write_all(head.as_bytes()).unwrap();
        for _ in 0..BYTES >> 16 {
            if reader.get_mut().write_all(&[b'x'; 1 << 16]).is_err() {
                return;
            }
            counted.fetch_add(1 << 16, Ordering::SeqCst);
        }
    });
    for (file, is_free) in [("\"64MB\"", true), ("0", false)] {
        sent.store(0, Ordering::SeqCst);
        let saker = operate::start(
            "buffer-file",
            &configuration(&format!(
                "servers = [\"http://{address}\"]\nbuffer = \"64KiB\"\nbuffer_file = {file}"
            )),
        );
        let (mut client, begun) = operate::begin_download(&saker, "/large", 1000);
        if is_free {
            wait_until("the server is free", || {
                sent.load(Ordering::SeqCst) == BYTES
            });
        }
        let before = sent.load(Ordering::SeqCst);
        assert!(is_free || before < BYTES, "{before} bytes were taken");
        let body = operate::rest_of_download(&mut client, begun, BYTES);
        assert!(body.len() == BYTES && body.iter().all(|byte| *byte == b'x'));
    }
}

/// The first line of a request, when it has come to a server that answers what has come.
fn recorder() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&requests);
    let address = backend(move |stream| {
        let mut reader = BufReader::new(stream);
        let (mut first, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if !reader.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                return;
            }
            if first.is_empty() {
                first = line;
            } else if let Some((name, value)) = line.split_once(':') {
                if name.eq_ignore_ascii_case("content-length") {
                    length = value.trim().parse().unwrap();
                }
            } else {
                kept.lock().unwrap().push(std::mem::take(&mut first));
                let mut content = vec![0; length];
                if reader.read_exact(&mut content).is_err() {
                    return;
                }
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                let answer = [answer.as_bytes(), &content].concat();
                if reader.get_mut().write_all(&answer).is_err() {
                    return;
                }
                length = 0;
            }
        }
    });
    (address, requests)
}

/// Small content is complete before a server is asked; larger content, and that of other upstreams,
/// is passed on as it comes.
#[test]
fn small_requests_are_read_ahead() {
    let (address, requests) = recorder();
    let text = operate::configuration(
        "workers = 1",
        "[[site.route]]\npath = \"/ahead/*\"\nproxy = \"ahead\"\n\
         [[site.route]]\npath = \"/at-once/*\"\nproxy = \"at-once\"\n",
    );
    let upstreams = format!(
        "[[upstream]]\nname = \"ahead\"\nservers = [\"http://{address}\"]\nrequest_buffer = \"1KiB\"\n\
         [[upstream]]\nname = \"at-once\"\nservers = [\"http://{address}\"]\n"
    );
    let saker = operate::start("request-buffer", &format!("{text}{upstreams}"));
    let begin = |path: &str, length: usize| {
        let mut client = saker.connect().unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        client.send(head + "x").unwrap();
        client
    };
    let has_come = |path: &str| {
        let requests = requests.lock().unwrap();
        requests.iter().any(|line| line.contains(path))
    };
    let mut waiting = begin("/ahead/small", 1024);
    // Requests that are not read ahead overtake it.
    let _larger = begin("/ahead/large", 1025);
    let _other = begin("/at-once/small", 1024);
    wait_until("the others are passed on", || {
        has_come("/ahead/large") && has_come("/at-once/small")
    });
    assert!(!has_come("/ahead/small"));
    waiting.send("x".repeat(1023)).unwrap();
    assert_eq!(waiting.read_response().unwrap().body.len(), 1024);
    assert!(has_come("/ahead/small"));
}

/// Checks come as often as is set for each upstream.
#[test]
fn checks_have_their_interval() {
    let (address, requests) = recorder();
    let upstreams: String = [("often", "100ms"), ("rarely", "1d")]
        .map(|(name, interval)| {
            format!(
                "[[upstream]]\nname = \"{name}\"\nservers = [\"http://{address}\"]\n\
                 health_path = \"/check-{name}\"\nhealth_interval = \"{interval}\"\n"
            )
        })
        .concat();
    let routes = "[[site.route]]\npath = \"/often/*\"\nproxy = \"often\"\n\
                  [[site.route]]\npath = \"/rarely/*\"\nproxy = \"rarely\"\n";
    let text = operate::configuration("workers = 1", routes);
    let _saker = operate::start("health-interval", &format!("{text}{upstreams}"));
    let count = |path: &str| {
        let requests = requests.lock().unwrap();
        requests.iter().filter(|line| line.contains(path)).count()
    };
    wait_until("many checks", || count("/check-often") >= 20);
    assert!(count("/check-rarely") <= 1, "{}", count("/check-rarely"));
}
