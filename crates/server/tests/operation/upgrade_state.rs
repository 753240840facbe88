//! State that goes along in an upgrade: TLS tickets, sessions with early data, counters, limits,
//! bans, and the health of upstreams.
//!
//! Caveat: what a server would have without the state is the opposite of what is asserted: full
//! handshakes, counters from 0, a rate that is not used up, servers that are taken to be well.

use crate::{
    http3_client::{self, site},
    operate::{self, wait_until},
    origin, tls_site,
    upgrade::{Load, State, break_off_at, text},
};
use saker_testkit::{Client, OPENSSL_CLIENT, Saker, keep_waiting, require};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

fn upgrade(state: &State) {
    let upgraded = state.upgrade(&[]);
    assert!(upgraded.status.success(), "{}", text(&upgraded));
}

fn counter(state: &State, name: &str) -> u64 {
    let status = state.status();
    let value = status["counters"][name].as_u64();
    value.unwrap_or_else(|| panic!("{name}: {status}"))
}

fn wait_for_counter(state: &State, name: &str, value: u64) {
    wait_until(&format!("{name} is {value}"), || {
        counter(state, name) == value
    });
}

/// Returns true if the session in the file was resumed; leaves the next one there.
fn is_resumed(address: SocketAddr, version: &str, session: &str, comes_back: bool) -> bool {
    let mut command = Command::new(require("openssl").unwrap());
    command
        .args(OPENSSL_CLIENT)
        .args(["-ign_eof", "-connect", &address.to_string()])
        .args([version, "-sess_out", session]);
    if comes_back {
        command.args(["-sess_in", session]);
    }
    let mut client = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // With a response the ticket has come, too.
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    client.stdin.take().unwrap().write_all(request).unwrap();
    let mut said = String::new();
    client
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    client.wait().unwrap();
    assert!(said.contains("200 OK"), "{said}");
    said.contains("\nReused, ")
}

#[test]
fn tickets_are_good_after_upgrades() {
    let saker = tls_site::start("upgrade-tickets", "", "");
    let (state, address) = (State::of(&saker), saker.server.address());
    for version in ["-tls1_2", "-tls1_3"] {
        let session = saker.dir.join(version).display().to_string();
        assert!(!is_resumed(address, version, &session, false));
        upgrade(&state);
        wait_until("it is alone", || state.status()["finishing_pid"].is_null());
        assert!(is_resumed(address, version, &session, true), "{version}");
        upgrade(&state);
        assert!(is_resumed(address, version, &session, true), "{version}");
    }
}

#[test]
fn early_data_is_taken_after_upgrades_and_once() {
    let saker = site::start("upgrade-early", "", "");
    let state = State::of(&saker);
    let client = http3_client::Client::default();
    let address = saker.server.address().to_string();
    let early = "quic_early_data_total";
    let come_back = || {
        let tickets = client.tickets_received();
        let mut again = client.begin(&address);
        assert!(again.connection().has_early_data(), "it has a ticket");
        again.until(|peer| peer.is_established && client.tickets_received() > tickets);
        again
    };
    client.connect_for_ticket(&address).close();
    come_back().close();
    wait_for_counter(&state, early, 1);
    upgrade(&state);
    assert_eq!(counter(&state, early), 1, "the counter goes on");
    come_back().close();
    wait_for_counter(&state, early, 2);
    wait_until("it is alone", || state.status()["finishing_pid"].is_null());
    // A successor that got the sessions, and ended: they are this server's again.
    break_off_at(&state.0, 2);
    wait_until("it offers again", || {
        come_back().close();
        // Counted with a delay: the next client may have been served.
        counter(&state, early) >= 3
    });
    upgrade(&state);
    let before = counter(&state, early);
    come_back().close();
    wait_until("the next server takes it", || {
        counter(&state, early) > before
    });
}

#[test]
fn counters_go_on() {
    let saker = operate::start(
        "upgrade-counters",
        &operate::configuration("workers = 2", ""),
    );
    let state = State::of(&saker);
    let name = "responses_total{class=\"2xx\"}";
    let get = || {
        let mut client = saker.connect().unwrap();
        assert_eq!(client.get("/").unwrap().status, 200);
    };
    (0..5).for_each(|_| get());
    wait_for_counter(&state, name, 5);
    // It is answered by the old server, after that one has handed its counters over.
    let mut lasting = saker.connect().unwrap();
    lasting.send("GET / HTTP/1.1\r\nHost: local").unwrap();
    wait_until("the connection is there", || {
        counter(&state, "connections_open") > 0
    });
    upgrade(&state);
    assert_eq!(counter(&state, name), 5);
    get();
    lasting.send("host\r\n\r\n").unwrap();
    assert_eq!(lasting.read_response().unwrap().status, 200);
    wait_until("it is alone", || state.status()["finishing_pid"].is_null());
    assert_eq!(counter(&state, name), 7);
    upgrade(&state);
    assert_eq!(counter(&state, name), 7);
}

#[test]
fn limits_and_bans_hold() {
    let limits = "[site.throttle]\nrequests_static = { rate = \"1/m\", burst = 2 }";
    let saker = operate::start("upgrade-limits", &operate::configuration("", limits));
    let state = State::of(&saker);
    let status = || saker.connect().unwrap().get("/").unwrap().status;
    assert_eq!(
        [status(), status(), status(), status()],
        [200, 200, 200, 429]
    );
    upgrade(&state);
    assert_eq!(status(), 429);
    let folder = state.0.display().to_string();
    let banned = operate::saker(["ban", "127.0.0.1", "--state-dir", &folder]);
    assert!(banned.status.success(), "{}", text(&banned));
    upgrade(&state);
    let refused = saker.connect().and_then(|mut client| client.get("/"));
    assert!(
        !refused.is_ok_and(|response| response.status == 429 || response.status == 200),
        "the ban holds"
    );
}

