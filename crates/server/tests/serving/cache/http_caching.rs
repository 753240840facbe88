//! RFC 9111 behind real connections: `Date`, odd fields, statuses, conditions, and what is served
//! stale, by cases that public HTTP caching tests have as well.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::origin::{Origin, answer, ok};
use std::{
    io::{Read, Write},
    net::Shutdown,
};

const FRESH: (&str, &str) = ("Cache-Control", "max-age=3600");
const PAST: &str = "Wed, 01 Jan 2020 00:00:00 GMT";

/// The second response to `target`, which is a hit.
fn hit(origin: &Origin, target: &str, fields: &[(&str, &str)]) -> saker_testkit::Response {
    let mut client = origin.client();
    client.get(target).unwrap();
    let response = client.request("GET", target, fields).unwrap();
    assert_eq!(origin.asked(target).len(), 1, "{target} is not a hit");
    response
}

/// Section 5.1.1 of RFC 9111 computes ages by it, and RFC 9110 section 6.6.1 lets no one replace it.
#[test]
fn dates_stay_as_the_origin_said() {
    let origin = Origin::with_clock("caching-date", "grace = \"0s\"\n", 1, |asked| {
        match asked.target.as_str() {
            "/dated" => ok(&[FRESH, ("Date", "Mon, 01 Jan 2024 00:00:00 GMT")], "a"),
            "/invalid" => ok(&[FRESH, ("Date", "yesterday")], "a"),
            "/validated" if asked.field("if-none-match").is_some() => {
                answer("304 Not Modified", &[("ETag", "\"a\"")], "")
            }
            "/validated" => ok(&[("Cache-Control", "max-age=5"), ("ETag", "\"a\"")], "a"),
            "/passed" => ok(
                &[
                    ("Cache-Control", "no-store"),
                    ("Date", "Mon, 01 Jan 2024 00:00:00 GMT"),
                ],
                "a",
            ),
            _ => ok(&[FRESH], "a"),
        }
    });
    let mut client = origin.client();
    let mut dates = |target: &str| {
        let response = client.get(target).unwrap();
        let dates: Vec<String> = response.field_values("date").map(str::to_owned).collect();
        assert_eq!(dates.len(), 1, "{target}: {dates:?}");
        dates[0].clone()
    };
    let (undated, invalid, validated) = (dates("/undated"), dates("/invalid"), dates("/validated"));
    let old = "Mon, 01 Jan 2024 00:00:00 GMT";
    assert_eq!(dates("/passed"), old);
    origin.advance(10);
    assert_eq!((dates("/undated"), dates("/invalid")), (undated, invalid));
    // The 304 without a date has the time of its receipt.
    assert_ne!(dates("/validated"), validated);
    // Years old by its date, and so stale at once: fetched each time.
    assert_eq!((dates("/dated"), dates("/dated")), (old.into(), old.into()));
    assert_eq!(origin.asked("/undated").len(), 1);
}

#[test]
fn fields_of_stored_responses() {
    let origin = Origin::start("caching-fields", "", |asked| match asked.target.as_str() {
        "/unknown-coding" => ok(&[FRESH, ("Content-Encoding", "x-unknown")], "coded"),
        "/range" => ok(&[FRESH, ("Content-Range", "odd")], "text"),
        "/personal" => ok(
            &[
                ("Cache-Control", "public, max-age=60"),
                ("Set-Cookie", "a=1"),
                ("Set-Cookie2", "a=1"),
            ],
            "text",
        ),
        _ => ok(
            &[
                FRESH,
                ("Connection", "x-hop"),
                ("X-Hop", "1"),
                ("X-Kept", "1"),
            ],
            "text",
        ),
    });
    let coded = hit(&origin, "/unknown-coding", &[]);
    assert_eq!(
        (coded.field("content-encoding"), coded.text()),
        (Some("x-unknown"), "coded".into())
    );
    let plain = hit(&origin, "/fields", &[]);
    let of = |name: &str| plain.field(name).map(str::to_owned);
    assert_eq!([of("x-hop"), of("x-kept")], [None, Some("1".into())]);
    assert_eq!(
        hit(&origin, "/range", &[]).field("content-range"),
        Some("odd")
    );
    let personal = hit(&origin, "/personal", &[]);
    assert!(personal.field("set-cookie").is_none() && personal.field("set-cookie2").is_none());
}

