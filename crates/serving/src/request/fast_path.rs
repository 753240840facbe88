//! The fast path: a request that a cached route can answer, over any protocol.
//!
//! Called by: the drivers, for each request, before they dispatch it.
//! Caveat: inlined into each driver, because a hit costs few instructions and its parts are large.
//! Out of scope: encoding and sending the response, which differ by protocol.

use super::{
    comparison,
    log::{Facts, sent_length},
    outcome::fast_key,
    pace::Pace,
    session::{Session, Throttled},
};
use saker_http::HeadView;
use saker_pipeline::{
    Decision, Generation, LogFacts, Received, Response, ResponseHead, RouteCache, field_edits,
    route_cache::Entry,
};
use saker_rate_limits::Admission;
use std::rc::Rc;

/// Result of a request's look-up in the route cache.
pub enum FastPath<'r> {
    /// A response that can be sent at once.
    Hit(Hit<'r>),
    /// The request goes to an upstream: the phases' decision is known.
    Decided(Rc<Decision>),
    /// The request has to wait, or is refused.
    Held(Admission),
    /// The request has to be dispatched.
    Miss,
}

/// A response from the route cache.
pub struct Hit<'r> {
    pub response: Response,
    pub route: &'r Entry,
    /// Set where a bandwidth limit applies to the body.
    pub pace: Option<Box<Pace>>,
    /// Facts of this request alone; set if it has lines in the error log.
    log_facts: Option<Rc<LogFacts>>,
}

impl Hit<'_> {
    /// Facts for the access log. `stays`: the connection continues.
    #[inline(always)]
    pub fn facts(&self, stays: bool) -> Facts<'_> {
        Facts {
            site: self.route.site_index,
            status: self.response.status,
            path: &self.route.path,
            fields: Some(self.response.fields()),
            length: sent_length(&self.response),
            stays,
            log_facts: self.log_facts.as_ref().or(self.route.log_facts.as_ref()),
        }
    }
}

/// Writes the lines of the error log that the outcome has. Returns facts of the access log with the id
/// of these lines.
fn log_outcome(session: &Session, head: HeadView<'_>, route: &Entry) -> Option<Rc<LogFacts>> {
    let lines = route.log_lines.as_ref()?;
    let request = Received {
        client: &session.client,
        head,
    };
    let facts = route.log_facts.as_ref();
    let log_facts = facts.map(|facts| Rc::new(facts.of_another()));
    let id = log_facts.as_ref().map(|facts| Rc::clone(&facts.log_id));
    lines.log(&request, &id.unwrap_or_default());
    log_facts
}

/// Looks a request up in the route cache. The response has the site's field edits already.
#[inline(always)]
pub fn look_up<'r>(
    routes: &'r mut RouteCache,
    session: &mut Session,
    generation: &Generation,
    view: HeadView<'_>,
    now: i64,
) -> FastPath<'r> {
    let Some(key) = fast_key(&session.client.listener, view) else {
        return FastPath::Miss;
    };
    let request = Received {
        client: &session.client,
        head: view,
    };
    let Some((response, route)) = routes.answer(&key, &request, now, saker_net::clock::turn_ms())
    else {
        return FastPath::Miss;
    };
    if !session.is_good_for(generation, route.site_index)
        || session.is_named_client_refused(generation)
    {
        return FastPath::Miss;
    }
    if let Some(decision) = &route.decision {
        return match comparison::sample_decision(generation, route, decision) {
            Some(sampled) => {
                session.sampled = Some(sampled);
                FastPath::Miss
            }
            None => FastPath::Decided(Rc::clone(decision)),
        };
    }
    let Some(mut response) = response else {
        return FastPath::Miss;
    };
    let throttled = match route.throttled {
        true => session.throttle(
            generation,
            &route.settings,
            route.site_index,
            response.body.length().unwrap_or(0),
        ),
        false => Throttled::No,
    };
    let pace = match throttled {
        Throttled::No => None,
        Throttled::Paced(pace) => Some(pace),
        Throttled::Held(admission) => return FastPath::Held(admission),
        Throttled::Dispatch => return FastPath::Miss,
    };
    if let ResponseHead::Built(fields) = &mut response.head {
        field_edits::apply(&route.settings.fields, response.status, fields);
    }
    if let Some(answer) = comparison::sample(generation, route, view, &response) {
        session.sampled = Some(answer);
        return FastPath::Miss;
    }
    let log_facts = log_outcome(session, view, route);
    FastPath::Hit(Hit {
        response,
        route,
        pace,
        log_facts,
    })
}
