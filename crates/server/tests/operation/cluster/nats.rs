//! A cluster on NATS JetStream: the same guarantees as on Redis.

use super::{
    clients,
    fleet::{Fleet, HOST, Node, request},
    nats_server::NatsServer,
    secured,
};
use saker_testkit::{TempDir, wait_until, wait_until_or};
use serde_json::json;

fn fleet(nats: &NatsServer, count: u8) -> Fleet {
    Fleet::start_with(&format!("{}\nmax_staleness = \"60s\"", nats.url()), count)
}

fn clears(node: &Node) -> u64 {
    node.status()["cache_clears"].as_u64().unwrap()
}

/// Purges still work, after whatever has happened.
#[track_caller]
fn purges_work(fleet: &Fleet) {
    fleet.nodes.iter().for_each(Node::wait_until_in_sync);
    fleet.fill("/a");
    let changed = fleet.origin.change();
    fleet.nodes[0].purge(&["--tag", "a", "--wait"]);
    fleet.wait_for_generation("/a", changed);
}

#[test]
fn purges_reach_all_servers_in_order() {
    let nats = NatsServer::start();
    let fleet = fleet(&nats, 3);
    for round in 0..9 {
        fleet.fill("/a");
        let changed = fleet.origin.change();
        let node = &fleet.nodes[round % 3];
        match round % 3 {
            0 => drop(node.purge(&["--tag", "a", "--wait"])),
            1 => drop(node.purge(&[&format!("http://{HOST}/a")])),
            _ => drop(node.request("POST", "/save", &[("X-Purge", "tag=a")])),
        }
        fleet.wait_for_generation("/a", changed);
    }
    // Purges of all servers at once, more than are read at a time: none is passed over.
    let addresses: Vec<_> = fleet.nodes.iter().map(Node::address).collect();
    std::thread::scope(|scope| {
        for address in addresses {
            scope.spawn(move || {
                for number in 0..60 {
                    let purge = format!("tag=t{number}");
                    request(address, "POST", "/save", &[("X-Purge", &purge)]);
                }
            });
        }
    });
    let node = &fleet.nodes[0];
    node.purge(&["--tag", "a", "--wait"]);
    assert_eq!(clears(node), 1, "at the start: {}", node.status());
    let received = node.status()["received"].as_u64().unwrap();
    assert!(received >= 120, "{received}");
    let shown = node.status()["engine"].clone();
    assert_eq!(shown, format!("nats://127.0.0.1:{}", nats.port));
}

#[test]
fn a_dead_engine_and_lost_records_are_noticed() {
    let mut nats = NatsServer::start();
    let fleet = fleet(&nats, 2);
    let (first, second) = (&fleet.nodes[0], &fleet.nodes[1]);
    fleet.fill("/a");
    // What waits is sent when it is back.
    nats.kill();
    wait_until("it is noticed", || second.status()["is_connected"] == false);
    let changed = fleet.origin.change();
    first.purge(&["--tag", "a"]);
    assert_eq!(first.generation("/a"), changed);
    assert_eq!(first.status()["queue_records"], 1);
    let before = clears(second);
    nats.start_again();
    fleet.wait_for_generation("/a", changed);
    assert_eq!(clears(second), before, "the log is still there");
    // Paused: as if it were away, and nothing is lost.
    nats.pause();
    let changed = fleet.origin.change();
    first.purge(&["--tag", "a"]);
    wait_until("it is noticed", || second.status()["is_connected"] == false);
    nats.go_on();
    fleet.wait_for_generation("/a", changed);
    // Emptied, begun anew with the same numbers, and gone with everything.
    for round in 0..3 {
        purges_work(&fleet);
        let before = clears(second);
        match round {
            0 => drop(nats.manage("STREAM.PURGE.saker-purges", &json!({}))),
            1 => drop(nats.manage("STREAM.DELETE.saker-purges", &json!({}))),
            _ => {
                nats.kill();
                nats.start_empty();
            }
        }
        first.purge(&["--tag", "unrelated"]);
        wait_until_or(
            || clears(second) > before,
            || format!("round {round}: {}\n{}", second.status(), second.log()),
        );
    }
    purges_work(&fleet);
}

