//! The size of a compiled pattern, estimated from its text.
//!
//! Called by: [`super::Pattern::compile`], which charges it to the budget of one file's patterns.
//! Counted repetitions repeat their atom as often as they may match it, so a short text can become
//! megabytes of code.
//! Caveat: an estimate; classes count as one atom, and calls of other groups, which are not
//! expanded, as they are written.

/// Base weight of any pattern.
const BASE: u64 = 64;

/// Atoms with their repetitions, each as often as it is written out.
pub(super) fn weight(pattern: &str) -> u64 {
    let bytes = pattern.as_bytes();
    // Of each open group: all before the last atom, and that one.
    let mut open: Vec<(u64, u64)> = Vec::new();
    let (mut sum, mut last, mut at) = (0u64, 0u64, 0);
    while let Some(byte) = bytes.get(at) {
        at += match byte {
            b'(' => {
                open.push((sum, last));
                (sum, last) = (0, 0);
                1
            }
            b')' => {
                let group = sum.saturating_add(last).saturating_add(1);
                let (before, previous) = open.pop().unwrap_or_default();
                (sum, last) = (before.saturating_add(previous), group);
                1
            }
            b'{' => match repetition(&bytes[at..]) {
                Some((times, length)) => {
                    last = last.saturating_mul(times.max(1));
                    length
                }
                None => atom(&mut sum, &mut last, 1),
            },
            b'[' => {
                let length = super::dollar::class_len(&pattern[at..]);
                atom(&mut sum, &mut last, length)
            }
            b'\\' => {
                let length = pattern[at..].chars().take(2).map(char::len_utf8).sum();
                atom(&mut sum, &mut last, length)
            }
            _ => atom(
                &mut sum,
                &mut last,
                pattern[at..].chars().next().map_or(1, char::len_utf8),
            ),
        };
    }
    let unclosed = open.iter().fold(0u64, |all, (sum, last)| {
        all.saturating_add(*sum).saturating_add(*last)
    });
    sum.saturating_add(last)
        .saturating_add(unclosed)
        .saturating_add(BASE)
}

/// Another atom, so many bytes long.
fn atom(sum: &mut u64, last: &mut u64, length: usize) -> usize {
    *sum = sum.saturating_add(*last);
    *last = 1;
    length
}

/// The most times that `{n}`, `{n,}` or `{n,m}` writes its atom out, and its length.
fn repetition(text: &[u8]) -> Option<(u64, usize)> {
    let end = text.iter().take(32).position(|byte| *byte == b'}')?;
    let inside = std::str::from_utf8(text.get(1..end)?).ok()?;
    let (least, most) = inside.split_once(',').unwrap_or((inside, inside));
    let number = |text: &str| {
        if text.is_empty() {
            Some(0)
        } else {
            text.trim().parse::<u64>().ok()
        }
    };
    Some((number(least)?.max(number(most)?), end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_count_as_often_as_they_are_written_out() {
        let cases = [
            ("", 0),
            ("abc", 3),
            ("a{5}", 5),
            ("ab{2,7}c", 9),
            ("a{3,}b", 4),
            ("(ab){10}", 30),
            ("((a{5}){5}){5}", 5 * (5 * (5 + 1) + 1)),
            ("[a-z{9}]{4}", 4),
            (r"\d{1,3}\.\d{1,3}", 7),
            (r"\{5}", 3),
            ("a{x}", 4),
            ("(a{100}", 100),
            ("é{3}", 3),
        ];
        for (text, expected) in cases {
            assert_eq!(weight(text) - BASE, expected, "{text}");
        }
        assert!(
            weight(&"(".repeat(100_000)) >= BASE
                && weight("((a{9999}){9999}){9999999999999}") > u64::MAX / 1_000_000
        );
    }
}
