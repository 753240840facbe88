//! Outcomes of the phases for requests that an upstream answers, which the route cache keeps as it
//! keeps answers: site, route, settings, and path are known, and the exchange with the upstream
//! begins at once. Where other front ends' rules lead to the upstream, their last phase, which makes
//! the call, is of each request.
//!
//! Called by: the phases, which make one and take it in place of their own (`phases::decided`);
//! drivers, which give one to the exchange of a later request.
//! Out of scope: conditions and change tokens (`route_cache`); content of unknown length.

use crate::{
    CachedRoute, KeptRules, Response, UpstreamRequest, mapped::Mapped, route_kind::RouteKind,
};
use saker_ap_expr::RequestTest;
use saker_config::model::{Settings, Site};
use saker_files::ChangeToken;
use saker_http::HeadView;
use saker_matchers::Captures;
use std::{cell::RefCell, rc::Rc, sync::Arc};

/// Upstream requests of a decision that are kept for their memory.
const SPARE_MAX: usize = 4;
/// One whose texts have become longer, which clients can bring about, is not kept.
const SPARE_BYTES_MAX: usize = 8 << 10;

/// Outcome of the phases for a path.
pub struct Decision {
    /// Number of the configuration.
    pub(crate) generation: u64,
    pub site_index: usize,
    pub settings: Arc<Settings>,
    pub(crate) site: Arc<Site>,
    pub(crate) route: Option<usize>,
    pub(crate) tried_files: Option<usize>,
    pub(crate) captures: Option<Rc<Captures>>,
    pub(crate) encoded_slash: bool,
    pub(crate) mapped: Option<Mapped>,
    pub(crate) scripts_by_name: bool,
    pub(crate) redirects: u8,
    pub(crate) redirects_in_place: u8,
    pub(crate) redirects_max: u8,
    pub(crate) nesting_max: u8,
    pub(crate) host: Box<[u8]>,
    pub path: Box<[u8]>,
    /// Host field and path as they were received; rules may have edited the head since.
    pub received_host: Box<[u8]>,
    pub received_path: Box<[u8]>,
    /// The query that rules have written; `None`: it is the client's.
    pub(crate) own_query: Option<Option<Box<[u8]>>>,
    /// State of the rules before their last phase, which follows; `None`: the route says it all.
    pub(crate) rules: Option<Rc<dyn KeptRules>>,
    /// Requests that have ended; only their queries differ, unless rules make them.
    #[expect(clippy::vec_box, reason = "requests are handed on in their boxes")]
    pub(crate) spare: RefCell<Vec<Box<UpstreamRequest>>>,
}

/// A decision that was made for this request, with all that it depended on.
pub struct KeptDecision {
    pub decision: Rc<Decision>,
    pub change_tokens: Vec<ChangeToken>,
    pub tests: Vec<RequestTest>,
    /// The requests that it is for.
    pub kind: RouteKind,
}

impl Decision {
    /// Returns true if the decision is of the configuration with this number.
    pub fn is_of(&self, generation: u64) -> bool {
        self.generation == generation
    }

    /// Takes an upstream request that was made by this decision, for another request. Where rules make
    /// them, only its memory is of use.
    pub fn take_request(&self) -> Option<Box<UpstreamRequest>> {
        self.spare.borrow_mut().pop()
    }

    /// Keeps an upstream request that has ended, unless rules make each of them anew.
    pub fn keep_request(&self, request: Box<UpstreamRequest>) {
        if self
            .rules
            .as_ref()
            .is_some_and(|rules| !rules.takes_calls())
        {
            return;
        }
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_MAX && memory_of(&request) <= SPARE_BYTES_MAX {
            spare.push(request);
        }
    }

    /// Returns true if another decision about the same path says the same.
    pub fn is_same(&self, other: &Decision) -> bool {
        self.generation == other.generation
            && self.site_index == other.site_index
            && self.site.root == other.site.root
            && has_same_settings(&self.settings, &other.settings)
            && self.route == other.route
            && self.tried_files == other.tried_files
            && self.captures == other.captures
            && self.encoded_slash == other.encoded_slash
            && self.mapped == other.mapped
            && self.scripts_by_name == other.scripts_by_name
            && self.redirects == other.redirects
            && self.redirects_in_place == other.redirects_in_place
            && self.host == other.host
            && self.path == other.path
            && self.own_query == other.own_query
            && match (&self.rules, &other.rules) {
                (Some(one), Some(other)) => one.is_same(&**other),
                (one, other) => one.is_none() && other.is_none(),
            }
    }
}

impl CachedRoute for Decision {
    fn answer(&self, _: HeadView<'_>, _: i64) -> Option<Response> {
        None
    }

    fn memory_bytes(&self) -> usize {
        let spare = self.spare.borrow();
        let requests = spare.iter().map(|request| memory_of(request));
        let route = self.route.and_then(|at| self.site.routes.get(at));
        // Settings made for these requests alone.
        let own = route.is_none_or(|route| !Arc::ptr_eq(&route.settings, &self.settings));
        size_of::<Decision>()
            + self.host.len()
            + self.path.len()
            + self.received_host.len()
            + self.received_path.len()
            + self
                .own_query
                .iter()
                .flatten()
                .map(|query| query.len())
                .sum::<usize>()
            + requests.sum::<usize>()
            + self.rules.as_ref().map_or(0, |rules| rules.memory_bytes())
            + usize::from(own) * size_of::<Settings>()
    }
}

fn memory_of(request: &UpstreamRequest) -> usize {
    let script = request.script.as_ref().map_or(0, |script| {
        let texts = [
            &script.filename,
            &script.path,
            &script.document_root,
            &script.server_name,
        ];
        let parameters = script.parameters.as_ref();
        size_of_val(&**script)
            + texts.iter().map(|text| text.capacity()).sum::<usize>()
            + parameters.map_or(0, |own| own.values.memory_bytes())
    });
    size_of::<UpstreamRequest>() + request.target.capacity() + script
}

/// Settings of the configuration are the same ones; those of a request have edits of their own.
fn has_same_settings(one: &Arc<Settings>, other: &Arc<Settings>) -> bool {
    Arc::ptr_eq(one, other) || one.fields == other.fields
}