#[test]
fn a_server_that_was_away_for_longer_than_the_log_clears_its_cache() {
    let nats = NatsServer::start();
    let mut fleet = Fleet::start_with(&format!("{}\nretention = 1000", nats.url()), 2);
    fleet.fill("/a");
    fleet.nodes[1].kill();
    let changed = fleet.origin.change();
    fleet.nodes[0].purge(&["--tag", "a"]);
    for _ in 0..1010 {
        fleet.nodes[0].request("POST", "/save", &[("X-Purge", "tag=x")]);
    }
    wait_until("the log has them", || {
        fleet.nodes[0].status()["queue_records"] == 0
    });
    let state = nats.manage("STREAM.INFO.saker-purges", &json!({}))["state"].clone();
    assert_eq!(state["messages"], 1000, "{state}");
    fleet.nodes[1].start_again();
    assert_eq!(fleet.nodes[1].generation("/a"), changed);
    wait_until_or(
        || fleet.nodes[1].has_logged("it was trimmed"),
        || fleet.nodes[1].log(),
    );
    fleet.nodes[1].wait_until_in_sync();
    assert_eq!(fleet.nodes[1].generation("/a"), changed);
}

#[test]
fn messages_of_others_clear_the_cache_and_are_no_servers() {
    let nats = NatsServer::start();
    let fleet = fleet(&nats, 2);
    let mut newer = vec![9];
    newer.extend_from_slice(&[0; 40]);
    for content in [&b""[..], b"garbage", &newer, &[b'x'; 200_000]] {
        let before = fleet.nodes.iter().map(clears).max().unwrap();
        assert!(nats.ask("saker.purges", content)["error"].is_null());
        for node in &fleet.nodes {
            wait_until_or(|| clears(node) > before, || node.log());
        }
        purges_work(&fleet);
    }
    assert!(fleet.nodes.iter().all(|node| node.has_logged("SK1606")));
    // Longer than any record of Saker's: refused by the server.
    let refused = nats.ask("saker.purges", &vec![b'x'; 300_000]);
    assert!(!refused["error"].is_null(), "{refused}");
    for (id, state) in [
        ("x", "1 a b c 1 1-1 1 1 serving"),
        ("ff", "1 a \u{1b}[2J c 1 1-1 1 1 serving"),
        ("=zz", "1 a b c 1 1-1 1 1 serving"),
    ] {
        nats.ask(&format!("saker.nodes.{id}"), state.as_bytes());
    }
    purges_work(&fleet);
    let status = fleet.nodes[0].status();
    assert_eq!(status["nodes"].as_array().unwrap().len(), 2, "{status}");
}

/// An operator deletes single records, more of them than are read at a time.
#[test]
fn records_that_are_missing_in_the_middle_are_noticed() {
    let nats = NatsServer::start();
    let mut fleet = fleet(&nats, 2);
    fleet.nodes[0].purge(&["--tag", "x", "--wait"]);
    fleet.fill("/a");
    fleet.nodes[1].stop();
    let changed = fleet.origin.change();
    fleet.nodes[0].purge(&["--tag", "a"]);
    for _ in 0..100 {
        fleet.nodes[0].request("POST", "/save", &[("X-Purge", "tag=x")]);
    }
    wait_until("the log has them", || {
        fleet.nodes[0].status()["queue_records"] == 0
    });
    let last = nats.manage("STREAM.INFO.saker-purges", &json!({}))["state"]["last_seq"].clone();
    let last = last.as_u64().unwrap();
    for number in last - 100..last - 1 {
        nats.manage("STREAM.MSG.DELETE.saker-purges", &json!({ "seq": number }));
    }
    fleet.nodes[1].start_again();
    fleet.nodes[1].wait_until_in_sync();
    assert_eq!(fleet.nodes[1].generation("/a"), changed);
    assert!(clears(&fleet.nodes[1]) > 0, "{}", fleet.nodes[1].status());
    let position = format!("{last}-0");
    assert_eq!(fleet.nodes[1].status()["position"], position);
}

