//! Invalidation by unsafe requests (RFC 9111 section 4.4).

use super::fields;
use saker_cache_rules::rules::invalidation::{Origin, invalidated};
use saker_http::{Method, Status};

const ORIGIN: Origin<'_> = Origin {
    scheme: "http",
    authority: b"Example.com",
};

fn run(method: &str, target: &str, status: u16, answer: &str) -> Vec<String> {
    let found = invalidated(
        Method::from_token(method.as_bytes()),
        ORIGIN,
        target.as_bytes(),
        Status(status),
        &fields(answer),
    );
    found
        .into_iter()
        .map(|target| String::from_utf8(target).expect("text"))
        .collect()
}

#[test]
fn methods_and_statuses() {
    let rows = [
        ("POST", 200, true),
        ("POST", 201, true),
        ("POST", 204, true),
        ("POST", 302, true),
        ("POST", 303, true),
        ("POST", 400, false),
        ("POST", 404, false),
        ("POST", 500, false),
        ("POST", 503, false),
        ("PUT", 200, true),
        ("DELETE", 204, true),
        ("PATCH", 200, true),
        ("FROB", 200, true),
        ("FROB", 500, false),
        ("post", 200, true),
        ("GET", 200, false),
        ("HEAD", 200, false),
        ("OPTIONS", 200, false),
        ("TRACE", 200, false),
    ];
    for (method, status, want) in rows {
        let found = run(method, "/a?b=1", status, "Location: /c");
        assert_eq!(
            found,
            if want { vec!["/a?b=1", "/c"] } else { vec![] },
            "{method} {status}"
        );
    }
}

#[test]
fn references() {
    let rows: [(&str, &[&str]); 27] = [
        ("", &[]),
        ("Location: /x", &["/x"]),
        ("Content-Location: /x", &["/x"]),
        ("Location: /x | Content-Location: /y", &["/x", "/y"]),
        ("Location: /x | Content-Location: /x", &["/x"]),
        ("Location: /a/b?c", &[]),
        ("Location: http://example.com/x?y", &["/x?y"]),
        ("Location: HTTP://EXAMPLE.com:80/x", &["/x"]),
        ("Location: http://example.com", &["/"]),
        ("Location: http://example.com?q", &["/?q"]),
        ("Location: //example.com/x", &["/x"]),
        ("Location: https://example.com/x", &[]),
        ("Location: http://example.com:81/x", &[]),
        ("Location: http://example.org/x", &[]),
        ("Location: http://sub.example.com/x", &[]),
        ("Location: //example.org/x", &[]),
        ("Location: http://example.com@example.org/x", &[]),
        ("Location: http:/x", &[]),
        ("Location: mailto:a@example.com", &[]),
        ("Location: x", &["/a/x"]),
        ("Location: ../x", &["/x"]),
        ("Location: ../../../x/./y/..", &["/x/"]),
        ("Location: ?q", &["/a/b?q"]),
        ("Location: ./", &["/a/"]),
        ("Location: /x#part", &["/x"]),
        ("Location: x:y", &[]),
        ("Location: ./x:y", &["/a/x:y"]),
    ];
    for (answer, more) in rows {
        let want: Vec<&str> = ["/a/b?c"].iter().chain(more).copied().collect();
        assert_eq!(run("POST", "/a/b?c", 200, answer), want, "{answer}");
    }
}

#[test]
fn ports_of_the_origin() {
    let secure = Origin {
        scheme: "https",
        authority: b"example.com:443",
    };
    let found =
        |answer: &str| invalidated(Method::Post, secure, b"/", Status::OK, &fields(answer)).len();
    assert_eq!(found("Location: https://example.com/x"), 2);
    assert_eq!(found("Location: //example.com/x"), 2);
    assert_eq!(found("Location: https://example.com:80/x"), 1);
    assert_eq!(found("Location: http://example.com:443/x"), 1);
}
