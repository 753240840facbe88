//! Servers and the engine that end, pause, and come back.

use super::{fleet::Fleet, redis_server::RedisServer};
use saker_testkit::{wait_until, wait_until_or};

#[test]
fn a_killed_server_has_no_stale_page_when_it_is_back() {
    let redis = RedisServer::start();
    let mut fleet = Fleet::start(&redis, 5);
    fleet.fill("/a");
    fleet.fill("/b");
    for round in 0..5 {
        let at = round % 5;
        fleet.nodes[at].kill();
        let changed = fleet.origin.change();
        let other = &fleet.nodes[(at + 1) % 5];
        other.purge(&["--tag", "a"]);
        wait_until("the log has it", || other.status()["queue_records"] == 0);
        fleet.nodes[at].start_again();
        assert_eq!(
            fleet.nodes[at].generation("/a"),
            changed,
            "the very first answer"
        );
        fleet.wait_for_generation("/a", changed);
    }
    // What was not purged is still used, by a server that has caught up.
    fleet
        .nodes
        .iter()
        .for_each(|node| node.wait_until_in_sync());
    let asked = fleet.origin.asked("/b");
    assert!(fleet.nodes.iter().all(|node| node.generation("/b") == 0));
    assert_eq!(fleet.origin.asked("/b"), asked);
}

#[test]
fn a_server_that_was_away_for_longer_than_the_log_clears_its_cache() {
    let redis = RedisServer::start();
    let cluster = format!(
        "url = \"redis://127.0.0.1:{}\"\nretention = 1000",
        redis.port
    );
    let mut fleet = Fleet::start_with(&cluster, 2);
    fleet.fill("/a");
    fleet.nodes[1].kill();
    let changed = fleet.origin.change();
    fleet.nodes[0].purge(&["--tag", "a"]);
    // Redis trims whole nodes of its tree, of a hundred entries.
    let read = last_read(&fleet);
    while !redis
        .command(&["XRANGE", "saker:purges", &read, &read])
        .is_empty()
    {
        for _ in 0..40 {
            fleet.nodes[0].request("POST", "/save", &[("X-Purge", "tag=x")]);
        }
    }
    fleet.nodes[1].start_again();
    assert_eq!(fleet.nodes[1].generation("/a"), changed);
    wait_until_or(
        || fleet.nodes[1].has_logged("it was trimmed"),
        || fleet.nodes[1].log(),
    );
    fleet.nodes[1].wait_until_in_sync();
    assert_eq!(fleet.nodes[1].generation("/a"), changed);
}

/// The last id that the killed server has read.
fn last_read(fleet: &Fleet) -> String {
    let bytes = std::fs::read(fleet.nodes[1].dir.join("state/cache/cluster.position")).unwrap();
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    format!("{}-{}", number(8), number(16))
}

