//! May this request be answered: size of its body, request rates of its address.

use crate::{
    Exchange, Response, Services,
    throttle::{Admission, requests},
};
use saker_config::model::ClientCertificates;
use saker_http::Status;
use std::sync::Arc;

pub(super) fn access(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    if let Some(refused) = handshake(exchange) {
        return Some(refused);
    }
    if let Some(refused) = throttle(exchange, services) {
        return Some(refused);
    }
    let limit = body_bytes_max(exchange, services);
    match exchange.body.length() {
        Some(length) if limit != 0 && length > limit => {
            exchange.trace("access", None, || format!("a body of {length} bytes is over the limit of {limit}"));
            Some(Response::new(Status::CONTENT_TOO_LARGE))
        }
        _ => None,
    }
}

/// A site that wants client certificates is only there for connections whose handshake could ask for them (the driver has seen to it that
/// it was this site's).
fn handshake(exchange: &mut Exchange) -> Option<Response> {
    let wanted = exchange.site.tls.client_certificates == ClientCertificates::Required;
    (wanted && !exchange.client.tls).then(|| {
        exchange.trace("access", None, || "the site requires a client certificate, and this connection is not under TLS".into());
        Response::new(Status::FORBIDDEN)
    })
}

/// Request rates of the client's address, and the pace of the body. A delay is left in the exchange and waited for before the content.
fn throttle(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    let settings = Arc::clone(&exchange.settings);
    if settings.throttle.is_idle() {
        return None;
    }
    exchange.body.throttle(&settings.throttle, exchange.site_index);
    if exchange.admission.is_none()
        && let (Some(rate), Some(account)) = (&settings.throttle.static_requests, &exchange.client.account)
    {
        exchange.admission = Some(requests::admit(&account.static_requests, rate, (services.now_ns)()));
    }
    match exchange.admission {
        Some(Admission::Refuse { retry_after_s }) => {
            exchange.trace("access", None, || "the request rate of this address is used up".into());
            let mut response = Response::new(Status::TOO_MANY_REQUESTS);
            response.fields_mut().set("Retry-After", retry_after_s.to_string().into_bytes());
            Some(response)
        }
        _ => None,
    }
}

/// 0: no limit.
pub fn body_bytes_max(exchange: &Exchange, services: &Services) -> u64 {
    exchange.settings.body_bytes_max.unwrap_or(services.generation.model.limits.body_bytes_max)
}
