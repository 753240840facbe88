//! A connection's session: its client, its limits, its permit, and the requests so far.
//!
//! Called by: every driver, from admission to the end of the connection.

use super::{
    comparison::Sampled,
    held_policy::HeldPolicy,
    pace::{self, Accounts, Direction, Pace},
};
use crate::{
    admission::ConnectionPermit,
    common_headers::{CommonHeaderSets, CommonHeaders},
    worker::Worker,
};
use saker_abuse::violation;
use saker_config::model::{LimitKind, Limits, Settings, TrustedProxies};
use saker_http::{HeadView, KnownField, host};
use saker_pipeline::{Client, Forwarding, Generation, ResponseHead, client_address};
use saker_rate_limits::{Admission, ClientAccount, requests};
use saker_telemetry::Metric;
use std::{cell::RefMut, rc::Rc, sync::Arc};

pub struct Session {
    pub worker: Rc<Worker>,
    /// The client of the request at hand: behind a trusted proxy, the one that it names.
    pub client: Rc<Client>,
    /// The client of the connection, which may be a trusted proxy.
    pub connection: Rc<Client>,
    /// Gives the connection's place back when it ends.
    permit: ConnectionPermit,
    /// The configuration that the last request was served by.
    generation: u64,
    /// Requests so far.
    pub requests: u32,
    pub http2: Http2Terms,
    /// Index of the worker's common headers: those that advertise this listener's HTTP/3, or the
    /// plain ones.
    common_headers: usize,
    /// Those of the host that the connection is for, as far as that is known before a request;
    /// `None`: the server's.
    limits: Option<Arc<Limits>>,
    /// Keep-alive timeout of the previous request's host, where hosts differ; 49 days at most.
    idle_timeout_ms: Option<u32>,
    held_policy: HeldPolicy,
    /// Made when a limit first asks for them.
    accounts: Option<Accounts>,
    /// In debug builds: the answer that the next dispatch is compared with.
    pub sampled: Option<Box<Sampled>>,
    /// The change of the table of bans that the client was last looked up under.
    bans_seen: u64,
}

/// Decision about a connection at the beginning of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    Stays,
    /// It is the connection's last request.
    Last,
    /// It is not answered: the client is banned.
    Banned,
}

/// Ways for the client to change to HTTP/2 in cleartext, and features allowed there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Http2Terms {
    pub direct: bool,
    pub upgrade: bool,
    /// Streams may become tunnels (RFC 8441).
    pub extended_connect: bool,
}

/// Result of rate limits for a response from the route cache.
pub enum Throttled {
    No,
    /// The response body has to be paced.
    Paced(Box<Pace>),
    /// The request has to wait, or is refused.
    Held(Admission),
    /// The request can't be answered from the route cache.
    Dispatch,
}

impl Session {
    pub fn new(
        worker: Rc<Worker>,
        mut client: Client,
        permit: ConnectionPermit,
        http2: Http2Terms,
    ) -> Session {
        client.account = permit.account().map(Arc::clone).map(ClientAccount::new);
        let services = worker.services();
        let limits = services.generation.connection_limits(&client, b"").cloned();
        let generation = services.generation.number;
        let client = Rc::new(client);
        let common_headers = common_headers_number(&worker, &client);
        // The client was looked up a moment ago, perhaps in an older table; a second lookup does
        // no harm.
        let bans_seen = 0;
        Session {
            worker,
            connection: Rc::clone(&client),
            client,
            permit,
            generation,
            requests: 0,
            http2,
            common_headers,
            limits,
            idle_timeout_ms: None,
            held_policy: HeldPolicy::default(),
            accounts: None,
            sampled: None,
            bans_seen,
        }
    }

    /// The same connection, as another driver goes on with it.
    pub fn hand_over(&mut self) -> Session {
        Session {
            worker: Rc::clone(&self.worker),
            client: Rc::clone(&self.client),
            connection: Rc::clone(&self.connection),
            permit: self.permit.hand_over(),
            generation: self.generation,
            requests: self.requests,
            http2: self.http2,
            common_headers: self.common_headers,
            limits: self.limits.clone(),
            idle_timeout_ms: self.idle_timeout_ms,
            held_policy: self.held_policy,
            accounts: self.accounts.take(),
            sampled: None,
            bans_seen: self.bans_seen,
        }
    }

