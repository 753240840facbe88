//! Runs rules for a request.
//!
//! Called by: front ends. [`server`] and [`directory`] are httpd's two hooks, around one list of
//! rules ([`list`]) that changes `filename` and the query. Rule applications, bytes examined and
//! generated, and aborted patterns count as steps of one budget.
//! Caveat: everything that a rule may read changes during the run: the file name, the query, and
//! the environment, as earlier rules left them.
//! Out of scope: waiting. Other requests and programs are run by the context, which may block or
//! refuse.

mod directory;
mod effects;
mod expand;
mod list;
mod overlay;
mod server;
mod test;
#[cfg(test)]
mod tests;

use crate::{
    Action, Cause, Effects, Input, LogLine, Outcome, RewriteContext, Settings, SourceLine,
    TraceLine,
};
pub use directory::run_directory;
use saker_ap_expr::{
    Backreferences, Dependencies, Dependency, DependencyMark, LimitReached, Pattern, Predicate,
    RequestPart, RequestTest, Spans, TextPredicate, Variable, pattern_steps,
};
pub use server::{run_server, script_environment};
use std::{fmt, rc::Rc, time::Instant};

/// Applications of a rule or a condition, in one run.
const STEPS_MAX: u64 = 200_000;
/// Bytes that one step may look at, or make.
const STEP_BYTES: u64 = 512;
/// Longest text that a template may make: a query or a variable that grows on itself ends the run.
const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// A text that was matched, with its groups.
type Groups = Backreferences;

/// The state of one run.
pub(crate) struct Run<'a> {
    /// Whose maps there are.
    server: &'a Settings,
    context: &'a dyn RewriteContext,
    input: &'a Input<'a>,
    /// The directory, in directory context.
    directory: Option<&'a [u8]>,
    /// RewriteBase of the directory.
    base: Option<&'a [u8]>,
    filename: Vec<u8>,
    query: Option<Vec<u8>>,
    /// A rule has written the query, or dropped it.
    has_written_query: bool,
    discard_path_info: bool,
    /// Text that the current rule is matched against.
    subject: Vec<u8>,
    rule_groups: Groups,
    condition_groups: Groups,
    /// Fields that conditions of the rule at hand looked at: since the last condition, and in all.
    vary_now: Vec<String>,
    vary: Vec<String>,
    effects: Effects,
    dependencies: Dependencies,
    log: Vec<LogLine>,
    trace: Vec<TraceLine>,
    causes: Vec<Cause>,
    /// Dependencies up to here have their cause.
    noted: DependencyMark,
    /// The line of the last rule that matched.
    last_line: Option<SourceLine>,
    steps: u64,
    /// Limit of this run: its own, or the rest that other runs of the request have left.
    steps_max: u64,
}

