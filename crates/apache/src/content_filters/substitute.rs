//! mod_substitute (`SUBSTITUTE`): edits content line by line.
//!
//! Difficulty: rules with `q` leave pieces of the line that later rules see one by one; all others
//! see the line as it has become. And every line is bounded, while it comes and while it grows: one
//! that gets longer fails the answer, as in Apache.

use super::{ContentFilter, Passage, Stage, Transform};
use crate::{modules::substitute::Rule, response::edits::fill_in};
use saker_http::Status;
use saker_pipeline::{BodyError, LocalFuture, RequestBudget};
use saker_telemetry::{error_log, message};
use std::{rc::Rc, sync::Arc};

pub struct Substitute;

impl ContentFilter for Substitute {
    fn name(&self) -> &str {
        "SUBSTITUTE"
    }

    fn stage(&self) -> Stage {
        Stage::Resource
    }

    fn output<'f>(&'f self, passage: &'f mut Passage<'_>) -> LocalFuture<'f, Result<(), Status>> {
        let settings = &passage.local.substitute;
        let lines = Lines {
            rules: settings.rules.clone(),
            line_bytes_max: settings.line_bytes_max(),
            line: Vec::new(),
            budget: Rc::clone(passage.exchange.budget()),
        };
        passage.transform(lines);
        Box::pin(std::future::ready(Ok(())))
    }
}

struct Lines {
    rules: Vec<Arc<Rule>>,
    line_bytes_max: usize,
    /// As much as there is of the line that has no end yet.
    line: Vec<u8>,
    budget: Rc<RequestBudget>,
}

impl Transform for Lines {
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BodyError> {
        self.budget.work().grant_for(input.len());
        for piece in input.split_inclusive(|byte| *byte == b'\n') {
            let is_whole = piece.ends_with(b"\n");
            if self.line.len() + piece.len() > self.line_bytes_max {
                return Err(too_long());
            }
            if is_whole && self.line.is_empty() {
                self.substitute(piece, output)?;
                continue;
            }
            self.line.extend_from_slice(piece);
            if is_whole {
                let line = std::mem::take(&mut self.line);
                self.substitute(&line, output)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BodyError> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            Ok(())
        } else {
            self.substitute(&line, output)
        }
    }
}

impl Lines {
    fn substitute(&self, line: &[u8], output: &mut Vec<u8>) -> Result<(), BodyError> {
        let mut pieces = vec![line.to_vec()];
        for rule in &self.rules {
            let mut changed = Vec::with_capacity(pieces.len());
            for piece in pieces {
                self.apply(rule, piece, &mut changed)?;
            }
            pieces = changed;
        }
        self.budget.work().make(pieces.iter().map(Vec::len).sum());
        within_budget(&self.budget, "SUBSTITUTE")?;
        pieces
            .iter()
            .for_each(|piece| output.extend_from_slice(piece));
        Ok(())
    }

    /// Everything that matches in one piece of a line.
    fn apply(&self, rule: &Rule, piece: Vec<u8>, done: &mut Vec<Vec<u8>>) -> Result<(), BodyError> {
        let (mut so_far, mut grown, mut rest) = (Vec::new(), 0, piece.as_slice());
        let work = self.budget.work();
        work.look_at(piece.len());
        // What follows a match is matched as if nothing stood before it: `^` may match again.
        while let Ok(Some(spans)) = work.captures_at(&rule.pattern, rest, 0) {
            let Some(whole) = spans.get(0) else { break };
            so_far.extend_from_slice(rest.get(..whole.start).unwrap_or_default());
            if !rule.flatten && !so_far.is_empty() {
                grown += so_far.len();
                done.push(std::mem::take(&mut so_far));
            }
            match rule.is_literal {
                true => so_far.extend_from_slice(&rule.replacement),
                false => fill_in(
                    &rule.replacement,
                    |group| spans.text(group, rest),
                    &mut so_far,
                ),
            }
            if grown + so_far.len() > self.line_bytes_max {
                return Err(too_long());
            }
            if !rule.flatten {
                grown += so_far.len();
                done.push(std::mem::take(&mut so_far));
            }
            rest = rest.get(whole.end..).unwrap_or_default();
            // Nothing matches a second time where nothing was.
            if whole.is_empty() {
                let Some((byte, behind)) = rest.split_first() else {
                    break;
                };
                so_far.push(*byte);
                rest = behind;
            }
        }
        so_far.extend_from_slice(rest);
        if grown + so_far.len() > self.line_bytes_max {
            return Err(too_long());
        }
        if !so_far.is_empty() {
            done.push(so_far);
        }
        Ok(())
    }
}

/// The error, once the request has used up what its rules may cost. The client sees that the answer
/// is not whole.
pub fn within_budget(budget: &RequestBudget, filter: &str) -> Result<(), BodyError> {
    let Some(limit) = budget.exceeded() else {
        return Ok(());
    };
    error_log::log(
        &message::REQUEST_GIVEN_UP,
        format_args!("{filter}: {limit}"),
    );
    Err(BodyError::Source)
}

fn too_long() -> BodyError {
    error_log::log(
        &message::CONTENT_FILTER,
        format_args!("SUBSTITUTE: a line is longer than SubstituteMaxLineLength"),
    );
    BodyError::Source
}

#[cfg(test)]
#[path = "substitute_tests.rs"]
mod tests;
