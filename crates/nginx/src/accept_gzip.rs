//! `Accept-Encoding` as nginx reads it: a search for `gzip`, and a weight behind it.
//!
//! Called by: `gzip_static` and `body_filters`, which decide for each request.
//! Caveat: `*` and `x-gzip` do not stand for gzip, unlike in RFC 9110.
//! Out of scope: codings that are applied while the response is sent, which the engine chooses.

const GZIP: &[u8] = b"gzip";
/// Digits of a weight.
const DIGITS_MAX: usize = 3;

/// Returns true if a value of `Accept-Encoding` takes gzip.
pub fn takes_gzip(value: &[u8]) -> bool {
    let mut at = 0;
    while let Some(found) = find(value, at) {
        let is_word = match found.checked_sub(1) {
            None => true,
            Some(before) => matches!(value.get(before), Some(b',' | b' ')),
        };
        at = found + GZIP.len();
        if is_word {
            return takes_rest(value.get(at..).unwrap_or_default());
        }
    }
    false
}

fn find(value: &[u8], from: usize) -> Option<usize> {
    let rest = value.get(from..)?;
    let mut windows = rest.windows(GZIP.len());
    let at = windows.position(|window| window.eq_ignore_ascii_case(GZIP))?;
    Some(from + at)
}

/// Reads the weight behind the name.
fn takes_rest(rest: &[u8]) -> bool {
    match trim(rest) {
        [] | [b',', ..] => true,
        [b';', rest @ ..] => match trim(rest) {
            [] => true,
            [b'q' | b'Q', b'=', weight @ ..] if !weight.is_empty() => is_positive(weight),
            _ => false,
        },
        _ => false,
    }
}

fn trim(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|byte| **byte == b' ').count();
    text.get(spaces..).unwrap_or_default()
}

/// A weight above 0 and up to 1 (RFC 9110 section 12.4.2).
fn is_positive(weight: &[u8]) -> bool {
    let end = weight.iter().position(|byte| matches!(byte, b',' | b' '));
    let weight = weight
        .get(..end.unwrap_or(weight.len()))
        .unwrap_or_default();
    let digits = match weight {
        [b'0' | b'1'] => b"",
        [b'0' | b'1', b'.', digits @ ..] => digits,
        _ => return false,
    };
    let are_digits = digits.iter().all(u8::is_ascii_digit) && digits.len() <= DIGITS_MAX;
    let is_whole = weight.first() == Some(&b'1');
    let has_more = digits.iter().any(|digit| *digit != b'0');
    are_digits && is_whole != has_more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_the_field() {
        for value in [
            "gzip",
            "gzip,",
            "deflate, gzip",
            "br,gzip",
            "GZIP",
            "gzip;",
            "gzip ; q=1",
            "gzip;q=0.001",
            "gzip;q=1.000",
            "x gzip",
            "agzip, gzip",
        ] {
            assert!(takes_gzip(value.as_bytes()), "{value}");
        }
        for value in [
            "",
            "*",
            "x-gzip",
            "gzipx",
            "gzip;q=0",
            "gzip;q=0.000",
            "gzip;q=",
            "gzip;q",
            "gzip;x=1",
            "gzip;q=1.5",
            "gzip;q=2",
            "gzip;q=0.0001",
            "gzip\t",
            "\tgzip",
            "gzip x",
            "gzip;q=0,gzip",
        ] {
            assert!(!takes_gzip(value.as_bytes()), "{value}");
        }
    }
}
