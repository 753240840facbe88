//! Texts whose values are known in a handshake: `$ssl_server_name`, and maps of it.
//!
//! Called by: `assemble`, for `ssl_certificate` and `ssl_certificate_key` with variables.
//! Caveat: other variables have no value before there is a request, so a text with one of them is
//! refused when the server starts. Groups of expressions have none, either.
//! Out of scope: texts of requests (`saker-nginx`).

use crate::{
    modules::maps::Map,
    text::{Part, Text},
    variables::{Builtin, NamedVariable, Source, Variable},
};
use saker_config::model::OfServerName;
use std::{path::PathBuf, sync::Arc};

/// Maps whose sources are maps.
const DEPTH_MAX: u8 = 16;
/// A certificate with its chain in a variable.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// The variables and maps of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    pub variables: Arc<[NamedVariable]>,
    pub maps: Arc<[Arc<Map>]>,
}

impl Tables {
    /// Those of a configuration.
    pub fn of(variables: &[NamedVariable], maps: &[Arc<Map>]) -> Tables {
        Tables {
            variables: variables.into(),
            maps: maps.into(),
        }
    }

    /// Compiles a text.
    ///
    /// # Errors
    /// A message for a variable without a value in handshakes.
    pub fn compile(&self, text: &Text) -> Result<OfServerName, String> {
        self.check(text, 0)?;
        let (tables, own) = (self.clone(), text.clone());
        Ok(OfServerName {
            source: text.source.clone(),
            value: Arc::new(move |name| {
                let mut value = Vec::new();
                tables.append(&own, name, 0, &mut value);
                value
            }),
        })
    }

    /// Returns the directories in which the files of a text can be, as far as its beginning tells.
    pub fn folders(&self, text: &Text) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        self.add_folders(text, 0, &mut folders);
        folders.retain(|folder| folder.parent().is_some());
        folders
    }

    fn add_folders(&self, text: &Text, depth: u8, folders: &mut Vec<PathBuf>) {
        match text.parts.first() {
            Some(Part::Literal(start)) if !start.starts_with(b"data:") => {
                let start = String::from_utf8_lossy(start);
                let end = start.rfind('/').map_or(0, |at| at + 1);
                folders.push(start.get(..end).unwrap_or_default().into());
                if depth > 0 {
                    // It may be the directory of what follows it.
                    folders.push(start.into_owned().into());
                }
            }
            Some(Part::Variable(variable)) if depth < DEPTH_MAX => {
                let Some(map) = self.map(variable) else {
                    return;
                };
                for value in map.names.values().chain(&map.default) {
                    self.add_folders(value, depth + 1, folders);
                }
            }
            _ => {}
        }
    }

    fn map(&self, variable: &Variable) -> Option<&Arc<Map>> {
        let Variable::Named(number) = variable else {
            return None;
        };
        match self.variables.get(*number)?.source {
            Source::Map(at) => self.maps.get(at),
            _ => None,
        }
    }

    fn check(&self, text: &Text, depth: u8) -> Result<(), String> {
        let unknown = |text: &Text| {
            Err(format!(
                "\"{}\" has no value in a handshake: use $ssl_server_name, or a map of it",
                text.source
            ))
        };
        if depth >= DEPTH_MAX {
            return unknown(text);
        }
        for part in &text.parts {
            match part {
                Part::Literal(_) | Part::Capture(_) => {}
                Part::Variable(Variable::Builtin(Builtin::SslServerName)) => {}
                Part::Variable(variable) => match self.map(variable) {
                    Some(map) => self.check(&map.source, depth + 1)?,
                    None => return unknown(text),
                },
            }
        }
        Ok(())
    }

    fn append(&self, text: &Text, name: &str, depth: u8, value: &mut Vec<u8>) {
        for part in &text.parts {
            match part {
                Part::Literal(literal) => value.extend_from_slice(literal),
                Part::Capture(_) => {}
                Part::Variable(Variable::Builtin(Builtin::SslServerName)) => {
                    value.extend_from_slice(name.as_bytes());
                }
                Part::Variable(variable) => {
                    let chosen = self
                        .map(variable)
                        .filter(|_| depth < DEPTH_MAX)
                        .and_then(|map| self.choose(map, name, depth));
                    if let Some(chosen) = chosen {
                        self.append(chosen, name, depth + 1, value);
                    }
                }
            }
            if value.len() > VALUE_BYTES_MAX {
                return value.clear();
            }
        }
    }

    fn choose<'m>(&self, map: &'m Map, name: &str, depth: u8) -> Option<&'m Text> {
        let mut source = Vec::new();
        self.append(&map.source, name, depth + 1, &mut source);
        let lower = String::from_utf8_lossy(&source).to_ascii_lowercase();
        let literal = map.names.literal(&lower);
        let by_expression = || {
            let mut regexes = map.names.regexes.iter().filter(|_| !source.is_empty());
            let found = regexes.find(|(regex, _)| regex.pattern.is_match(&source).unwrap_or(false));
            found.map(|(_, text)| text)
        };
        literal.or_else(by_expression).or(map.default.as_ref())
    }
}