#[test]
fn statuses_with_a_lifetime() {
    let origin = Origin::start("caching-statuses", "", |asked| {
        let status = asked.target.trim_start_matches('/').to_owned();
        match status.as_str() {
            "204" => b"HTTP/1.1 204 No Content\r\nCache-Control: max-age=3600\r\n\r\n".to_vec(),
            _ => answer(&format!("{status} Whatever"), &[FRESH], "text"),
        }
    });
    for status in [
        200, 203, 204, 299, 301, 302, 303, 307, 308, 404, 410, 499, 500, 502, 503, 504, 599,
    ] {
        let response = hit(&origin, &format!("/{status}"), &[]);
        assert_eq!(response.status, status);
    }
}

#[test]
fn expires_in_any_case() {
    let origin = Origin::start("caching-expires", "", |asked| {
        let date = match asked.target.as_str() {
            "/day" => "THU, 18 Aug 2050 02:01:18 GMT",
            "/month" => "Thu, 18 AUG 2050 02:01:18 GMT",
            _ => "Thu, 18 Aug 2050 02:01:18 gmt",
        };
        ok(&[("Expires", date)], "text")
    });
    ["/day", "/month", "/zone"]
        .iter()
        .for_each(|target| drop(hit(&origin, target, &[])));
}

/// Section 4.3.2.
#[test]
fn conditions_by_date() {
    let origin = Origin::with_clock(
        "caching-conditions",
        "grace = \"0s\"\n",
        1,
        |asked| match asked.target.as_str() {
            "/stale" if asked.field("if-modified-since").is_some() => answer(
                "304 Not Modified",
                &[("Last-Modified", PAST), ("Cache-Control", "max-age=2")],
                "",
            ),
            "/stale" => ok(
                &[("Cache-Control", "max-age=2"), ("Last-Modified", PAST)],
                "a",
            ),
            "/modified" => ok(&[FRESH, ("Last-Modified", PAST)], "a"),
            _ => ok(&[FRESH], "a"),
        },
    );
    let response = hit(&origin, "/modified", &[("If-Modified-Since", PAST)]);
    assert_eq!(response.status, 304);
    let mut client = origin.client();
    for (since, status) in [
        ("Thu, 01 Jan 2026 00:00:00 GMT", 304),
        ("Wednesday, 01-Jan-20 00:00:00 GMT", 304),
        ("Tue, 31 Dec 2019 00:00:00 GMT", 200),
    ] {
        let response = client
            .request("GET", "/modified", &[("If-Modified-Since", since)])
            .unwrap();
        assert_eq!(response.status, status, "{since}");
    }
    // Without Last-Modified, by Date.
    let first = client.get("/dated").unwrap();
    let date = first.field("date").unwrap().to_owned();
    for (since, status) in [(date.as_str(), 304), (PAST, 200)] {
        let response = client
            .request("GET", "/dated", &[("If-Modified-Since", since)])
            .unwrap();
        assert_eq!(response.status, status, "{since}");
    }
    // A stale entry is validated, and the client's condition holds after it.
    client.get("/stale").unwrap();
    origin.advance(5);
    let validated = client
        .request("GET", "/stale", &[("If-Modified-Since", PAST)])
        .unwrap();
    assert_eq!((validated.status, origin.asked("/stale").len()), (304, 2));
}

