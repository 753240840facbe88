//! Compression dictionaries (RFC 9842) over real connections: files and stored pages are the
//! dictionary for their next versions, for clients of the site that the server does not know.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::{
    operate::{configuration, folder, start_in},
    origin::{Origin, ok},
};
use saker_testkit::{Client, Response, require, wait_until};
use std::{
    io::Write as _,
    process::{Command, Stdio},
};

const OFFER: &str = "match=\"/*\"";

/// A script of 40 kB; versions differ in a few places.
fn script(version: u32) -> String {
    (0..900)
        .map(|number| {
            let at = if number % 100 == 0 { version } else { 0 };
            let noise = number * 2_654_435_761_u64 % 1_000_003;
            format!("function f{number}() {{ return {noise} + {at} }}\n")
        })
        .collect()
}

/// The value of `Available-Dictionary` for a dictionary.
fn available(content: &str) -> String {
    let output = |program: &str, arguments: &[&str], input: &[u8]| {
        let mut child = Command::new(require(program).unwrap())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap().stdout
    };
    let digest = output(
        "openssl",
        &["dgst", "-sha256", "-binary"],
        content.as_bytes(),
    );
    let text = output("openssl", &["base64"], &digest);
    format!(":{}:", String::from_utf8(text).unwrap().trim())
}

