//! Validation in both directions (RFC 9111 sections 3.2, 3.4, 4.3), and which fields a 304
//! replaces.

use super::{NOW_MS, fields, request};
use saker_cache_rules::rules::validation::{
    Answer, HeadAnswer, conditions, freshened, is_not_modified, judge_answer, judge_head_answer,
    not_modified_fields, refreshed, same_bytes,
};
use saker_cache_rules::rules::{RuleSettings, age_s};
use saker_http::Status;

#[test]
fn our_conditions() {
    let rows: [(&str, &[&str]); 8] = [
        ("", &[]),
        ("ETag: \"a\"", &["If-None-Match: \"a\""]),
        ("ETag: W/\"a\"", &["If-None-Match: W/\"a\""]),
        ("ETag: a", &[]),
        (
            "Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT",
            &["If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT"],
        ),
        ("Last-Modified: today", &[]),
        (
            "Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT | ETag: \"a\"",
            &[
                "If-None-Match: \"a\"",
                "If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT",
            ],
        ),
        ("Date: Tue, 14 Nov 2023 22:13:20 GMT", &[]),
    ];
    for (stored, want) in rows {
        let found: Vec<String> = conditions(&fields(stored))
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value)))
            .collect();
        assert_eq!(found, want, "{stored}");
    }
}

#[test]
fn what_an_answer_means() {
    let rows = [
        ("4.3.3", "ETag: \"a\"", 304, "ETag: \"a\"", Answer::Freshens),
        ("4.3.3", "ETag: \"a\"", 304, "", Answer::Freshens),
        (
            "4.3.4",
            "ETag: \"a\"",
            304,
            "ETag: W/\"a\"",
            Answer::Freshens,
        ),
        (
            "4.3.4",
            "ETag: W/\"a\"",
            304,
            "ETag: W/\"a\"",
            Answer::Freshens,
        ),
        (
            "4.3.4",
            "ETag: \"a\"",
            304,
            "ETag: \"b\"",
            Answer::Unrelated,
        ),
        (
            "4.3.4",
            "ETag: \"a\"",
            304,
            "ETag: W/\"b\"",
            Answer::Unrelated,
        ),
        (
            "4.3.4",
            "Last-Modified: {-9}",
            304,
            "ETag: \"b\"",
            Answer::Unrelated,
        ),
        (
            "4.3.4",
            "Last-Modified: {-9}",
            304,
            "Last-Modified: {-9}",
            Answer::Freshens,
        ),
        (
            "4.3.4",
            "Last-Modified: {-9}",
            304,
            "Last-Modified: {-8}",
            Answer::Unrelated,
        ),
        (
            "4.3.4",
            "ETag: \"a\" | Last-Modified: {-9}",
            304,
            "ETag: \"a\" | Last-Modified: {-8}",
            Answer::Freshens,
        ),
        ("4.3.4", "Last-Modified: {-9}", 304, "", Answer::Freshens),
        ("4.3.3", "ETag: \"a\"", 200, "ETag: \"a\"", Answer::Replaces),
        ("4.3.3", "ETag: \"a\"", 200, "", Answer::Replaces),
        ("4.3.3", "ETag: \"a\"", 404, "", Answer::Replaces),
        ("4.3.3", "ETag: \"a\"", 410, "", Answer::Replaces),
        ("4.3.3", "ETag: \"a\"", 302, "", Answer::Replaces),
        ("4.3.3", "ETag: \"a\"", 501, "", Answer::Replaces),
        ("4.3.3", "ETag: \"a\"", 500, "", Answer::Failed),
        ("4.3.3", "ETag: \"a\"", 502, "", Answer::Failed),
        ("4.3.3", "ETag: \"a\"", 503, "", Answer::Failed),
        ("4.3.3", "ETag: \"a\"", 504, "", Answer::Failed),
    ];
    for (section, stored, status, answer, want) in rows {
        assert_eq!(
            judge_answer(&fields(stored), Status(status), &fields(answer)),
            want,
            "{section}: [{stored}] {status} [{answer}]"
        );
    }
}

