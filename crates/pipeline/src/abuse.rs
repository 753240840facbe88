//! Abuse protection: the traits that `saker-abuse` implements for the phases.
//!
//! Called by: the phases `client_rules`, `limits`, and `user_limits`, the content phase before an
//! upstream request, and the gateway.
//! Caveat: an implementation that examines the client or fields must report it with
//! [`Exchange::depends_on_request`]; otherwise one client's answer is cached for all.
//! Out of scope: connections (`server`), and counting (`saker-rate-limits`).

use crate::{Exchange, LocalFuture, Response, Rules, Step};
use saker_rate_limits::Place;
use std::rc::Rc;

/// Rules about clients that apply to a site or route.
pub trait AbuseControl {
    /// Runs bot verification, challenges, login attempt limits, hotlink protection, and signed
    /// URLs. Called once the settings of the path are known, and only if one of them is configured.
    /// `rules` are those of the site.
    fn check<'a>(&'a self, exchange: &'a mut Exchange, rules: &'a dyn Rules) -> Step<'a>;

    /// Checks bans, denied addresses, and rate and concurrency limits. `Some`: the request is
    /// refused with this response. A delay is left in
    /// [`LimitState::admission`](crate::LimitState::admission) and awaited before content.
    fn admit(&self, exchange: &mut Exchange) -> Option<Response>;

    /// Checks limits by what is known about the authenticated user. Called when access has been
    /// decided, and only if there are such limits; as [`AbuseControl::admit`] otherwise.
    fn admit_user(&self, exchange: &mut Exchange) -> Option<Response>;

    /// Limits login attempts by the script or upstream that is about to answer: the path alone may
    /// not identify a login.
    fn check_upstream<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a>;
}

/// Limits on upstream requests. An exchange has one if a limit is configured
/// ([`Exchange::upstream_gate`]).
pub trait UpstreamGate {
    /// Waits for a free slot, if the limit allows waiting. The error is the response. Slots are
    /// released when the permit is dropped, which the caller does at the end of the upstream's
    /// response.
    fn enter<'a>(
        &'a self,
        exchange: &'a mut Exchange,
    ) -> LocalFuture<'a, Result<UpstreamPermit, Response>>;
}

/// The gate in the extensions of an exchange.
struct Gate(Rc<dyn UpstreamGate>);

impl Exchange {
    /// Returns the limits on upstream requests; `None`: there are none.
    pub fn upstream_gate(&self) -> Option<Rc<dyn UpstreamGate>> {
        self.extensions.get::<Gate>().map(|gate| Rc::clone(&gate.0))
    }

    /// Sets the limits on upstream requests.
    pub fn set_upstream_gate(&mut self, gate: Rc<dyn UpstreamGate>) {
        self.extensions.insert(Gate(gate));
    }
}

/// The concurrency slots of an upstream request.
#[derive(Debug, Default)]
pub struct UpstreamPermit {
    places: Vec<Place>,
}

impl UpstreamPermit {
    /// Returns true if the permit holds no slot.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Adds a slot, held as long as the permit exists.
    pub fn add(&mut self, place: Place) {
        self.places.push(place);
    }
}
