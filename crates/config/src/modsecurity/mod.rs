//! ModSecurity's rules on their way from files and texts to a set that requests are put to.
//!
//! Whoever reads a configuration (ours, Apache's) says in order what there is, and
//! [`Rules::compile`] makes a set of it by libmodsecurity. Difficulty: the library reads its files
//! itself, and knows neither `IncludeOptional` nor all that the module for Apache knows, with which
//! Debian's files are written. So files are read here first: what the library understands is left
//! to it, by name, and the rest reaches it as text, whose lines are mapped back to where they
//! stood, in faults and in lines of the log. Absent on purpose: any understanding of rules
//! themselves.

mod logs;
mod reading;
mod wants;
mod words;

#[cfg(test)]
mod tests;

pub use logs::write_logs;
pub use reading::{Reading, Remark};
pub use wants::Engine;
pub use words::{Word, words};

use crate::{diagnostic::Diagnostic, model::Origin};
use saker_net::modsecurity::{Part, RuleSet, RulesFault, Transaction};
use std::sync::Arc;
use wants::Wants;

/// How the library calls what it was given as text.
const NO_FILE: &str = "[file \"<<reference missing or not informed>>\"] [line \"";
/// Where the rules say nothing: mod_security's own bound, which is a hard one here.
const REQUEST_BYTES_MAX: u64 = 128 << 20;
const RESPONSE_BYTES: u64 = 512 << 10;
const RESPONSE_BYTES_MAX: u64 = 16 << 20;

/// A set, and what it wants to see.
#[derive(Debug)]
pub struct Rules {
    set: Arc<RuleSet>,
    wants: Wants,
    /// Of its texts, where each line stood.
    lines: Box<[Place]>,
}

/// A line of a file.
pub(crate) type Place = (Arc<str>, u32);

impl Rules {
    /// `origin`: where rules were asked for.
    pub fn compile(reading: Reading, origin: &Origin) -> Result<Rules, Diagnostic> {
        let (parts, lines, wants) = reading.into_parts();
        let set =
            RuleSet::new(&parts).map_err(|fault| diagnostic(&fault, &parts, &lines, origin))?;
        Ok(Rules {
            set: Arc::new(set),
            wants,
            lines: lines.into(),
        })
    }

    pub fn transaction(&self, id: &str) -> Option<Transaction> {
        Transaction::new(&self.set, id)
    }

    /// Whether what they say is done.
    pub fn is_enforcing(&self) -> bool {
        self.wants.engine == Some(Engine::On)
    }

    pub fn wants_request_content(&self) -> bool {
        self.wants.request_content()
    }

    /// More than that is nobody's to look at.
    pub fn request_bytes_max(&self) -> u64 {
        // The library has to see that there is more than it takes.
        self.wants.request_bytes.map_or(REQUEST_BYTES_MAX, |limit| {
            limit.saturating_add(1).min(REQUEST_BYTES_MAX)
        })
    }

    pub fn wants_response_content(&self, media_type: &[u8]) -> bool {
        self.wants.response_content(media_type)
    }

    pub fn response_bytes_max(&self) -> u64 {
        self.wants
            .response_bytes
            .unwrap_or(RESPONSE_BYTES)
            .saturating_add(1)
            .min(RESPONSE_BYTES_MAX)
    }

    /// A line of the library's with the places of texts in it, and the host under its name.
    pub fn told(&self, line: &str, host: &str) -> String {
        with_host(&self.located(line), host)
    }

    fn located(&self, line: &str) -> String {
        let Some((before, rest)) = line.split_once(NO_FILE) else {
            return line.to_owned();
        };
        let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let behind = rest.get(number.len()..).unwrap_or_default();
        let (file, at) = self.place(number.parse().unwrap_or(0)).unwrap_or(("-", 0));
        format!("{before}[file \"{file}\"] [line \"{at}{behind}")
    }

    fn place(&self, line: usize) -> Option<(&str, u32)> {
        place(&self.lines, line)
    }
}

fn place(lines: &[Place], line: usize) -> Option<(&str, u32)> {
    lines
        .get(line.checked_sub(1)?)
        .map(|(file, at)| (&**file, *at))
}

/// The library knows the server's address only; what rules' readers look for is the host.
fn with_host(line: &str, host: &str) -> String {
    let cut = line
        .split_once("[hostname \"")
        .and_then(|(before, rest)| Some((before, rest.split_once('"')?.1)));
    let host: String = host
        .chars()
        .filter(|letter| !letter.is_control() && *letter != '"')
        .collect();
    cut.map_or_else(
        || line.to_owned(),
        |(before, behind)| format!("{before}[hostname \"{host}\"{behind}"),
    )
}

/// `Rules error. File: a.conf. Line: 3. Column: 11. What is wrong` with a place of its own.
fn diagnostic(fault: &RulesFault, parts: &[Part], lines: &[Place], origin: &Origin) -> Diagnostic {
    let number = |name: &str| -> u32 {
        let digits = fault.message.split_once(name).map_or("", |(_, rest)| rest);
        digits
            .chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
            .parse()
            .unwrap_or(0)
    };
    let line = number("Line: ").max(number("at line: "));
    let part = fault.part.and_then(|at| parts.get(at));
    let column = number("Column: ");
    // What the library does not support it says of no place.
    let is_placed = column > 0 || fault.message.contains("at line: ");
    let origin = match part {
        Some(Part::File(path)) => Origin {
            file: path.display().to_string().into(),
            line: if is_placed { line } else { 0 },
            column: column.max(1),
        },
        Some(Part::Text(text)) => {
            let first = text.iter().take_while(|byte| **byte == b'\n').count() + 1;
            let line = if is_placed { line as usize } else { first };
            place(lines, line).map_or_else(
                || origin.clone(),
                |(file, line)| Origin {
                    file: file.into(),
                    line,
                    column: 1,
                },
            )
        }
        None => origin.clone(),
    };
    Diagnostic::without_source(origin, format!("ModSecurity: {}", reason(&fault.message)))
}

fn reason(message: &str) -> String {
    let behind_place = message
        .split_once("Column: ")
        .and_then(|(_, rest)| rest.split_once(". "))
        .map(|(_, reason)| reason);
    without_place(behind_place.unwrap_or(message))
        .trim()
        .to_owned()
}

/// `What is wrong File: a.conf at line: 3`: of some files the library has an address there, and the
/// diagnostic has the place.
fn without_place(message: &str) -> String {
    let cut = message
        .split_once("File: ")
        .and_then(|(before, rest)| Some((before, rest.split_once(" at line: ")?.1)));
    cut.map_or_else(
        || message.to_owned(),
        |(before, behind)| {
            format!(
                "{} {}",
                before.trim_end(),
                behind
                    .trim_start_matches(|letter: char| letter.is_ascii_digit())
                    .trim_start()
            )
        },
    )
}
