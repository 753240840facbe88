//! Abuse protection: bans, lists, limits by address and site, over every protocol.
//!
//! Clients of many addresses use the PROXY protocol, so that a test can choose its address.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::http3_client::{Client as Http3Client, site::start_with};
use crate::operate;
use crate::operate::{folder, lines, pattern, stderr, stdout, wait_until};
use saker_testkit::{
    Client, Saker, TempDir,
    frames::Frames,
    mmdb::{Data, database},
    require,
};
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    process::{Command, Output},
    sync::mpsc,
    thread,
    time::Duration,
};

const LARGE_BYTES: usize = 30_000_000;
/// Long enough for a slow machine to say no.
const SOON: Duration = Duration::from_secs(20);

fn configuration(top: &str, site: &str) -> String {
    format!(
        "[server]\nstate_dir = \"{{dir}}/state\"\nworkers = 2\nerror_log = \"{{dir}}/error.log\"\n\n{top}\n\n\
         [[listener]]\naddress = \"{{address}}\"\nproxy_protocol_from = [\"127.0.0.1\"]\n\n\
         [[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\naccess_log = \"{{dir}}/access.log\"\n{site}\n"
    )
}

fn start(dir: TempDir, top: &str, site: &str) -> Saker {
    operate::native(&configuration(top, site)).start(dir)
}

/// A connection from that address, as far as the server is concerned.
fn from(saker: &Saker, address: &str) -> Client {
    let mut client = saker.connect().unwrap();
    let kind = if address.contains(':') {
        "TCP6"
    } else {
        "TCP4"
    };
    let own = if address.contains(':') {
        "::1"
    } else {
        "127.0.0.1"
    };
    client
        .send(format!("PROXY {kind} {address} {own} 4711 80\r\n"))
        .unwrap();
    client
}

