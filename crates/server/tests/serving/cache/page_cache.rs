//! The page cache behind real connections: what is answered from it, what is not, and what takes it
//! away.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::origin::{Gate, Meeting, Origin, answer, ok};
use saker_testkit::{SystemCalls, wait_until};
use std::{process::Command, thread};

const PUBLIC: (&str, &str) = ("Cache-Control", "public, max-age=60");
const HTML: (&str, &str) = ("Content-Type", "text/html");

#[test]
fn pages_come_from_the_cache() {
    let origin = Origin::start("cache-plain", "", |asked| {
        ok(
            &[PUBLIC, HTML, ("ETag", "\"a\"")],
            &format!("{} {}", asked.target, asked.count),
        )
    });
    let mut client = origin.client();
    for round in 0..5 {
        let response = client.get("/page?x=1").unwrap();
        assert_eq!(
            (response.status, response.text()),
            (200, "/page?x=1 1".into()),
            "{round}"
        );
        assert_eq!(response.field("age").is_some(), round > 0, "{round}");
        assert_eq!(response.field_values("date").count(), 1);
    }
    // Another query, another path, another host: other pages.
    assert_eq!(client.get("/page?x=2").unwrap().text(), "/page?x=2 1");
    assert_eq!(client.get("/page").unwrap().text(), "/page 1");
    assert_eq!(
        client
            .request("GET", "/page", &[("Host", "other")])
            .unwrap()
            .text(),
        "/page 2"
    );
    // HEAD, conditions and ranges are answered from the same entry.
    let head = client.head("/page").unwrap();
    assert_eq!(
        (head.status, head.field("content-length")),
        (200, Some("7"))
    );
    assert_eq!(
        client
            .request("GET", "/page", &[("If-None-Match", "\"a\"")])
            .unwrap()
            .status,
        304
    );
    let part = client
        .request("GET", "/page", &[("Range", "bytes=1-4")])
        .unwrap();
    assert_eq!(
        (part.status, part.text(), part.field("content-range")),
        (206, "page".into(), Some("bytes 1-4/7"))
    );
    assert_eq!(
        client
            .request("GET", "/page", &[("Range", "bytes=9-")])
            .unwrap()
            .status,
        416
    );
    assert_eq!(
        (origin.asked("/page").len(), origin.asked("/page?x=1").len()),
        (2, 1)
    );
}

/// Each once, and the same of a page and of a 304 for it.
#[test]
fn clients_are_told_what_the_cache_did() {
    let settings = "result_header = \"X-Cache\"\nstatus_header = true\n";
    let origin = Origin::start("cache-told", settings, |_| {
        ok(&[PUBLIC, ("ETag", "\"a\"")], "page")
    });
    let mut client = origin.client();
    for (condition, status, word, cache_status) in [
        (
            None,
            200,
            "MISS",
            "Saker; fwd=uri-miss; fwd-status=200; stored",
        ),
        (None, 200, "HIT", "Saker; hit; ttl="),
        (
            Some(("If-None-Match", "\"a\"")),
            304,
            "HIT",
            "Saker; hit; ttl=",
        ),
        // From now on without a walk.
        (
            Some(("If-None-Match", "\"a\"")),
            304,
            "HIT",
            "Saker; hit; ttl=",
        ),
    ] {
        let response = client
            .request("GET", "/page", condition.as_slice())
            .unwrap();
        assert_eq!(
            (
                response.status,
                response.field_values("x-cache").collect::<Vec<_>>()
            ),
            (status, vec![word])
        );
        let told: Vec<_> = response.field_values("cache-status").collect();
        assert!(
            told.len() == 1 && told[0].starts_with(cache_status),
            "{told:?}"
        );
    }
}

