use super::*;
use saker_http::{RequestHead, Version};

fn response(lines: &[&str]) -> ResponseControl {
    ResponseControl::parse(lines.iter().map(|line| line.as_bytes()))
}

#[test]
fn ages_and_what_is_none() {
    use Seconds::{Absent, Given, Invalid};
    let rows: [(&[&str], Seconds); 24] = [
        (&["max-age=60"], Given(60)),
        (&["Max-Age=60"], Given(60)),
        (&["max-age=\"60\""], Given(60)),
        (&["max-age=060"], Given(60)),
        (&["public , max-age=0"], Given(0)),
        (&["x=\"max-age=1\""], Absent),
        (&["x=\"a,max-age=1\", max-age=2"], Given(2)),
        (&["x=\"a\\\",max-age=1\", max-age=2"], Given(2)),
        (
            &["max-age=99999999999999999999999"],
            Given(DELTA_SECONDS_MAX),
        ),
        (&["max-age=2147483649"], Given(DELTA_SECONDS_MAX)),
        (&["max-age"], Invalid),
        (&["max-age="], Invalid),
        (&["max-age=-1"], Invalid),
        (&["max-age=+1"], Invalid),
        (&["max-age=1.5"], Invalid),
        (&["max-age=1a"], Invalid),
        (&["max-age='1'"], Invalid),
        (&["max-age =1"], Invalid),
        (&["max-age= 1"], Invalid),
        (&["max-age=1;s-maxage=2"], Invalid),
        (&["max-age=60, max-age=60"], Given(60)),
        (&["max-age=60, max-age=30"], Invalid),
        (&["max-age=60", "max-age=0"], Invalid),
        (&["", ",, ,"], Absent),
    ];
    for (lines, want) in rows {
        assert_eq!(response(lines).max_age, want, "{lines:?}");
    }
}

#[test]
fn words_that_forbid_count_however_written_and_words_that_allow_do_not() {
    for text in [
        "no-store",
        "NO-STORE",
        "a, no-store",
        "no-store=1",
        "no-store =",
        "private=\"a, no-store",
        ",no-store,",
    ] {
        assert!(response(&[text]).no_store, "{text}");
    }
    for text in ["no-stored", "x=no-store", "x=\"no-store\"", "no_store"] {
        assert!(!response(&[text]).no_store, "{text}");
    }
    assert!(response(&["Public"]).public);
    assert!(!response(&["public=1"]).public);
    assert!(!response(&["public=\"\""]).public);
    assert!(response(&["immutable=1"]).immutable);
}

#[test]
fn scopes() {
    let names = |names: &[&str]| Scope::Fields(names.iter().map(|name| name.to_string()).collect());
    let rows: [(&str, Scope); 9] = [
        ("private", Scope::Whole),
        ("private=\"Set-Cookie\"", names(&["set-cookie"])),
        ("private=\"A, b\"", names(&["a", "b"])),
        ("private=A", names(&["a"])),
        ("private=\"A\", private=\"b\"", names(&["a", "b"])),
        ("private=\"A\", private", Scope::Whole),
        ("private, private=\"A\"", Scope::Whole),
        ("private=\"\"", Scope::Whole),
        ("private=\"a b\"", Scope::Whole),
    ];
    for (text, want) in rows {
        assert_eq!(response(&[text]).private, want, "{text}");
    }
}

#[test]
fn requests() {
    let control = |fields: &[(&str, &str)]| {
        RequestControl::of(RequestHead::build("GET", "/", Version::Http11, fields).view())
    };
    let max_stale = |text: &str| control(&[("cache-control", text)]).max_stale;
    assert_eq!(max_stale("max-stale"), MaxStale::Any);
    assert_eq!(max_stale("max-stale=5"), MaxStale::Seconds(5));
    assert_eq!(max_stale("max-stale, max-stale=5"), MaxStale::Seconds(5));
    assert_eq!(max_stale("max-stale=5, max-stale"), MaxStale::Seconds(5));
    assert_eq!(max_stale("max-stale=x"), MaxStale::Seconds(0));
    assert!(control(&[("Pragma", "no-cache")]).no_cache);
    assert!(control(&[("Pragma", "x, No-Cache")]).no_cache);
    assert!(!control(&[("Pragma", "no-cache"), ("Cache-Control", "max-age=1")]).no_cache);
    assert!(control(&[("Cache-Control", "a"), ("Cache-Control", "only-if-cached")]).only_if_cached);
}