/// `None`: the connection was closed without an answer.
fn status(client: &mut Client, target: &str) -> Option<u16> {
    client
        .send(format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n"))
        .ok()?;
    client.read_response().ok().map(|response| response.status)
}

fn command(saker: &Saker, words: &[&str]) -> Output {
    let state = saker.dir.join("state").to_string_lossy().into_owned();
    let output = operate::saker(words.iter().copied().chain(["--state-dir", &state]));
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    output
}

fn error_log(saker: &Saker) -> String {
    fs::read_to_string(saker.dir.join("error.log")).unwrap_or_default()
}

#[test]
fn bans_hold_for_new_and_open_connections_and_over_a_restart() {
    let saker = start(folder("bans"), "", "");
    let (mut one, mut neighbour) = (from(&saker, "203.0.113.7"), from(&saker, "203.0.113.8"));
    assert_eq!(
        (status(&mut one, "/"), status(&mut neighbour, "/")),
        (Some(200), Some(200))
    );
    let said = stdout(&command(
        &saker,
        &[
            "ban",
            "203.0.113.7",
            "2001:db8::/48",
            "--for",
            "1h",
            "--reason",
            "scans",
        ],
    ));
    assert_eq!(said, "banned for 1 h 0 min: 2\n");
    assert!(one.closed_within(SOON), "an open connection at rest ends");
    assert_eq!(status(&mut from(&saker, "203.0.113.7"), "/"), None);
    assert_eq!(status(&mut from(&saker, "2001:db8:0:7::1"), "/"), None);
    assert_eq!(
        (
            status(&mut neighbour, "/"),
            status(&mut from(&saker, "2001:db8:1::1"), "/")
        ),
        (Some(200), Some(200))
    );
    let listed = stdout(&command(&saker, &["bans"]));
    assert!(
        listed.contains("203.0.113.7 ")
            && listed.contains("2001:db8::/48")
            && listed.contains("scans"),
        "{listed}"
    );
    command(&saker, &["stop"]);
    let Saker { dir, .. } = saker;
    let saker = operate::native(&configuration("", "")).start(dir);
    assert_eq!(
        status(&mut from(&saker, "203.0.113.7"), "/"),
        None,
        "bans outlive the server"
    );
    assert_eq!(
        stdout(&command(&saker, &["unban", "203.0.113.7"])),
        "bans lifted: 1\n"
    );
    assert_eq!(
        (
            status(&mut from(&saker, "203.0.113.7"), "/"),
            status(&mut from(&saker, "2001:db8::1"), "/")
        ),
        (Some(200), None)
    );
    // A network's ban is not lifted by way of one of its addresses.
    command(&saker, &["ban", "2001:db8::1"]);
    for lifted in [1, 0] {
        let said = format!("bans lifted: {lifted}\n2001:db8::1 is still banned by 2001:db8::/48\n");
        assert_eq!(stdout(&command(&saker, &["unban", "2001:db8::1"])), said);
        assert_eq!(status(&mut from(&saker, "2001:db8::2"), "/"), None);
    }
    assert_eq!(
        stdout(&command(&saker, &["unban", "--all"])),
        "bans lifted: 1\n"
    );
    assert_eq!(stdout(&command(&saker, &["bans"])), "nobody is banned\n");
}

#[test]
fn bans_end_connections_of_http2_and_http3() {
    let saker = start_with(folder("bans-multiplexed"), "", "");
    let address = saker.server.address();
    let mut http3 = Http3Client::default().connect(&address.to_string());
    assert_eq!(http3.get("/").status, 200);
    command(&saker, &["ban", "127.0.0.1"]);
    http3.until_lost();
    let curl = || {
        Command::new(require("curl").unwrap())
            .args(["-skm", "20", "--http2", &format!("https://{address}/")])
            .output()
            .unwrap()
    };
    assert!(!curl().status.success());
    command(&saker, &["unban", "127.0.0.1"]);
    assert!(curl().status.success());
    assert_eq!(
        Http3Client::default()
            .connect(&address.to_string())
            .get("/")
            .status,
        200
    );

    let plain = operate::start_in(
        folder("bans-http2"),
        &operate::configuration("workers = 1", ""),
    );
    let mut frames = Frames::connect(plain.server.address()).unwrap();
    frames.get(1, "/").unwrap();
    assert!(frames.read_until(HEADERS).unwrap().is_some());
    command(&plain, &["ban", "127.0.0.0/8"]);
    // GOAWAY, then the end.
    assert!(frames.read_until(GOAWAY).unwrap().is_some());
    let _ = frames.get(3, "/");
    assert!(!matches!(frames.read_until(HEADERS), Ok(Some(_))));
}

/// RFC 9113 section 6.
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;

#[test]
fn lists_of_the_server_close_connections_and_are_read_again() {
    let dir = folder("lists");
    dir.write(
        "lists/bad.txt",
        "# bad\n203.0.113.0/24 ; the whole net\n198.51.100.1-198.51.100.9\n",
    )
    .unwrap();
    let saker = start(
        dir,
        "[abuse]\ndeny = [\"192.0.2.0/24\"]\ndeny_files = [\"lists/bad.txt\"]\nallow = [\"203.0.113.9\"]",
        "",
    );
    for (address, expected) in [
        ("203.0.113.7", None),
        ("198.51.100.9", None),
        ("192.0.2.1", None),
        ("203.0.113.9", Some(200)),
        ("198.51.100.10", Some(200)),
    ] {
        assert_eq!(
            status(&mut from(&saker, address), "/"),
            expected,
            "{address}"
        );
    }
    // A broken list is not taken, and its line is named.
    saker
        .dir
        .write("lists/bad.txt", "203.0.113.0/24\nnonsense\n")
        .unwrap();
    wait_until("the broken list is told of", || {
        error_log(&saker).contains("bad.txt:2: `nonsense` is no address")
    });
    assert_eq!(
        status(&mut from(&saker, "198.51.100.9"), "/"),
        None,
        "the list before stays"
    );
    saker.dir.write("lists/bad.txt", "2001:db8::/32\n").unwrap();
    wait_until("the new list is in force", || {
        status(&mut from(&saker, "203.0.113.7"), "/") == Some(200)
    });
    // Only the first lines of a second are logged, and the refusals above were many.
    wait_until("the line", || {
        assert_eq!(status(&mut from(&saker, "2001:db8::1"), "/"), None);
        error_log(&saker).contains("address=2001:db8::1 rule=deny site=-")
    });
}

/// Countries, autonomous systems, and lists of the whole server; an IPv6 client is its network.
#[test]
fn places_and_lists_of_the_server() {
    const PLACE: Data<'_> = Data::Map(&[
        ("country", Data::Map(&[("iso_code", Data::Text("XA"))])),
        ("autonomous_system_number", Data::Number(64500)),
    ]);
    for (rules, expected) in [
        ("deny_countries = [\"XA\"]", [false, true]),
        ("allow_countries = [\"XA\"]", [true, false]),
        ("deny_asns = [64500]", [false, true]),
        ("allow_asns = [64500]", [true, false]),
        ("allow_files = [\"good.txt\"]", [true, false]),
        (
            "deny = [\"0.0.0.0/0\"]\nallow_files = [\"good.txt\"]",
            [true, false],
        ),
    ] {
        let dir = folder("server-places");
        dir.write("place.mmdb", database([203, 0, 113, 0], 24, &PLACE))
            .unwrap();
        dir.write("good.txt", "203.0.113.0/24\n").unwrap();
        let top = format!("[abuse]\ngeoip = [\"place.mmdb\"]\n{rules}");
        let saker = start(dir, &top, "");
        for (address, is_served) in ["203.0.113.7", "198.51.100.7"].into_iter().zip(expected) {
            let got = status(&mut from(&saker, address), "/");
            assert_eq!(got, is_served.then_some(200), "{rules}: {address}");
        }
    }
}