#[test]
fn fields_that_a_304_replaces() {
    let stored = "X-Foo: old | X-Foo: older | X-Kept: 1 | ETag: \"a\" | Content-Type: text/html | Content-Encoding: gzip | Cache-Control: max-age=1";
    let rows = [
        ("", "x-kept", "1"),
        ("X-Foo: new", "x-foo", "new"),
        ("x-foo: new | X-FOO: newer", "x-foo", "new,newer"),
        ("X-Bar: 1", "x-bar", "1"),
        ("Cache-Control: max-age=9", "cache-control", "max-age=9"),
        ("Date: {+0}", "date", "Tue, 14 Nov 2023 22:13:20 GMT"),
        ("Expires: {+0}", "expires", "Tue, 14 Nov 2023 22:13:20 GMT"),
        ("ETag: W/\"a\"", "etag", "W/\"a\""),
        ("Vary: Foo", "vary", "Foo"),
        ("Content-Length: 0", "content-length", ""),
        ("Content-Encoding: br", "content-encoding", "gzip"),
        ("Content-Type: text/plain", "content-type", "text/html"),
        (
            "Content-Type: text/plain;charset=utf-8",
            "content-type",
            "text/html",
        ),
        (
            "Content-Type: TEXT/html ; charset=utf-8",
            "content-type",
            "TEXT/html ; charset=utf-8",
        ),
        (
            "Content-Type: text/html;charset=utf-8 | Content-Type: text/html;charset=utf-16",
            "content-type",
            "text/html",
        ),
        ("Content-Range: bytes 0-1/2", "content-range", ""),
        ("Set-Cookie: a=b", "set-cookie", ""),
        ("Connection: close", "connection", ""),
        ("Transfer-Encoding: chunked", "transfer-encoding", ""),
        ("Age: 9", "age", ""),
        ("Content-Security-Policy: x", "content-security-policy", "x"),
        ("Content-Location: /x", "content-location", "/x"),
    ];
    for (answer, name, want) in rows {
        let fresh = freshened(&fields(stored), &fields(answer));
        let lines: Vec<String> = fresh
            .iter()
            .filter(|line| line.0.eq_ignore_ascii_case(name))
            .map(|line| String::from_utf8_lossy(line.1).into_owned())
            .collect();
        assert_eq!(lines.join(","), want, "{answer}: {name}");
        assert_eq!(fresh.first("x-kept"), Some(&b"1"[..]));
    }
}

/// A charset that the origin has stated is what the stored bytes are in.
#[test]
fn a_304_changes_no_charset() {
    let stored = fields("ETag: \"a\" | Content-Type: text/html; charset=iso-8859-1");
    for answer in ["text/html; charset=utf-8", "text/html", "text/plain; a=b"] {
        let fresh = freshened(&stored, &fields(&format!("Content-Type: {answer}")));
        assert_eq!(
            fresh.first("content-type"),
            Some(&b"text/html; charset=iso-8859-1"[..]),
            "{answer}"
        );
    }
    let untyped = freshened(
        &fields("ETag: \"a\""),
        &fields("Content-Type: text/html;a=b"),
    );
    assert!(!untyped.has("content-type"));
}

/// Stored, answer, seconds of freshness and of age afterwards; `None` where the entry must go.
type Refresh = (&'static str, &'static str, Option<(i64, u64)>);

