use super::*;
use proptest::prelude::*;

const NOW: i64 = 1_790_000_000; // September 2026

#[test]
fn formats() {
    let cases = [
        (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
        (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
        (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
        (FIRST_S, "Sat, 01 Jan 0000 00:00:00 GMT"),
        (LAST_S, "Fri, 31 Dec 9999 23:59:59 GMT"),
        (i64::MIN, "Sat, 01 Jan 0000 00:00:00 GMT"),
        (i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
    ];
    for (unix_s, want) in cases {
        assert_eq!(
            std::str::from_utf8(&format_date(unix_s)),
            Ok(want),
            "{unix_s}"
        );
    }
}

#[test]
fn parses_the_three_forms() {
    for text in [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
    ] {
        assert_eq!(
            parse_date(text.as_bytes(), NOW),
            Some(784_111_777),
            "{text}"
        );
    }
    let others = [
        ("Wed Nov 16 08:49:37 1994", 784_975_777),
        ("Mon, 06 Nov 1994 08:49:37 GMT", 784_111_777), // the day's name is not compared
        ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_800),
    ];
    for (text, want) in others {
        assert_eq!(parse_date(text.as_bytes(), NOW), Some(want), "{text}");
    }
}

#[test]
fn programs_write_dates_in_odd_forms() {
    for text in [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 1994 08:49:37 +0200",
        " Sun, 6 Nov 1994 08:49:37 UTC ",
        "Odd 06 Nov 1994 08:49:37 x",
        "Sunday, 06-Nov-94 08:49:37 +0000",
        "Sun Nov  6 08:49:37 1994",
        "Sun Nov 06 08:49:37 1994 GMT",
    ] {
        assert_eq!(
            parse_loosely(text.as_bytes(), NOW),
            Some(784_111_777),
            "{text}"
        );
    }
    for text in [
        "",
        " ",
        "yesterday",
        "784111777",
        "1994-11-06T08:49:37Z",
        "06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 0 Nov 1994 08:49:37 GMT",
    ] {
        assert_eq!(parse_loosely(text.as_bytes(), NOW), None, "{text}");
    }
}

#[test]
fn two_digit_years_are_at_most_50_years_ahead() {
    let cases = [
        ("76", 2076),
        ("77", 1977),
        ("26", 2026),
        ("00", 2000),
        ("99", 1999),
    ];
    for (digits, year) in cases {
        let text = format!("Friday, 01-Jan-{digits} 00:00:00 GMT");
        assert_eq!(
            parse_date(text.as_bytes(), NOW),
            unix(year, 1, 1, 0),
            "{digits}"
        );
    }
}

/// RFC 9111 section 4.2: recipients should match names in any case.
#[test]
fn names_in_any_case() {
    for text in [
        "SUN, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 nOV 1994 08:49:37 gmt",
        "sunday, 06-NOV-94 08:49:37 GMT",
        "sun nov  6 08:49:37 1994",
    ] {
        assert_eq!(
            parse_date(text.as_bytes(), NOW),
            Some(784_111_777),
            "{text}"
        );
    }
}

#[test]
fn refuses_everything_else() {
    let cases = [
        "",
        "0",
        "Sun",
        "now and then",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Wed, 29 Feb 2100 00:00:00 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:00 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, +6 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sunda, 06-Nov-94 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  6 08:49:37 94",
        "Sun Nov  0 08:49:37 1994",
    ];
    for text in cases {
        assert_eq!(parse_date(text.as_bytes(), NOW), None, "{text}");
    }
}

proptest! {
    #[test]
    fn what_is_formatted_is_parsed_back(unix_s in FIRST_S..=LAST_S) {
        prop_assert_eq!(parse_date(&format_date(unix_s), NOW), Some(unix_s));
    }

    #[test]
    fn no_text_makes_it_panic(text: Vec<u8>, now: i64) {
        parse_date(&text, now);
        parse_loosely(&text, now);
    }

    #[test]
    fn near_dates_do_not_panic(text in "(Sun|Sunday)[, ]{1,2}[0-9]{0,3}[ -]?(Nov|Feb)?[ -]?[0-9]{0,5} ?[0-9:]{0,9} ?(GMT)?", now: i64) {
        parse_date(text.as_bytes(), now);
        parse_loosely(text.as_bytes(), now);
    }
}
