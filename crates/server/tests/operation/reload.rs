//! Reloading: the new configuration answers the next request, nothing that is open is cut, and a
//! broken file changes nothing.

use crate::operate::{
    Load, PATIENCE, begin_download, configuration, folder, generation, lines, pattern, reload,
    rest_of_download, rewrite, start,
};
use crate::{
    http3_client, operate, tls_site,
    upgrade::{self, State, keeping, knocking},
};
use saker_testkit::{Client, Signal, poll};
use std::{
    net::{IpAddr, SocketAddr, TcpStream},
    time::Duration,
};

const REQUESTS: u64 = 200_000;

#[test]
fn a_hundred_reloads_in_two_hundred_thousand_requests() {
    let site = |number: usize| {
        configuration(
            "workers = 2",
            &format!("access_log = \"access.log\"\nheaders = {{ X-Number = \"{number:03}\" }}"),
        )
    };
    let saker = start("reload-load", &site(0));
    let load = Load::start(saker.server.address(), 8, "/", "<p>hello</p>\n");
    for number in 1..=100 {
        rewrite(&saker, &site(number));
        if number % 2 == 0 {
            saker.server.signal(Signal::HUP).expect("sent");
        } else {
            let output = reload(&saker);
            assert!(output.status.success(), "{}", operate::stderr(&output));
        }
        operate::wait_until("the reload", || generation(&saker) == number as u64 + 1);
        assert!(
            !load.has_failed(),
            "after reload {number}: {:?}\n{}",
            load.finish(),
            saker.server.stderr()
        );
    }
    let _ = poll(Duration::from_secs(600), || {
        (load.requests() >= REQUESTS || load.has_failed()).then_some(())
    });
    let requests = load.finish().expect("no error");
    assert!(requests >= REQUESTS, "only {requests} in time");
    let path = saker.dir.join("access.log");
    assert!(saker.server.stop().expect("stopped").success());
    let logged = lines(&path);
    assert_eq!(logged.len() as u64, requests);
    assert!(
        logged
            .iter()
            .all(|line| line.contains("\"GET / HTTP/1.1\" 200 13 ")),
        "a torn line"
    );
}

