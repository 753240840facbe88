//! The phases of a request, in order. Each entry is a function in the file of its name, or a method
//! of the rules of the site's front end.
//!
//! Called by: [`respond`](crate::respond), and front ends for subrequests.
//! Caveat: client requests, subrequests, internal redirects, and error documents run the same list;
//! those whose host is known start after `select_host`. No phase calls an earlier one.
//! Out of scope: response processing (`respond`).

mod acme_challenge;
mod by_host;
mod content;
mod decided;
mod limits;
mod live_redirects;
mod post_read;
mod select_host;

pub use acme_challenge::CHALLENGES;
pub use limits::body_bytes_max;

use crate::{Exchange, Handled, Response, Rules, Services, Step, Verdict, client_address};
use saker_config::model::ModSecurityMode;
use saker_http::Status;
use saker_rate_limits::Admission;
use saker_telemetry::{Metric, error_log, message};
use std::time::Duration;

/// A phase.
pub struct Phase {
    pub name: &'static str,
    /// Passes, answers (which ends the list), or reports a changed path: then the list restarts
    /// after `select_host`, a limited number of times.
    pub run: for<'a> fn(&'a mut Exchange, &'a Services) -> Step<'a>,
}

/// All phases before content, in order.
pub const PHASES: &[Phase] = &[
    Phase {
        name: "post_read",
        run: |exchange, services| post_read::post_read(exchange, services).into(),
    },
    Phase {
        name: "acme_challenge",
        run: acme_challenge::acme_challenge,
    },
    Phase {
        name: "select_host",
        run: select_host::select_host,
    },
    Phase {
        name: "live_redirects",
        run: |exchange, _| live_redirects::live_redirects(exchange).into(),
    },
    Phase {
        name: "server_rewrite",
        run: |exchange, services| rules(exchange, services).server_rewrite(exchange),
    },
    Phase {
        name: "map_to_storage",
        run: |exchange, services| rules(exchange, services).map_to_storage(exchange),
    },
    Phase {
        name: "client_rules",
        run: client_rules,
    },
    Phase {
        name: "limits",
        run: |exchange, services| limits::limits(exchange, services).into(),
    },
    Phase {
        name: "inspect_request",
        run: inspect_request,
    },
    Phase {
        name: "access",
        run: |exchange, services| rules(exchange, services).access(exchange),
    },
    Phase {
        name: "user_limits",
        run: |exchange, services| limits::user_limits(exchange, services).into(),
    },
    Phase {
        name: "inspect_content",
        run: inspect_content,
    },
    Phase {
        name: "fixups",
        run: |exchange, services| rules(exchange, services).fixups(exchange),
    },
];

/// Index of the first phase of what is no client request, and has its host: internal redirects,
/// subrequests, error documents, paths changed by rules.
const BEHIND_HOST: usize = 4;

/// Index of the phase `fixups`, which makes upstream requests of rules.
const FIXUPS: usize = PHASES.len() - 1;

/// Runs all phases for a client request, then the content phase.
pub fn run_phases<'a>(
    exchange: &'a mut Exchange,
    services: &'a Services,
) -> impl Future<Output = Response> + 'a {
    run_from(exchange, services, 0)
}

/// Returns true if the rules answer an error with another path of the same request
/// ([`Rules::redirects_error`]), which [`run_error_redirects`] then does.
pub fn redirects_error(
    exchange: &mut Exchange,
    services: &Services,
    response: &mut Response,
) -> bool {
    !exchange.limits.drops_connection
        && rules(exchange, services).redirects_error(exchange, response)
}

/// Runs the phases for the path that the rules answer an error with, and for as long as that is an
/// error that they answer in this way.
pub async fn run_error_redirects(exchange: &mut Exchange, services: &Services) -> Response {
    loop {
        if !begins_again(exchange, "respond") {
            return Response::new(Status::INTERNAL_SERVER_ERROR);
        }
        let mut response = run_from(exchange, services, BEHIND_HOST).await;
        if !redirects_error(exchange, services, &mut response) {
            return response;
        }
    }
}

