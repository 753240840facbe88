//! ModSecurity rules, compiled from files and texts.
//!
//! Called by: both front ends, which list files and texts in order; [`Rules::compile`] makes a set
//! with libmodsecurity.
//! Caveat: the library reads its files itself, and knows neither `IncludeOptional` nor all
//! directives of the Apache module, which Debian's files use. So files are read here first: what
//! the library understands is left to it by name, the rest is passed as text, whose lines are
//! mapped back to their locations in errors and log lines.
//! Out of scope: the meaning of rules.

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

use crate::{diagnostic::Diagnostic, origin::Origin};
use saker_net::modsecurity::{Part, RuleSet, RulesFault, Transaction};
use std::sync::Arc;
use wants::Wants;

/// The library's name for rules passed as text.
const NO_FILE: &str = "[file \"<<reference missing or not informed>>\"] [line \"";
/// Default if the rules set none: mod_security's own limit, which is a hard one here.
const REQUEST_BYTES_MAX: u64 = 128 << 20;
const RESPONSE_BYTES: u64 = 512 << 10;
const RESPONSE_BYTES_MAX: u64 = 16 << 20;

/// A compiled set of rules, and the parts of requests and responses it needs.
#[derive(Debug)]
pub struct Rules {
    set: Arc<RuleSet>,
    wants: Wants,
    /// Locations of the lines of its texts.
    lines: Box<[Place]>,
}

/// A line of a file.
pub(crate) type Place = (Arc<str>, u32);

impl Rules {
    /// Compiles a set; `origin` is the location of the setting.
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

    /// Returns whether matches are enforced.
    pub fn is_enforcing(&self) -> bool {
        self.wants.engine == Some(Engine::On)
    }

    pub fn wants_request_content(&self) -> bool {
        self.wants.request_content()
    }

    /// Returns the number of body bytes to inspect.
    pub fn request_bytes_max(&self) -> u64 {
        // One more byte than the limit, so that the library sees that it is exceeded.
        self.wants.request_bytes.map_or(REQUEST_BYTES_MAX, |limit| {
            limit.saturating_add(1).min(REQUEST_BYTES_MAX)
        })
    }

    /// Returns the number of arguments that the set looks at. More cost as much as many requests.
    pub fn arguments_max(&self) -> u64 {
        self.wants.arguments_max()
    }

    /// Returns the byte between two arguments of a form.
    pub fn argument_separator(&self) -> u8 {
        self.wants.argument_separator()
    }

    /// True if the values of JSON are arguments.
    pub fn reads_json(&self) -> bool {
        self.wants.json()
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

    /// A log line of the library, with locations of texts and the host name filled in.
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

/// The library knows only the server's address; tools that read these logs need the host.
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

/// Parses `Rules error. File: a.conf. Line: 3. Column: 11. MESSAGE`.
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
    // Some errors of the library have no location.
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

/// Parses `MESSAGE File: a.conf at line: 3`: for some files the library has a memory address there,
/// and the diagnostic has the location.
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
