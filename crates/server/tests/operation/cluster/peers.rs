//! Pages that servers hand each other: each is made once, and right on all servers.

use super::{
    fleet::{Fleet, HOST, Node, generation, request, response},
    origin::LONG_BYTES,
    peer_certificates::Certificates,
    redis_server::RedisServer,
};
use saker_testkit::{Client, wait_until, wait_until_or};
use std::thread;

/// Pages that are kept at once, so that counts of requests are exact.
const AT_ONCE: &str = "copied_after = 1\ntimeout = \"10s\"";

fn start(more: &str, count: u8) -> (RedisServer, Certificates, Fleet) {
    let (redis, certificates) = (RedisServer::start(), Certificates::make());
    let fleet = Fleet::start_with_peers(&redis, &certificates.lines(more), count);
    (redis, certificates, fleet)
}

const RECEIVED: &str = "saker_cluster_pages_total{direction=\"received\"}";
const SENT: &str = "saker_cluster_pages_total{direction=\"sent\"}";

fn sum(fleet: &Fleet, metric: &str) -> u64 {
    fleet.nodes.iter().map(|node| node.metric(metric)).sum()
}

/// Targets whose pages that server makes, found by asking another one.
fn made_by(fleet: &Fleet, owner: usize, prefix: &str, count: usize) -> Vec<String> {
    let other = &fleet.nodes[(owner + 1) % fleet.nodes.len()];
    let mut targets = Vec::new();
    for number in 0.. {
        let target = format!("/{prefix}/{number}");
        let sent = fleet.nodes[owner].metric(SENT);
        other.get(&target);
        if fleet.nodes[owner].metric(SENT) > sent {
            targets.push(target);
        }
        if targets.len() == count {
            return targets;
        }
        assert!(number < 400, "a server has its part of the pages");
    }
    unreachable!()
}

#[test]
fn a_cold_page_is_made_once_for_all() {
    const CLIENTS: usize = 100;
    let (_redis, _certificates, fleet) = start("timeout = \"10s\"", 8);
    let head = format!("GET /storm HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
    fleet.origin.hold("/storm");
    let mut clients: Vec<Client> = Vec::new();
    for node in &fleet.nodes {
        for _ in 0..CLIENTS {
            let mut client = Client::connect(node.address()).unwrap();
            client.send(&head).unwrap();
            clients.push(client);
        }
    }
    wait_until("the page is being made", || {
        fleet.origin.asked("/storm") > 0
    });
    fleet.origin.release("/storm");
    for mut client in clients {
        let response = client.read_response().unwrap();
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, "g=0 /storm\n")
        );
    }
    assert_eq!(fleet.origin.asked("/storm"), 1);
    assert!(sum(&fleet, RECEIVED) >= 7, "the others have it from one");
    assert_eq!(sum(&fleet, SENT), sum(&fleet, RECEIVED));
}

/// A page that is asked for once is passed on; one that is asked for again is kept.
#[test]
fn pages_that_are_asked_for_often_are_kept() {
    let (_redis, _certificates, fleet) = start("", 2);
    let target = &made_by(&fleet, 0, "often", 1)[0];
    let (owner, other) = (&fleet.nodes[0], &fleet.nodes[1]);
    let received = other.metric(RECEIVED);
    // The second question, and then none.
    for _ in 0..3 {
        assert_eq!(other.get(target), format!("g=0 {target}\n"));
    }
    assert_eq!(other.metric(RECEIVED), received + 1);
    assert_eq!(fleet.origin.asked(target), 1);
    // The server that makes a page never asks for it.
    owner.get(target);
    assert_eq!((owner.metric(RECEIVED), fleet.origin.asked(target)), (0, 1));
}

/// A purge is in force on its own server at once, and no other server's page may undo it.
#[test]
fn a_purged_page_does_not_come_back_from_another_server() {
    let (_redis, _certificates, fleet) = start(AT_ONCE, 3);
    let targets: Vec<String> = (0..6).map(|number| format!("/a/{number}")).collect();
    for round in 0..30 {
        targets.iter().for_each(|target| fleet.fill(target));
        let changed = fleet.origin.change();
        let node = &fleet.nodes[round % 3];
        match round % 2 {
            0 => drop(node.purge(&["--tag", "a"])),
            _ => targets.iter().for_each(|target| {
                node.request("POST", target, &[]);
            }),
        }
        // The others may still have it; this server has purged it.
        for target in &targets {
            assert_eq!(node.generation(target), changed, "round {round}, {target}");
        }
        for target in &targets {
            fleet.wait_for_generation(target, changed);
        }
    }
    assert!(sum(&fleet, RECEIVED) > 0);
}