#[test]
fn a_paused_engine_fails_no_request_and_loses_no_purge() {
    let redis = RedisServer::start();
    let url = format!(
        "url = \"redis://127.0.0.1:{}\"\nmax_staleness = \"5s\"",
        redis.port
    );
    let fleet = Fleet::start_with(&url, 3);
    fleet.fill("/a");
    redis.pause();
    let changed = fleet.origin.change();
    fleet.nodes[0].purge(&["--tag", "a"]);
    assert_eq!(
        fleet.nodes[0].generation("/a"),
        changed,
        "it is in force here"
    );
    let asked = fleet.origin.asked("/a");
    fleet.nodes[1].get("/a");
    assert_eq!(fleet.origin.asked("/a"), asked, "used for max_staleness");
    // And not for longer.
    for node in &fleet.nodes {
        wait_until_or(|| node.has_logged("SK1604"), || node.log());
        assert_eq!(node.generation("/a"), changed);
        assert_eq!(node.status()["is_in_sync"], false);
        assert_eq!(node.command(&["cluster", "status"]).status.code(), Some(2));
    }
    let output = fleet.nodes[0].command(&["purge", "--tag", "a", "--wait=1s"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("waits for the cluster's log"), "{error}");
    let status = fleet.nodes[0].status();
    assert!(status["queue_records"].as_u64() >= Some(1), "{status}");
    redis.go_on();
    for node in &fleet.nodes {
        node.wait_until_in_sync();
        wait_until("the queue is empty", || node.status()["queue_records"] == 0);
    }
    fleet.fill("/a");
    let changed = fleet.origin.change();
    fleet.nodes[2].purge(&["--tag", "a", "--wait"]);
    fleet.wait_for_generation("/a", changed);
    // Read again, or sent twice, and in force once: nothing was cleared after the start.
    assert!(
        fleet
            .nodes
            .iter()
            .all(|node| node.status()["cache_clears"] == 1)
    );
}

#[test]
fn purges_made_while_the_engine_is_dead_outlive_the_server() {
    let mut redis = RedisServer::start();
    let mut fleet = Fleet::start(&redis, 3);
    fleet.fill("/a");
    redis.kill();
    let changed = fleet.origin.change();
    fleet.nodes[0].purge(&["--tag", "a"]);
    fleet.nodes[0].request("POST", "/save", &[("X-Purge", "tag=b")]);
    fleet.nodes[0].kill();
    fleet.nodes[0].start_again();
    assert_eq!(fleet.nodes[0].generation("/a"), changed, "in force here");
    assert_eq!(fleet.nodes[0].status()["queue_records"], 2);
    let asked = fleet.origin.asked("/a");
    fleet.nodes[0].get("/a");
    assert!(
        fleet.origin.asked("/a") > asked,
        "nothing is used before it has caught up"
    );
    assert!(
        fleet.nodes[1].generation("/a") < changed,
        "within max_staleness"
    );
    redis.start_again();
    fleet.wait_for_generation("/a", changed);
    fleet
        .nodes
        .iter()
        .for_each(|node| node.wait_until_in_sync());
}

#[test]
fn an_engine_that_forgets_empties_the_caches() {
    let mut redis = RedisServer::start();
    let fleet = Fleet::start(&redis, 5);
    for round in 0..3 {
        fleet.fill("/a");
        let changed = fleet.origin.change();
        // A purge that only the engine had, when it ended.
        redis.pause();
        fleet.nodes[round].purge(&["--tag", "a"]);
        redis.kill();
        redis.start_again();
        fleet.wait_for_generation("/a", changed);
        for node in &fleet.nodes {
            wait_until_or(
                || node.status()["cache_clears"].as_u64() >= Some(2 + round as u64),
                || node.log(),
            );
            node.wait_until_in_sync();
        }
    }
}

/// The new process goes on where the old one was, with its queue and its place.
#[test]
fn an_upgrade_goes_on() {
    let mut redis = RedisServer::start();
    let mut fleet = Fleet::start(&redis, 2);
    fleet.fill("/a");
    fleet.fill("/b");
    redis.kill();
    let changed = fleet.origin.change();
    fleet.nodes[0].purge(&["--tag", "a"]);
    fleet.nodes[0].upgrade();
    assert_eq!(fleet.nodes[0].status()["queue_records"], 1);
    redis.start_again();
    fleet.wait_for_generation("/a", changed);
    fleet
        .nodes
        .iter()
        .for_each(|node| node.wait_until_in_sync());
    fleet.fill("/a");
    let changed = fleet.origin.change();
    fleet.nodes[0].upgrade();
    fleet.nodes[0].wait_until_in_sync();
    assert_eq!(
        fleet.nodes[0].status()["cache_clears"],
        0,
        "it knew its place"
    );
    for at in [1, 0] {
        fleet.nodes[at].purge(&["--tag", "a", "--wait"]);
    }
    fleet.wait_for_generation("/a", changed);
    let stopped = fleet.nodes[0].command(&["stop"]);
    assert!(stopped.status.success(), "{stopped:?}");
}

#[test]
fn a_server_that_stops_has_sent_its_purges() {
    let redis = RedisServer::start();
    let mut fleet = Fleet::start(&redis, 2);
    fleet.fill("/a");
    let changed = fleet.origin.change();
    fleet.nodes[0].purge(&["--tag", "a"]);
    fleet.nodes[0].stop();
    wait_until("the other has it", || {
        fleet.nodes[1].generation("/a") == changed
    });
    fleet.nodes[0].start_again();
    fleet.nodes[0].wait_until_in_sync();
    let asked = fleet.origin.asked("/b");
    fleet.nodes[0].get("/b");
    fleet.nodes[0].get("/b");
    assert_eq!(fleet.origin.asked("/b"), asked + 1);
    assert_eq!(
        fleet.nodes[0].status()["cache_clears"],
        0,
        "it knew its place"
    );
}
