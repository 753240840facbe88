//! Conditions on requests, combined by all, any, and not.
//!
//! Called by: route selection; other features that apply to some requests only.
//! Caveat: evaluation stops at the first part that decides, and only the parts that were evaluated
//! are recorded.
//! Out of scope: the path of a route, which an index narrows down before matchers run.

use crate::{
    PartTest, PathPattern, Template, TimeWindow, ValueTest, VariableTest,
    client_set::{self, ClientSet},
    evaluation::{Evaluation, FileKind, MatchError},
    part_test,
    sink::PathSink,
};
use saker_ap_expr::{
    Dependency, Evaluation as ExpressionEvaluation, Expression, Predicate, RequestPart,
};
use saker_http::Version;
use std::{borrow::Cow, fmt, sync::Arc};

/// A condition on requests.
#[derive(Clone, Debug)]
pub enum Matcher {
    /// True for an empty list.
    All(Arc<[Matcher]>),
    /// False for an empty list.
    Any(Arc<[Matcher]>),
    Not(Arc<Matcher>),
    /// A matcher with a name, for traces.
    Named(Arc<str>, Arc<Matcher>),
    /// One of the patterns matches the current path.
    Path(Arc<[PathPattern]>),
    /// One of the tests holds for the canonical host.
    Host(Arc<[ValueTest]>),
    Method(Arc<[Box<str>]>),
    Part(Arc<PartTest>),
    Variable(Arc<VariableTest>),
    Client(Arc<ClientSet>),
    /// The connection is encrypted, or not.
    Secure(bool),
    Version(Arc<[Version]>),
    Time(Arc<TimeWindow>),
    File(Arc<FileTest>),
    Expression(Arc<Expression>),
}

/// A test of a file below the document root.
#[derive(Debug)]
pub struct FileTest {
    pub path: Template,
    pub is_directory: bool,
}

impl Matcher {
    /// Returns whether the request matches.
    ///
    /// # Errors
    /// A pattern or an expression could not be evaluated. The request must be refused then.
    pub fn matches(&self, evaluation: &mut Evaluation<'_>) -> Result<bool, MatchError> {
        let facts = evaluation.facts;
        Ok(match self {
            Matcher::All(all) => {
                for one in all.iter() {
                    if !one.matches(evaluation)? {
                        return Ok(false);
                    }
                }
                true
            }
            Matcher::Any(any) => {
                for one in any.iter() {
                    if one.matches(evaluation)? {
                        return Ok(true);
                    }
                }
                false
            }
            Matcher::Not(inner) => !inner.matches(evaluation)?,
            Matcher::Named(_, inner) => inner.matches(evaluation)?,
            Matcher::Path(patterns) => {
                for pattern in patterns.iter() {
                    if path_matches(pattern, facts.path(), evaluation)? {
                        return Ok(true);
                    }
                }
                false
            }
            Matcher::Host(tests) => {
                for test in tests.iter() {
                    if test.holds(Some(facts.host()))? {
                        return Ok(true);
                    }
                }
                false
            }
            Matcher::Method(methods) => method(methods, evaluation),
            Matcher::Part(test) => part_test::matches(test, evaluation)?,
            Matcher::Variable(test) => test.matches(evaluation)?,
            Matcher::Client(set) => client_set::matches(set, evaluation),
            Matcher::Secure(wanted) => {
                evaluation.dependencies.add(Dependency::Scheme);
                facts.is_secure() == *wanted
            }
            Matcher::Version(versions) => version(versions, evaluation),
            Matcher::Time(window) => time(window, evaluation),
            Matcher::File(test) => file(test, evaluation)?,
            Matcher::Expression(expression) => evaluate(expression, evaluation)?,
        })
    }

    /// Calls `visit` for this matcher and all inside of it.
    pub fn visit(&self, visit: &mut impl FnMut(&Matcher)) {
        visit(self);
        match self {
            Matcher::All(inner) | Matcher::Any(inner) => {
                inner.iter().for_each(|one| one.visit(visit))
            }
            Matcher::Not(inner) | Matcher::Named(_, inner) => inner.visit(visit),
            _ => {}
        }
    }
}

