//! The content phase: routes with fixed answers, then the page cache, then an upstream or a file.
//!
//! Called by: [`run_phases`](super::run_phases), last.
//! Caveat: upstream requests come from rules ([`UpstreamState::call`]) or from a handler
//! ([`Handled::Forward`]); both are carried out only here.
//! Out of scope: the handlers, which the registry lists ([`ContentHandlers`]).
//!
//! [`ContentHandlers`]: crate::ContentHandlers
//! [`UpstreamState::call`]: crate::UpstreamState::call

use super::body_bytes_max;
use crate::{Exchange, Handled, Handler, Response, Services, Verdict};
use saker_http::{KnownField, Method};
use std::future::poll_fn;

/// Maximum size limit that is enforced for content that no handler reads.
const UNREAD_BYTES_MAX: u64 = 256 << 10;

/// Calls the handlers in order until one does not decline. Carries out [`Handled::Forward`], and
/// never returns it.
pub(super) async fn content(exchange: &mut Exchange, services: &Services) -> Handled {
    let handlers = &services.handlers;
    if limits_logins(exchange)
        && let Some(refused) = limit_logins(exchange, services).await
    {
        return Handled::Answered(refused);
    }
    if exchange.upstream.call.is_none() {
        match first(exchange, services, &handlers.routes).await {
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
    match finish(exchange, services, gateway.name(), handled).await {
        // The program has delegated its response to a file.
        Handled::Declined => first(exchange, services, &handlers.files).await,
        done => done,
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
        match finish(exchange, services, handler.name(), handled).await {
            Handled::Declined => {}
            done => return done,
        }
    }
    Handled::Declined
}

/// Traces the answer of a handler, and reads content that it has left.
async fn finish(
    exchange: &mut Exchange,
    services: &Services,
    name: &'static str,
    handled: Handled,
) -> Handled {
    match &handled {
        Handled::Answered(response) => {
            exchange.trace("content", None, || {
                format!("handler `{name}` answers {}", response.status.0)
            });
            read_unread(exchange, services, response).await;
        }
        Handled::Restart => {
            let path = String::from_utf8_lossy(&exchange.path).into_owned();
            exchange.trace("content", None, || {
                format!("handler `{name}` redirects internally to {path}")
            });
        }
        Handled::Declined => {
            exchange.trace("content", None, || format!("handler `{name}` declines"))
        }
        Handled::Forward(_) => {}
    }
    handled
}

fn limits_logins(exchange: &Exchange) -> bool {
    exchange.routing.settings.visitors.logins.is_some() && exchange.log.stands_in_for.is_none()
}

/// Limits login attempts by the script or upstream that is about to answer.
async fn limit_logins(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    match services.abuse.check_upstream(exchange).verdict().await {
        Verdict::Answer(response) => Some(response),
        Verdict::Pass | Verdict::Restart => None,
    }
}

/// Reads content of unknown length that the handler has left, so that exceeding the limit does not
/// depend on the handler (as in Apache). The driver then replaces `response` with 413. Content of
/// known length has been checked before; larger limits are for programs, which read it themselves.
async fn read_unread(exchange: &mut Exchange, services: &Services, response: &Response) {
    let limit = body_bytes_max(exchange, services);
    let head = exchange.head.view();
    // A client that waits for 100 (Continue) or a tunnel has sent no content.
    let waits = head.has(KnownField::Expect) || head.method() == Method::Connect;
    let is_measured = exchange.body.is_end() || exchange.body.length().is_some() || waits;
    if is_measured
        || !(1..=UNREAD_BYTES_MAX).contains(&limit)
        || !response.status.is_success()
        || response.tunnel.is_some()
    {
        return;
    }
    while let Some(Ok(_)) = poll_fn(|cx| exchange.body.poll_chunk(cx)).await {}
}
