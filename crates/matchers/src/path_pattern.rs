//! Path patterns: exact paths, prefixes, texts with `*`, and regular expressions.
//!
//! Called by: routing, rules about paths, and tests of other texts with `*`.
//! Caveat: a regular expression that takes too many steps has no result; routing answers 500 then.

use saker_ap_expr::{LimitReached, Pattern};
use std::{borrow::Cow, fmt};

/// Pattern of the (normalized, decoded) path of a route.
#[derive(Clone, Debug)]
pub enum PathPattern {
    Exact(String),
    /// `/img/*` is stored as `/img/`.
    Prefix(String),
    /// `*.jpg` is stored as `.jpg`.
    Suffix(String),
    /// Any other use of `*` (which matches any run of bytes, including slashes): the literal pieces
    /// between the stars.
    Glob(Vec<String>),
    Regex(Pattern),
}

/// Two regular expressions are the same if their texts and options are.
impl PartialEq for PathPattern {
    fn eq(&self, other: &PathPattern) -> bool {
        match (self, other) {
            (PathPattern::Regex(one), PathPattern::Regex(other)) => {
                (one.text(), one.options()) == (other.text(), other.options())
            }
            (PathPattern::Regex(_), _) | (_, PathPattern::Regex(_)) => false,
            _ => self.to_string() == other.to_string(),
        }
    }
}

impl Eq for PathPattern {}

impl PathPattern {
    /// Parses a text with stars.
    pub fn new(text: &str) -> PathPattern {
        let pieces: Vec<String> = text.split('*').map(str::to_owned).collect();
        match pieces.as_slice() {
            [exact] => PathPattern::Exact(exact.clone()),
            [prefix, end] if end.is_empty() => PathPattern::Prefix(prefix.clone()),
            [start, suffix] if start.is_empty() => PathPattern::Suffix(suffix.clone()),
            _ => PathPattern::Glob(pieces),
        }
    }

    /// Number of captures of a match.
    pub fn stars(&self) -> usize {
        match self {
            PathPattern::Exact(_) => 0,
            PathPattern::Prefix(_) | PathPattern::Suffix(_) => 1,
            PathPattern::Glob(pieces) => pieces.len().saturating_sub(1),
            PathPattern::Regex(pattern) => pattern.groups(),
        }
    }

    /// Named groups of a regular expression, with their numbers.
    pub fn names(&self) -> Vec<(usize, &str)> {
        match self {
            PathPattern::Regex(pattern) => pattern.names().collect(),
            _ => Vec::new(),
        }
    }

    /// Returns true if every path matches.
    pub fn is_everything(&self) -> bool {
        matches!(self, PathPattern::Prefix(prefix) if prefix.is_empty() || prefix == "/")
    }

    /// Returns true if the pattern is for files by the end of their names: `*.php`, `\\.php$`.
    pub fn is_for_scripts(&self) -> bool {
        match self {
            PathPattern::Suffix(_) => true,
            PathPattern::Regex(pattern) => {
                let text = pattern.text();
                text.ends_with(b"php$") || text.ends_with(b"php)$")
            }
            _ => false,
        }
    }

    /// Returns the text that all matching paths start with; empty if there is none.
    pub fn literal_start(&self) -> Cow<'_, str> {
        match self {
            PathPattern::Exact(text) | PathPattern::Prefix(text) => Cow::Borrowed(text),
            PathPattern::Suffix(_) => Cow::Borrowed(""),
            PathPattern::Glob(pieces) => Cow::Borrowed(pieces.first().map_or("", |first| first)),
            PathPattern::Regex(pattern) => Cow::Owned(regex_start(pattern)),
        }
    }

    /// Returns whether the path matches.
    ///
    /// # Errors
    /// A regular expression takes too many steps.
    pub fn is_match(&self, path: &[u8]) -> Result<bool, LimitReached> {
        Ok(match self {
            PathPattern::Exact(text) => path == text.as_bytes(),
            PathPattern::Prefix(prefix) => path.starts_with(prefix.as_bytes()),
            PathPattern::Suffix(suffix) => path.ends_with(suffix.as_bytes()),
            PathPattern::Glob(pieces) => glob(pieces, path).is_some(),
            PathPattern::Regex(pattern) => pattern.is_match(path)?,
        })
    }

    /// Returns the captures of the stars or groups if the path matches.
    pub fn captures<'p>(&self, path: &'p [u8]) -> Option<Vec<&'p [u8]>> {
        match self {
            PathPattern::Exact(text) => (path == text.as_bytes()).then(Vec::new),
            PathPattern::Prefix(prefix) => {
                path.strip_prefix(prefix.as_bytes()).map(|rest| vec![rest])
            }
            PathPattern::Suffix(suffix) => {
                path.strip_suffix(suffix.as_bytes()).map(|rest| vec![rest])
            }
            PathPattern::Glob(pieces) => glob(pieces, path),
            PathPattern::Regex(pattern) => {
                let spans = pattern.captures(path).ok().flatten()?;
                Some(
                    (1..=pattern.groups())
                        .map(|group| spans.text(group, path))
                        .collect(),
                )
            }
        }
    }
}

