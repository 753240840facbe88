//! The phase `server_rewrite`: from the URL to what it means. Rules of the host, URLs that are
//! proxied, redirects.
//!
//! Called by: `rules`, for requests and for subrequests.
//! Caveat: the order is Apache's, and users' configurations depend on it.

use crate::{
    fixups, homes,
    host_name::is_named,
    methods,
    modules::{self, cache, forensic, log_debug},
    origin,
    proxy::{forward, remote, translate},
    redirect::{redirect, redirect_with_query},
    response,
    rewriting::rewrite_host,
    script_uri::name_uri,
    state::{State, Translated, state},
    verdict::Verdict,
    walk,
    worker::ApacheRules,
};
use saker_ap_expr::LimitReached;
use saker_apache_model::{
    dir_config::DirConfig,
    host::Host,
    modules::{alias::Redirected, userdir::Place},
};
use saker_config::model::Settings;
use saker_http::{Status, path::PathError};
use saker_pipeline::{Exchange, OriginalRequest, Response, to_https};
use std::{rc::Rc, sync::Arc};

/// Progress of the translation of a path, where it has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translation {
    Begin,
    /// The client's address is known; its name is not.
    Name,
    /// The client is known; rules of the host come next.
    Rewrite,
}

impl ApacheRules {
    /// For a look-ahead, which ends where it would have to wait.
    pub(crate) fn look_up_rewrite(&self, exchange: &mut Exchange) -> Verdict {
        self.try_server_rewrite(exchange, &mut Translation::Begin)
    }

    /// `at`: how far an earlier run has got, if it had to wait.
    pub(crate) fn try_server_rewrite(
        &self,
        exchange: &mut Exchange,
        at: &mut Translation,
    ) -> Verdict {
        let Some(host) = self.host(exchange) else {
            return Verdict::Pass;
        };
        if *at == Translation::Begin {
            forensic::begin(exchange, &host);
        }
        let verdict = self.translate(exchange, &host, at);
        if host.has_log_messages && !matches!(verdict, Verdict::Wait(_)) {
            let local = walk::locations(
                &mut self.memo.borrow_mut(),
                &host,
                Arc::clone(&host.defaults),
                exchange,
                &mut Vec::new(),
            );
            log_debug::translated(exchange, &host, &self.watcher, &local);
        }
        verdict
    }

    /// From the path to what it means: rules of the host, aliases, redirects.
    fn translate(
        &self,
        exchange: &mut Exchange,
        host: &Arc<Host>,
        at: &mut Translation,
    ) -> Verdict {
        if *at == Translation::Begin {
            if let Some(verdict) = self.begin_translation(exchange, host) {
                return verdict;
            }
            *at = Translation::Name;
        }
        if *at == Translation::Name {
            if let Some(verdict) = self.identify_client(exchange, host) {
                return verdict;
            }
            *at = Translation::Rewrite;
        }
        let verdict = self.translate_path(exchange, host);
        if matches!(verdict, Verdict::Answer(_)) {
            self.settle_conditions(exchange, host);
        }
        verdict
    }

    /// `<If>` sections for an answer that comes before the walk: Apache evaluates those of the host
    /// and of its locations before a path is translated. One that has to wait does not hold.
    fn settle_conditions(&self, exchange: &mut Exchange, host: &Arc<Host>) {
        let own = state(exchange);
        let Some(local) = own.url_local.clone().filter(|_| own.local.is_none()) else {
            return;
        };
        if local.conditions.is_empty() {
            return;
        }
        let settled = walk::conditions(self, exchange, host, &self.watcher, local);
        let own = state(exchange);
        own.local = None;
        let Ok(settled) = settled else { return };
        own.url_local = Some(Arc::clone(&settled));
        let base = own.base.clone();
        exchange.routing.settings = self.memo.borrow_mut().settings(
            &settled,
            host,
            &cache::url_path(exchange),
            base.as_ref(),
        );
    }

    /// From a path that can be a file's to what it means.
    fn translate_path(&self, exchange: &mut Exchange, host: &Arc<Host>) -> Verdict {
        match rewrite_host(self, exchange, host) {
            Verdict::Pass => {}
            verdict => return verdict,
        }
        if state(exchange).translated.is_some() || state(exchange).proxied.is_some() {
            return Verdict::Pass;
        }
        if let Some(refused) = translate::translate(exchange, host) {
            return refused;
        }
        if state(exchange).proxied.is_none() {
            remote::express(self, exchange, host);
        }
        if state(exchange).proxied.is_some() {
            return Verdict::Pass;
        }
        if let Some(redirected) = fixups::location_redirect(exchange, host, &self.watcher) {
            return redirected;
        }
        let alias = &host.defaults.alias;
        match alias.redirect(&exchange.path, exchange.query.as_deref(), |_| None) {
            Ok(Some(redirected)) => return redirect_with_query(exchange, host, redirected),
            Ok(None) => {}
            Err(LimitReached) => exchange.budget().work().give_up(),
        }
        match homes::place(exchange, host, &self.watcher) {
            Some(Place::Redirect(location)) => redirect(
                exchange,
                host,
                Redirected {
                    status: 302,
                    location: Some(location),
                    is_relative: false,
                },
            ),
            _ => Verdict::Pass,
        }
    }