/// Decodes `dcz` as the program `zstd` does.
fn decoded(dictionary: &str, body: &[u8]) -> String {
    let dir = folder("dictionaries-decoded");
    dir.write("dictionary", dictionary).unwrap();
    dir.write("body.zst", body).unwrap();
    let output = Command::new(require("zstd").unwrap())
        .args(["-d", "-c", "-D"])
        .arg(dir.join("dictionary"))
        .arg(dir.join("body.zst"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn ask(client: &mut Client, target: &str, dictionary: &str, more: &[(&str, &str)]) -> Response {
    let fields = [
        ("Accept-Encoding", "gzip, br, zstd, dcz"),
        ("Available-Dictionary", dictionary),
        ("Sec-Fetch-Site", "same-origin"),
    ];
    let named = |name: &str| more.iter().any(|(other, _)| *other == name);
    let kept = fields.iter().filter(|(name, _)| !named(name));
    let fields: Vec<(&str, &str)> = kept.chain(more).copied().collect();
    client.request("GET", target, &fields).unwrap()
}

/// Asks until the dictionary is known, which is learned beside its response.
fn until_dcz(client: &mut Client, target: &str, dictionary: &str) -> Response {
    let mut response = ask(client, target, dictionary, &[]);
    wait_until("the dictionary is not used", || {
        response = ask(client, target, dictionary, &[]);
        response.field("content-encoding") == Some("dcz")
    });
    response
}

fn varies(response: &Response, name: &str) -> bool {
    response
        .field_values("vary")
        .flat_map(|value| value.split(','))
        .any(|value| value.trim().eq_ignore_ascii_case(name))
}

#[test]
fn files_are_dictionaries_for_their_next_versions() {
    let dir = folder("dictionaries");
    let (old, new) = (script(1), script(2));
    dir.write("www/app.1.js", &old).unwrap();
    dir.write("www/app.2.js", &new).unwrap();
    dir.write("www/plain.1.js", script(3)).unwrap();
    let site = format!(
        "compression = {{ dictionaries = true }}\n[[site.route]]\npath = \"/app*\"\nheaders = {{ Use-As-Dictionary = '{OFFER}' }}\n"
    );
    let saker = start_in(dir, &configuration("workers = 2\n", &site));
    let mut client = saker.connect().unwrap();
    let hash = available(&old);
    // Not known yet, and never without having been offered.
    assert_ne!(
        ask(&mut client, "/app.2.js", &hash, &[]).field("content-encoding"),
        Some("dcz")
    );
    assert_eq!(client.get("/app.1.js").unwrap().text(), old);
    let whole = ask(
        &mut client,
        "/app.2.js",
        &hash,
        &[("Accept-Encoding", "br")],
    );
    let coded = until_dcz(&mut client, "/app.2.js", &hash);
    assert_eq!(decoded(&old, &coded.body), new);
    assert!(coded.body.len() * 4 < whole.body.len());
    assert!(varies(&coded, "accept-encoding") && varies(&coded, "available-dictionary"));
    assert_eq!(
        coded.field("content-length").map(str::to_owned),
        Some(coded.body.len().to_string())
    );
    // The route that is cached for others is theirs.
    for _ in 0..2 {
        assert_eq!(client.get("/app.2.js").unwrap().text(), new);
        let again = ask(&mut client, "/app.2.js", &hash, &[]);
        assert_eq!(again.field("content-encoding"), Some("dcz"));
    }
    for (name, value) in [
        ("Accept-Encoding", "gzip, br"),
        ("Accept-Encoding", "dcz;q=0"),
        ("Authorization", "Basic YTpi"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
        ("Range", "bytes=0-9"),
        ("Available-Dictionary", "nonsense"),
        ("Available-Dictionary", &available("another")),
    ] {
        let response = ask(&mut client, "/app.2.js", &hash, &[(name, value)]);
        assert_ne!(
            response.field("content-encoding"),
            Some("dcz"),
            "{name}: {value}"
        );
    }
    // A file that offers nothing is none.
    let plain = script(3);
    client.get("/plain.1.js").unwrap();
    let response = ask(&mut client, "/app.2.js", &available(&plain), &[]);
    assert_ne!(response.field("content-encoding"), Some("dcz"));
    // Another host is another origin.
    let other = [("Host", "other.example")];
    let response = ask(&mut client, "/app.2.js", &hash, &other);
    assert_ne!(response.field("content-encoding"), Some("dcz"));
}

#[test]
fn only_shared_pages_are() {
    let site = "[site.compression]\ndictionaries = true\n[site.cache]\nenabled = true\n";
    let origin = Origin::with("dictionaries-pages", site, 1, |asked| {
        let control = match asked.target.as_str() {
            "/private" => "private, max-age=600",
            "/uncached" => "no-store",
            _ => "max-age=600",
        };
        let version = if asked.target == "/1" { 1 } else { 2 };
        ok(
            &[
                ("Cache-Control", control),
                ("Content-Type", "text/html"),
                ("Use-As-Dictionary", OFFER),
            ],
            &script(version),
        )
    });
    let mut client = origin.client();
    let (old, new) = (script(1), script(2));
    for target in [
        "/1",
        "/1",
        "/2",
        "/private",
        "/private",
        "/uncached",
        "/uncached",
    ] {
        client.get(target).unwrap();
    }
    let coded = until_dcz(&mut client, "/2", &available(&old));
    assert_eq!(decoded(&old, &coded.body), new);
    for target in ["/private", "/uncached"] {
        let response = ask(&mut client, target, &available(&old), &[]);
        assert_ne!(response.field("content-encoding"), Some("dcz"), "{target}");
    }
    assert_eq!(origin.asked("/2").len(), 1);
    // A client with a session gets no shared page.
    let session = [("Cookie", "PHPSESSID=0123456789abcdef")];
    let response = ask(&mut client, "/2", &available(&old), &session);
    assert_ne!(response.field("content-encoding"), Some("dcz"));
}

/// A stranger that guesses the content of a file can't find out that another client has it.
#[test]
fn files_for_some_clients_are_none() {
    let rules = [
        (
            "clients",
            "[[site.route]]\npath = \"/app*\"\nmatch = { not = { client = \"127.0.0.1\" } }\ndeny = true\n",
        ),
        (
            "addresses",
            "[[site.route]]\npath = \"/app*\"\naccess = { deny = [\"127.0.0.2\"] }\n",
        ),
        (
            "cookies",
            "[[site.route]]\npath = \"/app*\"\nmatch = { not = { cookie = { key = \"a\" } } }\ndeny = true\n",
        ),
        (
            "fields",
            "[[site.route]]\npath = \"/app*\"\nmatch = { not = { header = { X-Key = \"a\" } } }\ndeny = true\n",
        ),
        (
            "queries",
            "[[site.route]]\npath = \"/app*\"\nmatch = { not = { query = { key = \"a\" } } }\ndeny = true\n",
        ),
    ];
    for (name, rule) in rules {
        let dir = folder(&format!("dictionaries-{name}"));
        let (secret, public) = (script(1), script(2));
        dir.write("www/app.js", &secret).unwrap();
        dir.write("www/open.js", &public).unwrap();
        let site = format!(
            "compression = {{ dictionaries = true }}\nheaders = {{ Use-As-Dictionary = '{OFFER}' }}\n{rule}"
        );
        let saker = start_in(dir, &configuration("workers = 1\n", &site));
        let mut insider = saker.connect().unwrap();
        let fields = [("Cookie", "key=a"), ("X-Key", "a")];
        for _ in 0..3 {
            let own = insider.request("GET", "/app.js?key=a", &fields).unwrap();
            assert_eq!((own.status, own.text()), (200, secret.clone()), "{name}");
        }
        let source = "127.0.0.2:0".parse().unwrap();
        let mut stranger = Client::connect_from(source, saker.server.address()).unwrap();
        assert_eq!(stranger.get("/app.js").unwrap().status, 403, "{name}");
        // Responses come after what they teach: if the file were learned, this would be dcz.
        for _ in 0..3 {
            let response = ask(&mut stranger, "/open.js", &available(&secret), &[]);
            assert_eq!(response.status, 200, "{name}");
            assert_ne!(response.field("content-encoding"), Some("dcz"), "{name}");
        }
        // Public files of the same site still are.
        stranger.get("/open.js").unwrap();
        until_dcz(&mut stranger, "/open.js", &available(&public));
    }
}

/// Requests that get no dictionary leave no route to those that do.
#[test]
fn other_requests_do_not_turn_it_off() {
    let dir = folder("dictionaries-other-requests");
    let (old, new) = (script(1), script(2));
    dir.write("www/app.1.js", &old).unwrap();
    dir.write("www/app.2.js", &new).unwrap();
    let site = format!(
        "compression = {{ dictionaries = true }}\n[[site.route]]\npath = \"/app.1*\"\nheaders = {{ Use-As-Dictionary = '{OFFER}' }}\n"
    );
    let saker = start_in(dir, &configuration("workers = 1\n", &site));
    let mut client = saker.connect().unwrap();
    let others = [
        ("Sec-Fetch-Site", "cross-site"),
        ("Range", "bytes=0-9"),
        ("If-None-Match", "*"),
        ("Authorization", "Basic YTpi"),
    ];
    for field in others {
        for target in ["/app.1.js", "/app.2.js"] {
            for _ in 0..2 {
                client.request("GET", target, &[field]).unwrap();
                ask(&mut client, target, &available(&old), &[field]);
            }
        }
    }
    assert_eq!(client.get("/app.1.js").unwrap().text(), old);
    let coded = until_dcz(&mut client, "/app.2.js", &available(&old));
    assert_eq!(decoded(&old, &coded.body), new);
}
