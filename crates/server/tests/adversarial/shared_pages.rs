//! Pages that answer more than the request that made them: equivalent queries (No-Vary-Search),
//! contents of QUERY, targeted fields, and groups must neither hand one client's page to another nor
//! let a client choose what others get.
//!
//! Every attack is made over every protocol. Out of scope: lifetimes and the fields' own syntax
//! (scenarios `cache_*`), dictionaries (`serving cache::dictionaries`).

use crate::{
    cache_origin::{Cached, Head, Origin, ok, origin},
    harness::{Answer, PROTOCOLS, Protocol, Request, ask},
};
use std::sync::atomic::{AtomicUsize, Ordering};

const RULE: (&str, &str) = ("No-Vary-Search", "key-order, params=(\"utm\")");
const FRESH: (&str, &str) = ("Cache-Control", "max-age=600");

/// Each answer has a number of its own, and says what it was made for.
fn pages() -> Origin {
    let count = AtomicUsize::new(0);
    origin(move |head: &Head| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let text = format!(
            "{number}: {} {} for {}",
            head.method,
            head.target,
            head.first("cookie")
        );
        let path = head.target.split('?').next().unwrap_or_default();
        let fields: &[(&str, &str)] = match path {
            "/search" => &[FRESH, RULE],
            "/own" => &[("Cache-Control", "private, max-age=600"), RULE],
            "/session" => &[FRESH, RULE, ("Set-Cookie", "sid=made")],
            "/varied" => &[FRESH, RULE, ("Vary", "Cookie")],
            "/targeted" => &[FRESH, ("CDN-Cache-Control", "private")],
            "/broken" => &[FRESH, ("CDN-Cache-Control", "max-age=\"")],
            "/grouped" => &[FRESH, ("Cache-Groups", "\"all\"")],
            "/drop" => &[("Cache-Group-Invalidation", "\"all\"")],
            _ => &[FRESH],
        };
        ok(fields, &text)
    })
}

fn get(server: &Cached, protocol: Protocol, target: &str, fields: &[(&str, &str)]) -> Answer {
    let request = Request::get("localhost", target).with_fields(fields);
    ask(server.at(protocol), protocol, &request)
}

fn sending<'r>(method: &'r str, host: &'r str, target: &'r str, content: &'r str) -> Request<'r> {
    Request {
        method,
        body: content.as_bytes(),
        ..Request::get(host, target)
    }
}

fn start(name: &str) -> (Origin, Cached) {
    let origin = pages();
    let server = Cached::native(name, &origin, "methods = [\"QUERY\"]\n");
    (origin, server)
}

/// Bytes that separate the parts of a key come into queries by their escapes. None of these is the
/// plain page, and none replaces it.
#[test]
fn escapes_in_queries_reach_no_other_page() {
    let (_origin, server) = start("shared-escapes");
    for (at, protocol) in PROTOCOLS.into_iter().enumerate() {
        let plain = format!("/search?a={at}");
        let first = get(&server, protocol, &plain, &[]).text();
        let rule = "%23key-order,%20params=(%22utm%22)";
        let attacks = [
            format!("{plain}%00"),
            format!("{plain}%00%00_lscache_vary;"),
            format!("{plain}&%23"),
            format!("{plain}&{rule}"),
            format!("{plain}%26{rule}%00%20/search%00_lscache_vary;"),
            format!("{plain}%00%20/search%00sign"),
            format!("{plain}%00visitor%20x"),
            format!("{plain}%26utm=1"),
            format!("{plain}%3Dutm"),
            format!("{plain}%0A"),
        ];
        for attack in &attacks {
            let answer = get(&server, protocol, attack, &[]).text();
            assert_ne!(answer, first, "{protocol:?} {attack}");
            assert!(answer.contains(attack), "{protocol:?} {attack}: {answer}");
        }
        assert_eq!(get(&server, protocol, &plain, &[]).text(), first);
        let equivalent = format!("{plain}&utm=x");
        assert_eq!(get(&server, protocol, &equivalent, &[]).text(), first);
    }
}

