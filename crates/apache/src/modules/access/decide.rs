//! The sequence of the access step: where the request comes from, what may be decided without a
//! user, who it is, and whether he may.
//!
//! As Apache's `ap_process_request_internal` has it. Difficulty: whatever was looked at besides the
//! path has to be noted in the exchange; and a step that has to wait (a password, a name server)
//! ends this one, which is asked again from its beginning.

use super::{
    authz::{Group, Logic, Rule},
    hosts::look_up,
    identify::Identified,
    records::RecordFiles,
    requirement::Decision,
};
use crate::verdict::Verdict;
use crate::{
    blocking::Pause,
    facts::{Seen, note_dependencies},
    host::Host,
    local::Local,
    rules::may_ask,
    state::{State, peek, state},
};
use saker_ap_expr::{
    Dependencies, Dependency, Evaluation, EvaluationError, Expression, StringExpression,
};
use saker_files::{Stamp, Watcher};
use saker_http::Status;
use saker_pipeline::{Exchange, Response};
use saker_telemetry::{
    error_log,
    httpd_message::{self, HttpdMessage},
    message,
};
use std::{fmt, sync::Arc};

/// One request while it is decided about; what was looked at is collected.
pub struct Inquiry<'e> {
    pub exchange: &'e mut Exchange,
    pub state: &'e State,
    pub host: &'e Host,
    pub local: Arc<Local>,
    pub watcher: &'e Watcher,
    pub records: &'e mut RecordFiles,
    /// What [`Decision::Pending`] waits for; `None`: too many wait already.
    pub pause: Option<Pause>,
    /// Where whoever is let in is sent (`dbd-login`).
    pub leads_to: Option<Vec<u8>>,
    dependencies: Dependencies,
    stamps: Vec<Stamp>,
}

/// What came of it.
enum Outcome {
    Granted,
    /// Whoever says who he is may be granted it.
    WithoutUser,
    /// Of 401 with the challenge.
    Refused(Status, Option<String>),
    Wait(Option<Pause>),
}

/// May this request be answered?
pub fn access(
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    records: &mut RecordFiles,
) -> Verdict {
    if peek(exchange).is_none() {
        return Verdict::Pass;
    }
    may_ask(exchange, host);
    let own = state(exchange).clone();
    let Some(local) = own.local.clone() else {
        return Verdict::Pass;
    };
    if let Some(pause) = look_up(exchange, local.core.lookups) {
        return Verdict::Wait(pause);
    }
    let folder = folder(&own.filename);
    if own
        .decided_by
        .as_ref()
        .is_some_and(|(before, there)| Arc::ptr_eq(before, &local) && **there == *folder)
    {
        return Verdict::Pass;
    }
    exchange.user = None;
    let mut inquiry = Inquiry {
        exchange,
        state: &own,
        host,
        local: Arc::clone(&local),
        watcher,
        records,
        pause: None,
        leads_to: None,
        dependencies: Dependencies::new(),
        stamps: Vec::new(),
    };
    let outcome = inquiry.decide();
    let (dependencies, stamps, leads_to) = (inquiry.dependencies, inquiry.stamps, inquiry.leads_to);
    state(exchange)
        .vary
        .extend(dependencies.vary().map(str::to_owned));
    note_dependencies(exchange, &dependencies, stamps);
    if let Outcome::Wait(Some(pause)) = outcome {
        return Verdict::Wait(pause);
    }
    state(exchange).decided_by = Some((local, folder.into()));
    if let (Outcome::Granted, Some(location)) = (&outcome, leads_to) {
        let mut response = Response::new(Status::FOUND);
        response.fields_mut().set("Location", location);
        return Verdict::Answer(response);
    }
    verdict(exchange, outcome, host.trace_enabled)
}

fn verdict(exchange: &mut Exchange, outcome: Outcome, trace_enabled: bool) -> Verdict {
    let (status, challenge) = match outcome {
        Outcome::Granted => return Verdict::Pass,
        Outcome::Refused(status, challenge) => (status, challenge),
        Outcome::WithoutUser => (Status::FORBIDDEN, None),
        Outcome::Wait(_) => (Status::SERVICE_UNAVAILABLE, None),
    };
    exchange.trace("access", None, || {
        format!("rules about access answer {}", status.0)
    });
    let mut response = Response::new(status);
    if status == Status::METHOD_NOT_ALLOWED {
        // All that Apache says here.
        let allow: &[u8] = if trace_enabled { b"TRACE" } else { b"" };
        response.fields_mut().set("Allow", allow);
    }
    if let Some(challenge) = challenge {
        response
            .fields_mut()
            .set("WWW-Authenticate", challenge.into_bytes());
    }
    Verdict::Answer(response)
}

/// Of a file name, or a folder itself.
fn folder(filename: &[u8]) -> &[u8] {
    filename
        .iter()
        .rposition(|byte| *byte == b'/')
        .and_then(|at| filename.get(..at))
        .unwrap_or_default()
}

fn refused(status: Status) -> Outcome {
    Outcome::Refused(status, None)
}

