//! Actions of routes.
//!
//! Called by: route selection, `check` and `explain`.
//! Out of scope: the keys (`directives/route`).

use super::{Proxy, Template};
use saker_http::Status;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Serve from the document root.
    Files,
    Redirect(Redirect),
    /// A fixed response.
    Respond {
        status: Status,
        content_type: String,
        body: Template,
    },
    /// Forwards to an upstream.
    Proxy(Proxy),
    /// Responds with 403.
    Deny,
}

/// Describes the action in `check` and `explain`.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Files => f.write_str("files, with their own settings"),
            Action::Redirect(redirect) => write!(f, "redirect to {}", redirect.to),
            Action::Respond { status, .. } => write!(f, "a fixed response ({})", status.0),
            Action::Proxy(proxy) => write!(f, "proxy to {}", proxy.said),
            Action::Deny => f.write_str("deny"),
        }
    }
}

/// A redirect of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    pub status: Status,
    /// A path or an absolute URI.
    pub to: Template,
}

/// A change of the path inside of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rewrite {
    To(RewriteTarget),
    /// The first candidate that exists, or else the fallback.
    TryFiles {
        candidates: Vec<Candidate>,
        fallback: Fallback,
    },
}

impl Rewrite {
    /// Returns true if the new path and query are the same for all requests.
    pub fn is_constant(&self) -> bool {
        let is_constant = |path: &Template| path.constant().is_some();
        let is_fixed = |target: &RewriteTarget| {
            is_constant(&target.path) && target.query.as_ref().is_none_or(is_constant)
        };
        match self {
            Rewrite::To(target) => is_fixed(target),
            Rewrite::TryFiles {
                candidates,
                fallback,
            } => {
                candidates.iter().all(|one| is_constant(&one.path))
                    && match fallback {
                        Fallback::Status(_) => true,
                        Fallback::Target(target) => is_fixed(target),
                        Fallback::Route(_) => false,
                    }
            }
        }
    }
}

/// Target of an internal redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewriteTarget {
    /// Decoded path.
    pub path: Template,
    /// Replaces the query; `None`: it stays as it is.
    pub query: Option<Template>,
}

/// A path below the document root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub path: Template,
    /// A directory; otherwise a regular file.
    pub is_directory: bool,
}

/// Outcome if no candidate exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fallback {
    Status(Status),
    Target(RewriteTarget),
    /// The route with this name.
    Route(Box<str>),
}

/// Describes the change in `check` and `explain`.
impl fmt::Display for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rewrite::To(target) => write!(f, "rewrite to {}", target.path),
            Rewrite::TryFiles { candidates, .. } => {
                f.write_str("try_files")?;
                candidates
                    .iter()
                    .try_for_each(|candidate| write!(f, " {}", candidate.path))
            }
        }
    }
}