/// RFC 9211 section 2.2.
#[test]
fn clients_are_told_why_a_request_went_on() {
    let origin = Origin::start(
        "cache-forward",
        "status_header = true\nobey_client = true\n",
        |asked| match asked.target.as_str() {
            "/vary" => ok(&[PUBLIC, ("Vary", "Accept-Language")], "page"),
            "/no-store" => ok(&[("Cache-Control", "no-store")], "page"),
            _ => ok(&[("Cache-Control", "max-age=60")], "page"),
        },
    );
    let (german, english) = (("Accept-Language", "de"), ("Accept-Language", "en"));
    let (session, password) = (
        ("Cookie", "PHPSESSID=0123456789abcdef0123"),
        ("Authorization", "Basic YTpi"),
    );
    let nothing = ("X-Nothing", "");
    for (method, target, field, expected) in [
        ("GET", "/page", session, "fwd=bypass"),
        ("GET", "/page", nothing, "fwd=uri-miss"),
        ("GET", "/page", nothing, "hit"),
        // Whether there is an entry or not.
        ("GET", "/page", session, "fwd=bypass"),
        ("GET", "/page", password, "fwd=bypass"),
        ("GET", "/page", ("Cache-Control", "no-cache"), "fwd=request"),
        ("POST", "/page", ("Content-Length", "0"), "fwd=method"),
        ("GET", "/vary", german, "fwd=uri-miss"),
        ("GET", "/vary", english, "fwd=vary-miss"),
        ("GET", "/vary", english, "hit"),
        ("GET", "/vary", session, "fwd=vary-miss"),
        ("GET", "/no-store", nothing, "fwd=uri-miss"),
        ("GET", "/no-store", nothing, "fwd=uri-miss"),
    ] {
        let response = origin.client().request(method, target, &[field]).unwrap();
        let said = response.field("cache-status").unwrap_or_default();
        assert_eq!(
            said.split("; ").nth(1),
            Some(expected),
            "{method} {target} {field:?}: {said}"
        );
    }
}

#[test]
fn what_is_somebodys_own_is_not_kept() {
    let origin = Origin::start("cache-own", "", |asked| {
        let count = asked.count.to_string();
        match asked.target.as_str() {
            "/private" => ok(&[("Cache-Control", "private, max-age=60")], &count),
            "/cookie" => ok(
                &[("Cache-Control", "max-age=60"), ("Set-Cookie", "a=b")],
                &count,
            ),
            "/nothing" => ok(&[], &count),
            "/no-store" => ok(&[("Cache-Control", "no-store")], &count),
            "/said" => ok(
                &[
                    ("Cache-Control", "public, max-age=60"),
                    ("Set-Cookie", "a=b"),
                ],
                &count,
            ),
            _ => ok(&[("Cache-Control", "max-age=60")], &count),
        }
    });
    for target in ["/private", "/cookie", "/nothing", "/no-store"] {
        for count in ["1", "2", "3"] {
            assert_eq!(origin.get(target, &[]).text(), count, "{target}");
        }
    }
    // Of requests that say who they are from.
    for field in [
        ("Authorization", "Basic YTpi"),
        ("Cookie", "PHPSESSID=0123456789abcdef0123"),
    ] {
        let target = format!("/page?{}", field.0);
        for count in ["1", "2"] {
            assert_eq!(origin.get(&target, &[field]).text(), count, "{field:?}");
        }
        assert_eq!(origin.get(&target, &[]).text(), "3");
        assert_eq!(origin.get(&target, &[]).text(), "3");
        assert_eq!(
            origin.get(&target, &[field]).text(),
            "4",
            "{field:?}: what is for all was made without it"
        );
    }
    // Said to be for all, without the cookie that came along.
    assert_eq!(origin.get("/said", &[]).field("set-cookie"), Some("a=b"));
    let again = origin.get("/said", &[]);
    assert_eq!(
        (again.text(), again.field("set-cookie")),
        ("1".into(), None)
    );
}

#[test]
fn variants_by_what_the_response_names() {
    let origin = Origin::start("cache-vary", "", |asked| {
        let language = asked.field("accept-language").unwrap_or("none").to_owned();
        ok(
            &[PUBLIC, ("Vary", "Accept-Language")],
            &format!("{language} {}", asked.count),
        )
    });
    for _ in 0..3 {
        assert_eq!(origin.get("/", &[("Accept-Language", "de")]).text(), "de 1");
        assert_eq!(origin.get("/", &[("Accept-Language", "en")]).text(), "en 2");
        assert_eq!(origin.get("/", &[]).text(), "none 3");
    }
}

