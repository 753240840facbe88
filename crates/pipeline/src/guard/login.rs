//! Attempts at WordPress' doors: counted before they are made, and given back where they were none.

use super::challenge;
use crate::{Body, BodyError, Chunk, Exchange, NoBody, RequestBody, Response, Services, Verdict, throttle::Over};
use saker_config::model::{Consequence, LoginAction, Logins, Throttle};
use saker_guard::{
    Remembered, Who,
    login::{self, Attempts, Calls, Door},
};
use saker_http::{Fields, Method, Status};
use std::{
    cell::RefCell,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// Throttled attempts wait no longer than that.
const WAIT_MAX_S: u64 = 10;
const FAULT: &[u8] = b"faultCode";

/// By client and site.
pub type LoginTable = Remembered<(Who, usize), Attempts>;

/// An attempt under way.
#[derive(Clone, Debug)]
pub struct Attempt {
    key: (Who, usize),
    rule: Arc<Logins>,
    door: Door,
    calls: Rc<RefCell<Calls>>,
}

pub(super) fn check(exchange: &mut Exchange, services: &Services, rule: &Arc<Logins>) -> Verdict {
    let Some(door) = login::door(&exchange.path) else { return Verdict::Pass };
    exchange.depends_on_request();
    if exchange.head.view().method() != Method::Post || exchange.guarded.as_ref().is_some_and(|guarded| guarded.attempt.is_some()) {
        return Verdict::Pass;
    }
    let key = (Who::of(exchange.client.ip()), exchange.site_index);
    let used = services.guard.logins.find(&key).unwrap_or_default().used(rule.attempts, rule.within_s, exchange.now);
    let limit = u64::from(rule.attempts) * 1000;
    let is_over = used.saturating_add(1000) > limit;
    if is_over && let Some(refused) = refuse(exchange, services, rule, used) {
        return refused;
    }
    services.guard.logins.change(key, Attempts::default, |known| known.add(1, rule.attempts, rule.within_s, exchange.now));
    let calls = Rc::<RefCell<Calls>>::default();
    if door == Door::XmlRpc {
        let inner = std::mem::replace(&mut exchange.body, Box::new(NoBody));
        exchange.body = Box::new(Counting { inner, calls: Rc::clone(&calls) });
    }
    exchange.guarded().attempt = Some(Attempt { key, rule: Arc::clone(rule), door, calls });
    match rule.action {
        LoginAction::Throttle => wait(exchange, services, rule, used),
        _ => Verdict::Pass,
    }
}

/// From half of the attempts on, a second more for each.
fn wait(exchange: &mut Exchange, services: &Services, rule: &Logins, used: u64) -> Verdict {
    let over_half = (used / 1000).saturating_sub(u64::from(rule.attempts) / 2);
    if over_half == 0 {
        return Verdict::Pass;
    }
    exchange.trace("guard", None, || format!("`logins`: waits {} s", over_half.min(WAIT_MAX_S)));
    Verdict::Wait((services.sleep)(Duration::from_secs(over_half.min(WAIT_MAX_S))))
}

/// `None`: may try all the same.
fn refuse(exchange: &mut Exchange, services: &Services, rule: &Logins, used: u64) -> Option<Verdict> {
    let wanted = match rule.action {
        LoginAction::Drop => Consequence::Drop,
        LoginAction::Throttle => Consequence::TOO_MANY_REQUESTS,
        LoginAction::Deny | LoginAction::Challenge => Consequence::FORBIDDEN,
    };
    let over = Over { rule: "logins", consequence: wanted, retry_after_s: retry_after_s(rule), is_offence: true };
    if rule.action != LoginAction::Challenge {
        return Some(Verdict::Answer(super::meet(exchange, services, over)));
    }
    let challenge = challenge::rule(exchange);
    // A pass is worth as many attempts again.
    if used < u64::from(rule.attempts) * 1990 && challenge::has_passed(exchange, &services.guard, &challenge) {
        return None;
    }
    drop(super::meet(exchange, services, over));
    Some(Verdict::Answer(challenge::page(exchange, &services.guard, &challenge, retry_after_s(rule))))
}

/// Until one is regained.
fn retry_after_s(rule: &Logins) -> u64 {
    rule.within_s.div_ceil(u64::from(rule.attempts).max(1)).max(1)
}

/// Once the answer is there.
pub fn settle(attempt: &Attempt, table: &LoginTable, response: &Response, now: i64) {
    let Attempt { key, rule, door, calls } = attempt;
    let count = calls.borrow().count();
    let is_success = match door {
        Door::Login => login::is_success(response.status.0, response.fields().iter().filter(is_cookie).map(|(_, value)| value)),
        Door::XmlRpc => response.status == Status::OK && is_without_fault(&response.body),
    };
    table.change(*key, Attempts::default, |known| match is_success {
        true => known.give_back(1),
        false => drop(known.add(count - 1, rule.attempts, rule.within_s, now)),
    });
}

fn is_cookie(field: &(&str, &[u8])) -> bool {
    field.0.eq_ignore_ascii_case("set-cookie")
}

/// Of one that is too long to be there whole nobody knows.
fn is_without_fault(body: &Body) -> bool {
    matches!(body, Body::Memory(chunk) if !chunk.is_empty() && !chunk.bytes().windows(FAULT.len()).any(|part| part == FAULT))
}

/// Counts the calls of a body as it passes by.
struct Counting {
    inner: Box<dyn RequestBody>,
    calls: Rc<RefCell<Calls>>,
}

impl RequestBody for Counting {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let polled = self.inner.poll_chunk(cx);
        if let Poll::Ready(Some(Ok(chunk))) = &polled {
            self.calls.borrow_mut().read(chunk.bytes());
        }
        polled
    }

    fn length(&self) -> Option<u64> {
        self.inner.length()
    }

    fn is_end(&self) -> bool {
        self.inner.is_end()
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.inner.trailers()
    }

    fn take_time(&mut self) {
        self.inner.take_time();
    }

    fn throttle(&mut self, throttle: &Throttle, site: usize) {
        self.inner.throttle(throttle, site);
    }
}
