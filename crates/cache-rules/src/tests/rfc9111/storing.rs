//! Which responses are stored, and how long they are fresh (RFC 9111 sections 3, 4.2 and 5).

use super::{NOW_MS, fields, judge, request};
use saker_cache_rules::rules::{ClientControl, RuleSettings, age_s, judge_response};
use saker_http::Status;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Want {
    /// Stored, and fresh for so many seconds from now.
    Fresh(i64),
    /// Stored, to be validated before each use.
    Check,
    /// Not stored, for this reason.
    Not(&'static str),
}
use Want::{Check, Fresh, Not};

/// Section (of RFC 9111 unless another is named), request, status, response.
type Row = (&'static str, &'static str, u16, &'static str, Want);

fn run(rows: &[Row], settings: &RuleSettings) {
    for (section, asked, status, answer, want) in rows {
        let found = match judge(asked, *status, answer, settings) {
            Err(pass) => {
                assert!(!pass.to_string().is_empty());
                Not(pass.name())
            }
            Ok(life) if life.fresh_until_ms <= NOW_MS => Check,
            Ok(life) => Fresh((life.fresh_until_ms - NOW_MS) / 1000),
        };
        assert_eq!(found, *want, "{section}: [{asked}] {status} [{answer}]");
    }
}

#[test]
fn what_may_be_stored() {
    let rows: &[Row] = &[
        ("3", "", 200, "Cache-Control: max-age=60", Fresh(60)),
        ("3", "", 200, "Cache-Control: s-maxage=60", Fresh(60)),
        ("3", "", 200, "Expires: {+60}", Fresh(60)),
        ("3", "", 200, "", Not("no-lifetime")),
        ("3", "", 200, "Content-Type: text/html", Not("no-lifetime")),
        ("3", "", 200, "Cache-Control: public", Not("no-lifetime")),
        (
            "3",
            "",
            200,
            "Cache-Control: no-transform",
            Not("no-lifetime"),
        ),
        (
            "3",
            "",
            200,
            "Cache-Control: foo=bar, max-age=60",
            Fresh(60),
        ),
        ("3", "", 100, "Cache-Control: max-age=60", Not("status")),
        ("3", "", 103, "Cache-Control: max-age=60", Not("status")),
        ("3", "", 304, "Cache-Control: max-age=60", Not("status")),
        ("3", "", 600, "Cache-Control: max-age=60", Not("status")),
        ("3", "", 299, "Cache-Control: max-age=60", Fresh(60)),
        ("3", "", 499, "Cache-Control: max-age=60", Fresh(60)),
        ("3", "", 500, "Cache-Control: max-age=60", Fresh(60)),
        ("3", "", 503, "Expires: {+60}", Fresh(60)),
        ("3", "", 302, "Cache-Control: max-age=60", Fresh(60)),
        ("3", "", 302, "Location: /", Not("no-lifetime")),
        ("3", "", 302, "Last-Modified: {-1000}", Not("no-lifetime")),
        (
            "3",
            "",
            302,
            "Last-Modified: {-1000} | Cache-Control: public",
            Fresh(100),
        ),
        (
            "3.3",
            "",
            206,
            "Cache-Control: max-age=60 | Content-Range: bytes 0-1/2",
            Not("partial"),
        ),
        ("4.2.2", "", 200, "Last-Modified: {-1000}", Fresh(100)),
        (
            "4.2.2",
            "",
            200,
            "Last-Modified: {-1000} | Date: {+0}",
            Fresh(100),
        ),
        (
            "4.2.2",
            "",
            200,
            "Last-Modified: {-100000000}",
            Fresh(86400),
        ),
        ("4.2.2", "", 200, "Last-Modified: {+10}", Check),
        ("4.2.2", "", 200, "Last-Modified: yesterday", Check),
        (
            "4.2.2",
            "",
            200,
            "Last-Modified: {-1000} | Cache-Control: max-age=5",
            Fresh(5),
        ),
        (
            "4.2.2",
            "",
            200,
            "Last-Modified: {-1000} | Expires: {-1}",
            Check,
        ),
        ("4.2.2", "", 203, "Last-Modified: {-1000}", Fresh(100)),
        ("4.2.2", "", 204, "Last-Modified: {-1000}", Fresh(100)),
        ("4.2.2", "", 300, "Last-Modified: {-1000}", Fresh(100)),
        ("4.2.2", "", 301, "Last-Modified: {-1000}", Fresh(100)),
        ("4.2.2", "", 308, "Last-Modified: {-1000}", Fresh(100)),
        ("4.2.2", "", 404, "Last-Modified: {-1000}", Fresh(100)),
        ("4.2.2", "", 405, "Last-Modified: {-1000}", Fresh(100)),
        ("4.2.2", "", 410, "Last-Modified: {-1000}", Fresh(100)),
        ("4.2.2", "", 414, "Last-Modified: {-1000}", Fresh(100)),
        ("4.2.2", "", 501, "Last-Modified: {-1000}", Fresh(100)),
        (
            "4.2.2",
            "",
            201,
            "Last-Modified: {-1000}",
            Not("no-lifetime"),
        ),
        (
            "4.2.2",
            "",
            307,
            "Last-Modified: {-1000}",
            Not("no-lifetime"),
        ),
        (
            "4.2.2",
            "",
            402,
            "Last-Modified: {-1000}",
            Not("no-lifetime"),
        ),
        (
            "ours",
            "",
            400,
            "Cache-Control: public, max-age=60",
            Not("status"),
        ),
        (
            "ours",
            "",
            412,
            "Cache-Control: public, max-age=60",
            Not("status"),
        ),
        ("ours", "", 416, "Cache-Control: max-age=60", Not("status")),
        (
            "ours",
            "",
            431,
            "CDN-Cache-Control: max-age=60",
            Not("status"),
        ),
        ("ours", "", 429, "Cache-Control: s-maxage=60", Not("status")),
        (
            "ours",
            "Cookie: __Host-session=1",
            200,
            "Cache-Control: max-age=60",
            Not("session-cookie"),
        ),
        (
            "ours",
            "Cookie: next-auth.session-token=1",
            200,
            "Cache-Control: max-age=60",
            Not("session-cookie"),
        ),
        (
            "ours",
            "Cookie: my_session=1",
            200,
            "Cache-Control: max-age=60",
            Not("session-cookie"),
        ),
        (
            "ours",
            "Cookie: remember_web_1=1 | Cookie: a=b",
            200,
            "Cache-Control: max-age=60",
            Not("session-cookie"),
        ),
        (
            "ours",
            "Cookie: auth_token=1",
            200,
            "Cache-Control: max-age=60",
            Not("session-cookie"),
        ),
        (
            "ours",
            "Cookie: laravel.session=1",
            200,
            "Cache-Control: max-age=60",
            Not("session-cookie"),
        ),
        (
            "ours",
            "Cookie: _ga=1; __utma=2",
            200,
            "Cache-Control: max-age=60",
            Fresh(60),
        ),
        (
            "4.2.2",
            "",
            403,
            "Last-Modified: {-1000}",
            Not("no-lifetime"),
        ),
        (
            "4.2.2",
            "",
            500,
            "Last-Modified: {-1000}",
            Not("no-lifetime"),
        ),
        (
            "4.2.2",
            "",
            502,
            "Last-Modified: {-1000}",
            Not("no-lifetime"),
        ),
        (
            "4.2.2",
            "",
            599,
            "Last-Modified: {-1000}",
            Not("no-lifetime"),
        ),
        (
            "4.1",
            "",
            200,
            "Cache-Control: max-age=60 | Vary: *",
            Not("vary-all"),
        ),
        (
            "4.1",
            "",
            200,
            "Cache-Control: max-age=60 | Vary: Foo, *",
            Not("vary-all"),
        ),
        (
            "4.1",
            "",
            200,
            "Cache-Control: max-age=60 | Vary: Foo | Vary: *",
            Not("vary-all"),
        ),
        (
            "4.1",
            "",
            200,
            "Cache-Control: max-age=60 | Vary: Foo, Bar",
            Fresh(60),
        ),
    ];
    run(rows, &RuleSettings::default());
}

#[test]
fn directives_of_responses() {
    let rows: &[Row] = &[
        ("5.2.2.1", "", 200, "Cache-Control: MAX-AGE=60", Fresh(60)),
        (
            "5.2.2.1",
            "",
            200,
            "Cache-Control: max-age=\"60\"",
            Fresh(60),
        ),
        (
            "5.2.2.1",
            "",
            200,
            "Cache-Control: max-age='60'",
            Not("stale"),
        ),
        ("5.2.2.1", "", 200, "Cache-Control: max-age=0", Not("stale")),
        (
            "5.2.2.1",
            "",
            200,
            "Cache-Control: max-age=0 | ETag: \"a\"",
            Check,
        ),
        (
            "5.2.2.1",
            "",
            200,
            "Cache-Control: max-age=60 | Expires: {-60}",
            Fresh(60),
        ),
        (
            "5.2.2.1",
            "",
            200,
            "Cache-Control: max-age=0 | Expires: {+60} | ETag: \"a\"",
            Check,
        ),
        (
            "1.2.2",
            "",
            200,
            "Cache-Control: max-age=2147483648",
            Fresh(2147483648),
        ),
        (
            "1.2.2",
            "",
            200,
            "Cache-Control: max-age=99999999999999999999",
            Fresh(2147483648),
        ),
        ("1.2.2", "", 200, "Cache-Control: max-age=0060", Fresh(60)),
        ("4.2.1", "", 200, "Cache-Control: max-age=-1", Not("stale")),
        ("4.2.1", "", 200, "Cache-Control: max-age=6x", Not("stale")),
        ("4.2.1", "", 200, "Cache-Control: max-age=6.5", Not("stale")),
        ("4.2.1", "", 200, "Cache-Control: max-age", Not("stale")),
        ("4.2.1", "", 200, "Cache-Control: max-age=", Not("stale")),
        (
            "4.2.1",
            "",
            200,
            "Cache-Control: max-age=x | Expires: {+60}",
            Not("stale"),
        ),
        (
            "4.2.1",
            "",
            200,
            "Cache-Control: max-age=60, max-age=60",
            Fresh(60),
        ),
        (
            "4.2.1",
            "",
            200,
            "Cache-Control: max-age=60, max-age=30",
            Not("stale"),
        ),
        (
            "4.2.1",
            "",
            200,
            "Cache-Control: max-age=60 | Cache-Control: max-age=30",
            Not("stale"),
        ),
        (
            "4.2.1",
            "",
            200,
            "Cache-Control: max-age=60 | Cache-Control: no-store",
            Not("no-store"),
        ),
        (
            "4.2.1",
            "",
            200,
            "Cache-Control: max-age=60, no-cache",
            Not("stale"),
        ),
        (
            "4.2.1",
            "",
            200,
            "Expires: {+60} | Expires: {+60}",
            Fresh(60),
        ),
        (
            "4.2.1",
            "",
            200,
            "Expires: {+60} | Expires: {+30}",
            Not("stale"),
        ),
        (
            "5.2.2.10",
            "",
            200,
            "Cache-Control: s-maxage=60, max-age=10",
            Fresh(60),
        ),
        (
            "5.2.2.10",
            "",
            200,
            "Cache-Control: max-age=10, s-maxage=60",
            Fresh(60),
        ),
        (
            "5.2.2.10",
            "",
            200,
            "Cache-Control: s-maxage=60, max-age=0",
            Fresh(60),
        ),
        (
            "5.2.2.10",
            "",
            200,
            "Cache-Control: s-maxage=0, max-age=60",
            Not("stale"),
        ),
        (
            "5.2.2.10",
            "",
            200,
            "Cache-Control: s-maxage=60 | Expires: {-60}",
            Fresh(60),
        ),
        ("5.2.2.10", "", 200, "Cache-Control: S-MaxAge=60", Fresh(60)),
        (
            "5.2.2.10",
            "",
            200,
            "Cache-Control: s-maxage=x, max-age=60",
            Not("stale"),
        ),
        ("5.2.2.4", "", 200, "Cache-Control: no-cache", Not("stale")),
        (
            "5.2.2.4",
            "",
            200,
            "Cache-Control: no-cache | ETag: \"a\"",
            Check,
        ),
        (
            "5.2.2.4",
            "",
            200,
            "Cache-Control: no-cache | Last-Modified: {-1000}",
            Check,
        ),
        (
            "5.2.2.4",
            "",
            200,
            "Cache-Control: No-Cache, max-age=60 | ETag: \"a\"",
            Check,
        ),
        (
            "5.2.2.4",
            "",
            200,
            "Cache-Control: no-cache=\"Foo\", max-age=60",
            Fresh(60),
        ),
        (
            "5.2.2.4",
            "",
            200,
            "Cache-Control: no-cache=\"\", max-age=60 | ETag: \"a\"",
            Check,
        ),
        (
            "5.2.2.5",
            "",
            200,
            "Cache-Control: no-store",
            Not("no-store"),
        ),
        (
            "5.2.2.5",
            "",
            200,
            "Cache-Control: no-store, max-age=60",
            Not("no-store"),
        ),
        (
            "5.2.2.5",
            "",
            200,
            "Cache-Control: max-age=60, No-Store",
            Not("no-store"),
        ),
        (
            "5.2.2.5",
            "",
            200,
            "Cache-Control: max-age=60 | Cache-Control: no-store",
            Not("no-store"),
        ),
        (
            "5.2.2.5",
            "",
            200,
            "Cache-Control: public, no-store, s-maxage=60",
            Not("no-store"),
        ),
        (
            "5.2.2.5",
            "",
            200,
            "Cache-Control: max-age=60, x=\"no-store\"",
            Fresh(60),
        ),
        (
            "5.2.2.5",
            "",
            200,
            "Cache-Control: max-age=60, no-storex",
            Fresh(60),
        ),
        ("5.2.2.7", "", 200, "Cache-Control: private", Not("private")),
        (
            "5.2.2.7",
            "",
            200,
            "Cache-Control: private, max-age=60",
            Not("private"),
        ),
        (
            "5.2.2.7",
            "",
            200,
            "Cache-Control: private, s-maxage=60",
            Not("private"),
        ),
        (
            "5.2.2.7",
            "",
            200,
            "Cache-Control: private, public, max-age=60",
            Not("private"),
        ),
        (
            "5.2.2.7",
            "",
            200,
            "Cache-Control: private=\"Foo\", max-age=60",
            Fresh(60),
        ),
        (
            "5.2.2.7",
            "",
            200,
            "Cache-Control: private=Foo, max-age=60",
            Fresh(60),
        ),
        (
            "5.2.2.7",
            "",
            200,
            "Cache-Control: private=\"\", max-age=60",
            Not("private"),
        ),
        (
            "5.2.2.7",
            "",
            200,
            "Cache-Control: private=\"a b\", max-age=60",
            Not("private"),
        ),
        (
            "5.2.2.3",
            "",
            200,
            "Cache-Control: must-understand, no-store, max-age=60",
            Fresh(60),
        ),
        (
            "5.2.2.3",
            "",
            404,
            "Cache-Control: must-understand, no-store, max-age=60",
            Fresh(60),
        ),
        (
            "5.2.2.3",
            "",
            299,
            "Cache-Control: must-understand, no-store, max-age=60",
            Not("status"),
        ),
        (
            "5.2.2.3",
            "",
            299,
            "Cache-Control: must-understand, max-age=60",
            Not("status"),
        ),
        (
            "5.2.2.3",
            "",
            200,
            "Cache-Control: must-understand=1, no-store, max-age=60",
            Not("no-store"),
        ),
        (
            "5.2.3",
            "",
            200,
            "Cache-Control: max-age=60, community=\"UCI\"",
            Fresh(60),
        ),
        (
            "5.2.3",
            "",
            200,
            "Cache-Control: pre-check=0, post-check=0, max-age=60",
            Fresh(60),
        ),
        ("5.2", "", 200, "Cache-Control: ,,max-age=60,", Fresh(60)),
        (
            "5.2",
            "",
            200,
            "Cache-Control: x=\"a\\\"b, max-age=1\", max-age=60",
            Fresh(60),
        ),
        (
            "5.2",
            "",
            200,
            "Cache-Control: x=\"a, max-age=60",
            Fresh(60),
        ),
        ("5.3", "", 200, "Expires: 0 | ETag: \"a\"", Check),
        ("5.3", "", 200, "Expires: 0", Not("stale")),
        ("5.3", "", 200, "Expires: -1", Not("stale")),
        (
            "5.3",
            "",
            200,
            "Expires: Thu, 99 Dec 2099 00:00:00 GMT",
            Not("stale"),
        ),
        (
            "5.3",
            "",
            200,
            "Expires: Thu, 18 Aug 2050 02:01:18 UTC",
            Not("stale"),
        ),
        ("5.3", "", 200, "Expires: {+60} | Date: {-30}", Fresh(60)),
        ("5.3", "", 200, "Expires: {+60} | Date: {+30}", Fresh(30)),
        ("5.3", "", 200, "Expires: {+0} | Date: {+0}", Not("stale")),
        (
            "5.3",
            "",
            200,
            "Expires: Thursday, 18-Aug-50 02:01:18 GMT",
            Fresh(844_400_878),
        ),
        (
            "5.4",
            "",
            200,
            "Cache-Control: max-age=60 | Pragma: no-cache",
            Fresh(60),
        ),
        (
            "5.4",
            "Pragma: no-cache",
            200,
            "Cache-Control: max-age=60",
            Fresh(60),
        ),
        (
            "5861 3",
            "",
            200,
            "Cache-Control: max-age=0, stale-while-revalidate=60",
            Check,
        ),
        (
            "5861 4",
            "",
            200,
            "Cache-Control: max-age=0, stale-if-error=60",
            Check,
        ),
        (
            "5861 3",
            "",
            200,
            "Cache-Control: max-age=0, stale-while-revalidate=x",
            Not("stale"),
        ),
        (
            "5861 3",
            "",
            200,
            "Cache-Control: max-age=0, must-revalidate, stale-while-revalidate=60",
            Not("stale"),
        ),
        (
            "8246 2",
            "",
            200,
            "Cache-Control: immutable, max-age=60",
            Fresh(60),
        ),
        (
            "8246 2",
            "",
            200,
            "Cache-Control: immutable",
            Not("no-lifetime"),
        ),
    ];
    run(rows, &RuleSettings::default());
}

#[test]
fn age_on_arrival() {
    let rows: &[Row] = &[
        (
            "4.2.3",
            "",
            200,
            "Cache-Control: max-age=60 | Age: 10",
            Fresh(50),
        ),
        (
            "4.2.3",
            "",
            200,
            "Cache-Control: max-age=60 | Age: 60",
            Not("stale"),
        ),
        (
            "4.2.3",
            "",
            200,
            "Cache-Control: max-age=60 | Age: 100 | ETag: \"a\"",
            Check,
        ),
        (
            "4.2.3",
            "",
            200,
            "Cache-Control: max-age=60 | Date: {-10}",
            Fresh(50),
        ),
        (
            "4.2.3",
            "",
            200,
            "Cache-Control: max-age=60 | Date: {-10} | Age: 5",
            Fresh(50),
        ),
        (
            "4.2.3",
            "",
            200,
            "Cache-Control: max-age=60 | Date: {-5} | Age: 10",
            Fresh(50),
        ),
        (
            "4.2.3",
            "",
            200,
            "Cache-Control: max-age=60 | Date: {+100}",
            Fresh(60),
        ),
        (
            "4.2.3",
            "",
            200,
            "Cache-Control: max-age=60 | Date: nonsense",
            Fresh(60),
        ),
        (
            "4.2.3",
            "",
            200,
            "Cache-Control: max-age=60 | Date: {-1000}",
            Not("stale"),
        ),
        ("4.2.3", "", 200, "Expires: {+60} | Age: 10", Fresh(50)),
        (
            "5.1",
            "",
            200,
            "Cache-Control: max-age=60 | Age: -10",
            Fresh(60),
        ),
        (
            "5.1",
            "",
            200,
            "Cache-Control: max-age=60 | Age: 1.5",
            Fresh(60),
        ),
        (
            "5.1",
            "",
            200,
            "Cache-Control: max-age=60 | Age: old",
            Fresh(60),
        ),
        (
            "5.1",
            "",
            200,
            "Cache-Control: max-age=60 | Age: 10, 50",
            Fresh(50),
        ),
        (
            "5.1",
            "",
            200,
            "Cache-Control: max-age=60 | Age: 10 | Age: 50",
            Fresh(50),
        ),
        (
            "5.1",
            "",
            200,
            "Cache-Control: max-age=60 | Age: 99999999999999999999",
            Not("stale"),
        ),
    ];
    run(rows, &RuleSettings::default());
}

#[test]
fn the_time_an_answer_took_is_age() {
    let of = |head: &str, took_ms: i64| {
        let answer = fields(head);
        judge_response(
            request("GET", "").view(),
            Status::OK,
            &answer,
            &RuleSettings::default(),
            NOW_MS - took_ms,
            NOW_MS,
        )
        .expect("stored")
    };
    assert_eq!(age_s(&of("Cache-Control: max-age=60", 5_000), NOW_MS), 5);
    assert_eq!(
        age_s(&of("Cache-Control: max-age=60 | Age: 10", 5_000), NOW_MS),
        15
    );
    assert_eq!(
        age_s(
            &of("Cache-Control: max-age=60 | Date: {-20} | Age: 10", 5_000),
            NOW_MS
        ),
        20
    );
    assert_eq!(age_s(&of("Cache-Control: max-age=60", -5_000), NOW_MS), 0);
    assert_eq!(
        age_s(&of("Cache-Control: max-age=60", 0), NOW_MS + 12_999),
        12
    );
    assert_eq!(
        age_s(&of("Cache-Control: max-age=60", 0), NOW_MS - 12_999),
        0
    );
}

#[test]
fn for_all_only_if_it_says_so() {
    let rows: &[Row] = &[
        (
            "3.5",
            "Authorization: x",
            200,
            "Cache-Control: max-age=60",
            Not("authorization"),
        ),
        (
            "3.5",
            "Authorization: x",
            200,
            "Expires: {+60}",
            Not("authorization"),
        ),
        (
            "3.5",
            "Authorization: x",
            200,
            "Cache-Control: public, max-age=60",
            Fresh(60),
        ),
        (
            "3.5",
            "Authorization: x",
            200,
            "Cache-Control: s-maxage=60",
            Fresh(60),
        ),
        (
            "3.5",
            "Authorization: x",
            200,
            "Cache-Control: must-revalidate, max-age=60",
            Fresh(60),
        ),
        (
            "3.5",
            "Authorization: x",
            200,
            "Cache-Control: proxy-revalidate, max-age=60",
            Not("authorization"),
        ),
        (
            "3.5",
            "Authorization: x",
            200,
            "Cache-Control: s-maxage=x, max-age=60",
            Not("authorization"),
        ),
        (
            "3.5",
            "Authorization: x",
            200,
            "Cache-Control: max-age=60 | Vary: Authorization",
            Fresh(60),
        ),
        (
            "7.3",
            "",
            200,
            "Cache-Control: max-age=60 | Set-Cookie: a=b",
            Not("set-cookie"),
        ),
        (
            "7.3",
            "",
            200,
            "Last-Modified: {-1000} | Set-Cookie: a=b",
            Not("set-cookie"),
        ),
        (
            "7.3",
            "",
            200,
            "Cache-Control: must-revalidate, max-age=60 | Set-Cookie: a=b",
            Not("set-cookie"),
        ),
        (
            "7.3",
            "",
            200,
            "Cache-Control: public, max-age=60 | Set-Cookie: a=b",
            Fresh(60),
        ),
        (
            "7.3",
            "",
            200,
            "Cache-Control: s-maxage=60 | Set-Cookie: a=b",
            Fresh(60),
        ),
        (
            "7.3",
            "",
            200,
            "Cache-Control: no-cache=\"Set-Cookie\", max-age=60 | Set-Cookie: a=b",
            Fresh(60),
        ),
        (
            "7.3",
            "",
            200,
            "Cache-Control: private=\"set-cookie\", max-age=60 | Set-Cookie: a=b",
            Fresh(60),
        ),
        (
            "7.3",
            "",
            200,
            "Cache-Control: private=\"foo\", max-age=60 | Set-Cookie: a=b",
            Not("set-cookie"),
        ),
        (
            "9213 2.2",
            "",
            200,
            "CDN-Cache-Control: max-age=60 | Set-Cookie: a=b",
            Fresh(60),
        ),
        (
            "ours",
            "Cookie: PHPSESSID=1",
            200,
            "Cache-Control: max-age=60",
            Not("session-cookie"),
        ),
        (
            "ours",
            "Cookie: a=1; phpsessid=1",
            200,
            "Cache-Control: max-age=60",
            Not("session-cookie"),
        ),
        (
            "ours",
            "Cookie: a=1 | Cookie: wordpress_logged_in_x=1",
            200,
            "Cache-Control: max-age=60",
            Not("session-cookie"),
        ),
        (
            "ours",
            "Cookie: a=1; b=PHPSESSID",
            200,
            "Cache-Control: max-age=60",
            Fresh(60),
        ),
        (
            "ours",
            "Cookie: PHPSESSID=1",
            200,
            "Cache-Control: public, max-age=60",
            Fresh(60),
        ),
        (
            "ours",
            "Cookie: PHPSESSID=1",
            200,
            "Cache-Control: s-maxage=60",
            Fresh(60),
        ),
        (
            "ours",
            "Cookie: PHPSESSID=1",
            200,
            "Cache-Control: max-age=60 | Vary: Cookie",
            Fresh(60),
        ),
        (
            "ours",
            "Cookie: PHPSESSID=1",
            200,
            "CDN-Cache-Control: max-age=60",
            Fresh(60),
        ),
    ];
    run(rows, &RuleSettings::default());
}

#[test]
fn targeted_fields() {
    let rows: &[Row] = &[
        (
            "9213 2.2",
            "",
            200,
            "CDN-Cache-Control: max-age=60 | Cache-Control: no-store",
            Fresh(60),
        ),
        (
            "9213 2.2",
            "",
            200,
            "CDN-Cache-Control: max-age=60 | Cache-Control: private | Expires: 0",
            Fresh(60),
        ),
        (
            "9213 2.2",
            "",
            200,
            "CDN-Cache-Control: max-age=0 | Cache-Control: max-age=60",
            Not("stale"),
        ),
        (
            "9213 2.2",
            "",
            200,
            "CDN-Cache-Control: no-store | Cache-Control: max-age=60",
            Not("no-store"),
        ),
        (
            "9213 2.2",
            "",
            200,
            "CDN-Cache-Control: private | Cache-Control: max-age=60",
            Not("private"),
        ),
        (
            "9213 2.2",
            "",
            200,
            "CDN-Cache-Control: no-cache | Cache-Control: max-age=60 | ETag: \"a\"",
            Check,
        ),
        (
            "9213 2.2",
            "",
            200,
            "CDN-Cache-Control: none | Cache-Control: no-store | Last-Modified: {-1000}",
            Fresh(100),
        ),
        (
            "9213 2.2",
            "",
            200,
            "CDN-Cache-Control: none | Expires: {+60}",
            Not("stale"),
        ),
        (
            "9213 2.2",
            "",
            200,
            "CDN-Cache-Control: max-age=30, s-maxage=60",
            Fresh(60),
        ),
        (
            "9213 2.2",
            "",
            200,
            "CDN-Cache-Control: max-age=60 | CDN-Cache-Control: foo",
            Fresh(60),
        ),
        (
            "9213 2.1",
            "",
            200,
            "CDN-Cache-Control: | Cache-Control: max-age=60",
            Fresh(60),
        ),
        (
            "9213 2.1",
            "",
            200,
            "CDN-Cache-Control: no-store, &&& | Cache-Control: max-age=60",
            Fresh(60),
        ),
        (
            "9213 2.1",
            "",
            200,
            "CDN-Cache-Control: max-age=60, | Cache-Control: no-store",
            Not("no-store"),
        ),
        (
            "9213 2.1",
            "",
            200,
            "CDN-Cache-Control: Max-Age=60 | Cache-Control: no-store",
            Not("no-store"),
        ),
        (
            "9213 2.1",
            "",
            200,
            "CDN-Cache-Control: max-age=60;x=1, foo;y=\"a\"",
            Fresh(60),
        ),
        (
            "9213 2.1",
            "",
            200,
            "CDN-Cache-Control: max-age=\"60\" | Cache-Control: max-age=10",
            Not("stale"),
        ),
        (
            "9213 2.1",
            "",
            200,
            "CDN-Cache-Control: max-age=60.5",
            Not("stale"),
        ),
        (
            "9213 2.1",
            "",
            200,
            "CDN-Cache-Control: max-age=-1",
            Not("stale"),
        ),
        (
            "9213 2.1",
            "",
            200,
            "CDN-Cache-Control: max-age=9999999999999",
            Fresh(2147483648),
        ),
        (
            "9213 2.1",
            "",
            200,
            "CDN-Cache-Control: max-age=30, max-age=60",
            Fresh(60),
        ),
        (
            "9213 2.1",
            "",
            200,
            "CDN-Cache-Control: no-store=?0, max-age=60",
            Fresh(60),
        ),
        (
            "9213 2.1",
            "",
            200,
            "CDN-Cache-Control: no-store=1, max-age=60",
            Not("no-store"),
        ),
        (
            "9213 2.1",
            "",
            200,
            "CDN-Cache-Control: private=\"foo\", max-age=60",
            Fresh(60),
        ),
        (
            "9213 2.1",
            "",
            200,
            "CDN-Cache-Control: private=foo, max-age=60",
            Not("private"),
        ),
        (
            "9213 2.2",
            "",
            200,
            "Other-Cache-Control: no-store | Cache-Control: max-age=60",
            Fresh(60),
        ),
        (
            "9213 2.3",
            "",
            200,
            "CDN-Cache-Control: max-age=60 | Age: 10",
            Fresh(50),
        ),
        (
            "surrogate",
            "",
            200,
            "Surrogate-Control: max-age=60 | Cache-Control: no-store",
            Fresh(60),
        ),
        (
            "surrogate",
            "",
            200,
            "Surrogate-Control: no-store | CDN-Cache-Control: max-age=60",
            Not("no-store"),
        ),
        (
            "surrogate",
            "",
            200,
            "Surrogate-Control: content=\"ESI/1.0\" | Cache-Control: max-age=60",
            Fresh(60),
        ),
        (
            "surrogate",
            "",
            200,
            "Surrogate-Control: max-age=60+30, content=\"ESI/1.0\"",
            Fresh(60),
        ),
        (
            "surrogate",
            "",
            200,
            "Surrogate-Control: max-age=x",
            Not("stale"),
        ),
        (
            "surrogate target",
            "",
            200,
            "Surrogate-Control: max-age=60;saker | Cache-Control: no-store",
            Fresh(60),
        ),
        (
            "surrogate target",
            "",
            200,
            "Surrogate-Control: max-age=60;Saker, max-age=9",
            Fresh(60),
        ),
        (
            "surrogate target",
            "",
            200,
            "Surrogate-Control: max-age=9, max-age=60 ; saker",
            Fresh(60),
        ),
        (
            "surrogate target",
            "",
            200,
            "Surrogate-Control: max-age=60;other | Cache-Control: max-age=5",
            Fresh(5),
        ),
        (
            "surrogate target",
            "",
            200,
            "Surrogate-Control: no-store;other, max-age=60",
            Fresh(60),
        ),
        (
            "surrogate target",
            "",
            200,
            "Surrogate-Control: no-store;saker, max-age=60",
            Not("no-store"),
        ),
        (
            "surrogate target",
            "",
            200,
            "Surrogate-Control: no-store, max-age=60;saker",
            Not("no-store"),
        ),
        (
            "surrogate target",
            "",
            200,
            "Surrogate-Control: no-store;a b | Cache-Control: max-age=60",
            Not("no-store"),
        ),
        (
            "surrogate target",
            "",
            200,
            "Surrogate-Control: max-age=60;a b | Cache-Control: max-age=60",
            Not("stale"),
        ),
    ];
    run(rows, &RuleSettings::default());
    let targets = vec!["Ours-Cache-Control".into(), "CDN-Cache-Control".into()];
    let rows: &[Row] = &[
        (
            "9213 2.2",
            "",
            200,
            "CDN-Cache-Control: max-age=60 | Ours-Cache-Control: max-age=5",
            Fresh(5),
        ),
        (
            "9213 2.2",
            "",
            200,
            "CDN-Cache-Control: max-age=60 | Ours-Cache-Control: !",
            Fresh(60),
        ),
        (
            "9213 2.2",
            "",
            200,
            "Surrogate-Control: max-age=9 | CDN-Cache-Control: max-age=60",
            Fresh(60),
        ),
    ];
    run(
        rows,
        &RuleSettings {
            targets,
            surrogate_control: false,
            ..RuleSettings::default()
        },
    );
}

#[test]
fn methods() {
    for (method, stored) in [
        ("GET", true),
        ("HEAD", false),
        ("POST", false),
        ("PUT", false),
        ("get", false),
        ("PURGE", false),
    ] {
        let answer = fields("Cache-Control: max-age=60");
        let judged = judge_response(
            request(method, "").view(),
            Status::OK,
            &answer,
            &RuleSettings::default(),
            NOW_MS,
            NOW_MS,
        );
        assert_eq!(judged.is_ok(), stored, "{method}");
    }
}

#[test]
fn what_operators_decide() {
    let defaults = RuleSettings::default;
    let one = |asked: &'static str,
               status: u16,
               answer: &'static str,
               want: Want,
               settings: RuleSettings| {
        run(&[("settings", asked, status, answer, want)], &settings);
    };
    let no_store = "Cache-Control: no-store";
    one(
        no_store,
        200,
        "Cache-Control: max-age=60",
        Fresh(60),
        defaults(),
    );
    let honored = RuleSettings {
        client: ClientControl::Honored,
        ..defaults()
    };
    one(
        no_store,
        200,
        "Cache-Control: max-age=60",
        Not("request-no-store"),
        honored,
    );
    one(
        "",
        200,
        "",
        Fresh(120),
        RuleSettings {
            default_ttl_s: Some(120),
            ..defaults()
        },
    );
    one(
        "",
        500,
        "",
        Not("no-lifetime"),
        RuleSettings {
            default_ttl_s: Some(120),
            ..defaults()
        },
    );
    let needy = || RuleSettings {
        default_ttl_s: Some(120),
        default_ttl_needs_validator: true,
        ..defaults()
    };
    one("", 200, "", Not("no-lifetime"), needy());
    one("", 200, "ETag: \"a\"", Fresh(120), needy());
    one(
        "",
        200,
        "Cache-Control: max-age=600",
        Fresh(90),
        RuleSettings {
            ttl_max_s: 90,
            ..defaults()
        },
    );
    let shared_only = || RuleSettings {
        shared_words_only: true,
        ..defaults()
    };
    one(
        "",
        200,
        "Cache-Control: max-age=60",
        Not("not-for-all"),
        shared_only(),
    );
    one(
        "",
        200,
        "Last-Modified: {-100}",
        Not("not-for-all"),
        shared_only(),
    );
    one(
        "",
        200,
        "Cache-Control: public, max-age=60",
        Fresh(60),
        shared_only(),
    );
    one(
        "",
        200,
        "Cache-Control: s-maxage=60",
        Fresh(60),
        shared_only(),
    );
    one(
        "",
        200,
        "CDN-Cache-Control: max-age=60",
        Fresh(60),
        shared_only(),
    );
    one(
        "",
        200,
        "Cache-Control: max-age=6",
        Fresh(6),
        RuleSettings {
            ttl_min_s: 90,
            ..defaults()
        },
    );
    one(
        "",
        200,
        "Last-Modified: {-100}",
        Fresh(90),
        RuleSettings {
            ttl_min_s: 90,
            ..defaults()
        },
    );
    one(
        "",
        200,
        "Last-Modified: {-100}",
        Check,
        RuleSettings {
            heuristic_percent: 0,
            ..defaults()
        },
    );
    one(
        "",
        200,
        "Last-Modified: {-100}",
        Fresh(50),
        RuleSettings {
            heuristic_percent: 50,
            ..defaults()
        },
    );
    let forced = || RuleSettings {
        ttl_override_s: Some(30),
        ..defaults()
    };
    one(
        "Cookie: PHPSESSID=1",
        200,
        "Set-Cookie: a=b",
        Fresh(30),
        forced(),
    );
    one(
        "",
        200,
        "Cache-Control: no-cache, max-age=9",
        Fresh(30),
        forced(),
    );
    one(
        "",
        200,
        "Cache-Control: no-store",
        Not("no-store"),
        forced(),
    );
    one(
        "",
        200,
        "Cache-Control: no-store, max-age=9",
        Fresh(9),
        RuleSettings {
            store_no_store: true,
            ..defaults()
        },
    );
    one(
        "",
        200,
        "Cache-Control: private, max-age=9",
        Fresh(9),
        RuleSettings {
            store_private: true,
            ..defaults()
        },
    );
    one(
        "",
        200,
        "Cache-Control: max-age=0 | ETag: \"a\"",
        Not("stale"),
        RuleSettings {
            keep_for_validation: false,
            ..defaults()
        },
    );
    // Parts are kept by the rules for whole ones (RFC 9111 sections 3 and 3.3).
    let parts = || RuleSettings {
        store_parts: true,
        ..defaults()
    };
    one("", 206, "Cache-Control: max-age=9", Fresh(9), parts());
    one(
        "",
        206,
        "Cache-Control: s-maxage=9, max-age=1 | Content-Range: bytes 0-1/2",
        Fresh(9),
        parts(),
    );
    one(
        "",
        206,
        "Cache-Control: no-store, max-age=9",
        Not("no-store"),
        parts(),
    );
    one("", 206, "Last-Modified: {-1000}", Fresh(100), parts());
    one(
        "",
        206,
        "Cache-Control: no-cache | ETag: \"a\"",
        Check,
        parts(),
    );
    one("", 206, "", Not("no-lifetime"), parts());
    one(
        "Authorization: Basic eDp5",
        206,
        "Cache-Control: public, max-age=9",
        Fresh(9),
        parts(),
    );
    one(
        "",
        206,
        "Cache-Control: max-age=9 | ETag: \"a\"",
        Not("partial"),
        defaults(),
    );
    one(
        "Cookie: own=1",
        200,
        "Cache-Control: max-age=9",
        Not("session-cookie"),
        RuleSettings {
            session_cookies: Some(vec!["o*".into()]),
            ..defaults()
        },
    );
}
