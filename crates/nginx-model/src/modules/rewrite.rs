//! ngx_http_rewrite_module: the script of a server or location.
//!
//! Called by: `load`, for blocks of servers, locations, and `if`.
//! Caveat: an `if` that holds gives the request the settings of its block and goes on behind it; it
//! is no branch.
//! Out of scope: running a script (`saker-nginx`).

use crate::{
    reading::Reading,
    text::Text,
    values::Regex,
    variables::{Builtin, Source, Variable},
};
use saker_nginx_syntax::Directive;
use std::sync::Arc;

/// A step of a script other than `if`.
#[derive(Clone, Debug)]
pub enum Statement {
    Break,
    Return(Return),
    Set(Target, Text),
    Rewrite(Arc<Rewrite>),
}

/// `return`
#[derive(Clone, Debug)]
pub struct Return {
    pub status: u16,
    /// A text, or a URL for redirects.
    pub text: Option<Text>,
    pub directive: Arc<str>,
}

/// The variable that `set` changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Slot(usize),
    Args,
    LimitRate,
}

/// End of a `rewrite`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    None,
    Last,
    Break,
    /// A status of a redirect.
    Redirect(u16),
}

/// `rewrite`
#[derive(Clone, Debug)]
pub struct Rewrite {
    pub regex: Regex,
    pub replacement: Text,
    /// The replacement ends with `?`: the request's arguments are not added.
    pub drops_args: bool,
    pub flag: Flag,
}

/// The condition of an `if`.
#[derive(Clone, Debug)]
pub enum Condition {
    /// Neither empty nor `0`.
    True(Variable),
    Equals(Variable, Text, bool),
    Matches(Variable, Regex, bool),
    File(FileTest, Text, bool),
}

/// A test of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileTest {
    File,
    Directory,
    Exists,
    Executable,
}

/// Names of directives of scripts.
pub fn is_script(name: &str) -> bool {
    matches!(name, "break" | "return" | "set" | "rewrite" | "if")
}

/// Reads a step other than `if`.
///
/// # Errors
/// nginx's message.
pub fn op(directive: &Directive, reading: &mut Reading<'_>) -> Result<Statement, String> {
    match directive.name() {
        "return" => returned(directive, reading),
        "set" => set(directive, reading),
        "rewrite" => rewrite(directive, reading),
        _ => Ok(Statement::Break),
    }
}

fn returned(directive: &Directive, reading: &mut Reading<'_>) -> Result<Statement, String> {
    let first = directive.argument(0);
    let is_url = |text: &str| {
        ["http://", "https://", "$scheme"]
            .iter()
            .any(|start| text.starts_with(start))
    };
    let (status, text) = match (first.parse::<u16>(), directive.arguments.len()) {
        (Ok(status), 1) if status <= 999 => (status, None),
        (Ok(status), _) if status <= 999 => (status, Some(directive.argument(1))),
        (_, 1) if is_url(first) => (302, Some(first)),
        _ => return Err(format!("invalid return code \"{first}\"")),
    };
    Ok(Statement::Return(Return {
        status: reading.final_status(status, directive),
        text: text.map(|text| reading.text(text)).transpose()?,
        directive: format!("return {first}").into(),
    }))
}

fn set(directive: &Directive, reading: &mut Reading<'_>) -> Result<Statement, String> {
    let name = directive
        .argument(0)
        .strip_prefix('$')
        .filter(|name| !name.is_empty())
        .ok_or_else(|| format!("invalid variable name \"{}\"", directive.argument(0)))?;
    let target = match Variable::known(&name.to_ascii_lowercase()) {
        Some(Variable::Builtin(Builtin::Args)) => Target::Args,
        Some(Variable::Builtin(Builtin::LimitRate)) => Target::LimitRate,
        Some(Variable::Builtin(_)) => return Err(format!("the duplicate \"{name}\" variable")),
        _ => Target::Slot(reading.variables.define(name, Source::Set)),
    };
    Ok(Statement::Set(target, reading.text(directive.argument(1))?))
}