/// A server that fails its checks; the number of requests for anything else.
fn sick() -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Arc::<AtomicU64>::default());
    let counted = Arc::clone(&asked);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let bytes = stream.read(&mut head).unwrap_or(0);
            if !String::from_utf8_lossy(&head[..bytes]).contains("/health") {
                counted.fetch_add(1, Ordering::SeqCst);
            }
            let _ = stream
                .write_all(b"HTTP/1.1 500 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = keep_waiting(&stream, Duration::from_millis(10));
        }
    });
    (address, asked)
}

#[test]
fn upstreams_that_are_down_stay_down() {
    let (sick, asked) = sick();
    let well = operate::start("upgrade-health-well", &operate::configuration("", ""));
    let configuration = |checks: &str| {
        operate::configuration(
            "",
            &format!(
                "[[site.route]]\npath = \"/*\"\nproxy = \"app\"\n[[upstream]]\nname = \"app\"\nservers = [\"http://{sick}\", \"http://{}\"]\nhealth_path = \"/health\"\nhealth_statuses = [404]\n{checks}",
                well.server.address()
            ),
        )
    };
    let saker = operate::start(
        "upgrade-health",
        &configuration("health_interval = \"100ms\"\nhealth_fall = 1"),
    );
    let state = State::of(&saker);
    let member = |name: &str| state.status()["upstreams"][0]["members"][0][name].clone();
    wait_until("its checks have failed", || member("state") == "down");
    let get = || {
        let mut client = saker.connect().unwrap();
        client.get("/").unwrap().status
    };
    asked.store(0, Ordering::SeqCst);
    (0..4).for_each(|_| assert_eq!(get(), 200));
    let requests = member("requests");
    // A server that begins anew would take it for well until a thousand days have passed.
    operate::rewrite(
        &saker,
        &configuration("health_interval = \"1d\"\nhealth_fall = 1000"),
    );
    upgrade(&state);
    assert_eq!(
        (member("state"), member("requests")),
        ("down".into(), requests)
    );
    (0..4).for_each(|_| assert_eq!(get(), 200));
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

/// The page cache answers the first request that the new server gets; its origin is not asked.
#[test]
fn the_first_request_is_a_hit() {
    let origin = origin::Origin::start("upgrade-first-hit", "", |asked| {
        origin::ok(
            &[("Cache-Control", "public, max-age=600")],
            &format!("answer {}", asked.count),
        )
    });
    let state = State::of(&origin.saker);
    let get = |saker: &Saker| saker.connect().unwrap().get("/a").unwrap();
    assert_eq!(get(&origin.saker).text(), "answer 1");
    assert_eq!(get(&origin.saker).text(), "answer 1");
    let hits = "page_cache_requests_total{result=\"hit\"}";
    wait_for_counter(&state, hits, 1);
    for round in 2..4 {
        upgrade(&state);
        assert_eq!(get(&origin.saker).text(), "answer 1");
        wait_for_counter(&state, hits, round);
    }
}

/// Pages that are stored answer each request, whichever of both servers it reaches: none is asked of
/// the origin again, though clients never pause. `SAKER_UPGRADES` asks for more upgrades.
#[test]
fn all_requests_are_hits_through_upgrades_under_load() {
    const PAGES: usize = 40;
    /// Time that the old server gives to connections that it has accepted.
    const SLOW: Duration = Duration::from_millis(50);
    let _turn = saker_testkit::heavy();
    let origin = origin::Origin::start("upgrade-hits", "", |asked| {
        origin::ok(
            &[("Cache-Control", "public, max-age=6000")],
            &format!("answer {}", asked.count),
        )
    });
    let (state, address) = (State::of(&origin.saker), origin.saker.server.address());
    // `None`: the connection has been closed, as an idle one may be.
    let hit = |client: &mut Client, page: usize, since: Instant| {
        let target = format!("/page/{}", page % PAGES);
        let response = client.get(&target).ok()?;
        let is_hit = response.text() == "answer 1";
        assert!(is_hit || since.elapsed() >= SLOW, "{target}: {response:?}");
        Some(response.field("connection") != Some("close"))
    };
    let (mut first, now) = (Client::connect(address).unwrap(), Instant::now());
    for page in 0..PAGES {
        assert_eq!(hit(&mut first, page, now), Some(true));
    }
    let client = |number: usize| -> Box<dyn FnMut() -> Result<(), String> + Send> {
        let mut page = number * PAGES / 3;
        Box::new(move || {
            page += 1;
            let mut since = Instant::now();
            let mut client = Client::connect(address).map_err(|error| error.to_string())?;
            let mut goes_on = hit(&mut client, page, since).ok_or("a new connection was closed")?;
            // Further ones on the same connection.
            for _ in 0..page % 3 {
                since = Instant::now();
                goes_on = goes_on && hit(&mut client, page, since).unwrap_or(false);
            }
            Ok(())
        })
    };
    let load = Load::start((0..3).map(client).collect());
    let upgrades = std::env::var("SAKER_UPGRADES").ok();
    for _ in 0..upgrades.and_then(|text| text.parse().ok()).unwrap_or(4) {
        load.goes_on();
        upgrade(&state);
        load.goes_on();
    }
    let answered = load
        .finish()
        .unwrap_or_else(|why| panic!("{why}\n{}", origin.saker.server.stderr()));
    println!("{answered} connections with hits alone");
}
