//! Path patterns with `*`, as routes have them.
//!
//! Called by: routing, and rules about paths.

use std::fmt;

/// Pattern of the (normalized, decoded) path of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPattern {
    Exact(String),
    /// `/img/*` is stored as `/img/`.
    Prefix(String),
    /// `*.jpg` is stored as `.jpg`.
    Suffix(String),
    /// Any other use of `*` (which matches any run of bytes, including slashes): the literal pieces
    /// between the stars.
    Glob(Vec<String>),
}

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

    /// Returns the text before the first star.
    pub fn literal(&self) -> &str {
        match self {
            PathPattern::Exact(text) | PathPattern::Prefix(text) => text,
            PathPattern::Suffix(_) => "",
            PathPattern::Glob(pieces) => pieces.first().map_or("", String::as_str),
        }
    }

    /// Number of captures of a match.
    pub fn stars(&self) -> usize {
        match self {
            PathPattern::Exact(_) => 0,
            PathPattern::Prefix(_) | PathPattern::Suffix(_) => 1,
            PathPattern::Glob(pieces) => pieces.len().saturating_sub(1),
        }
    }

    /// Returns true if the path matches.
    pub fn matches(&self, path: &[u8]) -> bool {
        match self {
            PathPattern::Exact(text) => path == text.as_bytes(),
            PathPattern::Prefix(prefix) => path.starts_with(prefix.as_bytes()),
            PathPattern::Suffix(suffix) => path.ends_with(suffix.as_bytes()),
            PathPattern::Glob(pieces) => glob(pieces, path).is_some(),
        }
    }

    /// Returns the captures of the stars if the path matches.
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
