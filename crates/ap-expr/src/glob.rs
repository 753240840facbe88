//! File name patterns: `*`, `?`, `[…]`, `\` (APR's fnmatch), for `-fnmatch` and similar tests and
//! for wildcards in the configuration.
//!
//! Caveat: a pattern with many stars must not take exponential time, so the matcher goes back to
//! the last star only.
//! Out of scope: braces, and the leading-period rule, which httpd does not use here.

/// Comparison rules for names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobOptions {
    /// A slash is matched by a slash alone.
    pub pathname: bool,
    pub caseless: bool,
}

/// True if the whole of `text` matches.
pub fn glob_matches(pattern: &[u8], text: &[u8], options: GlobOptions) -> bool {
    if !options.pathname {
        return segment_matches(pattern, text, options);
    }
    // If slashes match only themselves, segments can be compared one by one.
    let mut texts = text.split(|byte| *byte == b'/');
    let mut patterns = split_pattern(pattern);
    loop {
        match (patterns.next(), texts.next()) {
            (Some(pattern), Some(text)) if segment_matches(pattern, text, options) => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}

/// Splits at slashes; an escaped slash is one too.
fn split_pattern(pattern: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(pattern);
    std::iter::from_fn(move || {
        let text = rest?;
        match text.iter().position(|byte| *byte == b'/') {
            Some(at) => {
                rest = Some(&text[at + 1..]);
                Some(text[..at].strip_suffix(b"\\").unwrap_or(&text[..at]))
            }
            None => rest.take(),
        }
    })
}

fn segment_matches(pattern: &[u8], text: &[u8], options: GlobOptions) -> bool {
    let (mut at, mut position) = (0, 0);
    // Pattern behind the last star, and where its next try begins.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at + 1, position));
                at += 1;
                continue;
            }
            None if position == text.len() => return true,
            Some(_) if position < text.len() => {
                if let Some(taken) = one(&pattern[at..], text[position], options) {
                    at += taken;
                    position += 1;
                    continue;
                }
            }
            _ => {}
        }
        match retry {
            Some((behind, begin)) if begin < text.len() => {
                retry = Some((behind, begin + 1));
                (at, position) = (behind, begin + 1);
            }
            _ => return false,
        }
    }
}

/// Length of the pattern's first item if it matches `byte`.
fn one(pattern: &[u8], byte: u8, options: GlobOptions) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => match class(rest, byte, options) {
            Some((taken, matches)) => matches.then_some(taken + 1),
            None => same(b'[', byte, options).then_some(1),
        },
        [b'\\', escaped, ..] => same(*escaped, byte, options).then_some(2),
        [literal, ..] => same(*literal, byte, options).then_some(1),
        [] => None,
    }
}

fn same(a: u8, b: u8, options: GlobOptions) -> bool {
    if options.caseless {
        a.eq_ignore_ascii_case(&b)
    } else {
        a == b
    }
}

/// Parses a class after its `[`: its length including the `]`, and whether `byte` is a member.
/// `None` if it has no end.
fn class(pattern: &[u8], byte: u8, options: GlobOptions) -> Option<(usize, bool)> {
    let negated = matches!(pattern.first(), Some(b'!' | b'^'));
    let start = usize::from(negated);
    let (mut at, mut found) = (start, false);
    loop {
        let (mut low, taken) = member(pattern.get(at..)?)?;
        if low == b']' && taken == 1 && at > start {
            return Some((at + 1, found != negated));
        }
        at += taken;
        let mut high = low;
        if pattern.get(at) == Some(&b'-') && !matches!(pattern.get(at + 1), None | Some(b']')) {
            let (end, taken) = member(&pattern[at + 1..])?;
            high = end;
            at += 1 + taken;
        }
        if low > high {
            std::mem::swap(&mut low, &mut high);
        }
        let members = low..=high;
        found |= members.contains(&byte)
            || options.caseless
                && (members.contains(&byte.to_ascii_lowercase())
                    || members.contains(&byte.to_ascii_uppercase()));
    }
}

/// A member of a class and its length.
fn member(pattern: &[u8]) -> Option<(u8, usize)> {
    match pattern {
        [b'\\', escaped, ..] => Some((*escaped, 2)),
        [byte, ..] => Some((*byte, 1)),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases() {
        let any = GlobOptions::default();
        let path = GlobOptions {
            pathname: true,
            ..any
        };
        let caseless = GlobOptions {
            caseless: true,
            ..any
        };
        let cases: [(&str, &str, GlobOptions, bool); 26] = [
            ("", "", any, true),
            ("*", "", any, true),
            ("*.php", "a.php", any, true),
            ("*.php", "a/b.php", any, true),
            ("*.php", "a/b.php", path, false),
            ("/*/b.php", "/a/b.php", path, true),
            ("/*", "/a/", path, false),
            ("/*/", "/a/", path, true),
            ("a?c", "abc", any, true),
            ("a?c", "ac", any, false),
            ("a?c", "a/c", path, false),
            ("[a-c]x", "bx", any, true),
            ("[!a-c]x", "bx", any, false),
            ("[^a-c]x", "dx", any, true),
            ("[]]", "]", any, true),
            ("[a-]", "-", any, true),
            ("[a", "[a", any, true),
            (r"\*", "*", any, true),
            (r"\*", "x", any, false),
            (r"[\]]", "]", any, true),
            ("A*", "abc", any, false),
            ("A*C", "abc", caseless, true),
            ("[A-C]", "b", caseless, true),
            ("a*b*c*d", "aXbXcXd", any, true),
            ("a*b*c*d", "aXbXcX", any, false),
            ("abc", "abcd", any, false),
        ];
        for (pattern, text, options, matches) in cases {
            assert_eq!(
                glob_matches(pattern.as_bytes(), text.as_bytes(), options),
                matches,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let (pattern, text) = ("a*".repeat(200) + "b", "a".repeat(20_000));
        assert!(!glob_matches(
            pattern.as_bytes(),
            text.as_bytes(),
            GlobOptions::default()
        ));
    }
}