/// As written in a configuration.
impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathPattern::Exact(text) => f.write_str(text),
            PathPattern::Prefix(prefix) => write!(f, "{prefix}*"),
            PathPattern::Suffix(suffix) => write!(f, "*{suffix}"),
            PathPattern::Glob(pieces) => f.write_str(&pieces.join("*")),
            PathPattern::Regex(pattern) => {
                write!(f, "~{}", String::from_utf8_lossy(pattern.text()))
            }
        }
    }
}

/// Leftmost-shortest matching, which decides every pattern of literals and stars without
/// backtracking.
fn glob<'p>(pieces: &[String], path: &'p [u8]) -> Option<Vec<&'p [u8]>> {
    let (first, rest) = pieces.split_first()?;
    let mut left = path.strip_prefix(first.as_bytes())?;
    let (last, middle) = rest.split_last()?;
    let mut captures = Vec::with_capacity(rest.len());
    for piece in middle {
        let at = find(left, piece.as_bytes())?;
        captures.push(&left[..at]);
        left = &left[at + piece.len()..];
    }
    captures.push(left.strip_suffix(last.as_bytes())?);
    Some(captures)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() {
        return Some(0);
    }
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

/// The literal text after a leading `^`, as far as it is certain: alternatives, groups, classes,
/// and quantifiers end it.
fn regex_start(pattern: &Pattern) -> String {
    let options = pattern.options();
    let text = String::from_utf8_lossy(pattern.text());
    let Some(rest) = text.strip_prefix('^') else {
        return String::new();
    };
    if options.caseless || options.extended || options.multiline || rest.contains('|') {
        return String::new();
    }
    let mut start = String::new();
    let mut characters = rest.chars().peekable();
    while let Some(character) = characters.next() {
        let literal = match character {
            '\\' => match characters.next() {
                Some(escaped) if escaped.is_ascii_punctuation() => escaped,
                _ => break,
            },
            '.' | '[' | '(' | ')' | '^' | '$' | '*' | '+' | '?' | '{' => break,
            other => other,
        };
        // A quantifier may allow for none of it.
        if matches!(characters.peek(), Some('*' | '+' | '?' | '{')) {
            break;
        }
        start.push(literal);
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_ap_expr::PatternOptions;

    fn regex(text: &str) -> PathPattern {
        PathPattern::Regex(Pattern::compile(text, PatternOptions::HTTPD).unwrap())
    }

    #[test]
    fn starts_of_regular_expressions() {
        for (text, expected) in [
            ("^/user/([0-9]+)$", "/user/"),
            ("^/a\\.b/", "/a.b/"),
            ("^/ab?c", "/a"),
            ("^/ab{2}", "/a"),
            ("^/a|^/b", ""),
            ("/a", ""),
            ("^/a\\d", "/a"),
            ("^/(a|b)", ""),
            ("^(?i)/a", ""),
            ("^/exact$", "/exact"),
            ("^/[ab]", "/"),
        ] {
            assert_eq!(regex(text).literal_start(), expected, "{text}");
        }
    }

    #[test]
    fn captures_of_regular_expressions() {
        let user = regex("^/user/([0-9]+)(?:/(?<page>[a-z]+))?$");
        assert_eq!((user.stars(), user.names()), (2, vec![(2, "page")]));
        assert_eq!(
            user.captures(b"/user/12/mail"),
            Some(vec![&b"12"[..], b"mail"])
        );
        assert_eq!(user.captures(b"/user/12"), Some(vec![&b"12"[..], b""]));
        assert_eq!(user.captures(b"/user/x"), None);
    }

    #[test]
    fn too_many_steps_are_an_error() {
        let path = [b"/".to_vec(), b"a".repeat(4000), b"!".to_vec()].concat();
        assert_eq!(regex("^/(a+)+$").is_match(&path), Err(LimitReached));
    }
}