#[test]
fn clients_of_a_network_count_as_one() {
    let dir = folder("ipv6-prefix");
    dir.write("friends.txt", "2001:db8:1::/48\n").unwrap();
    let saker = start(
        dir,
        "[abuse]\nbad_requests = 2\ngrace = \"1h\"\nipv6_prefix = 56\nexempt_files = [\"friends.txt\"]",
        "",
    );
    let misbehave = |address: &str| {
        let mut client = from(&saker, address);
        client.send("NONSENSE\r\n\r\n").unwrap();
        client.read_response().map(|response| response.status).ok()
    };
    for address in ["2001:db8::1", "2001:db8:0:1::1", "2001:db8:0:ff::1"] {
        assert_eq!(misbehave(address), Some(400), "{address}");
    }
    assert_eq!(status(&mut from(&saker, "2001:db8:0:2::9"), "/"), None);
    assert_eq!(
        status(&mut from(&saker, "2001:db8:0:100::9"), "/"),
        Some(200)
    );
    for _ in 0..4 {
        assert_eq!(misbehave("2001:db8:1::1"), Some(400));
    }
    assert_eq!(status(&mut from(&saker, "2001:db8:1::1"), "/"), Some(200));
}

#[test]
fn a_bad_line_of_a_list_is_an_error_of_the_configuration() {
    let dir = folder("bad-list");
    dir.write("bad.txt", "192.0.2.0/24\n192.0.2.0/40\n")
        .unwrap();
    let text = configuration(
        "",
        "[site.access]\ndeny_files = [\"bad.txt\", \"missing.txt\"]",
    );
    dir.write(
        "saker.toml",
        text.replace("{address}", "127.0.0.1:1")
            .replace("{dir}", &dir.to_string_lossy()),
    )
    .unwrap();
    let checked = operate::saker(["check", "-c", &dir.join("saker.toml").to_string_lossy()]);
    let said = stdout(&checked) + &stderr(&checked);
    assert!(!checked.status.success());
    assert!(
        said.contains("bad.txt:2") && said.contains("`192.0.2.0/40` is no address"),
        "{said}"
    );
    assert!(
        said.contains("missing.txt") && said.contains("the list is not there"),
        "{said}"
    );
}

