//! Forward auth (`authorize`): an authorization server decides whether a request may pass.
//!
//! Called by: the phase `access`.
//! Caveat: fields that the server is trusted with (`authorize_fields`) are removed from what the
//! client sent, in every spelling, trailers included.
//! Out of scope: talking to the server; the [`Authorizer`] of the worker does.

use crate::{ambiguous_credentials::is_ambiguous, trusted_fields::replace_fields};
use saker_config::model::Authorize;
use saker_http::Status;
use saker_pipeline::{
    AuthState, Authorizer, Exchange, Granted, Permission, Response, Step, Verdict,
};
use std::sync::Arc;

/// True if the request's route has an authorization server.
pub fn is_wanted(exchange: &Exchange) -> bool {
    let wanted = exchange.routing.settings.authorize.as_ref();
    wanted.is_some_and(|wanted| wanted.said.is_some())
}

/// Asks the authorization server, once per request and set of settings. An error document of the
/// configuration is shown whatever its route demands.
pub fn authorize<'a>(
    exchange: &'a mut Exchange,
    authorizer: Option<&'a dyn Authorizer>,
) -> Step<'a> {
    if exchange.is_page_for_all() {
        return Step::PASS;
    }
    let Some(wanted) = exchange
        .routing
        .settings
        .authorize
        .clone()
        .filter(|wanted| wanted.said.is_some())
    else {
        return Step::PASS;
    };
    exchange.depends_on_request();
    if is_ambiguous(exchange) {
        exchange.trace("access", Some(&wanted.origin), || {
            "`Authorization` stands there twice".into()
        });
        return Verdict::Answer(Response::new(Status::BAD_REQUEST)).into();
    }
    if exchange.log.trace.is_some() {
        let server = wanted.said.clone().unwrap_or_default();
        exchange.trace("access", Some(&wanted.origin), || {
            format!("{server} is asked whether it may pass; explain assumes that it may")
        });
        return Step::PASS;
    }
    if exchange
        .access
        .auth_state
        .take_if(|state| !state.is_under(&wanted))
        .is_none()
        && exchange.access.auth_state.is_some()
    {
        return Step::PASS;
    }
    let Some(authorizer) = authorizer else {
        return Verdict::Answer(Response::new(Status::FORBIDDEN)).into();
    };
    let asking = authorizer.ask(exchange, &wanted);
    Step::Pending(Box::pin(async move {
        match asking.await {
            Permission::Granted(granted) => {
                exchange.access.auth_state =
                    Some(Box::new(AuthState::new(Arc::clone(&wanted), &granted)));
                apply(exchange, &wanted, granted);
                Verdict::Pass
            }
            Permission::Refused(response) => Verdict::Answer(response),
        }
    }))
}

/// The server's fields about the client replace those that the client sent itself.
fn apply(exchange: &mut Exchange, wanted: &Arc<Authorize>, granted: Granted) {
    granted
        .variables
        .iter()
        .for_each(|(name, value)| exchange.environment.set(name, value));
    replace_fields(exchange, &wanted.fields, &granted.fields);
    exchange.access.has_authorized_fields = !wanted.fields.is_empty();
}
