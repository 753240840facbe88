//! The questions that a front end answers about each request, and the form of its answers.
//!
//! Called by: the phases of the same names, for every site: saker.toml's (`saker-native`) and
//! Apache's (`saker-apache`) implement the same trait.
//! Caveat: rules may change the path and let the phases begin again, which is counted and bounded.
//! Out of scope: which sites a front end has brought ([`SiteRules`] is told by the registry).

use crate::{Exchange, LocalFuture, Response};
use saker_http::Status;
use std::rc::Rc;

/// The outcome of one phase.
pub enum Verdict {
    /// On to the next phase.
    Pass,
    /// No further phase: this is the answer.
    Answer(Response),
    /// The path (or query) of the exchange has changed: begin again behind the choice of the host.
    Restart,
}

impl From<Option<Response>> for Verdict {
    fn from(answer: Option<Response>) -> Verdict {
        answer.map_or(Verdict::Pass, Verdict::Answer)
    }
}

/// A phase at work. One that need not wait allocates nothing.
pub enum Step<'a> {
    Ready(Verdict),
    /// The rest of the phase, to be awaited.
    Pending(LocalFuture<'a, Verdict>),
}

impl<'a> Step<'a> {
    /// Nothing to object to.
    pub const PASS: Step<'a> = Step::Ready(Verdict::Pass);

    /// The outcome, once it is there.
    pub async fn verdict(self) -> Verdict {
        match self {
            Step::Ready(verdict) => verdict,
            Step::Pending(rest) => rest.await,
        }
    }
}

impl From<Verdict> for Step<'_> {
    fn from(verdict: Verdict) -> Self {
        Step::Ready(verdict)
    }
}

impl From<Option<Response>> for Step<'_> {
    fn from(answer: Option<Response>) -> Self {
        Step::Ready(answer.into())
    }
}

/// What happens to a request line that the server itself can't make sense of, before any site is
/// known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetPolicy {
    /// It is refused at once (RFC 9110 sections 9.1 and 9.3).
    Strict,
    /// Unknown methods, encoded slashes and authority-form targets are left to the rules of the
    /// site.
    LeftToRules,
}

/// The rules of one front end, on one worker. Whatever they look at besides listener, host, path
/// and files they report by [`Exchange::depends_on_request`]; of files they leave stamps.
pub trait Rules {
    /// Called once per server, before the host is known.
    fn target_policy(&self) -> TargetPolicy {
        TargetPolicy::Strict
    }

    /// After the host has been chosen: redirects, rewriting and routes of server and host.
    fn server_rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a>;

    /// From the path to a file ([`Exchange::mapped`]) and the settings in force there
    /// ([`Exchange::settings`]).
    fn map_to_storage<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a>;

    /// Authentication and authorization, behind limits and before content.
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a>;

    /// Everything between access and content: rewriting by a folder's rules, index files, types,
    /// handlers.
    fn fixups<'a>(&'a self, _: &'a mut Exchange) -> Step<'a> {
        Step::PASS
    }

    /// `map_to_storage` has bound the path to a file: whoever changes the path afterwards has to
    /// return [`Verdict::Restart`].
    fn binds_path(&self) -> bool {
        false
    }

    /// The built-in page of an error or a redirect for which the site configures none.
    fn own_page(&self, exchange: &Exchange, response: Response) -> Response;

    /// An error document may have a status and validators of its own, and they are sent.
    fn keeps_error_document_head(&self) -> bool {
        false
    }

    /// Called before `page`, the request for the error document of `exchange`, enters the phases.
    fn error_document(&self, _exchange: &Exchange, _page: &mut Exchange, _status: Status) {}

    /// Called after `page` was answered and became the answer of `exchange`: its state is what
    /// counts for the response from here on.
    fn adopt_error_document(&self, _exchange: &mut Exchange, _page: &mut Exchange) {}
}

/// The rules of each site of a generation.
pub struct SiteRules {
    native: Rc<dyn Rules>,
    /// Another front end's, and how many sites it has brought; they come first in the model.
    other: Option<(usize, Rc<dyn Rules>)>,
}

impl SiteRules {
    /// All sites have `native`'s rules.
    pub fn new(native: Rc<dyn Rules>) -> SiteRules {
        SiteRules {
            native,
            other: None,
        }
    }

    /// The first `sites` sites of the model have the rules of another front end.
    #[must_use]
    pub fn with_first(mut self, sites: usize, rules: Rc<dyn Rules>) -> SiteRules {
        self.other = Some((sites, rules));
        self
    }

    /// The rules of a site, by its index in the model.
    pub fn of(&self, site_index: usize) -> &dyn Rules {
        match &self.other {
            Some((sites, rules)) if site_index < *sites => &**rules,
            _ => &*self.native,
        }
    }

    /// For request lines, whose site is not known yet.
    pub fn target_policy(&self) -> TargetPolicy {
        self.other
            .as_ref()
            .map_or(&self.native, |(_, rules)| rules)
            .target_policy()
    }
}
