//! Which files an `Include` stands for, in Apache's order.
//!
//! A directory stands for every file below it, hidden ones too, each directory's entries in the
//! order of their bytes. A pattern may have wildcards in any part; they match no hidden name.
//! `Include` of a pattern that matches nothing is an error at the first part without a match, and
//! `IncludeOptional` forgives what is missing.

use crate::{
    files::{FileKind, Files},
    limits::{FILES_MAX, INCLUDE_DIRECTORY_DEPTH_MAX},
};
use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

/// The files in the order in which they are read; the error in Apache's words.
pub(crate) fn files_of(
    files: &dyn Files,
    path: &Path,
    optional: bool,
) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let components: Vec<Component<'_>> = path.components().collect();
    match path
        .components()
        .any(|part| is_wild(part.as_os_str().as_bytes()))
    {
        false => add(files, path, optional, 0, &mut found)?,
        true => add_matches(files, PathBuf::new(), &components, optional, &mut found)?,
    }
    Ok(found)
}

/// A file, or what is below a directory.
fn add(
    files: &dyn Files,
    path: &Path,
    optional: bool,
    depth: usize,
    found: &mut Vec<PathBuf>,
) -> Result<(), String> {
    match files.kind(path) {
        Some(FileKind::Directory) => add_directory(files, path, optional, depth, found),
        None if optional => Ok(()),
        _ if found.len() >= FILES_MAX => Err(format!("Include: more than {FILES_MAX} files")),
        _ => {
            found.push(path.to_owned());
            Ok(())
        }
    }
}

fn add_directory(
    files: &dyn Files,
    path: &Path,
    optional: bool,
    depth: usize,
    found: &mut Vec<PathBuf>,
) -> Result<(), String> {
    if depth >= INCLUDE_DIRECTORY_DEPTH_MAX {
        return Err(format!(
            "Directory '{}' exceeds the maximum include directory nesting level of {INCLUDE_DIRECTORY_DEPTH_MAX}. You have probably a recursion somewhere.",
            path.display()
        ));
    }
    let names = sorted(files, path).map_err(|error| {
        format!(
            "Could not open config directory {}: {}",
            path.display(),
            reason(&error)
        )
    })?;
    for name in names {
        add(files, &path.join(name), optional, depth + 1, found)?;
    }
    Ok(())
}

/// Follows a pattern part by part from `base` on.
fn add_matches(
    files: &dyn Files,
    base: PathBuf,
    parts: &[Component<'_>],
    optional: bool,
    found: &mut Vec<PathBuf>,
) -> Result<(), String> {
    let Some((part, rest)) = parts.split_first() else {
        return add(files, &base, optional, 0, found);
    };
    let pattern = part.as_os_str().as_bytes();
    if !is_wild(pattern) {
        return add_matches(files, base.join(part), rest, optional, found);
    }
    let names = match sorted(files, &base) {
        Ok(names) => names,
        Err(_) if optional => return Ok(()),
        Err(error) => {
            return Err(format!(
                "Include/IncludeOptional: Could not open directory {}: {}",
                base.display(),
                reason(&error)
            ));
        }
    };
    let is_last = rest.is_empty();
    let matching: Vec<PathBuf> = names
        .iter()
        .filter(|name| name_matches(pattern, name))
        .map(|name| base.join(name))
        .collect();
    let matching: Vec<PathBuf> = matching
        .into_iter()
        .filter(|path| is_last || files.kind(path) == Some(FileKind::Directory))
        .collect();
    if matching.is_empty() && !optional {
        let (pattern, base) = (part.as_os_str().to_string_lossy(), base.display());
        return Err(format!(
            "Include/IncludeOptional: No matches for the wildcard '{pattern}' in '{base}', failing"
        ));
    }
    for path in matching {
        add_matches(files, path, rest, optional, found)?;
    }
    Ok(())
}

fn sorted(files: &dyn Files, directory: &Path) -> io::Result<Vec<OsString>> {
    let mut names = files.list(directory)?;
    names.sort();
    Ok(names)
}

/// An error of the system as C programs say it, without a number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn is_wild(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

fn name_matches(pattern: &[u8], name: &OsStr) -> bool {
    let name = name.as_bytes();
    let hidden = name.first() == Some(&b'.') && pattern.first() != Some(&b'.');
    !hidden && glob(pattern, name)
}

/// `*`, `?`, `[...]` and backslash. Goes back to the last star only, so that it takes at most
/// length times length.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut last_star = None;
    while let Some(byte) = name.get(n) {
        let rest = pattern.get(p..).unwrap_or_default();
        if rest.first() == Some(&b'*') {
            last_star = Some((p + 1, n));
            p += 1;
        } else if let Some(length) = one(rest, *byte) {
            p += length;
            n += 1;
        } else {
            let Some((star, matched)) = last_star else {
                return false;
            };
            last_star = Some((star, matched + 1));
            (p, n) = (star, matched + 1);
        }
    }
    pattern.iter().skip(p).all(|byte| *byte == b'*')
}

