use super::*;
use saker_config::model::{Backend, Protocol, Tuning};

fn upstream(path: &str) -> Upstream {
    let address = BackendAddress::tcp("app.internal:3000", 80).unwrap();
    let member = Member {
        path: path.into(),
        ..Member::new(Backend::new(Protocol::Http1, address), Tuning::default())
    };
    Upstream::new("app", vec![member])
}

fn shown(bytes: Option<Vec<u8>>) -> String {
    bytes.map_or("-".into(), |bytes| String::from_utf8(bytes).unwrap())
}

/// Columns: public prefix, path of the server's URL, added prefix, URL, result.
#[test]
fn urls() {
    for (public, path, added, url, expected) in [
        // The path is passed on as it is: only the upstream's address disappears.
        (
            "",
            "",
            "",
            "http://app.internal:3000/login?x=/",
            "/login?x=/",
        ),
        ("", "", "", "HTTP://APP.internal:3000", "/"),
        ("", "", "", "http://app.internal:3000?a", "/?a"),
        ("", "", "", "/login", "-"),
        ("", "", "", "http://app.internal/login", "-"),
        ("", "", "", "http://other.example/login", "-"),
        ("", "", "", "//app.internal:3000/x", "-"),
        ("", "", "", "https://www.example.org/login", "-"),
        // `strip_prefix`.
        ("/api", "", "", "/login", "/api/login"),
        ("/api", "", "", "/", "/api/"),
        ("/api", "", "", "/api/login", "-"),
        ("/api", "", "", "/apis", "/api/apis"),
        (
            "/api",
            "",
            "",
            "https://www.example.org/login",
            "https://www.example.org/api/login",
        ),
        ("/api", "", "", "https://WWW.example.org/api/login", "-"),
        (
            "/api",
            "",
            "",
            "http://app.internal:3000/login#x",
            "/api/login#x",
        ),
        (
            "/api",
            "",
            "",
            "http://app.internal:3000/api/login",
            "/api/login",
        ),
        ("/api", "", "", "http://other.example/login", "-"),
        ("/api", "", "", "login", "-"),
        // A server with a path, and `add_prefix`.
        ("/b", "/base", "", "/base/x", "/b/x"),
        ("/b", "/base", "", "/base", "/b"),
        ("/b", "/base", "", "/baseball", "-"),
        ("/b", "/base", "", "/b/x", "-"),
        ("/b", "/base", "", "http://app.internal:3000/base/x", "/b/x"),
        ("/b", "/base", "", "http://app.internal:3000/elsewhere", "-"),
        ("", "/base", "", "/base/x", "/x"),
        ("", "/base", "", "/base", "/"),
        ("", "/base", "", "/base?x", "/?x"),
        // No other host comes of it.
        ("", "/base", "", "/base//evil.example", "/evil.example"),
        ("", "/base", "", "/base/\\evil.example", "/evil.example"),
        (
            "",
            "",
            "",
            "http://app.internal:3000//evil.example",
            "/evil.example",
        ),
        ("/b", "/base", "/v2", "/base/v2/x", "/b/x"),
        ("/b", "/base", "/v2", "/base/x", "-"),
    ] {
        let upstream = upstream(path);
        let prefixes = Prefixes {
            public,
            added,
            upstream: &upstream,
        };
        let found = prefixes.url(url.as_bytes(), Some(b"www.example.org"));
        assert_eq!(shown(found), expected, "{public} {path}{added} {url}");
    }
}

#[test]
fn refresh() {
    let upstream = upstream("");
    let prefixes = Prefixes {
        public: "/api",
        added: "",
        upstream: &upstream,
    };
    for (value, expected) in [
        ("5; url=/x", "5; url=/api/x"),
        ("0;URL='http://app.internal:3000/x'", "0;URL='/api/x'"),
        ("0; url=\"/x\"; y", "0; url=\"/api/x\"; y"),
        ("0; url=http://other.example/", "-"),
        ("5", "-"),
        ("0; url='/x", "-"),
    ] {
        assert_eq!(
            shown(prefixes.refresh(value.as_bytes(), None)),
            expected,
            "{value}"
        );
    }
}

#[test]
fn cookies() {
    let upstream = upstream("/base");
    let prefixes = Prefixes {
        public: "/b",
        added: "",
        upstream: &upstream,
    };
    for (cookie, expected) in [
        ("a=1; Path=/base; Secure", "a=1; Path=/b; Secure"),
        ("a=1; path=/base/", "a=1; Path=/b"),
        ("a=1;Path=/base/x;HttpOnly", "a=1; Path=/b/x;HttpOnly"),
        ("a=1; Path=/", "-"),
        ("a=1; Path=/b", "-"),
        ("path=/base; Secure", "-"),
        ("a=1; Domain=app.internal; Secure", "a=1; Secure"),
        ("a=1; Domain=.APP.internal", "a=1"),
        ("a=1; Domain=example.org", "-"),
        ("__Host-a=1; Path=/base", "-"),
        ("a", "-"),
        ("", "-"),
    ] {
        assert_eq!(
            shown(prefixes.cookie(cookie.as_bytes())),
            expected,
            "{cookie}"
        );
    }
    let stripped = Prefixes {
        public: "/api",
        added: "",
        upstream: &super::tests::upstream(""),
    };
    assert_eq!(shown(stripped.cookie(b"a=1; Path=/")), "a=1; Path=/api");
    assert_eq!(shown(stripped.cookie(b"a=1; Path=/x")), "a=1; Path=/api/x");
}
