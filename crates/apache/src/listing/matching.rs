//! Which icon, text and description an entry of a listing has, and whether it is ignored.
//!
//! Difficulty: three kinds of patterns, each with rules of its own; of several that match the
//! innermost and first counts.

use saker_ap_expr::{GlobOptions, glob_matches};
use saker_apache_model::modules::autoindex::{Autoindex, By, Item};

/// Compared with the last component of a path, for those below the folder of the rule.
pub fn is_ignored(settings: &Autoindex, path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    settings.ignored.iter().any(|item| {
        path.starts_with(item.folder.as_bytes()) && matches(item.pattern.as_bytes(), name, false)
    })
}

/// The first item for a path, a type, or (where there is one) a coding.
pub fn item<'i>(
    items: &'i [Item],
    path: &[u8],
    kind: Option<&str>,
    coding: Option<&str>,
    path_only: bool,
) -> Option<&'i str> {
    let fits = |item: &&Item| {
        let subject = match item.by {
            By::Path => return matches(item.pattern.as_bytes(), path, false),
            By::Type if coding.is_none() && !path_only => kind,
            By::Encoding if !path_only => coding,
            By::Type | By::Encoding => None,
        };
        subject.is_some_and(|subject| matches(item.pattern.as_bytes(), subject.as_bytes(), true))
    };
    items
        .iter()
        .filter(|item| path.starts_with(item.folder.as_bytes()))
        .find(fits)
        .map(|item| &*item.value)
}

/// `^^DIRECTORY^^`, `^^BLANKICON^^`.
pub fn special<'i>(items: &'i [Item], name: &str) -> Option<&'i str> {
    items
        .iter()
        .find(|item| item.by == By::Path && item.pattern.trim_start_matches('*') == name)
        .map(|item| &*item.value)
}

pub fn description(settings: &Autoindex, path: &[u8]) -> Option<String> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let found = settings.descriptions.iter().find(|one| {
        let subject = if one.full_path { path } else { name };
        match one.is_glob {
            true => glob_matches(one.pattern.as_bytes(), subject, GlobOptions::default()),
            false => subject
                .windows(one.pattern.len().max(1))
                .any(|part| part == one.pattern.as_bytes()),
        }
    });
    found.map(|one| one.text.to_string())
}

/// `*` and `?`, which match slashes too.
pub fn matches(pattern: &[u8], text: &[u8], any_case: bool) -> bool {
    let (mut at, mut in_text, mut back) = (0, 0, None);
    while in_text < text.len() {
        let same =
            |one: u8, other: u8| one == other || any_case && one.eq_ignore_ascii_case(&other);
        match (pattern.get(at), text.get(in_text)) {
            (Some(b'*'), _) => {
                back = Some((at + 1, in_text));
                at += 1;
            }
            (Some(b'?'), Some(_)) => (at, in_text) = (at + 1, in_text + 1),
            (Some(one), Some(other)) if same(*one, *other) => (at, in_text) = (at + 1, in_text + 1),
            _ => match back {
                Some((after_star, from)) => {
                    (at, in_text) = (after_star, from + 1);
                    back = Some((after_star, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern
        .get(at..)
        .unwrap_or_default()
        .iter()
        .all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_slashes() {
        let cases = [
            ("*.gz", "/a/b.gz", true),
            ("*/b?", "/a/bc", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b", "axxc", false),
            ("", "", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes(), false),
                expected,
                "{pattern} {text}"
            );
        }
        assert!(matches(b"text/*", b"TEXT/plain", true));
    }
}
