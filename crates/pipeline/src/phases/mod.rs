//! The life of a request, top to bottom. Each entry is a function in the file of its name.
//!
//! A phase lets the request pass, answers it, which ends the descent, or has changed its path: then
//! the descent begins again behind the choice of the host, a bounded number of times. No phase
//! calls an earlier one.

mod access;
mod authorize;
mod by_host;
mod challenge;
mod content;
mod map_to_storage;
mod post_read;
mod select_host;
mod server_rewrite;

pub use access::body_bytes_max;
pub use authorize::Inquiry;
pub use challenge::CHALLENGES;
pub use post_read::trace_answer;
pub use server_rewrite::to_https;

use crate::{
    Exchange, Response, Rules, Services, Verdict, guard, modsecurity, throttle::Admission,
};
use saker_http::Status;
use saker_telemetry::{error_log, message};
use std::time::Duration;

pub struct Phase {
    pub name: &'static str,
    pub run: fn(&mut Exchange, &Services) -> Verdict,
}

/// What happens before content is looked for, in order.
pub const PHASES: &[Phase] = &[
    Phase {
        name: "post_read",
        run: |exchange, services| post_read::post_read(exchange, services).into(),
    },
    Phase {
        name: "challenge",
        run: |exchange, services| challenge::challenge(exchange, services).into(),
    },
    Phase {
        name: "select_host",
        run: select_host::select_host,
    },
    Phase {
        name: "server_rewrite",
        run: server_rewrite,
    },
    Phase {
        name: "map_to_storage",
        run: map_to_storage,
    },
    Phase {
        name: "access",
        run: access,
    },
    Phase {
        name: "content_rules",
        run: modsecurity::content,
    },
    Phase {
        name: "fixups",
        run: fixups,
    },
];

/// Where a descent begins that knows its host: internal redirects, error pages, paths that rules
/// have changed.
const BEHIND_HOST: usize = 3;

/// Runs the list, then the content phase, which may wait.
pub async fn run(exchange: &mut Exchange, services: &Services) -> Response {
    descend(exchange, services, 0).await
}

/// What an internal redirect (the page for an error of `outer`) runs again: the path is known, the
/// host chosen.
pub async fn run_again(
    exchange: &mut Exchange,
    services: &Services,
    outer: &Exchange,
    status: Status,
) -> Response {
    if let Some(rules) = rules(exchange, services) {
        rules.error_document(outer, exchange, status);
        return descend(exchange, services, BEHIND_HOST).await;
    }
    // Nobody is asked a second time whether he may see the page that says he may not.
    match server_rewrite::server_rewrite(exchange, services) {
        Some(response) => response,
        None => descend(exchange, services, PHASES.len()).await,
    }
}

/// What a request inside of another one (a page that is included in a page) comes to before its
/// content. `None`: it has some to be asked for.
pub async fn descend_inside(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    // The rate is that of the request around it.
    exchange.admission = Some(Admission::Pass);
    exchange.is_admitted = true;
    exchange.is_inside = true;
    before_content(exchange, services, BEHIND_HOST).await
}

/// Its content.
pub async fn content_inside(exchange: &mut Exchange, services: &Services) -> Response {
    descend(exchange, services, PHASES.len()).await
}

async fn descend(exchange: &mut Exchange, services: &Services, mut from: usize) -> Response {
    loop {
        if let Some(response) = before_content(exchange, services, from).await {
            return response;
        }
        if let Some(response) = content::content(exchange, services).await {
            return response;
        }
        if !begins_again(exchange, "content") {
            return Response::new(Status::INTERNAL_SERVER_ERROR);
        }
        from = BEHIND_HOST;
    }
}

async fn before_content(
    exchange: &mut Exchange,
    services: &Services,
    mut from: usize,
) -> Option<Response> {
    while let Some(phase) = PHASES.get(from) {
        let verdict = (phase.run)(exchange, services);
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
            Verdict::Wait(pause) => pause.await,
            Verdict::Restart if begins_again(exchange, phase.name) => from = BEHIND_HOST,
            Verdict::Restart => return Some(Response::new(Status::INTERNAL_SERVER_ERROR)),
        }
    }
    if let Some(Admission::Delay(wait_ns)) = exchange.admission.take() {
        (services.sleep)(Duration::from_nanos(wait_ns)).await;
    }
    None
}

/// Counts the times, and says whether there may be another.
fn begins_again(exchange: &mut Exchange, phase: &'static str) -> bool {
    if exchange.redirects >= exchange.redirects_max {
        let times = exchange.redirects;
        let path = String::from_utf8_lossy(&exchange.path);
        let facts =
            format_args!("{path}: more than {times} internal redirects (LimitInternalRecursion)");
        error_log::log_about(&message::RULES_GO_ROUND, &*exchange, facts);
        exchange.trace(phase, None, || {
            format!("would begin again after {times} times: the rules go in circles")
        });
        return false;
    }
    exchange.redirects += 1;
    true
}

/// The rules of the site's own front-end, where it has some.
fn rules<'s>(exchange: &Exchange, services: &'s Services) -> Option<&'s dyn Rules> {
    services
        .rules
        .as_deref()
        .filter(|rules| rules.apply_to(exchange.site_index))
}

fn server_rewrite(exchange: &mut Exchange, services: &Services) -> Verdict {
    match rules(exchange, services) {
        Some(rules) => rules.server_rewrite(exchange),
        None => match server_rewrite::server_rewrite(exchange, services) {
            Some(response) => Verdict::Answer(response),
            None => guard::check(exchange, services),
        },
    }
}

fn map_to_storage(exchange: &mut Exchange, services: &Services) -> Verdict {
    match rules(exchange, services) {
        Some(rules) => rules.map_to_storage(exchange),
        None => map_to_storage::map_to_storage(exchange, services).into(),
    }
}

fn access(exchange: &mut Exchange, services: &Services) -> Verdict {
    let rules = rules(exchange, services);
    if rules.is_some() {
        // What is in force is known by now.
        match guard::check(exchange, services) {
            Verdict::Pass => {}
            other => return other,
        }
    }
    if let Some(refused) =
        access::access(exchange, services).or_else(|| modsecurity::head(exchange))
    {
        return Verdict::Answer(refused);
    }
    match rules {
        Some(rules) => rules.access(exchange),
        None => authorize::authorize(exchange, services),
    }
}

fn fixups(exchange: &mut Exchange, services: &Services) -> Verdict {
    rules(exchange, services).map_or(Verdict::Pass, |rules| rules.fixups(exchange))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_chosen_before_anything_begins_again() {
        assert_eq!(PHASES[BEHIND_HOST - 1].name, "select_host");
    }
}
