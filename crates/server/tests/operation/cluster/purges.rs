//! Purges of every kind, made at any server, on all servers.

use super::{
    fleet::{Fleet, HOST, generation, request},
    redis_server::RedisServer,
};
use crate::console::{browser::Browser, schemas};
use saker_testkit::wait_until;
use std::{thread, time::Instant};

/// Purges the page /a at a server.
type Purge = (&'static str, fn(&Fleet, usize));

const KINDS: &[Purge] = &[
    ("a tag", |fleet, at| {
        drop(fleet.nodes[at].purge(&["--tag", "a"]))
    }),
    ("a URL", |fleet, at| {
        drop(fleet.nodes[at].purge(&[&format!("http://{HOST}/a")]))
    }),
    ("a site", |fleet, at| {
        drop(fleet.nodes[at].purge(&["--site", HOST]))
    }),
    ("everything", |fleet, at| {
        drop(fleet.nodes[at].purge(&["--all"]))
    }),
    ("a ban", |fleet, at| {
        drop(fleet.nodes[at].purge(&["--ban", "req.url ~ ^/a$"]))
    }),
    ("softly", |fleet, at| {
        drop(fleet.nodes[at].purge(&["--tag", "a", "--soft"]))
    }),
    ("a response", |fleet, at| {
        drop(fleet.nodes[at].request("POST", "/save", &[("X-Purge", "tag=a")]))
    }),
    ("a response, by prefix", |fleet, at| {
        drop(fleet.nodes[at].request("POST", "/save", &[("X-Purge", "tag=every*")]))
    }),
    ("a response, a URL", |fleet, at| {
        drop(fleet.nodes[at].request("POST", "/save", &[("X-Purge", "/a")]))
    }),
    ("PURGE", |fleet, at| {
        drop(fleet.nodes[at].request("PURGE", "/a", &[]))
    }),
    ("PURGE, tags", |fleet, at| {
        drop(fleet.nodes[at].request("PURGE", "/", &[("Surrogate-Key", "x a")]))
    }),
    ("BAN", |fleet, at| {
        drop(fleet.nodes[at].request("BAN", "/", &[("X-Ban", "req.url ~ ^/a$")]))
    }),
    ("REFRESH", |fleet, at| {
        drop(fleet.nodes[at].request("REFRESH", "/a", &[]))
    }),
    ("a POST to it", |fleet, at| {
        drop(fleet.nodes[at].request("POST", "/a", &[]))
    }),
];

#[test]
fn every_kind_of_purge_reaches_all_servers() {
    let redis = RedisServer::start();
    let fleet = Fleet::start(&redis, 5);
    for (round, (what, purge)) in KINDS.iter().enumerate() {
        fleet.fill("/a");
        let changed = fleet.origin.change();
        assert!(
            fleet
                .nodes
                .iter()
                .all(|node| node.generation("/a") < changed)
        );
        let begun = Instant::now();
        purge(&fleet, round % 5);
        fleet.wait_for_generation("/a", changed);
        println!(
            "{what}: on 5 servers, asked one by one, after {:?}",
            begun.elapsed()
        );
    }
    assert!(fleet.nodes.iter().all(|node| !node.has_logged("SK1606")));
}

#[test]
fn whoever_waits_knows_that_all_have_it() {
    let redis = RedisServer::start();
    let mut fleet = Fleet::start(&redis, 5);
    for round in 0..20 {
        fleet.fill("/a");
        let changed = fleet.origin.change();
        let begun = Instant::now();
        let said = fleet.nodes[round % 5].purge(&["--tag", "a", "--wait"]);
        println!("acknowledged after {:?}", begun.elapsed());
        assert!(said.contains("in force on 4 other servers: web-"), "{said}");
        for node in &fleet.nodes {
            assert_eq!(node.generation("/a"), changed);
        }
    }
    let status = fleet.nodes[0].status();
    let nodes = status["nodes"].as_array().unwrap();
    assert_eq!(
        (nodes.len(), status["sent"].as_u64()),
        (5, Some(4)),
        "{status}"
    );
    for node in nodes {
        assert_eq!(
            (&node["version"], &node["is_in_sync"]),
            (&env!("CARGO_PKG_VERSION").into(), &true.into())
        );
    }
    let page = fleet.nodes[0].command(&["cluster", "status"]);
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(
        page.contains("web-1 (this one)\n") && page.contains("alive    yes"),
        "{page}"
    );
    // One that was killed is missed by name, and counts as gone after a while.
    fleet.nodes[4].kill();
    let output = fleet.nodes[0].command(&["purge", "--tag", "a", "--wait=1s"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        error.contains("not acknowledged in time by web-5"),
        "{error}"
    );
    wait_until("web-5 is gone", || {
        let status = fleet.nodes[0].status();
        let nodes = status["nodes"].as_array().unwrap();
        nodes
            .iter()
            .any(|node| node["name"] == "web-5" && node["state"] == "gone")
    });
    fleet.nodes[0].purge(&["--tag", "a", "--wait"]);
    // One that stops says so.
    fleet.nodes[3].stop();
    wait_until("web-4 has left", || {
        fleet.nodes[0].status()["nodes"].as_array().unwrap().len() == 4
    });
}

/// The page was made before the purge, and arrives after it.
#[test]
fn a_page_that_is_being_made_does_not_survive_the_purge() {
    let redis = RedisServer::start();
    let fleet = Fleet::start(&redis, 2);
    for kind in ["tag", "url", "implied"] {
        let target = format!("/held/{kind}");
        fleet.origin.hold(&target);
        let asked = fleet.origin.asked(&target);
        let (first, second) = (&fleet.nodes[0], &fleet.nodes[1]);
        let address = second.address();
        thread::scope(|scope| {
            let old = scope.spawn(|| generation(&request(address, "GET", &target, &[])));
            wait_until("the page is being made", || {
                fleet.origin.asked(&target) > asked
            });
            let changed = fleet.origin.change();
            match kind {
                "tag" => drop(first.purge(&["--tag", "held"])),
                "url" => drop(first.purge(&[&format!("http://{HOST}{target}")])),
                _ => drop(first.request("POST", &target, &[])),
            }
            first.purge(&["--tag", "other", "--wait"]);
            fleet.origin.release(&target);
            assert!(old.join().unwrap() < changed);
            assert_eq!(second.generation(&target), changed, "{kind}");
        });
    }
}

#[test]
fn what_is_filled_between_two_purges_is_what_counts() {
    let redis = RedisServer::start();
    let fleet = Fleet::start(&redis, 3);
    for _ in 0..5 {
        fleet.fill("/a");
        let first = fleet.origin.change();
        fleet.nodes[0].purge(&["--tag", "a", "--wait"]);
        assert_eq!(fleet.nodes[1].generation("/a"), first);
        assert_eq!(fleet.nodes[2].generation("/a"), first);
        let second = fleet.origin.change();
        fleet.nodes[1].purge(&["--tag", "a", "--wait"]);
        for node in &fleet.nodes {
            assert_eq!(node.generation("/a"), second);
        }
        // A purge's own way back does not take what was filled after it.
        let asked = fleet.origin.asked("/a");
        fleet.nodes[2].purge(&["--tag", "other", "--wait"]);
        fleet.nodes[1].get("/a");
        assert_eq!(fleet.origin.asked("/a"), asked);
    }
}

/// The URLs of a page differ from server to server.
#[test]
fn a_url_reaches_the_pages_that_share_it() {
    let redis = RedisServer::start();
    let fleet = Fleet::start(&redis, 2);
    let (first, second) = (&fleet.nodes[0], &fleet.nodes[1]);
    second.get("/varied?utm=1");
    let asked = fleet.origin.asked("/varied?utm=2");
    second.get("/varied?utm=2");
    assert_eq!(
        fleet.origin.asked("/varied?utm=2"),
        asked,
        "one page is for both"
    );
    for purge in ["PURGE", "POST"] {
        let changed = fleet.origin.change();
        first.request(purge, "/varied?utm=3", &[]);
        wait_until(purge, || second.generation("/varied?utm=1") == changed);
    }
}

#[test]
fn private_pages_go_by_their_session() {
    let redis = RedisServer::start();
    let fleet = Fleet::start(&redis, 2);
    let (first, second) = (&fleet.nodes[0], &fleet.nodes[1]);
    let [alice, bob] = [
        "PHPSESSID=0123456789abcdef0001",
        "PHPSESSID=0123456789abcdef0002",
    ];
    let get =
        |session: &str| generation(&second.request("GET", "/private/cart", &[("Cookie", session)]));
    let old = get(alice);
    assert_eq!(get(bob), old);
    for fields in [
        &[("Cookie", alice), ("X-Purge", "private,tag=mine")][..],
        &[("Cookie", alice)],
    ] {
        let changed = fleet.origin.change();
        assert_eq!(get(alice) + 1, changed, "it is cached");
        first.request("POST", "/private/add", fields);
        wait_until("Alice's page is new", || get(alice) == changed);
        assert_eq!(get(bob), old, "Bob's is not");
        // The request has several purges; a late one must not meet the next round.
        wait_until("all of them have come", || {
            let sent = first.status();
            sent["queue_records"] == 0 && sent["position"] == second.status()["position"]
        });
    }
}

#[test]
fn thousands_of_tags_and_long_ones() {
    let redis = RedisServer::start();
    let fleet = Fleet::start(&redis, 2);
    let (first, second) = (&fleet.nodes[0], &fleet.nodes[1]);
    let long = "\\r\\n*3\\r\\n$8\\r\\nFLUSHALL'\"\\x00".repeat(200);
    let many: Vec<String> = (0..600).map(|number| format!("tag=t{number}")).collect();
    let list = many.join(",") + ",tag=a";
    for purge in [&list[..], &format!("tag={long},tag=a")] {
        fleet.fill("/a");
        let changed = fleet.origin.change();
        first.request("POST", "/save", &[("X-Purge", purge)]);
        wait_until("it is new", || second.generation("/a") == changed);
    }
    assert!(second.status()["received"].as_u64().unwrap() >= 2);
    assert!(!second.has_logged("SK1606"));
}

#[test]
fn metrics_tell() {
    let redis = RedisServer::start();
    let fleet = Fleet::start(&redis, 2);
    fleet.nodes[0].purge(&["--tag", "a", "--wait"]);
    let (sender, receiver) = (fleet.nodes[0].metrics(), fleet.nodes[1].metrics());
    for line in [
        "saker_cluster_records_total{direction=\"sent\"} 1\n",
        "saker_cluster_in_sync 1\n",
        "saker_cluster_queue_records 0\n",
        "saker_cluster_queue_bytes 0\n",
        "saker_cluster_cache_clears_total 1\n",
        "saker_cluster_reconnects_total 0\n",
        "saker_cluster_nodes_alive ",
        "saker_cluster_lag_seconds ",
        "saker_cluster_node_lag_seconds{node=\"web-1\",id=\"",
        "saker_cluster_node_lag_seconds{node=\"web-2\",id=\"",
    ] {
        assert!(sender.contains(line), "{line} in\n{sender}");
    }
    assert!(
        receiver.contains("saker_cluster_records_total{direction=\"received\"} 1\n"),
        "{receiver}"
    );
}

/// The lag of each server in the console of one: small while it reads, and growing once it is
/// paused.
#[test]
fn the_console_tells_the_lag_of_each_server() {
    let redis = RedisServer::start();
    let fleet = Fleet::start(&redis, 2);
    fleet.nodes[0].purge(&["--tag", "a", "--wait"]);
    let printed = fleet.nodes[0].command(&["console"]);
    let printed = String::from_utf8(printed.stdout).unwrap();
    let mut browser = Browser::start();
    browser.open(printed.lines().next().unwrap().trim());
    browser.evaluate("document.querySelector('form').requestSubmit()");
    browser.wait_for("location.pathname === '/' && document.readyState === 'complete'");
    let shown = "[...document.querySelectorAll('#cluster tbody tr')].map((row) => row.textContent)";
    browser.wait_for(&format!("{shown}.length === 2"));
    let rows = browser.evaluate(shown).to_string();
    assert!(
        rows.contains("web-1 (this one)") && rows.contains("web-2"),
        "{rows}"
    );
    let ask = "fetch('/api/v1/cluster').then((answer) => answer.json())";
    let answer = browser.evaluate(ask);
    schemas::check("GET", "/api/v1/cluster", 200, &answer);
    fleet.nodes[1].pause();
    let lag_s = |text: &str| -> f64 {
        let name = "saker_cluster_node_lag_seconds{node=\"web-2\"";
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    wait_until("its lag grows", || lag_s(&fleet.nodes[0].metrics()) > 2.0);
    let other = "answer.nodes.find((node) => node.name === 'web-2')";
    let answer = browser.evaluate(&format!("{ask}.then((answer) => {other})"));
    assert!(answer["lag_ms"].as_u64().unwrap() > 2_000, "{answer}");
    fleet.nodes[1].go_on();
    wait_until("it has caught up", || {
        lag_s(&fleet.nodes[0].metrics()) < 2.0
    });
}
