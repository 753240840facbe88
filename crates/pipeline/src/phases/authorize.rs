//! Whether somebody else lets the request pass (`authorize`).
//!
//! The pipeline knows nobody to ask: the [`Authorizer`](crate::Authorizer) of the worker does. Difficulty: the answer comes later. The first visit
//! to this step leaves a note in the exchange and has the descent wait; the second finds the answer there.

use crate::{Exchange, Granted, Permission, Response, Services, Verdict};
use saker_config::model::Authorize;
use saker_http::Status;
use std::{cell::RefCell, rc::Rc, sync::Arc};

/// What the exchange knows of its permission.
pub struct Inquiry {
    about: Arc<Authorize>,
    outcome: Rc<RefCell<Option<Permission>>>,
    is_granted: bool,
}

pub(super) fn authorize(exchange: &mut Exchange, services: &Services) -> Verdict {
    let Some(wanted) = exchange.settings.authorize.clone().filter(|wanted| wanted.said.is_some()) else { return Verdict::Pass };
    exchange.depends_on_request();
    if exchange.trace.is_some() {
        let said = wanted.said.clone().unwrap_or_default();
        exchange.trace("access", Some(&wanted.origin), || format!("{said} is asked whether it may pass; that is taken for granted here"));
        return Verdict::Pass;
    }
    // A descent that begins again within the same settings has its answer.
    match exchange.inquiry.take().filter(|inquiry| Arc::ptr_eq(&inquiry.about, &wanted)) {
        None => ask(exchange, services, wanted),
        Some(inquiry) if inquiry.is_granted => {
            exchange.inquiry = Some(inquiry);
            Verdict::Pass
        }
        Some(inquiry) => match inquiry.outcome.take() {
            Some(Permission::Granted(granted)) => {
                lay(exchange, &wanted, granted);
                exchange.inquiry = Some(Box::new(Inquiry { is_granted: true, ..*inquiry }));
                Verdict::Pass
            }
            Some(Permission::Refused(response)) => Verdict::Answer(response),
            None => Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR)),
        },
    }
}

fn ask(exchange: &mut Exchange, services: &Services, wanted: Arc<Authorize>) -> Verdict {
    let Some(authorizer) = &services.authorizer else { return Verdict::Answer(Response::new(Status::FORBIDDEN)) };
    let asking = authorizer.ask(exchange, &wanted);
    let outcome = Rc::<RefCell<Option<Permission>>>::default();
    let answer = Rc::clone(&outcome);
    exchange.inquiry = Some(Box::new(Inquiry { about: wanted, outcome, is_granted: false }));
    Verdict::Wait(Box::pin(async move { *answer.borrow_mut() = Some(asking.await) }))
}

/// What was said of the client takes the place of what he says himself.
fn lay(exchange: &mut Exchange, wanted: &Authorize, granted: Granted) {
    granted.variables.iter().for_each(|(name, value)| exchange.environment.set(name, value));
    if wanted.fields.is_empty() {
        return;
    }
    let is_named = |name: &[u8]| wanted.fields.iter().any(|field| field.as_bytes().eq_ignore_ascii_case(name));
    let own = granted.fields.iter().map(|(name, value)| (name.as_bytes(), value.as_slice()));
    let head = exchange.head.with_fields(exchange.head.view().fields().filter(|(name, _)| !is_named(name)).chain(own));
    exchange.head = head;
}
