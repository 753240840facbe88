//! A request, and everything that the phases learn about it.
//!
//! Called by: drivers, which create it; phases, handlers, and filters, which modify it.
//! Caveat: code that examines more of the request than listener, host, and path must record that
//! (`depends_on_…`); otherwise its outcome is cached for other requests.
//! Out of scope: the state of each subject (`exchange_state`).

use crate::{
    AccessState, CacheState, Client, Environment, Extensions, LimitState, LogState, NoBody,
    RequestBody, RequestBudget, RoutingState, TraceStep, UpstreamState, WholeBody,
    script_log::FailedScript, spare::SharedParts,
};
use saker_ap_expr::{Dependencies, Predicate, RequestPart, RequestTest, Subnet};
use saker_config::model::{Action, Origin, Site};
use saker_http::{Method, RequestHead, Status};
use saker_rate_limits::Admission;
use std::{cell::OnceCell, rc::Rc, sync::Arc};

/// A request that is being processed.
pub struct Exchange {
    pub client: Rc<Client>,
    pub head: RequestHead,
    pub body: Box<dyn RequestBody>,
    /// Host in canonical form, without port; empty for an HTTP/1.0 request without one.
    pub host: Vec<u8>,
    /// Path decoded and normalized; starts with `/`. Changed by internal redirects.
    pub path: Vec<u8>,
    /// Query as sent, without the question mark.
    pub query: Option<Vec<u8>>,
    /// Time at which the request head was complete, in seconds since the epoch.
    pub now: i64,
    /// Environment variables set by rules, for programs and logs. The last value of a name wins.
    pub environment: Environment,
    /// Values that features store for later phases, by type.
    pub extensions: Extensions,
    pub routing: RoutingState,
    pub upstream: UpstreamState,
    pub access: AccessState,
    pub limits: LimitState,
    pub log: LogState,
    pub cache: CacheState,
    /// Shared with all requests that this one triggers; see [`Exchange::budget`].
    pub(crate) budget: OnceCell<Rc<RequestBudget>>,
}

impl Exchange {
    /// Creates an exchange in its initial state, before the first phase.
    #[inline]
    pub fn new(
        client: Rc<Client>,
        head: RequestHead,
        body: Box<dyn RequestBody>,
        site: Arc<Site>,
        now: i64,
    ) -> Exchange {
        let shared = SharedParts::take();
        Exchange {
            client,
            head,
            body,
            host: shared.texts.0,
            path: shared.texts.1,
            query: None,
            now,
            environment: Environment::default(),
            extensions: Extensions::default(),
            routing: RoutingState::new(site),
            upstream: UpstreamState::new(shared.client_abort),
            access: AccessState::default(),
            limits: LimitState::default(),
            log: LogState::new(shared.log_id),
            cache: CacheState::default(),
            budget: OnceCell::new(),
        }
    }

    /// Drops the exchange where it lies, and lets its memory serve another one.
    pub fn recycle(place: &mut Option<Exchange>) {
        let Some(exchange) = place else {
            return;
        };
        let parts = SharedParts {
            client_abort: Rc::clone(&exchange.upstream.client_abort),
            log_id: Rc::clone(&exchange.log.id),
            texts: (
                std::mem::take(&mut exchange.host),
                std::mem::take(&mut exchange.path),
            ),
        };
        *place = None;
        parts.keep();
    }

    /// Creates a request with the same outcome of the phases, for a copy of its upstream request
    /// that no client waits for. It has no content.
    pub fn upstream_copy(&self, head: RequestHead) -> Exchange {
        let site = Arc::clone(&self.routing.site);
        let client = Rc::clone(&self.client);
        let mut copy = Exchange::new(client, head, Box::new(NoBody), site, self.now);
        copy.routing.site_index = self.routing.site_index;
        copy.routing.route = self.routing.route;
        copy.routing.settings = Arc::clone(&self.routing.settings);
        copy.routing.captures.clone_from(&self.routing.captures);
        copy.host.clone_from(&self.host);
        copy.path.clone_from(&self.path);
        copy.query.clone_from(&self.query);
        copy.environment = self.environment.clone();
        copy.access.user.clone_from(&self.access.user);
        copy.log.request_trace.clone_from(&self.log.request_trace);
        copy.limits.admission = Some(Admission::Pass);
        let (own, upstream) = (&self.upstream, &mut copy.upstream);
        upstream.balance_key.clone_from(&own.balance_key);
        upstream.route.clone_from(&own.route);
        upstream.own_head.clone_from(&own.own_head);
        upstream.own_fields.clone_from(&own.own_fields);
        upstream.own_content.clone_from(&own.own_content);
        copy
    }

    /// Returns the head that upstreams get.
    pub fn upstream_head(&self) -> &RequestHead {
        self.upstream.own_head.as_deref().unwrap_or(&self.head)
    }

    /// Takes the content that upstreams get.
    pub fn take_upstream_content(&mut self) -> Box<dyn RequestBody> {
        let content = std::mem::replace(&mut self.body, Box::new(NoBody));
        match self.upstream.own_content.clone() {
            Some(own) => Box::new(WholeBody(own)),
            None => content,
        }
    }

    /// Returns the action of the matching route; static files without one.
    pub fn action(&self) -> &Action {
        self.routing
            .route
            .and_then(|at| self.routing.site.routes.get(at))
            .map_or(&Action::Files, |route| &route.action)
    }

