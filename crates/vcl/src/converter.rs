//! A conversion under way: the output so far, and the findings.
//!
//! Called by: `convert`, `receive` and `respond`.
//! Caveat: a statement without a counterpart is an error if it refuses requests, or keeps responses
//! out of the cache, and a warning otherwise.
//! Out of scope: which statements have one.

use crate::{
    output::Output,
    syntax::{Expression, Place, Statement, StatementKind, VclFile},
};

/// The weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// It refuses or protects something, and has no counterpart.
    Error,
    /// It has no counterpart, or a different one.
    Warning,
}

/// Maximum findings of a file.
pub const FINDINGS_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub weight: Weight,
    pub place: Place,
    pub message: String,
    pub help: Option<String>,
}

/// A conversion under way.
pub struct Converter<'f> {
    pub file: &'f VclFile,
    pub out: Output,
    pub findings: Vec<Finding>,
    /// Some requests have left `vcl_recv` before the statement.
    pub has_left: bool,
    /// Responses that may be stored lose their cookies before.
    pub keeps_no_cookie: bool,
}

impl Converter<'_> {
    pub fn warn(&mut self, place: Place, message: impl Into<String>, help: &str) {
        self.find(Weight::Warning, place, message.into(), help);
    }

    pub fn refuse(&mut self, place: Place, message: impl Into<String>, help: &str) {
        self.find(Weight::Error, place, message.into(), help);
    }

    /// Keeps a finding, unless there are enough of its weight: warnings must not hide errors.
    fn find(&mut self, weight: Weight, place: Place, message: String, help: &str) {
        let of_weight = self.findings.iter().filter(|found| found.weight == weight);
        if of_weight.count() == FINDINGS_MAX {
            return;
        }
        self.findings.push(Finding {
            weight,
            place,
            message,
            help: (!help.is_empty()).then(|| help.to_owned()),
        });
    }
}

/// The findings to report, in order: errors before warnings where there are too many.
pub fn reported(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| finding.weight == Weight::Warning);
    findings.truncate(FINDINGS_MAX);
    findings.sort_by_key(|finding| (finding.place.line, finding.place.column));
    findings
}

/// Reports a statement that has no counterpart.
pub fn unsupported(converter: &mut Converter<'_>, statement: &Statement, help: &str) {
    let what = match &statement.kind {
        StatementKind::Set { name, .. } => format!("`set {name}`"),
        StatementKind::Unset(name) => format!("`unset {name}`"),
        StatementKind::If(_) => "this condition".to_owned(),
        StatementKind::Return(action, _) => format!("`return ({action})`"),
        StatementKind::Call(name) => format!("`call {name}`"),
        StatementKind::New(name, _) => format!("`new {name}`"),
        StatementKind::Expression(Expression::Function(name, _)) => format!("`{name}()`"),
        StatementKind::Expression(_) => "this statement".to_owned(),
        StatementKind::InlineC => "inline C".to_owned(),
    };
    let message = format!("{what} can't be converted");
    if refuses(statement) || bypasses(statement) {
        converter.refuse(statement.place, message, help);
    } else {
        converter.warn(statement.place, message, help);
    }
}

/// True if a statement, or one inside of it, answers a request instead of passing it on.
pub fn refuses(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Return(action, _) => matches!(action.as_str(), "synth" | "error" | "fail"),
        StatementKind::Expression(Expression::Name(word)) => word == "error",
        StatementKind::If(branches) => branches.iter().any(|(_, body)| body.iter().any(refuses)),
        StatementKind::InlineC => true,
        _ => false,
    }
}

/// True if a statement, or one inside of it, keeps a response out of the cache.
fn bypasses(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Return(action, _) => {
            matches!(action.as_str(), "pass" | "pipe" | "hit_for_pass")
        }
        StatementKind::Set { name, value } => {
            name == "beresp.uncacheable" || name == "beresp.ttl" && value.is_zero()
        }
        StatementKind::If(branches) => branches.iter().any(|(_, body)| body.iter().any(bypasses)),
        _ => false,
    }
}