#[test]
fn one_request_for_many_who_wait() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::with(
        "cache-flight",
        "[site.cache]\nenabled = true\n",
        2,
        move |asked| {
            held.pass();
            ok(&[PUBLIC], &asked.count.to_string())
        },
    );
    let texts: Vec<String> = thread::scope(|scope| {
        let clients: Vec<_> = (0..500)
            .map(|_| scope.spawn(|| origin.get("/cold", &[]).text()))
            .collect();
        wait_until("most of them wait", || {
            origin.counter("page_cache_waits_total") > 400
        });
        gate.open();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    });
    assert!(texts.iter().all(|text| text == "1"), "{texts:?}");
    assert_eq!(origin.asked("/cold").len(), 1);
}

/// They would be served one by one.
#[test]
fn nobody_waits_twice_for_what_is_not_kept() {
    let meeting = Meeting::default();
    let origin = Origin::start("cache-pass", "", move |asked| {
        let is_together = asked.count == 1 || meeting.attend(20);
        ok(
            &[("Cache-Control", "private")],
            if is_together { "together" } else { "alone" },
        )
    });
    origin.get("/p", &[]);
    thread::scope(|scope| {
        let asking: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| origin.get("/p", &[]).text()))
            .collect();
        asking
            .into_iter()
            .for_each(|one| assert_eq!(one.join().unwrap(), "together"));
    });
    assert_eq!(origin.asked("/p").len(), 21);
}

#[test]
fn stale_pages_are_served_while_they_are_made_anew() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::with_clock("cache-grace", "grace = \"60s\"\n", 1, move |asked| {
        if asked.count == 1 {
            return ok(&[("Cache-Control", "public, max-age=1")], "1");
        }
        held.pass();
        ok(
            &[("Cache-Control", "public, max-age=100")],
            &asked.count.to_string(),
        )
    });
    assert_eq!(origin.get("/", &[]).text(), "1");
    origin.advance(3);
    for _ in 0..10 {
        assert_eq!(origin.get("/", &[]).text(), "1", "nobody waits");
    }
    origin.wait_for("/", 2);
    gate.open();
    origin.until_text("/", "2");
    assert_eq!(origin.asked("/").len(), 2);
}

#[test]
fn what_has_ended_is_validated() {
    let origin = Origin::with_clock("cache-validate", "grace = \"0s\"\n", 1, |asked| match asked
        .field("if-none-match")
    {
        Some("\"v\"") => answer(
            "304 Not Modified",
            &[
                ("Cache-Control", "public, max-age=100"),
                ("ETag", "\"v\""),
                ("X-New", "1"),
            ],
            "",
        ),
        _ => ok(
            &[("Cache-Control", "public, max-age=1"), ("ETag", "\"v\"")],
            &asked.count.to_string(),
        ),
    });
    assert_eq!(origin.get("/", &[]).text(), "1");
    origin.advance(3);
    let again = origin.get("/", &[]);
    assert_eq!(
        (again.status, again.text(), again.field("x-new")),
        (200, "1".into(), Some("1"))
    );
    assert_eq!(origin.get("/", &[]).text(), "1");
    assert_eq!(
        origin.asked("/").len(),
        2,
        "it lives for another hundred seconds"
    );
}