#[test]
fn limits_are_shared() {
    let nats = NatsServer::start();
    let fleet = Fleet::start_sharing_over(&nats.url(), "\"limits\"", clients::TWENTY, 2);
    clients::a_limit_of_twenty_holds_together(&fleet);
}

#[test]
fn bans_are_shared_and_found_by_a_server_that_was_away() {
    let nats = NatsServer::start();
    let cluster = format!(
        "{}\nsecret_file = \"{{dir}}/secret\"\nshare = [\"purges\", \"bans\"]",
        nats.url()
    );
    let mut fleet = Fleet::start_with(&cluster, 3);
    fleet.nodes[2].stop();
    let is_banned = |node: &Node| node.status_for("192.0.2.9", "/a", &[]) != 200;
    assert!(!is_banned(&fleet.nodes[1]));
    let banned = fleet.nodes[0].command(&["ban", "192.0.2.9"]);
    assert!(banned.status.success(), "{banned:?}");
    wait_until("it is banned there", || is_banned(&fleet.nodes[1]));
    fleet.nodes[2].start_again();
    wait_until("it is banned by the table", || is_banned(&fleet.nodes[2]));
    let lifted = fleet.nodes[1].command(&["unban", "192.0.2.9"]);
    assert!(lifted.status.success(), "{lifted:?}");
    for node in [&fleet.nodes[0], &fleet.nodes[2]] {
        wait_until("and no longer", || !is_banned(node));
    }
}

#[test]
fn tls_with_a_token_from_a_file() {
    let files = TempDir::new("cluster-nats-tls").unwrap();
    secured::certificates(&files);
    let path = |name: &str| files.join(name).display().to_string();
    let nats = NatsServer::start_with(|_| {
        format!(
            "authorization {{ token: \"s3cret\" }}\ntls {{ cert_file: \"{}\", key_file: \"{}\" }}",
            path("redis.pem"),
            path("redis.key")
        )
    });
    files.write("token", "s3cret\n").unwrap();
    let address = format!("127.0.0.1:{}", nats.port);
    let ca = format!("ca_file = \"{}\"", path("ca.pem"));
    let cluster = format!(
        "url = \"tls://{address}\"\n{ca}\npassword_file = \"{}\"",
        path("token")
    );
    let fleet = Fleet::start_with(&cluster, 2);
    purges_work(&fleet);
    let status = fleet.nodes[0].command(&["cluster", "status"]);
    let shown = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(
        shown.contains(&format!("tls://{address}")) && !shown.contains("s3cret"),
        "{shown}"
    );
    // Refused, and said, and requests go on.
    for (cluster, why) in [
        (
            format!("url = \"tls://wrong@{address}\"\n{ca}"),
            "uthorization",
        ),
        (format!("url = \"tls://s3cret@{address}\""), "certificate"),
        // The server demands TLS, and gets it.
        (format!("url = \"nats://s3cret@{address}\""), "certificate"),
    ] {
        let outsider = Fleet::start_apart(&cluster);
        let node = &outsider.nodes[0];
        let is_said = || {
            let error = node.status()["error"].clone();
            error.as_str().is_some_and(|error| error.contains(why))
        };
        wait_until_or(is_said, || format!("{why}: {}", node.status()));
        node.get("/a");
        assert!(node.has_logged("SK1601") && !node.log().contains("s3cret"));
    }
}

/// A user that may do less than is needed: the log says what is missing.
#[test]
fn a_missing_permission_is_named() {
    let nats = NatsServer::start_with(|_| {
        let allowed = "[\"$JS.API.>\", \"saker.nodes.*\"]";
        format!(
            "authorization {{ users: [ {{ user: \"web\", password: \"pw\", permissions: \
             {{ publish: {{ allow: {allowed} }}, subscribe: {{ allow: [\">\"] }} }} }} ] }}"
        )
    });
    let url = format!("url = \"nats://web:pw@127.0.0.1:{}\"", nats.port);
    let fleet = Fleet::start_apart(&url);
    let node = &fleet.nodes[0];
    wait_until_or(|| node.has_logged("saker.purges"), || node.log());
    assert!(node.log().to_lowercase().contains("permission"));
}
