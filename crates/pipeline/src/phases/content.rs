//! Asks the handlers in their order; the first that does not decline has answered.

use crate::{Exchange, Handled, Response, Services};
use saker_http::Status;

/// `None`: a handler has changed the path, and everything begins again behind the choice of the host.
pub(super) async fn content(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    for handler in services.handlers.iter() {
        match handler.handle(exchange).await {
            Handled::Answered(response) => {
                exchange.trace("content", None, || format!("handler `{}` answers {}", handler.name(), response.status.0));
                return Some(response);
            }
            Handled::Restart => {
                let path = String::from_utf8_lossy(&exchange.path).into_owned();
                exchange.trace("content", None, || format!("handler `{}` leads on to {path}", handler.name()));
                return None;
            }
            Handled::Declined => exchange.trace("content", None, || format!("handler `{}` declines", handler.name())),
        }
    }
    Some(Response::new(Status::NOT_FOUND))
}
