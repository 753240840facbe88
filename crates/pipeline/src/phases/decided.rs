//! Decisions about requests that an upstream answers ([`Decision`]): made where nothing that came
//! before depended on more than recorded tests, and followed by later requests.
//!
//! Called by: the phase list, and the content phase.
//! Caveat: only where the phases have left nothing but their routing: every other part of the
//! exchange is compared with that of a new one, so that a feature that leaves more keeps full
//! dispatch. Limits, bans, the size of content, and made-up fields count for each request.

use crate::{
    ClientAbort, Exchange, KeptRules, LogRules, RoutingState, RuleParts, Services, Verdict,
    decision::{Decision, KeptDecision},
    route_kind::RouteKind,
};
use saker_ap_expr::{Dependencies, RequestPart};
use saker_config::model::{Action, ModSecurityMode};
use saker_http::{KnownField, Method};
use std::{cell::RefCell, rc::Rc, sync::Arc};

/// Returns true if there is a decision that the exchange may follow. Content that is longer than the
/// site takes is refused by the phases, with what they say about it.
pub(super) fn may_follow(exchange: &mut Exchange, services: &Services) -> bool {
    let Some(decision) = &exchange.cache.decision else {
        return false;
    };
    let own_max = decision.settings.body_bytes_max;
    let max = own_max.unwrap_or(services.generation.model.limits.body_bytes_max);
    let is_too_long = max != 0 && exchange.body.length().is_some_and(|bytes| bytes > max);
    if is_too_long {
        exchange.cache.decision = None;
    }
    !is_too_long
}

/// Gives the exchange what the phases would.
pub(super) fn apply(decision: &Decision, exchange: &mut Exchange) {
    let query = match &decision.own_query {
        Some(own) => own.as_deref(),
        None => exchange.received_query(),
    };
    exchange.query = query.map(<[u8]>::to_vec);
    for (text, known) in [
        (&mut exchange.host, &decision.host),
        (&mut exchange.path, &decision.path),
    ] {
        text.clear();
        text.extend_from_slice(known);
    }
    let routing = &mut exchange.routing;
    routing.site = Arc::clone(&decision.site);
    routing.site_index = decision.site_index;
    routing.settings = Arc::clone(&decision.settings);
    routing.route = decision.route;
    routing.tried_files = decision.tried_files;
    routing.captures.clone_from(&decision.captures);
    routing.encoded_slash = decision.encoded_slash;
    routing.mapped.clone_from(&decision.mapped);
    routing.scripts_by_name = decision.scripts_by_name;
    routing.has_written_query = decision.own_query.is_some();
    routing.redirects = decision.redirects;
    routing.redirects_in_place = decision.redirects_in_place;
    routing.redirects_max = decision.redirects_max;
    routing.nesting_max = decision.nesting_max;
    if let Some(rules) = &decision.rules {
        rules.apply(RuleParts {
            query: exchange.query.as_deref(),
            extensions: &mut exchange.extensions,
            environment: &mut exchange.environment,
            handler: &mut exchange.routing.handler,
            path_info: &mut exchange.routing.path_info,
            original: &mut exchange.log.original,
            log_rules: &mut exchange.log.rules,
        });
    }
}

/// Leaves the outcome of the phases in the exchange, if it may serve other requests.
pub(super) fn keep(exchange: &mut Exchange, services: &Services) {
    let cache = &exchange.cache;
    if !cache.request_dependent
        && is_to_proxy(&exchange.routing)
        && exchange.extensions.is_empty()
        && exchange.log.rules == LogRules::default()
        && cache.environment_tests.is_empty()
        && cache.kept_decision.is_none()
        && exchange.log.original.is_none()
        && has_no_program(exchange)
    {
        keep_with(exchange, services, None);
    }
}

/// Leaves the outcome of the phases before `fixups` in the exchange, if rules lead it to an upstream
/// and it may serve other requests. Their state is all that may be attached to the exchange.
pub(super) fn keep_before_fixups(exchange: &mut Exchange, services: &Services) {
    if exchange.cache.request_dependent
        || exchange.extensions.len() != 1
        || !has_no_program(exchange)
    {
        return;
    }
    let rules = services.rules.of(exchange.routing.site_index);
    if let Some(kept) = rules.kept(exchange) {
        keep_with(exchange, services, Some(kept));
    }
}

