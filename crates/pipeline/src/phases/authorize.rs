//! Whether somebody else lets the request pass (`authorize`).
//!
//! The pipeline knows nobody to ask: the [`Authorizer`](crate::Authorizer) of the worker does.
//! Difficulty: the answer comes later. The first visit to this step leaves a note in the exchange
//! and has the descent wait; the second finds the answer there.

use crate::{
    BodyError, Chunk, Exchange, Granted, NoBody, Permission, RequestBody, Response, Services,
    Verdict,
};
use saker_config::model::{Authorize, Throttle};
use saker_http::{Fields, KnownField, Status, field_name::is_alike};
use std::{
    cell::RefCell,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

/// What the exchange knows of its permission.
pub struct Inquiry {
    about: Arc<Authorize>,
    outcome: Rc<RefCell<Option<Permission>>>,
    is_granted: bool,
    told: Vec<u8>,
}

impl Inquiry {
    /// What the authorization server said of the client, in any form that differs for different
    /// clients; empty where it has said nothing.
    pub fn told(&self) -> &[u8] {
        &self.told
    }
}

fn told(granted: &Granted) -> Vec<u8> {
    let fields = granted
        .fields
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_slice()));
    let all = fields.chain(
        granted
            .variables
            .iter()
            .map(|(name, value)| (name.as_slice(), value.as_slice())),
    );
    all.flat_map(|(name, value)| [name, b"=", value, b"\0"])
        .flatten()
        .copied()
        .collect()
}

pub(super) fn authorize(exchange: &mut Exchange, services: &Services) -> Verdict {
    let Some(wanted) = exchange
        .settings
        .authorize
        .clone()
        .filter(|wanted| wanted.said.is_some())
    else {
        return Verdict::Pass;
    };
    exchange.depends_on_request();
    if exchange.trace.is_some() {
        let said = wanted.said.clone().unwrap_or_default();
        exchange.trace("access", Some(&wanted.origin), || {
            format!("{said} is asked whether it may pass; that is taken for granted here")
        });
        return Verdict::Pass;
    }
    // A descent that begins again within the same settings has its answer.
    match exchange
        .inquiry
        .take()
        .filter(|inquiry| Arc::ptr_eq(&inquiry.about, &wanted))
    {
        None => ask(exchange, services, wanted),
        Some(inquiry) if inquiry.is_granted => {
            exchange.inquiry = Some(inquiry);
            Verdict::Pass
        }
        Some(inquiry) => match inquiry.outcome.take() {
            Some(Permission::Granted(granted)) => {
                let told = told(&granted);
                lay(exchange, &wanted, granted);
                exchange.inquiry = Some(Box::new(Inquiry {
                    is_granted: true,
                    told,
                    ..*inquiry
                }));
                Verdict::Pass
            }
            Some(Permission::Refused(response)) => Verdict::Answer(response),
            None => Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR)),
        },
    }
}

fn ask(exchange: &mut Exchange, services: &Services, wanted: Arc<Authorize>) -> Verdict {
    let Some(authorizer) = &services.authorizer else {
        return Verdict::Answer(Response::new(Status::FORBIDDEN));
    };
    let asking = authorizer.ask(exchange, &wanted);
    let outcome = Rc::<RefCell<Option<Permission>>>::default();
    let answer = Rc::clone(&outcome);
    exchange.inquiry = Some(Box::new(Inquiry {
        about: wanted,
        outcome,
        is_granted: false,
        told: Vec::new(),
    }));
    Verdict::Wait(Box::pin(async move {
        *answer.borrow_mut() = Some(asking.await)
    }))
}

/// What was said of the client takes the place of what he says himself.
fn lay(exchange: &mut Exchange, wanted: &Arc<Authorize>, granted: Granted) {
    granted
        .variables
        .iter()
        .for_each(|(name, value)| exchange.environment.set(name, value));
    if wanted.fields.is_empty() {
        return;
    }
    // In every spelling that a program could take for it.
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
    (exchange.head, exchange.has_authorized_fields) = (head, true);
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

/// Content whose trailers say nothing by the names of `authorize_fields`: some programs take
/// trailers for fields of the head.
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