    /// Returns the path of the request line, still encoded, if it is the path of the exchange;
    /// `None` after an internal redirect, and for targets without a path.
    pub fn path_as_sent(&self) -> Option<&[u8]> {
        let view = self.head.view();
        let target = view.target();
        // The first phase has checked the target; only the form is of interest here.
        let is_origin = target.first() == Some(&b'/') && view.method() != Method::Connect;
        if !is_origin || self.routing.redirects != self.routing.redirects_in_place {
            return None;
        }
        target.split(|byte| *byte == b'?').next()
    }

    /// Records that the outcome depends on something other than listener, host, and path (a field,
    /// the query, the client address, the time). Such an outcome is not cached.
    pub fn depends_on_request(&mut self) {
        self.cache.request_dependent = true;
    }

    /// Records tests of the request that the outcome depends on.
    pub fn depends_on_tests(&mut self, tests: &[RequestTest]) {
        if !self.cache.request_dependent {
            self.cache.request_tests.extend_from_slice(tests);
        }
    }

    /// Records that the outcome depends on a test of a field of the request.
    pub fn depends_on_field_test(&mut self, name: &str, predicate: Predicate, result: bool) {
        match RequestPart::of_field(name.as_bytes()).filter(|_| !self.head.is_edited()) {
            Some(part) => self.depends_on_tests(&[RequestTest {
                part,
                predicate,
                result,
            }]),
            None => self.depends_on_request(),
        }
    }

    /// Records that rules edit a field of the request, in this request or in others with the same
    /// outcome. What other fields do is seen from the responses, which vary by them.
    pub fn notes_edit_of(&mut self, name: &str) {
        const CHOOSING: [&str; 12] = [
            "Accept-Encoding",
            "Authorization",
            "Cache-Control",
            "Cookie",
            "If-Match",
            "If-Modified-Since",
            "If-None-Match",
            "If-Range",
            "If-Unmodified-Since",
            "Pragma",
            "Range",
            "User-Agent",
        ];
        self.cache.edits_choice_of_page |= CHOOSING
            .iter()
            .any(|choosing| choosing.eq_ignore_ascii_case(name));
    }

    /// Returns the query that the client sent.
    pub fn received_query(&self) -> Option<&[u8]> {
        received_query(self.head.view().target())
    }

    /// Records that the outcome contains the query that the client sent, or its absence.
    pub fn depends_on_query(&mut self) {
        let received = self.received_query();
        if self.head.is_edited() || self.query.as_deref() != received {
            return self.depends_on_request();
        }
        let mut dependencies = Dependencies::new();
        dependencies.add_value(RequestPart::Query, received);
        self.depends_on_tests(dependencies.tests());
    }

    /// Records that the outcome depends on whether the connection is encrypted. If TLS terminates
    /// here, the listener determines that; a trusted proxy may report it differently for each
    /// client.
    pub fn depends_on_secure(&mut self) {
        if !self.client.tls {
            let test = self.secure_test();
            self.depends_on_tests(&[test]);
        }
    }

    /// Records that the outcome depends on the address that the client connected to: the route cache is
    /// keyed by listener, not by local address.
    pub fn depends_on_local_address(&mut self) {
        let local = self.client.local.ip();
        self.depends_on_tests(&[RequestTest {
            part: RequestPart::LocalAddress,
            predicate: Predicate::Within(Subnet::of_address(local)),
            result: true,
        }]);
    }

    /// Returns the test of whether the connection is encrypted.
    pub fn secure_test(&self) -> RequestTest {
        RequestTest {
            part: RequestPart::Secure,
            predicate: Predicate::Present,
            result: self.client.secure,
        }
    }

    /// Records that the outcome depends on variables.
    pub fn depends_on_environment(&mut self) {
        match self.environment.varies() {
            true => self.depends_on_request(),
            false => self
                .cache
                .request_tests
                .append(&mut self.cache.environment_tests),
        }
    }

    /// Adds the dependencies of another exchange, which this one triggered, to its own.
    pub fn depends_on_exchange(&mut self, inner: &mut Exchange) {
        let inner_log = &mut inner.log;
        let (own, inner) = (&mut self.cache, &mut inner.cache);
        own.change_tokens.append(&mut inner.change_tokens);
        own.request_tests.append(&mut inner.request_tests);
        // An inner exchange starts with a copy of these tests. If it has not consumed them,
        // appending would double them with each path that is tried.
        if inner.environment_tests.len() >= own.environment_tests.len() {
            own.environment_tests.clear();
        }
        own.environment_tests.append(&mut inner.environment_tests);
        own.request_dependent |= inner.request_dependent;
        let lines = inner_log.outcome_lines.get_mut();
        self.log.outcome_lines.get_mut().append(lines);
    }

    /// Records a trace step. `text` is evaluated only if tracing is enabled.
    pub fn trace(
        &mut self,
        phase: &'static str,
        origin: Option<&Origin>,
        text: impl FnOnce() -> String,
    ) {
        if let Some(steps) = &mut self.log.trace {
            steps.push(TraceStep {
                phase,
                text: text(),
                origin: origin.cloned(),
            });
        }
    }

    /// Describes the request for the log of failed scripts.
    pub fn failed_script<'a>(&'a self, status: Status, filename: &'a [u8]) -> FailedScript<'a> {
        FailedScript {
            head: self.head.view(),
            path: &self.path,
            query: self.query.as_deref(),
            now: self.now,
            status,
            filename,
        }
    }
}

/// Returns the query of a target as received, without its question mark.
pub(crate) fn received_query(target: &[u8]) -> Option<&[u8]> {
    let at = target.iter().position(|byte| *byte == b'?')?;
    target.get(at + 1..)
}