/// Section 4.2.4, and section 5.2.2.10: `s-maxage` implies `proxy-revalidate`. An upstream that closes
/// the connection has failed like one that says so.
#[test]
fn errors_and_stale_pages() {
    let rows = [
        ("plain", "max-age=2", true),
        ("must", "max-age=2, must-revalidate", false),
        ("proxy", "max-age=2, proxy-revalidate", false),
        ("no-cache", "max-age=2, no-cache", false),
        ("shared", "max-age=2, s-maxage=2", false),
        ("allowed", "s-maxage=2, stale-if-error=60", true),
    ];
    let origin = Origin::with_clock(
        "caching-errors",
        "grace = \"0s\"\nstale_if_error = \"1h\"\n",
        1,
        move |asked| {
            let (failure, name) = asked.target[1..].split_once('/').unwrap();
            if asked.count == 1 {
                let row = rows.iter().find(|row| row.0 == name).unwrap();
                return ok(&[("Cache-Control", row.1), ("ETag", "\"a\"")], "page");
            }
            match failure {
                "closes" => {
                    asked.connection.shutdown(Shutdown::Both).unwrap();
                    Vec::new()
                }
                _ => answer("503 Service Unavailable", &[], "down"),
            }
        },
    );
    let mut client = origin.client();
    for failure in [("says", 503), ("closes", 502)] {
        for (name, _, _) in rows {
            let first = client.get(&format!("/{}/{name}", failure.0)).unwrap();
            assert_eq!(first.status, 200, "{failure:?} {name}");
        }
    }
    origin.advance(5);
    for failure in [("says", 503), ("closes", 502)] {
        for (name, control, is_served) in rows {
            let response = client.get(&format!("/{}/{name}", failure.0)).unwrap();
            let expected = if is_served { 200 } else { failure.1 };
            assert_eq!(response.status, expected, "{failure:?} {control}");
        }
    }
}

/// Section 3.3: a range is of use by itself; without a strong validator it is combined with none.
#[test]
fn ranges_without_validators() {
    let origin = Origin::start("caching-ranges", "", |asked| {
        let range = asked.field("range").unwrap_or("bytes=0-9").to_owned();
        let (first, last) = range.trim_start_matches("bytes=").split_once('-').unwrap();
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        answer(
            "206 Partial Content",
            &[
                FRESH,
                ("Content-Range", &format!("bytes {first}-{last}/10")),
            ],
            &"0123456789"[first..=last],
        )
    });
    let get = |range: &str| {
        let response = origin.get("/part", &[("Range", range)]);
        (response.status, response.text())
    };
    assert_eq!(get("bytes=4-9"), (206, "456789".into()));
    // It is written behind the response.
    saker_testkit::wait_until("the first range is not stored", || {
        let before = origin.asked("/part").len();
        get("bytes=4-9") == (206, "456789".into()) && origin.asked("/part").len() == before
    });
    let asked = origin.asked("/part").len();
    assert_eq!(get("bytes=6-8"), (206, "678".into()));
    assert_eq!(get("bytes=-1"), (206, "9".into()));
    assert_eq!(origin.asked("/part").len(), asked);
    // Another range replaces it: nothing says that both are of one page.
    assert_eq!(get("bytes=0-3"), (206, "0123".into()));
    saker_testkit::wait_until("the second range is not stored", || {
        let before = origin.asked("/part").len();
        get("bytes=0-3") == (206, "0123".into()) && origin.asked("/part").len() == before
    });
    let asked = origin.asked("/part").len();
    get("bytes=2-5");
    assert_eq!(origin.asked("/part").len(), asked + 1);
}