/// The page was made before the purge, and arrives at the server that asked after it.
#[test]
fn a_page_that_is_handed_out_does_not_survive_the_purge() {
    let (_redis, _certificates, fleet) = start(AT_ONCE, 2);
    let names = made_by(&fleet, 0, "held", 3);
    let (owner, other) = (&fleet.nodes[0], &fleet.nodes[1]);
    fleet.nodes[0].purge(&["--all", "--wait"]);
    for (target, kind) in names.iter().zip(["tag", "url", "implied"]) {
        fleet.origin.hold(target);
        let asked = fleet.origin.asked(target);
        let address = other.address();
        thread::scope(|scope| {
            let old = scope.spawn(|| generation(&request(address, "GET", target, &[])));
            wait_until("the page is being made", || {
                fleet.origin.asked(target) > asked
            });
            let changed = fleet.origin.change();
            match kind {
                "tag" => drop(other.purge(&["--tag", "held"])),
                "url" => drop(owner.purge(&[&format!("http://{HOST}{target}")])),
                _ => drop(other.request("POST", target, &[])),
            }
            owner.purge(&["--tag", "unrelated", "--wait"]);
            fleet.origin.release(target);
            old.join().unwrap();
            for node in &fleet.nodes {
                assert_eq!(node.generation(target), changed, "{kind}");
            }
        });
    }
}

#[test]
fn visitors_do_not_meet_at_other_servers() {
    let (_redis, _certificates, fleet) = start(AT_ONCE, 3);
    // Another language is another page, wherever it was made.
    for round in 0..4 {
        for language in ["de", "en", "fr"] {
            for node in &fleet.nodes {
                let target = format!("/language/{round}");
                let page = node.request("GET", &target, &[("Accept-Language", language)]);
                assert!(
                    page.ends_with(&format!("\n{language}")),
                    "{language}: {page}"
                );
            }
        }
    }
    for round in 0..4 {
        let target = format!("/language/{round}");
        assert!(fleet.origin.asked(&target) <= 9, "some were handed out");
    }
    assert!(sum(&fleet, RECEIVED) > 0);
    // Private pages are made for each visitor, and stay where they were made.
    let received = sum(&fleet, RECEIVED);
    for (round, node) in fleet.nodes.iter().enumerate() {
        for visitor in ["one", "two"] {
            let target = format!("/private/{round}");
            let cookie = format!("PHPSESSID=0123456789abcdef-{visitor}");
            let asked = fleet.origin.asked(&target);
            for _ in 0..2 {
                node.request("GET", &target, &[("Cookie", &cookie)]);
            }
            assert_eq!(fleet.origin.asked(&target), asked + 1, "{target} {visitor}");
        }
    }
    assert_eq!(sum(&fleet, RECEIVED), received);
    // Credentials go to no other server.
    for number in 0..6 {
        let target = format!("/a/cookie{number}");
        for node in &fleet.nodes {
            node.request(
                "GET",
                &target,
                &[("Cookie", "wish=list"), ("Authorization", "Basic eDp5")],
            );
        }
    }
    assert_eq!(sum(&fleet, RECEIVED), received);
    for number in 6..12 {
        let target = format!("/a/cookie{number}");
        let made = &made_by(&fleet, 0, &format!("seen{number}"), 1)[0];
        let seen = fleet.origin.cookies(made).len();
        fleet.nodes[1].request("GET", &format!("{made}/x"), &[("Cookie", "wish=list")]);
        assert_eq!(fleet.origin.cookies(made).len(), seen, "{target}");
    }
}

/// A page that cannot be handed out is made by each server, and asked for once.
#[test]
fn pages_that_are_not_for_all_are_made_by_each_server() {
    let more = "copied_after = 1\npage_size = \"64KiB\"";
    let (_redis, _certificates, fleet) = start(more, 2);
    for number in 0..6 {
        let target = format!("/never/{number}");
        let declined = sum(&fleet, "saker_cluster_pages_declined_total");
        let before = fleet.origin.asked(&target);
        for _ in 0..3 {
            fleet.nodes.iter().for_each(|node| drop(node.get(&target)));
        }
        let declined = sum(&fleet, "saker_cluster_pages_declined_total") - declined;
        assert!(declined <= 1, "it is remembered");
        assert_eq!(fleet.origin.asked(&target), before + 6 + declined);
    }
    for number in 0..6 {
        let target = format!("/long/{number}");
        for node in &fleet.nodes {
            assert_eq!(
                node.get(&target).len(),
                format!("g=0 {target}\n").len() + LONG_BYTES
            );
            node.get(&target);
        }
        assert!(fleet.origin.asked(&target) <= 2, "one by each server");
    }
    assert_eq!(sum(&fleet, RECEIVED), 0);
}

/// A copy that has become stale is renewed from the server that makes the page.
#[test]
fn stale_pages_are_renewed_once() {
    let (_redis, _certificates, fleet) = start(AT_ONCE, 3);
    let target = "/brief/page";
    for node in &fleet.nodes {
        node.get(target);
    }
    let changed = fleet.origin.change();
    fleet.wait_for_generation(target, changed);
    // A page lives for a second: once per second, or each server for itself.
    let received = sum(&fleet, RECEIVED);
    let asked = fleet.origin.asked(target);
    wait_until("it was renewed ten times", || {
        fleet.nodes.iter().for_each(|node| drop(node.get(target)));
        fleet.origin.asked(target) >= asked + 10
    });
    let made = fleet.origin.asked(target) - asked;
    let renewed = sum(&fleet, RECEIVED) - received;
    assert!(renewed >= made / 2, "{made} made, {renewed} handed out");
}

