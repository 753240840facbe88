//! Times as pages ask for them: in the words of `strftime`, with the page's own bytes between them.
//!
//! Called by: the front ends' SSI filters and expressions.

use saker_telemetry::local_time::{Civil, TimeZone, append_strftime};

/// A time in the words of `strftime`. The format is a page's own bytes: what is no conversion stays
/// as it is, whatever its charset.
pub fn formatted(format: &[u8], unix_s: i64, is_universal: bool) -> Vec<u8> {
    let zone = TimeZone::local();
    let (offset_s, name) = if is_universal {
        (0, "GMT")
    } else {
        (zone.offset_s(unix_s), &*zone.at(unix_s).abbreviation)
    };
    let civil = Civil::at(unix_s, offset_s);
    let mut out = Vec::with_capacity(format.len() * 2);
    let mut rest = format;
    while let Some((byte, behind)) = rest.split_first() {
        let length = match (byte, behind) {
            (b'%', [b'E' | b'O', _, ..]) => 3,
            (b'%', [_, ..]) => 2,
            _ => 1,
        };
        let (conversion, behind) = rest.split_at(length);
        match (conversion, std::str::from_utf8(conversion)) {
            (b"%n", _) => out.push(b'\n'),
            (b"%t", _) => out.push(b'\t'),
            ([b'%', _, ..], Ok(conversion)) => {
                append_strftime(conversion, unix_s, &civil, name, &mut out)
            }
            _ => out.extend_from_slice(conversion),
        }
        rest = behind;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_bytes() {
        assert_eq!(
            formatted(b"%A, %d-%b-%Y %H:%M:%S %Z", 1_795_252_332, true),
            b"Saturday, 21-Nov-2026 09:12:12 GMT"
        );
        assert_eq!(formatted(b"M\xe4rz %d%n100%", 0, true), b"M\xe4rz 01\n100%");
        assert_eq!(formatted(b"%Ey%Z%z", 0, true), b"70GMT+0000");
    }
}