#[test]
fn an_origin_that_fails_is_stood_in_for() {
    let origin = Origin::with_clock(
        "cache-error",
        "grace = \"0s\"\nstale_if_error = \"1h\"\n",
        1,
        |asked| match asked.count {
            1 if asked.target == "/long" => ok(
                &[("Cache-Control", "public, max-age=1"), HTML],
                &"good ".repeat(1000),
            ),
            1 => ok(&[("Cache-Control", "public, max-age=1")], "good"),
            _ => answer("503 Service Unavailable", &[], "bad"),
        },
    );
    assert_eq!(origin.get("/", &[]).text(), "good");
    origin.advance(3);
    for _ in 0..3 {
        assert_eq!(origin.get("/", &[]).text(), "good");
    }
    // By clients that take codings, too, which are not made yet.
    let coded = origin.get("/long", &[("Accept-Encoding", "gzip")]);
    assert_eq!(
        (coded.status, coded.field("content-encoding")),
        (200, Some("gzip"))
    );
    origin.advance(3);
    for coding in ["br", "gzip"] {
        let stale = origin.get("/long", &[("Accept-Encoding", coding)]);
        assert_eq!(
            (stale.status, stale.field("content-encoding")),
            (200, Some(coding))
        );
    }
}

#[test]
fn what_changes_things_takes_its_address_away() {
    let origin = Origin::start("cache-unsafe", "", |asked| {
        ok(&[PUBLIC], &asked.count.to_string())
    });
    assert_eq!(
        (origin.get("/a", &[]).text(), origin.get("/a", &[]).text()),
        ("1".into(), "1".into())
    );
    let post = origin
        .client()
        .request("POST", "/a", &[("Content-Length", "0")])
        .unwrap();
    assert_eq!(post.status, 200);
    assert_eq!(origin.get("/a", &[]).text(), "3");
}

#[test]
fn pages_outlive_the_process() {
    let origin = Origin::start("cache-restart", "", |asked| match asked.target.as_str() {
        "/large" => ok(&[PUBLIC], &"x".repeat(300_000)),
        _ => ok(&[PUBLIC, HTML], &asked.count.to_string()),
    });
    for target in ["/small", "/large"] {
        origin.get(target, &[]);
    }
    let Origin { saker, .. } = &origin;
    assert!(saker.dir.join("state/cache").is_dir());
    // Larger ones go out by sendfile.
    assert_eq!(origin.get("/large", &[]).text().len(), 300_000);
    assert_eq!(origin.get("/small", &[]).text(), "1");
    assert_eq!(origin.asked("/large").len(), 1);
}

#[test]
fn codings_are_made_once_and_are_right() {
    let text = "the same words over and over, ".repeat(300);
    let content = text.clone();
    let origin = Origin::start("cache-codings", "", move |_| {
        ok(&[PUBLIC, HTML, ("ETag", "\"e\"")], &content)
    });
    origin.get("/", &[]);
    for coding in ["gzip", "br", "zstd"] {
        for _ in 0..3 {
            let response = origin.get("/", &[("Accept-Encoding", coding)]);
            assert_eq!(
                (response.status, response.field("content-encoding")),
                (200, Some(coding))
            );
            assert!(response.body.len() < text.len() / 5);
            assert!(
                response
                    .field("vary")
                    .is_some_and(|vary| vary.eq_ignore_ascii_case("accept-encoding"))
            );
            assert_ne!(
                response.field("etag"),
                Some("\"e\""),
                "other bytes have another tag"
            );
        }
    }
    assert_eq!(origin.get("/", &[]).text(), text);
    assert_eq!(origin.asked("/").len(), 1);
}

/// As for a small file: nothing else is done for it, whatever the application behind it is.
#[test]
fn a_hit_costs_one_recv_and_one_send() {
    const REQUESTS: u64 = 200;
    let origin = Origin::start("cache-calls", "", |_| {
        ok(&[PUBLIC, HTML], &"x".repeat(5000))
    });
    let mut client = origin.client();
    let mut ask = || {
        assert_eq!(
            client
                .request(
                    "GET",
                    "/page?x=1",
                    &[("Accept-Encoding", "gzip"), ("Cookie", "_ga=1")]
                )
                .unwrap()
                .status,
            200
        )
    };
    (0..20).for_each(|_| ask());
    let counting =
        SystemCalls::attach_to_threads(&origin.saker.server, "worker-", origin.saker.dir.as_ref())
            .unwrap();
    (0..REQUESTS).for_each(|_| ask());
    let calls = counting.finish().unwrap();
    let made = |name: &str| calls.get(name).map_or(0, |calls| calls.made);
    assert_eq!(
        (made("recvfrom"), made("sendto")),
        (REQUESTS, REQUESTS),
        "{calls:?}"
    );
    let waits: u64 = ["epoll_wait", "epoll_pwait", "epoll_pwait2"]
        .iter()
        .map(|name| made(name))
        .sum();
    let others: u64 = calls.values().map(|calls| calls.made).sum::<u64>() - 2 * REQUESTS - waits;
    assert!(waits <= REQUESTS + 100 && others <= 12, "{calls:?}");
}

