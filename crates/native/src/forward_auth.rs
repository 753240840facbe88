//! Forward auth (`authorize`): an authorization server decides whether a request may pass.
//!
//! Called by: the phase `access`.
//! Caveat: fields that the server is trusted with (`authorize_fields`) are removed from what the
//! client sent, in every spelling, trailers included.
//! Out of scope: talking to the server; the [`Authorizer`] of the worker does.

use saker_config::model::{Authorize, Throttle};
use saker_http::{Fields, KnownField, Status, field_name::is_alike};
use saker_pipeline::{
    AuthState, Authorizer, BodyError, Chunk, Exchange, Granted, NoBody, Permission, RequestBody,
    Response, Step, Verdict,
};
use std::{
    sync::Arc,
    task::{Context, Poll},
};

/// True if the request's route has an authorization server.
pub fn is_wanted(exchange: &Exchange) -> bool {
    let wanted = exchange.routing.settings.authorize.as_ref();
    wanted.is_some_and(|wanted| wanted.said.is_some())
}

/// Asks the authorization server, once per request and set of settings. An error document is shown
/// whatever its route demands.
pub fn authorize<'a>(
    exchange: &'a mut Exchange,
    authorizer: Option<&'a dyn Authorizer>,
) -> Step<'a> {
    if exchange.log.stands_in_for.is_some() {
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
    if wanted.fields.is_empty() {
        return;
    }
    // In every spelling that a program could confuse with it.
    let is_named = |name: &[u8]| {
        wanted
            .fields
            .iter()
            .any(|field| is_alike(field.as_bytes(), name))
    };
    let own = granted
        .fields
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_slice()));
    let view = exchange.head.view();
    let options: Vec<Vec<u8>> = view
        .lines(KnownField::Connection)
        .map(|line| without(line, is_named))
        .collect();
    let kept = view
        .fields()
        .filter(|(name, _)| !is_named(name) && !name.eq_ignore_ascii_case(b"connection"));
    let options = options
        .iter()
        .filter(|line| !line.is_empty())
        .map(|line| (&b"Connection"[..], line.as_slice()));
    let head = exchange.head.with_fields(kept.chain(options).chain(own));
    (exchange.head, exchange.access.has_authorized_fields) = (head, true);
    if !exchange.body.is_end() {
        let inner = std::mem::replace(&mut exchange.body, Box::new(NoBody));
        exchange.body = Box::new(WithoutTrailers {
            inner,
            names: Arc::clone(wanted),
        });
    }
}

/// `Connection` without options that would have these fields taken for the client's own hop and
/// dropped before the program (RFC 9110 section 7.6.1).
fn without(options: &[u8], is_named: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    options
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|option| !is_named(option))
        .collect::<Vec<_>>()
        .join(&b", "[..])
}

/// Content without trailers of the names of `authorize_fields`: some programs take trailers for
/// fields of the head.
struct WithoutTrailers {
    inner: Box<dyn RequestBody>,
    names: Arc<Authorize>,
}

impl RequestBody for WithoutTrailers {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.inner.poll_chunk(cx)
    }

    fn length(&self) -> Option<u64> {
        self.inner.length()
    }

    fn is_end(&self) -> bool {
        self.inner.is_end()
    }

    fn trailers(&mut self) -> Option<Fields> {
        let mut fields = self.inner.trailers()?;
        fields.retain(|name| {
            !self
                .names
                .fields
                .iter()
                .any(|field| is_alike(field.as_bytes(), name.as_bytes()))
        });
        (!fields.is_empty()).then_some(fields)
    }

    fn take_time(&mut self) {
        self.inner.take_time();
    }

    fn throttle(&mut self, throttle: &Throttle, site: usize) {
        self.inner.throttle(throttle, site);
    }

    fn limit(&mut self, bytes_max: u64) {
        self.inner.limit(bytes_max);
    }
}
