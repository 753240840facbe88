use super::*;
use crate::{RequestHead, Version};
use Precondition::{Failed, NotModified, Proceed};

/// Last-Modified of everything here, one second before, and one after.
const MODIFIED: i64 = 784_111_777;
const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

const STRONG: Validators<'_> = Validators {
    entity_tag: Some(EntityTag {
        weak: false,
        opaque: b"x",
    }),
    last_modified: Some(MODIFIED),
    now: MODIFIED + 1_000_000,
};
const WEAK: Validators<'_> = Validators {
    entity_tag: Some(EntityTag {
        weak: true,
        opaque: b"x",
    }),
    ..STRONG
};
const DATED: Validators<'_> = Validators {
    entity_tag: None,
    ..STRONG
};
const BARE: Validators<'_> = Validators {
    last_modified: None,
    ..DATED
};

fn head(method: &str, fields: &[(&str, &str)]) -> RequestHead {
    RequestHead::build(method, "/", Version::Http11, fields)
}

fn check(
    method: &str,
    fields: &[(&str, &str)],
    current: Option<&Validators<'_>>,
    want: Precondition,
) {
    assert_eq!(
        evaluate(head(method, fields).view(), current),
        want,
        "{method} {fields:?} {current:?}"
    );
}

#[test]
fn without_fields_everything_proceeds() {
    for method in ["GET", "PUT"] {
        check(method, &[("accept", "*/*")], Some(&STRONG), Proceed);
        check(method, &[], None, Proceed);
    }
}

#[test]
fn if_match() {
    let rows = [
        ("\"x\"", Some(&STRONG), Proceed),
        ("\"a\", \"x\"", Some(&STRONG), Proceed),
        ("\"a\"", Some(&STRONG), Failed),
        ("W/\"x\"", Some(&STRONG), Failed),
        ("\"x\"", Some(&WEAK), Failed),
        ("\"x\"", Some(&DATED), Failed),
        ("\"x\"", None, Failed),
        ("*", Some(&STRONG), Proceed),
        ("*", Some(&BARE), Proceed),
        ("*", None, Failed),
        ("\"x\", *", Some(&STRONG), Failed),
        ("\"x\", y", Some(&STRONG), Failed),
        ("x", Some(&STRONG), Failed),
        ("", Some(&STRONG), Failed),
    ];
    for (value, current, want) in rows {
        for method in ["GET", "HEAD", "PUT", "DELETE"] {
            check(method, &[("If-Match", value)], current, want);
        }
    }
}

#[test]
fn if_none_match() {
    let rows = [
        ("\"x\"", Some(&STRONG), NotModified),
        ("W/\"x\"", Some(&STRONG), NotModified),
        ("\"x\"", Some(&WEAK), NotModified),
        ("\"a\", W/\"x\"", Some(&STRONG), NotModified),
        ("\"a\"", Some(&STRONG), Proceed),
        ("\"x\"", Some(&DATED), Proceed),
        ("\"x\"", None, Proceed),
        ("*", Some(&BARE), NotModified),
        ("*", None, Proceed),
        ("\"x\", y", Some(&STRONG), Proceed),
        ("x", Some(&STRONG), Proceed),
        ("", Some(&STRONG), Proceed),
    ];
    for (value, current, want) in rows {
        check("GET", &[("If-None-Match", value)], current, want);
        check("HEAD", &[("If-None-Match", value)], current, want);
        let unsafe_want = if want == NotModified { Failed } else { want };
        check("PUT", &[("If-None-Match", value)], current, unsafe_want);
    }
}

#[test]
fn lists_may_span_lines() {
    check(
        "GET",
        &[
            ("If-None-Match", "\"a\""),
            ("X", "\"x\""),
            ("If-None-Match", "\"x\""),
        ],
        Some(&STRONG),
        NotModified,
    );
    check(
        "GET",
        &[
            ("If-None-Match", "\"a\""),
            ("X", "\"x\""),
            ("If-None-Match", "\"b\""),
        ],
        Some(&STRONG),
        Proceed,
    );
    check(
        "GET",
        &[("If-None-Match", "\"x\""), ("If-None-Match", "?")],
        Some(&STRONG),
        Proceed,
    );
    check(
        "GET",
        &[("If-None-Match", "*"), ("If-None-Match", "\"x\"")],
        Some(&STRONG),
        Proceed,
    );
    check(
        "PUT",
        &[("If-Match", "\"a\""), ("If-Match", "\"x\"")],
        Some(&STRONG),
        Proceed,
    );
}

