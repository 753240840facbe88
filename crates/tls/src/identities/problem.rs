//! Problems of a certificate, key or setting, with the place where it was configured, and the fix.

use saker_config::model::Origin;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It works, but not as it should.
    Warning,
    /// It does not work.
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadProblem {
    pub severity: Severity,
    /// Location of the value in the configuration.
    pub origin: Origin,
    pub message: String,
    /// Suggested fix.
    pub help: Option<String>,
    /// The kernel refused to let this user look.
    pub is_denied: bool,
}

impl LoadProblem {
    pub(crate) fn error(origin: Origin, message: String) -> LoadProblem {
        LoadProblem {
            severity: Severity::Error,
            origin,
            message,
            help: None,
            is_denied: false,
        }
    }

    pub(crate) fn warning(origin: Origin, message: String) -> LoadProblem {
        LoadProblem {
            severity: Severity::Warning,
            origin,
            message,
            help: None,
            is_denied: false,
        }
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> LoadProblem {
        self.help = Some(help.into());
        self
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for LoadProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)?;
        self.help.iter().try_for_each(|help| write!(f, " ({help})"))
    }
}