impl Exchange {
    /// Leaves the outcome of the phases so far in the exchange, if it may serve other requests: where
    /// rules have found the program that answers. Variables, and what has been recorded about the
    /// original request, are theirs to keep. What follows in `fixups` is done for each request.
    pub fn keep_before_program(
        &mut self,
        kept: impl FnOnce(&Exchange) -> Option<Rc<dyn KeptRules>>,
    ) {
        if self.cache.request_dependent
            || self.extensions.len() != 1
            || self.environment.varies()
            || !is_plain(self)
        {
            return;
        }
        if let Some(kept) = kept(self) {
            self.cache.kept_decision = Some(Box::new(decision(self, UNSETTLED, Some(kept))));
        }
    }
}

/// The number of no configuration: of decisions before a program, until the phase has ended.
const UNSETTLED: u64 = u64::MAX;

/// Gives a decision before a program the number of the configuration, or drops it if there is no
/// upstream request after all.
pub(super) fn settle(exchange: &mut Exchange, services: &Services, verdict: &Verdict) {
    let is_called = matches!(verdict, Verdict::Pass)
        && exchange.upstream.call.is_some()
        && services.generation.model.tracing.endpoint.is_none();
    let Some(kept) = &mut exchange.cache.kept_decision else {
        return;
    };
    match Rc::get_mut(&mut kept.decision).filter(|decision| decision.generation == UNSETTLED) {
        Some(decision) if is_called => decision.generation = services.generation.number,
        Some(_) => exchange.cache.kept_decision = None,
        None => {}
    }
}

fn keep_with(exchange: &mut Exchange, services: &Services, rules: Option<Rc<dyn KeptRules>>) {
    let is_kept = services.generation.model.tracing.endpoint.is_none()
        && exchange.environment.is_empty()
        && !exchange.environment.varies()
        && is_plain(exchange);
    if is_kept {
        let kept = decision(exchange, services.generation.number, rules);
        exchange.cache.kept_decision = Some(Box::new(kept));
    }
}

/// Returns true if nothing but routing, rules, and variables counts.
fn is_plain(exchange: &Exchange) -> bool {
    exchange.log.trace.is_none()
        && is_plain_request(exchange)
        && is_kept_by(&exchange.routing)
        && is_otherwise_new(exchange)
}

fn decision(
    exchange: &Exchange,
    generation: u64,
    rules: Option<Rc<dyn KeptRules>>,
) -> KeptDecision {
    let routing = &exchange.routing;
    let view = exchange.head.view();
    let received_path = view.target().split(|byte| *byte == b'?').next();
    let decision = Decision {
        generation,
        site_index: routing.site_index,
        settings: Arc::clone(&routing.settings),
        site: Arc::clone(&routing.site),
        route: routing.route,
        tried_files: routing.tried_files,
        captures: routing.captures.clone(),
        encoded_slash: routing.encoded_slash,
        mapped: routing.mapped.clone(),
        scripts_by_name: routing.scripts_by_name,
        redirects: routing.redirects,
        redirects_in_place: routing.redirects_in_place,
        redirects_max: routing.redirects_max,
        nesting_max: routing.nesting_max,
        host: exchange.host.as_slice().into(),
        path: exchange.path.as_slice().into(),
        received_host: view.known(KnownField::Host).unwrap_or_default().into(),
        received_path: received_path.unwrap_or_default().into(),
        own_query: routing
            .has_written_query
            .then(|| exchange.query.as_deref().map(Into::into)),
        rules,
        spare: RefCell::default(),
    };
    let cache = &exchange.cache;
    // Rules of the last phase read the environment, which tests have left empty.
    let mut tests = [&*cache.request_tests, &*cache.environment_tests].concat();
    if decision.own_query.is_some() {
        // It may be made of the client's.
        let mut query = Dependencies::new();
        query.add_value(RequestPart::Query, exchange.received_query());
        tests.extend_from_slice(query.tests());
    }
    KeptDecision {
        decision: Rc::new(decision),
        change_tokens: cache.change_tokens.clone(),
        tests,
        kind: match view.method() {
            Method::Post => RouteKind::Post,
            _ if routing.settings.cache.is_on => RouteKind::PastPages,
            _ => RouteKind::Read,
        },
    }
}

