//! The arguments of RewriteCond and RewriteRule, which httpd cuts by rules of their own: quotes
//! only at the start of an argument, and a backslash that stays where it is.

/// Two arguments, or three.
pub(crate) type Arguments<'a> = (&'a [u8], &'a [u8], Option<&'a [u8]>);

/// `None` for a line with fewer than two.
pub(crate) fn cut(line: &[u8]) -> Option<Arguments<'_>> {
    let (first, rest) = argument(line)?;
    let rest = rest?;
    let (second, rest) = argument(rest)?;
    let third = rest
        .filter(|rest| !skip_space(rest).is_empty())
        .and_then(argument)
        .map(|(third, _)| third);
    Some((first, second, third))
}

/// Returns the next argument and the rest, if the argument is terminated.
fn argument(line: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let line = skip_space(line);
    let quote = line
        .first()
        .copied()
        .filter(|byte| matches!(byte, b'"' | b'\''));
    let text = if quote.is_some() { &line[1..] } else { line };
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let ends = quote.map_or(is_space(*byte), |quote| *byte == quote);
        if ends {
            return Some((&text[..at], Some(&text[at + 1..])));
        }
        let escaped_space = *byte == b'\\' && text.get(at + 1).is_some_and(|next| is_space(*next));
        at += if escaped_space { 2 } else { 1 };
    }
    Some((text, None))
}

/// `[a,b=c]`: each flag with its value, which is empty without `=`.
pub(crate) fn flags(field: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let inside = field.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let flags = inside
        .split(|byte| *byte == b',')
        .map(trim)
        .filter(|flag| !flag.is_empty());
    Some(
        flags
            .map(|flag| match flag.iter().position(|byte| *byte == b'=') {
                Some(at) => (&flag[..at], &flag[at + 1..]),
                None => (flag, &flag[flag.len()..]),
            })
            .collect(),
    )
}

fn trim(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., last] = text
        && is_space(*last)
    {
        text = rest;
    }
    skip_space(text)
}

fn skip_space(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|byte| is_space(**byte)).count()..]
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts() {
        type Words<'a> = Option<(&'a str, &'a str, Option<&'a str>)>;
        let cases: [(&str, Words<'_>); 10] = [
            ("a b", Some(("a", "b", None))),
            ("  a\t b  ", Some(("a", "b", None))),
            ("a b [L,R=301]", Some(("a", "b", Some("[L,R=301]")))),
            (
                "\"a b\" 'c d' \"[E=x:y z]\"",
                Some(("a b", "c d", Some("[E=x:y z]"))),
            ),
            (r"a\ b c", Some((r"a\ b", "c", None))),
            ("\"\" b", Some(("", "b", None))),
            ("a", None),
            ("", None),
            ("a b [L] trailing", Some(("a", "b", Some("[L]")))),
            ("a b [L, R]", Some(("a", "b", Some("[L,")))),
        ];
        for (line, expected) in cases {
            let expected =
                expected.map(|(a, b, c)| (a.as_bytes(), b.as_bytes(), c.map(str::as_bytes)));
            assert_eq!(cut(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn flag_fields() {
        assert_eq!(flags(b"[L]"), Some(vec![(&b"L"[..], &b""[..])]));
        assert_eq!(
            flags(b"[ R=301 , E=a:b=c,,NC ]"),
            Some(vec![
                (&b"R"[..], &b"301"[..]),
                (b"E", b"a:b=c"),
                (b"NC", b"")
            ])
        );
        assert_eq!(flags(b"[]"), Some(Vec::new()));
        assert_eq!(flags(b"L"), None);
        assert_eq!(flags(b"[L"), None);
        assert_eq!(flags(b"["), None);
    }
}
