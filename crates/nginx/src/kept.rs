//! State of a request for an upstream before content is chosen, which other requests get in place of
//! the phases ([`KeptRules`]).
//!
//! Called by: `rules`, before the phase `fixups`.
//! Caveat: every part of the state is looked at, so that one that is added has to be decided about.
//! Facts of the request that the script and the search of the location look at are recorded as its
//! tests; fields, URL, and parameters for the upstream are evaluated for each request.

use crate::state::State;
use saker_ap_expr::Spans;
use saker_nginx_model::{Location, Server};
use saker_pipeline::{Exchange, KeptRules, LogRules, OriginalRequest, RuleParts};
use std::{any::Any, rc::Rc, sync::Arc};

struct Kept {
    server: Arc<Server>,
    location: Arc<Location>,
    captures: Option<(Box<[u8]>, Spans)>,
    /// Facts that they were made of have been recorded.
    values: Vec<Option<Box<[u8]>>>,
    is_location_valid: bool,
    lacks_gzip: bool,
    is_internal: bool,
    is_unparsed: bool,
    changes_left: u8,
    original: Option<Box<OriginalRequest>>,
    /// `original` has the client's query.
    has_own_query: bool,
    log_rules: LogRules,
}

macro_rules! any {
    ($($part:ident)*) => { $(*$part)||* };
}

macro_rules! none {
    ($($part:ident)*) => { $($part.is_none())&&* };
}

/// True if an upstream answers the location's requests, and nothing counts them.
fn asks_upstream(location: &Location) -> bool {
    let conf = &location.conf;
    location.proxied.is_some()
        && conf.upstreams.pass.is_some()
        && conf.limits.requests.is_none()
        && conf.limits.connections.is_none()
}

/// Returns the state, unless it has something of the request besides server and location, and how
/// rules have led there.
pub fn kept(exchange: &Exchange) -> Option<Rc<dyn KeptRules>> {
    let state = exchange.extensions.get::<State>()?;
    let State {
        server,
        location,
        named,
        captures,
        values,
        is_internal,
        changes_left,
        is_unparsed,
        is_location_valid,
        adds_path_to_alias,
        error_status,
        failed_status,
        has_error_page,
        error_fields,
        ssi_variables,
        limit_rate,
        requests_limited,
        connections_limited,
        response,
        wants_response,
        wants_content,
        content,
        body_file,
        auth_answer,
        is_subrequest,
        main,
        is_forwarded,
        is_handed_over,
        upstream,
        found,
        lacks_gzip,
        slice,
        has_failed,
        limit_req_status,
        limit_conn_status,
        is_last,
        user_id_got,
        user_id_set,
        is_client_settled,
        began_ns: _,
        count: _,
        depth,
    } = state;
    let subject = captures.as_ref().map(|(subject, _)| subject);
    let is_of_all = subject.is_none_or(|subject| is_of_decision(exchange, subject));
    let has_any = any!(has_error_page adds_path_to_alias requests_limited connections_limited
        wants_response wants_content is_subrequest is_forwarded is_handed_over has_failed is_client_settled is_last);
    let is_plain = error_fields.is_empty()
        && none!(named error_status failed_status ssi_variables limit_rate response content body_file auth_answer main upstream found
            slice limit_req_status limit_conn_status user_id_got user_id_set);
    (is_of_all && asks_upstream(location) && *depth == 0 && !has_any && is_plain).then(|| {
        Rc::new(Kept {
            server: Arc::clone(server),
            location: Arc::clone(location),
            captures: captures.clone(),
            values: values.clone(),
            is_location_valid: *is_location_valid,
            lacks_gzip: *lacks_gzip,
            is_internal: *is_internal,
            is_unparsed: *is_unparsed,
            changes_left: *changes_left,
            original: exchange.log.original.clone(),
            has_own_query: !exchange.routing.has_written_query,
            log_rules: exchange.log.rules.clone(),
        }) as Rc<dyn KeptRules>
    })
}

/// Returns true if a text that groups are of is a path or the host, which all requests of a decision
/// share.
fn is_of_decision(exchange: &Exchange, subject: &[u8]) -> bool {
    let original = exchange.log.original.as_deref();
    *subject == *exchange.path
        || *subject == *exchange.host
        || original.is_some_and(|original| *original.path == *subject)
}

impl KeptRules for Kept {
    fn apply(&self, parts: RuleParts<'_>) {
        let state = State {
            location: Arc::clone(&self.location),
            captures: self.captures.clone(),
            values: self.values.clone(),
            is_location_valid: self.is_location_valid,
            lacks_gzip: self.lacks_gzip,
            is_internal: self.is_internal,
            is_unparsed: self.is_unparsed,
            changes_left: self.changes_left,
            ..State::new(Arc::clone(&self.server))
        };
        parts.extensions.insert(state);
        parts.original.clone_from(&self.original);
        if let Some(original) = parts.original
            && self.has_own_query
        {
            original.query = parts.query.map(Into::into);
        }
        parts.log_rules.clone_from(&self.log_rules);
    }

    fn is_same(&self, other: &dyn KeptRules) -> bool {
        other.as_any().downcast_ref::<Kept>().is_some_and(|other| {
            Arc::ptr_eq(&self.server, &other.server)
                && Arc::ptr_eq(&self.location, &other.location)
                && self.captures == other.captures
                && self.values == other.values
                && self.is_location_valid == other.is_location_valid
                && self.lacks_gzip == other.lacks_gzip
                && self.is_internal == other.is_internal
                && self.is_unparsed == other.is_unparsed
                && self.changes_left == other.changes_left
                && self.original.as_ref().map(|one| &one.path)
                    == other.original.as_ref().map(|one| &one.path)
                && self.log_rules == other.log_rules
        })
    }

    fn takes_calls(&self) -> bool {
        true
    }

    fn memory_bytes(&self) -> usize {
        let subject = self.captures.as_ref();
        size_of::<Kept>()
            + subject.map_or(0, |(subject, _)| subject.len())
            + self
                .values
                .iter()
                .flatten()
                .map(|value| 16 + value.len())
                .sum::<usize>()
            + self
                .original
                .as_ref()
                .map_or(0, |original| original.path.len())
            + self.log_rules.decisions.len()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