#[test]
fn a_304_gives_a_new_life() {
    let rows: &[Refresh] = &[
        (
            "Cache-Control: max-age=60 | ETag: \"a\" | Date: {-500}",
            "Date: {+0}",
            Some((60, 0)),
        ),
        (
            "Cache-Control: max-age=60 | ETag: \"a\" | Date: {-500}",
            "",
            Some((60, 0)),
        ),
        (
            "Cache-Control: max-age=60 | ETag: \"a\" | Date: {-500}",
            "Date: {-10}",
            Some((50, 10)),
        ),
        (
            "Cache-Control: max-age=60 | ETag: \"a\"",
            "Cache-Control: max-age=5",
            Some((5, 0)),
        ),
        (
            "Cache-Control: max-age=60 | ETag: \"a\"",
            "Age: 20",
            Some((40, 20)),
        ),
        (
            "Expires: {-440} | Date: {-500} | ETag: \"a\"",
            "Expires: {+60} | Date: {+0}",
            Some((60, 0)),
        ),
        (
            "Expires: {-440} | Date: {-500} | ETag: \"a\"",
            "Date: {+0}",
            Some((0, 0)),
        ),
        (
            "Cache-Control: max-age=60 | ETag: \"a\"",
            "Set-Cookie: a=b",
            Some((60, 0)),
        ),
        (
            "Cache-Control: max-age=60 | ETag: \"a\"",
            "Cache-Control: no-store",
            None,
        ),
        (
            "Cache-Control: max-age=60 | ETag: \"a\"",
            "Cache-Control: private, max-age=60",
            None,
        ),
        ("Cache-Control: max-age=60 | ETag: \"a\"", "Vary: *", None),
    ];
    let settings = RuleSettings::default();
    for (stored, answer, want) in rows {
        let made = refreshed(
            request("GET", "").view(),
            Status::OK,
            &fields(stored),
            &fields(answer),
            &settings,
            NOW_MS,
            NOW_MS,
        );
        let found = made
            .life
            .ok()
            .map(|life| ((life.fresh_until_ms - NOW_MS) / 1000, age_s(&life, NOW_MS)));
        assert_eq!(found, *want, "4.3.4: [{stored}] [{answer}]");
        assert!(
            made.fields.has("date") && !made.fields.has("age") && !made.fields.has("set-cookie")
        );
    }
}

#[test]
fn answers_to_head() {
    let stored = "ETag: \"a\" | Last-Modified: {-9}";
    let rows = [
        (200, "ETag: \"a\" | Content-Length: 5", HeadAnswer::Freshens),
        (200, "", HeadAnswer::Freshens),
        (200, "Last-Modified: {-9}", HeadAnswer::Freshens),
        (200, "ETag: \"b\"", HeadAnswer::Invalidates),
        (200, "ETag: W/\"a\"", HeadAnswer::Invalidates),
        (200, "Last-Modified: {-8}", HeadAnswer::Invalidates),
        (200, "Content-Length: 6", HeadAnswer::Invalidates),
        (200, "Content-Length: x", HeadAnswer::Invalidates),
        (404, "", HeadAnswer::Nothing),
        (304, "ETag: \"b\"", HeadAnswer::Nothing),
        (500, "", HeadAnswer::Nothing),
    ];
    for (status, answer, want) in rows {
        assert_eq!(
            judge_head_answer(&fields(stored), 5, Status(status), &fields(answer)),
            want,
            "{status} {answer}"
        );
    }
}

