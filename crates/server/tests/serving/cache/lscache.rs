//! LSCache's protocol behind real connections: an application steers the cache by response headers.
//! The numbers are those of the checks that section 13 of the protocol's description lists.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::origin::{Asked, Origin, answer, ok};
use std::thread;

const CONTROL: &str = "X-LiteSpeed-Cache-Control";
const TAG: &str = "X-LiteSpeed-Tag";
const PURGE: &str = "X-LiteSpeed-Purge";

/// The application does what the query says: `c` is the control, `t` tags, `p` purges, `k` an
/// LSC-Cookie, `s` a Set-Cookie, `v` a vary, `st` a status. Dots stand for commas, tildes for
/// equals signs.
fn application(asked: &Asked) -> Vec<u8> {
    let query = asked.target.split_once('?').map_or("", |(_, query)| query);
    let given = |name: &str| {
        let value = query
            .split('&')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
        Some(value.replace('.', ",").replace('~', "="))
    };
    let fields = [
        ("c", CONTROL),
        ("t", TAG),
        ("p", PURGE),
        ("p2", "X-LiteSpeed-Purge2"),
        ("k", "LSC-Cookie"),
        ("s", "Set-Cookie"),
        ("v", "X-LiteSpeed-Vary"),
    ];
    let given: Vec<(&str, String)> = fields
        .iter()
        .filter_map(|(name, field)| Some((*field, given(name)?)))
        .collect();
    let fields: Vec<(&str, &str)> = given
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let status = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("st="))
        .unwrap_or("200");
    answer(
        &format!("{status} Said"),
        &fields,
        &format!(
            "{} for {}",
            asked.count,
            asked.field("cookie").unwrap_or("nobody")
        ),
    )
}

fn start(name: &str) -> Origin {
    Origin::with_clock(name, "", 1, application)
}

/// Status of the cache, and content.
fn seen(origin: &Origin, target: &str, cookie: &str) -> (String, String) {
    let fields: Vec<(&str, &str)> = if cookie.is_empty() {
        Vec::new()
    } else {
        vec![("Cookie", cookie)]
    };
    let response = origin.get(target, &fields);
    (
        response
            .field("x-litespeed-cache")
            .unwrap_or("-")
            .to_owned(),
        response.text(),
    )
}

fn is(got: (String, String), status: &str, text: &str) {
    assert_eq!((got.0.as_str(), got.1.as_str()), (status, text));
}

const USER: &str = "wordpress_logged_in_x=0123456789abcdef";
const OTHER: &str = "wordpress_logged_in_x=fedcba9876543210";

#[test]
fn check_1_public() {
    let origin = start("ls-1");
    is(
        seen(&origin, "/a?c=public.max-age~2", ""),
        "miss",
        "1 for nobody",
    );
    is(
        seen(&origin, "/a?c=public.max-age~2", ""),
        "hit",
        "1 for nobody",
    );
    is(
        seen(&origin, "/a?c=public.max-age~2", USER),
        "hit",
        "1 for nobody",
    );
    origin.advance(4);
    is(
        seen(&origin, "/a?c=public.max-age~2", ""),
        "hit",
        "1 for nobody",
    );
    origin.wait_for("/a?c=public.max-age~2", 2);
    origin.until_text("/a?c=public.max-age~2", "2 for nobody");
    is(
        seen(&origin, "/a?c=public.max-age~2", ""),
        "hit",
        "2 for nobody",
    );
}

/// With HTTP's fields as with LSCache's: clients see whether the cache was used.
#[test]
fn pages_that_http_keeps_are_hits_too() {
    let page = |asked: &Asked| {
        let fields = [
            ("Cache-Control", "public, max-age=60"),
            (TAG, "t"),
            ("X-LiteSpeed-Cache", "miss"),
            ("ETag", "\"a\""),
        ];
        ok(&fields[..], &asked.count.to_string())
    };
    let origin = Origin::start("ls-http", "", page);
    for status in ["miss", "hit", "hit"] {
        let response = origin.get("/a", &[]);
        assert_eq!(
            (
                response.text(),
                response
                    .field_values("x-litespeed-cache")
                    .collect::<Vec<_>>()
            ),
            ("1".into(), vec![status])
        );
        assert_eq!(
            (
                response.field("age").is_some(),
                response.field("x-litespeed-tag").is_some()
            ),
            (status == "hit", status == "miss")
        );
    }
    let unchanged = origin.get("/a", &[("If-None-Match", "\"a\"")]);
    assert_eq!(
        (
            unchanged.status,
            unchanged.field("x-litespeed-cache"),
            unchanged.field("age").is_some()
        ),
        (304, Some("hit"), true)
    );
    let without = Origin::start("ls-http-only", "obey = [\"http\"]\n", page);
    for is_hit in [false, true] {
        let response = without.get("/a", &[]);
        assert_eq!(
            (
                response.field("age").is_some(),
                response.field("x-litespeed-cache")
            ),
            (is_hit, Some("miss")),
            "the origin's own"
        );
    }
}

