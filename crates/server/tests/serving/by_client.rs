//! Decisions of `saker.toml` by clients, beside rates: countries and autonomous systems, and
//! concurrent requests with the same key.
//!
//! Called by: `cargo test -p saker --test serving by_client::`.
//! Caveat: clients are told apart by what a trusted proxy says, which is the test.
//! Out of scope: rates (`throttle`, scenarios), and mod_maxminddb (`apache_databases`).

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate::{self, wait_until};
use saker_testkit::{
    Client, Response, Saker,
    mmdb::{Data, database},
};

fn ask(saker: &Saker, target: &str, address: &str) -> Response {
    let mut client = saker.connect().unwrap();
    let fields = [("X-Forwarded-For", address)];
    client.request("GET", target, &fields).unwrap()
}

#[test]
fn countries_and_autonomous_systems() {
    const PLACE: Data<'_> = Data::Map(&[
        ("country", Data::Map(&[("iso_code", Data::Text("XA"))])),
        ("autonomous_system_number", Data::Number(64500)),
    ]);
    let dir = operate::folder("by-country");
    dir.write("place.mmdb", database([203, 0, 113, 0], 24, &PLACE))
        .unwrap();
    for page in ["not-xa", "xa", "not-as", "as"] {
        dir.write(&format!("www/{page}/a.txt"), page).unwrap();
    }
    let text = operate::configuration(
        "workers = 1\ntrusted_proxies = [\"127.0.0.1\"]",
        "route = [\n\
         { path = \"/where\", match = { country = \"XA\" }, respond = \"utopia\" },\n\
         { path = \"/where\", match = { country = [\"DE\", \"FR\"] }, respond = \"europe\" },\n\
         { path = \"/where\", respond = \"elsewhere\" },\n\
         { path = \"/not-xa/*\", access = { deny_countries = [\"XA\"] } },\n\
         { path = \"/xa/*\", access = { allow_countries = [\"XA\"] } },\n\
         { path = \"/not-as/*\", access = { deny_asns = [64500] } },\n\
         { path = \"/as/*\", access = { allow_asns = [64500], denied = \"429\" } } ]\n\
         access_log = { path = \"{dir}/places.log\", format = \"%U %{GEOIP_COUNTRY_CODE}e %{GEOIP_ASN}e\" }\n\
         access = { locate = true }",
    );
    let text = format!("{text}\n[abuse]\ngeoip = [\"{{dir}}/place.mmdb\"]\n");
    let saker = operate::start_in(dir, &text);
    // In turns: what is kept of one is never for another.
    for _ in 0..3 {
        for (address, place, statuses) in [
            ("203.0.113.7", "utopia", [403, 200, 403, 200]),
            ("198.51.100.7", "elsewhere", [200, 403, 200, 429]),
            ("::ffff:203.0.113.9", "utopia", [403, 200, 403, 200]),
        ] {
            assert_eq!(ask(&saker, "/where", address).text(), place, "{address}");
            let pages = ["/not-xa/a.txt", "/xa/a.txt", "/not-as/a.txt", "/as/a.txt"];
            for (page, status) in pages.into_iter().zip(statuses) {
                assert_eq!(
                    ask(&saker, page, address).status,
                    status,
                    "{page} {address}"
                );
            }
        }
    }
    ask(&saker, "/index.html", "203.0.113.7");
    ask(&saker, "/index.html", "198.51.100.7");
    let log = saker.dir.join("places.log");
    let lines = || operate::lines(&log);
    let is_located = |line: &&String| line.starts_with("/index.html");
    wait_until("two lines", || {
        lines().iter().filter(is_located).count() == 2
    });
    let located: Vec<String> = lines()
        .into_iter()
        .filter(|line| line.starts_with("/index.html"))
        .collect();
    assert_eq!(located, ["/index.html XA 64500", "/index.html - -"]);
}

#[test]
fn concurrent_requests_with_one_key() {
    let dir = operate::folder("by-key");
    dir.write("www/large.bin", vec![b'x'; 32 << 20]).unwrap();
    let text = operate::configuration(
        "workers = 1",
        "[site.throttle]\nconcurrent_by_key = { \"$arg_key\" = 1, \"$http_x_a$http_x_b\" = 2 }",
    );
    let saker = operate::start_in(dir, &text);
    let status = |target: &str, fields: &[(&str, &str)]| {
        let mut client = saker.connect().unwrap();
        let response = client.request("HEAD", target, fields).unwrap();
        (response.status, response.field("retry-after").is_some())
    };
    let (first, _) = operate::begin_download(&saker, "/large.bin?key=one", 1000);
    assert_eq!(status("/index.html?key=one", &[]), (429, true));
    assert_eq!(status("/index.html?key=%6fne", &[]), (429, true));
    assert_eq!(status("/index.html?key=two", &[]), (200, false));
    assert_eq!(status("/index.html?key=", &[]), (200, false));
    assert_eq!(status("/index.html", &[]), (200, false));
    drop(first);
    wait_until("the key is free", || {
        status("/index.html?key=one", &[]).0 == 200
    });
    // Two parts are one key.
    let held: Vec<Client> = (0..2)
        .map(|_| {
            let mut client = saker.connect().unwrap();
            client
                .send("GET /large.bin HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nX-B: 2\r\n\r\n")
                .unwrap();
            client.read_bytes(1000).unwrap();
            client
        })
        .collect();
    assert_eq!(status("/index.html", &[("X-A", "1"), ("X-B", "2")]).0, 429);
    assert_eq!(status("/index.html", &[("X-A", "12")]).0, 429);
    assert_eq!(status("/index.html", &[("X-A", "1")]).0, 200);
    drop(held);
    wait_until("the key is free", || {
        status("/index.html", &[("X-A", "12")]).0 == 200
    });
}