impl Inquiry<'_> {
    pub fn asked(&mut self, dependency: Dependency) {
        self.dependencies.add(dependency);
    }

    pub fn method(&self) -> &[u8] {
        self.exchange.head.view().method_token()
    }

    pub fn path(&self) -> String {
        String::from_utf8_lossy(&self.exchange.path).into_owned()
    }

    pub fn log(&self, facts: fmt::Arguments<'_>) {
        error_log::log_about(&message::ACCESS_REFUSED, self.exchange, facts);
    }

    /// In the words of Apache, which log watchers look for.
    pub fn log_httpd(&self, message: &'static HttpdMessage, text: fmt::Arguments<'_>) {
        error_log::log_httpd(message, None, self.exchange, text);
    }

    pub fn filename(&self) -> String {
        String::from_utf8_lossy(&self.state.filename).into_owned()
    }

    /// An expression about this request.
    pub fn evaluate(&mut self, expression: &Expression) -> Result<bool, EvaluationError> {
        self.evaluation(|evaluation| expression.evaluate(evaluation))
    }

    pub fn evaluate_text(
        &mut self,
        expression: &StringExpression,
    ) -> Result<Vec<u8>, EvaluationError> {
        self.evaluation(|evaluation| expression.evaluate(evaluation))
    }

    fn evaluation<T>(&mut self, evaluate: impl FnOnce(&mut Evaluation<'_>) -> T) -> T {
        let seen = Seen::new(self.exchange, self.state, self.host, self.watcher);
        let mut evaluation = Evaluation::new(&seen);
        let result = evaluate(&mut evaluation);
        self.dependencies.merge(&evaluation.dependencies);
        let stamps = seen.stamps.take();
        self.stamps.extend(stamps);
        result
    }

    fn decide(&mut self) -> Outcome {
        if let Some(origin) = &self.local.denied {
            error_log::log_about(
                &message::ACCESS_RULE_NOT_HONOURED,
                self.exchange,
                format_args!("{origin}"),
            );
            return refused(Status::FORBIDDEN);
        }
        let local = Arc::clone(&self.local);
        if !local.allowmethods.allow(self.method()) {
            let method = String::from_utf8_lossy(self.method());
            let text = format_args!(
                "client method denied by server configuration: '{method}' to {}",
                self.filename()
            );
            self.log_httpd(&httpd_message::METHOD_DENIED, text);
            return refused(Status::METHOD_NOT_ALLOWED);
        }
        let any = local.access_compat.satisfy_any(self.method());
        let encrypted = local.ssl.lets_in(self);
        if !encrypted && (!any || local.ssl.is_strict()) {
            return self.denied_by_configuration(&httpd_message::CLIENT_DENIED);
        }
        match local.access_compat.lets_in(self) {
            Decision::Granted if any && encrypted => return Outcome::Granted,
            Decision::Granted => {}
            Decision::Pending => return Outcome::Wait(self.pause.take()),
            _ if any => {}
            _ => {
                self.exchange
                    .trace("access", None, || "Order, Allow and Deny refuse it".into());
                return self.denied_by_configuration(&httpd_message::CLIENT_DENIED_COMPAT);
            }
        }
        match self.authorize(false) {
            Outcome::WithoutUser => self.with_user(),
            outcome => outcome,
        }
    }

    fn with_user(&mut self) -> Outcome {
        match self.identify() {
            Identified::Yes => {
                let user = self.exchange.user.clone().unwrap_or_default();
                self.exchange
                    .trace("access", None, || format!("the user is `{user}`"));
                self.authorize(true)
            }
            Identified::Refused(status, challenge) => Outcome::Refused(status, challenge),
            Identified::Wait(pause) => Outcome::Wait(Some(pause)),
            Identified::Declined => {
                let text =
                    "No authentication done but request not allowed without authentication for";
                self.log_httpd(
                    &httpd_message::NO_AUTHENTICATION,
                    format_args!("{text} {}. Authentication not configured?", self.path()),
                );
                refused(Status::INTERNAL_SERVER_ERROR)
            }
        }
    }

    fn denied_by_configuration(&self, message: &'static HttpdMessage) -> Outcome {
        self.log_httpd(
            message,
            format_args!("client denied by server configuration: {}", self.filename()),
        );
        refused(Status::FORBIDDEN)
    }

    fn authorize(&mut self, has_user: bool) -> Outcome {
        let Some(group) = self.local.authz.group.clone() else {
            return self.without_rules();
        };
        match self.group(&group, Logic::All) {
            Decision::Granted => Outcome::Granted,
            Decision::DeniedWithoutUser if !has_user => Outcome::WithoutUser,
            Decision::DeniedWithoutUser => {
                self.log_httpd(
                    &httpd_message::NO_USER,
                    format_args!(
                        "authorization failure (no authenticated user): {}",
                        self.path()
                    ),
                );
                Outcome::Refused(Status::UNAUTHORIZED, self.challenge())
            }
            Decision::Denied | Decision::Neutral if has_user && self.auth_type().is_some() => {
                self.not_for_this_user()
            }
            Decision::Denied | Decision::Neutral => {
                self.denied_by_configuration(&httpd_message::CLIENT_DENIED)
            }
            Decision::Error => refused(Status::INTERNAL_SERVER_ERROR),
            Decision::Pending => Outcome::Wait(self.pause.take()),
        }
    }

    fn without_rules(&mut self) -> Outcome {
        if self.auth_type().is_none() {
            return Outcome::Granted;
        }
        let text =
            format_args!("AuthType configured with no corresponding authorization directives");
        self.log_httpd(&httpd_message::NO_DIRECTIVES, text);
        refused(Status::INTERNAL_SERVER_ERROR)
    }

    fn not_for_this_user(&mut self) -> Outcome {
        let user = self.exchange.user.as_deref().unwrap_or_default();
        self.log_httpd(
            &httpd_message::USER_DENIED,
            format_args!(
                "user {user}: authorization failure for \"{}\": ",
                self.path()
            ),
        );
        match self.local.authz.forbidden_on_failure {
            Some(true) => refused(Status::FORBIDDEN),
            _ => Outcome::Refused(Status::UNAUTHORIZED, self.challenge()),
        }
    }

    /// The rules of a container, in order, until one decides.
    fn group(&mut self, group: &Group, outer: Logic) -> Decision {
        if !group.is_for(self.method()) {
            return for_other_methods(outer);
        }
        let mut result = Decision::Neutral;
        for rule in &group.members {
            let (is_final, next) = step(group.logic, result, self.rule(rule, group.logic));
            result = next;
            if is_final {
                break;
            }
        }
        negated(group.negated, result)
    }

    fn rule(&mut self, rule: &Rule, outer: Logic) -> Decision {
        match rule {
            Rule::Group(group) => self.group(group, outer),
            Rule::Require(require) if !require.methods.include(self.method()) => {
                for_other_methods(outer)
            }
            Rule::Require(require) => {
                let decision = negated(require.negated, require.requirement.check(self));
                self.exchange.trace("access", Some(&require.origin), || {
                    format!("`Require {}`: {decision}", require.text)
                });
                decision
            }
        }
    }
}