/// An origin that compresses would have one page per way to ask for it.
#[test]
fn codings_are_not_asked_of_the_origin() {
    let text = "words and words and words ".repeat(200);
    let content = text.clone();
    let origin = Origin::start("cache-uncoded", "", move |asked| {
        assert_eq!(asked.field("accept-encoding"), None);
        let cache = if asked.target == "/kept" {
            "public, max-age=60"
        } else {
            "no-store"
        };
        ok(&[("Cache-Control", cache), HTML], &content)
    });
    for target in ["/kept", "/kept", "/not"] {
        let response = origin.get(target, &[("Accept-Encoding", "gzip")]);
        assert_eq!(
            (
                response.field("content-encoding"),
                response.body.len() < text.len() / 5
            ),
            (Some("gzip"), true),
            "{target}"
        );
    }
    assert_eq!(origin.get("/kept", &[]).text(), text);
    assert_eq!(origin.asked("/kept").len(), 1);
}

/// Responses that may depend on a request's fields are not served to clients that did not send
/// them.
#[test]
fn nobody_leaves_a_page_for_others_that_only_he_has_asked_for() {
    let origin = Origin::start("cache-poison", "", |asked| {
        ok(
            &[PUBLIC, ("X-Count", &asked.count.to_string())],
            &asked.head,
        )
    });
    let plain = "shop.example";
    let odd: [(&str, &[(&str, &str)]); 6] = [
        ("/page", &[("Host", "shop.example:1337")]),
        ("/p%61ge", &[("Host", plain)]),
        (
            "/page",
            &[("Host", plain), ("X-Forwarded-Host", "evil.example")],
        ),
        ("/page", &[("Host", plain), ("X-Original-URL", "/admin")]),
        (
            "/page",
            &[("Host", plain), ("X-HTTP-Method-Override", "DELETE")],
        ),
        (
            "/page",
            &[("Host", plain), ("Forwarded", "host=evil.example")],
        ),
    ];
    // The odd ones first, and again when the plain page is there.
    for _ in 0..3 {
        for (target, fields) in odd {
            let text = origin.get(target, fields).text();
            let (name, value) = fields[fields.len() - 1];
            assert!(
                text.contains(&format!("{}: {value}", name.to_ascii_lowercase())),
                "{target} {fields:?}: {text}"
            );
        }
        let text = origin.get("/page", &[("Host", plain)]).text();
        assert!(
            text.contains("host: shop.example\n")
                && !text.contains("evil")
                && !text.contains("override"),
            "{text}"
        );
    }
    assert_eq!(
        origin.asked("/page").len(),
        6,
        "each of them is kept for those who send the same"
    );
    // Content that no key looks at.
    for count in 1..3 {
        let response = origin
            .client()
            .request("GET", "/fat", &[("Content-Length", "0"), ("X-Odd", "1")])
            .unwrap();
        assert_eq!(
            response.field("x-count"),
            Some("1"),
            "{count}: none at all is as good as nothing"
        );
    }
    let mut client = origin.client();
    client
        .send("GET /fat2 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nfat!")
        .unwrap();
    assert_eq!(client.read_response().unwrap().field("x-count"), Some("1"));
    assert_eq!(
        origin.get("/fat2", &[("Host", "a")]).field("x-count"),
        Some("2"),
        "it was not kept"
    );
    // A purge of the URL takes every spelling.
    assert_eq!(
        origin
            .client()
            .request("PURGE", "/page", &[("Host", plain)])
            .unwrap()
            .status,
        200
    );
    origin.get(
        "/page",
        &[("Host", plain), ("X-Forwarded-Host", "evil.example")],
    );
    assert_eq!(origin.asked("/page").len(), 7);
}