#[test]
fn a_site_answers_whom_it_lets_in() {
    let site = "[site.access]\ndeny = [\"203.0.113.0/24\", \"2001:db8::/32\"]\nallow = [\"203.0.113.9\"]\n\
                [[site.route]]\npath = \"/drop/*\"\n[site.route.access]\ndenied = \"drop\"\n\
                [[site.route]]\npath = \"/office/*\"\n[site.route.access]\nallow = [\"192.0.2.0/24\"]\ndeny = []";
    let dir = folder("site-guard");
    ["drop", "office"].iter().for_each(|name| {
        dir.write(&format!("www/{name}/index.html"), "<p>x</p>")
            .map(drop)
            .unwrap()
    });
    let saker = start(dir, "", site);
    // The second time an outcome may be kept, for those who may have it.
    for _ in 0..2 {
        for (address, target, expected) in [
            ("198.51.100.1", "/", Some(200)),
            ("203.0.113.7", "/", Some(403)),
            ("203.0.113.9", "/", Some(200)),
            ("2001:db8::1", "/", Some(403)),
            ("203.0.113.7", "/drop/", None),
            ("198.51.100.1", "/drop/", Some(200)),
            ("198.51.100.1", "/office/", Some(403)),
            ("192.0.2.1", "/office/", Some(200)),
        ] {
            assert_eq!(
                status(&mut from(&saker, address), target),
                expected,
                "{address} {target}"
            );
        }
    }
    wait_until("the lines", || {
        lines(&saker.dir.join("access.log"))
            .iter()
            .filter(|line| line.contains("/drop/ HTTP") && line.contains(" 444 "))
            .count()
            == 2
    });
    wait_until("the line", || {
        error_log(&saker).contains("address=203.0.113.7 rule=deny site=a.example")
    });
}

#[test]
fn requests_that_are_dropped_end_streams() {
    let site = "[site.access]\ndeny = [\"127.0.0.0/8\"]\ndenied = \"drop\"";
    let plain = operate::start_in(
        folder("drop-http2"),
        &operate::configuration("workers = 1", site),
    );
    let mut frames = Frames::connect(plain.server.address()).unwrap();
    frames.get(1, "/").unwrap();
    let reset = frames.read_until(RST_STREAM).unwrap().unwrap();
    assert_eq!(reset.error_code(), Some(0x0b), "ENHANCE_YOUR_CALM");
    let saker = start_with(folder("drop-http3"), "", site);
    let mut http3 = Http3Client::default().connect(&saker.server.address().to_string());
    http3.open("GET", "/", &[], true);
    http3.until_lost();
}

#[test]
fn too_many_connections_for_too_long_are_a_ban() {
    let saker = start(
        folder("soft"),
        "[limits]\nconnections_per_address = 4\n[abuse]\nconnections_soft = 2\ngrace = \"1s\"\nban = \"1h\"\nexempt = [\"192.0.2.1\"]",
        "",
    );
    let mut open: Vec<Client> = (0..2).map(|_| from(&saker, "203.0.113.7")).collect();
    open.iter_mut()
        .for_each(|client| assert_eq!(status(client, "/"), Some(200)));
    // Over the soft limit there is no keep-alive.
    let mut third = from(&saker, "203.0.113.7");
    third
        .send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
        .unwrap();
    let response = third.read_response().unwrap();
    assert_eq!(
        (response.status, response.field("connection")),
        (200, Some("close"))
    );
    drop(third);
    let mut exempt: Vec<Client> = (0..6).map(|_| from(&saker, "192.0.2.1")).collect();
    exempt
        .iter_mut()
        .for_each(|client| assert_eq!(status(client, "/"), Some(200)));
    wait_until("the ban", || {
        open.push(from(&saker, "203.0.113.7"));
        stdout(&command(&saker, &["bans"])).contains("203.0.113.7 ")
    });
    assert_eq!(status(&mut from(&saker, "203.0.113.7"), "/"), None);
    assert_eq!(status(&mut from(&saker, "203.0.113.8"), "/"), Some(200));
    wait_until("the line", || {
        error_log(&saker).contains("address=203.0.113.7 rule=connections_soft seconds=3600")
    });
}