/// Runs the phases for the error document of `outer`, whose status is `status`.
pub async fn run_error_document(
    page: &mut Exchange,
    services: &Services,
    outer: &Exchange,
    status: Status,
) -> Response {
    rules(page, services).error_document(outer, page, status);
    run_from(page, services, BEHIND_HOST).await
}

/// Runs the phases for a subrequest (a page included in a page) up to its content. `None`: it
/// passed, and [`subrequest_content`] produces the content.
pub async fn run_subrequest(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    stand_inside(exchange);
    before_content(exchange, services, BEHIND_HOST).await
}

/// Takes an exchange for one inside of another, which has been counted.
fn stand_inside(exchange: &mut Exchange) {
    exchange.limits.admission = Some(Admission::Pass);
    (exchange.limits.is_admitted, exchange.limits.is_counted) = (true, true);
    exchange.routing.is_inside = true;
}

/// Produces the content of a subrequest for what its request asks for: rules have led both to one place.
pub async fn subrequest_in_place(exchange: &mut Exchange, services: &Services) -> Response {
    stand_inside(exchange);
    run_from(exchange, services, FIXUPS).await
}

/// Produces the content of a subrequest that [`run_subrequest`] let pass.
pub async fn subrequest_content(exchange: &mut Exchange, services: &Services) -> Response {
    run_from(exchange, services, PHASES.len()).await
}

async fn run_from(exchange: &mut Exchange, services: &Services, mut from: usize) -> Response {
    if from != 0 {
        // Another path of the same request, which the decision isn't about.
        exchange.cache.decision = None;
    }
    let mut is_decided = decided::may_follow(exchange, services);
    loop {
        let answer = match is_decided {
            true => match follow(exchange, services).await {
                Verdict::Pass => None,
                Verdict::Answer(response) => Some(response),
                // The path has changed.
                Verdict::Restart => {
                    (is_decided, exchange.cache.decision) = (false, None);
                    if !begins_again(exchange, "fixups") {
                        return Response::new(Status::INTERNAL_SERVER_ERROR);
                    }
                    from = BEHIND_HOST;
                    continue;
                }
            },
            false => before_content(exchange, services, from).await,
        };
        if let Some(response) = answer {
            return response;
        }
        match content::content(exchange, services, is_decided).await {
            Handled::Answered(response) => return response,
            Handled::Declined | Handled::Forward(_) => return Response::new(Status::NOT_FOUND),
            // The path has changed.
            Handled::Restart => (is_decided, exchange.cache.decision) = (false, None),
        }
        if !begins_again(exchange, "content") {
            return Response::new(Status::INTERNAL_SERVER_ERROR);
        }
        from = BEHIND_HOST;
    }
}

/// The part of the phases that is no decision about a path: what each request has to pass.
async fn follow(exchange: &mut Exchange, services: &Services) -> Verdict {
    let Some(decision) = exchange.cache.decision.clone() else {
        return Verdict::Pass;
    };
    let trusted = &services.generation.model.server.trusted_proxies;
    client_address::drop_made_up_fields(exchange, trusted);
    decided::apply(&decision, exchange);
    if let Some(refused) = limits::limits(exchange, services) {
        return Verdict::Answer(refused);
    }
    if decision.rules.is_some() {
        match rules(exchange, services).fixups(exchange).verdict().await {
            Verdict::Pass if exchange.is_over_budget() => {
                return Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR));
            }
            Verdict::Pass => {}
            done => return done,
        }
    }
    if exchange.limits.admission.is_some() {
        Box::pin(wait_for_place(exchange, services)).await;
    }
    Verdict::Pass
}

/// Waits as long as rate limits say.
async fn wait_for_place(exchange: &mut Exchange, services: &Services) {
    if let Some(Admission::Delay(wait_ns)) = exchange.limits.admission.take() {
        services.counters.increment(Metric::ThrottleDelayed);
        (services.sleep)(Duration::from_nanos(wait_ns)).await;
    }
}