    /// Decides by host, connection and head. `None`: go on.
    fn begin_translation(&self, exchange: &mut Exchange, host: &Arc<Host>) -> Option<Verdict> {
        let base = match host.is_native.then(|| self.native_base(exchange)) {
            Some(None) => return Some(Verdict::Answer(Response::new(Status::FORBIDDEN))),
            Some(base) => base,
            None => None,
        };
        let local = self.settings_of_host(exchange, host, base.as_ref());
        state(exchange).url_local = Some(Arc::clone(&local));
        if let Some(refused) = before_the_path(exchange, host) {
            return Some(Verdict::Answer(refused));
        }
        exchange.routing.redirects_max =
            host.redirects_max.unwrap_or(exchange.routing.redirects_max);
        exchange.routing.nesting_max = host.nesting_max.unwrap_or(exchange.routing.nesting_max);
        if let Err(error) = methods::read_path(exchange, host) {
            // Apache refuses it before sections for URLs have a say.
            let defaults = Arc::clone(&host.defaults);
            let path = cache::url_path(exchange);
            let mut memo = self.memo.borrow_mut();
            let settings = memo.settings(&defaults, host, &path, base.as_ref());
            drop((path, memo));
            exchange.routing.settings = settings;
            state(exchange).url_local = Some(defaults);
            return Some(self.unreadable(exchange, host, error));
        }
        let is_subrequest = begin_round(exchange, host);
        let own = state(exchange);
        (own.base, own.url_local) = (base, Some(local));
        if let Some(file) = state(exchange).looked_up_file.clone() {
            state(exchange).translated = Some(Translated::File(file));
            return Some(Verdict::Pass);
        }
        if exchange.is_as_received() && !is_subrequest {
            let edits = &host.defaults.headers.request;
            if let Err(pause) = response::request::edit(self, exchange, host, edits, true) {
                return Some(Verdict::Wait(pause));
            }
            modules::remoteip::find_client(exchange, host);
        }
        None
    }

    /// The client's name and variables, then URLs that are for other servers as they were received.
    /// `None`: go on.
    fn identify_client(&self, exchange: &mut Exchange, host: &Arc<Host>) -> Option<Verdict> {
        if !state(exchange).is_subrequest {
            if let Some(pause) =
                crate::modules::access::client_name::look_up(exchange, host.defaults.core.lookups)
            {
                return Some(Verdict::Wait(pause));
            }
            self.set_variables(exchange, host);
            if exchange.is_as_received()
                && let Some(verdict) = forward::detect(exchange, host)
            {
                return Some(verdict);
            }
        }
        if state(exchange).proxied.is_none()
            && let Some(refused) = translate::translate_encoded(exchange, host)
        {
            return Some(refused);
        }
        state(exchange).proxied.is_some().then_some(Verdict::Pass)
    }

    /// In force until the walk has found the file's own: errors before it have their pages, too.
    fn settings_of_host(
        &self,
        exchange: &mut Exchange,
        host: &Arc<Host>,
        base: Option<&Arc<Settings>>,
    ) -> Arc<DirConfig> {
        let mut memo = self.memo.borrow_mut();
        let local = walk::locations(
            &mut memo,
            host,
            Arc::clone(&host.defaults),
            exchange,
            &mut Vec::new(),
        );
        exchange.routing.settings = memo.settings(&local, host, &cache::url_path(exchange), base);
        local
    }

    /// The settings of a native site or its route: a request has them by now, a subrequest looks
    /// them up. Native rules about access have decided about the request alone, so a subrequest
    /// must not lead to where they are others (`None`).
    fn native_base(&self, exchange: &mut Exchange) -> Option<Arc<Settings>> {
        if !state(exchange).is_subrequest {
            return Some(Arc::clone(&exchange.routing.settings));
        }
        let own = (self.native_settings)(exchange)?;
        let is_candidate = state(exchange).is_candidate;
        let is_open = |outer: &Arc<Settings>| {
            has_same_access(outer, &own) && (!is_candidate || has_same_clients(outer, &own))
        };
        let outer = state(exchange).base.as_ref();
        outer.is_none_or(is_open).then_some(own)
    }

