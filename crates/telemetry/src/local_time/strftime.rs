//! `strftime` in the C locale, for `%{format}t`.
//!
//! Absent on purpose: locales; Apache logs in the C locale too.

use super::calendar::Civil;
use super::{append_offset, append_padded};

/// Offset of the first conversion that does not exist.
pub fn check_strftime(format: &str) -> Result<(), usize> {
    let bytes = format.as_bytes();
    let mut at = 0;
    while let Some(found) = bytes
        .get(at..)
        .and_then(|rest| rest.iter().position(|byte| *byte == b'%'))
    {
        let start = at + found;
        let conversion = start + 1 + usize::from(matches!(bytes.get(start + 1), Some(b'E' | b'O')));
        match bytes.get(conversion) {
            Some(byte) if b"aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%".contains(byte) => {
                at = conversion + 1
            }
            _ => return Err(start),
        }
    }
    Ok(())
}

/// Appends the moment; conversions that [`check_strftime`] refuses are copied as they stand.
pub fn append_strftime(
    format: &str,
    unix_s: i64,
    civil: &Civil,
    abbreviation: &str,
    out: &mut Vec<u8>,
) {
    let mut bytes = format.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            // Alternative digits and eras do not exist in the C locale.
            Some(b'E' | b'O') => conversion(
                bytes.next().unwrap_or(b'%'),
                unix_s,
                civil,
                abbreviation,
                out,
            ),
            Some(letter) => conversion(letter, unix_s, civil, abbreviation, out),
            None => out.push(b'%'),
        }
    }
}

fn conversion(letter: u8, unix_s: i64, civil: &Civil, abbreviation: &str, out: &mut Vec<u8>) {
    let whole =
        |format: &str, out: &mut Vec<u8>| append_strftime(format, unix_s, civil, abbreviation, out);
    let year = u32::try_from(civil.year).unwrap_or(0);
    let hour_of_12 = (civil.hour + 11) % 12 + 1;
    match letter {
        b'a' => out.extend_from_slice(&civil.weekday_name().as_bytes()[..3]),
        b'A' => out.extend_from_slice(civil.weekday_name().as_bytes()),
        b'b' | b'h' => out.extend_from_slice(&civil.month_name().as_bytes()[..3]),
        b'B' => out.extend_from_slice(civil.month_name().as_bytes()),
        b'c' => whole("%a %b %e %H:%M:%S %Y", out),
        b'C' => append_padded(year / 100, 2, out),
        b'd' => append_padded(civil.day, 2, out),
        b'D' | b'x' => whole("%m/%d/%y", out),
        b'e' => append_spaced(civil.day, out),
        b'F' => whole("%Y-%m-%d", out),
        b'g' => append_padded(u32::try_from(civil.iso_week().0 % 100).unwrap_or(0), 2, out),
        b'G' => append_padded(u32::try_from(civil.iso_week().0).unwrap_or(0), 4, out),
        b'H' => append_padded(civil.hour, 2, out),
        b'I' => append_padded(hour_of_12, 2, out),
        b'j' => append_padded(civil.day_of_year + 1, 3, out),
        b'k' => append_spaced(civil.hour, out),
        b'l' => append_spaced(hour_of_12, out),
        b'm' => append_padded(civil.month, 2, out),
        b'M' => append_padded(civil.minute, 2, out),
        // A log line has one line end, its own.
        b'n' | b't' => out.push(b' '),
        b'p' => out.extend_from_slice(if civil.hour < 12 { b"AM" } else { b"PM" }),
        b'P' => out.extend_from_slice(if civil.hour < 12 { b"am" } else { b"pm" }),
        b'r' => whole("%I:%M:%S %p", out),
        b'R' => whole("%H:%M", out),
        b's' => out.extend_from_slice(unix_s.to_string().as_bytes()),
        b'S' => append_padded(civil.second, 2, out),
        b'T' | b'X' => whole("%H:%M:%S", out),
        b'u' => append_padded((civil.weekday + 6) % 7 + 1, 1, out),
        b'U' => append_padded(civil.week_of_year(0), 2, out),
        b'V' => append_padded(civil.iso_week().1, 2, out),
        b'w' => append_padded(civil.weekday, 1, out),
        b'W' => append_padded(civil.week_of_year(1), 2, out),
        b'y' => append_padded(year % 100, 2, out),
        b'Y' => append_padded(year, 1, out),
        b'z' => append_offset(civil.offset_s, out),
        b'Z' => out.extend_from_slice(abbreviation.as_bytes()),
        b'%' => out.push(b'%'),
        other => out.extend_from_slice(&[b'%', other]),
    }
}

fn append_spaced(value: u32, out: &mut Vec<u8>) {
    if value < 10 {
        out.push(b' ');
    }
    append_padded(value, 1, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(format: &str, unix_s: i64, offset_s: i32) -> String {
        let mut out = Vec::new();
        append_strftime(
            format,
            unix_s,
            &Civil::at(unix_s, offset_s),
            "CET",
            &mut out,
        );
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn every_conversion() {
        // What `TZ=CET-1 LC_ALL=C date -d @1795252332 +…` prints: Saturday, 10:12:12.
        let rows = [
            ("%a %A %b %h %B", "Sat Saturday Nov Nov November"),
            (
                "%c|%x|%X|%D",
                "Sat Nov 21 10:12:12 2026|11/21/26|10:12:12|11/21/26",
            ),
            (
                "%C %d %e %F %g %G %H %I",
                "20 21 21 2026-11-21 26 2026 10 10",
            ),
            (
                "%j %k %l %m %M %p %P %r %R",
                "325 10 10 11 12 AM am 10:12:12 AM 10:12",
            ),
            (
                "%s %S %T %u %U %V %w %W %y %Y %z %Z %%",
                "1795252332 12 10:12:12 6 46 47 6 46 26 2026 +0100 CET %",
            ),
            ("%Ey%Od%n%t.", "2621  ."),
        ];
        for (format, expected) in rows {
            assert_eq!(check_strftime(format), Ok(()), "{format}");
            assert_eq!(text(format, 1_795_252_332, 3600), expected);
        }
        assert_eq!(
            text("%e %k %l %I %p %z", 86_400 * 4, -12_600),
            " 4 20  8 08 PM -0330"
        );
    }

    #[test]
    fn unknown_conversions() {
        assert_eq!(check_strftime("ab%Q"), Err(2));
        assert_eq!(check_strftime("%"), Err(0));
        assert_eq!(check_strftime("%H%E"), Err(2));
        assert_eq!(text("%Q%", 0, 0), "%Q%");
    }
}
