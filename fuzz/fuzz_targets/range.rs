//! Ranges lie within the representation, are not more than allowed nor larger than the whole, touch
//! each other nowhere, and cover the bytes that were asked for, no others.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_fuzz::Input;
use saker_http::range::{ByteRange, RangeOutcome, resolve};

/// Representations up to this length are marked byte by byte.
const MARKED_BYTES_MAX: u64 = 2048;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (Some(length), Some(parts_max)) = (input.u64(), input.byte()) else {
        return;
    };
    let value = input.rest();
    for length in [length, length % (MARKED_BYTES_MAX + 1)] {
        let ranges = match resolve(value, length, usize::from(parts_max)) {
            RangeOutcome::Whole => continue,
            RangeOutcome::Unsatisfiable => Vec::new(),
            RangeOutcome::One(range) => vec![range],
            RangeOutcome::Many(ranges) => {
                assert!(ranges.len() >= 2);
                ranges
            }
        };
        sound(&ranges, length, usize::from(parts_max));
        if length <= MARKED_BYTES_MAX {
            let ranges: Vec<_> = ranges
                .iter()
                .map(|range| (range.first, range.last))
                .collect();
            assert_eq!(
                marked(&ranges, length),
                marked(&asked(value, length), length)
            );
        }
    }
});

fn sound(ranges: &[ByteRange], length: u64, parts_max: usize) {
    assert!(ranges.len() <= parts_max);
    let mut sum = 0u64;
    for (at, range) in ranges.iter().enumerate() {
        assert!(range.first <= range.last && range.last < length);
        sum = sum
            .checked_add(range.len())
            .expect("no more than the whole");
        let touch =
            |other: &ByteRange| range.first <= other.last + 1 && other.first <= range.last + 1;
        assert!(!ranges[at + 1..].iter().any(touch));
    }
    assert!(sum <= length);
}

fn marked(ranges: &[(u64, u64)], length: u64) -> Vec<bool> {
    (0..length)
        .map(|byte| {
            ranges
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&byte))
        })
        .collect()
}

/// RFC 9110 section 14.1.2, of a set that was found valid: first and last byte, or a suffix.
fn asked(value: &[u8], length: u64) -> Vec<(u64, u64)> {
    let text = std::str::from_utf8(value)
        .expect("valid sets are ASCII")
        .to_ascii_lowercase();
    let set = text.strip_prefix("bytes=").expect("the only unit");
    let specs = set
        .split(',')
        .map(|spec| spec.trim_matches([' ', '\t']))
        .filter(|spec| !spec.is_empty());
    let number = |digits: &str| digits.parse::<u64>().unwrap_or(u64::MAX);
    specs
        .filter_map(
            |spec| match spec.split_once('-').expect("a valid spec has a dash") {
                ("", suffix) => Some((
                    length.saturating_sub(number(suffix)),
                    length.checked_sub(1)?,
                )),
                (first, "") => Some((number(first), u64::MAX)),
                (first, last) => Some((number(first), number(last))),
            },
        )
        .collect()
}