#[test]
fn what_is_open_goes_on_and_the_next_request_sees_the_new_settings() {
    const BYTES: usize = 24 << 20;
    let two = |first: &str, number: u8| {
        configuration(
            "workers = 1",
            &format!("{first}access_log = \"of-all.log\"\nheaders = {{ X-Number = \"{number}\" }}"),
        )
    };
    let dir = folder("reload-open");
    dir.write("www/large.bin", pattern(BYTES)).expect("written");
    let saker = operate::start_in(dir, &two("", 1));
    let mut old = saker.connect().expect("connected");
    assert_eq!(old.get("/").expect("answered").field("x-number"), Some("1"));
    let (mut slow, begun) = begin_download(&saker, "/large.bin", 100_000);

    // A site before the first one moves its place in every table.
    let before = "[[site]]\nnames = [\"other.example\"]\nroot = \"{dir}/www\"\naccess_log = \"other.log\"\n\n[[site]]";
    rewrite(
        &saker,
        &two("", 2)
            .replacen("[[site]]", before, 1)
            .replace("of-all.log", "new.log"),
    );
    assert!(reload(&saker).status.success());
    assert_eq!(
        old.get("/").expect("answered").field("x-number"),
        Some("2"),
        "the same connection"
    );
    let other = old
        .request("GET", "/", &[("Host", "other.example")])
        .expect("answered");
    assert_eq!((other.status, other.field("x-number")), (200, None));
    assert!(
        rest_of_download(&mut slow, begun, BYTES) == pattern(BYTES),
        "the download is not whole"
    );
    assert_eq!(
        slow.get("/").expect("answered").field("x-number"),
        Some("2"),
        "and its connection is good for more"
    );

    let dir = saker.dir.to_path_buf();
    drop((old, slow));
    saker.server.signal(Signal::TERM).expect("sent");
    operate::wait_until("the end", || !dir.join("state/saker.pid").exists());
    let requests = |name: &str| {
        lines(&dir.join(name))
            .iter()
            .filter_map(|line| Some(line.split('"').nth(1)?.to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        requests("of-all.log"),
        ["GET / HTTP/1.1", "GET /large.bin HTTP/1.1"],
        "begun before, logged where it began"
    );
    assert_eq!(requests("other.log"), ["GET / HTTP/1.1"]);
    assert_eq!(requests("new.log"), ["GET / HTTP/1.1", "GET / HTTP/1.1"]);
}

#[test]
fn a_broken_file_changes_nothing_and_everybody_hears_why() {
    let good = configuration("workers = 1", "headers = { X-Number = \"1\" }");
    let saker = start("reload-broken", &good);
    let mut client = saker.connect().expect("connected");
    for broken in [
        good.replace("workers = 1", "wrokers = 1"),
        good.replace("[server]", "[server"),
        good.replace("/www", "\u{7}"),
    ] {
        rewrite(&saker, &broken);
        let output = reload(&saker);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            operate::stderr(&output).contains("saker.toml:"),
            "{}",
            operate::stderr(&output)
        );
        assert!(operate::stderr(&output).contains("not reloaded; the server goes on as before"));
        assert_eq!(
            client.get("/").expect("answered").field("x-number"),
            Some("1")
        );
    }
    rewrite(&saker, &good.replace("workers = 1", "\nwrokers = 1"));
    saker.server.signal(Signal::HUP).expect("sent");
    saker
        .server
        .wait_for_stderr("saker.toml:4:1: error: ", PATIENCE)
        .expect("the error log names file, line and column");
    saker
        .server
        .wait_for_stderr("SK0202", PATIENCE)
        .expect("under its id");
    assert_eq!(generation(&saker), 1);
    let status = operate::ask(&saker.dir.join("state"), "status").expect("status");
    assert!(
        status["last_reload"]["error"]
            .as_str()
            .is_some_and(|error| error.contains("wrokers")),
        "{status}"
    );
    rewrite(&saker, &good.replace("\"1\"", "\"2\""));
    assert!(reload(&saker).status.success());
    assert_eq!(
        client.get("/").expect("answered").field("x-number"),
        Some("2")
    );
}

#[test]
fn a_listener_that_cannot_be_had_refuses_the_whole() {
    let plain = configuration("workers = 1", "");
    let saker = start("reload-taken", &plain);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = taken.local_addr().expect("address");
    rewrite(
        &saker,
        &format!("{plain}\n[[listener]]\naddress = \"{address}\"\n").replace("/www", "/elsewhere"),
    );
    let output = reload(&saker);
    assert_eq!(output.status.code(), Some(1));
    let text = operate::stderr(&output);
    assert!(
        text.contains(&format!("cannot listen on {address}")) && text.contains("saker.toml:"),
        "{text}"
    );
    assert_eq!(
        saker
            .connect()
            .expect("connected")
            .get("/")
            .expect("answered")
            .status,
        200
    );
}

#[test]
fn listeners_come_and_go() {
    // With it, a new server would take over for a Unix socket in a directory that is not writable.
    let plain = configuration("workers = 2\nsandbox = \"off\"", "");
    let saker = start("reload-listeners", &plain);
    let address = SocketAddr::from(([127, 0, 0, 1], saker_testkit::free_port().expect("port")));
    let unix = saker.dir.join("http.sock");
    rewrite(
        &saker,
        &format!(
            "{plain}\n[[listener]]\naddresses = [\"{address}\", \"unix:{}\"]\n",
            unix.display()
        ),
    );
    let output = reload(&saker);
    assert!(
        operate::stdout(&output).starts_with("reloaded: generation 2, 3 listeners, 1 site"),
        "{output:?}"
    );
    let mut added = Client::connect(address).expect("connected");
    assert_eq!(added.get("/").expect("answered").status, 200);
    assert_eq!(
        Client::connect_unix(&unix)
            .expect("connected")
            .get("/")
            .expect("answered")
            .status,
        200
    );

    rewrite(&saker, &plain);
    assert!(reload(&saker).status.success());
    operate::wait_until("the listener is gone", || {
        TcpStream::connect(address).is_err()
    });
    assert!(!unix.exists(), "the file of a removed Unix listener");
    // A connection outlives its listener, and is told on its next response that this one was the
    // last, or served on.
    assert!(matches!(
        added.get("/").expect("answered").status,
        200 | 421
    ));
    assert_eq!(
        saker
            .connect()
            .expect("connected")
            .get("/")
            .expect("answered")
            .status,
        200
    );

    rewrite(
        &saker,
        &format!("{plain}\n[[listener]]\naddress = \"{address}\"\n"),
    );
    assert!(reload(&saker).status.success(), "and it can come back");
    assert_eq!(
        Client::connect(address)
            .expect("connected")
            .get("/")
            .expect("answered")
            .status,
        200
    );
}

/// From one address to all and back, and to all of both families: no client is refused meanwhile.
#[test]
fn a_listener_moves_between_one_address_and_all() {
    let port = saker_testkit::free_port().expect("a port");
    let at = |host: &str| SocketAddr::from((host.parse::<IpAddr>().expect("an address"), port));
    let (own, other) = (at("127.0.0.1"), at("127.0.0.2"));
    let text = |address: SocketAddr| {
        format!(
            "{}\n[[listener]]\naddress = \"{address}\"\n",
            configuration("workers = 2", "")
        )
    };
    let saker = start("reload-moves", &text(own));
    let state = State::of(&saker);
    let load = upgrade::Load::start(vec![knocking(own), knocking(own), keeping(own)]);
    let mut lasting = Client::connect(own).expect("connected");
    for (address, reaches_other) in [
        (at("0.0.0.0"), true),
        (own, false),
        (at("0.0.0.0"), true),
        (at("::"), true),
        (own, false),
    ] {
        rewrite(&saker, &text(address));
        let output = reload(&saker);
        assert!(output.status.success(), "{address}: {output:?}");
        load.goes_on();
        operate::wait_until("the other address follows", || {
            TcpStream::connect(other).is_ok() == reaches_other
        });
        assert_eq!(lasting.get("/").expect("answered").status, 200, "{address}");
        if reaches_other {
            assert_eq!(ask(other), 200, "{address}");
            let shown = state.status()["listeners"].to_string();
            assert!(!shown.contains(&own.to_string()), "{shown}");
        }
    }
    // A successor has the sockets of all parts.
    rewrite(&saker, &text(at("0.0.0.0")));
    assert!(reload(&saker).status.success());
    let upgraded = state.upgrade(&[]);
    assert!(upgraded.status.success(), "{upgraded:?}");
    load.goes_on();
    assert_eq!((ask(own), ask(other)), (200, 200));
    load.finish().unwrap_or_else(|why| panic!("{why}"));
}

fn ask(address: SocketAddr) -> u16 {
    let mut client = Client::connect(address).expect("connected");
    client.get("/").expect("answered").status
}

/// The same over HTTP/3: connections go on, and the new addresses have it, too.
#[test]
fn a_listener_of_quic_moves_to_all_addresses() {
    let port = saker_testkit::free_port().expect("a port");
    let text = |host: &str| {
        tls_site::configuration("", "").replace("{address}", &format!("{host}:{port}"))
    };
    let dir = folder("reload-moves-quic");
    tls_site::certificate(&dir, "site", "localhost");
    let saker = operate::native(&text("127.0.0.1"))
        .at(SocketAddr::from(([127, 0, 0, 1], port)))
        .start(dir);
    let client = http3_client::Client::default();
    let mut lasting = client.connect(&format!("127.0.0.1:{port}"));
    assert_eq!(lasting.get("/").status, 200);
    rewrite(&saker, &text("0.0.0.0"));
    let output = reload(&saker);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(lasting.get("/").status, 200);
    for host in ["127.0.0.1", "127.0.0.2"] {
        let mut new = client.connect(&format!("{host}:{port}"));
        assert_eq!(new.get("/").status, 200, "{host}");
        new.close();
    }
    rewrite(&saker, &text("127.0.0.1"));
    assert!(reload(&saker).status.success());
    assert_eq!(lasting.get("/").status, 200);
    lasting.close();
}

/// Sockets of before the change of user are root's: the broker binds those beside them.
#[test]
fn listeners_and_the_console_move_below_a_broker() {
    if !rustix::process::geteuid().is_root() {
        println!("left out: root is needed");
        return;
    }
    let [site, console] = [(); 2].map(|()| saker_testkit::free_port().expect("a port"));
    let text = |host: &str| {
        let text = tls_site::configuration("", "")
            .replace("{address}", &format!("{host}:{site}"))
            .replace("workers = 1", "workers = 2\nuser = \"nobody\"");
        format!("{text}\n[console]\naddress = \"{host}:{console}\"\ntls = true\n")
    };
    let dir = folder("reload-moves-user");
    tls_site::certificate(&dir, "site", "localhost");
    let saker = operate::native(&text("127.0.0.1"))
        .at(SocketAddr::from(([127, 0, 0, 1], site)))
        .start(dir);
    let client = http3_client::Client::default();
    for host in ["0.0.0.0", "127.0.0.1", "0.0.0.0"] {
        rewrite(&saker, &text(host));
        let output = reload(&saker);
        assert!(output.status.success(), "{host}: {output:?}");
        let is_all = host == "0.0.0.0";
        for port in [site, console] {
            operate::wait_until("the other address follows", || {
                TcpStream::connect(("127.0.0.2", port)).is_ok() == is_all
            });
            TcpStream::connect(("127.0.0.1", port)).expect("this one stays");
        }
        let address = if is_all { "127.0.0.2" } else { "127.0.0.1" };
        let mut new = client.connect(&format!("{address}:{site}"));
        assert_eq!(new.get("/").status, 200, "{host}");
        new.close();
        // Those of an address that is gone stay until their connections have ended, and would be
        // among those that the next reload binds.
        operate::wait_until("sockets that are not listened on are closed", || {
            is_all || !has_udp_at_all_addresses(site)
        });
    }
}

fn has_udp_at_all_addresses(port: u16) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/udp").expect("sockets");
    sockets.contains(&format!(" 00000000:{port:04X} "))
}

