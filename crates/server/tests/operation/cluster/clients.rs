//! Bans, limits, log-ins, and passes that all servers of a cluster have in common.
//!
//! Caveat: clients are named by a trusted proxy, so that one machine has many. What counts are
//! bursts; the rates below them give one request a minute back.

use super::{
    fleet::{Fleet, HOST, Node, response},
    redis_server::RedisServer,
};
use aws_lc_rs::digest::{SHA256, digest};
use saker_testkit::{wait_until, wait_until_or};

const CLIENT: &str = "192.0.2.7";

fn is_banned(node: &Node, client: &str) -> bool {
    node.status_for(client, "/a", &[]) == 403
}

#[track_caller]
fn wait_for(node: &Node, client: &str, banned: bool) {
    wait_until_or(
        || is_banned(node, client) == banned,
        || {
            format!(
                "{client} banned: {banned}\n{}\n{}",
                node.status(),
                node.log()
            )
        },
    );
}

fn ban(node: &Node, arguments: &[&str]) {
    let output = node.command(arguments);
    assert!(output.status.success(), "{output:?}\n{}", node.log());
}

#[test]
fn a_ban_is_in_force_everywhere_and_so_is_its_end() {
    let redis = RedisServer::start();
    let fleet = Fleet::start_sharing(&redis, "\"bans\"", "", 5);
    ban(&fleet.nodes[0], &["ban", CLIENT]);
    for node in &fleet.nodes {
        wait_for(node, CLIENT, true);
        assert!(!is_banned(node, "192.0.2.8"));
    }
    ban(&fleet.nodes[3], &["unban", CLIENT]);
    fleet
        .nodes
        .iter()
        .for_each(|node| wait_for(node, CLIENT, false));
    ban(&fleet.nodes[1], &["ban", "192.0.2.0/24", "--for", "1h"]);
    fleet
        .nodes
        .iter()
        .for_each(|node| wait_for(node, CLIENT, true));
}

#[test]
fn a_ban_by_a_rule_is_in_force_everywhere() {
    let redis = RedisServer::start();
    let site = "[abuse]\nrefused_requests = 3\n\
                [site.throttle]\nrequests_static = { rate = \"1/m\", burst = 1 }\n";
    let fleet = Fleet::start_sharing(&redis, "\"bans\"", site, 2);
    let refused = || fleet.nodes[0].status_for(CLIENT, "/a", &[]);
    assert_eq!([refused(), refused()], [200, 200]);
    // Three refusals are borne; the fourth is a ban.
    (0..4).for_each(|_| assert_eq!(refused(), 429));
    wait_for(&fleet.nodes[1], CLIENT, true);
}

#[test]
fn servers_that_were_away_learn_of_bans() {
    let redis = RedisServer::start();
    let mut fleet = Fleet::start_sharing(&redis, "\"bans\"", "", 3);
    ban(&fleet.nodes[0], &["ban", CLIENT]);
    fleet
        .nodes
        .iter()
        .for_each(|node| wait_for(node, CLIENT, true));
    fleet.nodes[2].kill();
    ban(&fleet.nodes[0], &["unban", CLIENT]);
    ban(&fleet.nodes[1], &["ban", "192.0.2.9"]);
    wait_for(&fleet.nodes[1], CLIENT, false);
    wait_for(&fleet.nodes[0], "192.0.2.9", true);
    fleet.nodes[2].start_again();
    wait_for(&fleet.nodes[2], "192.0.2.9", true);
    wait_for(&fleet.nodes[2], CLIENT, false);
    // What it had saved as banned does not come back on the others.
    assert!(!is_banned(&fleet.nodes[0], CLIENT));
}

#[test]
fn bans_outlive_the_engine() {
    let mut redis = RedisServer::start();
    let fleet = Fleet::start_sharing(&redis, "\"bans\"", "", 2);
    ban(&fleet.nodes[0], &["ban", CLIENT]);
    wait_for(&fleet.nodes[1], CLIENT, true);
    redis.kill();
    wait_until("both have noticed", || {
        fleet.nodes.iter().all(|node| node.has_logged("SK1610"))
    });
    ban(&fleet.nodes[0], &["ban", "192.0.2.9"]);
    assert!(is_banned(&fleet.nodes[0], "192.0.2.9"), "at once, here");
    assert!(!is_banned(&fleet.nodes[1], "192.0.2.9"));
    redis.start_again();
    wait_for(&fleet.nodes[1], "192.0.2.9", true);
    wait_until("the new engine has both", || {
        redis.command(&["HLEN", "saker:bans"]) == "2"
    });
    wait_until("both say so", || {
        fleet.nodes.iter().all(|node| node.has_logged("SK1611"))
    });
}

