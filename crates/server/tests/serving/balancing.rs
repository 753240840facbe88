//! Balancing among the servers of an `[[upstream]]`: weights, clients, targets, sessions, standby,
//! and servers that fail, as keys of `saker.toml`.
//!
//! Called by: `cargo test -p saker --test serving balancing::`.
//! Caveat: counts are of one worker, since each balances for itself; failures are known to all.
//! Out of scope: health checks (`health`), and balancers of Apache configurations.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate;
use crate::upgrades::backend;
use saker_testkit::{Client, Saker, free_port};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
};

/// A server that answers with its name; 503 for paths that end in it.
fn named(name: &'static str) -> SocketAddr {
    backend(move |stream| {
        let mut reader = BufReader::new(stream);
        let (mut line, mut first) = (String::new(), String::new());
        while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
            let text = std::mem::take(&mut line);
            if first.is_empty() {
                first = text;
                continue;
            }
            if text != "\r\n" {
                continue;
            }
            let target = first.split(' ').nth(1).unwrap_or_default();
            let status = match target.ends_with(&format!("/fails-{name}")) {
                true => "503 Service Unavailable",
                false => "200 OK",
            };
            first.clear();
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{name}",
                name.len()
            );
            if reader.get_mut().write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    })
}

fn start(upstream: &str) -> Saker {
    let text = operate::configuration(
        "workers = 1\ntrusted_proxies = [\"127.0.0.1\"]",
        "[[site.route]]\npath = \"/*\"\nproxy = \"app\"\n",
    );
    let upstream = format!("{text}[[upstream]]\nname = \"app\"\n{upstream}");
    operate::start("balancing", &upstream)
}

fn ask(client: &mut Client, target: &str, fields: &[(&str, &str)]) -> String {
    client.request("GET", target, fields).unwrap().text()
}

fn counts(answers: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    answers.fold(BTreeMap::new(), |mut counts, answer| {
        *counts.entry(answer).or_default() += 1;
        counts
    })
}

#[test]
fn weights() {
    let (one, two) = (named("one"), named("two"));
    let saker = start(&format!(
        "servers = [{{ address = \"http://{one}\", weight = 3 }}, \"http://{two}\"]\n"
    ));
    let mut client = saker.connect().unwrap();
    let counts = counts((0..40).map(|_| ask(&mut client, "/", &[])));
    assert_eq!(counts, [("one".into(), 30), ("two".into(), 10)].into());
}

#[test]
fn a_client_or_a_target_keeps_its_server() {
    let (one, two, three) = (named("one"), named("two"), named("three"));
    for balance in ["client", "target"] {
        let saker = start(&format!(
            "balance = \"{balance}\"\nservers = [\"http://{one}\", \"http://{two}\", \"http://{three}\"]\n"
        ));
        let mut client = saker.connect().unwrap();
        let mut servers = BTreeMap::new();
        for number in 0..60 {
            let (address, target) = (format!("192.0.2.{number}"), format!("/{number}?a"));
            let (address, target) = match balance {
                "client" => (address.as_str(), "/"),
                _ => ("192.0.2.1", target.as_str()),
            };
            let fields = [("X-Forwarded-For", address)];
            let server = ask(&mut client, target, &fields);
            for _ in 0..3 {
                assert_eq!(ask(&mut client, target, &fields), server, "{balance}");
            }
            *servers.entry(server).or_insert(0) += 1;
        }
        assert!(
            servers.len() == 3 && servers.values().all(|count| *count >= 5),
            "{servers:?}"
        );
    }
}

#[test]
fn sessions_stay() {
    let (one, two) = (named("one"), named("two"));
    let saker = start(&format!(
        "sticky_cookie = \"JSESSIONID\"\nservers = [{{ address = \"http://{one}\", route = \"r1\" }}, {{ address = \"http://{two}\", route = \"r2\" }}]\n"
    ));
    let mut client = saker.connect().unwrap();
    for _ in 0..5 {
        for (cookie, expected) in [
            ("a=b; JSESSIONID=x.r2", "two"),
            ("JSESSIONID=y.r1; c=d", "one"),
        ] {
            assert_eq!(
                ask(&mut client, "/", &[("Cookie", cookie)]),
                expected,
                "{cookie}"
            );
        }
    }
    // The route of no server.
    let spread = counts((0..4).map(|_| ask(&mut client, "/", &[("Cookie", "JSESSIONID=x.r3")])));
    assert_eq!(spread.len(), 2, "{spread:?}");
}

