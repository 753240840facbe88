//! Files matched by an `include` pattern.
//!
//! `*` and `?` match parts of one name, never a slash; names that start with a dot are matched only
//! by a pattern that does, and what package managers and editors leave behind (`*~`, `*.bak`,
//! `*.dpkg-*` …) is not matched at all. Files are sorted by name. A pattern without wildcards must name a file;
//! one with wildcards may match nothing.

use saker_net::privileged;
use std::{
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

/// Returns the files, relative to `base` like the pattern.
pub fn expand(base: &Path, pattern: &str) -> Vec<PathBuf> {
    if !is_wild(pattern) {
        return vec![PathBuf::from(pattern)];
    }
    let mut found = vec![PathBuf::new()];
    for component in Path::new(pattern).components() {
        found = match component {
            Component::Normal(name) if name.to_str().is_some_and(is_wild) => {
                let name = name.to_str().unwrap_or_default();
                let mut next = Vec::new();
                for folder in &found {
                    next.extend(entries(base, folder, name));
                }
                next
            }
            component => found
                .into_iter()
                .map(|folder| folder.join(component))
                .collect(),
        };
    }
    found.retain(|file| privileged::metadata(&base.join(file)).is_ok_and(|found| found.is_file()));
    found
}

fn is_wild(text: &str) -> bool {
    text.contains(['*', '?'])
}

fn entries(base: &Path, folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let path = base.join(folder);
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        &path
    };
    let names = privileged::list(path).unwrap_or_default();
    let mut found: Vec<PathBuf> = names
        .iter()
        .filter(|name| name_matches(pattern, name) && !is_left_over(name))
        .map(|name| folder.join(name))
        .collect();
    found.sort();
    found
}

fn name_matches(pattern: &str, name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    (name.first() != Some(&'.') || pattern.first() == Some(&'.')) && glob(&pattern, &name)
}

/// Copies that package managers and editors leave beside a file.
fn is_left_over(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return true;
    };
    let has_end = |end: &&str| name.ends_with(*end);
    name.starts_with('#')
        || [
            "~", ".bak", ".old", ".orig", ".rej", ".swp", ".swo", ".tmp", ".rpmnew", ".rpmsave",
            ".rpmorig",
        ]
        .iter()
        .any(has_end)
        || [".dpkg-", ".ucf-"].iter().any(|part| name.contains(part))
}

/// Backtracks to the last star only, so that the time is at most pattern length times name length.
fn glob(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut last_star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                last_star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || Some(c) == name.get(n) => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((star, matched)) = last_star else {
                    return false;
                };
                last_star = Some((star, matched + 1));
                (p, n) = (star + 1, matched + 1);
            }
        }
    }
    pattern.iter().skip(p).all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let is = |pattern: &str, name: &str| name_matches(pattern, OsStr::new(name));
        assert!(
            is("*.toml", "a.toml")
                && is("*", "a")
                && is("a?c", "abc")
                && is("*a*b*", "xaxbx")
                && is("a*", "a")
        );
        assert!(!is("*.toml", "a.tom") && !is("?", "") && !is("a?c", "ac") && !is("*ab", "abx"));
        assert!(!is("*", ".hidden") && is(".*", ".hidden"));
    }

    #[test]
    fn left_over_files() {
        for name in [
            "a.toml~",
            "a.toml.bak",
            "a.toml.dpkg-old",
            "a.dpkg-dist.toml",
            "#a.toml#",
            "a.swp",
        ] {
            assert!(is_left_over(OsStr::new(name)), "{name}");
        }
        assert!(
            !is_left_over(OsStr::new("10-site.toml")) && !is_left_over(OsStr::new("backup.toml"))
        );
    }

    #[test]
    fn what_is_not_there() {
        assert_eq!(
            expand(Path::new("/no such folder"), "*.toml"),
            Vec::<PathBuf>::new()
        );
        assert_eq!(
            expand(Path::new("/no such folder"), "a.toml"),
            vec![PathBuf::from("a.toml")]
        );
    }
}