/// A page of one client stays that client's for all equivalent queries.
#[test]
fn equivalent_queries_of_two_clients_do_not_meet() {
    let (_origin, server) = start("shared-clients");
    for (at, protocol) in PROTOCOLS.into_iter().enumerate() {
        for path in ["/own", "/session", "/varied"] {
            let ask_as = |name: &str, query: &str| {
                let target = format!("{path}?at={at}{query}");
                let cookie = format!("sid={name}");
                get(&server, protocol, &target, &[("Cookie", &cookie)]).text()
            };
            for (name, query) in [
                ("ann", ""),
                ("bob", "&utm=1"),
                ("ann", "&utm=2"),
                ("bob", ""),
                ("carol", "&utm=3"),
            ] {
                let answer = ask_as(name, query);
                let own = format!("for sid={name}");
                assert!(
                    answer.ends_with(&own),
                    "{protocol:?} {path} {name}: {answer}"
                );
            }
        }
    }
}

/// A targeted field decides for this cache, whatever Cache-Control says; one that can't be read
/// leaves the decision to Cache-Control.
#[test]
fn targeted_fields_keep_private_pages_private() {
    let (origin, server) = start("shared-targeted");
    for protocol in PROTOCOLS {
        for path in ["/targeted", "/broken"] {
            let asked = origin.count(path);
            let one = get(&server, protocol, path, &[]).text();
            let other = get(&server, protocol, path, &[]).text();
            assert_eq!(one == other, path == "/broken", "{protocol:?} {path}");
            assert!(origin.count(path) <= asked + 2);
        }
    }
}

/// A client can't invalidate groups by what it sends: the response of an unsafe request does.
#[test]
fn requests_invalidate_no_groups() {
    let (_origin, server) = start("shared-groups");
    for protocol in PROTOCOLS {
        let first = get(&server, protocol, "/grouped", &[]).text();
        let sent = [
            ("Cache-Group-Invalidation", "\"all\""),
            ("Cache-Groups", "\"all\""),
        ];
        get(&server, protocol, "/other", &sent);
        get(&server, protocol, "/drop", &sent);
        for host in ["localhost", "other.test"] {
            let post = sending("POST", host, "/other", "x").with_fields(&sent);
            ask(server.at(protocol), protocol, &post);
        }
        let elsewhere = sending("POST", "other.test", "/drop", "x");
        ask(server.at(protocol), protocol, &elsewhere);
        assert_eq!(get(&server, protocol, "/grouped", &[]).text(), first);
        let own = sending("POST", "localhost", "/drop", "x");
        ask(server.at(protocol), protocol, &own);
        assert_ne!(get(&server, protocol, "/grouped", &[]).text(), first);
    }
}

/// Contents that differ are different pages, and GET has another one than QUERY.
#[test]
fn contents_of_queries_are_not_mixed() {
    let (_origin, server) = start("shared-contents");
    for (at, protocol) in PROTOCOLS.into_iter().enumerate() {
        let target = format!("/content?at={at}");
        let send = |kind: &str, content: &str| {
            let fields = [("Content-Type", kind)];
            let request = sending("QUERY", "localhost", &target, content).with_fields(&fields);
            ask(server.at(protocol), protocol, &request).text()
        };
        let mut seen = vec![get(&server, protocol, &target, &[]).text()];
        for (kind, content) in [
            ("application/json", "{\"a\":1}"),
            ("application/json", "{\"a\":\"1\"}"),
            ("application/json", "{\"a\":\"1 \"}"),
            ("application/json", "{\"a\":1}x"),
            ("application/json", "{\"a\":1,\"a\":2}"),
            ("text/plain", "{\"a\":1}"),
            ("text/plain", "{\"a\": 1}"),
            ("text/plain", ""),
        ] {
            let answer = send(kind, content);
            assert!(
                !seen.contains(&answer),
                "{protocol:?} {kind} {content}: {answer}"
            );
            assert_eq!(send(kind, content), answer, "{protocol:?} {kind} {content}");
            seen.push(answer);
        }
        assert_eq!(send("application/json", "{ \"a\" : 1 }"), seen[1]);
        assert_eq!(get(&server, protocol, &target, &[]).text(), seen[0]);
    }
}
