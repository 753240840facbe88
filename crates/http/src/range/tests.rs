use super::*;
use RangeOutcome::{Many, One, Unsatisfiable, Whole};
use proptest::prelude::*;

fn bytes(first: u64, last: u64) -> ByteRange {
    ByteRange { first, last }
}

fn check(value: &str, length: u64, want: RangeOutcome) {
    assert_eq!(
        resolve(value.as_bytes(), length, 5),
        want,
        "{value} of {length}"
    );
}

/// The examples of RFC 9110 section 14.1.2, of a representation of 10,000 bytes.
#[test]
fn the_examples_of_the_standard() {
    check("bytes=0-499", 10_000, One(bytes(0, 499)));
    check("bytes=500-999", 10_000, One(bytes(500, 999)));
    check("bytes=-500", 10_000, One(bytes(9_500, 9_999)));
    check("bytes=9500-", 10_000, One(bytes(9_500, 9_999)));
    check(
        "bytes=0-0,-1",
        10_000,
        Many(vec![bytes(0, 0), bytes(9_999, 9_999)]),
    );
    check(
        "bytes= 0-999, 4500-5499, -1000",
        10_000,
        Many(vec![
            bytes(0, 999),
            bytes(4_500, 5_499),
            bytes(9_000, 9_999),
        ]),
    );
    check("bytes=500-600,601-999", 10_000, One(bytes(500, 999)));
    check("bytes=500-700,601-999", 10_000, One(bytes(500, 999)));
}

#[test]
fn one_range() {
    check("bytes=0-", 10, One(bytes(0, 9)));
    check("bytes=0-99", 10, One(bytes(0, 9)));
    check("bytes=9-9", 10, One(bytes(9, 9)));
    check("bytes=-99", 10, One(bytes(0, 9)));
    check("bytes=,,1-2, ,", 10, One(bytes(1, 2)));
    check("BYTES=1-2", 10, One(bytes(1, 2)));
    check("bytes=1-99999999999999999999999", 10, One(bytes(1, 9)));
    check("bytes=-99999999999999999999999", 10, One(bytes(0, 9)));
    check(
        "bytes=18446744073709551614-",
        u64::MAX,
        One(bytes(u64::MAX - 1, u64::MAX - 1)),
    );
}

#[test]
fn not_satisfiable() {
    for value in [
        "bytes=10-",
        "bytes=10-20",
        "bytes=-0",
        "bytes=99-,-0",
        "bytes=99999999999999999999999-",
    ] {
        check(value, 10, Unsatisfiable);
    }
    check("bytes=0-", 0, Unsatisfiable);
    check("bytes=-0", 0, Unsatisfiable);
    check("bytes=99-,1-2", 10, One(bytes(1, 2)));
}

#[test]
fn ignored() {
    let values = [
        "",
        "bytes",
        "bytes=",
        "bytes=,",
        "bytes =0-1",
        "items=0-1",
        "bytes:0-1",
        "bytes=1",
        "bytes=-",
        "bytes=2-1",
        "bytes=a-b",
        "bytes=1-2x",
        "bytes=1 -2",
        "bytes=+1-2",
        "bytes=--1",
        "bytes=1-2-3",
        "bytes=0x1-2",
        "bytes=0-1;2-3",
        "bytes=0-1,x",
        "bytes=99-98,1-2",
    ];
    for value in values {
        check(value, 10, Whole);
    }
    check("bytes=-5", 0, Whole);
}

#[test]
fn the_number_of_parts_is_limited() {
    check(
        "bytes=0-0,2-2,4-4,6-6,8-8",
        10,
        Many([0, 2, 4, 6, 8].map(|at| bytes(at, at)).to_vec()),
    );
    check("bytes=0-0,2-2,4-4,6-6,8-8,9-9", 10, Whole);
    check("bytes=99-,99-,99-,99-,99-,0-0", 10, Whole);
    assert_eq!(resolve(b"bytes=0-1", 10, 0), Whole);
    assert_eq!(resolve(b"bytes=0-1", 10, 1), One(bytes(0, 1)));
    assert_eq!(resolve(b"bytes=0-1,3-4", 10, 1), Whole);
}

