//! Elements with an effect: config, echo, exec, flastmod, fsize, include, printenv, set.
//!
//! Called by: `page`. Each element processes its arguments in order; later ones see the effect of
//! earlier ones.
//! Caveat: as in Apache an invalid argument ends its element with the error message, and output of
//! earlier arguments has been sent already.

use crate::{
    coding::{Direction, apply, html, without_entities},
    context::SsiContext,
    scanner::{Argument, Element},
    state::{Answer, Demand, State, Target},
    substitution::Missing,
    variables::{Lazy, Value},
};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Config,
    Echo,
    Exec,
    FileModified,
    FileSize,
    Include,
    PrintEnvironment,
    Set,
}

const KINDS: &[(&str, Kind)] = &[
    ("config", Kind::Config),
    ("echo", Kind::Echo),
    ("exec", Kind::Exec),
    ("flastmod", Kind::FileModified),
    ("fsize", Kind::FileSize),
    ("include", Kind::Include),
    ("printenv", Kind::PrintEnvironment),
    ("set", Kind::Set),
];

/// An element that is being carried out.
pub struct Running {
    kind: Kind,
    arguments: VecDeque<Argument>,
    encoding: Vec<u8>,
    decoding: Vec<u8>,
    /// Variable named by `set`.
    variable: Option<Vec<u8>>,
    /// The last one that was to be included could not be.
    has_failed: bool,
}

/// Result of an argument.
enum Outcome {
    Next,
    Demand(Demand),
    /// The rest of the element is not looked at; its error has been said.
    Stop,
}

/// Error in a name or value, for the log; the page shows its error message.
type Fault = String;

impl Running {
    /// The error is the name of an unknown element.
    pub fn new(element: Element) -> Result<Running, String> {
        let kind = KINDS
            .iter()
            .find(|(name, _)| name.as_bytes() == element.name)
            .map(|(_, kind)| *kind);
        let kind = kind.ok_or_else(|| String::from_utf8_lossy(&element.name).into_owned())?;
        let encoding: &[u8] = if kind == Kind::Echo {
            b"entity"
        } else {
            b"none"
        };
        Ok(Running {
            kind,
            arguments: element.arguments,
            encoding: encoding.to_vec(),
            decoding: b"none".to_vec(),
            variable: None,
            has_failed: false,
        })
    }

    /// Reason for not executing the element at all.
    pub fn refusal(&self, may_run: bool) -> Option<Fault> {
        let name = self.name();
        let (count, wanted) = (
            self.arguments.len(),
            if self.kind == Kind::Set { 2 } else { 1 },
        );
        match self.kind {
            Kind::PrintEnvironment => {
                (count > 0).then(|| "printenv directive does not take tags".to_owned())
            }
            _ if count < wanted => Some(format!("missing argument for {name} element")),
            Kind::Exec if !may_run => Some("exec used but not allowed".to_owned()),
            _ => None,
        }
    }

