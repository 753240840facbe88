//! Attempts at WordPress' doors: counted before they are made, and given back where they were none.
//!
//! Called by: [`super::check`] by the path, [`super::check_program`] by what is asked in the end;
//! [`settle`] by the first filter, which sees the answer as the application gave it. The
//! application is asked for an answer without a content coding, so that a fault in it can be read.
//! Caveat: an answer that isn't here whole, or can't be decoded, counts as a failure.

use super::{GuardState, challenge};
use crate::{
    BodyError, CallTo, Chunk, Exchange, NoBody, RequestBody, Response, Services, Verdict,
    throttle::Over,
};
use saker_abuse::{
    Remembered, Who,
    login::{self, Attempts, Door},
    xml_rpc::Calls,
};
use saker_config::model::{Action, Consequence, LoginAction, Logins, Throttle, Upstream};
use saker_http::{Fields, Method, Status};
use std::{
    cell::Cell,
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
    account: Account,
    door: Door,
}

/// The client's account at a site, and what this request has been charged with.
#[derive(Clone, Debug)]
struct Account {
    guard: Arc<GuardState>,
    key: (Who, usize),
    rule: Arc<Logins>,
    began: i64,
    /// In thousandths; `None`: the attempt was a success, and nothing more is charged.
    charged: Rc<Cell<Option<u64>>>,
}

impl Account {
    fn charge(&self, count: u32) {
        let Some(before) = self.charged.get().filter(|_| count > 0) else {
            return;
        };
        let Logins {
            attempts, within_s, ..
        } = *self.rule;
        let more = self
            .guard
            .logins
            .change(self.key, Attempts::default, |known| {
                known.charge(count, attempts, within_s, self.began)
            });
        self.charged.set(Some(before.saturating_add(more)));
    }

    fn give_back(&self) {
        if let Some(charged) = self.charged.take() {
            self.guard
                .logins
                .change(self.key, Attempts::default, |known| {
                    known.give_back(charged)
                });
        }
    }
}

/// The door that the request stands before: by its path, or by what is asked in the end.
fn door(exchange: &Exchange) -> Option<Door> {
    let of_upstream = |upstream: &Upstream| {
        upstream
            .members
            .iter()
            .find_map(|member| login::door(member.path.as_bytes()))
    };
    let of_route = || match &exchange
        .route
        .and_then(|at| exchange.site.routes.get(at))?
        .action
    {
        Action::Proxy(proxy) => of_upstream(&proxy.upstream),
        _ => None,
    };
    login::door(&exchange.path).or_else(|| match &exchange.call {
        None => of_route(),
        Some(call) => {
            let by_script = call
                .script
                .as_ref()
                .and_then(|script| login::door(&script.filename));
            let path = call
                .target
                .split(|byte| *byte == b'?')
                .next()
                .unwrap_or_default();
            by_script
                .or_else(|| login::door(path))
                .or_else(|| match &call.to {
                    CallTo::Upstream(upstream) => of_upstream(upstream),
                    CallTo::Process(_) => None,
                })
        }
    })
}

/// A request that only reads tries no password; one with content may, whatever its method.
fn only_reads(exchange: &Exchange) -> bool {
    matches!(
        exchange.head.view().method(),
        Method::Get | Method::Head | Method::Options
    ) && exchange.body.is_end()
}

pub(super) fn check(exchange: &mut Exchange, services: &Services, rule: &Arc<Logins>) -> Verdict {
    let Some(door) = door(exchange) else {
        return Verdict::Pass;
    };
    exchange.depends_on_request();
    if only_reads(exchange)
        || exchange
            .guarded
            .as_ref()
            .is_some_and(|guarded| guarded.attempt.is_some())
    {
        return Verdict::Pass;
    }
    let key = (Who::of(exchange.client.ip()), exchange.site_index);
    let used = services.guard.logins.find(&key).unwrap_or_default().used(
        rule.attempts,
        rule.within_s,
        exchange.now,
    );
    let limit = u64::from(rule.attempts) * 1000;
    let is_over = used.saturating_add(1000) > limit;
    if is_over && let Some(refused) = refuse(exchange, services, rule, used) {
        return refused;
    }
    let guard = Arc::clone(&services.guard);
    let account = Account {
        guard,
        key,
        rule: Arc::clone(rule),
        began: exchange.now,
        charged: Rc::new(Cell::new(Some(0))),
    };
    account.charge(1);
    if door == Door::XmlRpc {
        look_inside(exchange, &account);
    }
    exchange.guarded().attempt = Some(Attempt { account, door });
    match rule.action {
        LoginAction::Throttle => wait(exchange, services, rule, used),
        _ => Verdict::Pass,
    }
}