    /// The end of a response's head.
    pub fn common_headers(&self, head: &ResponseHead) -> RefMut<'_, CommonHeaders> {
        let number = if self.common_headers != CommonHeaderSets::PLAIN && head.has_alt_svc() {
            CommonHeaderSets::PLAIN
        } else {
            self.common_headers
        };
        RefMut::map(self.worker.common_headers.borrow_mut(), |sets| {
            sets.at(number)
        })
    }

    /// Returns true if this connection's handshake met the site's requirements. Costs two
    /// comparisons if all sites have the same requirements.
    pub fn is_good_for(&mut self, generation: &Generation, site: usize) -> bool {
        self.held_policy.is_good_for(&self.client, generation, site)
    }

    /// Asks the limits of a site for a response of known length. A limit that does not bite costs
    /// a division and a few comparisons.
    pub fn throttle(
        &mut self,
        generation: &Generation,
        settings: &Settings,
        site: usize,
        bytes: u64,
    ) -> Throttled {
        if let Some(guard) = &settings.guard
            && !guard.admittance.admits(self.client.ip())
        {
            return Throttled::Dispatch;
        }
        let throttle = &settings.throttle;
        if throttle.counts() || throttle.site_requests.is_some() || !throttle.by_key.is_empty() {
            return Throttled::Dispatch;
        }
        // One time for all accounts of the request.
        let now_ns = saker_net::clock::monotonic_ns();
        if let (Some(rate), Some(account)) = (&throttle.static_requests, &self.client.account)
            && !generation.exempts(&self.client)
        {
            let number = (generation.site_accounts.get(site)).map_or(0, |site| site.number);
            let limit = throttle.limit_name(LimitKind::StaticRequests, number);
            let admission =
                account.with_usage(limit, |usage| requests::admit(&usage.account, rate, now_ns));
            if admission != Admission::Pass {
                return Throttled::Held(admission);
            }
        }
        if !throttle.limits_out()
            || pace::charge_at_once(throttle, self.accounts(), site, bytes, now_ns)
        {
            return Throttled::No;
        }
        match self.pace(Direction::Out, settings, site) {
            Some(pace) => Throttled::Paced(pace),
            None => Throttled::No,
        }
    }

    /// Returns the pace of a body under this site's limits; `None` without limits.
    pub fn pace(
        &mut self,
        direction: Direction,
        settings: &Settings,
        site: usize,
    ) -> Option<Box<Pace>> {
        // Most sites have no limits, and need no accounts for that.
        let is_limited = match direction {
            Direction::Out => settings.throttle.limits_out(),
            Direction::In => settings.throttle.limits_in(),
        };
        if !is_limited {
            return None;
        }
        Pace::new(direction, &settings.throttle, self.accounts(), site)
    }

    pub fn accounts(&mut self) -> &Accounts {
        self.accounts.get_or_insert_with(|| Accounts {
            connection: Rc::default(),
            address: self.client.account.clone(),
            sites: Arc::clone(&self.worker.services.borrow().generation.site_accounts),
        })
    }

    /// Counts a request under its protocol.
    pub fn begin_request(&mut self, generation: &Generation, protocol: Metric) -> Begun {
        if self.generation != generation.number {
            self.follow(generation);
        }
        self.requests = self.requests.saturating_add(1);
        self.connection.requests.set(self.requests);
        self.client.requests.set(self.requests);
        self.worker.counters.increment(protocol);
        // Where hosts differ, the host of the HTTP/1 request decides (`stays_at`).
        let is_decided = protocol != Metric::RequestsHttp1 || !generation.limits_differ;
        let goes_on = !is_decided || self.may_go_on(self.limits(generation), protocol);
        match self.is_banned() {
            true => Begun::Banned,
            _ if self.held_policy.is_outdated(&self.client, generation) => Begun::Last,
            false
                if goes_on
                    && !self.permit.is_draining()
                    && (!self.permit.is_over_soft(generation)
                        || self.is_trusted_proxy(generation)) =>
            {
                Begun::Stays
            }
            false => Begun::Last,
        }
    }

    /// Finds out whose request it is, where trusted proxies are configured. Called for each request
    /// before anything looks at the client; costs a comparison where none are.
    #[inline(always)]
    pub fn identify(&mut self, generation: &Generation, view: HeadView<'_>) {
        let trusted = &generation.model.server.trusted_proxies;
        if !trusted.is_idle() {
            self.identify_by(trusted, generation, view);
        } else if self.client.forwarding != Forwarding::Unknown {
            self.take_connection(Forwarding::Unknown);
        }
    }

    fn identify_by(
        &mut self,
        trusted: &TrustedProxies,
        generation: &Generation,
        view: HeadView<'_>,
    ) {
        if !trusted.trusts(self.connection.ip()) {
            return self.take_connection(Forwarding::Direct);
        }
        let named = client_address::named(trusted, &self.connection, view);
        let is_same = self.client.forwarding == Forwarding::Proxied
            && (self.client.address, self.client.secure) == (named.address, named.secure);
        if is_same {
            return self.client.requests.set(self.requests);
        }
        let mut client = self.connection.with_address(named.address);
        (client.secure, client.forwarding) = (named.secure, Forwarding::Proxied);
        client.account = generation
            .throttles
            .then(|| ClientAccount::new(self.worker.shared.abuse.addresses.state(client.ip())));
        self.take(Rc::new(client));
    }

    /// The connection's client is that of the request.
    fn take_connection(&mut self, forwarding: Forwarding) {
        if self.connection.forwarding != forwarding {
            Rc::make_mut(&mut self.connection).forwarding = forwarding;
        }
        if !Rc::ptr_eq(&self.client, &self.connection) {
            self.take(Rc::clone(&self.connection));
        }
    }

    /// Goes on for the client of one of the connection's requests: its limits count from here on.
    pub fn take(&mut self, client: Rc<Client>) {
        if let Some(accounts) = &mut self.accounts {
            accounts.address.clone_from(&client.account);
        }
        self.client = client;
    }

    pub fn is_trusted_proxy(&self, generation: &Generation) -> bool {
        let trusted = &generation.model.server.trusted_proxies;
        trusted.trusts(self.connection.ip())
    }

    /// Returns true if the client that a proxy has named is banned or on a list of the server.
    /// Connections of such clients are never admitted in the first place.
    pub fn is_named_client_refused(&self, generation: &Generation) -> bool {
        let address = self.client.ip();
        self.client.forwarding == Forwarding::Proxied
            && (!generation.model.guard.admittance.admits(address)
                || self
                    .worker
                    .shared
                    .abuse
                    .bans
                    .contains(address, saker_net::clock::turn_s()))
    }

    /// Returns true if the connection has to end as soon as it is idle.
    pub fn is_draining(&self) -> bool {
        self.permit.is_draining()
    }

    /// Costs a comparison where the table of bans has not changed.
    pub fn is_banned(&mut self) -> bool {
        let bans = &self.worker.shared.abuse.bans;
        let changes = bans.changes();
        if changes == self.bans_seen {
            return false;
        }
        let is_banned = bans.contains(self.connection.ip(), saker_net::clock::turn_s());
        if !is_banned {
            self.bans_seen = changes;
        }
        is_banned
    }

    /// Counts a request that could not be parsed against the client.
    pub fn note_bad_request(&self) {
        let (services, address) = (self.worker.services.borrow(), self.connection.ip());
        // A proxy is not at fault for what its clients send.
        if self.is_trusted_proxy(&services.generation) {
            return;
        }
        let guard = &services.generation.model.guard;
        let bans = &self.worker.shared.abuse.bans;
        if let Some(account) = self
            .connection
            .account
            .as_deref()
            .filter(|_| !services.generation.is_exempt(address))
        {
            let (now_ns, now_s) = (
                saker_net::clock::monotonic_ns(),
                saker_net::clock::realtime_s(),
            );
            violation::bad_request(account, guard, bans, address, now_ns, now_s);
        }
    }

    /// Returns true if the requested site lets an HTTP/1 connection continue, and notes its
    /// keep-alive timeout. Costs a comparison if no site has limits of its own.
    pub fn stays_at(&mut self, generation: &Generation, site: usize) -> bool {
        if !generation.limits_differ {
            return true;
        }
        let limits = generation.site_limits(site);
        self.set_idle_timeout(limits.keep_alive_timeout_ms);
        self.may_go_on(limits, Metric::RequestsHttp1)
    }

    /// Returns true if limits on requests and age let the connection serve another request.
    fn may_go_on(&self, limits: &Limits, protocol: Metric) -> bool {
        let is_counted = protocol == Metric::RequestsHttp1 || !limits.counts_as_mod_http2;
        let requests_max = match is_counted {
            true => limits.requests_per_connection_max,
            false => 0,
        };
        let age_ms_max = limits.connection_age_ms_max;
        let is_young = age_ms_max == 0
            || saker_net::clock::monotonic_ms().saturating_sub(self.connection.began_ms)
                < age_ms_max;
        is_young && (requests_max == 0 || u64::from(self.requests) < requests_max)
    }

    /// Gives the connection a keep-alive timeout of its own.
    pub fn set_idle_timeout(&mut self, timeout_ms: u64) {
        self.idle_timeout_ms = Some(u32::try_from(timeout_ms).unwrap_or(u32::MAX));
    }

    /// Limits on heads and on writing.
    pub fn limits<'s>(&'s self, generation: &'s Generation) -> &'s Limits {
        self.limits.as_deref().unwrap_or(&generation.model.limits)
    }

    /// Returns true if responses say that the connection stays in HTTP/1.1, too.
    pub fn says_keep_alive(&self) -> bool {
        let services = self.worker.services.borrow();
        self.limits(&services.generation).says_keep_alive
    }

    /// Limits on request content: those of the requested host.
    pub fn content_limits<'g>(&self, generation: &'g Generation, view: HeadView<'_>) -> &'g Limits {
        let model = &generation.model.limits;
        if !generation.limits_differ {
            return model;
        }
        let authority = view.known(KnownField::Host).and_then(host::parse_authority);
        let name = authority
            .map(|authority| host::canonical_host(authority.host))
            .unwrap_or_default();
        generation
            .connection_limits(&self.client, &name)
            .map_or(model, Arc::as_ref)
    }

    /// The keep-alive timeout of the connection, or the time for its first request.
    pub fn idle_timeout_ms(&self, generation: &Generation) -> u64 {
        let limits = self.limits(generation);
        match self.idle_timeout_ms {
            Some(timeout_ms) => u64::from(timeout_ms),
            None if self.requests == 0 && limits.timeouts_are_silent => limits.head_timeout_ms,
            None => limits.keep_alive_timeout_ms,
        }
    }

    /// Switches to the limits of the host named in the handshake.
    pub fn take_limits_of_name(&mut self) {
        let Some(name) = self
            .client
            .session
            .as_ref()
            .and_then(|session| session.server_name.as_deref())
        else {
            return;
        };
        let services = self.worker.services();
        self.limits = services
            .generation
            .connection_limits(&self.client, name.as_bytes())
            .cloned();
    }
}

