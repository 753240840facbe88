//! Asks the handlers in their order; the first that does not decline has answered.

use crate::{Exchange, Handled, Response, Services};
use saker_http::Status;

pub(crate) async fn content(exchange: &mut Exchange, services: &Services) -> Response {
    for handler in services.handlers.iter() {
        match handler.handle(exchange).await {
            Handled::Answered(response) => {
                exchange.trace("content", None, || format!("handler `{}` answers {}", handler.name(), response.status.0));
                return response;
            }
            Handled::Declined => exchange.trace("content", None, || format!("handler `{}` declines", handler.name())),
        }
    }
    Response::new(Status::NOT_FOUND)
}