#[test]
fn records_without_the_secret_are_refused() {
    let redis = RedisServer::start();
    let fleet = Fleet::start_sharing(&redis, "\"bans\", \"limits\"", "", 2);
    ban(&fleet.nodes[0], &["ban", CLIENT]);
    wait_for(&fleet.nodes[1], CLIENT, true);
    // Another address in the record, and the record under another name.
    let forge = "local record = redis.call('hget', KEYS[1], ARGV[1]) \
                 local forged = string.gsub(record, ARGV[1], ARGV[2]) \
                 redis.call('hset', KEYS[1], ARGV[2], forged, '192.0.2.6', record) \
                 redis.call('xadd', KEYS[2], '*', 'r', forged) \
                 redis.call('xadd', KEYS[2], '*', 'x', record) \
                 redis.call('xadd', KEYS[3], '*', 'r', record) \
                 return forged";
    let keys = ["saker:bans", "saker:ban-feed", "saker:charges"];
    let words = [&["EVAL", forge, "3"][..], &keys, &[CLIENT, "192.0.2.8"]].concat();
    assert!(redis.command(&words).contains("192.0.2.8"));
    wait_until("it was refused", || fleet.nodes[1].has_logged("SK1612"));
    ban(&fleet.nodes[0], &["ban", "192.0.2.9"]);
    wait_for(&fleet.nodes[1], "192.0.2.9", true);
    let spared = |client| !is_banned(&fleet.nodes[1], client);
    assert!(spared("192.0.2.8") && spared("192.0.2.6"));
}

/// Sends requests until the server refuses; returns how many it answered.
fn admitted(node: &Node, client: &str, fields: &[(&str, &str)]) -> usize {
    (0..100)
        .take_while(|_| node.status_for(client, "/a", fields) == 200)
        .count()
}

/// Uses up what `from` admits for one client, key, or whatever the number stands for, after another,
/// until `to` refuses the first request that it gets for one of them: only the other server can have
/// told it.
fn wait_until_shared(what: &str, mut use_up: impl FnMut(u32), mut first: impl FnMut(u32) -> u16) {
    let mut number = 0;
    wait_until(what, || {
        number += 1;
        use_up(number);
        // Each is asked for once, and later ones after a longer time.
        number % 2 == 0 && first(number / 2) == 429
    });
}

fn client(number: u32) -> String {
    format!("198.51.{}.{}", number / 250, number % 250)
}

/// Twenty requests of an address, ten with a key.
pub const TWENTY: &str = "[site.throttle]\nrequests_static = { rate = \"1/m\", burst = 19 }\n\
    requests_by_key = { \"$http_x_key\" = { rate = \"1/m\", burst = 9 } }\n";

#[test]
fn a_limit_holds_for_all_servers_together() {
    let redis = RedisServer::start();
    let fleet = Fleet::start_sharing(&redis, "\"limits\"", TWENTY, 5);
    a_limit_of_twenty_holds_together(&fleet);
    assert_eq!(
        admitted(&fleet.nodes[0], "192.0.2.8", &[]),
        20,
        "another client"
    );
    let stream = redis.command(&["XRANGE", "saker:charges", "-", "+"]);
    assert!(!stream.is_empty() && !stream.contains("key-of-visitor"));
}

/// All others know of twenty requests of an address, and of ten with a key, which the first server
/// has admitted.
pub fn a_limit_of_twenty_holds_together(fleet: &Fleet) {
    let from = &fleet.nodes[0];
    for (node, part) in fleet.nodes[1..].iter().zip(1..) {
        let of_part = |number| client(2000 * part + number);
        wait_until_shared(
            "requests of addresses are known",
            |number| assert_eq!(admitted(from, &of_part(number), &[]), 20),
            |number| node.status_for(&of_part(number), "/a", &[]),
        );
        // Keys are counted whatever the address.
        let key = |number| format!("key-of-visitor {part} {number}");
        wait_until_shared(
            "requests with keys are known",
            |number| {
                let key = key(number);
                let one = client(20_000 + 2000 * part + number);
                assert_eq!(admitted(from, &one, &[("X-Key", &key)]), 10);
            },
            |number| {
                let key = key(number);
                let other = client(40_000 + 2000 * part + number);
                node.status_for(&other, "/a", &[("X-Key", &key)])
            },
        );
    }
}

