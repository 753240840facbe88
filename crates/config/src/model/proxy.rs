//! Proxy routes: the upstream, the path it sees, and the fields it gets.
//!
//! Called by: the gateway, for routes with `proxy`.
//! Out of scope: the keys (`directives/proxy`), and the upstream itself (`upstream`).

use super::{Origin, Template, Upstream};
use std::sync::Arc;

/// Target of a route with `proxy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Name or URL, as written.
    pub said: Box<str>,
    pub upstream: Arc<Upstream>,
    /// Forwards the client's Host.
    pub preserves_host: bool,
    /// Sets X-Forwarded-Proto instead of forwarding the client's.
    pub tells_scheme: bool,
    /// Shared by all requests of the route.
    pub terms: Arc<ProxyTerms>,
    pub origin: Origin,
}

/// An upstream that gets copies of a route's requests. Its responses are discarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// Name or URL, as written.
    pub said: Box<str>,
    /// `None` only if the configuration has errors.
    pub upstream: Option<Arc<Upstream>>,
    /// Part of the requests that are copied, in millionths.
    pub sample_ppm: u64,
    /// Copies the content, too.
    pub copies_body: bool,
    /// Maximum time from the start of a copy to the end of its response.
    pub timeout_ms: u64,
    pub origin: Origin,
}

/// Options of a proxy route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyTerms {
    /// Removed from the beginning of the path, at a segment boundary; without a trailing slash.
    pub strip_prefix: Option<Box<str>>,
    /// Put in front of the path; without a trailing slash.
    pub add_prefix: Box<str>,
    /// Rewrites `Location`, `Content-Location`, and `Refresh` from the upstream's URLs to the
    /// route's.
    pub rewrites_redirects: bool,
    /// Rewrites paths and domains of cookies likewise.
    pub rewrites_cookies: bool,
    /// Overrides the timeout of the upstream.
    pub timeout_ms: Option<u64>,
    /// Gets copies of requests.
    pub mirror: Option<Arc<Mirror>>,
}

impl Default for ProxyTerms {
    fn default() -> ProxyTerms {
        ProxyTerms {
            strip_prefix: None,
            add_prefix: "".into(),
            rewrites_redirects: true,
            rewrites_cookies: true,
            timeout_ms: None,
            mirror: None,
        }
    }
}

/// One edit of the request fields that an upstream gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFieldEdit {
    pub name: Box<str>,
    pub action: RequestFieldAction,
    pub origin: Origin,
}

/// A value that is empty for a request is no value: `Set` removes the field then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestFieldAction {
    /// Replaces all lines of this name.
    Set(Template),
    /// Adds a line.
    Append(Template),
    /// Sets the field only if the request does not have it.
    SetIfAbsent(Template),
    Remove,
}

impl RequestFieldAction {
    /// The text; `None` for a removal.
    pub fn text(&self) -> Option<&Template> {
        match self {
            RequestFieldAction::Set(text)
            | RequestFieldAction::Append(text)
            | RequestFieldAction::SetIfAbsent(text) => Some(text),
            RequestFieldAction::Remove => None,
        }
    }
}

impl RequestFieldEdit {
    /// Returns true if the edit decides about the field, so that nothing else sets it.
    pub fn decides(&self, name: &[u8]) -> bool {
        !matches!(self.action, RequestFieldAction::Append(_))
            && self.name.as_bytes().eq_ignore_ascii_case(name)
    }
}

impl Proxy {
    /// Returns true if the upstream is a program that looks for a file by the path (FastCGI, LSAPI).
    pub fn is_for_files(&self) -> bool {
        use super::Protocol::{FastCgi, Lsapi};
        let first = self.upstream.templates().next();
        first.is_some_and(|member| matches!(member.backend.protocol, FastCgi | Lsapi))
    }
}
