//! Location of a value in the configuration.
//!
//! Called by: diagnostics, `check` and `explain`.
//! Caveat: line 0 means that the value is not from a file.

use std::{fmt, sync::Arc};

/// File, line and column (both from 1) of a value; line 0 for a built-in default or a command line
/// argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub file: Arc<str>,
    pub line: u32,
    pub column: u32,
}

impl Origin {
    pub fn built_in() -> Origin {
        Origin {
            file: "default".into(),
            line: 0,
            column: 0,
        }
    }

    pub fn command_line() -> Origin {
        Origin {
            file: "command line".into(),
            line: 0,
            column: 0,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{}:{}", self.file, line, self.column),
        }
    }
}

/// A value with its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    pub value: T,
    pub origin: Origin,
}

impl<T> Sourced<T> {
    pub fn built_in(value: T) -> Self {
        Sourced {
            value,
            origin: Origin::built_in(),
        }
    }
}
