//! Rules of a front end: the phases that it implements, and their outcomes.
//!
//! Called by: the phases of the same names, for every site. Implemented by `saker-native`
//! (saker.toml) and `saker-apache`.
//! Caveat: rules may change the path and restart the phases; restarts are counted and limited.
//! Out of scope: the assignment of sites to front ends, which the registry passes to [`SiteRules`].

use crate::{Exchange, KeptRules, LocalFuture, Response};
use saker_http::Status;
use std::rc::Rc;

/// The outcome of one phase.
pub enum Verdict {
    /// Continues with the next phase.
    Pass,
    /// Ends the phases with this response.
    Answer(Response),
    /// The path or query of the exchange has changed; phases restart after `select_host`.
    Restart,
}

impl From<Option<Response>> for Verdict {
    fn from(answer: Option<Response>) -> Verdict {
        answer.map_or(Verdict::Pass, Verdict::Answer)
    }
}

/// A running phase. A phase that does not wait does not allocate.
pub enum Step<'a> {
    Ready(Verdict),
    /// The rest of the phase, to be awaited.
    Pending(LocalFuture<'a, Verdict>),
}

impl<'a> Step<'a> {
    /// Continues with the next phase.
    pub const PASS: Step<'a> = Step::Ready(Verdict::Pass);

    /// Waits for the outcome.
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

/// Handling of unusual request lines, before the site is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetPolicy {
    /// Rejects them immediately (RFC 9110 sections 9.1 and 9.3).
    Strict,
    /// Leaves unknown methods, encoded slashes, and authority-form targets to the rules of the
    /// site.
    LeftToRules,
}

/// Rules of a front end, one instance per worker. They report dependencies other than listener,
/// host, path, and files with [`Exchange::depends_on_request`], and leave change tokens for files.
pub trait Rules {
    /// Returns the policy for request lines. Called once per server, before any site is known.
    fn target_policy(&self) -> TargetPolicy {
        TargetPolicy::Strict
    }

    /// Runs redirects, rewrites, and routes of the server and the host, after the host is selected.
    fn server_rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a>;

    /// Maps the path to a file ([`RoutingState::mapped`](crate::RoutingState::mapped)) and the
    /// settings in force there ([`RoutingState::settings`](crate::RoutingState::settings)).
    fn map_to_storage<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a>;

    /// Runs authentication and authorization, after limits and before content.
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a>;

    /// Runs everything between access and content: per-directory rewrites, index files, types,
    /// handlers.
    fn fixups<'a>(&'a self, _: &'a mut Exchange) -> Step<'a> {
        Step::PASS
    }

    /// Returns the state of a request that an upstream will answer, before `fixups`. Other requests
    /// with the same host, path, and recorded tests get it in place of the phases, and `fixups` run
    /// for each of them. `None`: the state has something of this request.
    fn kept(&self, _: &Exchange) -> Option<Rc<dyn KeptRules>> {
        None
    }

    /// Returns true if `map_to_storage` binds the path to a file. Code that changes the path
    /// afterwards must then return [`Verdict::Restart`].
    fn binds_path(&self) -> bool {
        false
    }

    /// Returns the built-in page of an error or redirect without a configured one.
    fn own_page(&self, exchange: &Exchange, response: Response) -> Response;

    /// Called with a response, before error documents. Returns true if the path of the exchange has
    /// changed to that of a page that answers instead; phases then restart after `select_host`, and
    /// the page's response is passed in again. May change the response otherwise.
    fn redirects_error(&self, _exchange: &mut Exchange, _response: &mut Response) -> bool {
        false
    }

    /// Returns true if an error document keeps its own status and validators.
    fn keeps_error_document_head(&self) -> bool {
        false
    }

    /// Prepares `page`, the request for the error document of `exchange`, before it enters the
    /// phases.
    fn error_document(&self, _exchange: &Exchange, _page: &mut Exchange, _status: Status) {}

    /// Adopts the state of `page` after it became the response of `exchange`.
    fn adopt_error_document(&self, _exchange: &mut Exchange, _page: &mut Exchange) {}
}

/// Rules of those sites whose entry is true, by their indexes in the model.
type RulesOfSome = (Box<[bool]>, Rc<dyn Rules>);

/// The rules of each site of a generation.
pub struct SiteRules {
    native: Rc<dyn Rules>,
    /// Rules of another front end, and the number of its sites, which come first in the model.
    other: Option<(usize, Rc<dyn Rules>)>,
    /// Rules of native sites that have `.htaccess` files or content rules, and which of the sites
    /// these are.
    directories: Option<RulesOfSome>,
}

impl SiteRules {
    /// Creates rules for a model in which all sites use `native`.
    pub fn new(native: Rc<dyn Rules>) -> SiteRules {
        SiteRules {
            native,
            other: None,
            directories: None,
        }
    }

    /// Assigns the first `sites` sites of the model to another front end.
    #[must_use]
    pub fn with_first(mut self, sites: usize, rules: Rc<dyn Rules>) -> SiteRules {
        self.other = Some((sites, rules));
        self
    }

    /// Assigns the sites whose entry in `sites` is true to rules that apply those of directories
    /// over the native ones.
    #[must_use]
    pub fn with_directory_rules(mut self, sites: Box<[bool]>, rules: Rc<dyn Rules>) -> SiteRules {
        self.directories = Some((sites, rules));
        self
    }

    /// Returns the rules of a site by its index in the model.
    pub fn of(&self, site_index: usize) -> &dyn Rules {
        if let Some((sites, rules)) = &self.other
            && site_index < *sites
        {
            return &**rules;
        }
        match &self.directories {
            Some((sites, rules)) if sites.get(site_index) == Some(&true) => &**rules,
            _ => &*self.native,
        }
    }

    /// Returns the policy for request lines, whose site is not known yet.
    pub fn target_policy(&self) -> TargetPolicy {
        self.other
            .as_ref()
            .map_or(&self.native, |(_, rules)| rules)
            .target_policy()
    }
}
