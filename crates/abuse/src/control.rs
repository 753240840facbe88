//! The rules about clients in their order, as the phases ask for them.
//!
//! Called by: the phases `client_rules`, `limits`, and `user_limits`; the content phase, for login attempts.
//! Caveat: whatever a rule looks at besides the path, it reports by
//! [`Exchange::depends_on_request`]; where no rule is set, nothing is looked at.
//! Out of scope: the rules themselves, one module each.

use crate::{
    Abuse, Violation, bots, challenge,
    context::{is_bot, is_for_bots},
    limits, links, login_attempts, violation,
};
use saker_pipeline::{AbuseControl, Exchange, Response, Rules, Step, Verdict};
use saker_telemetry::Metric;

/// `Retry-After` of a challenge, where nothing else determines it.
const RETRY_AFTER_S: u64 = 10;

impl AbuseControl for Abuse {
    fn check<'a>(&'a self, exchange: &'a mut Exchange, rules: &'a dyn Rules) -> Step<'a> {
        let Some(rule) = exchange.routing.settings.visitors.robots.clone() else {
            return self.check_client(exchange, rules);
        };
        match bots::check(exchange, self, &rule) {
            bots::Claim::Pass => self.check_client(exchange, rules),
            bots::Claim::Refused(response) => Verdict::Answer(response).into(),
            bots::Claim::LookUp(lookup) => Step::Pending(Box::pin(async move {
                lookup.await;
                match bots::check(exchange, self, &rule) {
                    bots::Claim::Refused(response) => Verdict::Answer(response),
                    _ => self.check_client(exchange, rules).verdict().await,
                }
            })),
        }
    }

    fn admit(&self, exchange: &mut Exchange) -> Option<Response> {
        limits::admit(exchange, self)
    }

    fn admit_user(&self, exchange: &mut Exchange) -> Option<Response> {
        limits::admit_user(exchange, self)
    }

    fn check_upstream<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        self.check_login(exchange, |_| Verdict::Pass)
    }
}

impl Abuse {
    /// Challenge, login attempts, links.
    fn check_client<'a>(&'a self, exchange: &'a mut Exchange, rules: &'a dyn Rules) -> Step<'a> {
        let challenge = exchange.routing.settings.visitors.challenge.clone();
        if let Some(rule) = challenge.filter(|rule| rule.always && !is_for_bots(&exchange.path))
            && !is_bot(exchange)
            && !challenge::has_clearance(exchange, &self.shared, &rule)
        {
            let page = challenge::page(exchange, &self.shared, &rule, RETRY_AFTER_S);
            return Verdict::Answer(page).into();
        }
        self.check_login(exchange, |exchange| links::check(exchange, rules, self))
    }

    /// Login attempts, which may have to wait, then the rest.
    fn check_login<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        rest: impl FnOnce(&mut Exchange) -> Verdict + 'a,
    ) -> Step<'a> {
        let Some(rule) = exchange.routing.settings.visitors.logins.clone() else {
            return rest(exchange).into();
        };
        match login_attempts::check(exchange, self, &rule) {
            login_attempts::Outcome::Pass => rest(exchange).into(),
            login_attempts::Outcome::Refused(response) => Verdict::Answer(response).into(),
            login_attempts::Outcome::Delay(time) => Step::Pending(Box::pin(async move {
                (self.sleep)(time).await;
                rest(exchange)
            })),
        }
    }

    /// See [`violation::enforce`].
    pub(crate) fn enforce(&self, exchange: &mut Exchange, violation: Violation) -> Response {
        self.counters.increment(Metric::ThrottleRefused);
        violation::enforce(
            exchange,
            &self.generation,
            &self.clients,
            &self.shared,
            (self.now_ns)(),
            violation,
        )
    }
}
