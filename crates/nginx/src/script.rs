//! The rewrite phase: runs the script of a server or location.
//!
//! Called by: `dispatch`.
//! Caveat: an `if` that holds changes the settings, and the script goes on behind it.
//! Out of scope: the search for a location after the path has changed (`dispatch`).

use crate::{
    evaluate::{TEXT_BYTES_MAX, joined},
    log_lines::shown,
    pages,
    request::Request,
};
use saker_files::Kind;
use saker_http::Status;
use saker_nginx_model::{
    If, Op, Part, Text,
    modules::rewrite::{Condition, FileTest, Flag, Return, Rewrite, Statement, Target},
    variables::Variable,
};
use saker_pipeline::{Body, Response};
use std::sync::Arc;

/// The outcome of a script.
pub enum Flow {
    /// The end was reached; with true, the path has changed.
    End(bool),
    Answer(Response),
}

/// The effect of an operation on the script.
enum Step {
    Next,
    /// `break`: the script ends.
    Break,
    /// `last`
    Last,
    Answer(Response),
}

impl Request<'_> {
    /// Runs a script.
    pub fn script(&mut self, ops: &[Op]) -> Flow {
        let mut has_changed = false;
        match self.ops(ops, &mut has_changed) {
            Step::Next => Flow::End(has_changed),
            Step::Last => Flow::End(true),
            // The location stays, and with it its access rules.
            Step::Break => {
                self.state.is_location_valid &= !has_changed;
                Flow::End(false)
            }
            Step::Answer(response) => Flow::Answer(response),
        }
    }

    fn ops(&mut self, ops: &[Op], has_changed: &mut bool) -> Step {
        for op in ops {
            let step = match op {
                Op::Plain(Statement::Break) => Step::Break,
                Op::Plain(Statement::Return(returned)) => Step::Answer(self.returned(returned)),
                Op::Plain(Statement::Set(target, text)) => {
                    self.set(*target, text);
                    Step::Next
                }
                Op::Plain(Statement::Rewrite(rewrite)) => self.rewrite(rewrite, has_changed),
                Op::If(condition) => self.conditional(condition, has_changed),
            };
            if self.state.has_failed {
                return Step::Answer(Response::new(Status::INTERNAL_SERVER_ERROR));
            }
            if !matches!(step, Step::Next) {
                return step;
            }
        }
        Step::Next
    }

    fn conditional(&mut self, condition: &If, has_changed: &mut bool) -> Step {
        let holds = self.condition(&condition.condition);
        self.exchange.trace("server_rewrite", None, || {
            let word = if holds { "holds" } else { "does not hold" };
            format!("`if {}` {word}", condition.source)
        });
        if !holds {
            return Step::Next;
        }
        if let Some(location) = &condition.location {
            self.state.location = Arc::clone(location);
        }
        self.ops(&condition.ops, has_changed)
    }

    fn condition(&mut self, condition: &Condition) -> bool {
        match condition {
            Condition::True(variable) => Request::is_true(self.variable(variable).as_deref()),
            Condition::Equals(variable, text, is_negated) => {
                let value = self.variable(variable).unwrap_or_default();
                (value == self.script_text(text)) != *is_negated
            }
            Condition::Matches(variable, regex, is_negated) => {
                let is_match = match variable {
                    Variable::Field(name) => {
                        let value = joined(self.exchange.head.view(), name).unwrap_or_default();
                        let spans = self.script_spans(regex, &value);
                        self.depends_on_match(name, &regex.pattern, &value, spans.as_ref());
                        if let Some(spans) = spans {
                            self.keep_captures(regex, &value, spans);
                        }
                        spans.is_some()
                    }
                    _ => {
                        let value = self.variable(variable).unwrap_or_default();
                        let spans = self.script_spans(regex, &value);
                        if let Some(spans) = spans {
                            self.keep_captures(regex, &value, spans);
                        }
                        spans.is_some()
                    }
                };
                // What could not be decided refuses the request.
                is_match != *is_negated
            }
            Condition::File(test, path, is_negated) => {
                let path = self.script_text(path);
                self.file_test(*test, &path) != *is_negated
            }
        }
    }

    fn file_test(&mut self, test: FileTest, path: &[u8]) -> bool {
        let Ok(metadata) = self.stat_path(path) else {
            return false;
        };
        if path.ends_with(b"/") && metadata.kind != Kind::Directory {
            return false;
        }
        match test {
            FileTest::File => metadata.kind == Kind::File,
            FileTest::Directory => metadata.kind == Kind::Directory,
            FileTest::Exists => true,
            FileTest::Executable => metadata.mode & 0o111 != 0,
        }
    }

    /// Returns true if the path was sent with escapes.
    fn was_encoded(&self) -> bool {
        let sent = self.exchange.head.view().target_as_sent();
        let path = sent.split(|byte| *byte == b'?').next().unwrap_or_default();
        path.contains(&b'%') || path.contains(&b'+')
    }

    /// Returns the value of a text in a script. Groups of the last match are escaped where the path
    /// was sent with escapes, as nginx does it for `set` and `if`.
    fn script_text(&mut self, text: &Text) -> Vec<u8> {
        let has_groups = text
            .parts
            .iter()
            .any(|part| matches!(part, Part::Capture(_)));
        if !has_groups || !self.was_encoded() {
            return self.text(text);
        }
        let mut value = Vec::new();
        for part in &text.parts {
            match part {
                Part::Capture(group) => {
                    let group = self.capture(*group).unwrap_or_default();
                    value.extend_from_slice(&pages::escape_argument(&group));
                }
                Part::Literal(literal) => value.extend_from_slice(literal),
                Part::Variable(variable) => {
                    value.extend_from_slice(&self.variable(variable).unwrap_or_default());
                }
            }
            if value.len() > TEXT_BYTES_MAX {
                self.state.has_failed = true;
                return Vec::new();
            }
        }
        value
    }

    fn set(&mut self, target: Target, text: &Text) {
        let value = self.script_text(text);
        match target {
            Target::Slot(number) => self.set_value(number, &value),
            Target::Args => {
                self.exchange.query = Some(value);
                self.exchange.routing.has_written_query = true;
                self.state.is_unparsed = false;
            }
            Target::LimitRate => self.state.limit_rate = Some(value.into()),
        }
    }

    fn returned(&mut self, returned: &Return) -> Response {
        // `$status` in the text is the one that is returned, but for pages of errors.
        let of_error = self.state.error_status;
        self.state.error_status = of_error.or(Some(returned.status));
        let text = returned.text.as_ref().map(|text| self.text(text));
        self.state.error_status = of_error;
        let origin = self.state.location.origin.clone();
        self.exchange.trace("server_rewrite", Some(&origin), || {
            format!("`{}`", returned.directive)
        });
        let status = Status(returned.status);
        if returned.status == 444 {
            self.exchange.limits.drops_connection = true;
            // No filter sees it.
            crate::response::note(self);
        }
        if self.state.error_status.is_none() {
            self.exchange.keep_answer();
        }
        let location = &self.state.location;
        let mut response = pages::returned(status, text, &location.conf, &self.exchange.path);
        if let Some(of_error) = of_error
            && !matches!(response.body, Body::Empty)
        {
            // A text is the page of the error in front of it, whatever it is returned with.
            response.status = Status(of_error);
        }
        // What an upstream said of the type holds for what takes its place.
        let handed = self.exchange.upstream.internal_redirect.as_ref();
        let said = handed.and_then(|handed| handed.content_type.clone());
        if let Some(said) = said.filter(|said| !said.is_empty())
            && response.fields().has("Content-Type")
        {
            response.fields_mut().set("Content-Type", said.into_bytes());
        }
        response
    }

    fn rewrite(&mut self, rewrite: &Rewrite, has_changed: &mut bool) -> Step {
        let path = self.exchange.path.clone();
        let pattern = || shown(rewrite.regex.pattern.text());
        let Some(spans) = self.script_spans(&rewrite.regex, &path) else {
            self.log_rewrite(|| format!("\"{}\" does not match \"{}\"", pattern(), shown(&path)));
            return Step::Next;
        };
        self.log_rewrite(|| format!("\"{}\" matches \"{}\"", pattern(), shown(&path)));
        self.keep_captures(&rewrite.regex, &path, spans);
        self.state.is_internal = true;
        let is_redirect = matches!(rewrite.flag, Flag::Redirect(_));
        let (mut target, args) = self.replacement(rewrite, is_redirect);
        let keeps_query = args.is_none() && !rewrite.drops_args;
        let query = self.joined_query(args, rewrite.drops_args);
        self.exchange.trace("server_rewrite", None, || {
            let text = String::from_utf8_lossy(rewrite.regex.pattern.text()).into_owned();
            format!(
                "`rewrite {text}` gives {}",
                String::from_utf8_lossy(&target)
            )
        });
        if let Flag::Redirect(status) = rewrite.flag {
            self.depends_on_query();
            if let Some(query) = query.filter(|query| !query.is_empty()) {
                target.push(b'?');
                target.extend_from_slice(&query);
            }
            self.log_rewrite(|| format!("rewritten redirect: \"{}\"", shown(&target)));
            let mut response = Response::new(Status(status));
            response
                .fields_mut()
                .set("Location", pages::field_value(&target));
            self.exchange.keep_answer();
            return Step::Answer(response);
        }
        self.log_rewrite(|| {
            let args = query.as_deref().unwrap_or_default();
            format!(
                "rewritten data: \"{}\", args: \"{}\"",
                shown(&target),
                shown(args)
            )
        });
        if target.is_empty() {
            return Step::Answer(Response::new(Status::INTERNAL_SERVER_ERROR));
        }
        self.state.is_unparsed = false;
        self.exchange.path = target;
        self.exchange.query = query;
        self.exchange.routing.has_written_query |= !keeps_query;
        match rewrite.flag {
            Flag::Last => Step::Last,
            Flag::Break => {
                *has_changed = false;
                self.state.is_location_valid = false;
                Step::Break
            }
            _ => {
                *has_changed = true;
                Step::Next
            }
        }
    }

    /// Returns path and arguments of a replacement; what stands behind its `?` are arguments.
    fn replacement(&mut self, rewrite: &Rewrite, is_redirect: bool) -> (Vec<u8>, Option<Vec<u8>>) {
        let was_encoded = self.was_encoded();
        let (mut path, mut args) = (Vec::new(), None::<Vec<u8>>);
        for part in &rewrite.replacement.parts {
            let value = match part {
                Part::Literal(text) => {
                    let text = text.to_vec();
                    match text.iter().position(|byte| *byte == b'?') {
                        Some(at) if args.is_none() => {
                            path.extend_from_slice(text.get(..at).unwrap_or_default());
                            args = Some(text.get(at + 1..).unwrap_or_default().to_vec());
                        }
                        _ => args.as_mut().unwrap_or(&mut path).extend_from_slice(&text),
                    }
                    continue;
                }
                Part::Capture(group) => {
                    let value = self.capture(*group).unwrap_or_default();
                    match (was_encoded, args.is_some()) {
                        (true, true) => pages::escape_argument(&value),
                        (true, false) if is_redirect => pages::escape_redirect(&value),
                        _ => value,
                    }
                }
                Part::Variable(variable) => self.variable(variable).unwrap_or_default(),
            };
            args.as_mut().unwrap_or(&mut path).extend_from_slice(&value);
        }
        (path, args)
    }

    /// The query behind a rewrite: new arguments, then those of the request.
    fn joined_query(&mut self, args: Option<Vec<u8>>, drops_args: bool) -> Option<Vec<u8>> {
        if drops_args {
            return args;
        }
        let Some(mut args) = args else {
            return self.exchange.query.clone();
        };
        self.depends_on_query();
        if let Some(query) = self
            .exchange
            .query
            .as_ref()
            .filter(|query| !query.is_empty())
        {
            args.push(b'&');
            args.extend_from_slice(query);
        }
        Some(args)
    }
}
