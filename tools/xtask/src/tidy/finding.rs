//! The files that tidy reads, and what it reports about them.
//!
//! Called by: every rule of `tidy`.
//! Caveat: paths are relative to the root of the repository.
//! Out of scope: the rules themselves.

use std::fmt;

/// A violation of a house rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub file: String,
    /// From 1; 0 for the file as a whole.
    pub line: usize,
    pub what: String,
}

impl Finding {
    pub fn new(file: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding {
            file: file.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what),
            line => write!(f, "{}:{line}: {}", self.file, self.what),
        }
    }
}

/// Path and text of a file of the repository.
pub struct File {
    pub path: String,
    pub text: String,
}
