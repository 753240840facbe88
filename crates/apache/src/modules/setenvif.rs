//! mod_setenvif: variables by what a request brings. Those of the server and its hosts are set
//! before anything else happens, those of sections once the file is known.
//!
//! Caveat: what is set here depends on the request, yet most configurations set variables that
//! nothing ever reads (Debian's own for browsers of the last century). So the tests are recorded
//! apart, and an outcome depends on them only if something reads the environment.

use crate::{
    facts::{RequestFacts, trace_dependencies},
    modules::{geo, ssl},
    state::{snapshot, vary_by},
};
use saker_ap_expr::{
    Dependencies, Dependency, DependencyMark, Evaluation, Facts, Pattern, Predicate, RequestPart,
    RequestTest, Spans, Variable, words::expand_groups,
};
use saker_apache_model::{
    dir_config::DirConfig,
    host::Host,
    modules::setenvif::{Rule, Rules, Subject, Test},
};
use saker_files::Watcher;
use saker_pipeline::Exchange;
use std::{borrow::Cow, rc::Rc};

/// Records that the outcome depends on a variable (of that name, or any).
pub fn depends_on_variable(
    exchange: &mut Exchange,
    host: &Host,
    local: &DirConfig,
    name: Option<&[u8]>,
) {
    if varies_untested(host, local, name) {
        exchange.depends_on_request();
    } else if is_set_by_tests(host, local, name) {
        exchange.depends_on_environment();
    }
}

/// Returns whether a variable (of that name, or any) may have another value in another request for
/// the same path, and no recorded test tells.
pub fn varies_untested(host: &Host, local: &DirConfig, name: Option<&[u8]>) -> bool {
    let is_unique_id = host.process.names_requests
        && name.is_none_or(|name| name.eq_ignore_ascii_case(b"UNIQUE_ID"));
    is_unique_id || ssl::may_vary(host, local, name) || geo::may_vary(host, local, name)
}

/// Returns whether tests of requests decide about a variable (of that name, or any).
fn is_set_by_tests(host: &Host, local: &DirConfig, name: Option<&[u8]>) -> bool {
    let rules = host
        .defaults
        .setenvif
        .server
        .iter()
        .chain(&local.setenvif.section);
    let sets = |rule: &Rule| {
        name.is_none_or(|name| {
            rule.changes
                .iter()
                .any(|(known, _)| known.eq_ignore_ascii_case(name))
        })
    };
    rules.filter(|rule| rule.varies).any(|rule| sets(rule))
}

/// Bytes of a text that take as long to look at as one variable.
const ENTRY_COST_BYTES: usize = 8;

/// Before everything else.
pub fn of_server(exchange: &mut Exchange, host: &Host, watcher: &Watcher) {
    apply(exchange, host, watcher, &host.defaults.setenvif.server);
}

/// Once the file is known.
pub fn of_section(exchange: &mut Exchange, host: &Host, watcher: &Watcher, local: &DirConfig) {
    apply(exchange, host, watcher, &local.setenvif.section);
}

fn apply(exchange: &mut Exchange, host: &Host, watcher: &Watcher, rules: &Rules) {
    if rules.is_empty() {
        return;
    }
    let own = snapshot(exchange);
    let budget = Rc::clone(exchange.budget());
    for rule in rules {
        if budget.work().is_exhausted() {
            return;
        }
        let (changes, dependencies) =
            changes(rule, &RequestFacts::new(exchange, &own, host, watcher));
        exchange
            .cache
            .environment_tests
            .extend_from_slice(dependencies.tests());
        if !is_known(&dependencies) {
            exchange.environment.mark_varying();
        }
        let (kinds, tests) = dependencies.since(DependencyMark::default());
        trace_dependencies(exchange, Some(&rule.origin), &kinds, tests);
        vary_by(exchange, &dependencies);
        for (name, value) in changes {
            // The list is looked through from its beginning.
            budget
                .work()
                .look_at(exchange.environment.len().saturating_mul(ENTRY_COST_BYTES));
            budget.work().make(value.as_ref().map_or(0, Vec::len));
            match value {
                Some(value) => exchange.environment.set_known(&name, &value),
                None => exchange.environment.unset(&name),
            }
        }
    }
}

/// Returns whether everything that variables depend on is the path, the host, or a recorded test.
fn is_known(dependencies: &Dependencies) -> bool {
    dependencies.is_within(&[
        Dependency::Path,
        Dependency::Host,
        Dependency::Scheme,
        Dependency::Files,
        Dependency::Environment,
    ])
}

type Changes = Vec<(Box<[u8]>, Option<Vec<u8>>)>;

