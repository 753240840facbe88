//! Other software writes to the keys.

use super::{fleet::Fleet, redis_server::RedisServer};
use saker_testkit::wait_until_or;

/// Purges still work, after whatever was written.
fn purges_work(fleet: &Fleet) {
    fleet
        .nodes
        .iter()
        .for_each(|node| node.wait_until_in_sync());
    fleet.fill("/a");
    let changed = fleet.origin.change();
    fleet.nodes[0].purge(&["--tag", "a", "--wait"]);
    fleet.wait_for_generation("/a", changed);
}

fn wait_until_cleared(fleet: &Fleet, clears: &[u64]) {
    for (node, before) in fleet.nodes.iter().zip(clears) {
        wait_until_or(
            || node.status()["cache_clears"].as_u64() > Some(*before),
            || format!("{}\n{}", node.status(), node.log()),
        );
    }
}

/// Clears by each server: under load, one may have cleared its cache once more than another.
fn clears(fleet: &Fleet) -> Vec<u64> {
    let of = |node: &super::fleet::Node| node.status()["cache_clears"].as_u64().unwrap();
    fleet.nodes.iter().map(of).collect()
}

#[test]
fn records_of_others_are_skipped_and_clear_the_cache() {
    let redis = RedisServer::start();
    let fleet = Fleet::start(&redis, 2);
    let key = "saker:purges";
    let whole = redis.command(&["XREVRANGE", key, "+", "-", "COUNT", "1"]);
    assert!(!whole.is_empty());
    let mut version = vec![9];
    version.extend_from_slice(&[0; 40]);
    for bytes in [
        &b""[..],
        b"\x01",
        b"garbage",
        &version,
        &vec![b'x'; 200_000],
    ] {
        let before = clears(&fleet);
        redis.command_with(&["XADD", key, "*", "r"], bytes);
        wait_until_cleared(&fleet, &before);
        purges_work(&fleet);
    }
    let before = clears(&fleet);
    redis.command(&["XADD", key, "*", "user", "bob", "action", "login"]);
    wait_until_cleared(&fleet, &before);
    purges_work(&fleet);
    assert!(fleet.nodes.iter().all(|node| node.has_logged("SK1606")));
}

#[test]
fn a_record_that_is_too_long_to_read_is_passed() {
    let redis = RedisServer::start();
    let fleet = Fleet::start(&redis, 2);
    let before = clears(&fleet);
    redis.command_with(&["XADD", "saker:purges", "*", "r"], &vec![b'x'; 20 << 20]);
    wait_until_cleared(&fleet, &before);
    purges_work(&fleet);
}

#[test]
fn a_stream_that_goes_or_changes_its_type() {
    let redis = RedisServer::start();
    let fleet = Fleet::start(&redis, 2);
    for words in [
        &["DEL", "saker:purges"][..],
        &["FLUSHALL"],
        &["XTRIM", "saker:purges", "MAXLEN", "0"],
    ] {
        let before = clears(&fleet);
        redis.command(words);
        wait_until_cleared(&fleet, &before);
        purges_work(&fleet);
    }
    redis.command(&["SET", "saker:purges", "text"]);
    for node in &fleet.nodes {
        wait_until_or(
            || {
                node.status()["error"]
                    .as_str()
                    .is_some_and(|why| why.contains("WRONGTYPE"))
            },
            || node.status().to_string(),
        );
    }
    fleet.nodes[0].get("/a");
    let before = clears(&fleet);
    redis.command(&["DEL", "saker:purges"]);
    wait_until_cleared(&fleet, &before);
    purges_work(&fleet);
}

#[test]
fn states_of_others_are_no_servers() {
    let redis = RedisServer::start();
    let fleet = Fleet::start(&redis, 2);
    redis.command(&["HSET", "saker:nodes", "x", "1 a b c 1 1-1 1 1 serving"]);
    redis.command(&[
        "HSET",
        "saker:nodes",
        "ff",
        "1 a \u{1b}[2J c 1 1-1 1 1 serving",
    ]);
    redis.command(&["HSET", "saker:nodes", "fe", ""]);
    purges_work(&fleet);
    let status = fleet.nodes[0].status();
    assert_eq!(status["nodes"].as_array().unwrap().len(), 2, "{status}");
}

/// Servers of two versions share the log while they are upgraded one after the other: what the
/// newer one says that the older ones do not know is no harm, and too much is purged, never too
/// little.
#[test]
fn servers_of_a_newer_version_share_the_log() {
    let redis = RedisServer::start();
    let fleet = Fleet::start(&redis, 2);
    let newer = "00000000000000ff";
    let announce = |stamp: u64, more: &str| {
        let state = format!("2 ab web-9 9.0.0 {stamp} 99999999999999-0 0 0 serving{more}");
        redis.command(&["HSET", "saker:nodes", newer, &state]);
    };
    announce(1, "");
    fleet.fill("/a");
    announce(2, " peer=127.0.0.9:1 zone=eu later=words");
    let status = || fleet.nodes[0].status();
    let listed = |status: &serde_json::Value| {
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        nodes
            .iter()
            .any(|node| node["name"] == "web-9" && node["version"] == "9.0.0")
    };
    wait_until_or(|| listed(&status()), || status().to_string());
    // Records of its version, and of ours with a kind of purge that nothing here knows: neither is
    // half understood.
    for record in [vec![2; 60], record_of_an_unknown_kind()] {
        fleet.fill("/a");
        let changed = fleet.origin.change();
        let before = clears(&fleet);
        redis.command_with(&["XADD", "saker:purges", "*", "r"], &record);
        wait_until_cleared(&fleet, &before);
        fleet.wait_for_generation("/a", changed);
    }
    announce(3, " more");
    purges_work(&fleet);
    assert!(fleet.nodes.iter().all(|node| node.has_logged("SK1606")));
}

/// A whole record of this version: of server 9, with number 1, and one purge of kind 250.
fn record_of_an_unknown_kind() -> Vec<u8> {
    let mut record = vec![1];
    record.extend_from_slice(&9_u64.to_le_bytes());
    record.extend_from_slice(&1_u64.to_le_bytes());
    record.extend_from_slice(&[250, 1, 2, 3, 4]);
    let sum = xxhash_rust::xxh3::xxh3_64(&record);
    record.extend_from_slice(&sum.to_le_bytes());
    record
}

/// A directory was copied from one server to another.
#[test]
fn two_servers_with_one_id_part_ways() {
    let redis = RedisServer::start();
    let mut fleet = Fleet::start(&redis, 2);
    fleet.nodes[1].stop();
    for file in ["cluster.queue", "cluster.position", "cluster.complete"] {
        let from = fleet.nodes[0].dir.join("state/cache").join(file);
        let to = fleet.nodes[1].dir.join("state/cache").join(file);
        std::fs::copy(from, to).unwrap();
    }
    fleet.nodes[1].start_again();
    wait_until_or(
        || fleet.nodes.iter().any(|node| node.has_logged("SK1609")),
        || fleet.nodes[0].log() + &fleet.nodes[1].log(),
    );
    wait_until_or(
        || fleet.nodes[0].status()["id"] != fleet.nodes[1].status()["id"],
        || fleet.nodes[0].status().to_string(),
    );
    purges_work(&fleet);
}
