//! SRV records: weights and priorities, failures, names that are gone, restarts, and reloads.

use super::fixture::{
    configuration, counts, named, source, wait_for_error, wait_for_names, wait_for_recovery,
};
use crate::{
    name_server::{A, NXDOMAIN, NameServer, SERVFAIL, SRV, srv},
    operate,
};
use saker_testkit::{Saker, free_port, wait_for_text, wait_until};
use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
};

const SERVICE: &str = "_http._tcp.app.test";

/// Records with a lifetime of none, so that they are asked for each second.
fn records(all: &[(u16, u16, SocketAddr)]) -> Vec<(u32, Vec<u8>)> {
    let record = |(priority, weight, address): &(u16, u16, SocketAddr)| {
        (0, srv(*priority, *weight, address.port(), "host.test"))
    };
    all.iter().map(record).collect()
}

fn names_of(all: &[(u16, u16, SocketAddr)]) -> NameServer {
    let names = NameServer::start();
    names.set("host.test", A, Ok(vec![(60, vec![127, 0, 0, 1])]));
    names.set(SERVICE, SRV, Ok(records(all)));
    names
}

fn keys(names: &NameServer) -> String {
    format!(
        "dns_srv = \"{SERVICE}\"\nresolvers = [\"{}\"]\nnetworks = [\"127.0.0.0/8\"]\nrefresh = \"1s\"",
        names.address
    )
}