#[test]
fn if_modified_since() {
    let rows = [
        (THEN, Some(&STRONG), NotModified),
        (AFTER, Some(&STRONG), NotModified),
        (BEFORE, Some(&STRONG), Proceed),
        ("Sunday, 06-Nov-94 08:49:37 GMT", Some(&DATED), NotModified),
        ("Sun Nov  6 08:49:37 1994", Some(&DATED), NotModified),
        ("yesterday", Some(&STRONG), Proceed),
        (THEN, Some(&BARE), Proceed),
        (THEN, None, Proceed),
    ];
    for (value, current, want) in rows {
        check("GET", &[("If-Modified-Since", value)], current, want);
        check("HEAD", &[("If-Modified-Since", value)], current, want);
        check("POST", &[("If-Modified-Since", value)], current, Proceed);
    }
    check(
        "GET",
        &[("If-Modified-Since", THEN), ("If-Modified-Since", THEN)],
        Some(&STRONG),
        Proceed,
    );
}

#[test]
fn if_unmodified_since() {
    let rows = [
        (THEN, Some(&STRONG), Proceed),
        (AFTER, Some(&STRONG), Proceed),
        (BEFORE, Some(&STRONG), Failed),
        ("yesterday", Some(&STRONG), Proceed),
        (BEFORE, Some(&BARE), Proceed),
        (BEFORE, None, Proceed),
    ];
    for (value, current, want) in rows {
        check("GET", &[("If-Unmodified-Since", value)], current, want);
        check("PUT", &[("If-Unmodified-Since", value)], current, want);
    }
}

#[test]
fn the_order_of_the_standard() {
    // A tag beats a date of the same sense.
    check(
        "PUT",
        &[("If-Unmodified-Since", BEFORE), ("If-Match", "\"x\"")],
        Some(&STRONG),
        Proceed,
    );
    check(
        "PUT",
        &[("If-Unmodified-Since", THEN), ("If-Match", "\"a\"")],
        Some(&STRONG),
        Failed,
    );
    check(
        "GET",
        &[("If-Modified-Since", THEN), ("If-None-Match", "\"a\"")],
        Some(&STRONG),
        Proceed,
    );
    check(
        "GET",
        &[("If-Modified-Since", BEFORE), ("If-None-Match", "\"x\"")],
        Some(&STRONG),
        NotModified,
    );
    // The guard comes first, then what the client has.
    check(
        "GET",
        &[("If-None-Match", "\"x\""), ("If-Match", "\"a\"")],
        Some(&STRONG),
        Failed,
    );
    check(
        "GET",
        &[("If-None-Match", "\"x\""), ("If-Match", "\"x\"")],
        Some(&STRONG),
        NotModified,
    );
    check(
        "GET",
        &[("If-Modified-Since", THEN), ("If-Unmodified-Since", BEFORE)],
        Some(&STRONG),
        Failed,
    );
    check(
        "GET",
        &[("If-Modified-Since", THEN), ("If-Unmodified-Since", THEN)],
        Some(&STRONG),
        NotModified,
    );
}

#[test]
fn if_range() {
    let fresh = Validators {
        now: MODIFIED,
        ..STRONG
    };
    let next_second = Validators {
        now: MODIFIED + 1,
        ..STRONG
    };
    let rows = [
        ("\"x\"", &STRONG, true),
        ("\"a\"", &STRONG, false),
        ("W/\"x\"", &STRONG, false),
        ("\"x\"", &WEAK, false),
        ("W/\"x\"", &WEAK, false),
        ("\"x\"", &DATED, false),
        ("\"x\", \"y\"", &STRONG, false),
        ("*", &STRONG, false),
        (THEN, &STRONG, true),
        (THEN, &DATED, true),
        (BEFORE, &STRONG, false),
        (AFTER, &STRONG, false),
        (THEN, &BARE, false),
        (THEN, &fresh, false),
        (THEN, &next_second, true),
        ("soon", &STRONG, false),
        ("", &STRONG, false),
    ];
    for (value, current, want) in rows {
        assert_eq!(
            range_applies(head("GET", &[("If-Range", value)]).view(), current),
            want,
            "{value} {current:?}"
        );
    }
    assert!(range_applies(head("GET", &[]).view(), &BARE));
    assert!(!range_applies(
        head("GET", &[("If-Range", "\"x\""), ("If-Range", "\"x\"")]).view(),
        &STRONG
    ));
}