impl Session {
    /// Follows a reload: accounts become those of the new configuration's sites, and limits may
    /// have been added.
    fn follow(&mut self, generation: &Generation) {
        self.generation = generation.number;
        self.common_headers = common_headers_number(&self.worker, &self.client);
        self.limits = generation.connection_limits(&self.client, b"").cloned();
        self.idle_timeout_ms = None;
        if self.permit.account().is_none() {
            // A limit on connections is for new ones: whether the address has too many does not
            // matter to this one.
            let _ = self.permit.admit(self.connection.ip());
            let account = self.permit.account().map(Arc::clone);
            Rc::make_mut(&mut self.connection).account = account.map(ClientAccount::new);
        }
        // A client that a proxy has named is named again by the next request.
        self.client = Rc::clone(&self.connection);
        if let Some(accounts) = &mut self.accounts {
            accounts.sites = Arc::clone(&generation.site_accounts);
            accounts.address = self.client.account.clone();
        }
    }
}

/// The number of the common headers of this connection. HTTP/3 is advertised only to clients of
/// TLS that do not use it already.
fn common_headers_number(worker: &Worker, client: &Client) -> usize {
    let tells = client
        .session
        .as_ref()
        .is_some_and(|session| session.alpn.as_deref() != Some(b"h3"));
    if tells {
        worker.common_headers_number(&client.listener)
    } else {
        CommonHeaderSets::PLAIN
    }
}
