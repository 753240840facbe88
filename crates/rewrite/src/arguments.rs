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

/// Name and value.
type Flag<'a> = (&'a [u8], &'a [u8]);

/// `[a,b=c]`: each flag with its value, which is empty without `=`.
pub(crate) fn flags(field: &[u8]) -> Option<Vec<Flag<'_>>> {
    let inside = field.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let (mut flags, mut at) = (Vec::new(), 0);
    while at < inside.len() {
        let end = comma_from(inside, at);
        let piece = &inside[at..end];
        let flag = named(piece);
        let start = at + piece.iter().take_while(|byte| **byte != b'=').count() + 1;
        let (flag, end) = match is_cache_list(flag) {
            true => {
                let (value, end) = cache_list(inside, start, end);
                ((flag.0, value), end)
            }
            false => (flag, end),
        };
        if flag != (b"", b"") {
            flags.push(flag);
        }
        at = end + 1;
    }
    Some(flags)
}

/// Returns true for variables whose values are lists: cookies and words for the page cache.
fn is_cache_list((name, value): Flag<'_>) -> bool {
    let is = |text: &[u8], known: &str| text.eq_ignore_ascii_case(known.as_bytes());
    let value = value.strip_prefix(b"\"").unwrap_or(value);
    let variable = value.split(|byte| *byte == b':').next();
    (is(name, "e") || is(name, "env"))
        && variable.is_some_and(|name| is(name, "cache-vary") || is(name, "cache-control"))
}

/// The whole value of `E=Cache-Vary:a,b` and `E="Cache-Vary:,a"`, which LiteSpeed takes and its
/// plug-ins write, with the position of the comma behind it. httpd cuts at each comma.
fn cache_list(inside: &[u8], start: usize, mut end: usize) -> (&[u8], usize) {
    let whole = inside.get(start..).unwrap_or_default();
    let quoted = whole.strip_prefix(b"\"");
    if let Some(length) = quoted.and_then(|text| text.iter().position(|byte| *byte == b'"')) {
        let (value, behind) = (&whole[1..=length], start + length + 2);
        return (value, comma_from(inside, behind));
    }
    while end < inside.len() {
        let next = comma_from(inside, end + 1);
        let (name, _) = named(&inside[end + 1..next]);
        let is_flag = |known: &&str| known.as_bytes().eq_ignore_ascii_case(name);
        if KNOWN.iter().any(is_flag) {
            break;
        }
        end = next;
    }
    (trim(&inside[start..end]), end)
}

/// Names of all flags, but for httpd's rule that any word with a `d` in front is one.
const KNOWN: &[&str] = &[
    "b",
    "backrefescaping",
    "bnp",
    "backrefernoplus",
    "bctls",
    "bne",
    "c",
    "chain",
    "co",
    "cookie",
    "d",
    "dpi",
    "discardpath",
    "e",
    "env",
    "end",
    "f",
    "forbidden",
    "g",
    "gone",
    "h",
    "handler",
    "l",
    "last",
    "n",
    "next",
    "ne",
    "noescape",
    "ns",
    "nosubreq",
    "nc",
    "nocase",
    "p",
    "proxy",
    "pt",
    "passthrough",
    "qsa",
    "qsappend",
    "qsd",
    "qsdiscard",
    "qsl",
    "qslast",
    "r",
    "redirect",
    "s",
    "skip",
    "t",
    "type",
    "unsafeprefixstat",
    "unsafeallow3f",
    "unc",
];

/// The position of the first comma from a position on, or the end.
fn comma_from(text: &[u8], from: usize) -> usize {
    let behind = text.get(from..).unwrap_or_default();
    let found = behind.iter().position(|byte| *byte == b',');
    found.map_or(text.len(), |at| from + at)
}

fn named(piece: &[u8]) -> Flag<'_> {
    let piece = trim(piece);
    match piece.iter().position(|byte| *byte == b'=') {
        Some(at) => (&piece[..at], &piece[at + 1..]),
        None => (piece, &piece[piece.len()..]),
    }
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
    fn lists_for_the_cache_have_commas() {
        for (field, expected) in [
            (
                r#"[E="Cache-Vary:,wp_a"]"#,
                &[("E", "Cache-Vary:,wp_a")][..],
            ),
            (
                r#"[L, e="cache-vary:a,b" , NC]"#,
                &[("L", ""), ("e", "cache-vary:a,b"), ("NC", "")],
            ),
            (
                "[E=Cache-Vary:flarum_remember,device,,x=y,R=301,L]",
                &[
                    ("E", "Cache-Vary:flarum_remember,device,,x=y"),
                    ("R", "301"),
                    ("L", ""),
                ],
            ),
            (
                "[E=Cache-Control:max-age=120,private,E=a:b,c]",
                &[
                    ("E", "Cache-Control:max-age=120,private"),
                    ("E", "a:b"),
                    ("c", ""),
                ],
            ),
            (r#"[E="Cache-Vary:a,xy]"#, &[("E", "\"Cache-Vary:a,xy")]),
            ("[E=Cache-Vary:]", &[("E", "Cache-Vary:")]),
            // As httpd has it.
            (
                r#"[E="a:b,L,E=c:d"]"#,
                &[("E", "\"a:b"), ("L", ""), ("E", "c:d\"")],
            ),
        ] {
            let said = flags(field.as_bytes()).unwrap();
            let said: Vec<_> = said
                .iter()
                .map(|(name, value)| {
                    (
                        std::str::from_utf8(name).unwrap(),
                        std::str::from_utf8(value).unwrap(),
                    )
                })
                .collect();
            assert_eq!(said, expected, "{field}");
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
