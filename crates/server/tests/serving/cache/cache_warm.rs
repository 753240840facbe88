//! `saker cache warm` and what the cache fetches by itself, and the figures of each site.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::origin::{Asked, Origin, answer, ok};
use flate2::{Compression, write::GzEncoder};
use saker_testkit::holds_for;
use serde_json::Value;
use std::{
    io::Write,
    process::{Command, Output},
    sync::{Mutex, mpsc},
    time::Duration,
};

const PUBLIC: (&str, &str) = ("Cache-Control", "public, max-age=60");

fn saker(origin: &Origin, arguments: &[&str]) -> Output {
    let state = origin.saker.dir.join("state");
    Command::new(crate::operate::SAKER)
        .args(arguments)
        .arg("--state-dir")
        .arg(&state)
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!(
            "{error} in {text}{}",
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

fn figures(output: &Output) -> [u64; 4] {
    let answer = json(output);
    ["fetched", "already_there", "not_cacheable", "failed"]
        .map(|name| answer[name].as_u64().unwrap())
}

/// Warming status of the one site.
fn site(origin: &Origin) -> Value {
    json(&saker(origin, &["cache", "stat", "--json"]))["sites"][0].take()
}

fn url(origin: &Origin, path: &str) -> String {
    format!(
        "http://localhost:{}{path}",
        origin.saker.server.address().port()
    )
}

fn packed(text: &str) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

/// A shop with pages of all kinds, and sitemaps of them.
fn shop(asked: &Asked) -> Vec<u8> {
    let host = asked.field("host").unwrap_or_default();
    let urls = |paths: &[&str]| -> String {
        let each = paths
            .iter()
            .map(|path| format!("<url><loc>http://{host}{path}</loc></url>"));
        format!(
            "<urlset>{}<url><loc>http://elsewhere.example/</loc></url></urlset>",
            each.collect::<String>()
        )
    };
    match asked.target.as_str() {
        "/robots.txt" => ok(
            &[],
            &format!("User-agent: *\nSitemap: http://{host}/index.xml\n"),
        ),
        "/index.xml" => {
            let index = ["/1.xml", "/2.xml.gz", "/gone.xml"]
                .map(|path| format!("<sitemap><loc>http://{host}{path}</loc></sitemap>"));
            ok(
                &[],
                &format!("<sitemapindex>{}</sitemapindex>", index.concat()),
            )
        }
        "/1.xml" => ok(&[], &urls(&["/a", "/b?x=1&amp;y", "/private", "/missing"])),
        "/2.xml.gz" => {
            let packed = packed(&urls(&["/c", "/led", "/a"]));
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/gzip\r\nContent-Length: {}\r\n\r\n",
                packed.len()
            );
            [head.into_bytes(), packed].concat()
        }
        "/gone.xml" | "/missing" => answer("404 Not Found", &[], "no"),
        "/private" => ok(&[("Cache-Control", "private")], "mine"),
        "/led" => answer("302 Found", &[("Location", "/a")], ""),
        _ => {
            let cookie = asked.field("cookie").unwrap_or("none").to_owned();
            ok(
                &[PUBLIC, ("Vary", "X-Kind")],
                &format!("{} {cookie} {}", asked.target, asked.count),
            )
        }
    }
}

#[test]
fn a_sitemap_is_warmed() {
    let origin = Origin::with("warm-sitemap", "[site.cache]\nenabled = true\n", 2, shop);
    let robots = url(&origin, "/robots.txt");
    let first = saker(&origin, &["cache", "warm", "--sitemap", &robots, "--json"]);
    // Kept: /a, /b, /c. Not: /private, /led. Failed: /missing and the sitemap that is not there.
    assert_eq!(
        figures(&first),
        [3, 0, 2, 2],
        "{}",
        String::from_utf8_lossy(&first.stdout)
    );
    assert_eq!(first.status.code(), Some(2), "some have failed");
    let reasons = &json(&first)["reasons"];
    assert_eq!(
        (
            &reasons["private"],
            &reasons["redirect"],
            &reasons["404 Not Found"]
        ),
        (&1.into(), &1.into(), &2.into())
    );
    assert_eq!(
        origin.get("/b?x=1&y", &[("Host", "other")]).text(),
        "/b?x=1&y none 2",
        "another host than was asked for"
    );
    let host = format!("localhost:{}", origin.saker.server.address().port());
    let hit = origin.get("/b?x=1&y", &[("Host", &host)]);
    assert_eq!(
        (hit.text(), hit.field("age").is_some()),
        ("/b?x=1&y none 1".into(), true)
    );
    assert_eq!(origin.asked("/a").len(), 1, "named twice, made once");
    assert!(
        origin.asked("/a")[0]
            .field("user-agent")
            .unwrap()
            .starts_with("Saker-cache/")
    );
    let again = saker(&origin, &["cache", "warm", "--sitemap", &robots]);
    let said = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(
        said.contains("0 fetched, 3 already there, 2 not cacheable, 2 failed\n")
            && said.contains("1 private\n"),
        "{said}"
    );
    let lines = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(
        lines.contains("not-cacheable  ")
            && lines.contains("/private  ")
            && lines.contains("failed  "),
        "{lines}"
    );
    // Pages fetched by the warmer do not count as requests.
    let site = site(&origin);
    assert_eq!(
        (&site["hits"], &site["misses"], &site["passes"]),
        (&1.into(), &1.into(), &0.into()),
        "{site}"
    );
}

#[test]
fn lists_and_variations() {
    let origin = Origin::start("warm-list", "vary_cookies = [\"currency\"]\n", shop);
    origin
        .saker
        .dir
        .write(
            "list",
            format!("# all\n{}\n{}\n", url(&origin, "/x"), url(&origin, "/y")),
        )
        .unwrap();
    let list = origin.saker.dir.join("list").to_string_lossy().into_owned();
    let command = [
        "cache",
        "warm",
        "--list",
        &list,
        "--vary",
        "currency=,EUR",
        "-H",
        "X-Kind: a",
        "--rate",
        "50",
        "--concurrency",
        "1",
        "--json",
    ];
    let output = saker(&origin, &command);
    assert_eq!(
        (figures(&output), output.status.code()),
        ([4, 0, 0, 0], Some(0))
    );
    let host = format!("localhost:{}", origin.saker.server.address().port());
    for (cookie, expected) in [
        (None, "/x none 1"),
        (Some("currency=EUR"), "/x currency=EUR 2"),
        (Some("currency=EUR; a=b"), "/x currency=EUR 2"),
    ] {
        let cookie = cookie.map(|cookie| ("Cookie", cookie));
        let fields: Vec<_> = [("Host", host.as_str()), ("X-Kind", "a")]
            .into_iter()
            .chain(cookie)
            .collect();
        assert_eq!(origin.get("/x", &fields).text(), expected);
    }
    // As many as do not fit into one request.
    let many: String = (0..4_000)
        .map(|number| format!("{}\n", url(&origin, &format!("/page/{number}"))))
        .collect();
    origin.saker.dir.write("list", many).unwrap();
    let output = saker(
        &origin,
        &[
            "cache",
            "warm",
            "--list",
            &list,
            "--json",
            "--concurrency",
            "16",
        ],
    );
    assert_eq!(figures(&output), [4_000, 0, 0, 0]);
}

#[test]
fn what_can_not_be_warmed() {
    let origin = Origin::start("warm-mistakes", "", shop);
    for (arguments, said) in [
        (&["cache", "warm"][..], "warm what?"),
        (&["cache", "warm", "/x"], "is no URL"),
        (
            &["cache", "warm", "http://h/", "-H", "A B: c"],
            "invalid request header",
        ),
        (
            &["cache", "warm", "--list", "/nonexistent/list"],
            "/nonexistent/list",
        ),
        (
            &["cache", "warm", "--vary", "a", "http://h/"],
            "a cookie has a name and values",
        ),
    ] {
        let output = saker(&origin, arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(2) && text.contains(said),
            "{arguments:?}: {text}"
        );
    }
    let output = saker(&origin, &["cache", "warm", "http://localhost:1/", "--json"]);
    assert_eq!(figures(&output), [0, 0, 0, 1], "no listener has that port");
}

#[test]
fn a_site_has_figures_of_its_own() {
    let origin = Origin::with_clock(
        "cache-figures",
        "exclude = [\"/cart\"]\ngrace = \"60s\"\n",
        1,
        |asked| match asked.target.as_str() {
            "/private" => ok(&[("Cache-Control", "private")], "mine"),
            "/short" => ok(&[("Cache-Control", "public, max-age=1")], "short"),
            "/large" => ok(&[PUBLIC], &"x".repeat(100_000)),
            _ => ok(&[PUBLIC], "hello"),
        },
    );
    for target in [
        "/a", "/a", "/a", "/private", "/private", "/cart", "/large", "/large", "/short",
    ] {
        origin.get(target, &[]);
    }
    assert_eq!(origin.client().head("/a").unwrap().status, 200);
    assert_eq!(
        origin
            .client()
            .request("POST", "/a", &[("Content-Length", "0")])
            .unwrap()
            .status,
        200
    );
    origin.advance(3);
    origin.get("/short", &[]);
    origin.wait_for("/short", 2);
    let site = site(&origin);
    let expected = [
        ("hits", 4),
        ("stale", 1),
        ("misses", 3),
        ("passes", 4),
        ("refreshes", 1),
        ("coalesced", 0),
        ("bytes_from_memory", 15),
        ("bytes_from_files", 100_000),
    ];
    expected
        .iter()
        .for_each(|(name, value)| assert_eq!(site[name], *value, "{name} of {site}"));
    let reasons = &site["pass_reasons"];
    assert_eq!(
        (
            &reasons["private"],
            &reasons["excluded"],
            &reasons["method"]
        ),
        (&2.into(), &1.into(), &1.into()),
        "{reasons}"
    );
    let page = String::from_utf8_lossy(&saker(&origin, &["cache", "stat"]).stdout).into_owned();
    assert!(
        page.contains("passed by: private 2, excluded 1, method 1\n"),
        "{page}"
    );
    let status = json(&saker(&origin, &["status", "--json"]));
    assert_eq!(status["page_cache"][0]["hits"], 4);
    let page = String::from_utf8_lossy(&saker(&origin, &["status"]).stdout).into_owned();
    assert!(
        page.contains("page cache") && page.contains("1 stale)"),
        "{page}"
    );
}

#[test]
fn purged_pages_are_made_again_most_wanted_first() {
    let origin = Origin::start(
        "cache-refetch",
        "refetch = 2\nvary_cookies = [\"currency\"]\n",
        |asked| {
            ok(
                &[PUBLIC, ("Vary", "Accept-Language")],
                &format!("{} {}", asked.target, asked.count),
            )
        },
    );
    let dear = [
        ("Accept-Language", "de"),
        ("Cookie", "currency=EUR; name=mine"),
        ("Authorization", "none"),
        ("X-Forwarded-Proto", "https"),
    ];
    let mut client = origin.client();
    let mut ask = |target: &str, fields: &[(&str, &str)], times: usize| {
        (0..times)
            .for_each(|_| assert_eq!(client.request("GET", target, fields).unwrap().status, 200));
    };
    let dear = [dear[0], dear[1], dear[3]];
    ask("/often", &dear, 6);
    ask("/twice?x=1", &[], 4);
    ask("/once", &[], 1);
    assert!(saker(&origin, &["purge", "--all"]).status.success());
    origin.wait_for("/often", 2);
    origin.wait_for("/twice?x=1", 2);
    let again = &origin.asked("/often")[1];
    assert_eq!(
        (again.field("cookie"), again.field("accept-language")),
        (Some("currency=EUR"), Some("de")),
        "{again:?}"
    );
    holds_for("two are made again", Duration::from_millis(1_500), || {
        origin.asked("/once").len() == 1
    });
    ask("/often", &dear, 1);
    ask("/twice?x=1", &[], 1);
    assert_eq!(
        (
            origin.asked("/often").len(),
            origin.asked("/twice?x=1").len()
        ),
        (2, 2),
        "they are there"
    );
}

/// No client waits while a popular page is refreshed ahead of its end: the origin holds each new
/// version back until clients have been answered with the one before.
#[test]
fn pages_in_demand_do_not_end() {
    // Real time passes, too: on a busy machine, twenty answers may take seconds.
    const LIFE_S: u64 = 400;
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let origin = Origin::with_clock(
        "cache-ahead",
        "refresh_ahead = 50\ngrace = \"0s\"\n",
        1,
        move |asked| {
            if asked.count > 1 {
                let _ = released
                    .lock()
                    .unwrap()
                    .recv_timeout(Duration::from_secs(60));
            }
            ok(
                &[("Cache-Control", &format!("public, max-age={LIFE_S}"))],
                &asked.count.to_string(),
            )
        },
    );
    origin.get("/cold", &[]);
    for version in 1..=2 {
        let answers = |times| {
            (0..times).for_each(|_| assert_eq!(origin.get("/hot", &[]).text(), version.to_string()))
        };
        answers(20);
        assert_eq!(origin.asked("/hot").len(), version, "it is young");
        origin.advance(LIFE_S * 3 / 4);
        answers(20);
        origin.wait_for("/hot", version + 1);
        answers(20);
        release.send(()).unwrap();
        origin.until_text("/hot", &(version + 1).to_string());
        assert_eq!(origin.asked("/hot").len(), version + 1);
    }
    assert_eq!(origin.asked("/cold").len(), 1);
}

/// Each worker has its own memory, and what one of them has made is there for all.
#[test]
fn workers_do_not_make_a_page_one_after_the_other() {
    let origin = Origin::with_clock("cache-workers", "grace = \"0s\"\n", 4, |asked| {
        ok(
            &[(
                "Cache-Control",
                if asked.count > 1 {
                    "public, max-age=60"
                } else {
                    "public, max-age=2"
                },
            )],
            &asked.count.to_string(),
        )
    });
    let everybody = || (0..40).for_each(|_| drop(origin.get("/", &[])));
    everybody();
    assert_eq!(origin.asked("/").len(), 1);
    origin.advance(4);
    everybody();
    assert_eq!(origin.asked("/").len(), 2);
}

#[test]
fn devices_and_results() {
    let origin = Origin::with_clock(
        "cache-device",
        "vary_on_device = true\nresult_header = \"X-Cache\"\ngrace = \"0s\"\n",
        1,
        |asked| {
            let device = asked.field("x-ua-device").unwrap_or("none").to_owned();
            match asked.target.as_str() {
                "/private" => ok(&[("Cache-Control", "private")], &device),
                "/etag" if asked.field("if-none-match").is_some() => answer(
                    "304 Not Modified",
                    &[("Cache-Control", "public, max-age=60")],
                    "",
                ),
                "/etag" => ok(
                    &[("Cache-Control", "public, max-age=1"), ("ETag", "\"a\"")],
                    &device,
                ),
                _ => ok(&[PUBLIC], &format!("{device} {}", asked.count)),
            }
        },
    );
    let phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Mobile/15E148";
    let tablet = "Mozilla/5.0 (iPad; CPU OS 16_0 like Mac OS X) Mobile/15E148";
    for (round, result) in [(0, "MISS"), (1, "HIT"), (2, "HIT")] {
        for (agent, expected) in [
            (phone, "mobile 1"),
            (tablet, "tablet 2"),
            ("curl/8", "desktop 3"),
        ] {
            // What a client says of itself there counts for nothing.
            let response = origin.get("/", &[("User-Agent", agent), ("X-UA-Device", "desktop")]);
            assert_eq!(
                (response.text().as_str(), response.field("x-cache")),
                (expected, Some(result)),
                "{round}"
            );
        }
    }
    assert_eq!(origin.get("/", &[]).text(), "desktop 3");
    assert_eq!(origin.get("/private", &[]).field("x-cache"), Some("BYPASS"));
    assert_eq!(origin.get("/etag", &[]).field("x-cache"), Some("MISS"));
    origin.advance(3);
    assert_eq!(
        origin.get("/etag", &[]).field("x-cache"),
        Some("REVALIDATED")
    );
    let response = origin.get("/etag", &[("If-None-Match", "\"a\"")]);
    assert_eq!(
        (response.status, response.field("x-cache")),
        (304, Some("HIT"))
    );
    assert!(
        saker(&origin, &["purge", &url(&origin, "/")])
            .status
            .success()
    );
    assert_eq!(
        origin.get("/", &[("User-Agent", phone)]).text(),
        "mobile 4",
        "a purge is of all devices"
    );
}

/// The port is not known before the server runs, so it is on any of the host's: a URL without one
/// takes a listener of its scheme.
#[test]
fn the_configuration_warms_it_up() {
    let site = "[cache]\nwarm = [\"http://localhost/index.xml\"]\nwarm_every = \"2s\"\n%%\n[site.cache]\nenabled = true\n";
    let origin = Origin::with("warm-configured", site, 2, |asked| {
        match asked.target.as_str() {
            "/index.xml" => ok(
                &[],
                "<urlset><url><loc>http://localhost/a</loc></url></urlset>",
            ),
            _ => ok(&[PUBLIC], "page"),
        }
    });
    origin.wait_for("/a", 1);
    origin.wait_for("/index.xml", 2);
    assert_eq!(
        (
            origin.get("/a", &[]).field("age").is_some(),
            origin.asked("/a").len()
        ),
        (true, 1)
    );
}
