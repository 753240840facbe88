//! Sections: which requests they are for, and what they lay over the settings.
//!
//! Difficulty: the three kinds of names compare differently. A folder is compared prefix by prefix
//! while the path is walked; a location is a prefix of the path as asked for, whole components
//! only; a file is compared by its last component.

use crate::{local::Local, modules::alias::prefix_length};
use saker_ap_expr::{Expression, GlobOptions, Pattern, glob_matches};
use saker_config::model::Origin;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum Matcher {
    Exact(Box<[u8]>),
    /// `*`, `?` and `[…]`, none of which match a slash.
    Wild(Box<[u8]>),
    Pattern(Arc<Pattern>),
}

impl Matcher {
    /// A text with or without wildcards.
    pub fn of_text(text: &[u8]) -> Matcher {
        let is_wild = text.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['));
        if is_wild {
            Matcher::Wild(text.into())
        } else {
            Matcher::Exact(text.into())
        }
    }

    pub fn is_pattern(&self) -> bool {
        matches!(self, Matcher::Pattern(_))
    }

    fn is(&self, subject: &[u8]) -> bool {
        match self {
            Matcher::Exact(text) => **text == *subject,
            Matcher::Wild(glob) => glob_matches(
                glob,
                subject,
                GlobOptions {
                    pathname: true,
                    ..GlobOptions::default()
                },
            ),
            Matcher::Pattern(pattern) => pattern.is_match(subject).unwrap_or(false),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Section {
    pub matcher: Matcher,
    pub local: Arc<Local>,
    pub origin: Origin,
}

impl Section {
    /// Of `<Directory>`: components of its path, by which they are sorted.
    pub fn depth(&self) -> usize {
        match &self.matcher {
            Matcher::Exact(path) | Matcher::Wild(path) => path
                .split(|byte| *byte == b'/')
                .filter(|component| !component.is_empty())
                .count(),
            Matcher::Pattern(_) => usize::MAX,
        }
    }

    /// Of two `<Directory>` of one folder each: whether this one's is the other's or in it.
    pub fn is_below(&self, other: &Section) -> bool {
        let (Matcher::Exact(own), Matcher::Exact(outer)) = (&self.matcher, &other.matcher) else {
            return false;
        };
        let outer = outer.strip_suffix(b"/").unwrap_or(outer);
        own.strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

    /// Of `<Directory>`: `folder` begins and ends with a slash.
    pub fn is_for_folder(&self, folder: &[u8]) -> bool {
        let bare = folder.strip_suffix(b"/").unwrap_or(folder);
        match &self.matcher {
            Matcher::Exact(path) | Matcher::Wild(path) if path.ends_with(b"/") => {
                self.matcher.is(folder)
            }
            Matcher::Exact(_) | Matcher::Wild(_) => self.matcher.is(bare),
            Matcher::Pattern(_) => self.matcher.is(folder),
        }
    }

    /// Of `<Location>`: a decoded path.
    pub fn is_for_path(&self, path: &[u8]) -> bool {
        match &self.matcher {
            Matcher::Exact(prefix) => prefix_length(path, prefix).is_some(),
            Matcher::Wild(_) | Matcher::Pattern(_) => self.matcher.is(path),
        }
    }

    /// Of `<Files>`: the last component of a path.
    pub fn is_for_name(&self, name: &[u8]) -> bool {
        self.matcher.is(name)
    }

    /// What a pattern's named groups caught, for the environment (`MATCH_NAME`).
    pub fn named_captures(&self, subject: &[u8]) -> Vec<(String, Vec<u8>)> {
        let Matcher::Pattern(pattern) = &self.matcher else {
            return Vec::new();
        };
        let captures = pattern.captures(subject).ok().flatten();
        let name = |(group, name): (usize, &str)| {
            let text = captures
                .as_ref()?
                .get(group)
                .and_then(|range| subject.get(range))?;
            Some((
                format!("MATCH_{}", name.to_ascii_uppercase()),
                text.to_vec(),
            ))
        };
        pattern.names().filter_map(name).collect()
    }
}

/// `<If>` and what follows it.
#[derive(Clone, Debug)]
pub struct Condition {
    pub kind: ConditionKind,
    pub local: Arc<Local>,
    pub origin: Origin,
}

#[derive(Clone, Debug)]
pub enum ConditionKind {
    If(Arc<Expression>),
    ElseIf(Arc<Expression>),
    Else,
}
