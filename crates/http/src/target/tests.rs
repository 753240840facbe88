use super::*;
use TargetError::{BadAuthority, BadByte, BadScheme, Empty, WrongForm};
use proptest::prelude::*;

fn origin<'a>(path: &'a [u8], query: Option<&'a [u8]>) -> Result<Target<'a>, TargetError> {
    Ok(Target::Origin { path, query })
}

fn absolute<'a>(
    authority: &'a [u8],
    path: &'a [u8],
    query: Option<&'a [u8]>,
) -> Result<Target<'a>, TargetError> {
    Ok(Target::Absolute {
        scheme: b"http",
        authority,
        path,
        query,
    })
}

fn check(method: Method, target: &[u8], want: Result<Target<'_>, TargetError>) {
    assert_eq!(
        split(method, target),
        want,
        "{method:?} {}",
        String::from_utf8_lossy(target)
    );
}

#[test]
fn origin_form() {
    for method in [
        Method::Get,
        Method::Post,
        Method::Options,
        Method::Extension,
    ] {
        check(method, b"/", origin(b"/", None));
        check(method, b"/a/b?c=d", origin(b"/a/b", Some(b"c=d")));
        check(method, b"/?", origin(b"/", Some(b"")));
        check(method, b"/a?b?c", origin(b"/a", Some(b"b?c")));
        check(method, b"//host/a", origin(b"//host/a", None));
        check(method, b"/http://x/", origin(b"/http://x/", None));
        check(method, b"/*", origin(b"/*", None));
    }
}

#[test]
fn bytes_that_pass_because_browsers_send_them() {
    check(
        Method::Get,
        b"/a?family=A|B^{C}[D]\"<>`\\'",
        origin(b"/a", Some(b"family=A|B^{C}[D]\"<>`\\'")),
    );
    check(
        Method::Get,
        b"/\xc3\xa4?\xff",
        origin(b"/\xc3\xa4", Some(b"\xff")),
    );
    check(Method::Get, b"/%zz", origin(b"/%zz", None));
}

#[test]
fn absolute_form() {
    for method in [Method::Get, Method::Options, Method::Extension] {
        check(
            method,
            b"http://example.com/a?b",
            absolute(b"example.com", b"/a", Some(b"b")),
        );
        check(
            method,
            b"http://example.com:81",
            absolute(b"example.com:81", b"/", None),
        );
        check(
            method,
            b"http://example.com?q",
            absolute(b"example.com", b"/", Some(b"q")),
        );
        check(
            method,
            b"http://example.com/?a://b",
            absolute(b"example.com", b"/", Some(b"a://b")),
        );
        check(method, b"http://[::1]:8/", absolute(b"[::1]:8", b"/", None));
    }
    let target = Target::Absolute {
        scheme: b"HTTPS",
        authority: b"a",
        path: b"/",
        query: None,
    };
    check(Method::Get, b"HTTPS://a/", Ok(target));
}

#[test]
fn authority_form_and_asterisk() {
    check(
        Method::Connect,
        b"example.com:443",
        Ok(Target::Authority(b"example.com:443")),
    );
    check(
        Method::Connect,
        b"[::1]:443",
        Ok(Target::Authority(b"[::1]:443")),
    );
    check(Method::Options, b"*", Ok(Target::Asterisk));
}

#[test]
fn refused() {
    let cases: [(Method, &[u8], TargetError); 29] = [
        (Method::Get, b"", Empty),
        (Method::Connect, b"", Empty),
        (Method::Get, b"/a b", BadByte),
        (Method::Get, b"/a\tb", BadByte),
        (Method::Get, b"/a\0", BadByte),
        (Method::Get, b"/a\r", BadByte),
        (Method::Get, b"/a\x7f", BadByte),
        (Method::Get, b"/a#b", BadByte),
        (Method::Get, b"/a?b#c", BadByte),
        (Method::Get, b"*", WrongForm),
        (Method::Extension, b"*", WrongForm),
        (Method::Options, b"*a", WrongForm),
        (Method::Get, b"a", WrongForm),
        (Method::Get, b"?a", WrongForm),
        (Method::Get, b"example.com:80", WrongForm),
        (Method::Get, b"http:/a", WrongForm),
        (Method::Get, b"ftp://example.com/", BadScheme),
        (Method::Get, b"://example.com/", BadScheme),
        (Method::Get, b"a/b://c", BadScheme),
        (Method::Get, b"http:///a", BadAuthority),
        (Method::Get, b"http://", BadAuthority),
        (Method::Get, b"http://u@example.com/", BadAuthority),
        (Method::Get, b"http://a:b:c/", BadAuthority),
        (Method::Get, b"http://a\\b/", BadAuthority),
        (Method::Connect, b"/", WrongForm),
        (Method::Connect, b"*", WrongForm),
        (Method::Connect, b"example.com", BadAuthority),
        (Method::Connect, b"http://example.com/", BadAuthority),
        (Method::Connect, b"example.com:", BadAuthority),
    ];
    for (method, target, want) in cases {
        check(method, target, Err(want));
    }
}

proptest! {
    #[test]
    fn paths_start_with_a_slash_and_parts_come_from_the_target(text in "(http://a|/)?[a:/?*.]{0,12}") {
        match split(Method::Get, text.as_bytes()) {
            Ok(Target::Origin { path, query } | Target::Absolute { path, query, .. }) => {
                prop_assert!(path.starts_with(b"/") && !path.contains(&b'?'));
                let tail = [path, if query.is_some() { b"?" } else { b"" }, query.unwrap_or(b"")].concat();
                prop_assert!(text.as_bytes().ends_with(&tail) || path == b"/");
            }
            Ok(other) => prop_assert!(false, "{:?}", other),
            Err(_) => {}
        }
    }

    #[test]
    fn no_bytes_make_it_panic(text: Vec<u8>) {
        for method in [Method::Get, Method::Connect, Method::Options] {
            let _ = split(method, &text);
        }
    }
}
