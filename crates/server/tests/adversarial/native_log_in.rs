//! Ways around the access rules of a native site: files below the document root that lead to what
//! is protected, and credentials that the server reads otherwise than a program behind it.
//!
//! Called by: `cargo test -p saker --test adversarial native_log_in::`.
//! Caveat: the author of the `.htaccess` files may do in their own folders what they like; what the
//! operator's rules close stays closed, over every protocol.
//! Out of scope: spellings of paths (`paths`) and of field names (`field_names`).

use crate::harness::{Answer, PROTOCOLS, Request, ask, native};
use saker_testkit::{Saker, TempDir};
use std::{fs::Permissions, os::unix::fs::PermissionsExt};

/// Folders below the root whose rules are the operator's.
const CLOSED: [&str; 5] = ["gated", "denied", "elsewhere", "asked", "signed"];
const RULES: &str = r#"
htaccess = true
ssi = ["shtml"]
negotiation = true

[[site.route]]
path = "/gated/*"
[site.route.auth]
user_file = "users"

[[site.route]]
path = "/denied/*"
deny = true

[[site.route]]
path = "/elsewhere/*"
access = { allow = ["192.0.2.0/24"] }

[[site.route]]
path = "/asked/*"
authorize = "http://127.0.0.1:1"

[[site.route]]
path = "/signed/*"
[site.route.signed]
secret_file = "links.key"
"#;

/// Names of folders and what their `.htaccess` has; `{to}` is the closed folder, and the request is
/// for `x` in the folder unless another name stands behind a colon.
const WAYS: &[(&str, &str)] = &[
    ("missing:nothing", "ErrorDocument 404 /{to}/a.txt\n"),
    (
        "refused",
        "ErrorDocument 403 /{to}/a.txt\nRequire all denied\n",
    ),
    ("index-page:nothing", "ErrorDocument 404 /{to}/\n"),
    ("gone", "ErrorDocument 410 /{to}/a.txt\nRedirect gone /\n"),
    ("fallback:nothing", "FallbackResource /{to}/a.txt\n"),
    (
        "rewritten",
        "RewriteEngine on\nRewriteRule . /{to}/a.txt [L]\n",
    ),
    (
        "ended",
        "RewriteEngine on\nRewriteRule . /{to}/a.txt [END]\n",
    ),
    (
        "based",
        "RewriteEngine on\nRewriteBase /\nRewriteRule . {to}/a.txt [L]\n",
    ),
    ("index:", "DirectoryIndex /{to}/a.txt\n"),
    ("above:", "DirectoryIndex ../{to}/a.txt\n"),
    (
        "action",
        "Action way /{to}/a.txt virtual\nAddHandler way .txt\nSetHandler way\n",
    ),
    ("types:map.var", "AddHandler type-map var\n"),
    (
        "typed:page",
        "Options +MultiViews\nAddHandler type-map var\n",
    ),
    ("included:page.shtml", "Options +Includes\n"),
];

