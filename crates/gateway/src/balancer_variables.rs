//! Variables of mod_proxy_balancer about its choice, which edits of the response and logs look at:
//! `Header add Set-Cookie "ROUTEID=.%{BALANCER_WORKER_ROUTE}e" env=BALANCER_ROUTE_CHANGED`.
//!
//! Called by: `retry`, for each member that is asked.
//! Out of scope: the choice (`balancer`), and the variables of programs (`variables`).

use crate::balancer::session_of;
use saker_config::model::{Member, Upstream};
use saker_pipeline::Exchange;

/// Sets the variables for a member of one of Apache's balancers.
pub fn set(exchange: &mut Exchange, upstream: &Upstream, member: &Member) {
    if !upstream.name.starts_with("balancer://") {
        return;
    }
    let session = upstream
        .sticky
        .as_ref()
        .and_then(|sticky| session_of(exchange, sticky));
    let environment = &mut exchange.environment;
    let route = member.route.as_deref().unwrap_or_default();
    let url = format!(
        "{}://{}{}",
        member.backend.scheme(),
        member.authority,
        member.path
    );
    environment.set(b"BALANCER_NAME", upstream.name.as_bytes());
    environment.set(b"BALANCER_WORKER_NAME", url.as_bytes());
    environment.set(b"BALANCER_WORKER_ROUTE", route.as_bytes());
    let stays = session
        .as_ref()
        .is_some_and(|session| leads_to(upstream, &session.route, route));
    if upstream.sticky.is_some() && !stays {
        environment.set(b"BALANCER_ROUTE_CHANGED", b"1");
    }
    if let Some(session) = session {
        environment.set(b"BALANCER_SESSION_STICKY", session.name.as_bytes());
        environment.set(b"BALANCER_SESSION_ROUTE", &session.route);
    }
}

/// True if the member of the session's route has that route, or names it for when it is away.
fn leads_to(upstream: &Upstream, session: &[u8], route: &str) -> bool {
    let is_own = |member: &&Member| {
        let own = member.route.as_deref();
        own.is_some_and(|own| own.as_bytes() == session)
    };
    let member = upstream.members.iter().find(is_own);
    member.is_some_and(|member| {
        session == route.as_bytes() || member.redirect.as_deref() == Some(route)
    })
}
