//! State of one request's evaluations: facts, dependencies, and back-references.
//!
//! Called by: `evaluate`, which walks expressions with it, and mod_rewrite's conditions.
//! Out of scope: the tree.

use crate::{
    API_VERSION, Dependencies, Dependency, ExpressionOptions, Facts, LimitReached, Pattern,
    RequestPart, Spans, Variable,
};
use std::{borrow::Cow, fmt, sync::Arc};

/// Largest file that `file()` reads, as in httpd.
pub(crate) const FILE_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Longest text that concatenation and replacement may make.
const RESULT_BYTES_MAX: usize = FILE_BYTES_MAX + 1024 * 1024;

/// One request's evaluation of one or more expressions.
pub struct Evaluation<'f> {
    pub(crate) facts: &'f dyn Facts,
    /// All facts read so far.
    pub dependencies: Dependencies,
    /// `$0` to `$9`.
    pub backreferences: Backreferences,
    /// Tests of one part of the request are recorded as such.
    pub(crate) records_tests: bool,
}

/// Last match of a pattern with groups.
#[derive(Clone, Debug, Default)]
pub struct Backreferences {
    matched: Option<(Arc<[u8]>, Spans)>,
}

/// Reason why there is no value. httpd logs it and takes the condition as not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluationError {
    pub message: String,
}

pub(crate) type Evaluated<T> = Result<T, EvaluationError>;
pub(crate) type Text<'a> = Cow<'a, [u8]>;

impl Backreferences {
    pub fn set(&mut self, subject: &[u8], spans: Spans) {
        self.matched = Some((subject.into(), spans));
    }

    /// Without a copy, for many matches in one text.
    pub(crate) fn set_shared(&mut self, subject: &Arc<[u8]>, spans: Spans) {
        self.matched = Some((Arc::clone(subject), spans));
    }

    /// True if no pattern has matched.
    pub fn is_empty(&self) -> bool {
        self.matched.is_none()
    }

    pub fn clear(&mut self) {
        self.matched = None;
    }

    /// The positions of the last match, if it is the pattern's: only one with groups leaves it.
    pub(crate) fn spans_of(&self, pattern: &Pattern, matched: bool) -> Option<Spans> {
        let (_, spans) = self.matched.as_ref().filter(|_| matched)?;
        (pattern.groups() > 0).then_some(*spans)
    }

    pub fn is_set(&self) -> bool {
        self.matched.is_some()
    }

    /// `None` where nothing has matched, or the group took no part.
    pub fn group(&self, group: usize) -> Option<&[u8]> {
        let (subject, spans) = self.matched.as_ref()?;
        subject.get(spans.get(group)?)
    }

    pub fn text(&self, group: usize) -> &[u8] {
        self.matched
            .as_ref()
            .map_or(&[], |(subject, spans)| spans.text(group, subject))
    }
}

impl fmt::Display for EvaluationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EvaluationError {}

impl<'f> Evaluation<'f> {
    pub fn new(facts: &'f dyn Facts) -> Evaluation<'f> {
        Evaluation {
            facts,
            dependencies: Dependencies::new(),
            backreferences: Backreferences::default(),
            records_tests: false,
        }
    }

    /// Like [`Evaluation::new`], for callers that use [`Dependencies::tests`].
    pub fn recording_tests(facts: &'f dyn Facts) -> Evaluation<'f> {
        Evaluation {
            records_tests: true,
            ..Evaluation::new(facts)
        }
    }

    /// The value of a server variable, as expressions have it.
    pub fn variable(&mut self, variable: Variable, options: ExpressionOptions) -> Text<'f> {
        let row = variable.row();
        if let Some(field) = row.request_field {
            return self.request_field(field.as_bytes(), !options.no_vary);
        }
        let facts = self.facts;
        if let Some(part) = variable.part().filter(|_| self.records_tests)
            && facts.is_as_received(&part)
        {
            let value = facts.variable(variable);
            self.dependencies.add_value(part, value.as_deref());
            return value.unwrap_or_default();
        }
        self.dependencies.add(row.depends);
        if variable == Variable::ApiVersion {
            // Expressions have the major number alone, rewrite rules both.
            return Cow::Borrowed(API_VERSION.split(':').next().unwrap_or_default().as_bytes());
        }
        if row.depends == Dependency::Time {
            return facts
                .local_time()
                .variable(variable)
                .map_or(Cow::Borrowed(&[]), |text| Cow::Owned(text.into_bytes()));
        }
        facts.variable(variable).unwrap_or_default()
    }

    pub fn request_field(&mut self, name: &[u8], vary: bool) -> Text<'f> {
        let value = self.facts.request_field(name);
        match RequestPart::of_field(name).filter(|_| self.records_tests) {
            Some(part) if self.facts.is_as_received(&part) => {
                self.dependencies.add_value(part, value.as_deref());
                if vary {
                    self.dependencies.add_vary(name);
                }
            }
            _ => self.dependencies.add_request_field(name, vary),
        }
        value.unwrap_or_default()
    }

    pub(crate) fn captures_at(
        &self,
        pattern: &Pattern,
        subject: &[u8],
        start: usize,
    ) -> Result<Option<Spans>, LimitReached> {
        match self.facts.work() {
            Some(work) => work.captures_at(pattern, subject, start),
            None if start == 0 => pattern.captures(subject),
            None => pattern.captures_at(subject, start),
        }
    }

    /// Charges a generated text to the request's budget, and checks its own length.
    pub(crate) fn made(&self, bytes: usize) -> Evaluated<()> {
        within_limit(bytes)?;
        let Some(work) = self.facts.work() else {
            return Ok(());
        };
        work.look_at(bytes);
        work.make(bytes);
        match work.limit() {
            None => Ok(()),
            Some(limit) => Err(EvaluationError {
                message: limit.as_str().to_owned(),
            }),
        }
    }
}

/// Checks the length of a text that concatenation or replacement has made.
pub(crate) fn within_limit(bytes: usize) -> Evaluated<()> {
    if bytes > RESULT_BYTES_MAX {
        return Err(EvaluationError {
            message: "Result too long".to_owned(),
        });
    }
    Ok(())
}