fn rewrite(directive: &Directive, reading: &mut Reading<'_>) -> Result<Statement, String> {
    let mut replacement = directive.argument(1);
    let is_url = ["http://", "https://", "$scheme"]
        .iter()
        .any(|start| replacement.starts_with(start));
    let flag = match directive.arguments.get(2).map(|word| word.text.as_str()) {
        None if is_url => Flag::Redirect(302),
        None => Flag::None,
        Some("last") if is_url => Flag::Redirect(302),
        Some("break") if is_url => Flag::Redirect(302),
        Some("last") => Flag::Last,
        Some("break") => Flag::Break,
        Some("redirect") => Flag::Redirect(302),
        Some("permanent") => Flag::Redirect(301),
        Some(other) => return Err(format!("invalid parameter \"{other}\"")),
    };
    let drops_args = replacement.ends_with('?');
    if drops_args {
        replacement = replacement.strip_suffix('?').unwrap_or(replacement);
    }
    Ok(Statement::Rewrite(Arc::new(Rewrite {
        regex: Regex::compile(directive.argument(0), false, &mut reading.variables)?,
        replacement: reading.text(replacement)?,
        drops_args,
        flag,
    })))
}

/// Reads the condition of an `if`.
///
/// # Errors
/// nginx's message.
pub fn condition(directive: &Directive, reading: &mut Reading<'_>) -> Result<Condition, String> {
    let words = words_in_brackets(directive)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let unexpected = |word: &str| format!("invalid condition \"{word}\"");
    if let [test, path] = words.as_slice()
        && let Some((test, is_negated)) = file_test(test)
    {
        return Ok(Condition::File(test, reading.text(path)?, is_negated));
    }
    let name = words.first().copied().unwrap_or_default();
    let Some(name) = name.strip_prefix('$').filter(|name| !name.is_empty()) else {
        return Err(unexpected(name));
    };
    let name = name.trim_start_matches('{').trim_end_matches('}');
    let variable = reading.variables.named(name);
    match words.get(1..).unwrap_or_default() {
        [] => Ok(Condition::True(variable)),
        [operator @ ("=" | "!="), value] => Ok(Condition::Equals(
            variable,
            reading.text(value)?,
            *operator == "!=",
        )),
        [operator @ ("~" | "~*" | "!~" | "!~*"), pattern] => {
            let caseless = operator.ends_with('*');
            let regex = Regex::compile(pattern, caseless, &mut reading.variables)?;
            Ok(Condition::Matches(
                variable,
                regex,
                operator.starts_with('!'),
            ))
        }
        [other, ..] => Err(format!("unexpected \"{other}\" in condition")),
    }
}

/// Returns the words of a condition without its brackets.
fn words_in_brackets(directive: &Directive) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = directive.texts().map(str::to_owned).collect();
    let invalid = || format!("invalid condition \"{}\"", directive.argument(0));
    let first = words.first_mut().ok_or_else(invalid)?;
    *first = first.strip_prefix('(').ok_or_else(invalid)?.to_owned();
    let last = words.last_mut().ok_or_else(invalid)?;
    *last = last.strip_suffix(')').ok_or_else(invalid)?.to_owned();
    let count = words.len();
    let words: Vec<String> = words
        .into_iter()
        .enumerate()
        .filter(|(index, word)| !word.is_empty() || (1..count - 1).contains(index))
        .map(|(_, word)| word)
        .collect();
    match words.is_empty() {
        true => Err(invalid()),
        false => Ok(words),
    }
}

fn file_test(word: &str) -> Option<(FileTest, bool)> {
    let (word, is_negated) = match word.strip_prefix('!') {
        Some(rest) => (rest, true),
        None => (word, false),
    };
    let test = match word {
        "-f" => FileTest::File,
        "-d" => FileTest::Directory,
        "-e" => FileTest::Exists,
        "-x" => FileTest::Executable,
        _ => return None,
    };
    Some((test, is_negated))
}