/// GET or HEAD without content, or POST with content of known length, for a path as it came.
fn is_plain_request(exchange: &Exchange) -> bool {
    let head = &exchange.head;
    let is_plain_method = match head.view().method() {
        Method::Get | Method::Head => exchange.body.is_end(),
        Method::Post => {
            exchange.body.length().is_some() && !head.view().has(KnownField::TransferEncoding)
        }
        _ => false,
    };
    is_plain_method
        && !head.is_edited()
        // Without a host the server is named by the connection's address.
        && !exchange.host.is_empty()
        && head.view().target().first() == Some(&b'/')
        // Certificate authorities may ask for another file each time.
        && !exchange.path.starts_with(super::CHALLENGES)
        && (exchange.routing.has_written_query
            || exchange.query.as_deref() == exchange.received_query())
}

/// Returns true if rules have named no program.
fn has_no_program(exchange: &Exchange) -> bool {
    exchange.routing.handler.is_none() && exchange.routing.path_info.is_empty()
}

/// Returns true if a proxy route was chosen.
fn is_to_proxy(routing: &RoutingState) -> bool {
    let route = routing.route.and_then(|at| routing.site.routes.get(at));
    route.is_some_and(|route| matches!(route.action, Action::Proxy(_)) && route.request.is_none())
}

/// Returns true if no feature with a say of its own in each request is on.
fn is_kept_by(routing: &RoutingState) -> bool {
    let settings = &routing.settings;
    let inspects = settings
        .modsecurity
        .as_ref()
        .is_some_and(|modsecurity| modsecurity.mode != ModSecurityMode::Off);
    settings.links.is_idle()
        && settings.visitors.is_idle()
        && settings.throttle.is_idle()
        && settings.guard.is_none()
        && settings.auth.is_none()
        && settings.authorize.is_none()
        && !inspects
        && routing.named_route.is_none()
        && routing.nesting == 0
        && !routing.is_inside
}

/// Returns true if the phases have left nothing in the exchange but its routing, and what the callers
/// look at: attached state, variables, rules about logs, the original request, and tests of variables.
fn is_otherwise_new(exchange: &Exchange) -> bool {
    let (upstream, access, limits, log, cache) = (
        &exchange.upstream,
        &exchange.access,
        &exchange.limits,
        &exchange.log,
        &exchange.cache,
    );
    upstream.call.is_none()
        && upstream.client_abort.get() != ClientAbort::Ignored
        && upstream.internal_redirect.is_none()
        && upstream.refused_redirect.is_none()
        && upstream.left_fields.is_none()
        && upstream.balance_key.is_none()
        && upstream.route.is_none()
        && upstream.own_head.is_none()
        && upstream.own_fields.is_empty()
        && upstream.own_content.is_none()
        && access.user.is_none()
        && access.claims.is_none()
        && access.auth_state.is_none()
        && !access.has_authorized_fields
        && !access.has_identity_fields
        && !access.is_named_by_file
        && !access.has_client_target
        && access.inspection.is_none()
        && !limits.drops_connection
        && !limits.closes_connection
        && limits.idle_timeout_ms.is_none()
        && limits.keep_alive_s.is_none()
        && !limits.is_without_chunks
        && !limits.reflects_content
        && log.request_id.get().is_none()
        && log.request_trace.is_none()
        && log.notes.is_empty()
        && log.late_notes.is_empty()
        && log.error_log.is_none()
        && log.stands_in_for.is_none()
        && log.outcome_lines.borrow().is_empty()
        && cache.cached_route.is_none()
        && cache.head_edits.is_none()
        && !cache.keeps_answer
        && !cache.is_shared_page
}
