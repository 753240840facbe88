use super::*;
use crate::Version;
use proptest::prelude::*;

fn head(method: &str, target: &str, hosts: &[&str]) -> RequestHead {
    let fields: Vec<(&str, &str)> = [("A", "1")]
        .into_iter()
        .chain(hosts.iter().map(|host| ("hOST", *host)))
        .chain([("Z", "2")])
        .collect();
    RequestHead::build(method, target, Version::Http11, &fields)
}

/// Host and target of the settled head.
fn of(method: &str, target: &str, hosts: &[&str]) -> Result<(Option<String>, String), HostError> {
    let head = head(method, target, hosts).view().to_request()?;
    let view = head.view();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    assert_eq!(
        view.start_line(),
        format!("{method} {target} HTTP/1.1").as_bytes(),
        "the line for logs is the client's"
    );
    assert_eq!(view.target_as_sent(), target.as_bytes());
    assert_eq!(
        view.all("host").count(),
        view.known_count(KnownField::Host).into()
    );
    assert_eq!(
        (view.first("a"), view.first("z")),
        (Some(&b"1"[..]), Some(&b"2"[..]))
    );
    assert_eq!(view.first("host"), view.known(KnownField::Host));
    Ok((view.known(KnownField::Host).map(text), text(view.target())))
}

/// Method, target and Host fields; the settled Host and target.
type Row = (
    &'static str,
    &'static str,
    &'static [&'static str],
    Option<&'static str>,
    &'static str,
);

#[test]
fn one_host_whatever_its_spelling() {
    let rows: [Row; 22] = [
        ("GET", "/a?b", &["a.example"], Some("a.example"), "/a?b"),
        ("GET", "/", &["A.Example"], Some("a.example"), "/"),
        ("GET", "/", &["a.example."], Some("a.example"), "/"),
        (
            "GET",
            "/",
            &["A.EXAMPLE.:08080"],
            Some("a.example:8080"),
            "/",
        ),
        ("GET", "/", &["a.example:"], Some("a.example"), "/"),
        ("GET", "/", &["a.example:80"], Some("a.example:80"), "/"),
        (
            "GET",
            "/",
            &["[2001:DB8:0:0::1]:80"],
            Some("[2001:db8::1]:80"),
            "/",
        ),
        ("GET", "/", &["127.0.0.1"], Some("127.0.0.1"), "/"),
        ("GET", "/", &[""], Some(""), "/"),
        ("GET", "/", &[], None, "/"),
        (
            "GET",
            "http://a.example/x?y",
            &["b.example"],
            Some("a.example"),
            "/x?y",
        ),
        (
            "GET",
            "http://a.example/x",
            &["a.example"],
            Some("a.example"),
            "/x",
        ),
        (
            "GET",
            "HTTP://A.Example./x",
            &["b.example"],
            Some("a.example"),
            "/x",
        ),
        (
            "GET",
            "http://a.example:81",
            &["b.example:82"],
            Some("a.example:81"),
            "/",
        ),
        (
            "GET",
            "http://a.example?q",
            &["b.example"],
            Some("a.example"),
            "/?q",
        ),
        (
            "GET",
            "http://a.example//x",
            &["b.example"],
            Some("a.example"),
            "//x",
        ),
        ("GET", "https://a.example/x", &[""], Some("a.example"), "/x"),
        ("GET", "http://a.example/x", &[], Some("a.example"), "/x"),
        ("OPTIONS", "*", &["A."], Some("a"), "*"),
        ("OPTIONS", "http://a", &["b"], Some("a"), "/"),
        (
            "CONNECT",
            "A.Example:443",
            &["b.example"],
            Some("a.example:443"),
            "A.Example:443",
        ),
        (
            "BREW",
            "http://a.example/x",
            &["b.example"],
            Some("a.example"),
            "/x",
        ),
    ];
    for (method, target, hosts, host, settled) in rows {
        assert_eq!(
            of(method, target, hosts),
            Ok((host.map(str::to_owned), settled.to_owned())),
            "{method} {target} {hosts:?}"
        );
    }
}

#[test]
fn refused() {
    use HostError::{Malformed, Several, Target};
    use TargetError::{BadAuthority, BadScheme, Empty, WrongForm};
    let rows: [(&str, &str, &[&str], HostError); 17] = [
        ("GET", "/", &["a", "a"], Several),
        ("GET", "/", &["", "a"], Several),
        ("GET", "http://a/", &["a", "a"], Several),
        ("GET", "/", &["a b"], Malformed),
        ("GET", "/", &["user@a"], Malformed),
        ("GET", "/", &["127.01.0.1"], Malformed),
        ("GET", "/", &["0x7f.1"], Malformed),
        ("GET", "/", &["017700000001"], Malformed),
        ("GET", "http://a/", &["a,b"], Malformed),
        ("GET", "http://user@a/", &["a"], Target(BadAuthority)),
        ("GET", "http:///x", &["a"], Target(BadAuthority)),
        ("GET", "http://0x7f.1/x", &["a"], Target(BadAuthority)),
        ("GET", "ftp://a/x", &["a"], Target(BadScheme)),
        ("GET", "a/x", &["a"], Target(WrongForm)),
        ("GET", "*", &["a"], Target(WrongForm)),
        ("GET", "", &["a"], Target(Empty)),
        ("CONNECT", "a", &["a"], Target(BadAuthority)),
    ];
    for (method, target, hosts, error) in rows {
        assert_eq!(
            of(method, target, hosts),
            Err(error),
            "{method} {target} {hosts:?}"
        );
    }
}

#[test]
fn what_was_received_is_still_counted() {
    let mut head = head("GET", "http://a.example/x", &["b"]);
    let bytes = head.view().byte_count();
    head.settle_host().unwrap();
    assert_eq!(head.view().byte_count(), bytes);
    let again = head.with_fields(head.view().fields());
    assert_eq!(
        (again.view().target(), again.view().target_as_sent()),
        (&b"/x"[..], &b"http://a.example/x"[..])
    );
    assert_eq!(
        again.view().known(KnownField::Host),
        Some(&b"a.example"[..])
    );
}

proptest! {
    #[test]
    fn settling_twice_is_settling_once(target in "(http://[a-zA-Z0-9.:@]{0,8})?[/?][a-z/?]{0,4}", host in "[a-zA-Z0-9.]{0,8}(:[0-9]{0,3})?") {
        let Ok(once) = head("GET", &target, &[&host]).view().to_request() else { return Ok(()) };
        let twice = once.view().to_request().unwrap();
        let parts = |head: &RequestHead| (head.view().target().to_vec(), head.view().known(KnownField::Host).map(<[u8]>::to_vec));
        prop_assert_eq!(parts(&once), parts(&twice));
        prop_assert_eq!(once.view().fields().count(), 3);
        prop_assert_eq!(once.view().target().first(), Some(&b'/'));
        let host = once.view().known(KnownField::Host).unwrap();
        prop_assert!(host.is_empty() || parse_authority(host).is_some());
    }
}
