//! Diagnostics of an nginx configuration: for Saker's reports, and in nginx's format.
//!
//! Called by: `read`, and the setters of `saker-nginx-model`.
//! Caveat: nginx stops at the first error; here all are collected.

use crate::tree::Directive;
use saker_config::{Diagnostic, Severity, model::Origin};
use std::{fmt, sync::Arc};

/// The name that directives of `-g` have for a file.
pub(crate) const COMMAND_LINE: &str = "command line";

/// An error in nginx's format: `nginx: [emerg] MESSAGE in FILE:LINE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emergency {
    pub message: String,
    /// File and line; `None`: the message stands alone.
    pub place: Option<(Arc<str>, u32)>,
}

impl fmt::Display for Emergency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some((file, _)) if **file == *COMMAND_LINE => {
                write!(f, "[emerg] {} in {file}", self.message)
            }
            Some((file, line)) => write!(f, "[emerg] {} in {file}:{line}", self.message),
            None => write!(f, "[emerg] {}", self.message),
        }
    }
}

/// All diagnostics of a configuration.
#[derive(Debug, Default)]
pub struct Report {
    pub diagnostics: Vec<Diagnostic>,
    /// The errors among them.
    pub emergencies: Vec<Emergency>,
    /// Lines of the files, for diagnostics.
    lines: Vec<(Arc<str>, Vec<Box<str>>)>,
}

impl Report {
    /// Remembers the lines of a file.
    pub fn add_file(&mut self, file: &Arc<str>, text: &str) {
        self.lines
            .push((Arc::clone(file), text.lines().map(Into::into).collect()));
    }

    /// Reports an error of a directive. nginx names the line where the directive's arguments end.
    pub fn error(
        &mut self,
        directive: &Directive,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        let message = message.into();
        self.emergencies.push(Emergency {
            message: message.clone(),
            place: Some((Arc::clone(&directive.file), directive.end_line)),
        });
        let length = directive.name.text.chars().count();
        self.add(Severity::Error, directive.origin(), length, message, help);
    }

    /// Reports an error at a line.
    pub fn error_at(&mut self, file: &Arc<str>, line: u32, message: String) {
        self.emergencies.push(Emergency {
            message: message.clone(),
            place: Some((Arc::clone(file), line)),
        });
        let origin = Origin {
            file: Arc::clone(file),
            line,
            column: 1,
        };
        self.add(Severity::Error, origin, 0, message, None);
    }

    /// Reports an error without a place in a file.
    pub fn error_without_place(&mut self, message: String) {
        self.emergencies.push(Emergency {
            message: message.clone(),
            place: None,
        });
        self.diagnostics
            .push(Diagnostic::without_source(Origin::built_in(), message));
    }

    /// Reports something that is not as in nginx but does not prevent a start.
    pub fn warn(
        &mut self,
        directive: &Directive,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        let length = directive.name.text.chars().count();
        self.add(
            Severity::Warning,
            directive.origin(),
            length,
            message.into(),
            help,
        );
    }

    /// The same at a line.
    pub fn warn_at(&mut self, origin: &Origin, message: String) {
        self.add(Severity::Warning, origin.clone(), 0, message, None);
    }

    /// The same without a place in a file.
    pub fn warn_without_place(&mut self, message: String) {
        self.add(Severity::Warning, Origin::built_in(), 0, message, None);
    }

    /// Reports something that needs no action.
    pub fn note(&mut self, directive: &Directive, message: impl Into<String>) {
        let length = directive.name.text.chars().count();
        self.add(
            Severity::Note,
            directive.origin(),
            length,
            message.into(),
            None,
        );
    }

    /// Returns true if there is an error.
    pub fn has_errors(&self) -> bool {
        !self.emergencies.is_empty()
    }

    fn add(
        &mut self,
        severity: Severity,
        origin: Origin,
        length: usize,
        message: String,
        help: Option<String>,
    ) {
        let file = self.lines.iter().find(|(file, _)| *file == origin.file);
        let index = usize::try_from(origin.line.saturating_sub(1)).unwrap_or_default();
        let line = file.and_then(|(_, lines)| lines.get(index));
        let line = line.map(|line| line.to_string()).unwrap_or_default();
        let length = u32::try_from(length).unwrap_or_default();
        self.diagnostics.push(Diagnostic::with_line(
            severity, origin, length, message, help, &line,
        ));
    }
}