/// The changes, and what they depend on.
fn changes(rule: &Rule, seen: &RequestFacts<'_>) -> (Changes, Dependencies) {
    match &rule.test {
        Test::Holds(expression) => {
            let mut evaluation = Evaluation::recording_tests(seen);
            let holds = expression.evaluate(&mut evaluation).unwrap_or(false);
            let group = |group: usize| evaluation.backreferences.text(group).to_vec();
            // As Apache: where no pattern has matched, `$0` is no reference.
            let changes = match (holds, evaluation.backreferences.is_empty()) {
                (true, false) => filled_changes(rule, &group),
                (true, true) => plain_changes(rule),
                (false, _) => Vec::new(),
            };
            (changes, evaluation.dependencies)
        }
        Test::Matches {
            subject,
            pattern,
            has_groups,
        } => {
            let text = subject_text(subject, seen);
            let work = seen.exchange.budget().work();
            let spans = work.captures_at(pattern, &text, 0).ok().flatten();
            let dependencies = match_dependencies(subject, seen, pattern, &text, spans.as_ref());
            let changes = match spans {
                Some(spans) if *has_groups => {
                    filled_changes(rule, &|group| spans.text(group, &text).to_vec())
                }
                Some(_) => plain_changes(rule),
                None => Vec::new(),
            };
            (changes, dependencies)
        }
    }
}

fn plain_changes(rule: &Rule) -> Changes {
    rule.changes
        .iter()
        .map(|(name, value)| (name.clone(), value.as_deref().map(<[u8]>::to_vec)))
        .collect()
}

fn filled_changes(rule: &Rule, group: &dyn Fn(usize) -> Vec<u8>) -> Changes {
    let value = |value: &Option<Box<[u8]>>| {
        let value = value.as_ref()?;
        let mut filled = Vec::with_capacity(value.len());
        expand_groups(value, group, &mut filled);
        Some(filled)
    };
    rule.changes
        .iter()
        .map(|(name, text)| (name.clone(), value(text)))
        .collect()
}

/// The dependencies of a match's result.
fn match_dependencies(
    subject: &Subject,
    seen: &RequestFacts<'_>,
    pattern: &Pattern,
    text: &[u8],
    spans: Option<&Spans>,
) -> Dependencies {
    let mut dependencies = Dependencies::new();
    let part = match subject {
        Subject::RequestUri => {
            dependencies.add(Dependency::Path);
            return dependencies;
        }
        Subject::RemoteAddress => Some(RequestPart::ClientAddress),
        Subject::RequestMethod => Some(RequestPart::Method),
        Subject::RequestProtocol => Some(RequestPart::Version),
        Subject::Field(name) if name.eq_ignore_ascii_case("host") => {
            dependencies.add(Dependency::Host);
            return dependencies;
        }
        Subject::Field(name) => RequestPart::of_field(name.as_bytes()),
        Subject::RemoteHost
        | Subject::RemoteUser
        | Subject::ServerAddress
        | Subject::AnyField(_) => None,
    };
    let Some(part) = part.filter(|part| seen.is_as_received(part)) else {
        dependencies.add(Dependency::Connection);
        return dependencies;
    };
    let test = |predicate, result| RequestTest {
        part: part.clone(),
        predicate,
        result,
    };
    // A variable stands for a field that is not there; its own tests are recorded.
    if let Subject::Field(name) = subject {
        let is_present = seen.request_field(name.as_bytes()).is_some();
        if !is_present {
            dependencies.add_test(test(Predicate::Present, false));
            return dependencies;
        }
        dependencies.add_test(test(Predicate::Present, true));
    }
    let (predicate, result) = Predicate::of_match(pattern, text, spans);
    dependencies.add_test(test(predicate, result));
    dependencies
}

/// The text that a rule looks at. A part that is not there is empty.
fn subject_text<'s>(subject: &'s Subject, seen: &'s RequestFacts<'_>) -> Cow<'s, [u8]> {
    let head = || seen.exchange.head.view();
    let variable = |variable| seen.variable(variable).unwrap_or_default();
    match subject {
        Subject::RemoteAddress => variable(Variable::RemoteAddr),
        Subject::RemoteHost => variable(Variable::RemoteHost),
        Subject::RemoteUser => variable(Variable::RemoteUser),
        Subject::RequestUri => Cow::Borrowed(&seen.exchange.path),
        Subject::RequestMethod => variable(Variable::RequestMethod),
        Subject::RequestProtocol => variable(Variable::ServerProtocol),
        Subject::ServerAddress => variable(Variable::ServerAddr),
        Subject::Field(name) => seen
            .request_field(name.as_bytes())
            .or_else(|| seen.environment(name.as_bytes()))
            .unwrap_or_default(),
        Subject::AnyField(pattern) => {
            let work = seen.exchange.budget().work();
            let found = head()
                .fields()
                .filter(|(name, _)| work.is_match(pattern, name).unwrap_or(false))
                .last();
            Cow::Owned(found.map(|(_, value)| value.to_vec()).unwrap_or_default())
        }
    }
}
