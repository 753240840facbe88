//! Appends numbers and escaped text to a log line.
//!
//! Caveat: speed. Nearly all text is clean, and checking a whole run at once takes a handful of
//! vector instructions; only other text is examined byte by byte.

const HEX: &[u8; 16] = b"0123456789abcdef";

/// True if the text may stand in a line, and in quotes, as it is.
pub(crate) fn is_clean(text: &[u8]) -> bool {
    // Without an early exit, so that the compiler makes vector code of it.
    !text
        .iter()
        .fold(false, |dirty, byte| dirty | is_special(*byte))
}

fn is_special(byte: u8) -> bool {
    !(0x20..=0x7e).contains(&byte) | (byte == b'"') | (byte == b'\\')
}

/// Appends text as Apache escapes it: quotes, backslashes, the controls that C has letters for, and
/// `\xHH` for all else.
#[inline]
pub(crate) fn append_escaped(text: &[u8], out: &mut Vec<u8>) {
    if is_clean(text) {
        out.extend_from_slice(text);
    } else {
        append_dirty(text, out);
    }
}

#[cold]
fn append_dirty(text: &[u8], out: &mut Vec<u8>) {
    for run in text.chunk_by(|left, right| !is_special(*left) && !is_special(*right)) {
        match run {
            [byte] if is_special(*byte) => append_special(*byte, out),
            clean => out.extend_from_slice(clean),
        }
    }
}

fn append_special(byte: u8, out: &mut Vec<u8>) {
    let letter = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x0b => b'v',
        _ => {
            return out.extend_from_slice(&[
                b'\\',
                b'x',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]);
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}

/// Reads a text back that was escaped.
pub(crate) fn unescape(text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        let (value, after) = match (byte, after) {
            (b'\\', [b'x', high, low, after @ ..]) => (digit(*high) << 4 | digit(*low), after),
            (b'\\', [letter, after @ ..]) => (control(*letter), after),
            _ => (*byte, after),
        };
        out.push(value);
        rest = after;
    }
    out
}

fn control(letter: u8) -> u8 {
    match letter {
        b'b' => 0x08,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        other => other,
    }
}

/// Appends decimal digits.
pub(crate) fn append_decimal(value: u64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_as_apache_does() {
        let rows: &[(&[u8], &str)] = &[
            (b"", ""),
            (b"plain text ~", "plain text ~"),
            (b"a\"b\\c", r#"a\"b\\c"#),
            (
                b"\n\r\t\x08\x0b\x0c\0\x1b[31m\x7f",
                r"\n\r\t\b\v\x0c\x00\x1b[31m\x7f",
            ),
            ("é".as_bytes(), r"\xc3\xa9"),
            (b"\"\"", r#"\"\""#),
        ];
        for (text, expected) in rows {
            let mut out = Vec::new();
            append_escaped(text, &mut out);
            assert_eq!(out, expected.as_bytes());
        }
    }

    #[test]
    fn every_pair_of_bytes_is_clean_and_can_be_read_back() {
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                let mut out = Vec::new();
                append_escaped(&[first, second], &mut out);
                assert!(
                    out.iter().all(|byte| (0x20..0x7f).contains(byte)),
                    "{first} {second}"
                );
                assert_eq!(unescape(&out), [first, second]);
            }
        }
    }

    #[test]
    fn decimals() {
        for value in [0, 9, 10, 304, 65_535, u64::MAX] {
            let mut out = Vec::new();
            append_decimal(value, &mut out);
            assert_eq!(out, value.to_string().as_bytes());
        }
    }
}
