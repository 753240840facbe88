//! `Sed` (mod_sed): edits responses and request bodies by a script.
//!
//! Called by: the front ends, through [`filter_response`] and [`filter_request`].
//! Caveat: scripts know which line is the last, so each line waits until more follows; `N` and `n`
//! stop in the middle of the script until the next line is there. Scripts can loop and let a line
//! grow without end: both are bounded.
//! Out of scope: `w`, because responses write no files.

pub mod pattern;
pub mod script;

use crate::{
    budget::within_budget,
    transform::{Transform, TransformedBody, transform_response},
};
use saker_ap_expr::Work;
use saker_http::Status;
use saker_pipeline::{BodyError, RequestBody, RequestBudget, Response};
use saker_telemetry::{error_log, message};
use script::{Action, Address, Command, Printed, Script, Substitution, Which};
use std::{io::Read, rc::Rc, sync::Arc};

/// Longest line, and longest hold space (as in Apache).
const SPACE_BYTES_MAX: usize = 8 << 20;
/// Commands that run for one line.
const STEPS_MAX: usize = 100_000;
/// Bytes of a file that `r` prints.
const READ_BYTES_MAX: u64 = 1 << 20;

/// Sends a response through `script`.
///
/// # Errors
/// 500 if the script is incomplete, which is logged.
pub fn filter_response(
    response: &mut Response,
    script: Arc<Script>,
    budget: &Rc<RequestBudget>,
) -> Result<(), Status> {
    if let Some(complaint) = script.complaint() {
        failed(&complaint);
        return Err(Status::INTERNAL_SERVER_ERROR);
    }
    transform_response(response, Editor::new(script, Rc::clone(budget)));
    Ok(())
}

/// Returns a request body behind `script`.
pub fn filter_request(
    body: Box<dyn RequestBody>,
    script: Arc<Script>,
    budget: &Rc<RequestBudget>,
) -> Box<dyn RequestBody> {
    let editor = Editor::new(script, Rc::clone(budget));
    Box::new(TransformedBody::new(body, Box::new(editor)))
}

/// Action after a command.
enum Then {
    On,
    To(usize),
    /// The line is finished, and printed or not.
    Done,
    Dropped,
    /// The rest of the script runs with the next line.
    Wait,
}

pub struct Editor {
    script: Arc<Script>,
    /// Input of the next line, with its line break if it is complete.
    input: Vec<u8>,
    /// The pattern space: the line that commands edit.
    space: Vec<u8>,
    held: Vec<u8>,
    /// Open ranges, by command.
    in_range: Vec<bool>,
    line: u64,
    is_last: bool,
    /// The command that the next line resumes at.
    resume: Option<usize>,
    has_substituted: bool,
    /// Printed after the line.
    behind: Vec<u8>,
    has_quit: bool,
    budget: Rc<RequestBudget>,
}

impl Editor {
    pub fn new(script: Arc<Script>, budget: Rc<RequestBudget>) -> Editor {
        let in_range = vec![false; script.commands.len()];
        Editor {
            script,
            input: Vec::new(),
            space: Vec::new(),
            held: Vec::new(),
            in_range,
            line: 0,
            is_last: false,
            resume: None,
            has_substituted: false,
            behind: Vec::new(),
            has_quit: false,
            budget,
        }
    }

    /// Runs the script on the line read.
    fn run(&mut self, output: &mut Vec<u8>) -> Result<(), BodyError> {
        let mut line = std::mem::take(&mut self.input);
        line.truncate(line.len() - usize::from(line.ends_with(b"\n")));
        self.space.append(&mut line);
        (self.line, self.has_substituted) = (self.line + 1, false);
        let mut at = self.resume.take().unwrap_or(0);
        let script = Arc::clone(&self.script);
        let mut before = output.len() + self.behind.len();
        for _ in 0..STEPS_MAX {
            let Some(command) = script.commands.get(at) else {
                return self.line_done(true, output);
            };
            let then = match (self.is_selected(at, command), &command.action) {
                (true, Action::Block(_)) | (_, Action::End) => Then::On,
                (false, Action::Block(end)) => Then::To(*end),
                (true, action) => self.command(at, action, output)?,
                (false, _) => Then::On,
            };
            let put_out = output.len() + self.behind.len();
            self.budget
                .work()
                .look_at(self.space.len() + self.held.len() + put_out.abs_diff(before));
            self.budget.work().make(put_out.saturating_sub(before));
            before = put_out;
            within_budget(&self.budget, "Sed")?;
            if self.space.len().max(self.held.len()) > SPACE_BYTES_MAX {
                return Err(failed("a line has become too long"));
            }
            match then {
                Then::On => at += 1,
                Then::To(place) => at = place,
                Then::Done => return self.line_done(true, output),
                Then::Dropped => return self.line_done(false, output),
                Then::Wait => {
                    self.resume = Some(at + 1);
                    return Ok(());
                }
            }
        }
        Err(failed("the script goes in circles"))
    }

