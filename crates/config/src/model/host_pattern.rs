//! Paths with parts of a host name: `/srv/%2/%1`, as in mod_vhost_alias (`VirtualDocumentRoot`),
//! for both front ends.
//!
//! `%0` is the whole name, `%N` its nth label (`%-N` from the end, `%N+` with all that follow,
//! `%-N+` with all before), `%N.M` the mth letter of it, `%p` the port, `%%` a percent sign. A part
//! that the name does not have is `_`.
//!
//! Caveat: the name comes from the client. It cannot lead out of the directory, and native sites
//! accept only well-formed names.

use std::fmt;

/// A valid pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern(Box<str>);

impl HostPattern {
    /// Returns `None` for an invalid placeholder.
    pub fn parse(text: &str) -> Option<HostPattern> {
        let mut rest = text;
        while let Some((_, behind)) = rest.split_once('%') {
            rest = match behind.strip_prefix(['%', 'p']) {
                Some(rest) => rest,
                None => part(behind)?.1,
            };
        }
        Some(HostPattern(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if few other names have the expansion of this one: all of its labels are in it, but for
    /// the last `fixed`, which all names have in common.
    pub fn tells_apart(&self, name: &str, fixed: usize) -> bool {
        let count = name.split('.').count();
        let parts = self.whole_parts();
        let has = |at: usize| parts.iter().any(|part| part.has(at, count));
        (0..count.saturating_sub(fixed)).all(has)
    }

    /// The placeholders that stand for whole labels.
    fn whole_parts(&self) -> Vec<Part> {
        let (mut parts, mut rest) = (Vec::new(), &*self.0);
        while let Some((_, behind)) = rest.split_once('%') {
            rest = match (behind.strip_prefix(['%', 'p']), part(behind)) {
                (Some(rest), _) => rest,
                (None, Some(((first, second), rest))) => {
                    parts.extend(second.is_none().then_some(first));
                    rest
                }
                (None, None) => behind,
            };
        }
        parts
    }

    /// The part of a name's expansion that is the name's, from its first placeholder to its last,
    /// with dots in place of the slashes: `example.www` for `/srv/%2/%1/htdocs`. Names with one
    /// directory have it in common.
    pub fn label_of(&self, name: &str) -> String {
        let has_place = |step: &str| step.contains('%');
        let steps: Vec<&str> = self.0.split('/').collect();
        let first = steps.iter().copied().position(has_place);
        let last = steps.iter().copied().rposition(has_place);
        let chosen = first
            .zip(last)
            .and_then(|(first, last)| steps.get(first..=last));
        interpolated(
            &chosen.unwrap_or_default().join("/"),
            &name.to_ascii_lowercase(),
            0,
        )
        .replace('/', ".")
    }

    /// Expands the pattern; the name is converted to lowercase.
    pub fn of(&self, name: &str, port: u16) -> String {
        interpolated(&self.0, &name.to_ascii_lowercase(), port)
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether a normalized name (lowercase, no port) is safe as the name of a directory, user
/// or log: labels of letters, digits, `-` and `_`, none of them empty.
pub fn is_plain_name(name: &[u8]) -> bool {
    let is_label = |label: &[u8]| {
        (1..=63).contains(&label.len())
            && label
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    name.len() <= 253 && name.split(|byte| *byte == b'.').all(is_label)
}

/// Selects parts: `2` the second, `-1` the last, `2+` the second and all after it, `-2+` the second
/// to last and all before it, `0` everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    number: usize,
    from_end: bool,
    and_more: bool,
}

/// `N` or `N.M` after a percent sign, and the rest of the text.
fn part(text: &str) -> Option<((Part, Option<Part>), &str)> {
    let (first, rest) = one_part(text)?;
    match rest.strip_prefix('.').and_then(one_part) {
        Some((second, rest)) => Some(((first, Some(second)), rest)),
        None => Some(((first, None), rest)),
    }
}

fn one_part(text: &str) -> Option<(Part, &str)> {
    let (from_end, rest) = text
        .strip_prefix('-')
        .map_or((false, text), |rest| (true, rest));
    let digit = rest.chars().next()?.to_digit(10)?;
    let rest = rest.get(1..)?;
    let (and_more, rest) = rest
        .strip_prefix('+')
        .map_or((false, rest), |rest| (true, rest));
    Some((
        Part {
            number: digit as usize,
            from_end,
            and_more,
        },
        rest,
    ))
}

impl Part {
    /// True if it selects the piece at an index of so many.
    fn has(self, at: usize, count: usize) -> bool {
        if self.number == 0 {
            return true;
        }
        let chosen = if self.from_end {
            count.checked_sub(self.number)
        } else {
            Some(self.number - 1)
        };
        chosen.is_some_and(|chosen| match (self.and_more, self.from_end) {
            (true, true) => at <= chosen,
            (true, false) => at >= chosen,
            (false, _) => at == chosen,
        })
    }

    /// Selects from labels or letters; `_` where there is no such part.
    fn of<'t>(self, pieces: &[&'t str], joint: &str) -> String {
        if self.number == 0 {
            return pieces.join(joint);
        }
        let at = if self.from_end {
            pieces.len().checked_sub(self.number)
        } else {
            Some(self.number - 1)
        };
        let chosen: Option<&[&'t str]> = at.filter(|at| *at < pieces.len()).and_then(|at| {
            match (self.and_more, self.from_end) {
                (true, true) => pieces.get(..=at),
                (true, false) => pieces.get(at..),
                (false, _) => pieces.get(at..=at),
            }
        });
        chosen.map_or_else(|| "_".to_owned(), |pieces| pieces.join(joint))
    }
}

fn interpolated(pattern: &str, name: &str, port: u16) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some((before, behind)) = rest.split_once('%') {
        out.push_str(before);
        rest = match (
            behind.strip_prefix('%'),
            behind.strip_prefix('p'),
            part(behind),
        ) {
            (Some(behind), _, _) => {
                out.push('%');
                behind
            }
            (_, Some(behind), _) => {
                out.push_str(&port.to_string());
                behind
            }
            (_, _, Some(((first, second), behind))) => {
                let text = first.of(&name.split('.').collect::<Vec<_>>(), ".");
                match second {
                    None => out.push_str(&text),
                    Some(second) => {
                        let letters: Vec<String> = text.chars().map(String::from).collect();
                        out.push_str(
                            &second.of(&letters.iter().map(String::as_str).collect::<Vec<_>>(), ""),
                        );
                    }
                }
                behind
            }
            _ => behind,
        };
    }
    out.push_str(rest);
    // A name can't lead out of the directory.
    out.trim_end_matches('/')
        .replace("/../", "/_/")
        .replace('\0', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of Apache's manual, and edge cases.
    #[test]
    fn names_become_folders() {
        let cases = [
            (
                "/usr/local/apache/vhosts/%0",
                "www.domain.example.com",
                "/usr/local/apache/vhosts/www.domain.example.com",
            ),
            (
                "/vhosts/%3+/%2.1/%2.2/%2.3/%2",
                "www.domain.example.com",
                "/vhosts/example.com/d/o/m/domain",
            ),
            (
                "/vhosts/%3+/%2.-1/%2.-2/%2.-3/%2",
                "www.domain.example.com",
                "/vhosts/example.com/n/i/a/domain",
            ),
            (
                "/vhosts/%3+/%2.1/%2.2/%2.3/%2.4+",
                "www.domain.example.com",
                "/vhosts/example.com/d/o/m/ain",
            ),
            ("/v/%-1/%-2/%-3+", "a.b.c", "/v/c/b/a"),
            ("/v/%5/%1.9", "a.b", "/v/_/_"),
            ("/v/%%%p/", "a.b", "/v/%80"),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(
                HostPattern::parse(pattern)
                    .map(|pattern| pattern.of(name, 80))
                    .as_deref(),
                Some(expected),
                "{pattern}"
            );
        }
        for wrong in ["/v/%", "/v/%x", "/v/%-", "/v/%-x", "/a%b/%1"] {
            assert_eq!(HostPattern::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn patterns_that_tell_names_apart() {
        for (pattern, name, fixed, expected) in [
            ("/srv/%0", "a.b.c.d", 0, true),
            ("/srv/%0/htdocs", "a", 0, true),
            ("/srv/%1+", "a.b.c.d", 0, true),
            ("/srv/%-1+/x", "a.b.c", 0, true),
            ("/srv/%2+/%1", "a.b.c.d", 0, true),
            ("/srv/%-1/%-2/%-3+", "a.b.c.d", 0, true),
            ("/srv/%1", "a.b", 0, false),
            ("/srv/%-2", "a.b", 0, false),
            ("/srv/%2/%1", "a.b.c", 0, false),
            ("/srv/%2+", "a.b", 0, false),
            ("/srv/%-2+/%1", "a.b", 0, false),
            ("/srv/%-2+/%-1", "a.b", 0, true),
            ("/srv/%1.1/%2+", "a.b", 0, false),
            ("/srv/%0.1", "a", 0, false),
            ("/srv/%%0", "a", 0, false),
            ("/srv/%p", "a", 0, false),
            // Names below `*.example.com`.
            ("/srv/%1", "shop.example.com", 2, true),
            ("/srv/%-2/%1", "shop.example.com", 2, true),
            ("/srv/%-2/%1", "shop.x.example.com", 2, false),
            ("/srv/%2", "shop.example.com", 2, false),
        ] {
            let parsed = HostPattern::parse(pattern).unwrap();
            assert_eq!(
                parsed.tells_apart(name, fixed),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn labels_of_names() {
        for (pattern, expected) in [
            ("/srv/%2/%1/htdocs", "example.www"),
            ("/srv/%-2.%-1/public", "example.org"),
            ("/srv/%1", "www"),
            ("/srv/a/%2/b/%1.1/c", "example.b.w"),
            ("/srv/fixed", ""),
        ] {
            let pattern = HostPattern::parse(pattern).unwrap();
            assert_eq!(pattern.label_of("WWW.example.org"), expected, "{pattern}");
        }
    }

    #[test]
    fn names_that_folders_may_be_called_by() {
        for good in [
            "a",
            "www.example.org",
            "a_b.c-d",
            "127.0.0.1",
            "xn--mnchen-3ya.de",
        ] {
            assert!(is_plain_name(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a.",
            "a/b",
            "[::1]",
            "a b",
            "a%b",
            "\u{e4}",
            &"a".repeat(64),
        ] {
            assert!(!is_plain_name(bad.as_bytes()), "{bad}");
        }
    }
}
