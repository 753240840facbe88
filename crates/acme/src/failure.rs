//! Why there is no certificate, with what the next attempt must know.

use std::fmt;

/// True if the same attempt may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    Later,
    /// Too many nonces were refused in a row (RFC 8555 section 6.5).
    AtOnce,
    /// The authority does not know our account any more (RFC 8555 section 7.3).
    WithNewAccount,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub reason: String,
    /// Not before this many seconds have passed: the authority said so.
    pub retry_after_s: Option<u64>,
    /// The order is of no further use.
    pub order_is_lost: bool,
    pub again: Again,
}

impl Failure {
    /// The authority was not reached, or made no sense: the order may still be good.
    pub fn passing(reason: impl fmt::Display) -> Failure {
        Failure {
            reason: reason.to_string(),
            retry_after_s: None,
            order_is_lost: false,
            again: Again::Later,
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
            again: match problem.and_then(kind) {
                Some("accountDoesNotExist") => Again::WithNewAccount,
                Some("badNonce") => Again::AtOnce,
                _ => Again::Later,
            },
            ..Failure::passing(format!("{doing}: {}", said(&error)))
        }
    }
}

/// Problems of the authority's own, which say nothing about the order (RFC 8555 section 6.7).
fn is_passing(problem: &instant_acme::Problem) -> bool {
    matches!(
        kind(problem),
        Some("badNonce" | "rateLimited" | "serverInternal")
    ) || problem
        .status
        .is_some_and(|status| status >= 500 || status == 429)
}

/// Of RFC 8555 section 6.7.
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

/// What an authority's problem document says to people, on one line.
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