async fn before_content(
    exchange: &mut Exchange,
    services: &Services,
    mut from: usize,
) -> Option<Response> {
    while let Some(phase) = PHASES.get(from) {
        if from == FIXUPS {
            decided::keep_before_fixups(exchange, services);
        }
        let verdict = match (phase.run)(exchange, services) {
            Step::Ready(verdict) => verdict,
            Step::Pending(rest) => rest.await,
        };
        if from == FIXUPS {
            decided::settle(exchange, services, &verdict);
        }
        if exchange.is_over_budget() {
            return Some(Response::new(Status::INTERNAL_SERVER_ERROR));
        }
        match verdict {
            Verdict::Pass => from += 1,
            Verdict::Answer(response) => {
                exchange.trace(phase.name, None, || {
                    format!("answers {}", response.status.0)
                });
                return Some(response);
            }
            Verdict::Restart if begins_again(exchange, phase.name) => from = BEHIND_HOST,
            Verdict::Restart => return Some(Response::new(Status::INTERNAL_SERVER_ERROR)),
        }
    }
    wait_for_place(exchange, services).await;
    None
}

/// Counts a restart, and returns true if it is within the limit.
fn begins_again(exchange: &mut Exchange, phase: &'static str) -> bool {
    if exchange.routing.redirects >= exchange.routing.redirects_max {
        let times = exchange.routing.redirects;
        let path = String::from_utf8_lossy(&exchange.path);
        let facts =
            format_args!("{path}: more than {times} internal redirects (LimitInternalRecursion)");
        error_log::log_about(&message::RULES_GO_ROUND, &*exchange, facts);
        exchange.trace(phase, None, || {
            format!("would begin again after {times} times: the rules loop")
        });
        return false;
    }
    exchange.routing.redirects += 1;
    true
}

/// Returns the rules of the site's front end.
fn rules<'s>(exchange: &Exchange, services: &'s Services) -> &'s dyn Rules {
    services.rules.of(exchange.routing.site_index)
}

/// Checks bots, challenges, login attempts, hotlinks, and signed URLs; skipped for error documents
/// that are for every client.
fn client_rules<'a>(exchange: &'a mut Exchange, services: &'a Services) -> Step<'a> {
    let settings = &exchange.routing.settings;
    let is_idle = settings.links.is_idle() && settings.visitors.is_idle();
    if is_idle || exchange.is_page_for_all() {
        return Step::PASS;
    }
    {
        let rules = rules(exchange, services);
        services.abuse.check(exchange, rules)
    }
}

/// Lets ModSecurity rules inspect the client's request, once; skipped for subrequests and error
/// documents, but for those of the client's path.
fn inspect_request<'a>(exchange: &'a mut Exchange, services: &'a Services) -> Step<'a> {
    let is_wanted = exchange
        .routing
        .settings
        .modsecurity
        .as_ref()
        .is_some_and(|modsecurity| modsecurity.mode != ModSecurityMode::Off);
    let is_skipped_page =
        exchange.log.stands_in_for.is_some() && !exchange.access.has_client_target;
    if !is_wanted || exchange.routing.is_inside || is_skipped_page {
        return Step::PASS;
    }
    services.inspector.request_head(exchange)
}

fn inspect_content<'a>(exchange: &'a mut Exchange, services: &'a Services) -> Step<'a> {
    match exchange.access.inspection {
        Some(_) => services.inspector.request_content(exchange),
        None => Step::PASS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_chosen_before_anything_begins_again() {
        let before = PHASES[..BEHIND_HOST].iter().map(|phase| phase.name);
        let last: Vec<_> = before.rev().take(2).collect();
        // Redirects of the console are for client requests.
        assert_eq!(last, ["live_redirects", "select_host"]);
        assert_eq!(PHASES[FIXUPS].name, "fixups");
    }
}
