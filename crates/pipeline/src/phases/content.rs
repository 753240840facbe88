//! The content phase: routes with fixed answers, then the page cache, then an upstream or a file.
//!
//! Called by: [`run_phases`](super::run_phases), last.
//! Caveat: upstream requests come from rules ([`UpstreamState::call`]) or from a handler
//! ([`Handled::Forward`]); both are carried out only here.
//! Out of scope: the handlers, which the registry lists ([`ContentHandlers`]).
//!
//! [`ContentHandlers`]: crate::ContentHandlers
//! [`UpstreamState::call`]: crate::UpstreamState::call

use super::{body_bytes_max, decided};
use crate::{Exchange, Handled, Handler, Response, Services, Verdict};
use saker_http::{KnownField, Method};
use std::future::poll_fn;

/// Maximum size limit that is enforced for content that no handler reads.
const UNREAD_BYTES_MAX: u64 = 256 << 10;

/// Calls the handlers in order until one does not decline. Carries out [`Handled::Forward`], and
/// never returns it. `is_decided`: a decision says that none of them answers before the gateway.
pub(super) async fn content(
    exchange: &mut Exchange,
    services: &Services,
    is_decided: bool,
) -> Handled {
    let handlers = &services.handlers;
    if !is_decided {
        match before_upstreams(exchange, services).await {
            Handled::Declined => decided::keep(exchange, services),
            done => return done,
        }
    }
    route_for_cache(exchange, services);
    match first(exchange, services, handlers.cache.as_slice()).await {
        Handled::Declined => {}
        done => return done,
    }
    let request = match exchange.upstream.call.take() {
        Some(request) => request,
        None => match handlers.gateway.route(exchange) {
            Some(request) => request,
            None => {
                exchange.trace("content", None, || {
                    format!("handler `{}` declines", handlers.gateway.name())
                });
                return first(exchange, services, &handlers.files).await;
            }
        },
    };
    let gateway = &handlers.gateway;
    let handled = gateway.forward(exchange, request).await;
    trace(exchange, gateway.name(), &handled);
    if has_unread(exchange, services, &handled) {
        read_unread(exchange).await;
    }
    if matches!(handled, Handled::Restart) {
        // To a path that the program has named, for this request.
        exchange.depends_on_request();
        exchange.routing.file_route = None;
    }
    match handled {
        // The program has delegated its response to a file.
        Handled::Declined => first(exchange, services, &handlers.files).await,
        done => done,
    }
}

/// Calls the handlers of routes. [`Handled::Declined`]: files or an upstream may answer, which
/// [`UpstreamState::call`](crate::UpstreamState::call) names if a handler has chosen it.
async fn before_upstreams(exchange: &mut Exchange, services: &Services) -> Handled {
    if limits_logins(exchange)
        && let Some(refused) = limit_logins(exchange, services).await
    {
        return Handled::Answered(refused);
    }
    if exchange.upstream.call.is_none() {
        match first(exchange, services, &services.handlers.routes).await {
            Handled::Declined => {}
            Handled::Forward(request) => {
                exchange.upstream.call = Some(request);
                if limits_logins(exchange)
                    && let Some(refused) = limit_logins(exchange, services).await
                {
                    return Handled::Answered(refused);
                }
            }
            done => return done,
        }
    }
    Handled::Declined
}

/// Makes the upstream request of the site's own routes before the page cache is looked at: the
/// upstream and the path that it is asked for are part of a page's key, since routes may lead
/// clients with the same URL to different ones.
fn route_for_cache(exchange: &mut Exchange, services: &Services) {
    let handlers = &services.handlers;
    let is_cached = handlers.cache.is_some() && exchange.routing.settings.cache.is_on;
    if is_cached && exchange.upstream.call.is_none() {
        exchange.upstream.call = handlers.gateway.route(exchange);
    }
}

/// Calls handlers in order until one does not decline.
async fn first(
    exchange: &mut Exchange,
    services: &Services,
    handlers: &[Box<dyn Handler>],
) -> Handled {
    for handler in handlers {
        let handled = handler.handle(exchange).await;
        if matches!(handled, Handled::Declined) && exchange.log.trace.is_none() {
            continue;
        }
        trace(exchange, handler.name(), &handled);
        if has_unread(exchange, services, &handled) {
            read_unread(exchange).await;
        }
        match handled {
            Handled::Declined => {}
            done => return done,
        }
    }
    Handled::Declined
}

/// Traces the answer of a handler.
fn trace(exchange: &mut Exchange, name: &'static str, handled: &Handled) {
    match handled {
        Handled::Answered(response) => exchange.trace("content", None, || {
            format!("handler `{name}` answers {}", response.status.0)
        }),
        Handled::Restart if exchange.log.trace.is_some() => {
            let path = String::from_utf8_lossy(&exchange.path).into_owned();
            exchange.trace("content", None, || {
                format!("handler `{name}` redirects internally to {path}")
            });
        }
        Handled::Declined => {
            exchange.trace("content", None, || format!("handler `{name}` declines"))
        }
        Handled::Forward(_) | Handled::Restart => {}
    }
}

fn limits_logins(exchange: &Exchange) -> bool {
    let is_page = exchange.log.stands_in_for.is_some() && !exchange.access.has_client_target;
    exchange.routing.settings.visitors.logins.is_some() && !is_page
}

/// Limits login attempts by the script or upstream that is about to answer.
async fn limit_logins(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    match services.abuse.check_upstream(exchange).verdict().await {
        Verdict::Answer(response) => Some(response),
        Verdict::Pass | Verdict::Restart => None,
    }
}

/// Returns true if the handler has left content of unknown length that has to be read, so that
/// exceeding the limit does not depend on the handler (as in Apache). The driver then replaces the
/// response with 413. Content of known length has been checked before; larger limits are for
/// programs, which read it themselves.
fn has_unread(exchange: &Exchange, services: &Services, handled: &Handled) -> bool {
    let Handled::Answered(response) = handled else {
        return false;
    };
    if exchange.body.is_end() || exchange.body.length().is_some() {
        return false;
    }
    let limit = body_bytes_max(exchange, services);
    let head = exchange.head.view();
    // A client that waits for 100 (Continue) or a tunnel has sent no content.
    let waits = head.has(KnownField::Expect) || head.method() == Method::Connect;
    !waits
        && (1..=UNREAD_BYTES_MAX).contains(&limit)
        && response.status.is_success()
        && response.tunnel.is_none()
}

async fn read_unread(exchange: &mut Exchange) {
    while let Some(Ok(_)) = poll_fn(|cx| exchange.body.poll_chunk(cx)).await {}
}