    fn name(&self) -> &'static str {
        KINDS
            .iter()
            .find(|(_, kind)| *kind == self.kind)
            .map_or("", |(name, _)| name)
    }

    /// Up to its end, or to the next demand.
    pub fn go_on(&mut self, state: &mut State, context: &mut dyn SsiContext) -> Option<Demand> {
        if self.kind == Kind::PrintEnvironment {
            print(state, context);
            return None;
        }
        // As in Apache, an argument without a value is the last one.
        while let Some(Argument {
            name,
            value: Some(value),
        }) = self.arguments.pop_front()
        {
            let outcome = match self.kind {
                Kind::Config => self.config(&name, &value, state, context),
                Kind::Echo => self.echo(&name, &value, state, context),
                Kind::Set => self.set(&name, &value, state, context),
                Kind::Include => self.include(&name, &value, state, context),
                Kind::Exec => self.exec(&name, &value, state, context),
                Kind::FileSize | Kind::FileModified => self.look(&name, &value, state, context),
                Kind::PrintEnvironment => Ok(Outcome::Stop),
            };
            match outcome {
                Ok(Outcome::Next) => {}
                Ok(Outcome::Demand(demand)) => return Some(demand),
                Ok(Outcome::Stop) => break,
                Err(fault) => {
                    context.complain(fault);
                    state.fail();
                    break;
                }
            }
        }
        self.arguments.clear();
        if std::mem::take(&mut self.has_failed) {
            state.fail();
        }
        None
    }

    pub fn answered(&mut self, answer: Answer, state: &mut State, context: &mut dyn SsiContext) {
        match (self.kind, answer) {
            // One that stands in for an error and fails itself is the end.
            (Kind::Include, Answer::Failed) => {
                if self.has_failed {
                    self.arguments.clear();
                }
                self.has_failed = true;
            }
            (Kind::Include, _) => self.has_failed = false,
            (Kind::FileSize, Answer::Found { bytes, .. }) => {
                let text = if state.size_in_bytes {
                    grouped(bytes)
                } else {
                    context.short_size(bytes)
                };
                state.out.extend_from_slice(&text);
            }
            (Kind::FileModified, Answer::Found { modified_s, .. }) => {
                let text = context.time(&state.settings.time_format, modified_s);
                state.out.extend_from_slice(&text);
            }
            (Kind::Exec, Answer::Done) => {}
            _ => {
                self.arguments.clear();
                state.fail();
            }
        }
    }

    fn unknown(&self, name: &[u8]) -> Fault {
        format!(
            "unknown parameter \"{}\" to tag {}",
            String::from_utf8_lossy(name),
            self.name()
        )
    }

    fn config(
        &mut self,
        name: &[u8],
        value: &[u8],
        state: &mut State,
        context: &mut dyn SsiContext,
    ) -> Result<Outcome, Fault> {
        let text = state.put_in(value, Missing::Nothing, context);
        match (name, text.as_slice()) {
            (b"errmsg", _) => state.settings.error_message = text.into(),
            (b"echomsg", _) => state.settings.undefined_echo = text.into(),
            (b"timefmt", _) => {
                for (variable, lazy) in Lazy::ALL
                    .into_iter()
                    .filter(|(_, lazy)| *lazy != Lazy::UserName)
                {
                    let value = context.lazy(lazy, &text);
                    context.variables().set(variable.as_bytes(), &value);
                }
                state.settings.time_format = text.into();
            }
            (b"sizefmt", b"bytes") => state.size_in_bytes = true,
            (b"sizefmt", b"abbrev") => state.size_in_bytes = false,
            (b"sizefmt", _) => {
                return Err(format!(
                    "unknown value \"{}\" to parameter \"sizefmt\" of tag config",
                    String::from_utf8_lossy(&text)
                ));
            }
            _ => return Err(self.unknown(name)),
        }
        Ok(Outcome::Next)
    }

    fn echo(
        &mut self,
        name: &[u8],
        value: &[u8],
        state: &mut State,
        context: &mut dyn SsiContext,
    ) -> Result<Outcome, Fault> {
        let value = without_entities(value);
        match name {
            b"var" => {
                let variable = state.put_in(&value, Missing::Nothing, context);
                let Some(value) = state.value(&variable, context) else {
                    let undefined = state.settings.undefined_echo.clone();
                    state.out.extend_from_slice(&undefined);
                    return Ok(Outcome::Next);
                };
                let Some(text) = self.coded(value, state, context) else {
                    return Ok(Outcome::Stop);
                };
                state.out.extend_from_slice(&text);
            }
            b"decoding" => self.decoding = value,
            b"encoding" => self.encoding = value,
            _ => return Err(self.unknown(name)),
        }
        Ok(Outcome::Next)
    }

    fn set(
        &mut self,
        name: &[u8],
        value: &[u8],
        state: &mut State,
        context: &mut dyn SsiContext,
    ) -> Result<Outcome, Fault> {
        match name {
            b"var" => {
                self.variable =
                    Some(state.put_in(&without_entities(value), Missing::Nothing, context))
            }
            b"decoding" => self.decoding = value.to_vec(),
            b"encoding" => self.encoding = value.to_vec(),
            b"value" => {
                let variable = self
                    .variable
                    .clone()
                    .ok_or("variable must precede value in set directive")?;
                let text = state.put_in(value, Missing::Nothing, context);
                let Some(text) = self.coded(text, state, context) else {
                    return Ok(Outcome::Stop);
                };
                if !context.variables().set(&variable, &text) {
                    return Err("there are as many variables as there may be".to_owned());
                }
            }
            _ => return Err("Invalid tag for set directive".to_owned()),
        }
        Ok(Outcome::Next)
    }

    /// Decodes and then encodes a value. An unknown coding is reported.
    fn coded(
        &self,
        value: Vec<u8>,
        state: &mut State,
        context: &mut dyn SsiContext,
    ) -> Option<Vec<u8>> {
        let mut all_known = true;
        let mut text = value;
        for (direction, parameter, list) in [
            (Direction::Decode, "decoding", &self.decoding),
            (Direction::Encode, "encoding", &self.encoding),
        ] {
            text = apply(direction, list, text).unwrap_or_else(|(text, unknown)| {
                context.complain(format!(
                    "unknown value \"{unknown}\" to parameter \"{parameter}\" of tag {}",
                    self.name()
                ));
                state.fail();
                all_known = false;
                text
            });
        }
        all_known.then_some(text)
    }

    /// `onerror` stands in for the one before it, if that failed; `virtual` waits until something
    /// went well again.
    fn include(
        &mut self,
        name: &[u8],
        value: &[u8],
        state: &mut State,
        context: &mut dyn SsiContext,
    ) -> Result<Outcome, Fault> {
        if !matches!(name, b"virtual" | b"file" | b"onerror") {
            return Err(self.unknown(name));
        }
        let path = state.put_in(&without_entities(value), Missing::Nothing, context);
        Ok(match (name, self.has_failed) {
            (b"file", _) => Outcome::Demand(Demand::Include(Target::File(path))),
            (b"virtual", false) | (b"onerror", true) => {
                Outcome::Demand(Demand::Include(Target::Virtual(path)))
            }
            _ => Outcome::Next,
        })
    }

    fn exec(
        &mut self,
        name: &[u8],
        value: &[u8],
        state: &mut State,
        context: &mut dyn SsiContext,
    ) -> Result<Outcome, Fault> {
        let value = without_entities(value);
        match name {
            b"cmd" => Ok(Outcome::Demand(Demand::Command(state.put_in(
                &value,
                Missing::Name,
                context,
            )))),
            b"cgi" => Ok(Outcome::Demand(Demand::Program(state.put_in(
                &value,
                Missing::Nothing,
                context,
            )))),
            _ => Err(self.unknown(name)),
        }
    }

    fn look(
        &mut self,
        name: &[u8],
        value: &[u8],
        state: &mut State,
        context: &mut dyn SsiContext,
    ) -> Result<Outcome, Fault> {
        let path = state.put_in(&without_entities(value), Missing::Nothing, context);
        match name {
            b"file" => Ok(Outcome::Demand(Demand::Look(Target::File(path)))),
            b"virtual" => Ok(Outcome::Demand(Demand::Look(Target::Virtual(path)))),
            _ => Err(self.unknown(name)),
        }
    }
}

/// Prints all variables, one per line.
fn print(state: &mut State, context: &mut dyn SsiContext) {
    let all: Vec<(Vec<u8>, Value)> = context
        .variables()
        .iter()
        .map(|(name, value)| (name.to_vec(), value.clone()))
        .collect();
    for (name, value) in all {
        let value = match value {
            Value::Text(text) => text.into_vec(),
            Value::Lazy(_) => state.value(&name, context).unwrap_or_default(),
        };
        for part in [&html(&name), b"=".as_slice(), &html(&value), b"\n"] {
            state.out.extend_from_slice(part);
        }
    }
}

/// `1,234,567`
fn grouped(number: u64) -> Vec<u8> {
    let digits = number.to_string().into_bytes();
    let mut out = Vec::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.iter().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(b',');
        }
        out.push(*digit);
    }
    out
}