#[test]
fn overlapping_ranges_are_joined() {
    check("bytes=0-,0-", 10, One(bytes(0, 9)));
    check("bytes=0-9,0-0", 10, One(bytes(0, 9)));
    check("bytes=0-9,0-9,0-9,5-7", 10, One(bytes(0, 9)));
    check("bytes=0-4,5-9", 10, One(bytes(0, 9)));
    check("bytes=0-5,3-6", 10, One(bytes(0, 6)));
}

#[test]
fn parts_stay_in_the_order_asked() {
    check(
        "bytes=50-59,10-19,30-39",
        100,
        Many(vec![bytes(50, 59), bytes(10, 19), bytes(30, 39)]),
    );
    // 20-29 bridges the second and the third.
    check(
        "bytes=50-59,10-19,30-39,20-29",
        100,
        Many(vec![bytes(50, 59), bytes(10, 39)]),
    );
    check(
        "bytes=50-59,10-19,40-49",
        100,
        Many(vec![bytes(40, 59), bytes(10, 19)]),
    );
    check(
        "bytes=90-91,10-19,50-51,30-39,20-29",
        100,
        Many(vec![bytes(90, 91), bytes(10, 39), bytes(50, 51)]),
    );
    check("bytes=5-9,0-4", 100, One(bytes(0, 9)));
}

proptest! {
    #[test]
    fn what_comes_out_is_sound(specs in prop::collection::vec((0u64..60, 0u64..20), 1..8), length in 1u64..50) {
        let text = specs.iter().map(|(first, more)| format!("{first}-{}", first + more)).collect::<Vec<_>>().join(",");
        let covered = |at: u64| specs.iter().any(|(first, more)| (*first..=first + more).contains(&at));
        let parts = match resolve(format!("bytes={text}").as_bytes(), length, 10) {
            One(range) => vec![range],
            Many(ranges) => { prop_assert!(ranges.len() > 1); ranges }
            Unsatisfiable => { prop_assert!(specs.iter().all(|spec| spec.0 >= length)); return Ok(()); }
            Whole => {
                let sum: u64 = specs.iter().filter(|spec| spec.0 < length).map(|spec| spec.1.min(length - 1 - spec.0) + 1).sum();
                prop_assert!(sum > length);
                return Ok(());
            }
        };
        // Every byte asked for is there once, no other is, and no two parts touch.
        for at in 0..length {
            let times = parts.iter().filter(|part| (part.first..=part.last).contains(&at)).count();
            prop_assert_eq!(times, usize::from(covered(at)));
        }
        for (index, one) in parts.iter().enumerate() {
            prop_assert!(one.first <= one.last && one.last < length && !one.is_empty());
            prop_assert!(parts[index + 1..].iter().all(|two| joined(*one, *two).is_none()));
        }
    }

    #[test]
    fn no_value_makes_it_panic(value in "(bytes=)?[-0-9, x]{0,40}", length: u64, parts_max in 0usize..10) {
        resolve(value.as_bytes(), length, parts_max);
    }
}

