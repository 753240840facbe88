//! What a connection knows about its client and itself, whether it is on the event loop yet or not.

use super::{
    Secure,
    pace::{self, Accounts, Direction, Pace},
};
use crate::{connection::Opened, worker::Worker};
use saker_config::model::Settings;
use saker_http::HeadView;
use saker_pipeline::{
    Client, Generation,
    throttle::{Admission, requests},
};
use saker_telemetry::Metric;
use std::{rc::Rc, sync::Arc};

pub struct Session {
    pub worker: Rc<Worker>,
    pub client: Rc<Client>,
    /// Gives the connection's place back when it ends.
    opened: Opened,
    /// The configuration that the last request was served by.
    generation: u64,
    /// Requests so far.
    pub requests: u32,
    pub http2: Http2Terms,
    secure: Option<Secure>,
    /// Made when a limit first asks for them.
    accounts: Option<Accounts>,
}

/// How the client may change to HTTP/2 in the clear, and what it may do there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Http2Terms {
    pub direct: bool,
    pub upgrade: bool,
    /// Streams may become tunnels (RFC 8441).
    pub extended_connect: bool,
}

/// Whether a response may go at once, as far as throttling is concerned.
pub enum Throttled {
    No,
    /// Its body has to be paced.
    Paced(Pace),
    /// The request has to wait, or is refused.
    Held(Admission),
}

impl Session {
    pub fn new(worker: Rc<Worker>, mut client: Client, opened: Opened, http2: Http2Terms, secure: Option<Secure>) -> Session {
        client.account = opened.account().map(Arc::clone);
        let generation = worker.services.borrow().generation.number;
        Session { worker, client: Rc::new(client), opened, generation, requests: 0, http2, secure, accounts: None }
    }

    /// The same connection, as another driver goes on with it.
    pub fn hand_over(&mut self) -> Session {
        Session {
            worker: Rc::clone(&self.worker),
            client: Rc::clone(&self.client),
            opened: self.opened.hand_over(),
            generation: self.generation,
            requests: self.requests,
            http2: self.http2,
            secure: self.secure.take(),
            accounts: self.accounts.take(),
        }
    }

    /// Whether this connection's handshake was not for the host of that request.
    pub fn is_misdirected(&self, view: HeadView<'_>) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.is_misdirected(view))
    }

    /// Asks the limits of a site for a response of known length. Costs one comparison where none is set.
    pub fn throttle(&mut self, settings: &Settings, site: usize, bytes: u64) -> Throttled {
        let throttle = &settings.throttle;
        if throttle.is_idle() {
            return Throttled::No;
        }
        let now_ns = saker_net::clock::monotonic_ns();
        if let (Some(rate), Some(account)) = (&throttle.static_requests, &self.client.account) {
            let admission = requests::admit(&account.static_requests, rate, now_ns);
            if admission != Admission::Pass {
                return Throttled::Held(admission);
            }
        }
        if !throttle.limits_out() || pace::charge_at_once(throttle, self.accounts(), site, bytes, now_ns) {
            return Throttled::No;
        }
        match self.pace(Direction::Out, settings, site) {
            Some(pace) => Throttled::Paced(pace),
            None => Throttled::No,
        }
    }

    /// The pace of a body under this site's limits; `None` where there are none.
    pub fn pace(&mut self, direction: Direction, settings: &Settings, site: usize) -> Option<Pace> {
        if settings.throttle.is_idle() {
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

    /// Counts a request under its protocol; `false`: it has to be the last one.
    pub fn begin_request(&mut self, generation: &Generation, protocol: Metric) -> bool {
        if self.generation != generation.number {
            self.follow(generation);
        }
        let requests_max = generation.model.limits.requests_per_connection_max;
        self.requests = self.requests.saturating_add(1);
        self.worker.counters.increment(protocol);
        (requests_max == 0 || u64::from(self.requests) < requests_max) && !self.worker.draining.get()
    }
}

impl Session {
    /// After a reload: accounts are those of the new configuration's sites, and there may be limits where there were none.
    fn follow(&mut self, generation: &Generation) {
        self.generation = generation.number;
        if self.opened.account().is_none() {
            // A limit on connections is for new ones: whether the address has too many does not matter to this one.
            self.opened.admit(self.client.ip());
            Rc::make_mut(&mut self.client).account = self.opened.account().map(Arc::clone);
        }
        if let Some(accounts) = &mut self.accounts {
            accounts.sites = Arc::clone(&generation.site_accounts);
            accounts.address = self.client.account.clone();
        }
    }
}