#[test]
fn what_is_no_http_is_a_ban() {
    let saker = start(
        folder("bad-requests"),
        "[abuse]\nbad_requests = 3\ngrace = \"1h\"",
        "",
    );
    for _ in 0..4 {
        let mut client = from(&saker, "203.0.113.7");
        client.send("NONSENSE\r\n\r\n").unwrap();
        assert_eq!(client.read_response().unwrap().status, 400);
    }
    assert_eq!(status(&mut from(&saker, "203.0.113.7"), "/"), None);
    assert!(stdout(&command(&saker, &["bans"])).contains("bad_requests"));
}

#[test]
fn requests_refused_too_often_are_a_ban() {
    let saker = start(
        folder("refused"),
        "[abuse]\nrefused_requests = 5\ngrace = \"1h\"",
        "[site.throttle]\nrequests_static = { rate = \"1/m\", burst = 1 }\nover = \"503\"",
    );
    let mut client = from(&saker, "203.0.113.7");
    let got: Vec<_> = (0..8).map(|_| status(&mut client, "/index.html")).collect();
    assert_eq!(
        got,
        [
            Some(200),
            Some(200),
            Some(503),
            Some(503),
            Some(503),
            Some(503),
            Some(503),
            Some(503)
        ]
    );
    assert_eq!(
        status(&mut client, "/index.html"),
        None,
        "the sixth refusal was a ban"
    );
    assert_eq!(
        status(&mut from(&saker, "203.0.113.8"), "/index.html"),
        Some(200)
    );
}

#[test]
fn so_many_at_a_time_downloads_among_them() {
    let dir = folder("at-a-time");
    dir.write("www/large.bin", pattern(LARGE_BYTES)).unwrap();
    let saker = start(
        dir,
        "",
        "[site.throttle]\nconcurrent_per_address = 2\nconcurrent_per_site = 3",
    );
    let download = |address: &str| {
        let mut client = from(&saker, address);
        client
            .send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        let began = client.read_bytes(300).unwrap();
        assert!(
            began.starts_with(b"HTTP/1.1 200 OK"),
            "{}",
            String::from_utf8_lossy(&began)
        );
        client
    };
    let (one, _other) = (download("203.0.113.7"), download("203.0.113.7"));
    let mut third = from(&saker, "203.0.113.7");
    third
        .send("GET /index.html HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    let refused = third.read_response().unwrap();
    assert_eq!(
        (refused.status, refused.field("retry-after")),
        (429, Some("1"))
    );
    let _neighbour = download("203.0.113.8");
    assert_eq!(
        status(&mut from(&saker, "203.0.113.9"), "/index.html"),
        Some(503),
        "the site has three"
    );
    drop(one);
    wait_until("a place", || {
        status(&mut from(&saker, "203.0.113.7"), "/index.html") == Some(200)
    });
}

/// Answers each request when it is told to.
fn slow_backend() -> (String, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (came, comes) = mpsc::channel();
    let (go, goes) = mpsc::channel::<()>();
    let goes = std::sync::Arc::new(std::sync::Mutex::new(goes));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (came, goes) = (came.clone(), std::sync::Arc::clone(&goes));
            thread::spawn(move || {
                let mut piece = [0; 4096];
                while stream.read(&mut piece).is_ok_and(|bytes| bytes > 0) {
                    let _ = came.send(());
                    if goes.lock().unwrap().recv().is_err() {
                        return;
                    }
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                }
            });
        }
    });
    (address, comes, go)
}

