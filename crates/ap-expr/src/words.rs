//! Words of a line, by the rules of Apache's `ap_getword_conf`, and the groups of a replacement.
//!
//! A word in single or double quotes ends at the same quote, and whatever follows begins the next
//! word even without a space. A backslash stands for itself except before a backslash and, in
//! quotes, before the quote. A quote inside a word that does not begin with one is a character like
//! any other. A quote that is never closed takes the rest of the line.

/// Returns the first word and the rest, without the white space before it. An empty word with an
/// empty rest is the end of the line; an empty word with a rest (or `""` at the end) was written
/// so.
pub fn word(line: &[u8]) -> (Vec<u8>, &[u8]) {
    let line = without_leading_space(line);
    let (raw, quote, rest) = match line.first() {
        Some(quote @ (b'"' | b'\'')) => quoted(line, *quote),
        _ => {
            let end = line
                .iter()
                .position(|byte| is_space(*byte))
                .unwrap_or(line.len());
            let (raw, rest) = line.split_at(end);
            (raw, None, rest)
        }
    };
    (unescaped(raw, quote), without_leading_space(rest))
}

/// Returns all words, including empty ones in quotes.
pub fn words(line: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut rest = without_leading_space(line);
    while !rest.is_empty() {
        let (word, left) = word(rest);
        words.push(word);
        rest = left;
    }
    words
}

pub fn without_leading_space(line: &[u8]) -> &[u8] {
    let start = line
        .iter()
        .position(|byte| !is_space(*byte))
        .unwrap_or(line.len());
    line.get(start..).unwrap_or_default()
}

/// Appends `replacement` with `$0` to `$9` replaced by the groups of a match; a backslash makes the
/// next byte literal.
pub fn expand_groups<G: AsRef<[u8]>>(
    replacement: &[u8],
    group: impl Fn(usize) -> G,
    done: &mut Vec<u8>,
) {
    let mut bytes = replacement.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, bytes.peek().copied()) {
            (b'$', Some(digit @ b'0'..=b'9')) => {
                bytes.next();
                done.extend_from_slice(group(usize::from(digit - b'0')).as_ref());
            }
            (b'\\', Some(next)) => {
                bytes.next();
                done.push(next);
            }
            (byte, _) => done.push(byte),
        }
    }
}

/// Like C's `isspace`.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn quoted(line: &[u8], quote: u8) -> (&[u8], Option<u8>, &[u8]) {
    let inner = line.get(1..).unwrap_or_default();
    let mut end = 0;
    while let Some(byte) = inner.get(end).filter(|byte| **byte != quote) {
        let escapes = *byte == b'\\'
            && inner
                .get(end + 1)
                .is_some_and(|next| *next == quote || *next == b'\\');
        end += if escapes { 2 } else { 1 };
    }
    let (raw, rest) = inner.split_at(end.min(inner.len()));
    (raw, Some(quote), rest.get(1..).unwrap_or_default())
}

fn unescaped(raw: &[u8], quote: Option<u8>) -> Vec<u8> {
    let mut word = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let escaped =
            bytes.next_if(|next| byte == b'\\' && (*next == b'\\' || Some(*next) == quote));
        word.push(escaped.unwrap_or(byte));
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Vec<String> {
        words(line.as_bytes())
            .into_iter()
            .map(|word| String::from_utf8(word).unwrap())
            .collect()
    }

    #[test]
    fn plain_words() {
        assert_eq!(split("a  b\tc "), ["a", "b", "c"]);
        assert_eq!(split("  "), [""; 0]);
        assert_eq!(split(r#"i j"k l""#), ["i", "j\"k", "l\""]);
        assert_eq!(split(r"a\\b a\b \\\\. \"), [r"a\b", r"a\b", r"\\.", r"\"]);
    }

    #[test]
    fn quotes() {
        assert_eq!(
            split(r#""n o" 'd"e' "a \" b" 'it\'s' "b\\""#),
            ["n o", "d\"e", "a \" b", "it's", "b\\"]
        );
        assert_eq!(split(r#""g"h"#), ["g", "h"]);
        assert_eq!(split(r#""" x"#), ["", "x"]);
        assert_eq!(split(r#"a """#), ["a", ""]);
        assert_eq!(split(r#""n o"#), ["n o"]);
        assert_eq!(split(r#""a\'b\x""#), [r"a\'b\x"]);
        assert_eq!(split("\""), [""]);
    }

    #[test]
    fn what_is_left_begins_with_a_word() {
        assert_eq!(word(b" a  b c "), (b"a".to_vec(), &b"b c "[..]));
        assert_eq!(word(b"\"a\"b"), (b"a".to_vec(), &b"b"[..]));
        assert_eq!(word(b""), (Vec::new(), &b""[..]));
    }
}
