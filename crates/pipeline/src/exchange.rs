//! A request, and everything that the phases learn about it.
//!
//! Called by: drivers, which create it; phases, handlers, and filters, which modify it.
//! Caveat: code that examines more of the request than listener, host, and path must record that
//! (`depends_on_…`); otherwise its outcome is cached for other requests.
//! Out of scope: the state of each subject (`exchange_state`).

use crate::{
    AccessState, CacheState, Extensions, LimitState, LogState, RequestBody, RequestBudget,
    RoutingState, TraceStep, UpstreamState,
};
use saker_ap_expr::{Predicate, RequestPart, RequestTest};
use saker_config::model::{Action, Address, Origin, Site};
use saker_http::{
    RequestHead,
    target::{self, Target},
};
use saker_rate_limits::AddressState;
use saker_telemetry::error_log::LogId;
use saker_tls::SessionInfo;
use std::{
    cell::{Cell, OnceCell},
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::Arc,
};

/// Relation of the connection's peer to the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// Not examined: no trusted proxies are configured. Fields about earlier hops are passed on as
    /// they come.
    #[default]
    Unknown,
    /// The peer is the client: it is no trusted proxy, so fields about earlier hops are made up.
    Direct,
    /// The peer is a trusted proxy, which has named the client.
    Proxied,
}

/// The client and its connection. One per connection; behind trusted proxies, one per client.
#[derive(Clone, Debug)]
pub struct Client {
    /// The client's address, as given by a trusted PROXY header if there is one. Unspecified
    /// (`0.0.0.0`) for a Unix socket.
    pub address: SocketAddr,
    /// The local address of the connection.
    pub local: SocketAddr,
    pub listener: Arc<Address>,
    /// The connection uses TLS, or a trusted PROXY header says that it does.
    pub secure: bool,
    /// TLS terminates here, so the handshake was subject to the TLS policy of a site.
    pub tls: bool,
    /// Parameters of the TLS session; `None` if TLS does not terminate here.
    pub session: Option<Arc<SessionInfo>>,
    /// Usage of the limits per address; `None` if no such limit is configured.
    pub account: Option<Arc<AddressState>>,
    /// The address of the connection's peer, regardless of what rules (mod_remoteip) report as the
    /// client.
    pub peer: SocketAddr,
    pub forwarding: Forwarding,
    /// The id of error log lines about this connection.
    pub log_id: Rc<LogId>,
    /// Number of requests on the connection so far, including this one.
    pub requests: Cell<u32>,
    /// Host name of the client by reverse DNS, if rules requested the lookup.
    name: OnceCell<Box<str>>,
    text: OnceCell<Box<str>>,
}

impl Client {
    pub fn new(
        address: SocketAddr,
        local: SocketAddr,
        listener: Arc<Address>,
        secure: bool,
    ) -> Client {
        let log_id = Rc::default();
        Client {
            address,
            local,
            listener,
            secure,
            tls: false,
            session: None,
            account: None,
            peer: address,
            forwarding: Forwarding::Unknown,
            log_id,
            requests: Cell::new(0),
            name: OnceCell::new(),
            text: OnceCell::new(),
        }
    }

    /// Returns the client of the same connection with another address, which a proxy or a rule
    /// names. The account is not the other address's.
    pub fn with_address(&self, address: SocketAddr) -> Client {
        let listener = Arc::clone(&self.listener);
        let mut named = Client::new(address, self.local, listener, self.secure);
        (named.tls, named.peer, named.forwarding) = (self.tls, self.peer, self.forwarding);
        named.log_id = Rc::clone(&self.log_id);
        named.session.clone_from(&self.session);
        named.requests.set(self.requests.get());
        named
    }

    /// Returns the client address as text, for logs. Formatted on first use.
    pub fn text(&self) -> &str {
        self.text.get_or_init(|| self.ip().to_string().into())
    }

    /// Returns the host name of the client, if it was looked up and found.
    pub fn name(&self) -> Option<&str> {
        self.name.get().map(|name| &**name)
    }

    /// Sets the host name of the client. The first call wins.
    pub fn call_it(&self, name: &str) {
        self.name.get_or_init(|| name.into());
    }

    pub fn ip(&self) -> IpAddr {
        self.address.ip().to_canonical()
    }
}

type Bytes = Box<[u8]>;

/// Environment variables of a request, in the order in which they were first set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    variables: Vec<(Bytes, Bytes)>,
    /// The variables depend on the request in a way that no recorded test covers.
    varies: bool,
}

impl Environment {
    /// Returns the value of a variable. Names are case-sensitive.
    pub fn first(&self, name: &[u8]) -> Option<&[u8]> {
        self.variables
            .iter()
            .find(|(known, _)| **known == *name)
            .map(|(_, value)| &**value)
    }

    /// Returns the value of a variable: an exact match, or else one that ignores case.
    pub fn first_in_any_case(&self, name: &[u8]) -> Option<&[u8]> {
        let ignoring_case = || {
            self.variables
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(name))
                .map(|(_, value)| &**value)
        };
        self.first(name).or_else(ignoring_case)
    }

    /// Sets a variable whose value may differ between requests for the same path.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        self.varies = true;
        self.set_known(name, value);
    }

    /// Sets a variable whose value is determined by the configuration, the path, and recorded
    /// tests.
    pub fn set_known(&mut self, name: &[u8], value: &[u8]) {
        match self
            .variables
            .iter_mut()
            .find(|(known, _)| **known == *name)
        {
            Some((_, old)) => *old = value.into(),
            None => self.variables.push((name.into(), value.into())),
        }
    }

    pub fn unset(&mut self, name: &[u8]) {
        self.variables.retain(|(known, _)| **known != *name);
    }

    /// Records that the variables depend on the request in a way that no test covers.
    pub fn mark_varying(&mut self) {
        self.varies = true;
    }

    pub fn varies(&self) -> bool {
        self.varies
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.variables
            .iter()
            .map(|(name, value)| (&**name, &**value))
    }

    pub fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }

    pub fn len(&self) -> usize {
        self.variables.len()
    }
}

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
    pub fn new(
        client: Rc<Client>,
        head: RequestHead,
        body: Box<dyn RequestBody>,
        site: Arc<Site>,
        now: i64,
    ) -> Exchange {
        Exchange {
            client,
            head,
            body,
            host: Vec::new(),
            path: Vec::new(),
            query: None,
            now,
            environment: Environment::default(),
            extensions: Extensions::default(),
            routing: RoutingState::new(site),
            upstream: UpstreamState::default(),
            access: AccessState::default(),
            limits: LimitState::default(),
            log: LogState::default(),
            cache: CacheState::default(),
            budget: OnceCell::new(),
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
        match target::split(view.method(), view.target()) {
            Ok(Target::Origin { path, .. }) if self.routing.redirects == 0 => Some(path),
            _ => None,
        }
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

    /// Records that the outcome depends on whether the connection is encrypted. If TLS terminates
    /// here, the listener determines that; a trusted proxy may report it differently for each
    /// client.
    pub fn depends_on_secure(&mut self) {
        if !self.client.tls {
            let test = self.secure_test();
            self.depends_on_tests(&[test]);
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables() {
        let mut all = Environment::default();
        all.set(b"a", b"1");
        all.set(b"b", b"2");
        all.set(b"a", b"3");
        assert_eq!((all.first(b"a"), all.first(b"A")), (Some(&b"3"[..]), None));
        all.unset(b"a");
        assert_eq!(all.iter().collect::<Vec<_>>(), [(&b"b"[..], &b"2"[..])]);
    }
}