#[test]
fn requests_for_programs_wait_in_a_line_of_bounded_length() {
    let (backend, comes, go) = slow_backend();
    let site = format!(
        "[site.throttle]\ndynamic_per_address = 1\ndynamic_per_site = 2\ndynamic_queue = 2\n[[site.route]]\npath = \"/app/*\"\nproxy = \"http://{backend}\"\n"
    );
    let saker = start(folder("dynamic"), "", &site);
    let ask = |address: &str| {
        let mut client = from(&saker, address);
        client
            .send("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        client
    };
    let mut one = ask("203.0.113.1");
    comes.recv_timeout(SOON).unwrap();
    let mut other = ask("203.0.113.2");
    comes.recv_timeout(SOON).unwrap();
    // Two slots, two in the queue: of further requests, any two wait, and the others are refused at
    // once.
    let mut more: Vec<Client> = ["203.0.113.1", "203.0.113.3", "203.0.113.4", "203.0.113.4"]
        .map(ask)
        .into();
    let mut refused = 0;
    wait_until("two are refused", || {
        more.retain_mut(
            |client| match client.silent_for(Duration::from_millis(50)) {
                Ok(true) => true,
                _ => {
                    let status = client.read_response().unwrap().status;
                    assert!(matches!(status, 429 | 503), "{status}");
                    refused += 1;
                    false
                }
            },
        );
        refused == 2
    });
    assert!(
        comes.try_recv().is_err(),
        "the program has no more than two"
    );
    (0..4).for_each(|_| go.send(()).unwrap());
    for client in [&mut one, &mut other].into_iter().chain(more.iter_mut()) {
        assert_eq!(client.read_response().unwrap().status, 200);
    }
    assert_eq!(
        status(&mut from(&saker, "203.0.113.1"), "/index.html"),
        Some(200),
        "files are for everybody"
    );
}

/// Each route has its own time in the line: one request has given up, and another one still waits.
#[test]
fn nobody_waits_in_the_line_for_ever() {
    let (backend, comes, go) = slow_backend();
    let route = |path: &str, time: &str| {
        format!(
            "[[site.route]]\npath = \"{path}\"\nproxy = \"http://{backend}\"\n[site.route.throttle]\n\
             dynamic_per_address = 1\ndynamic_queue = 5\ndynamic_queue_time = \"{time}\"\n"
        )
    };
    let site = route("/patient/*", "1h") + &route("/app/*", "50ms");
    let saker = start(folder("dynamic-time"), "", &site);
    let begin = |address: &str, path: &str| {
        let mut client = from(&saker, address);
        client
            .send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
            .unwrap();
        client
    };
    let mut first = begin("203.0.113.1", "/patient/");
    comes.recv_timeout(SOON).unwrap();
    let mut patient = begin("203.0.113.1", "/patient/");
    let mut other = begin("203.0.113.2", "/app/");
    comes.recv_timeout(SOON).unwrap();
    // With the default time for each, this would take longer than the test waits.
    let mut given_up = 0;
    operate::wait_until("three have given up, one after the other", || {
        let answered = status(&mut from(&saker, "203.0.113.2"), "/app/");
        assert_eq!(answered, Some(503));
        given_up += 1;
        given_up == 3
    });
    // The one with the time of a day is served when its turn comes.
    (0..3).for_each(|_| go.send(()).unwrap());
    for client in [&mut first, &mut other, &mut patient] {
        assert_eq!(client.read_response().unwrap().status, 200);
    }
}

#[test]
fn a_site_has_a_rate_of_its_own() {
    let saker = start(
        folder("site-rate"),
        "",
        "[site.throttle]\nrequests_per_site = { rate = \"1/m\", burst = 2 }",
    );
    let got: Vec<_> = (1..=4)
        .map(|host| {
            status(
                &mut from(&saker, &format!("203.0.113.{host}")),
                "/index.html",
            )
        })
        .collect();
    assert_eq!(got, [Some(200), Some(200), Some(200), Some(503)]);
}

/// Debian's fail2ban reads the lines, by the filter that comes with the server.
#[test]
fn fail2ban_finds_the_addresses() {
    let saker = start(
        folder("fail2ban"),
        "",
        "[site.throttle]\nrequests_static = { rate = \"1/m\", burst = 1 }\n[site.access]\ndeny = [\"192.0.2.1\"]",
    );
    for address in ["203.0.113.7", "2001:db8::7"] {
        let mut client = from(&saker, address);
        let got: Vec<_> = (0..4).map(|_| status(&mut client, "/index.html")).collect();
        assert_eq!(got, [Some(200), Some(200), Some(429), Some(429)]);
    }
    assert_eq!(
        status(&mut from(&saker, "192.0.2.1"), "/index.html"),
        Some(403)
    );
    wait_until("the lines", || {
        error_log(&saker).matches("SK0411").count() == 5
    });
    let filter = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../contrib/fail2ban/filter.d/saker.conf"
    );
    let log = saker.dir.join("error.log");
    let output = Command::new(require("fail2ban-regex").unwrap())
        .args(["-o", "ip"])
        .arg(&log)
        .arg(filter)
        .output()
        .unwrap();
    let found = stdout(&output);
    let found: Vec<&str> = found.lines().collect();
    assert_eq!(
        found,
        ["203.0.113.7", "203.0.113.7", "2001:db8::7", "2001:db8::7"],
        "{}\n{}",
        stderr(&output),
        error_log(&saker)
    );
}

