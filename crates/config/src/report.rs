//! Collector of the diagnostics of one file.
//!
//! Called by: the reader and the directives.
//! Caveat: nothing is reported about a line that the TOML parser has already complained about, so
//! that one mistake yields one diagnostic.

use crate::{
    diagnostic::{Diagnostic, Severity},
    source::{Location, Source},
};
use std::{collections::HashSet, ops::Range, path::PathBuf, sync::Arc};

/// The diagnostics of one file, with its text.
pub(crate) struct Report<'r> {
    pub source: Arc<Source>,
    diagnostics: &'r mut Vec<Diagnostic>,
    /// Lines (from 0) with syntax errors.
    broken_lines: HashSet<usize>,
    /// Files that were read for values.
    pub read_files: Vec<PathBuf>,
}

impl<'r> Report<'r> {
    pub fn new(
        source: Arc<Source>,
        diagnostics: &'r mut Vec<Diagnostic>,
        broken_lines: HashSet<usize>,
    ) -> Self {
        Report {
            source,
            diagnostics,
            broken_lines,
            read_files: Vec::new(),
        }
    }

    /// Goes on with another text; returns what [`Report::leave`] takes back.
    pub fn enter(&mut self, source: Arc<Source>) -> (Arc<Source>, HashSet<usize>) {
        let lines = match Arc::ptr_eq(&source, &self.source) {
            true => self.broken_lines.clone(),
            false => HashSet::new(),
        };
        (
            std::mem::replace(&mut self.source, source),
            std::mem::replace(&mut self.broken_lines, lines),
        )
    }

    pub fn leave(&mut self, around: (Arc<Source>, HashSet<usize>)) {
        (self.source, self.broken_lines) = around;
    }

    /// The location of a range of bytes of the file.
    pub fn location(&self, span: Range<usize>) -> Location {
        Location {
            source: self.source.clone(),
            span,
        }
    }

    pub fn error(&mut self, at: &Location, message: impl Into<String>, help: Option<String>) {
        self.push(Severity::Error, at, message.into(), help);
    }

    pub fn warning(&mut self, at: &Location, message: impl Into<String>, help: Option<String>) {
        self.push(Severity::Warning, at, message.into(), help);
    }

    fn push(&mut self, severity: Severity, at: &Location, message: String, help: Option<String>) {
        if !self
            .broken_lines
            .contains(&self.source.line_of(at.span.start))
        {
            self.diagnostics
                .push(Diagnostic::new(severity, at, message, help));
        }
    }
}
