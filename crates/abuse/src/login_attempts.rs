//! Limits on attempts to log in to WordPress: counted before they are made, refunded on success.
//!
//! Called by: `control`, first by the path, and again when the script or upstream is known.
//! Caveat: one XML-RPC request may contain many attempts; they are counted as the body passes by.
//! Out of scope: recognizing a success (`attempt`).

use crate::{
    Abuse, Violation,
    attempt::{Attempt, LoginAccount},
    challenge, context,
    login::{self, LoginScript},
    xml_rpc::Calls,
};
use saker_config::model::{Action, Consequence, LoginAction, Logins, Throttle, Upstream};
use saker_http::{Fields, Method};
use saker_ipset::ClientNetwork;
use saker_pipeline::{BodyError, Chunk, Exchange, NoBody, RequestBody, Response, UpstreamTarget};
use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// Delayed attempts wait no longer than that.
const WAIT_MAX_S: u64 = 10;

/// Decision about a login attempt.
pub enum Outcome {
    Pass,
    Refused(Response),
    Delay(Duration),
}

/// The login page that the request is for: by its path, or by the script or upstream that answers.
fn door(exchange: &Exchange) -> Option<LoginScript> {
    let of_upstream = |upstream: &Upstream| {
        upstream
            .members
            .iter()
            .find_map(|member| login::login_script(member.path.as_bytes()))
    };
    let of_route = || match &exchange
        .routing
        .route
        .and_then(|at| exchange.routing.site.routes.get(at))?
        .action
    {
        Action::Proxy(proxy) => of_upstream(&proxy.upstream),
        _ => None,
    };
    login::login_script(&exchange.path).or_else(|| match &exchange.upstream.call {
        None => of_route(),
        Some(call) => {
            let by_script = call
                .script
                .as_ref()
                .and_then(|script| login::login_script(&script.filename));
            let path = call
                .target
                .split(|byte| *byte == b'?')
                .next()
                .unwrap_or_default();
            by_script
                .or_else(|| login::login_script(path))
                .or_else(|| match &call.to {
                    UpstreamTarget::Upstream(upstream) => of_upstream(upstream),
                    UpstreamTarget::Process(_) => None,
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

/// Limits attempts. `None`: nothing to wait for, and the request passes.
pub fn check(exchange: &mut Exchange, abuse: &Abuse, rule: &Arc<Logins>) -> Outcome {
    let Some(door) = door(exchange) else {
        return Outcome::Pass;
    };
    exchange.depends_on_request();
    if only_reads(exchange)
        || context::known(exchange).is_some_and(|context| context.attempt.is_some())
    {
        return Outcome::Pass;
    }
    let key = (
        ClientNetwork::of(exchange.client.ip()),
        exchange.routing.site_index,
    );
    let used = abuse.shared.logins.find(&key).unwrap_or_default().used(
        rule.attempts,
        rule.within_s,
        exchange.now,
    );
    let limit = u64::from(rule.attempts) * 1000;
    let is_over = used.saturating_add(1000) > limit;
    if is_over && let Some(refused) = refuse(exchange, abuse, rule, used) {
        return Outcome::Refused(refused);
    }
    let whose = (key.0, key.1, &*exchange.routing.site);
    let account = LoginAccount::new(&abuse.shared, whose, rule, exchange.now);
    account.charge(1);
    if door == LoginScript::XmlRpc {
        count_calls(exchange, &account);
    }
    context::context(exchange).attempt = Some(Attempt { account, door });
    match rule.action {
        LoginAction::Throttle => delay(exchange, rule, used),
        _ => Outcome::Pass,
    }
}

/// Counts the calls in an XML-RPC body, and requests an answer without a content coding, so that a
/// fault in it can be read.
fn count_calls(exchange: &mut Exchange, account: &LoginAccount) {
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

/// Delays the request once half of the attempts are used, by a second more for each.
fn delay(exchange: &mut Exchange, rule: &Logins, used: u64) -> Outcome {
    let over_half = (used / 1000).saturating_sub(u64::from(rule.attempts) / 2);
    if over_half == 0 {
        return Outcome::Pass;
    }
    let seconds = over_half.min(WAIT_MAX_S);
    exchange.trace("abuse", None, || format!("`logins`: waits {seconds} s"));
    Outcome::Delay(Duration::from_secs(seconds))
}

/// `None`: the client may try because of its clearance.
fn refuse(exchange: &mut Exchange, abuse: &Abuse, rule: &Logins, used: u64) -> Option<Response> {
    let wanted = match rule.action {
        LoginAction::Drop => Consequence::Drop,
        LoginAction::Throttle => Consequence::TOO_MANY_REQUESTS,
        LoginAction::Deny | LoginAction::Challenge => Consequence::FORBIDDEN,
    };
    let violation = Violation {
        rule: "logins",
        consequence: wanted,
        retry_after_s: retry_after_s(rule),
        is_offense: true,
    };
    if rule.action != LoginAction::Challenge {
        return Some(abuse.enforce(exchange, violation));
    }
    let challenge = challenge::rule(exchange);
    // A clearance is worth as many attempts again.
    if used < u64::from(rule.attempts) * 1990
        && challenge::has_clearance(exchange, &abuse.shared, &challenge)
    {
        return None;
    }
    drop(abuse.enforce(exchange, violation));
    Some(challenge::page(
        exchange,
        &abuse.shared,
        &challenge,
        retry_after_s(rule),
    ))
}

/// Time until one attempt is regained.
fn retry_after_s(rule: &Logins) -> u64 {
    rule.within_s
        .div_ceil(u64::from(rule.attempts).max(1))
        .max(1)
}

/// Counts the calls of a body as it passes by, and charges the client with them when it ends or is
/// dropped.
struct Counting {
    inner: Box<dyn RequestBody>,
    calls: Calls,
    account: LoginAccount,
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