/// Counts calls in the body, and has the answer come as it is.
fn look_inside(exchange: &mut Exchange, account: &Account) {
    let view = exchange.head.view();
    let calls = Calls::new(view.all("content-type"), view.all("content-encoding"));
    let inner = std::mem::replace(&mut exchange.body, Box::new(NoBody));
    exchange.body = Box::new(Counting {
        inner,
        calls,
        account: account.clone(),
        is_charged: false,
    });
    let view = exchange.head.view();
    if view.all("accept-encoding").next().is_some() {
        let stays = |name: &[u8]| !name.eq_ignore_ascii_case(b"accept-encoding");
        exchange.head = exchange
            .head
            .with_fields(view.fields().filter(|(name, _)| stays(name)));
    }
}

/// From half of the attempts on, a second more for each.
fn wait(exchange: &mut Exchange, services: &Services, rule: &Logins, used: u64) -> Verdict {
    let over_half = (used / 1000).saturating_sub(u64::from(rule.attempts) / 2);
    if over_half == 0 {
        return Verdict::Pass;
    }
    exchange.trace("guard", None, || {
        format!("`logins`: waits {} s", over_half.min(WAIT_MAX_S))
    });
    Verdict::Wait((services.sleep)(Duration::from_secs(
        over_half.min(WAIT_MAX_S),
    )))
}

/// `None`: may try all the same.
fn refuse(
    exchange: &mut Exchange,
    services: &Services,
    rule: &Logins,
    used: u64,
) -> Option<Verdict> {
    let wanted = match rule.action {
        LoginAction::Drop => Consequence::Drop,
        LoginAction::Throttle => Consequence::TOO_MANY_REQUESTS,
        LoginAction::Deny | LoginAction::Challenge => Consequence::FORBIDDEN,
    };
    let over = Over {
        rule: "logins",
        consequence: wanted,
        retry_after_s: retry_after_s(rule),
        is_offence: true,
    };
    if rule.action != LoginAction::Challenge {
        return Some(Verdict::Answer(super::meet(exchange, services, over)));
    }
    let challenge = challenge::rule(exchange);
    // A pass is worth as many attempts again.
    if used < u64::from(rule.attempts) * 1990
        && challenge::has_passed(exchange, &services.guard, &challenge)
    {
        return None;
    }
    drop(super::meet(exchange, services, over));
    Some(Verdict::Answer(challenge::page(
        exchange,
        &services.guard,
        &challenge,
        retry_after_s(rule),
    )))
}

/// Until one is regained.
fn retry_after_s(rule: &Logins) -> u64 {
    rule.within_s
        .div_ceil(u64::from(rule.attempts).max(1))
        .max(1)
}

impl Attempt {
    /// Whether its success shows in the content of the answer.
    pub fn shows_in_content(&self) -> bool {
        self.door == Door::XmlRpc
    }
}

/// Once the answer is there. `content`: all of it, without a content coding; `None`: that can't be
/// had.
pub fn settle(attempt: &Attempt, response: &Response, content: Option<&[u8]>) {
    let is_success = match attempt.door {
        Door::Login => login::is_success(
            response.status.0,
            response
                .fields()
                .iter()
                .filter(is_cookie)
                .map(|(_, value)| value),
        ),
        Door::XmlRpc => response.status == Status::OK && content.is_some_and(is_without_fault),
    };
    if is_success {
        attempt.account.give_back();
    }
}

fn is_cookie(field: &(&str, &[u8])) -> bool {
    field.0.eq_ignore_ascii_case("set-cookie")
}

/// UTF-16 has none of ours in it, so a letter of no text in UTF-8 is no success, either.
fn is_without_fault(content: &[u8]) -> bool {
    !content.is_empty()
        && !content.contains(&0)
        && !content
            .windows(FAULT.len())
            .any(|part| part.eq_ignore_ascii_case(FAULT))
}

/// Counts the calls of a body as it passes by, and charges its client with them at its end, however
/// that comes.
struct Counting {
    inner: Box<dyn RequestBody>,
    calls: Calls,
    account: Account,
    is_charged: bool,
}

impl Counting {
    fn charge(&mut self) {
        if !std::mem::replace(&mut self.is_charged, true) {
            self.account.charge(self.calls.count() - 1);
        }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.charge();
    }
}

impl RequestBody for Counting {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let polled = self.inner.poll_chunk(cx);
        match &polled {
            Poll::Ready(Some(Ok(chunk))) => self.calls.read(chunk.bytes()),
            Poll::Ready(_) => self.charge(),
            Poll::Pending => {}
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

    fn limit(&mut self, bytes_max: u64) {
        self.inner.limit(bytes_max);
    }
}