impl<'a> Run<'a> {
    fn new(
        server: &'a Settings,
        context: &'a dyn RewriteContext,
        input: &'a Input<'a>,
        directory: Option<&'a Settings>,
    ) -> Run<'a> {
        Run {
            server,
            context,
            input,
            directory: directory.and_then(Settings::directory_path),
            base: directory.and_then(Settings::base),
            filename: input.filename.unwrap_or(input.uri).to_vec(),
            query: input.query.map(<[u8]>::to_vec),
            has_written_query: false,
            discard_path_info: false,
            subject: Vec::new(),
            rule_groups: Groups::default(),
            condition_groups: Groups::default(),
            vary_now: Vec::new(),
            vary: Vec::new(),
            effects: Effects::default(),
            dependencies: Dependencies::new(),
            log: Vec::new(),
            trace: Vec::new(),
            causes: Vec::new(),
            noted: DependencyMark::default(),
            last_line: None,
            steps: 0,
            steps_max: context
                .as_facts()
                .work()
                .map_or(STEPS_MAX, |work| work.steps_left().min(STEPS_MAX)),
        }
    }

    fn finish(mut self, action: Action) -> Outcome {
        let line = self.last_line.take();
        self.note_cause(line.as_ref());
        if let Some(work) = self.context.as_facts().work() {
            work.steps(self.steps);
        }
        Outcome {
            action,
            query: self.query,
            has_written_query: self.has_written_query,
            discard_path_info: self.discard_path_info,
            effects: self.effects,
            dependencies: self.dependencies,
            log: self.log,
            trace: self.trace,
            causes: self.causes,
        }
    }

    /// Notes that dependencies since the last note come from a line, if a trace is wanted.
    fn note_cause(&mut self, line: Option<&SourceLine>) {
        if self.input.trace_level == 0 {
            return;
        }
        let (kinds, tests) = self.dependencies.since(self.noted);
        if let Some(line) = line.filter(|_| !kinds.is_empty() || !tests.is_empty()) {
            let (line, tests) = (line.clone(), tests.to_vec());
            self.causes.push(Cause { line, kinds, tests });
        }
        self.noted = self.dependencies.mark();
    }

    /// A line of the trace, if it is wanted. `perdir`: marked with the directory.
    fn trace(&mut self, level: u8, perdir: bool, text: impl FnOnce(&Self) -> String) {
        if level <= self.input.trace_level {
            let directory = self
                .directory
                .filter(|_| perdir)
                .map(|path| Shown(path).to_string());
            let text = text(self);
            self.trace.push(TraceLine {
                level,
                directory,
                text,
            });
        }
    }

    fn complain(&mut self, id: &'static str, text: String) {
        self.log.push(LogLine { id, text });
    }

    /// Takes from the budget: one step, and more for long texts.
    fn spend(&mut self, bytes: usize) {
        self.steps += if bytes > TEXT_BYTES_MAX {
            STEPS_MAX + 1
        } else {
            1 + bytes as u64 / STEP_BYTES
        };
    }

    fn is_exhausted(&self) -> bool {
        self.steps > self.steps_max
    }

    /// Runs a pattern, and charges its cost to the budget.
    fn captures(
        &mut self,
        pattern: &Pattern,
        subject: &[u8],
    ) -> Result<Option<Spans>, LimitReached> {
        let begun = Instant::now();
        let found = pattern.captures(subject);
        self.steps += pattern_steps(begun.elapsed(), found.is_err());
        found
    }

    /// A pattern was given up. The run ends: a rule that denies may depend on it.
    fn gave_up(&mut self, pattern: &[u8]) {
        let text = format!("the pattern '{}' took too many steps", Shown(pattern));
        self.complain("", text);
        self.steps = self.steps.saturating_add(STEPS_MAX);
        if let Some(work) = self.context.as_facts().work() {
            work.give_up();
        }
    }

    fn context_variable(&mut self, variable: Variable) -> Vec<u8> {
        self.dependencies.add(variable.row().depends);
        self.context
            .as_facts()
            .variable(variable)
            .unwrap_or_default()
            .into_owned()
    }

    /// `http://host:port` of this server, as URLs have it.
    fn own_origin(&mut self) -> Vec<u8> {
        self.dependencies.add(Dependency::Host);
        let scheme = self.context_variable(Variable::RequestScheme);
        let mut origin = scheme.clone();
        origin.extend_from_slice(b"://");
        origin.extend_from_slice(&self.context_variable(Variable::ServerName));
        let port = self.context_variable(Variable::ServerPort);
        if !port.is_empty() && port != default_port(&scheme).to_string().as_bytes() {
            origin.push(b':');
            origin.extend_from_slice(&port);
        }
        origin
    }

    /// A query with bytes that can't go out, unless it will be escaped.
    fn query_is_unsafe(&mut self) -> bool {
        let is_unsafe = is_unsafe(self.query.as_deref());
        // What a rule has written, in this run or before, has said itself what it depends on.
        if let Some(part) = self.received(Some(RequestPart::Query)) {
            self.dependencies.add_test(RequestTest {
                part,
                predicate: Predicate::Other(Rc::new(Unsafe)),
                result: is_unsafe,
            });
        }
        is_unsafe
    }
}

fn is_unsafe(query: Option<&[u8]>) -> bool {
    let is_printable = |byte: &u8| (0x21..=0x7e).contains(byte) || *byte >= 0x80;
    query.is_some_and(|query| !query.iter().all(is_printable))
}

/// The test of whether a query has control characters or spaces.
#[derive(Debug)]
struct Unsafe;

impl TextPredicate for Unsafe {
    fn holds(&self, text: Option<&[u8]>) -> Option<bool> {
        Some(is_unsafe(text))
    }

    fn identify(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"unsafe query\0");
    }
}

fn default_port(scheme: &[u8]) -> u16 {
    if scheme.eq_ignore_ascii_case(b"https") {
        443
    } else {
        80
    }
}

/// Bytes as text for logs.
pub(crate) struct Shown<'t>(pub &'t [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(self.0).fmt(f)
    }
}
