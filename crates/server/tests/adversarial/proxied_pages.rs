//! Pages of upstreams behind mod_proxy_html, which their authors have not written alone: markup in
//! them must control neither the server nor its cache, and must not cost more than its length.
//!
//! Each page is asked for over every protocol, and once more from the cache. Out of scope: what Apache
//! makes of pages (the differential suite's topic `proxy_html`).

use crate::{
    cache_origin::{Cached, Head, Origin, ok, origin},
    harness::{Answer, PROTOCOLS, Protocol, Request, ask},
    operate::folder,
};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Small pieces of markup, as many as would take a worker minutes if each cost the whole page.
const PIECES: usize = 2 << 20;

const LINES: &str = "ProxyHTMLEnable On\nProxyHTMLMeta On\nProxyHTMLExtended On\nProxyHTMLCharsetOut *\n\
     ProxyHTMLLinks a href\nProxyHTMLURLMap http://inner.test/ /outer/\n\
     CacheEnable disk /\nCacheIgnoreNoLastMod On\n";

fn meta(name: &str, content: &str) -> String {
    format!("<meta http-equiv=\"{name}\" content=\"{content}\">")
}

/// Elements by which a page would control a server, and the fields that they would make.
fn elements() -> [(&'static str, &'static str); 11] {
    [
        ("X-LiteSpeed-Purge", "*"),
        ("x-litespeed-purge2", "*"),
        ("X-LiteSpeed-Cache-Control", "public,max-age=600"),
        ("LSC-Cookie", "sid=forged"),
        ("Set-Cookie", "sid=forged"),
        ("X-Accel-Redirect", "/kept"),
        ("X-Sendfile", "/etc/passwd"),
        ("CDN-Cache-Control", "max-age=600"),
        ("Surrogate-Control", "max-age=600"),
        ("Cache-Group-Invalidation", "'all'"),
        ("Transfer-Encoding", "chunked"),
    ]
}

fn pages() -> Origin {
    let count = AtomicUsize::new(0);
    origin(move |head: &Head| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let html = ("Content-Type", "text/html");
        let path = head.target.split('?').next().unwrap_or_default();
        match path {
            "/kept" => ok(
                &[html, ("Cache-Control", "max-age=600")],
                &format!("kept {number}"),
            ),
            "/control" => {
                let elements = elements();
                let page: String = elements
                    .iter()
                    .map(|(name, value)| meta(name, value))
                    .collect();
                ok(&[html, ("Cache-Control", "no-store")], &page)
            }
            "/personal" => {
                let elements = [
                    meta("Cache-Control", "public, max-age=600"),
                    meta("Expires", "Fri, 01 Jan 2100 00:00:00 GMT"),
                    meta("Vary", "X-Nothing"),
                ];
                let page = format!(
                    "{}page of {} {number}",
                    elements.concat(),
                    head.first("cookie")
                );
                ok(
                    &[html, ("Cache-Control", "private"), ("Vary", "Cookie")],
                    &page,
                )
            }
            "/charset" => ok(
                &[html],
                "<?xml version=\"1.0\" encoding=\"\r\nutf-8\r\n\"?><a href=\"http://inner.test/x\">y</a>",
            ),
            "/many" => ok(&[html, ("Cache-Control", "no-store")], &"<".repeat(PIECES)),
            "/attributes" => {
                let tag = format!("<a {}>", "href=http://inner.test/ ".repeat(2500));
                ok(&[html, ("Cache-Control", "no-store")], &tag.repeat(20))
            }
            _ => ok(&[html], ""),
        }
    })
}

fn get(server: &Cached, protocol: Protocol, target: &str, fields: &[(&str, &str)]) -> Answer {
    let request = Request::get("localhost", target).with_fields(fields);
    ask(server.at(protocol), protocol, &request)
}

#[test]
fn pages_control_neither_the_server_nor_its_cache() {
    let origin = pages();
    let server = Cached::apache(folder("proxied-pages"), &origin, LINES);
    for (at, protocol) in PROTOCOLS.into_iter().enumerate() {
        let kept = get(&server, protocol, "/kept", &[]).text();
        assert!(kept.starts_with("kept"), "{kept}");
        let asked = origin.count("/kept");
        let answer = get(&server, protocol, "/control", &[]);
        assert_eq!(answer.status, 200, "{protocol:?}");
        for (name, value) in elements() {
            let found = answer.field(name);
            assert!(found != Some(value), "{protocol:?} {name}: {found:?}");
        }
        assert!(
            answer.text().contains("X-Accel-Redirect"),
            "{protocol:?}: the page itself"
        );
        assert_eq!(get(&server, protocol, "/kept", &[]).text(), kept);
        assert_eq!(
            origin.count("/kept"),
            asked,
            "{protocol:?}: nothing was purged"
        );
        for client in ["ann", "bob", "ann"] {
            let cookie = format!("u={client}{at}");
            let page = get(&server, protocol, "/personal", &[("Cookie", &cookie)]).text();
            assert!(
                page.contains(&format!("page of {cookie} ")),
                "{protocol:?}: {page}"
            );
        }
    }
    assert_eq!(origin.count("/personal"), 3 * PROTOCOLS.len());
}

#[test]
fn names_of_charsets_stay_in_their_field() {
    let origin = pages();
    let server = Cached::apache(folder("proxied-charset"), &origin, LINES);
    for protocol in PROTOCOLS {
        let answer = get(&server, protocol, "/charset", &[]);
        let found = answer.field("content-type");
        assert_eq!(found, Some("text/html;charset=utf-8"), "{protocol:?}");
        assert!(
            answer.text().contains("/outer/x"),
            "{protocol:?}: {}",
            answer.text()
        );
    }
}

/// The page comes in less than the client's patience, which is some seconds, in a debug build.
#[test]
fn small_pieces_cost_no_more_than_a_page() {
    let origin = pages();
    let server = Cached::apache(folder("proxied-pieces"), &origin, LINES);
    for protocol in PROTOCOLS {
        let answer = get(&server, protocol, "/many", &[]);
        assert_eq!(
            (answer.status, answer.body.len()),
            (200, PIECES),
            "{protocol:?}"
        );
        let answer = get(&server, protocol, "/attributes", &[]);
        let found = answer.text().matches("\"/outer/\"").count();
        assert_eq!(
            (answer.status, found),
            (200, 20),
            "{protocol:?}: the first of each tag counts"
        );
    }
}