#[test]
fn conditions_of_clients() {
    let rows = [
        ("If-None-Match: \"a\"", 200, "ETag: \"a\"", true),
        ("If-None-Match: W/\"a\"", 200, "ETag: \"a\"", true),
        ("If-None-Match: \"a\"", 200, "ETag: W/\"a\"", true),
        ("If-None-Match: \"b\", \"a\"", 200, "ETag: \"a\"", true),
        (
            "If-None-Match: \"b\" | If-None-Match: \"a\"",
            200,
            "ETag: \"a\"",
            true,
        ),
        ("If-None-Match: *", 200, "", true),
        ("If-None-Match: \"b\"", 200, "ETag: \"a\"", false),
        ("If-None-Match: a", 200, "ETag: \"a\"", false),
        ("If-None-Match: \"a\"", 200, "", false),
        ("If-None-Match: \"a\"", 200, "ETag: a", false),
        ("If-None-Match: \"a\", b", 200, "ETag: \"a\"", false),
        ("If-None-Match: \"a\"", 404, "ETag: \"a\"", false),
        ("If-None-Match: *", 301, "", false),
        (
            "If-None-Match: \"b\" | If-Modified-Since: {+9}",
            200,
            "ETag: \"a\" | Last-Modified: {-9}",
            false,
        ),
        (
            "If-None-Match: \"a\" | If-Modified-Since: {-99}",
            200,
            "ETag: \"a\" | Last-Modified: {-9}",
            true,
        ),
        ("If-Modified-Since: {-9}", 200, "Last-Modified: {-9}", true),
        ("If-Modified-Since: {-8}", 200, "Last-Modified: {-9}", true),
        (
            "If-Modified-Since: {-10}",
            200,
            "Last-Modified: {-9}",
            false,
        ),
        ("If-Modified-Since: soon", 200, "Last-Modified: {-9}", false),
        (
            "If-Modified-Since: {-9} | If-Modified-Since: {-9}",
            200,
            "Last-Modified: {-9}",
            false,
        ),
        ("If-Modified-Since: {-9}", 200, "Date: {-9}", true),
        ("If-Modified-Since: {-10}", 200, "Date: {-9}", false),
        ("If-Modified-Since: {-9}", 200, "", false),
        ("If-Match: \"b\"", 200, "ETag: \"a\"", false),
        (
            "If-Unmodified-Since: {-99}",
            200,
            "Last-Modified: {-9}",
            false,
        ),
        ("", 200, "ETag: \"a\"", false),
    ];
    for (asked, status, stored, want) in rows {
        let found = is_not_modified(
            request("GET", asked).view(),
            Status(status),
            &fields(stored),
            NOW_MS / 1000,
        );
        assert_eq!(found, want, "[{asked}] {status} [{stored}]");
        assert!(!is_not_modified(
            request("POST", asked).view(),
            Status(status),
            &fields(stored),
            NOW_MS / 1000
        ));
    }
}

#[test]
fn fields_of_a_304() {
    let made = not_modified_fields(&fields(
        "ETag: \"a\" | Content-Type: x | Cache-Control: b | Vary: c | Date: d | X-Foo: e | Expires: f",
    ));
    let names: Vec<&str> = made.iter().map(|line| line.0).collect();
    assert_eq!(names, ["ETag", "Cache-Control", "Vary", "Date", "Expires"]);
}

#[test]
fn parts_of_the_same_bytes() {
    let rows = [
        ("3.4", "ETag: \"a\"", "ETag: \"a\"", true),
        ("3.4", "ETag: \"a\"", "ETag: \"b\"", false),
        ("3.4", "ETag: W/\"a\"", "ETag: W/\"a\"", false),
        ("3.4", "ETag: W/\"a\"", "ETag: \"a\"", false),
        ("3.4", "ETag: \"a\"", "", false),
        ("3.4", "", "", false),
        ("3.4", "ETag: \"a\" | ETag: \"b\"", "ETag: \"a\"", false),
        (
            "3.4",
            "Last-Modified: {-9} | Date: {+0}",
            "Last-Modified: {-9} | Date: {+5}",
            true,
        ),
        (
            "3.4",
            "Last-Modified: {-9} | Date: {-9}",
            "Last-Modified: {-9} | Date: {+5}",
            false,
        ),
        ("3.4", "Last-Modified: {-9}", "Last-Modified: {-9}", false),
        (
            "3.4",
            "Last-Modified: {-9} | Date: {+0}",
            "Last-Modified: {-8} | Date: {+0}",
            false,
        ),
        (
            "3.4",
            "Last-Modified: {-9} | Date: {+0}",
            "Last-Modified: {-9} | Date: {+0} | ETag: \"a\"",
            false,
        ),
    ];
    for (section, one, other, want) in rows {
        assert_eq!(
            same_bytes(&fields(one), &fields(other)),
            want,
            "{section}: [{one}] [{other}]"
        );
        assert_eq!(
            same_bytes(&fields(other), &fields(one)),
            want,
            "{section}: [{other}] [{one}]"
        );
    }
}