    /// Variables that follow from the server's configuration, the client and the head.
    fn set_variables(&self, exchange: &mut Exchange, host: &Host) {
        if host.process.names_requests {
            modules::unique_id::name(exchange);
        }
        modules::geo::of_server(exchange, host);
        modules::setenvif::of_server(exchange, host, &self.watcher);
    }

    /// A path that can't be a file's may be another server's, as it was received.
    fn unreadable(&self, exchange: &mut Exchange, host: &Arc<Host>, error: PathError) -> Verdict {
        begin_round(exchange, host);
        if error == PathError::EncodedSlash
            && let Some(path) = translate::path_with_slashes(exchange, host)
        {
            // Sections decide about the path that goes on, which has no dot segments.
            let unread = std::mem::replace(&mut exchange.path, path);
            if let Some(refused) = translate::translate_encoded(exchange, host) {
                return refused;
            }
            if state(exchange).proxied.is_none() {
                exchange.path = unread;
            }
        }
        if state(exchange).proxied.is_none() {
            return Verdict::Answer(Response::new(methods::status_of(error)));
        }
        exchange.routing.encoded_slash = false;
        if exchange.is_as_received() {
            modules::remoteip::find_client(exchange, host);
        }
        // Where a name has to be waited for, it is done without.
        if crate::modules::access::client_name::look_up(exchange, host.defaults.core.lookups)
            .is_none()
        {
            self.set_variables(exchange, host);
        }
        Verdict::Pass
    }
}

fn is_same<T>(one: &Option<Arc<T>>, other: &Option<Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// True if another path has no rules about clients and requests that have not been asked for the
/// first one: what takes the place of the request must not pass them.
fn has_same_clients(one: &Arc<Settings>, other: &Arc<Settings>) -> bool {
    fn is_as_open<T>(one: &Option<Arc<T>>, other: &Option<Arc<T>>) -> bool {
        other.is_none() || is_same(one, other)
    }
    Arc::ptr_eq(one, other)
        || one.throttle == other.throttle
            && is_as_open(&one.visitors.challenge, &other.visitors.challenge)
            && is_as_open(&one.visitors.logins, &other.visitors.logins)
            && is_as_open(&one.visitors.robots, &other.visitors.robots)
            && is_as_open(&one.modsecurity, &other.modsecurity)
}

/// True if the same native rules decide about access to two paths.
fn has_same_access(one: &Arc<Settings>, other: &Arc<Settings>) -> bool {
    Arc::ptr_eq(one, other)
        || one.auth == other.auth
            && one.authorize == other.authorize
            && one.guard == other.guard
            && is_same(&one.links.signed, &other.links.signed)
            && is_same(&one.links.referrers, &other.links.referrers)
            && (other.links.trigger.is_none() || is_same(&one.links.trigger, &other.links.trigger))
}

/// Clears what an earlier round found out about another path. Returns whether it is a subrequest.
fn begin_round(exchange: &mut Exchange, host: &Host) -> bool {
    let fresh = State::new(Rc::clone(&state(exchange).questions));
    let mut kept = std::mem::replace(state(exchange), fresh);
    if !kept.path.is_empty() && !kept.is_subrequest {
        let first = || OriginalRequest {
            path: kept.path.as_slice().into(),
            query: exchange.query.as_deref().map(Into::into),
            environment: exchange.environment.clone(),
        };
        exchange.log.original = exchange
            .log
            .original
            .take()
            .or_else(|| Some(Box::new(first())));
        let url = origin::of_redirect(exchange, host, kept.local.as_deref(), &kept.path);
        name_uri(exchange, host);
        exchange.environment = modules::env::redirected(&exchange.environment, Status::OK.0);
        // Rules of a folder change the query of the request that they lead on from.
        let query = if kept.is_rewritten {
            exchange.query.clone()
        } else {
            kept.query.clone()
        };
        kept.led_from = Some((url, query));
    }
    *state(exchange) = kept.for_another_round();
    exchange.routing.mapped = None;
    exchange.routing.path_info.clear();
    exchange.routing.handler = None;
    exchange.upstream.call = None;
    // Handlers are named by directives.
    exchange.routing.scripts_by_name = false;
    state(exchange).is_subrequest
}

/// Decides by host and connection alone: MDRequireHttps, StrictHostCheck, HttpProtocolOptions, and
/// names of handshakes.
fn before_the_path(exchange: &mut Exchange, host: &Host) -> Option<Response> {
    let is_stranger = host.known_names_only && !is_named(exchange);
    let refusal = is_stranger
        .then_some(Status::BAD_REQUEST)
        .or_else(|| methods::refusal(exchange, host));
    let refusal = refusal.or_else(|| modules::ssl::refusal_of_name(exchange, host));
    to_https(exchange).or_else(|| refusal.map(Response::new))
}
