//! Protection against abuse, as the phases ask for it: the traits that `saker-abuse` implements.
//!
//! Called by: the phases `client_rules` and `limits`, the content phase before an upstream is
//! asked, and the gateway. Caveat: an implementation that looks at the client or at fields has to
//! report that by [`Exchange::depends_on_request`], or one client's answer is kept for all. Out of
//! scope: connections (`server`), and the counting itself (`saker-rate-limits`).

use crate::{Exchange, LocalFuture, Response, Services, Step};
use saker_rate_limits::Place;

/// Rules about clients that are in force for a site or route.
pub trait AbuseControl {
    /// Bot verification, challenges, login attempts, hotlink protection, signed URLs. Called once
    /// the settings of the path are known; not called where none of them is configured.
    fn check<'a>(&'a self, exchange: &'a mut Exchange, services: &'a Services) -> Step<'a>;

    /// Bans, denied addresses, rate and concurrency limits. `Some`: the answer of a request that is
    /// refused. A delay is left in [`Exchange::admission`] and waited for before the content.
    fn admit(&self, exchange: &mut Exchange, services: &Services) -> Option<Response>;

    /// Called when it is known which script or upstream answers, where login attempts are limited:
    /// the path alone may not have told that it is a login.
    fn check_upstream<'a>(&'a self, exchange: &'a mut Exchange, services: &'a Services)
    -> Step<'a>;
}

/// Limits on requests that upstreams answer; [`Exchange::upstream_gate`] has one where a limit is
/// set.
pub trait UpstreamGate {
    /// Waits for a place where that helps. The error is the answer; the places are given back when
    /// the permit is dropped, which the caller does once the upstream's response has ended.
    fn enter<'a>(
        &'a self,
        exchange: &'a mut Exchange,
    ) -> LocalFuture<'a, Result<UpstreamPermit, Response>>;
}

/// The places that one request holds at its upstream.
#[derive(Debug, Default)]
pub struct UpstreamPermit {
    places: Vec<Place>,
}

impl UpstreamPermit {
    /// Nothing that has to be held.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Holds another place as long as the permit lives.
    pub fn add(&mut self, place: Place) {
        self.places.push(place);
    }
}
