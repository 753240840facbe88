//! Framing rules that `tests/conformance/http1` can't show on the wire; the other rules have their
//! cases there.

use saker_http::RequestHead;

use super::*;

fn head(version: Version, fields: &[(&str, &str)]) -> RequestHead {
    RequestHead::build("GET", "/", version, fields)
}

fn head11(fields: &[(&str, &str)]) -> RequestHead {
    head(Version::Http11, fields)
}

#[test]
fn length_zero_is_told_from_no_length() {
    assert_eq!(request_framing(head11(&[]).view()), Ok(BodyFraming::None));
    assert_eq!(
        request_framing(head11(&[("Content-Length", "0")]).view()),
        Ok(BodyFraming::Length(0))
    );
}

#[test]
fn lengths_reach_to_the_last_number() {
    assert_eq!(content_length(b"18446744073709551615"), Ok(u64::MAX));
    assert_eq!(
        content_length(b"18446744073709551616"),
        Err(RejectReason::BadLength)
    );
    assert_eq!(
        content_length(b"18446744073709551619"),
        Err(RejectReason::BadLength)
    );
}

#[test]
fn expectations() {
    let of = |version, fields: &[(&str, &str)]| expectation(head(version, fields).view());
    assert_eq!(of(Version::Http11, &[]), Expectation::None);
    assert_eq!(of(Version::Http11, &[("Expect", "")]), Expectation::None);
    assert_eq!(
        of(Version::Http11, &[("Expect", "100-Continue")]),
        Expectation::Continue
    );
    assert_eq!(
        of(Version::Http11, &[("Expect", "100-continue, 100-continue")]),
        Expectation::Continue
    );
    assert_eq!(
        of(
            Version::Http11,
            &[("Expect", "100-continue"), ("Expect", "x")]
        ),
        Expectation::Unknown
    );
    assert_eq!(
        of(Version::Http11, &[("Expect", "200-ok")]),
        Expectation::Unknown
    );
    assert_eq!(
        of(Version::Http10, &[("Expect", "100-continue")]),
        Expectation::None
    );
}

#[test]
fn an_upgrade_must_be_meant() {
    let offer = ("Upgrade", "websocket");
    let listed = ("Connection", "keep-alive, Upgrade");
    assert_eq!(
        upgrade(head11(&[offer, listed]).view()),
        Some(&b"websocket"[..])
    );
    assert_eq!(upgrade(head11(&[offer]).view()), None);
    assert_eq!(upgrade(head11(&[listed]).view()), None);
    assert_eq!(upgrade(head11(&[("Upgrade", ""), listed]).view()), None);
    assert_eq!(
        upgrade(head(Version::Http10, &[offer, listed]).view()),
        None
    );
}

#[test]
fn other_protocol_versions_have_no_connection_options() {
    assert!(keep_alive(
        head(Version::Http2, &[("Connection", "close")]).view()
    ));
}