#[test]
fn check_2_private() {
    let origin = start("ls-2");
    let target = "/a?c=private.max-age~60";
    is(
        seen(&origin, target, USER),
        "miss",
        &format!("1 for {USER}"),
    );
    is(
        seen(&origin, target, USER),
        "hit,private",
        &format!("1 for {USER}"),
    );
    is(
        seen(&origin, target, OTHER),
        "miss",
        &format!("2 for {OTHER}"),
    );
    is(
        seen(&origin, target, OTHER),
        "hit,private",
        &format!("2 for {OTHER}"),
    );
    // A client without a session has no private pages.
    is(seen(&origin, target, ""), "-", "3 for nobody");
    is(seen(&origin, target, ""), "-", "4 for nobody");
    is(
        seen(&origin, target, USER),
        "hit,private",
        &format!("1 for {USER}"),
    );
}

#[test]
fn check_3_cookies() {
    let origin = start("ls-3");
    let target = "/a?c=public.max-age~60&s=own~1&k=all~2";
    let first = origin.get(target, &[]);
    let mut cookies: Vec<&str> = first.field_values("set-cookie").collect();
    cookies.sort_unstable();
    assert_eq!(cookies, ["all=2", "own=1"]);
    for _ in 0..2 {
        let again = origin.get(target, &[]);
        assert_eq!(
            again.field_values("set-cookie").collect::<Vec<_>>(),
            ["all=2"]
        );
        assert_eq!(again.field("lsc-cookie"), None);
    }
}

#[test]
fn check_4_what_is_not_kept() {
    let origin = start("ls-4");
    for target in [
        "/a?c=no-cache",
        "/a?st=302",
        "/a?st=500",
        "/a",
        "/a?c=public.max-age~0",
        "/a?c=public.no-store",
    ] {
        assert_eq!(seen(&origin, target, "").0, "-", "{target}");
        is(seen(&origin, target, ""), "-", "2 for nobody");
    }
    assert_eq!(
        origin.get("/a?c=no-cache", &[]).field(CONTROL),
        Some("no-cache"),
        "crawlers look for it"
    );
    // With a word of its own, other statuses are.
    for status in ["301", "404"] {
        let target = format!("/a?c=public.max-age~60&st={status}");
        is(seen(&origin, &target, ""), "miss", "1 for nobody");
        is(seen(&origin, &target, ""), "hit", "1 for nobody");
        assert_eq!(origin.get(&target, &[]).status.to_string(), status);
    }
}

#[test]
fn check_5_purges() {
    let origin = start("ls-5");
    let pages = [
        "/a?c=public.max-age~60&t=A.B",
        "/b?c=public.max-age~60&t=B",
        "/c?c=public.max-age~60&t=C",
    ];
    let cases = [
        ("tag~A", [false, true, true]),
        ("B", [false, false, true]),
        ("tag~A.tag~C", [false, true, false]),
        ("public.C", [true, true, false]),
        ("*", [false, false, false]),
        ("/b?c=public.max-age~60&t=B", [true, true, true]),
        ("Other", [true, true, true]),
        ("private.*", [true, true, true]),
        ("tag~A;tag~C", [false, true, false]),
    ];
    for (purge, stay) in cases {
        pages.iter().for_each(|page| drop(seen(&origin, page, "")));
        origin.get(&format!("/purge?p={purge}"), &[]);
        for (page, stays) in pages.iter().zip(stay) {
            let status = seen(&origin, page, "").0;
            assert_eq!(
                status,
                if stays { "hit" } else { "miss" },
                "{page} after {purge}"
            );
        }
    }
    // Both headers; by address.
    pages.iter().for_each(|page| drop(seen(&origin, page, "")));
    origin.get("/purge?p=A&p2=C", &[]);
    assert_eq!(
        pages.map(|page| seen(&origin, page, "").0),
        ["miss", "hit", "miss"]
    );
}