#[test]
fn a_dead_server_costs_one_more_request_and_no_error() {
    let (_redis, _certificates, mut fleet) = start(AT_ONCE, 4);
    let mut targets = made_by(&fleet, 0, "dead", 6);
    let held = targets.pop().unwrap();
    fleet.nodes[1].purge(&["--all", "--wait"]);
    let before: Vec<u64> = targets
        .iter()
        .map(|target| fleet.origin.asked(target))
        .collect();
    // Killed while it makes a page that another server waits for.
    fleet.origin.hold(&held);
    let (asked, address) = (fleet.origin.asked(&held), fleet.nodes[1].address());
    thread::scope(|scope| {
        let waits = scope.spawn(|| response(address, "GET", &held, &[]));
        wait_until("the page is being made", || {
            fleet.origin.asked(&held) == asked + 1
        });
        fleet.nodes[0].kill();
        wait_until("it is made again", || {
            fleet.origin.asked(&held) == asked + 2
        });
        fleet.origin.release(&held);
        assert_eq!(waits.join().unwrap().status, 200);
    });
    // Not yet known to be dead, or just found out.
    for (target, before) in targets.iter().zip(before) {
        let living: &[Node] = &fleet.nodes[1..];
        for node in living {
            assert_eq!(node.get(target), format!("g=0 {target}\n"));
        }
        let made = fleet.origin.asked(target) - before;
        assert_eq!(made, 1, "{target}: the next one makes it for all");
    }
    fleet.nodes[0].start_again();
    fleet.nodes[0].wait_until_in_sync();
    fleet.wait_until_all_know_all();
    // The others ask a server again a while after it could not be reached.
    let (sent, mut number) = (fleet.nodes[0].metric(SENT), 0);
    wait_until("it hands out pages again", || {
        number += 1;
        fleet.nodes[1].get(&format!("/again/{number}"));
        fleet.nodes[0].metric(SENT) > sent
    });
}

#[test]
fn a_server_that_hangs_is_not_waited_for_longer_than_the_timeout() {
    let (_redis, _certificates, fleet) = start("copied_after = 1\ntimeout = \"300ms\"", 2);
    let targets = made_by(&fleet, 0, "hangs", 2);
    fleet.nodes[1].purge(&["--all", "--wait"]);
    fleet.nodes[0].pause();
    for target in &targets {
        let asked = fleet.origin.asked(target);
        assert_eq!(fleet.nodes[1].get(target), format!("g=0 {target}\n"));
        assert_eq!(fleet.origin.asked(target), asked + 1);
    }
    wait_until_or(
        || fleet.nodes[1].has_logged("SK1615"),
        || fleet.nodes[1].log(),
    );
    fleet.nodes[0].go_on();
    wait_until_or(
        || fleet.nodes[1].status()["nodes"].as_array().unwrap().len() == 2,
        || fleet.nodes[1].status().to_string(),
    );
}

/// While servers are upgraded one by one, some announce no address for pages.
#[test]
fn servers_that_hand_out_no_pages_take_part_in_the_rest() {
    let (redis, certificates) = (RedisServer::start(), Certificates::make());
    let fleet = Fleet::start_with_an_older_one(&redis, &certificates.lines(AT_ONCE), 3);
    let (older, newer) = (&fleet.nodes[0], &fleet.nodes[1..]);
    for round in 0..4 {
        fleet.fill("/a");
        let changed = fleet.origin.change();
        fleet.nodes[round % 3].purge(&["--tag", "a"]);
        fleet.wait_for_generation("/a", changed);
    }
    let mut number = 0;
    wait_until("the newer ones hand each other pages", || {
        number += 1;
        let target = format!("/a/{number}");
        fleet.nodes.iter().for_each(|node| drop(node.get(&target)));
        assert!(fleet.origin.asked(&target) <= 3);
        newer.iter().any(|node| node.metric(RECEIVED) > 0)
    });
    assert_eq!((older.metric(RECEIVED), older.metric(SENT)), (0, 0));
    let failed = "saker_cluster_peers_failed_total";
    assert_eq!(sum(&fleet, failed), 0, "it is not asked");
}

/// Without the engine, no server can know what the others have purged.
#[test]
fn without_the_engine_each_server_makes_its_own_pages() {
    let (mut redis, _certificates, fleet) = start(AT_ONCE, 2);
    let targets = made_by(&fleet, 0, "alone", 3);
    redis.kill();
    let other = &fleet.nodes[1];
    wait_until("it is noticed", || other.status()["is_connected"] == false);
    let changed = fleet.origin.change();
    // Its own purge is in force at once, and cannot have reached the other.
    other.purge(&["--tag", "alone"]);
    for target in &targets {
        assert_eq!(other.generation(target), changed);
    }
    redis.start_again();
    fleet.nodes.iter().for_each(Node::wait_until_in_sync);
    fleet.wait_until_all_know_all();
    for target in &targets {
        fleet.wait_for_generation(target, changed);
    }
    let received = sum(&fleet, RECEIVED);
    made_by(&fleet, 0, "together", 1);
    assert!(sum(&fleet, RECEIVED) > received);
}