/// A rule in `<Limit>` that does not name the request's method.
fn for_other_methods(outer: Logic) -> Decision {
    match outer {
        Logic::All => Decision::Granted,
        Logic::Any => Decision::Neutral,
    }
}

/// From the result so far and one more to the result, and whether no more is needed.
fn step(logic: Logic, so_far: Decision, next: Decision) -> (bool, Decision) {
    use Decision::*;
    match (logic, so_far, next) {
        (_, _, Error | Pending) => (true, next),
        (_, so_far, Neutral) => (false, so_far),
        (Logic::All, _, Denied) => (true, Denied),
        (Logic::Any, _, Granted) => (true, Granted),
        (_, Neutral, next) => (false, next),
        (Logic::All, _, DeniedWithoutUser) | (Logic::Any, Denied, DeniedWithoutUser) => {
            (false, DeniedWithoutUser)
        }
        (_, so_far, _) => (false, so_far),
    }
}

/// That something was not refused grants nothing.
fn negated(is_negated: bool, decision: Decision) -> Decision {
    match (is_negated, decision) {
        (true, Decision::Granted) => Decision::Denied,
        (true, Decision::Denied | Decision::DeniedWithoutUser) => Decision::Neutral,
        (_, decision) => decision,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Decision::*;

    fn all_of(logic: Logic, members: &[Decision]) -> Decision {
        let mut result = Neutral;
        for member in members {
            let (is_final, next) = step(logic, result, *member);
            result = next;
            if is_final {
                break;
            }
        }
        result
    }

    #[test]
    fn containers() {
        for (members, all, any) in [
            (&[][..], Neutral, Neutral),
            (&[Granted, Granted], Granted, Granted),
            (&[Granted, Denied], Denied, Granted),
            (&[Denied, Granted], Denied, Granted),
            (&[Neutral, Neutral], Neutral, Neutral),
            (&[Neutral, Granted], Granted, Granted),
            (&[Granted, DeniedWithoutUser], DeniedWithoutUser, Granted),
            (&[DeniedWithoutUser, Granted], DeniedWithoutUser, Granted),
            (&[DeniedWithoutUser, Denied], Denied, DeniedWithoutUser),
            (&[Denied, DeniedWithoutUser], Denied, DeniedWithoutUser),
            (&[Granted, Error, Denied], Error, Granted),
            (&[Denied, Pending, Granted], Denied, Pending),
        ] {
            assert_eq!(
                (all_of(Logic::All, members), all_of(Logic::Any, members)),
                (all, any),
                "{members:?}"
            );
        }
    }

    #[test]
    fn negation_grants_nothing() {
        for (plain, not) in [
            (Granted, Denied),
            (Denied, Neutral),
            (DeniedWithoutUser, Neutral),
            (Neutral, Neutral),
            (Error, Error),
        ] {
            assert_eq!((negated(true, plain), negated(false, plain)), (not, plain));
        }
    }
}
