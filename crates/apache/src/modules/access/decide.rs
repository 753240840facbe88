//! The sequence of the access step: what may be decided without a user, then who it is, then whether he may.
//!
//! As Apache's `ap_process_request_internal` has it. Difficulty: whatever was looked at besides the path has to be noted in the exchange.

use super::{
    authz::{Group, Logic, Rule},
    requirement::Decision,
};
use crate::{
    facts::{Seen, note_dependencies},
    host::Host,
    local::Local,
    state::{State, peek},
};
use saker_expressions::{Dependencies, Dependency, Evaluation, EvaluationError, Expression};
use saker_files::{Stamp, Watcher};
use saker_http::Status;
use saker_pipeline::{Exchange, Response, Verdict};
use saker_telemetry::{error_log, message};
use std::fmt;

/// One request while it is decided about; what was looked at is collected.
pub struct Inquiry<'e> {
    pub exchange: &'e Exchange,
    pub state: &'e State,
    pub host: &'e Host,
    pub local: &'e Local,
    pub watcher: &'e Watcher,
    dependencies: Dependencies,
    stamps: Vec<Stamp>,
}

/// What came of it.
enum Outcome {
    Granted,
    /// Whoever says who he is may be granted it.
    WithoutUser,
    Refused(Status),
}

/// May this request be answered?
pub fn access(exchange: &mut Exchange, host: &Host, watcher: &Watcher) -> Verdict {
    let Some(state) = peek(exchange).cloned() else { return Verdict::Pass };
    let Some(local) = state.local.clone() else { return Verdict::Pass };
    if let Some(origin) = &local.denied {
        error_log::log(&message::ACCESS_RULE_NOT_HONOURED, format_args!("{origin}"));
        return Verdict::Answer(Response::new(Status::FORBIDDEN));
    }
    let mut inquiry =
        Inquiry { exchange, state: &state, host, local: &local, watcher, dependencies: Dependencies::new(), stamps: Vec::new() };
    let outcome = inquiry.authorize();
    let (dependencies, stamps) = (inquiry.dependencies, inquiry.stamps);
    note_dependencies(exchange, &dependencies, stamps);
    match outcome {
        Outcome::Granted => Verdict::Pass,
        Outcome::WithoutUser => Verdict::Answer(Response::new(Status::FORBIDDEN)),
        Outcome::Refused(status) => Verdict::Answer(Response::new(status)),
    }
}

impl Inquiry<'_> {
    pub fn asked(&mut self, dependency: Dependency) {
        self.dependencies.add(dependency);
    }

    pub fn method(&self) -> &[u8] {
        self.exchange.head.view().method_token()
    }

    pub fn log(&self, facts: fmt::Arguments<'_>) {
        error_log::log_client(&message::ACCESS_REFUSED, self.exchange.client.address, facts);
    }

    /// An expression about this request.
    pub fn evaluate(&mut self, expression: &Expression) -> Result<bool, EvaluationError> {
        let seen = Seen::new(self.exchange, self.state, self.host, self.watcher);
        let mut evaluation = Evaluation::new(&seen);
        let result = expression.evaluate(&mut evaluation);
        self.dependencies.merge(&evaluation.dependencies);
        self.stamps.extend(seen.stamps.take());
        result
    }

    fn filename(&self) -> impl fmt::Display {
        String::from_utf8_lossy(&self.state.filename).into_owned()
    }

    fn authorize(&mut self) -> Outcome {
        let Some(group) = self.local.authz.group.as_deref() else { return Outcome::Granted };
        match self.group(group, Logic::All) {
            Decision::Granted => Outcome::Granted,
            Decision::DeniedWithoutUser => Outcome::WithoutUser,
            Decision::Denied | Decision::Neutral => {
                self.log(format_args!("client denied by server configuration: {}", self.filename()));
                Outcome::Refused(Status::FORBIDDEN)
            }
            Decision::Error => Outcome::Refused(Status::INTERNAL_SERVER_ERROR),
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
            Rule::Require(require) if !require.methods.include(self.method()) => for_other_methods(outer),
            Rule::Require(require) => negated(require.negated, require.requirement.check(self)),
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
        (_, _, Error) => (true, Error),
        (_, so_far, Neutral) => (false, so_far),
        (Logic::All, _, Denied) => (true, Denied),
        (Logic::Any, _, Granted) => (true, Granted),
        (_, Neutral, next) => (false, next),
        (Logic::All, _, DeniedWithoutUser) | (Logic::Any, Denied, DeniedWithoutUser) => (false, DeniedWithoutUser),
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