#[test]
fn check_5_soft_purges_and_tags_of_private_entries() {
    let origin = start("ls-5b");
    let page = "/a?c=public.max-age~60&t=A";
    is(seen(&origin, page, ""), "miss", "1 for nobody");
    origin.get("/purge?p=stale.A", &[]);
    is(seen(&origin, page, ""), "hit", "1 for nobody");
    origin.wait_for(page, 2);
    origin.until_text(page, "2 for nobody");
    is(seen(&origin, page, ""), "hit", "2 for nobody");
    let own = "/p?c=private.max-age~60&t=X.public:Y";
    for (purge, cookie, stays) in [
        ("X", "", true),
        ("private.X", OTHER, true),
        ("private.X", USER, false),
        ("Y", "", false),
        ("private.*", USER, false),
    ] {
        seen(&origin, own, USER);
        assert_eq!(seen(&origin, own, USER).0, "hit,private");
        let fields: Vec<(&str, &str)> = if cookie.is_empty() {
            Vec::new()
        } else {
            vec![("Cookie", cookie)]
        };
        origin.get(&format!("/purge?p={purge}"), &fields);
        assert_eq!(
            seen(&origin, own, USER).0,
            if stays { "hit,private" } else { "miss" },
            "{purge} by {cookie}"
        );
    }
}

#[test]
fn checks_6_7_12_purges_of_any_response() {
    let origin = start("ls-6");
    let page = "/a?c=public.max-age~60&t=T";
    seen(&origin, page, "");
    let post = origin
        .client()
        .request("POST", "/save?p=T&st=302", &[("Content-Length", "0")])
        .unwrap();
    assert_eq!((post.status, post.field(PURGE)), (302, None));
    is(seen(&origin, page, ""), "miss", "2 for nobody");
    // One that purges what it is itself stays.
    let both = "/b?c=public.max-age~60&t=T&p=T";
    is(seen(&origin, both, ""), "miss", "1 for nobody");
    is(seen(&origin, both, ""), "hit", "1 for nobody");
    is(seen(&origin, page, ""), "miss", "3 for nobody");
    let hit = origin.get(page, &[]);
    assert_eq!(
        (hit.field(CONTROL), hit.field(TAG), hit.field(PURGE)),
        (None, None, None)
    );
}

#[test]
fn check_8_the_vary_cookie() {
    let origin = start("ls-8");
    let page = "/a?c=public.max-age~60";
    let cookies = ["", "_lscache_vary=a", "_lscache_vary=b"];
    for (count, cookie) in cookies.iter().enumerate() {
        assert_eq!(seen(&origin, page, cookie).0, "miss", "{count}");
        assert_eq!(seen(&origin, page, cookie).0, "hit");
    }
    let one = "/b?c=public.max-age~60.no-vary";
    assert_eq!(
        cookies.map(|cookie| seen(&origin, one, cookie).0),
        ["miss", "hit", "hit"]
    );
    // Named by the response.
    let named = "/c?c=public.max-age~60&v=cookie~currency";
    assert_eq!(
        [
            "currency=EUR",
            "currency=USD",
            "currency=EUR; x=1",
            "currency=USD",
            ""
        ]
        .map(|cookie| seen(&origin, named, cookie).0),
        ["miss", "miss", "hit", "hit", "miss"]
    );
}

#[test]
fn check_10_parameters_that_make_no_other_page() {
    let origin = Origin::start(
        "ls-10",
        "ignore_parameters = [\"utm_*\", \"fbclid\"]\n",
        application,
    );
    is(
        seen(&origin, "/a?c=public.max-age~60&utm_source=x", ""),
        "miss",
        "1 for nobody",
    );
    is(
        seen(&origin, "/a?c=public.max-age~60&fbclid=1&utm_medium=y", ""),
        "hit",
        "1 for nobody",
    );
    is(
        seen(&origin, "/a?c=public.max-age~60", ""),
        "hit",
        "1 for nobody",
    );
    assert_eq!(
        origin.asked("/a?c=public.max-age~60&utm_source=x").len(),
        1,
        "the application gets them"
    );
}

#[test]
fn check_11_purges_by_request() {
    let origin = start("ls-11");
    let page = "/a?c=public.max-age~60&t=A";
    let purge = |method: &str, target: &str, fields: &[(&str, &str)]| {
        origin.client().request(method, target, fields).unwrap()
    };
    for cookie in ["", "_lscache_vary=a"] {
        seen(&origin, page, cookie);
    }
    assert_eq!(purge("PURGE", page, &[]).status, 200);
    for cookie in ["", "_lscache_vary=a"] {
        assert_eq!(
            seen(&origin, page, cookie).0,
            "miss",
            "all variants are gone"
        );
    }
    assert_eq!(purge("REFRESH", page, &[]).status, 200);
    assert_eq!(
        seen(&origin, page, "").0,
        "hit",
        "it is stale, and made anew meanwhile"
    );
    // As Magento purges Varnish.
    assert_eq!(
        purge(
            "PURGE",
            "/",
            &[("X-Magento-Tags-Pattern", "((^|,)A(,|$))|((^|,)Z(,|$))")]
        )
        .status,
        200
    );
    assert_eq!(seen(&origin, page, "").0, "miss");
    assert_eq!(purge("PURGE", "/", &[("Surrogate-Key", "Q A")]).status, 200);
    assert_eq!(seen(&origin, page, "").0, "miss");
    assert!(
        origin.asked("/").is_empty(),
        "none of them goes to the application"
    );
}