    fn line_done(&mut self, is_shown: bool, output: &mut Vec<u8>) -> Result<(), BodyError> {
        if is_shown && !self.script.is_quiet {
            put(&self.space, output);
        }
        output.append(&mut self.behind);
        self.space.clear();
        Ok(())
    }

    /// Returns whether a command applies to this line; opens and closes its range.
    fn is_selected(&mut self, at: usize, command: &Command) -> bool {
        command.is_negated != self.is_addressed(at, command)
    }

    fn is_addressed(&mut self, at: usize, command: &Command) -> bool {
        let Some(from) = &command.from else {
            return true;
        };
        if self.in_range.get(at) == Some(&true) {
            let (is_in, goes_on) = match &command.to {
                Some(Address::Line(number)) => (self.line <= *number, self.line < *number),
                Some(Address::Matches(regex)) => {
                    (true, !regex.pattern.is_match(&self.space).unwrap_or(false))
                }
                _ => (true, true),
            };
            self.set_range(at, goes_on);
            return is_in;
        }
        let (is_here, opens) = match from {
            Address::Line(number) => (self.line == *number, true),
            Address::Last => (self.is_last, false),
            Address::Matches(regex) => (regex.pattern.is_match(&self.space).unwrap_or(false), true),
        };
        if is_here && opens && command.to.is_some() {
            self.set_range(at, true);
        }
        is_here
    }

    fn set_range(&mut self, at: usize, open: bool) {
        if let Some(slot) = self.in_range.get_mut(at) {
            *slot = open;
        }
    }

    fn command(
        &mut self,
        at: usize,
        action: &Action,
        output: &mut Vec<u8>,
    ) -> Result<Then, BodyError> {
        match action {
            Action::Block(_) | Action::End => {}
            Action::Append(text) => put(text, &mut self.behind),
            Action::Read(path) => self.read(path),
            Action::Insert(text) => put(text, output),
            Action::Change(text) => {
                if self.in_range.get(at) != Some(&true) || self.is_last {
                    put(text, output);
                }
                return Ok(Then::Dropped);
            }
            Action::Branch(target) => return Ok(Then::To(self.script.target(target))),
            Action::Test(target) => {
                if std::mem::take(&mut self.has_substituted) {
                    return Ok(Then::To(self.script.target(target)));
                }
            }
            Action::Delete => return Ok(Then::Dropped),
            Action::DeleteFirst => return Ok(self.delete_first()),
            Action::Get => self.space.clone_from(&self.held),
            Action::GetAppend => append_line(&mut self.space, &self.held),
            Action::Hold => self.held.clone_from(&self.space),
            Action::HoldAppend => append_line(&mut self.held, &self.space),
            Action::Exchange => std::mem::swap(&mut self.space, &mut self.held),
            Action::List => list(&self.space, output),
            Action::Number => put(self.line.to_string().as_bytes(), output),
            Action::Print => put(&self.space, output),
            Action::PrintFirst => put(first_line(&self.space), output),
            Action::Next => {
                self.line_done(true, output)?;
                return Ok(Then::Wait);
            }
            Action::NextAppend => {
                output.append(&mut self.behind);
                self.space.push(b'\n');
                return Ok(Then::Wait);
            }
            Action::Quit => {
                self.has_quit = true;
                return Ok(Then::Done);
            }
            Action::Substitute(substitution) => self.substitute(substitution, output)?,
            Action::Transliterate(table) => self
                .space
                .iter_mut()
                .for_each(|byte| *byte = table[usize::from(*byte)]),
        }
        Ok(Then::On)
    }

    /// Deletes the first line and runs the script again on the rest.
    fn delete_first(&mut self) -> Then {
        let Some(at) = self.space.iter().position(|byte| *byte == b'\n') else {
            return Then::Dropped;
        };
        self.space.drain(..=at);
        Then::To(0)
    }

    /// Reads a file; one that can't be read counts as empty.
    fn read(&mut self, path: &std::path::Path) {
        if let Ok((file, _)) = saker_files::open_public(path) {
            let _ = file.take(READ_BYTES_MAX).read_to_end(&mut self.behind);
        }
    }