#[test]
fn the_directives_of_mod_evasive_and_mod_limitipconn() {
    let dir = folder("evasive");
    dir.write("www/files/large.bin", pattern(LARGE_BYTES))
        .unwrap();
    let saker = operate::apache("ServerRoot {dir}\nLoadModule mpm_event_module modules/mod_mpm_event.so\nListen {address}\nServerName a\nDocumentRoot {dir}/www\nErrorLog {dir}/error.log\n\
         LoadModule evasive20_module modules/mod_evasive20.so\nLoadModule limitipconn_module modules/mod_limitipconn.so\n\
         LoadModule remoteip_module modules/mod_remoteip.so\nLoadModule authz_core_module modules/mod_authz_core.so\n\
         RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1\n\
         <IfModule mod_evasive20.c>\nDOSPageCount 3\nDOSPageInterval 60\nDOSSiteCount 100\nDOSSiteInterval 60\nDOSBlockingPeriod 600\n\
         DOSWhitelist 192.0.2.*\n</IfModule>\n\
         <IfModule mod_limitipconn.c>\n<Location /files>\nMaxConnPerIP 1\n</Location>\n</IfModule>\n\
         <Directory {dir}/www>\nRequire all granted\n</Directory>\n").start(dir);
    let as_client = |client: &mut Client, target: &str, address: &str| {
        client
            .send(format!(
                "GET {target} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {address}\r\n\r\n"
            ))
            .unwrap();
    };
    let ask = |target: &str, address: &str| {
        let mut client = saker.connect().unwrap();
        as_client(&mut client, target, address);
        client.read_response().unwrap().status
    };
    // The burst and the first request pass; then requests of every address are refused.
    let got: Vec<u16> = (0..6).map(|_| ask("/index.html", "203.0.113.7")).collect();
    assert_eq!(got, [200, 200, 200, 200, 403, 403]);
    assert_eq!(ask("/missing", "203.0.113.7"), 403);
    assert_eq!(ask("/index.html", "203.0.113.8"), 200);
    assert!((0..10).all(|_| ask("/index.html", "192.0.2.77") == 200));
    let mut download = saker.connect().unwrap();
    as_client(&mut download, "/files/large.bin", "203.0.113.9");
    assert!(
        download
            .read_bytes(300)
            .unwrap()
            .starts_with(b"HTTP/1.1 200 OK")
    );
    assert_eq!(ask("/files/large.bin", "203.0.113.9"), 503);
    assert_eq!(ask("/index.html", "203.0.113.9"), 200);
    drop(download);
    wait_until("the place is free", || ask("/files/", "203.0.113.9") != 503);
}

