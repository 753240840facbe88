//! Names of sections: texts, wildcards, patterns.
//!
//! Called by: sections, with a folder, a path, or the last component of one.
//! Caveat: a wildcard never matches a slash.

use saker_ap_expr::{GlobOptions, LimitReached, Pattern, glob_matches};
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

    /// Returns whether the subject has the name.
    ///
    /// # Errors
    /// The pattern was given up.
    pub fn is(&self, subject: &[u8]) -> Result<bool, LimitReached> {
        Ok(match self {
            Matcher::Exact(text) => **text == *subject,
            Matcher::Wild(glob) => glob_matches(
                glob,
                subject,
                GlobOptions {
                    pathname: true,
                    ..GlobOptions::default()
                },
            ),
            Matcher::Pattern(pattern) => pattern.is_match(subject)?,
        })
    }
}