    fn substitute(
        &mut self,
        substitution: &Substitution,
        output: &mut Vec<u8>,
    ) -> Result<(), BodyError> {
        let Some(changed) = substituted(substitution, &self.space, self.budget.work())? else {
            return Ok(());
        };
        self.space = changed;
        self.has_substituted = true;
        // As Apache: only where lines are not put out by themselves.
        match substitution.print.filter(|_| self.script.is_quiet) {
            Some(Printed::Whole) => put(&self.space, output),
            Some(Printed::First) => put(first_line(&self.space), output),
            None => {}
        }
        Ok(())
    }
}

impl Transform for Editor {
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BodyError> {
        self.budget.work().grant_for(input.len());
        for piece in input.split_inclusive(|byte| *byte == b'\n') {
            if self.has_quit {
                return Ok(());
            }
            // The waiting line was not the last.
            if self.input.ends_with(b"\n") {
                self.run(output)?;
                if self.has_quit {
                    return Ok(());
                }
            }
            self.input.extend_from_slice(piece);
            if self.input.len() > SPACE_BYTES_MAX {
                return Err(failed("a line is too long"));
            }
        }
        Ok(())
    }

    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BodyError> {
        self.is_last = true;
        if self.has_quit || self.input.is_empty() {
            Ok(())
        } else {
            self.run(output)
        }
    }
}

/// Prints a line. Every line gets a line break, the last one, too.
fn put(line: &[u8], output: &mut Vec<u8>) {
    output.extend_from_slice(line);
    output.push(b'\n');
}

fn append_line(to: &mut Vec<u8>, line: &[u8]) {
    to.push(b'\n');
    to.extend_from_slice(line);
}

fn first_line(space: &[u8]) -> &[u8] {
    space
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default()
}

/// Returns the line after a substitution; `None`: nothing matched.
fn substituted(
    substitution: &Substitution,
    space: &[u8],
    work: &Work,
) -> Result<Option<Vec<u8>>, BodyError> {
    let (mut done, mut at, mut count, mut changed) = (Vec::new(), 0, 0, false);
    let mut from = 0;
    while let Ok(Some(spans)) = work.captures_in_content(&substitution.regex.pattern, space, from) {
        let Some(whole) = spans.get(0) else { break };
        // An empty match does not follow directly on another match.
        if whole.is_empty() && count > 0 && whole.start == at {
            if whole.start >= space.len() {
                break;
            }
            from = whole.start + 1;
            continue;
        }
        count += 1;
        done.extend_from_slice(space.get(at..whole.start).unwrap_or_default());
        if matches!(substitution.which, Which::First | Which::All)
            || substitution.which == Which::Only(count)
        {
            changed = true;
            fill_in(
                &substitution.replacement,
                |group| spans.text(group, space),
                &mut done,
            );
        } else {
            done.extend_from_slice(spans.text(0, space));
        }
        (at, from) = (whole.end, whole.end);
        if done.len() > SPACE_BYTES_MAX {
            return Err(failed("a line has become too long"));
        }
        let is_over =
            substitution.which == Which::First || substitution.which == Which::Only(count);
        if is_over || substitution.regex.is_anchored || at >= space.len() {
            break;
        }
    }
    done.extend_from_slice(space.get(at..).unwrap_or_default());
    Ok(changed.then_some(done))
}

/// Appends a replacement with `&` and `\1` filled in; a backslash makes any other byte literal.
fn fill_in<'t>(replacement: &[u8], group: impl Fn(usize) -> &'t [u8], done: &mut Vec<u8>) {
    let mut bytes = replacement.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'&' => done.extend_from_slice(group(0)),
            b'\\' => match bytes.next() {
                Some(digit @ b'1'..=b'9') => {
                    done.extend_from_slice(group(usize::from(digit - b'0')))
                }
                other => done.extend(other),
            },
            byte => done.push(byte),
        }
    }
}

/// Bytes of a line of `l` before the backslash at its end.
const LISTED_BYTES: usize = 71;

/// Prints a line with unprintable bytes in octal; long lines are folded.
fn list(space: &[u8], output: &mut Vec<u8>) {
    let mut column = 0;
    let shown = space.iter().flat_map(|byte| match byte {
        b'\n' => vec![b'\n'],
        b' '..=b'~' => vec![*byte],
        1..b' ' => format!("\\{byte:02o}").into_bytes(),
        byte => format!("\\{byte:03o}").into_bytes(),
    });
    for byte in shown {
        output.push(byte);
        column += 1;
        if column == LISTED_BYTES {
            output.extend_from_slice(b"\\\n");
            column = 0;
        }
    }
    output.push(b'\n');
}

fn failed(reason: &str) -> BodyError {
    error_log::log(&message::CONTENT_FILTER, format_args!("Sed: {reason}"));
    BodyError::Source
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