#[test]
fn bans_by_what_is_true_of_an_entry() {
    let origin = Origin::start("cache-bans", "", |asked| {
        ok(
            &[PUBLIC, HTML, ("X-Magento-Tags", "cat_1,cat_22")],
            &asked.count.to_string(),
        )
    });
    let ban = |fields: &[(&str, &str)]| origin.client().request("BAN", "/", fields).unwrap().status;
    let pages = ["/shop/a", "/shop/b?x=1", "/blog"];
    type Case = (&'static [(&'static str, &'static str)], [bool; 3]);
    let cases: [Case; 6] = [
        (&[("X-Ban", "req.url ~ ^/shop")], [false, false, true]),
        (
            &[("X-Ban", "req.url ~ x= && obj.status == 200")],
            [true, false, true],
        ),
        (
            &[("X-Url", "^/blog$"), ("X-Host", ".*")],
            [true, true, false],
        ),
        (
            &[("X-Ban", "obj.http.x-magento-tags ~ (^|,)cat_2(,|$)")],
            [true, true, true],
        ),
        (&[("X-Ban", "req.http.host == other")], [true, true, true]),
        (
            &[("X-Magento-Tags-Pattern", "cat_[0-9]+")],
            [false, false, false],
        ),
    ];
    for (fields, stay) in cases {
        pages.iter().for_each(|page| drop(origin.get(page, &[])));
        let before = pages.map(|page| origin.asked(page).len());
        assert_eq!(ban(fields), 200, "{fields:?}");
        pages.iter().for_each(|page| drop(origin.get(page, &[])));
        let stayed: Vec<bool> = pages
            .iter()
            .zip(before)
            .map(|(page, before)| origin.asked(page).len() == before)
            .collect();
        assert_eq!(stayed, stay, "{fields:?}");
    }
    // They are the cache's: clients see them neither on a miss nor on a hit, and those of what is
    // not kept stay.
    let seen = |page: &str| {
        [(); 2].map(|()| {
            origin
                .get(page, &[])
                .field("x-magento-tags")
                .map(str::to_owned)
        })
    };
    assert_eq!(seen("/seen"), [None, None]);
    let post = origin
        .client()
        .request("POST", "/seen", &[("Host", "a"), ("Content-Length", "0")])
        .unwrap();
    assert_eq!(post.field("x-magento-tags"), Some("cat_1,cat_22"));
    assert_eq!(ban(&[("X-Ban", "req.url ~ (")]), 400);
    assert_eq!(ban(&[("X-Ban", "req.cookie ~ x")]), 400);
}

/// `saker purge` and `saker cache`, about pages that are really there.
#[test]
fn operators_see_and_purge_pages() {
    let origin = Origin::start("cache-operator", "", |asked| {
        ok(
            &[PUBLIC, HTML, ("Surrogate-Key", "shop red")],
            &asked.count.to_string(),
        )
    });
    let saker = |words: &[&str]| {
        let state = origin.saker.dir.join("state");
        let output = Command::new(crate::operate::SAKER)
            .args(words)
            .arg("--state-dir")
            .arg(state)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let ask = |target: &str| origin.get(target, &[("Host", "shop.example")]).text();
    assert_eq!(
        (ask("/a?x=1"), ask("/a?x=1"), ask("/b")),
        ("1".into(), "1".into(), "1".into())
    );
    let listed = saker(&["cache", "list"]);
    assert!(
        listed.contains("/a?x=1") && listed.contains("/b") && listed.contains("red"),
        "{listed}"
    );
    let shown = saker(&["cache", "show", "http://shop.example/a?x=1"]);
    assert!(
        shown.contains("untouched") && shown.contains("shop red") && !shown.contains("/b"),
        "{shown}"
    );
    saker(&["purge", "http://shop.example/a?x=1"]);
    assert_eq!((ask("/a?x=1"), ask("/b")), ("2".into(), "1".into()));
    saker(&["purge", "--tag", "red"]);
    assert_eq!((ask("/a?x=1"), ask("/b")), ("3".into(), "2".into()));
    saker(&["purge", "--ban", "req.url ~ ^/b"]);
    assert_eq!((ask("/a?x=1"), ask("/b")), ("3".into(), "3".into()));
    saker(&["purge", "--all"]);
    assert_eq!((ask("/a?x=1"), ask("/b")), ("4".into(), "4".into()));
    let status = saker(&["status", "--json"]);
    assert!(status.contains("page_cache_requests_total"), "{status}");
}

/// Parameters that do not change the page do not change its key.
#[test]
fn what_changes_a_page_takes_it_away_however_it_was_asked_for() {
    let origin = Origin::start(
        "cache-unsafe",
        "ignore_parameters = [\"utm_*\"]\n",
        |asked| ok(&[PUBLIC], &asked.count.to_string()),
    );
    assert_eq!(origin.get("/p?a=1&utm_source=x", &[]).text(), "1");
    assert_eq!(origin.get("/p?a=1&utm_source=y", &[]).text(), "1");
    assert_eq!(
        origin
            .client()
            .request("POST", "/p?utm_medium=z&a=1", &[("Content-Length", "0")])
            .unwrap()
            .status,
        200
    );
    origin.get("/p?a=1", &[]);
    assert_eq!(origin.asked("/p?a=1").len(), 1, "the page is made anew");
}

/// Visitors with sessions, and posts, go past the page by decisions, which never stand in the way of the
/// page: whatever came before, other visitors have it from the cache, and nothing else.
#[test]
fn decisions_lead_past_pages() {
    let origin = Origin::start("cache-past-pages", "", |asked| {
        let is_personal = asked.field("cookie").is_some() || asked.head.starts_with("POST");
        let of = asked.field("cookie").unwrap_or("all").to_owned();
        let control = match is_personal {
            true => "private, no-store",
            false => "max-age=60",
        };
        ok(
            &[("Cache-Control", control), HTML],
            &format!("{of} {}", asked.count),
        )
    });
    let mut client = origin.client();
    let mut of_origin = 0;
    let mut page = String::new();
    for round in 0..8 {
        for visitor in ["a", "b"] {
            let cookie = format!("PHPSESSID={visitor}");
            of_origin += 1;
            let fields = [("Cookie", cookie.as_str())];
            let personal = client.request("GET", "/page?n=1", &fields).unwrap();
            assert_eq!(personal.text(), format!("{cookie} {of_origin}"), "{round}");
        }
        let shared = client.get("/page?n=1").unwrap().text();
        if round == 0 {
            of_origin += 1;
            page = format!("all {of_origin}");
        }
        assert_eq!(shared, page, "{round}");
        assert_eq!(client.get("/page?n=1").unwrap().text(), page, "{round}");
        of_origin += 1;
        let posted = client.request("POST", "/page?n=1", &[("Content-Length", "0")]);
        assert_eq!(
            posted.unwrap().text(),
            format!("all {of_origin}"),
            "{round}"
        );
        // What was posted may have changed the page (RFC 9111 section 4.4).
        let fresh = client.get("/page?n=1").unwrap().text();
        of_origin += 1;
        page = format!("all {of_origin}");
        assert_eq!(fresh, page, "{round}");
    }
    assert_eq!(origin.asked("/page?n=1").len(), of_origin);
    let hits = || origin.counter("resource_cache_hits_total");
    let before = hits();
    for _ in 0..20 {
        client
            .request("GET", "/page?n=1", &[("Cookie", "PHPSESSID=a")])
            .unwrap();
        assert_eq!(client.get("/page?n=1").unwrap().text(), page);
    }
    wait_until("decisions and pages are hits of the route cache", || {
        hits() >= before + 36
    });
}
