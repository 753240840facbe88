//! Announces the cache to applications: environment variables and request fields.
//!
//! Called by: the look-up, and `handler` where the cache is off but applications may switch it on.
//! Caveat: what clients send in these fields is removed first.
//! Out of scope: fields of responses (`result_fields`).

use crate::{key, request::CacheRequest};
use saker_cache_rules::lscache::told;
use saker_config::model::{Action, CacheOffer};
use saker_pipeline::Exchange;

/// True if a program or an upstream makes the response.
pub fn is_made(exchange: &Exchange) -> bool {
    exchange.upstream.call.is_some() || matches!(exchange.action(), Action::Proxy(_))
}

/// Sets what the application learns about the cache, and removes the client's own versions of it.
pub fn tell_application(exchange: &mut Exchange, request: &CacheRequest) {
    drop_reserved(exchange);
    if request.key_base.by_device {
        tell_device(exchange);
    }
    if is_offered(exchange) {
        set_abilities(exchange);
    }
    for (name, value) in told::vary_variables(&request.rewrite_env.vary) {
        exchange.environment.set(name.as_bytes(), &value);
    }
}

/// Removes request fields that only a cache may set.
fn drop_reserved(exchange: &mut Exchange) {
    let view = exchange.head.view();
    if view
        .fields()
        .any(|(name, _)| told::is_reserved_request_field(name))
    {
        exchange.head = exchange.head.with_fields(
            view.fields()
                .filter(|(name, _)| !told::is_reserved_request_field(name)),
        );
    }
}

/// Sets the device class in the field that applications behind Varnish know, replacing the client's
/// own.
fn tell_device(exchange: &mut Exchange) {
    const DEVICE: &[u8] = b"X-UA-Device";
    let view = exchange.head.view();
    let device = key::device(view).name();
    let others = view
        .fields()
        .filter(|(name, _)| !name.eq_ignore_ascii_case(DEVICE));
    exchange.head = exchange
        .head
        .with_fields(others.chain([(DEVICE, device.as_bytes())]));
}

/// Announces that there is a cache (LSCache protocol 2).
pub fn tell(exchange: &mut Exchange) {
    if is_offered(exchange) {
        drop_reserved(exchange);
        set_abilities(exchange);
    }
}

fn is_offered(exchange: &Exchange) -> bool {
    exchange.routing.settings.cache.offer.pages && is_made(exchange)
}

fn set_abilities(exchange: &mut Exchange) {
    let CacheOffer {
        crawler,
        esi,
        litemage,
        ..
    } = exchange.routing.settings.cache.offer;
    let abilities = told::Abilities {
        on: true,
        crawler,
        esi,
        combine: esi,
        litemage,
    };
    for (name, value) in told::variables(abilities) {
        exchange
            .environment
            .set_known(name.as_bytes(), value.as_bytes());
    }
}

/// The field that tells an application of ESI (ESI 1.0 section 1.5, Edge Architecture). It replaces
/// the client's own.
pub const CAPABILITY: (&[u8], &[u8]) = (b"Surrogate-Capability", b"saker=\"ESI/1.0\"");

/// True if applications are told of ESI.
pub fn offers_esi(request: &CacheRequest) -> bool {
    let config = &request.settings.config;
    config.obeys_http && config.offer.esi
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_cache_rules::rules::targeted::SURROGATE;

    #[test]
    fn applications_learn_the_name_that_is_obeyed() {
        let (name, rest) = CAPABILITY.1.split_at(SURROGATE.len());
        assert!(name == SURROGATE && rest.starts_with(b"="));
    }
}