/// Matches a path, at the request's expense if the pattern is a regular expression.
pub(crate) fn path_matches(
    pattern: &PathPattern,
    path: &[u8],
    evaluation: &Evaluation<'_>,
) -> Result<bool, MatchError> {
    match pattern {
        PathPattern::Regex(regex) => evaluation.is_match(regex, path),
        pattern => Ok(pattern.is_match(path)?),
    }
}

impl Evaluation<'_> {
    /// Returns whether the current path matches.
    ///
    /// # Errors
    /// A regular expression takes too many steps.
    pub fn path_matches(&self, pattern: &PathPattern) -> Result<bool, MatchError> {
        path_matches(pattern, self.facts.path(), self)
    }
}

/// Only GET and HEAD are answered from cached routes, so a test that has the same result for both
/// is not recorded.
fn method(methods: &[Box<str>], evaluation: &mut Evaluation<'_>) -> bool {
    let has = |method: &str| methods.iter().any(|wanted| **wanted == *method);
    let is_recorded = has("GET") != has("HEAD");
    let variable = saker_ap_expr::Variable::RequestMethod;
    let value = evaluation.facts.variable(variable).unwrap_or_default();
    methods.iter().any(|wanted| {
        let result = *value == *wanted.as_bytes();
        if is_recorded && ["GET", "HEAD"].contains(&&**wanted) {
            let test = Predicate::Equals(wanted.as_bytes().into());
            evaluation.record(RequestPart::Method, test, result);
        }
        result
    })
}

fn version(versions: &[Version], evaluation: &mut Evaluation<'_>) -> bool {
    let version = evaluation.facts.version();
    versions.iter().any(|wanted| {
        let result = version == *wanted;
        let test = Predicate::Equals(wanted.as_str().as_bytes().into());
        evaluation.record(RequestPart::Version, test, result);
        result
    })
}

fn time(window: &TimeWindow, evaluation: &mut Evaluation<'_>) -> bool {
    let now = evaluation.facts.local_time();
    evaluation.hold_until(evaluation.facts.now_s() + window.holds_s(now));
    window.contains(now)
}

fn file(test: &FileTest, evaluation: &mut Evaluation<'_>) -> Result<bool, MatchError> {
    let mut path = PathSink::default();
    test.path.expand(evaluation, &mut path)?;
    let kind = path
        .finish()
        .and_then(|path| evaluation.facts.file_kind(&path));
    Ok(match test.is_directory {
        true => kind == Some(FileKind::Directory),
        false => kind == Some(FileKind::Regular),
    })
}

fn evaluate(expression: &Expression, evaluation: &mut Evaluation<'_>) -> Result<bool, MatchError> {
    let mut inner = ExpressionEvaluation::recording_tests(evaluation.facts);
    let result = expression
        .evaluate(&mut inner)
        .map_err(|error| MatchError {
            message: error.message,
        })?;
    evaluation
        .dependencies
        .merge_without_vary(&inner.dependencies);
    Ok(result)
}

/// For traces and `check`.
impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, all: &[Matcher], between: &str| {
            let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
            f.write_str(&texts.join(between))
        };
        match self {
            Matcher::All(all) => list(f, all, " and "),
            Matcher::Any(any) => {
                f.write_str("(")?;
                list(f, any, " or ")?;
                f.write_str(")")
            }
            Matcher::Not(inner) => write!(f, "not ({inner})"),
            Matcher::Named(name, _) => write!(f, "matcher {name}"),
            Matcher::Path(patterns) => {
                let texts: Vec<String> = patterns.iter().map(ToString::to_string).collect();
                write!(f, "path {}", texts.join(", "))
            }
            Matcher::Method(methods) => write!(f, "method {}", methods.join(", ")),
            other => f.write_str(&other.kind()),
        }
    }
}

impl Matcher {
    fn kind(&self) -> Cow<'static, str> {
        match self {
            Matcher::Host(_) => "host".into(),
            Matcher::Part(test) => format!("{:?}", test.source).into(),
            Matcher::Variable(test) => format!("variable {}", test.name).into(),
            Matcher::Client(_) => "client".into(),
            Matcher::Secure(true) => "scheme https".into(),
            Matcher::Secure(false) => "scheme http".into(),
            Matcher::Version(_) => "protocol".into(),
            Matcher::Time(_) => "time".into(),
            Matcher::File(test) => format!("file {}", test.path).into(),
            Matcher::Expression(_) => "expression".into(),
            _ => "matcher".into(),
        }
    }
}
