//! Which stored responses answer which requests, and when (RFC 9111 sections 4, 4.2.4 and 5.2.1;
//! RFC 5861).

use super::{NOW_MS, judge, request};
use saker_cache_rules::rules::{
    ClientControl, RuleSettings, Use, judge_use, may_serve_after_error,
    reuse::{Why, is_error},
};
use saker_http::Status;

/// Section, response, seconds later, request, what follows.
type Row = (&'static str, &'static str, i64, &'static str, Use);

const EXPIRED: Use = Use::Validate(Why::Expired);
const GONE: Use = Use::NotUsable(Why::Gone);
const NO_CACHE: Use = Use::Validate(Why::RequestNoCache);
const TOO_OLD: Use = Use::Validate(Why::RequestMaxAge);
const NOT_FRESH_ENOUGH: Use = Use::Validate(Why::RequestMinFresh);
const PAGE: &str = "Cache-Control: max-age=60 | ETag: \"a\"";

fn run(rows: &[Row], settings: &RuleSettings) {
    for (section, answer, later_s, asked, want) in rows {
        let life = judge("", 200, answer, settings).expect("stored");
        let found = judge_use(
            request("GET", asked).view(),
            &life,
            settings,
            NOW_MS + later_s * 1000,
        );
        assert_eq!(
            found, *want,
            "{section}: [{answer}] {later_s} s later [{asked}]"
        );
    }
}

#[test]
fn time_passes() {
    let rows: &[Row] = &[
        ("4.2", PAGE, 0, "", Use::Fresh),
        ("4.2", PAGE, 59, "", Use::Fresh),
        ("4.2", PAGE, 60, "", EXPIRED),
        ("4.2", PAGE, 3659, "", EXPIRED),
        ("4.2", PAGE, 3660, "", GONE),
        ("4.2", PAGE, -5, "", Use::Fresh),
        ("4.2", "Cache-Control: max-age=60", 60, "", GONE),
        (
            "4.2",
            "Cache-Control: max-age=60 | Age: 50",
            9,
            "",
            Use::Fresh,
        ),
        (
            "4.2",
            "Cache-Control: max-age=60 | Age: 50 | ETag: \"a\"",
            10,
            "",
            EXPIRED,
        ),
        (
            "4.2",
            "Cache-Control: max-age=2147483648",
            2147483647,
            "",
            Use::Fresh,
        ),
        (
            "5861 3",
            "Cache-Control: max-age=60, stale-while-revalidate=30",
            60,
            "",
            Use::Stale,
        ),
        (
            "5861 3",
            "Cache-Control: max-age=60, stale-while-revalidate=30",
            89,
            "",
            Use::Stale,
        ),
        (
            "5861 3",
            "Cache-Control: max-age=60, stale-while-revalidate=30",
            90,
            "",
            GONE,
        ),
        (
            "5861 3",
            "Cache-Control: max-age=60, stale-while-revalidate=30 | ETag: \"a\"",
            90,
            "",
            EXPIRED,
        ),
        (
            "5861 3",
            "Cache-Control: max-age=60, stale-while-revalidate",
            60,
            "",
            GONE,
        ),
        (
            "5861 3",
            "Cache-Control: max-age=60, stale-while-revalidate=-1",
            60,
            "",
            GONE,
        ),
        (
            "5861 3",
            "Cache-Control: s-maxage=60, stale-while-revalidate=30",
            70,
            "",
            Use::Stale,
        ),
        (
            "4.2.4",
            "Cache-Control: max-age=60, stale-while-revalidate=30, must-revalidate",
            60,
            "",
            GONE,
        ),
        (
            "4.2.4",
            "Cache-Control: max-age=60, stale-while-revalidate=30, proxy-revalidate | ETag: \"a\"",
            60,
            "",
            EXPIRED,
        ),
        (
            "4.2.4",
            "Cache-Control: no-cache, stale-while-revalidate=30 | ETag: \"a\"",
            0,
            "",
            Use::Validate(Why::ResponseNoCache),
        ),
        (
            "5.2.2.4",
            "Cache-Control: no-cache, max-age=60 | ETag: \"a\"",
            0,
            "",
            Use::Validate(Why::ResponseNoCache),
        ),
        (
            "5.2.2.4",
            "Cache-Control: no-cache=\"foo\", max-age=60",
            0,
            "",
            Use::Fresh,
        ),
        (
            "surrogate",
            "Surrogate-Control: max-age=60+30",
            80,
            "",
            Use::Stale,
        ),
        (
            "9213",
            "CDN-Cache-Control: max-age=60, stale-while-revalidate=30",
            80,
            "",
            Use::Stale,
        ),
        ("5.3", "Expires: {+60} | ETag: \"a\"", 59, "", Use::Fresh),
        ("5.3", "Expires: {+60} | ETag: \"a\"", 60, "", EXPIRED),
        (
            "5.2.1.7",
            PAGE,
            0,
            "Cache-Control: only-if-cached",
            Use::Fresh,
        ),
        (
            "5.2.1.7",
            PAGE,
            60,
            "Cache-Control: only-if-cached",
            Use::OnlyIfCached504,
        ),
        (
            "5.2.1.7",
            PAGE,
            4000,
            "Cache-Control: Only-If-Cached",
            Use::OnlyIfCached504,
        ),
    ];
    run(rows, &RuleSettings::default());
    let graceful = RuleSettings {
        stale_while_revalidate_s: 10,
        stated_stale_while_revalidate_s: 10,
        ..RuleSettings::default()
    };
    let unchosen = RuleSettings {
        stated_stale_while_revalidate_s: 0,
        ..graceful.clone()
    };
    run(&[("a stated lifetime", PAGE, 69, "", EXPIRED)], &unchosen);
    let rows: &[Row] = &[
        ("grace", PAGE, 69, "", Use::Stale),
        ("grace", PAGE, 70, "", EXPIRED),
        (
            "grace",
            "Cache-Control: max-age=60, stale-while-revalidate=5 | ETag: \"a\"",
            66,
            "",
            EXPIRED,
        ),
        (
            "grace",
            "Cache-Control: max-age=60, must-revalidate | ETag: \"a\"",
            61,
            "",
            EXPIRED,
        ),
        (
            "grace",
            "Cache-Control: s-maxage=60 | ETag: \"a\"",
            61,
            "",
            Use::Stale,
        ),
        (
            "grace",
            "Cache-Control: max-age=60, stale-while-revalidate=x | ETag: \"a\"",
            61,
            "",
            EXPIRED,
        ),
        (
            "grace",
            "Cache-Control: max-age=60, proxy-revalidate | ETag: \"a\"",
            61,
            "",
            EXPIRED,
        ),
    ];
    run(rows, &graceful);
}

#[test]
fn what_clients_say_is_ignored_unless_settings_say_otherwise() {
    let rows: &[Row] = &[
        ("5.2.1", PAGE, 10, "Cache-Control: no-cache", Use::Fresh),
        ("5.2.1", PAGE, 10, "Cache-Control: max-age=0", Use::Fresh),
        (
            "5.2.1",
            PAGE,
            10,
            "Cache-Control: min-fresh=100",
            Use::Fresh,
        ),
        ("5.2.1", PAGE, 10, "Pragma: no-cache", Use::Fresh),
        ("5.2.1", PAGE, 70, "Cache-Control: max-stale", EXPIRED),
    ];
    run(rows, &RuleSettings::default());
}

#[test]
fn directives_of_requests_where_honored() {
    let rows: &[Row] = &[
        ("5.2.1.1", PAGE, 10, "Cache-Control: max-age=10", Use::Fresh),
        ("5.2.1.1", PAGE, 11, "Cache-Control: max-age=10", TOO_OLD),
        ("5.2.1.1", PAGE, 10, "Cache-Control: max-age=0", TOO_OLD),
        ("5.2.1.1", PAGE, 0, "Cache-Control: max-age=0", TOO_OLD),
        ("5.2.1.1", PAGE, 10, "Cache-Control: max-age=x", TOO_OLD),
        (
            "5.2.1.1",
            PAGE,
            10,
            "Cache-Control: max-age=100",
            Use::Fresh,
        ),
        ("5.2.1.1", PAGE, 70, "Cache-Control: max-age=100", EXPIRED),
        (
            "5.2.1.1",
            PAGE,
            11,
            "Cache-Control: max-age=10, max-stale=5",
            Use::Fresh,
        ),
        (
            "5.2.1.1",
            "Cache-Control: max-age=60 | Age: 20",
            0,
            "Cache-Control: max-age=10",
            TOO_OLD,
        ),
        ("5.2.1.2", PAGE, 70, "Cache-Control: max-stale", Use::Stale),
        (
            "5.2.1.2",
            PAGE,
            70,
            "Cache-Control: max-stale=10",
            Use::Stale,
        ),
        ("5.2.1.2", PAGE, 71, "Cache-Control: max-stale=10", EXPIRED),
        ("5.2.1.2", PAGE, 61, "Cache-Control: max-stale=0", EXPIRED),
        ("5.2.1.2", PAGE, 61, "Cache-Control: max-stale=x", EXPIRED),
        ("5.2.1.2", PAGE, 4000, "Cache-Control: max-stale", GONE),
        (
            "4.2.4",
            "Cache-Control: max-age=60, must-revalidate | ETag: \"a\"",
            70,
            "Cache-Control: max-stale",
            EXPIRED,
        ),
        (
            "4.2.4",
            "Cache-Control: max-age=60, proxy-revalidate | ETag: \"a\"",
            70,
            "Cache-Control: max-stale",
            EXPIRED,
        ),
        (
            "4.2.4",
            "Cache-Control: s-maxage=60 | ETag: \"a\"",
            70,
            "Cache-Control: max-stale",
            EXPIRED,
        ),
        (
            "5.2.1.3",
            PAGE,
            10,
            "Cache-Control: min-fresh=49",
            Use::Fresh,
        ),
        (
            "5.2.1.3",
            PAGE,
            10,
            "Cache-Control: min-fresh=50",
            NOT_FRESH_ENOUGH,
        ),
        (
            "5.2.1.3",
            PAGE,
            10,
            "Cache-Control: min-fresh=9999999999",
            NOT_FRESH_ENOUGH,
        ),
        (
            "5.2.1.3",
            PAGE,
            10,
            "Cache-Control: min-fresh=x",
            Use::Fresh,
        ),
        ("5.2.1.4", PAGE, 10, "Cache-Control: no-cache", NO_CACHE),
        ("5.2.1.4", PAGE, 10, "Cache-Control: No-Cache", NO_CACHE),
        (
            "5.2.1.4",
            PAGE,
            10,
            "Cache-Control: x=\"no-cache\"",
            Use::Fresh,
        ),
        (
            "5.2.1.4",
            PAGE,
            10,
            "Cache-Control: foo | Cache-Control: no-cache",
            NO_CACHE,
        ),
        ("5.2.1.5", PAGE, 10, "Cache-Control: no-store", Use::Fresh),
        (
            "5.2.1.7",
            PAGE,
            10,
            "Cache-Control: only-if-cached, no-cache",
            Use::OnlyIfCached504,
        ),
        (
            "5.2.1.7",
            PAGE,
            70,
            "Cache-Control: only-if-cached, max-stale",
            Use::Stale,
        ),
        ("5.4", PAGE, 10, "Pragma: no-cache", NO_CACHE),
        ("5.4", PAGE, 10, "Pragma: foo", Use::Fresh),
        (
            "5.4",
            PAGE,
            10,
            "Pragma: no-cache | Cache-Control: max-age=100",
            Use::Fresh,
        ),
        (
            "8246 2",
            "Cache-Control: max-age=60, immutable",
            10,
            "Cache-Control: max-age=0",
            Use::Fresh,
        ),
        (
            "8246 2",
            "Cache-Control: max-age=60, immutable",
            10,
            "Cache-Control: no-cache",
            NO_CACHE,
        ),
        (
            "8246 2",
            "Cache-Control: max-age=60, immutable | ETag: \"a\"",
            70,
            "Cache-Control: max-age=100",
            EXPIRED,
        ),
    ];
    run(
        rows,
        &RuleSettings {
            client: ClientControl::Honored,
            ..RuleSettings::default()
        },
    );
}

#[test]
fn for_whom() {
    let (session, credentials) = (
        Use::NotUsable(Why::SessionCookie),
        Use::NotUsable(Why::Authorization),
    );
    let rows: &[Row] = &[
        ("ours", PAGE, 0, "Cookie: PHPSESSID=1", session),
        ("ours", PAGE, 0, "Cookie: a=1", Use::Fresh),
        ("ours", PAGE, 0, "Authorization: x", credentials),
        (
            "ours",
            "Cache-Control: public, max-age=60",
            0,
            "Cookie: PHPSESSID=1 | Authorization: x",
            Use::Fresh,
        ),
        (
            "ours",
            "Cache-Control: s-maxage=60",
            0,
            "Cookie: PHPSESSID=1 | Authorization: x",
            Use::Fresh,
        ),
        (
            "ours",
            "Cache-Control: max-age=60, must-revalidate",
            0,
            "Authorization: x",
            Use::Fresh,
        ),
        (
            "ours",
            "Cache-Control: max-age=60, must-revalidate",
            0,
            "Cookie: PHPSESSID=1",
            session,
        ),
        (
            "ours",
            "CDN-Cache-Control: max-age=60",
            0,
            "Cookie: PHPSESSID=1",
            Use::Fresh,
        ),
        (
            "ours",
            "Cache-Control: max-age=60 | Vary: Cookie",
            0,
            "Cookie: PHPSESSID=1",
            Use::Fresh,
        ),
        (
            "5.2.1.7",
            PAGE,
            0,
            "Cookie: PHPSESSID=1 | Cache-Control: only-if-cached",
            Use::OnlyIfCached504,
        ),
    ];
    run(rows, &RuleSettings::default());
}

#[test]
fn methods() {
    let settings = RuleSettings::default();
    let life = judge("", 200, PAGE, &settings).expect("stored");
    for (method, want) in [
        ("GET", Use::Fresh),
        ("HEAD", Use::Fresh),
        ("POST", Use::NotUsable(Why::Method)),
        ("PUT", Use::NotUsable(Why::Method)),
    ] {
        assert_eq!(
            judge_use(request(method, "").view(), &life, &settings, NOW_MS),
            want,
            "{method}"
        );
    }
}

#[test]
fn errors_of_the_origin() {
    // Response, seconds later, request, whether it may be served.
    type Row = (&'static str, i64, &'static str, bool);
    let rows: &[Row] = &[
        ("Cache-Control: max-age=60, stale-if-error=30", 10, "", true),
        ("Cache-Control: max-age=60, stale-if-error=30", 89, "", true),
        (
            "Cache-Control: max-age=60, stale-if-error=30",
            90,
            "",
            false,
        ),
        ("Cache-Control: max-age=60, stale-if-error=x", 60, "", false),
        (
            "Cache-Control: max-age=60, stale-if-error=30, must-revalidate",
            60,
            "",
            false,
        ),
        (
            "Cache-Control: max-age=60, stale-if-error=30, proxy-revalidate",
            60,
            "",
            false,
        ),
        (
            "Cache-Control: no-cache, stale-if-error=30 | ETag: \"a\"",
            0,
            "",
            false,
        ),
        (
            "Cache-Control: s-maxage=60, stale-if-error=30",
            60,
            "",
            true,
        ),
        (
            "Cache-Control: max-age=60, stale-while-revalidate=30",
            60,
            "",
            false,
        ),
        ("Cache-Control: max-age=60", 60, "", false),
        (
            "Cache-Control: max-age=60, stale-if-error=30",
            60,
            "Cookie: PHPSESSID=1",
            false,
        ),
        (
            "Cache-Control: max-age=60",
            70,
            "Cache-Control: stale-if-error=30",
            false,
        ),
    ];
    let check = |rows: &[Row], settings: &RuleSettings| {
        for (answer, later_s, asked, want) in rows {
            let life = judge("", 200, answer, settings).expect("stored");
            let found = may_serve_after_error(
                request("GET", asked).view(),
                &life,
                settings,
                NOW_MS + later_s * 1000,
            );
            assert_eq!(found, *want, "[{answer}] {later_s} s later [{asked}]");
        }
    };
    check(rows, &RuleSettings::default());
    let honored: &[Row] = &[
        (
            "Cache-Control: max-age=60",
            70,
            "Cache-Control: stale-if-error=30",
            true,
        ),
        (
            "Cache-Control: max-age=60",
            90,
            "Cache-Control: stale-if-error=30",
            false,
        ),
        (
            "Cache-Control: s-maxage=60",
            70,
            "Cache-Control: stale-if-error=30",
            false,
        ),
    ];
    check(
        honored,
        &RuleSettings {
            client: ClientControl::Honored,
            ..RuleSettings::default()
        },
    );
    check(
        &[("Cache-Control: max-age=60", 65, "", true)],
        &RuleSettings {
            stale_if_error_s: 10,
            ..RuleSettings::default()
        },
    );
    let errors: Vec<u16> = (200..600)
        .filter(|status| is_error(Status(*status)))
        .collect();
    assert_eq!(errors, [500, 502, 503, 504]);
}
