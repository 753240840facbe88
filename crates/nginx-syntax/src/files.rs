//! Files of a configuration: their text, and patterns of `include`.
//!
//! Called by: `read`.
//! Caveat: a running server reads what may be root's through the broker.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Access to the files of a configuration.
pub trait Files {
    /// # Errors
    /// The system's.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Returns the names in a directory, in any order.
    ///
    /// # Errors
    /// The system's.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
}

/// The files of this machine.
#[derive(Clone, Copy, Debug)]
pub struct OnDisk;

impl Files for OnDisk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        saker_net::privileged::read(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let names = saker_net::privileged::list(path)?;
        Ok(names.into_iter().map(PathBuf::from).collect())
    }
}

/// Returns true if a pattern has wildcards of glob(3).
pub fn has_wildcards(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
}

/// Returns the paths that an absolute pattern matches, in the order of their names (glob(3) without
/// flags).
pub fn matching(files: &dyn Files, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    for (index, part) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        found = match has_wildcards(part) {
            false => found.iter().map(|base| base.join(part)).collect(),
            true => found
                .iter()
                .flat_map(|base| entries(files, base, part))
                .collect(),
        };
        if is_last && !has_wildcards(part) {
            found.retain(|path| files.read(path).is_ok());
        }
    }
    found
}

fn entries(files: &dyn Files, base: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = files.list(base).unwrap_or_default();
    names.sort();
    names
        .iter()
        .filter(|name| {
            let name = name.to_string_lossy();
            (!name.starts_with('.') || pattern.starts_with('.'))
                && wildcard_matches(pattern.as_bytes(), name.as_bytes())
        })
        .map(|name| base.join(name))
        .collect()
}

/// Matches a name against a pattern with `*`, `?`, and `[…]`. Backtracks to the last star only.
pub fn wildcard_matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from, mut star) = (0, 0, None);
    while at < name.len() {
        let step = match pattern.get(from) {
            Some(b'*') => {
                star = Some((from, at));
                from += 1;
                continue;
            }
            Some(b'?') => Some(1),
            Some(b'[') => class(pattern, from, name.get(at).copied().unwrap_or_default()),
            Some(byte) if name.get(at) == Some(byte) => Some(1),
            _ => None,
        };
        match (step, star) {
            (Some(step), _) => (at, from) = (at + 1, from + step),
            (None, Some((star_at, taken))) => {
                star = Some((star_at, taken + 1));
                (at, from) = (taken + 1, star_at + 1);
            }
            (None, None) => return false,
        }
    }
    pattern
        .get(from..)
        .unwrap_or_default()
        .iter()
        .all(|byte| *byte == b'*')
}

/// Returns the length of a class that has the byte; `None`: it has not.
fn class(pattern: &[u8], from: usize, byte: u8) -> Option<usize> {
    let inner = pattern.get(from + 1..)?;
    // A `]` directly behind `[` or `[!` belongs to the class.
    let is_negated = matches!(inner.first(), Some(b'!' | b'^'));
    let start = usize::from(is_negated);
    let end = inner
        .iter()
        .skip(start + 1)
        .position(|byte| *byte == b']')
        .map(|position| position + start + 1)?;
    let members = inner.get(start..end)?;
    let mut index = 0;
    let mut found = false;
    while let Some(first) = members.get(index) {
        match (members.get(index + 1), members.get(index + 2)) {
            (Some(b'-'), Some(last)) => {
                found |= (*first..=*last).contains(&byte);
                index += 3;
            }
            _ => {
                found |= *first == byte;
                index += 1;
            }
        }
    }
    (found != is_negated).then_some(end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards() {
        let cases = [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf~", false),
            ("*", "", true),
            ("a?c", "abc", true),
            ("[0-9]*-x", "10-x", true),
            ("[!0-9]*", "10", false),
            ("[!0-9]*", "a", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXcYb", false),
            ("[", "[", false),
        ];
        for (pattern, name, expected) in cases {
            let matched = wildcard_matches(pattern.as_bytes(), name.as_bytes());
            assert_eq!(matched, expected, "{pattern} {name}");
        }
    }
}