fn metrics(saker: &Saker) -> String {
    let mut stream = UnixStream::connect(saker.dir.join("state/control.sock")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn records_say_servers_with_shares_and_priorities() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let names = names_of(&[(10, 3, a), (10, 1, b), (20, 5, c)]);
    let saker = operate::start("discovery-srv", &configuration(&keys(&names)));
    let found = counts(&saker, 40);
    assert_eq!(
        (found["a"], found["b"], found.len()),
        (30, 10, 2),
        "{found:?}"
    );
    let report = source(&saker);
    assert_eq!(report["servers"], 3, "{report}");
    assert_eq!(report["source"], format!("DNS SRV {SERVICE}"));
    let metrics = metrics(&saker);
    for line in [
        "saker_discovered_servers{upstream=\"app\"} 3\n",
        "saker_discovery_failing{upstream=\"app\"} 0\n",
        "saker_discovery_age_seconds{upstream=\"app\"} ",
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
    names.set(SERVICE, SRV, Ok(records(&[(20, 1, c)])));
    wait_for_names(&saker, &["c"]);
    // A server that is not well makes room for a higher priority number.
    let gone = SocketAddr::from(([127, 0, 0, 1], 1));
    names.set(SERVICE, SRV, Ok(records(&[(1, 1, gone), (2, 1, b)])));
    wait_for_names(&saker, &["b"]);
}

#[test]
fn failures_change_nothing_and_a_missing_name_everything() {
    let (a, b) = (named("a"), named("b"));
    let names = names_of(&[(1, 1, a)]);
    let text = configuration(&keys(&names));
    let saker = operate::start("discovery-failures", &text);
    assert_eq!(counts(&saker, 5)["a"], 5);
    names.set(SERVICE, SRV, Err(SERVFAIL));
    let error = wait_for_error(&saker);
    assert!(error.contains("Server failure"), "{error}");
    assert!(metrics(&saker).contains("saker_discovery_failing{upstream=\"app\"} 1\n"));
    assert_eq!(counts(&saker, 5)["a"], 5);
    // A failed lookup of a host is a failure, too.
    names.set("host.test", A, Err(SERVFAIL));
    names.set(SERVICE, SRV, Ok(records(&[(1, 1, b)])));
    let before = names.asked("host.test", A);
    wait_until("the host is asked for", || {
        names.asked("host.test", A) > before
    });
    assert_eq!(counts(&saker, 5)["a"], 5);
    names.set("host.test", A, Ok(vec![(60, vec![127, 0, 0, 1])]));
    wait_for_names(&saker, &["b"]);
    wait_for_recovery(&saker);
    names.set(SERVICE, SRV, Err(NXDOMAIN));
    wait_for_names(&saker, &["503"]);
    names.set(SERVICE, SRV, Ok(records(&[(1, 1, a)])));
    wait_for_names(&saker, &["a"]);
    // A target of "." says that there is no such service (RFC 2782).
    names.set(SERVICE, SRV, Ok(vec![(0, srv(0, 0, 0, "."))]));
    wait_for_names(&saker, &["503"]);
    let log = saker.server.stderr();
    let failures = log.lines().filter(|line| line.contains("SK0912")).count();
    let recoveries = log.lines().filter(|line| line.contains("SK0913")).count();
    assert_eq!((failures, recoveries), (1, 1), "one line each: {log}");
}

#[test]
fn addresses_of_this_machine_are_used_only_if_they_are_named() {
    let (a, b) = (named("a"), named("b"));
    let names = names_of(&[(1, 1, a)]);
    let text = configuration(&keys(&names).replace("networks = [\"127.0.0.0/8\"]", ""));
    // Servers of the configuration stand in.
    let text = text.replace(
        "name = \"app\"\n",
        &format!("name = \"app\"\nservers = [\"http://{b}\"]\n"),
    );
    let saker = operate::start("discovery-loopback", &text);
    assert_eq!(counts(&saker, 10)["b"], 10);
    let report = source(&saker);
    assert_eq!(
        (&report["servers"], &report["error"]),
        (&0.into(), &().into())
    );
    let log = saker.server.stderr();
    let refusals = log.lines().filter(|line| line.contains("SK0914")).count();
    assert!(refusals == 1 && log.contains("127.0.0.1"), "{log}");
}

#[test]
fn a_restart_and_a_reload_go_on_with_what_is_known() {
    let a = named("a");
    let names = names_of(&[(1, 1, a)]);
    let text = configuration(&keys(&names));
    let mut saker = operate::start("discovery-restart", &text);
    assert_eq!(counts(&saker, 3)["a"], 3);
    names.set(SERVICE, SRV, Err(SERVFAIL));
    wait_for_error(&saker);
    let reloaded = operate::reload(&saker);
    assert!(reloaded.status.success(), "{}", operate::stderr(&reloaded));
    assert_eq!(counts(&saker, 3)["a"], 3);
    let kept = saker.dir.join("state/discovered.json");
    wait_for_text(&kept, |text| text.contains("127.0.0.1"));
    saker.server.kill().unwrap();
    saker.server = operate::native(&text).start_in(&saker.dir);
    assert_eq!(counts(&saker, 3)["a"], 3, "the source has not answered");
    // Those of another source are not used.
    operate::rewrite(&saker, &text.replace(SERVICE, "_http._tcp.other.test"));
    let reloaded = operate::reload(&saker);
    assert!(reloaded.status.success(), "{}", operate::stderr(&reloaded));
    wait_for_names(&saker, &["503"]);
}

#[test]
fn streams_go_to_servers_that_are_found() {
    let (a, b) = (named("a"), named("b"));
    let names = names_of(&[(1, 1, a)]);
    let listen = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let text = format!(
        "{}[[stream]]\nlisten = \"{listen}\"\nproxy = \"app\"\n\
         [[upstream]]\nname = \"app\"\n[upstream.discover]\n{}\nscheme = \"tcp\"\n",
        operate::configuration("workers = 1", ""),
        keys(&names)
    );
    let _saker = operate::start("discovery-streams", &text);
    let heard = || {
        let mut stream = TcpStream::connect(listen).unwrap();
        // Without a server the session may be over before.
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").ok()?;
        stream.shutdown(Shutdown::Write).ok()?;
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.chars().last()
    };
    assert_eq!(heard(), Some('a'));
    names.set(SERVICE, SRV, Ok(records(&[(1, 1, b)])));
    wait_until("the session goes to the other server", || {
        heard() == Some('b')
    });
    names.set(SERVICE, SRV, Err(NXDOMAIN));
    wait_until("there is no server", || heard().is_none());
}

#[test]
fn changes_of_operators_stand_on_what_is_discovered() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let names = names_of(&[(1, 1, a), (1, 1, b)]);
    let text = configuration(&keys(&names));
    let mut saker = operate::start("discovery-changes", &text);
    wait_for_names(&saker, &["a", "b"]);
    let live = serde_json::json!({
        "members": [{ "upstream": "app", "member": format!("http://{a}"), "is_drained": true, "weight": null }],
        "servers": [], "redirects": [],
    });
    fs::create_dir_all(saker.dir.join("state/console")).unwrap();
    fs::write(saker.dir.join("state/console/live.json"), live.to_string()).unwrap();
    saker.server.kill().unwrap();
    saker.server = operate::native(&text).start_in(&saker.dir);
    wait_for_names(&saker, &["b"]);
    names.set(SERVICE, SRV, Ok(records(&[(1, 1, a), (1, 1, c)])));
    wait_for_names(&saker, &["c"]);
}
