//! `?` in queries: PostgreSQL numbers its parameters, LDAP has none, and Apache's configurations
//! have them as `printf` would.

/// The pieces of a query between its question marks; what is quoted is left alone.
pub fn pieces(query: &str) -> Vec<&str> {
    let (mut pieces, mut from, mut quote) = (Vec::new(), 0, None);
    for (at, byte) in query.bytes().enumerate() {
        match (quote, byte) {
            (None, b'?') => {
                pieces.push(query.get(from..at).unwrap_or_default());
                from = at + 1;
            }
            (None, b'\'' | b'"' | b'`') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    pieces.push(query.get(from..).unwrap_or_default());
    pieces
}

/// With `$1`, `$2`, ... in their places.
pub fn numbered(query: &str) -> String {
    let mut out = String::new();
    for (number, piece) in pieces(query).into_iter().enumerate() {
        if number > 0 {
            out.push_str(&format!("${number}"));
        }
        out.push_str(piece);
    }
    out
}

/// Apache's way: `%s` and its like are parameters (apr_dbd_prepare), `%%` is a percent sign. The
/// query with question marks instead, and how many there are. Parameters are sent as texts, so
/// those for whole numbers are converted in the query: PostgreSQL compares no text with a number.
pub fn from_printf(query: &str) -> (String, usize) {
    let (mut out, mut rest, mut count) = (String::with_capacity(query.len()), query, 0);
    while let Some((before, behind)) = rest.split_once('%') {
        out.push_str(before);
        match conversion(behind) {
            0 => {
                out.push('%');
                rest = behind.strip_prefix('%').unwrap_or(behind);
            }
            taken => {
                let is_whole = behind
                    .get(..taken)
                    .is_some_and(|text| text.ends_with(['d', 'i', 'u']));
                // The one name of a type for 64 bits that all three databases have in casts.
                out.push_str(if is_whole {
                    "CAST(? AS DECIMAL(20))"
                } else {
                    "?"
                });
                count += 1;
                rest = behind.get(taken..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    (out, count)
}

/// Number of bytes of a text behind a percent sign are its conversion: `s`, `hhd`, `llu`, `pDt`.
fn conversion(text: &str) -> usize {
    let bytes = text.as_bytes();
    let length = match bytes {
        [b'p', b'D', ..] => 2,
        [b'h', b'h', ..] | [b'l', b'l', ..] => 2,
        [b'h' | b'l', ..] => 1,
        _ => 0,
    };
    match bytes.get(length) {
        Some(byte) if byte.is_ascii_alphabetic() => length + 1,
        _ => usize::from(bytes.first().is_some_and(u8::is_ascii_alphabetic)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_become_question_marks() {
        for (query, expected, count) in [
            (
                "SELECT a FROM b WHERE c = %s AND d = %lld",
                "SELECT a FROM b WHERE c = ? AND d = CAST(? AS DECIMAL(20))",
                2,
            ),
            ("a LIKE '%%' || %s || '%'", "a LIKE '%' || ? || '%'", 1),
            ("%hhu%pDt%", "CAST(? AS DECIMAL(20))?%", 2),
            ("a % b", "a % b", 0),
            ("%l", "?", 1),
            ("ä%sö%é", "ä?ö%é", 1),
        ] {
            assert_eq!(from_printf(query), (expected.to_owned(), count), "{query}");
        }
    }

    #[test]
    fn question_marks_become_numbers() {
        for (query, expected) in [
            (
                "SELECT a FROM b WHERE c = ? OR d = ?",
                "SELECT a FROM b WHERE c = $1 OR d = $2",
            ),
            (
                "SELECT '?', \"?\", 'it''s ?' WHERE c = ?",
                "SELECT '?', \"?\", 'it''s ?' WHERE c = $1",
            ),
            ("no parameter", "no parameter"),
            ("open 'quote ?", "open 'quote ?"),
            ("ä ? ö", "ä $1 ö"),
        ] {
            assert_eq!(numbered(query), expected, "{query}");
        }
    }
}
