//! Diagnostics, kept in the order of the lines, whichever step made them.

use crate::limits::DIAGNOSTICS_MAX;
use saker_config::Diagnostic;

/// Diagnostics with the sequence number of their line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    found: Vec<(u32, Diagnostic)>,
    has_errors: bool,
    left_out: usize,
}

impl Report {
    pub fn add(&mut self, sequence: u32, diagnostic: Diagnostic) {
        self.has_errors |= diagnostic.is_error();
        match self.found.len() < DIAGNOSTICS_MAX {
            true => self.found.push((sequence, diagnostic)),
            false => self.left_out += 1,
        }
    }

    pub fn has_errors(&self) -> bool {
        self.has_errors
    }

    /// The error that was found first, which is the one that Apache stops at.
    pub fn first_error(&self) -> Option<&Diagnostic> {
        self.found
            .iter()
            .map(|(_, diagnostic)| diagnostic)
            .find(|diagnostic| diagnostic.is_error())
    }

    /// In the order of the lines, and how many were too many to keep.
    pub fn finish(mut self) -> (Vec<Diagnostic>, usize) {
        self.found.sort_by_key(|(sequence, _)| *sequence);
        (
            self.found
                .into_iter()
                .map(|(_, diagnostic)| diagnostic)
                .collect(),
            self.left_out,
        )
    }
}