/// One sends fifty times its share; everybody else is answered, and the one has what it is due.
#[test]
fn a_neighbour_who_takes_fifty_times_his_share_takes_it_from_nobody() {
    const SHARE: u16 = 20;
    let saker = start(
        folder("fair"),
        "",
        &format!(
            "[site.throttle]\nrequests_static = {{ rate = \"1/m\", burst = {SHARE} }}\nrequests_per_site = \"100000/s\""
        ),
    );
    let (passed, refused) = thread::scope(|scope| {
        let bad = |_| scope.spawn(|| statuses_of(&mut from(&saker, "203.0.113.66"), SHARE * 10));
        let bad: Vec<_> = (0..5).map(bad).collect();
        let others = (1..=10).map(|host| {
            (
                host,
                scope.spawn({
                    let saker = &saker;
                    move || statuses_of(&mut from(saker, &format!("203.0.113.{host}")), SHARE)
                }),
            )
        });
        for (host, other) in others.collect::<Vec<_>>() {
            assert_eq!(
                other.join().unwrap(),
                [200].repeat(SHARE.into()),
                "203.0.113.{host}"
            );
        }
        let all: Vec<u16> = bad
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        (
            all.iter().filter(|status| **status == 200).count(),
            all.iter().filter(|status| **status == 429).count(),
        )
    });
    assert_eq!(passed + refused, usize::from(SHARE) * 50);
    // The one that always may, and one that comes back each minute.
    assert!(
        (usize::from(SHARE)..=usize::from(SHARE) + 3).contains(&passed),
        "{passed}"
    );
    wait_until("the line", || {
        error_log(&saker).contains("address=203.0.113.66 rule=requests_static")
    });
    assert!(
        (1..=10).all(|host| !error_log(&saker).contains(&format!("address=203.0.113.{host} ")))
    );
}

fn statuses_of(client: &mut Client, count: u16) -> Vec<u16> {
    (0..count)
        .map(|_| status(client, "/index.html").unwrap_or(0))
        .collect()
}

#[test]
fn a_rate_is_one_over_all_protocols() {
    let site = "[site.throttle]\nrequests_static = { rate = \"1/m\", burst = 9 }\n";
    let saker = start_with(folder("rate-protocols"), "", site);
    let address = saker.server.address();
    let mut http3 = Http3Client::default().connect(&address.to_string());
    assert_eq!(
        (0..4)
            .map(|_| http3.get("/index.html").status)
            .collect::<Vec<_>>(),
        [200; 4]
    );
    let url = format!("https://{address}/index.html");
    let curl = |version: &str, from: &str| -> Vec<String> {
        let arguments = [
            "-skm",
            "20",
            version,
            "--interface",
            from,
            "-o",
            "/dev/null",
            "-o",
            "/dev/null",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}\n",
        ];
        let output = Command::new(require("curl").unwrap())
            .args(arguments)
            .args([&url; 3])
            .output()
            .unwrap();
        stdout(&output).lines().map(str::to_owned).collect()
    };
    assert_eq!(curl("--http2", "127.0.0.1"), ["200"; 3]);
    assert_eq!(curl("--http1.1", "127.0.0.1"), ["200"; 3]);
    // That was the burst; over whichever protocol he comes back, he is over it.
    for (got, version) in [
        (curl("--http2", "127.0.0.1"), "2"),
        (curl("--http1.1", "127.0.0.1"), "1.1"),
    ] {
        assert!(
            got.iter().filter(|status| *status == "429").count() >= 2,
            "HTTP/{version}: {got:?}"
        );
        let refused = http3.get("/index.html");
        assert!(
            refused.status == 429 && refused.field("retry-after").is_some(),
            "{refused:?}"
        );
    }
    assert_eq!(
        curl("--http2", "127.0.0.2"),
        ["200"; 3],
        "a neighbour of his"
    );
}
