//! Asks the handlers in their order; the first that does not decline has answered.

use super::body_bytes_max;
use crate::{Exchange, Handled, Response, Services, guard};
use saker_http::{KnownField, Method, Status};
use std::future::poll_fn;

/// Limits up to this one hold for content that no handler reads.
const UNREAD_BYTES_MAX: u64 = 256 << 10;

/// `None`: a handler has changed the path, and everything begins again behind the choice of the
/// host.
pub(super) async fn content(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    for handler in services.handlers.iter() {
        if exchange.settings.visitors.logins.is_some()
            && let Some(refused) = guard::check_program(exchange, services).await
        {
            return Some(refused);
        }
        match handler.handle(exchange).await {
            Handled::Answered(response) => {
                exchange.trace("content", None, || {
                    format!("handler `{}` answers {}", handler.name(), response.status.0)
                });
                read_unread(exchange, services, &response).await;
                return Some(response);
            }
            Handled::Restart => {
                let path = String::from_utf8_lossy(&exchange.path).into_owned();
                exchange.trace("content", None, || {
                    format!("handler `{}` leads on to {path}", handler.name())
                });
                return None;
            }
            Handled::Declined => exchange.trace("content", None, || {
                format!("handler `{}` declines", handler.name())
            }),
        }
    }
    Some(Response::new(Status::NOT_FOUND))
}

/// Reads content of unknown length that the handler has left, so that whether it is over its limit
/// does not go by who answers (Apache does that, too). The driver answers 413 in the place of
/// `response` where it is. Content of known length was measured before, and larger limits are for
/// programs, which read it themselves.
async fn read_unread(exchange: &mut Exchange, services: &Services, response: &Response) {
    let limit = body_bytes_max(exchange, services);
    let head = exchange.head.view();
    // Who waits for a word from us has sent nothing.
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