#[test]
fn standby_and_failed_servers() {
    let (one, two, spare) = (named("one"), named("two"), named("spare"));
    let saker = start(&format!(
        "servers = [\"http://{one}\", \"http://{two}\", {{ address = \"http://{spare}\", standby = true }}]\n\
         failures = [503]\nretry_after = \"1h\"\n"
    ));
    let mut client = saker.connect().unwrap();
    let all = |client: &mut Client| {
        counts((0..10).map(|_| ask(client, "/", &[])))
            .into_keys()
            .collect::<Vec<_>>()
    };
    assert_eq!(all(&mut client), ["one", "two"]);
    // The answer of a failure is the client's; the server is left alone from then on.
    let mut failed = |name: &str| {
        let target = format!("/fails-{name}");
        let statuses = (0..3).map(|_| client.request("GET", &target, &[]).unwrap().status);
        assert!(statuses.into_iter().any(|status| status == 503), "{name}");
        all(&mut client)
    };
    assert_eq!(failed("one"), ["two"]);
    assert_eq!(failed("two"), ["spare"]);
}

#[test]
fn a_server_that_is_down_is_passed_over() {
    let one = named("one");
    let down = free_port().unwrap();
    let saker = start(&format!(
        "servers = [\"http://127.0.0.1:{down}\", \"http://{one}\"]\nretry_after = \"1h\"\nconnect_timeout = \"2s\"\n"
    ));
    let mut client = saker.connect().unwrap();
    let counts = counts((0..20).map(|_| ask(&mut client, "/", &[])));
    assert_eq!(counts, [("one".into(), 20)].into());
}

/// A saker whose upstreams `app` and `other` have these keys, for `/other/*` and the rest.
fn start_two(server: &str, [app, other]: [&str; 2]) -> Saker {
    let text = operate::configuration(
        server,
        "[[site.route]]\npath = \"/other/*\"\nproxy = \"other\"\n[[site.route]]\npath = \"/*\"\nproxy = \"app\"\n",
    );
    let text = format!(
        "{text}[[upstream]]\nname = \"app\"\n{app}\n[[upstream]]\nname = \"other\"\n{other}\n"
    );
    operate::start("balancing-two", &text)
}

/// Servers that answer several connections, which the kernel spreads over the workers.
fn of_all_workers(saker: &Saker, target: &str) -> Vec<String> {
    let answers = (0..24).flat_map(|_| {
        let mut client = saker.connect().unwrap();
        [(); 2].map(|()| ask(&mut client, target, &[]))
    });
    counts(answers).into_keys().collect()
}

/// Has the server `one` fail a request of the upstream, on a connection of its own.
fn fail_one(saker: &Saker) {
    let mut client = saker.connect().unwrap();
    let has_failed =
        (0..2).any(|_| client.request("GET", "/fails-one", &[]).unwrap().status == 503);
    assert!(has_failed, "one of two requests goes to each server");
}

#[test]
fn failures_are_those_of_the_upstream_that_they_happened_in() {
    let (one, two) = (named("one"), named("two"));
    let servers = format!("servers = [\"http://{one}\", \"http://{two}\"]");
    let saker = start_two(
        "workers = 1",
        [
            &format!("{servers}\nfailures = [503]\nretry_after = \"1h\""),
            &servers,
        ],
    );
    fail_one(&saker);
    assert_eq!(of_all_workers(&saker, "/"), ["two"]);
    assert_eq!(of_all_workers(&saker, "/other/"), ["one", "two"]);
    // What succeeds there ends no rest here.
    assert_eq!(of_all_workers(&saker, "/"), ["two"]);
}

#[test]
fn all_workers_know_of_failures_and_so_does_the_next_configuration() {
    let (one, two) = (named("one"), named("two"));
    let servers = format!("servers = [\"http://{one}\", \"http://{two}\"]\nfailures = [503]\n");
    let saker = start_two(
        "workers = 4",
        [
            &format!("{servers}retry_after = \"1h\"\nfailures_in_a_row = 3"),
            &servers,
        ],
    );
    for _ in 0..3 {
        // Perhaps another worker's each time, none of which would see three.
        fail_one(&saker);
    }
    assert_eq!(of_all_workers(&saker, "/"), ["two"]);
    assert!(operate::reload(&saker).status.success());
    assert_eq!(of_all_workers(&saker, "/"), ["two"]);
}