/// RFC 9110 section 15.2: they go on to the client, and only the final response is stored.
#[test]
fn interim_responses_go_on_and_are_not_stored() {
    let origin = Origin::start("caching-interim", "", |_| {
        let hints = "HTTP/1.1 102 Processing\r\n\r\n\
                     HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nX-Hint: 1\r\nSet-Cookie: a=1\r\n\r\n";
        [hints.as_bytes(), &ok(&[FRESH], "page")].concat()
    });
    let exchange = |version: &str| {
        let mut stream = std::net::TcpStream::connect(origin.saker.server.address()).unwrap();
        let request = format!("GET /page HTTP/{version}\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let first = exchange("1.1");
    let statuses: Vec<&str> = first
        .lines()
        .filter(|line| line.starts_with("HTTP/"))
        .collect();
    assert_eq!(
        statuses,
        [
            "HTTP/1.1 102 Processing",
            "HTTP/1.1 103 Early Hints",
            "HTTP/1.1 200 OK"
        ]
    );
    assert!(
        first.contains("X-Hint: 1\r\n") && !first.contains("Set-Cookie"),
        "{first}"
    );
    let second = exchange("1.1");
    assert!(
        second.starts_with("HTTP/1.1 200 OK") && !second.contains("X-Hint"),
        "{second}"
    );
    assert_eq!(origin.asked("/page").len(), 1);
    // A client of HTTP/1.0 knows none.
    let old = Origin::start("caching-interim-old", "", |_| {
        [
            &b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"[..],
            &ok(&[], "page"),
        ]
        .concat()
    });
    let mut stream = std::net::TcpStream::connect(old.saker.server.address()).unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
}

/// Section 4.3.4: a 304 about another representation validates nothing. The stored page is obsolete,
/// and the client gets the whole one of a second request.
#[test]
fn a_304_about_something_else_is_asked_again() {
    let origin = Origin::start("caching-unrelated", "obey_client = true\n", |asked| {
        let fresh = [("Cache-Control", "no-cache"), ("ETag", "\"new\"")];
        match (asked.target.as_str(), asked.field("if-none-match")) {
            // The page has changed after the second request.
            (_, None) if asked.count == 1 => ok(
                &[("Cache-Control", "no-cache"), ("ETag", "\"old\"")],
                "old page",
            ),
            (_, Some(_)) => answer("304 Not Modified", &[("ETag", "\"new\"")], ""),
            ("/uncached", _) => ok(&[("Cache-Control", "no-store")], "new page"),
            ("/fails", _) => answer("503 Service Unavailable", &[], "fails"),
            ("/never", _) => answer("304 Not Modified", &[("ETag", "\"new\"")], ""),
            _ => ok(&fresh, "new page"),
        }
    });
    let get = |target: &str, fields: &[(&str, &str)]| {
        let response = origin.get(target, fields);
        (response.status, response.text())
    };
    let page = |status: u16, text: &str| (status, text.to_owned());
    for target in ["/", "/conditional", "/uncached", "/fails", "/never"] {
        assert_eq!(get(target, &[]), page(200, "old page"), "{target}");
    }
    assert_eq!(get("/", &[]), page(200, "new page"));
    // What is stored now is the new page, which one request validates.
    assert_eq!(get("/", &[]), page(200, "new page"));
    assert_eq!(origin.asked("/").len(), 4);
    // The client's own conditions are applied to the new page.
    let of_old = get("/conditional", &[("If-None-Match", "\"old\"")]);
    assert_eq!(of_old, page(200, "new page"));
    let of_new = get("/conditional", &[("If-None-Match", "\"new\"")]);
    assert_eq!(of_new, page(304, ""));
    assert_eq!(get("/uncached", &[]), page(200, "new page"));
    assert_eq!(get("/fails", &[]), page(503, "fails"));
    // A 304 to a request without conditions is no answer.
    assert_eq!(get("/never", &[]).0, 502);
    for target in ["/uncached", "/fails", "/never"] {
        // The obsolete page is gone: nothing is validated.
        let before = origin.asked(target).len();
        get(target, &[]);
        let asked = origin.asked(target);
        assert_eq!((before, asked.len()), (3, 4), "{target}");
        let last = asked.last().unwrap();
        assert!(last.field("if-none-match").is_none(), "{target}");
    }
}

/// The content of a QUERY goes with its second request, too.
#[test]
fn a_query_is_asked_again_with_its_content() {
    let origin = Origin::start(
        "caching-unrelated-query",
        "methods = [\"QUERY\"]\n",
        |asked| {
            let tag = if asked.count == 1 {
                "\"old\""
            } else {
                "\"new\""
            };
            match asked.field("if-none-match") {
                Some(_) => answer("304 Not Modified", &[("ETag", "\"new\"")], ""),
                None => ok(
                    &[("Cache-Control", "no-cache"), ("ETag", tag)],
                    &format!("{tag} {}", asked.content),
                ),
            }
        },
    );
    let query = || {
        let mut client = origin.client();
        let head =
            "QUERY / HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n";
        client.send(format!("{head}whole")).unwrap();
        client.read_response().unwrap().text()
    };
    assert_eq!(query(), "\"old\" whole");
    assert_eq!(query(), "\"new\" whole");
    let contents: Vec<String> = origin
        .asked("/")
        .into_iter()
        .map(|asked| asked.content)
        .collect();
    assert_eq!(contents, ["whole"; 3]);
}

/// Queries that the origin calls equivalent share a page, in the cached route as in the look-up,
/// and it goes with each of its URLs.
#[test]
fn no_vary_search() {
    let origin = Origin::start(
        "caching-search",
        "purge_from = [\"127.0.0.0/8\"]\n",
        |asked| {
            let fields = [FRESH, ("No-Vary-Search", "key-order, params=(\"utm\")")];
            let is_plain = asked.target.starts_with("/plain");
            ok(&fields[..2 - usize::from(is_plain)], &asked.target)
        },
    );
    let mut client = origin.client();
    let text = |target: &str| origin.get(target, &[]).text();
    for target in [
        "/a?x=1&y=2",
        "/a?y=2&x=1",
        "/a?utm=z&x=1&y=2",
        "/a?x=1&y=2&utm=",
    ] {
        assert_eq!(text(target), "/a?x=1&y=2", "{target}");
    }
    assert_eq!(text("/a?x=2"), "/a?x=2");
    // No query at all is the same as one that doesn't count.
    assert_eq!(
        (text("/b?utm=1"), text("/b")),
        ("/b?utm=1".into(), "/b?utm=1".into())
    );
    assert_eq!(
        (text("/plain?x"), text("/plain?utm")),
        ("/plain?x".into(), "/plain?utm".into())
    );
    for purged in ["/a?x=1&y=2", "/a?y=2&x=1&utm=9"] {
        let response = client.request("PURGE", purged, &[]).unwrap();
        assert_eq!(response.status, 200);
        let asked = origin.asked("/a?y=2&x=1").len();
        assert_eq!(client.get("/a?y=2&x=1").unwrap().text(), "/a?y=2&x=1");
        assert_eq!(origin.asked("/a?y=2&x=1").len(), asked + 1, "{purged}");
        assert_eq!(client.get("/a?x=1&y=2").unwrap().text(), "/a?y=2&x=1");
    }
}

/// RFC 9111 section 4.2.4: without a setting, what a response's own fields make stale is not served
/// without asking; lifetimes of the operator keep their grace.
#[test]
fn grace_by_default() {
    const GRACE: &str = "caching-grace";
    let answers = |asked: &crate::origin::Asked| match asked.target.as_str() {
        "/stated" => ok(&[("Cache-Control", "max-age=5")], &asked.count.to_string()),
        "/shared" => ok(&[("Cache-Control", "s-maxage=5")], &asked.count.to_string()),
        "/lscache" => ok(
            &[("X-LiteSpeed-Cache-Control", "public,max-age=5")],
            &asked.count.to_string(),
        ),
        _ => ok(&[], &asked.count.to_string()),
    };
    let all = ["/stated", "/shared", "/lscache", "/ttl"];
    let after = |cache: &str| {
        let origin = Origin::with_clock(GRACE, cache, 1, answers);
        let mut client = origin.client();
        all.iter()
            .for_each(|target| drop(client.get(target).unwrap()));
        origin.advance(8);
        all.map(|target| client.get(target).unwrap().text())
    };
    assert_eq!(after("ttl = \"5s\"\n"), ["2", "2", "1", "1"]);
    let chosen = after("ttl = \"5s\"\ngrace = \"10s\"\n");
    assert_eq!(chosen, ["1", "1", "1", "1"]);
}