#[test]
fn what_needs_a_restart_is_said() {
    // With it, a new server would take over for a log in another directory.
    let fixed = configuration("workers = 1\nsandbox = \"off\"", "");
    let saker = start("reload-fixed", &fixed);
    rewrite(
        &saker,
        &configuration(
            "workers = 2\nuser = \"nobody\"\nerror_log = \"error.log\"",
            "",
        ),
    );
    let output = reload(&saker);
    assert!(output.status.success());
    for name in ["server.workers", "server.user", "server.error_log"] {
        assert!(
            operate::stderr(&output).contains(&format!("{name} changes with the next start")),
            "{}",
            operate::stderr(&output)
        );
    }
    saker
        .server
        .wait_for_stderr("server.workers changes with the next start", PATIENCE)
        .expect("the error log has it too");
    let status = operate::ask(&saker.dir.join("state"), "status").expect("status");
    assert_eq!(status["workers"], 1);
}

#[test]
fn limits_of_the_new_configuration_hold_on_old_connections() {
    let saker = start("reload-limits", &configuration("workers = 1", ""));
    let mut old = saker.connect().expect("connected");
    assert_eq!(old.get("/").expect("answered").status, 200);
    rewrite(
        &saker,
        &configuration(
            "workers = 1",
            "[site.throttle]\nrequests_static = { rate = \"1/m\", burst = 1 }",
        ),
    );
    assert!(reload(&saker).status.success());
    let statuses: Vec<u16> = (0..4)
        .map(|_| old.get("/").expect("answered").status)
        .collect();
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
}
