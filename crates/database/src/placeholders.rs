//! `?` in queries: PostgreSQL numbers its parameters, LDAP has none.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_marks_become_numbers() {
        for (query, expected) in [
            ("SELECT a FROM b WHERE c = ? OR d = ?", "SELECT a FROM b WHERE c = $1 OR d = $2"),
            ("SELECT '?', \"?\", 'it''s ?' WHERE c = ?", "SELECT '?', \"?\", 'it''s ?' WHERE c = $1"),
            ("no parameter", "no parameter"),
            ("open 'quote ?", "open 'quote ?"),
            ("ä ? ö", "ä $1 ö"),
        ] {
            assert_eq!(numbered(query), expected, "{query}");
        }
    }
}