/// The length of the pattern that stands for this byte.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', set @ ..] => bracket(set, byte).map(|length| length + 1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

/// Matches a set behind its `[`. Returns its length with the `]`, if the byte is in it.
fn bracket(set: &[u8], byte: u8) -> Option<usize> {
    let reversed = matches!(set.first(), Some(b'!' | b'^'));
    let mut at = usize::from(reversed);
    let (first, mut found) = (at, false);
    loop {
        match *set.get(at..)? {
            [b']', ..] if at > first => break,
            [low, b'-', high, ..] if high != b']' => {
                found |= (low..=high).contains(&byte);
                at += 3;
            }
            [member, ..] => {
                found |= member == byte;
                at += 1;
            }
            [] => return None,
        }
    }
    (found != reversed).then_some(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::InMemory;

    fn tree() -> InMemory {
        ["/c/B", "/c/a/b/x.conf", "/c/a/z", "/c/c1.conf", "/c/c/.hid"]
            .iter()
            .fold(InMemory::default(), |files, path| files.with(path, ""))
    }

    fn found(path: &str, optional: bool) -> Result<Vec<String>, String> {
        let paths = files_of(&tree(), Path::new(path), optional)?;
        Ok(paths
            .into_iter()
            .map(|path| path.display().to_string())
            .collect())
    }

    #[test]
    fn directories_and_wildcards() {
        let all = ["/c/B", "/c/a/b/x.conf", "/c/a/z", "/c/c/.hid", "/c/c1.conf"];
        assert_eq!(found("/c", false).unwrap(), all);
        assert_eq!(found("/c/*", false).unwrap(), all);
        assert_eq!(found("/c/[ac]*", false).unwrap(), all[1..]);
        assert_eq!(found("/c/[!a-z]", false).unwrap(), ["/c/B"]);
        assert_eq!(found("/*/a/*/*.conf", true).unwrap(), ["/c/a/b/x.conf"]);
        assert_eq!(
            found("/c/no", false).unwrap(),
            ["/c/no"],
            "reading it will fail"
        );
    }

    #[test]
    fn what_is_missing() {
        assert_eq!(
            found("/c/*/*", false).unwrap_err(),
            "Include/IncludeOptional: No matches for the wildcard '*' in '/c/c', failing"
        );
        assert_eq!(found("/c/*/*", true).unwrap(), ["/c/a/b/x.conf", "/c/a/z"]);
        assert_eq!(found("/c/no", true).unwrap(), [""; 0]);
        assert_eq!(found("/c/no/*.conf", true).unwrap(), [""; 0]);
    }

    #[test]
    fn patterns() {
        let is = |pattern: &str, name: &str| name_matches(pattern.as_bytes(), OsStr::new(name));
        assert!(
            is("*.conf", "a.conf")
                && is("a?c", "abc")
                && is("[]x]", "]")
                && is("[a-c]*", "bz")
                && is("\\*", "*")
                && is("*a*b", "xaab")
        );
        assert!(
            !is("*", ".a")
                && is(".*", ".a")
                && !is("[abc", "a")
                && !is("?", "")
                && !is("[!a]", "a")
        );
    }
}