/// nginx 1.22's outcomes, of 11 bytes.
#[test]
fn ranges_as_asked() {
    let check = |value: &str, length, want: RangeOutcome| {
        let found = resolve_by(RangeRules::AsAsked, value.as_bytes(), length, 3);
        assert_eq!(found, want, "{value} of {length}");
    };
    for invalid in [
        "-",
        "a",
        "5-2",
        "1-3,",
        ",1-3",
        "1-3,,5-6",
        "1-2,x",
        "1-2;3-4",
        "-0",
        "11-",
        "99-100",
        "1-99999999999999999999",
        "-99999999999999999999",
        "- 5",
        "1 2-3",
        " ",
        "1-2 3",
    ] {
        check(&format!("bytes={invalid}"), 11, Unsatisfiable);
    }
    check("bytes=", 11, Whole);
    check("items=1-2", 11, Whole);
    check("bytes= 1 - 3 ", 11, One(bytes(1, 3)));
    check("BYTES=-100", 11, One(bytes(0, 10)));
    check("bytes=3-", 11, One(bytes(3, 10)));
    check("bytes=1-3,2-4", 11, Many(vec![bytes(1, 3), bytes(2, 4)]));
    check("bytes=1-2,99-100", 11, One(bytes(1, 2)));
    // More bytes than the whole has.
    check("bytes=0-,0-", 11, Whole);
    check("bytes=0-8,2-4", 11, Whole);
    check("bytes=0-7,2-4", 11, Many(vec![bytes(0, 7), bytes(2, 4)]));
    // More parts than allowed; those that are unsatisfiable do not count.
    check("bytes=0-0,2-2,4-4,6-6", 11, Whole);
    check(
        "bytes=0-0,2-2,4-4,66-66",
        11,
        Many(vec![bytes(0, 0), bytes(2, 2), bytes(4, 4)]),
    );
    check("bytes=0-0", 0, Whole);
    check("bytes=-1", 0, Whole);
    check("bytes=1-2", 0, Unsatisfiable);
    let none = resolve_by(RangeRules::AsAsked, b"bytes=x", 11, 0);
    assert_eq!(none, Whole);
}

proptest! {
    #[test]
    fn what_is_sent_as_asked_is_no_more_than_the_whole(
        value in "bytes=[0-9, -]{0,24}", length in 0u64..40, parts_max in 0usize..6
    ) {
        let outcome = resolve_by(RangeRules::AsAsked, value.as_bytes(), length, parts_max);
        let parts = match outcome {
            One(part) => vec![part],
            Many(parts) => { prop_assert!(parts.len() > 1 && parts.len() <= parts_max); parts }
            Whole | Unsatisfiable => return Ok(()),
        };
        prop_assert!(parts.iter().all(|part| part.first <= part.last && part.last < length));
        prop_assert!(parts.iter().map(|part| part.len()).sum::<u64>() <= length);
    }
}

/// As Apache does it: only neighbors are joined, and turns are counted.
#[test]
fn ranges_in_order() {
    let rules = |overlaps_max, reversals_max| RangeRules::InOrder {
        overlaps_max,
        reversals_max,
    };
    let many = |ranges: &[(u64, u64)]| {
        let range = |(first, last): &(u64, u64)| ByteRange {
            first: *first,
            last: *last,
        };
        match ranges {
            [one] => RangeOutcome::One(range(one)),
            ranges => RangeOutcome::Many(ranges.iter().map(range).collect()),
        }
    };
    let rows = [
        ("bytes=0-3,2-5", rules(1, 1), many(&[(0, 5)])),
        ("bytes=0-3,2-5,4-7", rules(1, 1), RangeOutcome::Whole),
        ("bytes=0-3,2-5", rules(0, 0), RangeOutcome::Whole),
        ("bytes=5-6,0-4", rules(9, 0), RangeOutcome::Whole),
        ("bytes=5-6,0-4", rules(9, 1), many(&[(0, 6)])),
        // Not a reversal, as they do not touch.
        (
            "bytes=20-21,10-11",
            rules(0, 0),
            many(&[(20, 21), (10, 11)]),
        ),
        ("bytes=0-3,8-9,4-7", rules(9, 9), many(&[(0, 3), (4, 9)])),
        ("bytes=0-30,32-40,5-8", rules(9, 9), RangeOutcome::Whole),
        ("bytes=0-1,4-5,8-9,12-13", rules(9, 9), RangeOutcome::Whole),
        ("bytes=100-", rules(9, 9), RangeOutcome::Unsatisfiable),
        ("bytes=x", rules(9, 9), RangeOutcome::Whole),
    ];
    for (value, rules, expected) in rows {
        let found = resolve_by(rules, value.as_bytes(), 41, 3);
        assert_eq!(found, expected, "{value} {rules:?}");
    }
}
