use super::*;
use crate::{RequestHead, Version};
use proptest::prelude::*;

const OURS: [Coding; 4] = [Coding::Brotli, Coding::Zstd, Coding::Gzip, Coding::Identity];

fn parse(value: &str) -> AcceptedCodings {
    AcceptedCodings::parse(Some(value.as_bytes()))
}

/// identity, gzip, br, zstd.
fn row(accepted: AcceptedCodings) -> [u16; 4] {
    [
        accepted.identity,
        accepted.gzip,
        accepted.brotli,
        accepted.zstd,
    ]
}

#[test]
fn qualities() {
    let cases = [
        ("", [1000, 0, 0, 0]),
        (" , ,", [1000, 0, 0, 0]),
        ("gzip", [1, 1000, 0, 0]),
        ("gzip, deflate, br, zstd", [1, 1000, 1000, 1000]),
        ("gzip;q=0.5,br;q=0.25", [1, 500, 250, 0]),
        ("GZIP ; Q=0.5", [1, 500, 0, 0]),
        ("x-gzip", [1, 1000, 0, 0]),
        ("\tgzip\t;\tq=0.125\t", [1, 125, 0, 0]),
        ("deflate", [1, 0, 0, 0]),
        ("*", [1000, 1000, 1000, 1000]),
        ("*;q=0.5", [500, 500, 500, 500]),
        ("*;q=0", [0, 0, 0, 0]),
        ("gzip, *;q=0", [0, 1000, 0, 0]),
        ("*;q=0, gzip", [0, 1000, 0, 0]),
        ("*, gzip;q=0", [1000, 0, 1000, 1000]),
        ("*;q=0, identity;q=0.5", [500, 0, 0, 0]),
        ("identity;q=0", [0, 0, 0, 0]),
        ("identity;q=0, *", [0, 1000, 1000, 1000]),
        ("identity;q=0.5, gzip;q=1.0", [500, 1000, 0, 0]),
        ("gzip;q=0", [1, 0, 0, 0]),
        ("gzip;q=0.001", [1, 1, 0, 0]),
        ("gzip;q=1.000", [1, 1000, 0, 0]),
        ("gzip;q=1.", [1, 1000, 0, 0]),
        ("gzip;q=0.", [1, 0, 0, 0]),
        ("gzip;q=0.33333", [1, 333, 0, 0]),
        ("gzip;q=0, gzip", [1, 0, 0, 0]),
        // An empty weight is none.
        ("gzip;", [1, 1000, 0, 0]),
        ("gzip; ", [1, 1000, 0, 0]),
        ("gzip;q=", [1, 1000, 0, 0]),
        // Malformed weights: the member counts as not there.
        ("gzip;q=2", [1, 0, 0, 0]),
        ("gzip;q=1.5", [1, 0, 0, 0]),
        ("gzip;q=-1", [1, 0, 0, 0]),
        ("gzip;q=0.x", [1, 0, 0, 0]),
        ("gzip;q", [1, 0, 0, 0]),
        ("gzip;q=0,5", [1, 0, 0, 0]),
        ("gzip;x=1", [1, 0, 0, 0]),
        ("identity;q=oops", [1, 0, 0, 0]),
        ("gzipp, zip, gzi", [1, 0, 0, 0]),
    ];
    for (value, want) in cases {
        assert_eq!(row(parse(value)), want, "{value}");
    }
    assert_eq!(row(AcceptedCodings::parse(None)), [1000, 0, 0, 0]);
}

#[test]
fn best_is_by_quality_then_by_our_order() {
    let cases = [
        ("gzip, br, zstd", Some(Coding::Brotli)),
        ("gzip, zstd", Some(Coding::Zstd)),
        ("gzip, br;q=0.9", Some(Coding::Gzip)),
        ("gzip;q=0.1", Some(Coding::Gzip)),
        ("gzip;q=0.1, identity;q=0.2", Some(Coding::Identity)),
        ("gzip;q=0", Some(Coding::Identity)),
        ("", Some(Coding::Identity)),
        ("*;q=0", None),
        ("deflate, identity;q=0", None),
    ];
    for (value, want) in cases {
        assert_eq!(parse(value).best(&OURS), want, "{value}");
    }
    assert_eq!(parse("br").best(&[Coding::Gzip]), None);
    assert_eq!(parse("br").best(&[]), None);
    assert_eq!(
        AcceptedCodings::parse(None).best(&OURS),
        Some(Coding::Identity)
    );
}

#[test]
fn several_lines_are_one_list() {
    let head = RequestHead::build(
        "GET",
        "/",
        Version::Http11,
        &[
            ("Accept-Encoding", "*;q=0"),
            ("accept-encoding", "br;q=0.5"),
        ],
    );
    assert_eq!(row(AcceptedCodings::of(head.view())), [0, 0, 500, 0]);
    let without = RequestHead::build("GET", "/", Version::Http11, &[]);
    assert_eq!(
        AcceptedCodings::of(without.view()),
        AcceptedCodings::parse(None)
    );
}

#[test]
fn tokens_and_suffixes_are_told_apart() {
    for coding in OURS {
        assert_eq!(
            parse(&format!("{}, *;q=0", coding.token())).best(&OURS),
            Some(coding)
        );
        assert_eq!(coding.suffix().is_empty(), coding == Coding::Identity);
    }
}

proptest! {
    #[test]
    fn three_digits_are_read_exactly(thousandths in 0u16..1000) {
        prop_assert_eq!(parse(&format!("br;q=0.{thousandths:03}")).brotli, thousandths);
    }

    #[test]
    fn qualities_stay_in_bounds(value in "(gzip|br|identity|\\*|x|;|q=|0|1|\\.|,| |\t){0,24}") {
        let accepted = parse(&value);
        prop_assert!(row(accepted).iter().all(|quality| *quality <= 1000));
        if let Some(best) = accepted.best(&OURS) {
            prop_assert!(OURS.iter().all(|coding| accepted.quality(*coding) <= accepted.quality(best)));
            prop_assert!(accepted.quality(best) > 0);
        }
    }

    #[test]
    fn no_value_makes_it_panic(value: Vec<u8>) {
        AcceptedCodings::parse(Some(&value));
    }
}
