//! Failures of orders, with the facts that the next attempt needs.

use std::fmt;

/// The way to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    Later,
    /// Too many nonces were refused in a row (RFC 8555 section 6.5).
    AtOnce,
    /// The authority no longer knows our account (RFC 8555 section 7.3).
    WithNewAccount,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub reason: String,
    /// Seconds to wait before the next attempt, as requested by the authority.
    pub retry_after_s: Option<u64>,
    /// The order can't be continued.
    pub order_is_lost: bool,
    pub retry: Retry,
}

impl Failure {
    /// The authority was not reached, or made no sense: the order may still be good.
    pub fn passing(reason: impl fmt::Display) -> Failure {
        Failure {
            reason: reason.to_string(),
            retry_after_s: None,
            order_is_lost: false,
            retry: Retry::Later,
        }
    }

    /// The authority said no.
    pub fn refused(reason: impl fmt::Display) -> Failure {
        Failure {
            order_is_lost: true,
            ..Failure::passing(reason)
        }
    }

    pub fn of(doing: &str, error: instant_acme::Error) -> Failure {
        let problem = if let instant_acme::Error::Api(problem) = &error {
            Some(problem)
        } else {
            None
        };
        Failure {
            order_is_lost: problem.is_some_and(|problem| !is_passing(problem)),
            retry: match problem.and_then(kind) {
                Some("accountDoesNotExist") => Retry::WithNewAccount,
                Some("badNonce") => Retry::AtOnce,
                _ => Retry::Later,
            },
            ..Failure::passing(format!("{doing}: {}", said(&error)))
        }
    }
}

/// Temporary problems of the authority, which say nothing about the order (RFC 8555 section 6.7).
fn is_passing(problem: &instant_acme::Problem) -> bool {
    matches!(
        kind(problem),
        Some("badNonce" | "rateLimited" | "serverInternal")
    ) || problem
        .status
        .is_some_and(|status| status >= 500 || status == 429)
}

/// The error type (RFC 8555 section 6.7), without its URN prefix.
fn kind(problem: &instant_acme::Problem) -> Option<&str> {
    problem
        .r#type
        .as_deref()?
        .strip_prefix("urn:ietf:params:acme:error:")
}

fn said(error: &instant_acme::Error) -> String {
    match error {
        instant_acme::Error::Api(problem) => problem_said(problem),
        instant_acme::Error::Timeout(_) => "no decision in time".into(),
        other => other.to_string(),
    }
}

/// The readable text of an authority's problem document, on one line.
pub fn problem_said(problem: &instant_acme::Problem) -> String {
    let kind = problem
        .r#type
        .as_deref()
        .map_or("refused", |kind| kind.rsplit(':').next().unwrap_or(kind));
    let mut said = match &problem.detail {
        Some(detail) => format!("{detail} ({kind})"),
        None => kind.to_owned(),
    };
    for subproblem in &problem.subproblems {
        said.push_str(&format!("; {subproblem}"));
    }
    said.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(500)
        .collect()
}