/// This machine may where nothing is said, and a site's own list adds to the server's.
#[test]
fn who_may_purge_by_request() {
    for (server, site, status) in [
        ("", "", 200),
        ("", "purge_from = [\"192.0.2.1\"]\n", 200),
        ("[cache]\npurge_from = []\n%%\n", "", 405),
        ("[cache]\npurge_from = [\"192.0.2.1\"]\n%%\n", "", 405),
        (
            "[cache]\npurge_from = []\n%%\n",
            "purge_from = [\"127.0.0.1\"]\n",
            200,
        ),
    ] {
        let origin = Origin::with(
            "ls-who-purges",
            &format!("{server}[site.cache]\n{site}"),
            1,
            application,
        );
        let page = "/a?c=public.max-age~60";
        assert_eq!(seen(&origin, page, "").0, "miss");
        for method in ["PURGE", "REFRESH"] {
            assert_eq!(
                origin.client().request(method, page, &[]).unwrap().status,
                status,
                "{method} {server}{site}"
            );
        }
        assert_eq!(
            seen(&origin, page, "").0,
            if status == 200 { "miss" } else { "hit" },
            "{server}{site}"
        );
    }
}

#[test]
fn check_14_sites_are_apart() {
    let origin = start("ls-14");
    drop(origin);
    let two = "[site.cache]\n[[site]]\nnames = [\"two\"]\n[[site.route]]\npath = \"/*\"\nproxy = \"app\"\npreserve_host = true\n[site.cache]\n";
    let origin = Origin::with("ls-14b", two, 1, application);
    let page = "/a?c=public.max-age~60&t=A";
    let on = |host: &str, target: &str| {
        origin
            .get(target, &[("Host", host)])
            .field("x-litespeed-cache")
            .unwrap_or("-")
            .to_owned()
    };
    for host in ["one", "two"] {
        assert_eq!(
            (on(host, page), on(host, page)),
            ("miss".into(), "hit".into())
        );
    }
    for purge in ["*", "A"] {
        on("two", &format!("/purge?p={purge}"));
        assert_eq!(
            (on("one", page), on("two", page)),
            ("hit".into(), "miss".into()),
            "{purge}"
        );
    }
}

#[test]
fn a_post_takes_the_visitors_own_pages_away() {
    let origin = start("ls-flush");
    let own = "/p?c=private.max-age~60";
    for cookie in [USER, OTHER] {
        seen(&origin, own, cookie);
    }
    origin
        .client()
        .request(
            "POST",
            "/save",
            &[("Content-Length", "0"), ("Cookie", USER)],
        )
        .unwrap();
    assert_eq!(
        [USER, OTHER].map(|cookie| seen(&origin, own, cookie).0),
        ["miss", "hit,private"]
    );
    origin
        .client()
        .request(
            "POST",
            "/save?c=no-cache.no-autoflush",
            &[("Content-Length", "0"), ("Cookie", USER)],
        )
        .unwrap();
    assert_eq!(seen(&origin, own, USER).0, "hit,private");
}

/// Fifty at once, each of which may see only its own pages.
#[test]
fn nobody_gets_anothers_page() {
    let origin = Origin::with("ls-fifty", "[site.cache]\n", 2, |asked| {
        let cookie = asked.field("cookie").unwrap_or("nobody").to_owned();
        ok(
            &[(CONTROL, "private,max-age=60")],
            &format!("{cookie} {}", "x".repeat(2000)),
        )
    });
    thread::scope(|scope| {
        for user in 0..50 {
            let origin = &origin;
            scope.spawn(move || {
                let cookie = format!("wordpress_logged_in_x=user-{user:04}-0123456789");
                let mut client = origin.client();
                for round in 0..40 {
                    let target = format!("/page{}", round % 4);
                    let text = client
                        .request("GET", &target, &[("Cookie", &cookie)])
                        .unwrap()
                        .text();
                    assert_eq!(text, format!("{cookie} {}", "x".repeat(2000)));
                }
            });
        }
    });
    assert_eq!(origin.asked("/page0").len(), 50, "each is made once");
}