#[test]
fn limits_of_upstreams_hold_together() {
    let redis = RedisServer::start();
    let site = "[site.throttle]\nrequests_dynamic = { rate = \"1/m\", burst = 5 }\n";
    let fleet = Fleet::start_sharing(&redis, "\"limits\"", site, 2);
    let mut target = (0..).map(|number| format!("/save{number}"));
    let mut ask = |node: usize, number| {
        // Nothing of these is cached.
        let target = target.next().unwrap_or_default();
        fleet.nodes[node].status_for(&client(number), &target, &[("Cookie", "a=b")])
    };
    let mut to = Vec::new();
    let mut number = 0;
    wait_until("requests to the upstream are known", || {
        number += 1;
        assert_eq!([(); 6].map(|()| ask(0, number)), [200; 6]);
        to.push(number);
        number % 2 == 0 && ask(1, to[number as usize / 2 - 1]) == 429
    });
}

#[test]
fn limits_of_sites_hold_together() {
    let redis = RedisServer::start();
    let site = "[site.throttle]\nrequests_per_site = { rate = \"1/m\", burst = 399 }\n";
    let fleet = Fleet::start_sharing(&redis, "\"limits\"", site, 2);
    let asked = |node: &Node, number| node.status_for(&client(number), "/a", &[]);
    let count = (0..450)
        .take_while(|number| asked(&fleet.nodes[0], *number) == 200)
        .count();
    assert_eq!(count, 400);
    let mut admitted = 0;
    wait_until("the site's limit is used up", || {
        let is_refused = asked(&fleet.nodes[1], admitted) == 503;
        admitted += u32::from(!is_refused);
        is_refused
    });
    // As many as at the first one would be its own limit.
    assert!(admitted < 400, "{admitted}");
}

#[test]
fn guesses_of_passwords_count_together() {
    let redis = RedisServer::start();
    let site = "[site.logins]\naction = \"deny\"\nattempts = 6\nwithin = \"24h\"\n";
    let fleet = Fleet::start_sharing(&redis, "\"limits\"", site, 3);
    let guess = |node: &Node| {
        let named = [("X-Forwarded-For", CLIENT)];
        response(node.address(), "POST", "/wp-login.php", &named).status
    };
    for node in &fleet.nodes {
        assert_eq!([guess(node), guess(node)], [200, 200]);
    }
    for node in &fleet.nodes {
        wait_until("the others' guesses are known", || guess(node) == 403);
    }
}

#[test]
fn without_the_engine_each_server_counts() {
    let mut redis = RedisServer::start();
    let site = "[site.throttle]\nrequests_static = { rate = \"1/m\", burst = 4 }\n";
    let fleet = Fleet::start_sharing(&redis, "\"limits\"", site, 2);
    redis.kill();
    wait_until("both have noticed", || {
        fleet.nodes.iter().all(|node| node.has_logged("SK1610"))
    });
    for node in &fleet.nodes {
        assert_eq!(admitted(node, CLIENT, &[]), 5);
    }
    redis.start_again();
    fleet.nodes.iter().for_each(Node::wait_until_in_sync);
    assert_eq!(admitted(&fleet.nodes[0], "192.0.2.8", &[]), 5);
    wait_until("they count together again", || {
        fleet.nodes[1].status_for("192.0.2.8", "/a", &[]) == 429
    });
}

/// Solves the challenge as the page's script does.
fn solve(page: &str) -> String {
    let after = page.split("puzzle = \"").nth(1).unwrap();
    let puzzle = after.split('"').next().unwrap();
    let difficulty: u32 = puzzle.split('.').next().unwrap().parse().unwrap();
    let zeros = |text: &str| {
        let digest = digest(&SHA256, text.as_bytes());
        u32::from_be_bytes(digest.as_ref()[..4].try_into().unwrap()).leading_zeros()
    };
    let solution = (0..)
        .map(|number| format!("{puzzle}:{number}"))
        .find(|text| zeros(text) >= difficulty)
        .unwrap();
    format!("saker_work={solution}")
}

#[test]
fn a_challenge_is_solved_once_for_all_servers() {
    let redis = RedisServer::start();
    let site = "[site.challenge]\nwhen = \"always\"\ndifficulty = 8\n";
    for (share, passes) in [("\"passes\"", true), ("\"bans\"", false)] {
        let fleet = Fleet::start_sharing(&redis, share, site, 2);
        let get = |at: usize, cookie: &str| {
            let fields = [("Host", HOST), ("Cookie", cookie)];
            response(fleet.nodes[at].address(), "GET", "/a", &fields[1..])
        };
        let page = get(0, "");
        assert_ne!(page.status, 200);
        let answer = get(0, &solve(&page.text()));
        assert_eq!(answer.status, 200);
        let cookie = answer.field_values("set-cookie").next().unwrap();
        let pass = cookie.split(';').next().unwrap();
        assert_eq!(get(0, pass).status, 200);
        assert_eq!(get(1, pass).status == 200, passes, "{share}");
    }
}