fn folder() -> TempDir {
    let dir = TempDir::new("native-log-in").unwrap();
    dir.write("users", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
        .unwrap();
    dir.write("links.key", "0123456789abcdef0123456789abcdef\n")
        .unwrap();
    dir.write("www/.htaccess", "DirectorySlash Off\nOptions +Indexes\n")
        .unwrap();
    for to in CLOSED {
        dir.write(&format!("www/{to}/a.txt"), "what is closed\n")
            .unwrap();
        dir.write(&format!("www/{to}/index.html"), "what is closed\n")
            .unwrap();
        for (way, rules) in WAYS {
            let way = format!("www/{to}-by-{}", way.split(':').next().unwrap());
            let own = rules.replace("{to}", to);
            dir.write(&format!("{way}/.htaccess"), own).unwrap();
            dir.write(&format!("{way}/x"), "open\n").unwrap();
            let map = format!("URI: /{to}/a.txt\nContent-Type: text/plain\n\n");
            dir.write(&format!("{way}/map.var"), map).unwrap();
            let map = format!("URI: ../{to}/a.txt\nContent-Type: text/plain\n\n");
            dir.write(&format!("{way}/page.var"), map).unwrap();
            let parts = format!(
                "<!--#include virtual=\"/{to}/a.txt\" --><!--#include virtual=\"../{to}/a.txt\" --><!--#include file=\"../{to}/a.txt\" -->"
            );
            dir.write(&format!("{way}/page.shtml"), parts).unwrap();
        }
    }
    dir
}

/// True if a client gets content, or names of files, that it has no right to.
fn shows(answer: &Answer) -> bool {
    let text = answer.text();
    text.contains("what is closed") || text.contains("a.txt")
}

#[test]
fn files_lead_to_nothing_that_saker_toml_closes() {
    let saker = native(folder(), "", RULES);
    let address = saker.server.address();
    let get = |protocol, target: &str| ask(address, protocol, &Request::get("localhost", target));
    for protocol in PROTOCOLS {
        let open = get(protocol, "/gated-by-missing/x");
        assert_eq!(
            (open.status, &*open.text()),
            (200, "open\n"),
            "{protocol:?}"
        );
        for to in CLOSED {
            for target in [format!("/{to}"), format!("/{to}/"), format!("/{to}/a.txt")] {
                let answer = get(protocol, &target);
                let is_closed = answer.status >= 400 && !shows(&answer);
                assert!(is_closed, "{protocol:?} {target}: {answer:?}");
            }
        }
    }
    // The rest of the way is the same for all protocols, so each has its share.
    for (number, (way, rules)) in WAYS.iter().enumerate() {
        let (name, asked) = way.split_once(':').unwrap_or((way, "x"));
        for (other, to) in CLOSED.iter().enumerate() {
            let protocol = PROTOCOLS[(number + other) % PROTOCOLS.len()];
            let target = format!("/{to}-by-{name}/{asked}");
            let answer = get(protocol, &target);
            assert!(
                !shows(&answer),
                "{protocol:?} {target} by {rules}: {answer:?}"
            );
        }
    }
}

/// A page is an error document for those who may ask for it themselves.
#[test]
fn error_documents_of_files_are_for_those_who_may_see_them() {
    let saker = native(folder(), "", RULES);
    let fields = [("Authorization", "Basic YW5uOnNlY3JldA==")];
    for protocol in PROTOCOLS {
        let request = Request::get("localhost", "/gated-by-missing/nothing").with_fields(&fields);
        let answer = ask(saker.server.address(), protocol, &request);
        assert_eq!(
            (answer.status, &*answer.text()),
            (404, "what is closed\n"),
            "{protocol:?}"
        );
    }
}

/// Tokens of two users, with the secret of the site.
const ANN: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4iLCJleHAiOjQxMDI0NDQ4MDB9.ArYAibI1dlEDn27QomKqp1zyziq6-wQFXqVftb2VgKM";
const BOB: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJib2IiLCJleHAiOjQxMDI0NDQ4MDB9.zJwCjzi5WfDHGpEy98DzZJckxNgJqFmNE6hHFGHllNs";
/// A site whose programs tell who the user is.
fn credentials_site() -> Saker {
    let dir = TempDir::new("native-credentials").unwrap();
    dir.write("users", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
        .unwrap();
    let program = dir
        .write(
            "www/told.cgi",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\ntold %s' \"$REMOTE_USER\"\n",
        )
        .unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    std::fs::copy(&program, dir.join("www/token.cgi")).unwrap();
    dir.write("secret", "0123456789abcdef0123456789abcdef\n")
        .unwrap();
    native(
        dir,
        "",
        "cgi = [\"*.cgi\"]\n[[site.route]]\npath = \"/told.cgi\"\n[site.route.auth]\nuser_file = \"users\"\n\
         [[site.route]]\npath = \"/token.cgi\"\n[site.route.auth.jwt]\nalgorithms = [\"HS256\"]\nsecret_file = \"secret\"\n\
         cookie = \"token\"\nquery = \"access_token\"\n",
    )
}

/// The server checks one of two credentials, and a program behind it may take the other, which
/// was not checked: so there must not be two.
#[test]
fn no_request_has_credentials_of_two_users() {
    let saker = credentials_site();
    let basic = ("Authorization", "Basic YW5uOnNlY3JldA==");
    let other = ("Authorization", "Basic cm9vdDp4");
    let bearer = |token: &str| format!("Bearer {token}");
    let (ann, bob) = (bearer(ANN), bearer(BOB));
    let (ann, bob) = (("Authorization", &*ann), ("Authorization", &*bob));
    let cookie = |text: &str| text.replace("ANN", ANN).replace("BOB", BOB);
    let query = |text: &str| format!("/token.cgi?{}", cookie(text));
    let check = |protocol, target: &str, fields: &[(&str, &str)], expected: u16| {
        let request = Request::get("localhost", target).with_fields(fields);
        let answer = ask(saker.server.address(), protocol, &request);
        assert_eq!(
            answer.status, expected,
            "{protocol:?} {target} {fields:?}: {answer:?}"
        );
        let is_told = answer.text() == "told ann";
        assert_eq!(
            is_told,
            expected == 200,
            "{protocol:?} {target} {fields:?}: {answer:?}"
        );
    };
    for protocol in PROTOCOLS {
        check(protocol, "/told.cgi", &[basic], 200);
        check(protocol, "/token.cgi", &[ann], 200);
        check(
            protocol,
            "/token.cgi",
            &[("Cookie", &cookie("token=ANN"))],
            200,
        );
        check(protocol, &query("access_token=ANN"), &[], 200);
        // The same token in two places is one token.
        check(protocol, &query("access_token=ANN"), &[ann], 200);
        for fields in [[basic, other], [other, basic], [basic, basic], [basic, ann]] {
            check(protocol, "/told.cgi", &fields, 400);
        }
        for fields in [[ann, bob], [bob, ann], [ann, other], [other, ann]] {
            check(protocol, "/token.cgi", &fields, 400);
        }
        let forged = format!("{}x", cookie("token=ANN"));
        check(
            protocol,
            "/token.cgi",
            &[ann, ("Cookie", &cookie("token=BOB"))],
            400,
        );
        check(protocol, "/token.cgi", &[ann, ("Cookie", &forged)], 400);
        for cookies in [
            "token=ANN; token=BOB",
            "token=BOB; a=b; token=ANN",
            "a=b, token=BOB; token=ANN",
            "token[=BOB; token=ANN",
            "token=ANN; %74oken=BOB",
        ] {
            check(protocol, "/token.cgi", &[("Cookie", &cookie(cookies))], 400);
        }
        for text in [
            "access_token=ANN&access_token=BOB",
            "access_token=BOB&access_token=ANN",
            "access_token=ANN&access%5Ftoken=BOB",
            "%61ccess_token=BOB&access_token=ANN",
            "a=b;access_token=BOB&access_token=ANN",
            // Names that PHP reads as this one.
            "access_token=ANN&access.token=BOB",
            "access_token=ANN&access%20token=BOB",
            "access_token=ANN&access+token=BOB",
            "access_token=ANN&+access_token=BOB",
            "access_token=ANN&access%5Btoken=BOB",
            "access_token=ANN&access_token%5Bx%5D=BOB",
            "access_token=ANN&access_token%00x=BOB",
        ] {
            check(protocol, &query(text), &[], 400);
        }
        check(protocol, &query("access_token=BOB"), &[ann], 400);
        let cookie_ann = cookie("token=ANN");
        let with = |value| [("Cookie", &*cookie_ann), ("Authorization", value)];
        for value in [
            BOB,
            "Token x",
            "Bearer=x",
            "Bearer\tx",
            "bearer\t x",
            "JWT x",
        ] {
            check(protocol, "/token.cgi", &with(value), 400);
        }
        check(protocol, "/token.cgi", &with("Basic YTpi"), 200);
    }
}
