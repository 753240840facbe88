//! `SUBSTITUTE` (mod_substitute): edits content line by line.
//!
//! Called by: the front ends, through [`apply`].
//! Caveat: rules with `q` leave pieces of the line that later rules see one by one; all others see
//! the line as it has become. Every line is bounded while it arrives and while it grows: a longer
//! one fails the response, as in Apache.

use crate::{
    budget::within_budget,
    transform::{Transform, transform_response},
};
use saker_ap_expr::{Pattern, PatternOptions, words::expand_groups};
use saker_pipeline::{BodyError, RequestBudget, Response};
use saker_telemetry::{error_log, message};
use std::{rc::Rc, sync::Arc};

/// `s/pattern/replacement/flags`
#[derive(Debug)]
pub struct SubstituteRule {
    pub pattern: Pattern,
    pub replacement: Box<[u8]>,
    /// The replacement is taken as it stands (`n`).
    pub is_literal: bool,
    /// Later rules see the line as a whole (`f`, the default), not its pieces (`q`).
    pub flatten: bool,
}

impl SubstituteRule {
    pub fn parse(text: &[u8]) -> Result<SubstituteRule, String> {
        let [b's' | b'S', rest @ ..] = text else {
            return Err("Bad Substitute format, must be an s/// pattern".into());
        };
        let incomplete = || "Bad Substitute format, must be a complete s/// pattern".to_owned();
        let (delimiter, rest) = rest.split_first().ok_or_else(incomplete)?;
        let mut parts = rest.splitn(3, |byte| byte == delimiter);
        let (Some(from), Some(to)) = (parts.next().filter(|from| !from.is_empty()), parts.next())
        else {
            return Err(incomplete());
        };
        let (mut caseless, mut is_literal, mut flatten) = (false, false, true);
        for flag in parts.next().unwrap_or_default() {
            match flag.to_ascii_lowercase() {
                b'i' => caseless = true,
                b'n' => is_literal = true,
                b'f' => flatten = true,
                b'q' => flatten = false,
                _ => return Err("Bad Substitute flag, only s///[infq] are supported".into()),
            }
        }
        let escaped = if is_literal {
            literal(from)
        } else {
            from.to_vec()
        };
        // Of a literal nothing means anything else.
        let options = if is_literal {
            PatternOptions {
                caseless,
                ..PatternOptions::HTTPD
            }
        } else {
            PatternOptions::caseless(caseless)
        };
        let pattern = Pattern::compile(&escaped, options)
            .map_err(|_| "Substitute could not compile regex".to_owned())?;
        Ok(SubstituteRule {
            pattern,
            replacement: to.into(),
            is_literal,
            flatten,
        })
    }
}

/// A pattern that matches nothing but this text: every byte that could mean something is escaped.
fn literal(text: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(text.len());
    for byte in text {
        if byte.is_ascii_punctuation() {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern
}

/// Sends a response through `rules`, in order. `line_bytes_max`: the longest line.
pub fn apply(
    response: &mut Response,
    rules: &[Arc<SubstituteRule>],
    line_bytes_max: usize,
    budget: &Rc<RequestBudget>,
) {
    let lines = Lines {
        rules: rules.to_vec(),
        line_bytes_max,
        line: Vec::new(),
        budget: Rc::clone(budget),
    };
    transform_response(response, lines);
}

struct Lines {
    rules: Vec<Arc<SubstituteRule>>,
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
    fn apply(
        &self,
        rule: &SubstituteRule,
        piece: Vec<u8>,
        done: &mut Vec<Vec<u8>>,
    ) -> Result<(), BodyError> {
        let (mut so_far, mut grown, mut rest) = (Vec::new(), 0, piece.as_slice());
        let work = self.budget.work();
        work.look_at(piece.len());
        // What follows a match is matched as if nothing stood before it: `^` may match again.
        while let Ok(Some(spans)) = work.captures_in_content(&rule.pattern, rest, 0) {
            let Some(whole) = spans.get(0) else { break };
            so_far.extend_from_slice(rest.get(..whole.start).unwrap_or_default());
            if !rule.flatten && !so_far.is_empty() {
                grown += so_far.len();
                done.push(std::mem::take(&mut so_far));
            }
            match rule.is_literal {
                true => so_far.extend_from_slice(&rule.replacement),
                false => expand_groups(
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
