//! LogLevel: of the whole server, and of a module, here or in a section.
//!
//! Difficulty: our messages have areas, not Apache's modules. Traces of rewriting go by what is
//! said at the file; all else by what is said for the server, as far as a module has an area of its
//! own.

use crate::{
    arguments::texts,
    reading::{Reading, Set},
};
use saker_apache_syntax::Node;
use saker_config::model::LogLevel as Level;
use saker_telemetry::httpd_message;
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default)]
pub struct LogLevel {
    default: Option<u8>,
    /// By name without `mod_`, `.c` and `_module`.
    modules: Vec<(Box<str>, u8)>,
}

/// As Apache counts: 0 emerg, 3 error, 4 warn, 7 debug, 8 to 15 trace1 to trace8.
const NAMES: [&str; 8] = [
    "emerg", "alert", "crit", "error", "warn", "notice", "info", "debug",
];

const INFO: u8 = 6;

const DEBUG: u8 = 7;

impl LogLevel {
    pub const DIRECTIVES: &'static [(&'static str, Set<LogLevel>)] = &[("LogLevel", set)];

    pub fn merge(&self, over: &LogLevel) -> LogLevel {
        let mut modules = self.modules.clone();
        over.modules
            .iter()
            .for_each(|(name, level)| say(&mut modules, name, *level));
        LogLevel {
            default: over.default.or(self.default),
            modules,
        }
    }

    pub fn is_said(&self) -> bool {
        self.default.is_some() || !self.modules.is_empty()
    }

    /// The level of the rewrite trace; 0: off.
    pub fn rewrite_trace(&self) -> u8 {
        self.of("rewrite")
            .or(self.default)
            .unwrap_or_default()
            .saturating_sub(DEBUG)
    }

    pub fn tells_info(&self, module: &str) -> bool {
        self.of(module).or(self.default).unwrap_or_default() >= INFO
    }

    pub fn tells_debug(&self, module: &str) -> bool {
        self.of(module).or(self.default).unwrap_or_default() >= DEBUG
    }

    fn of(&self, module: &str) -> Option<u8> {
        self.modules
            .iter()
            .find(|(name, _)| **name == *module)
            .map(|(_, level)| *level)
    }

    /// Level of the server's messages. Messages about its own life are notices, which Apache writes
    /// at `warn`, too.
    pub fn of_server(&self) -> Level {
        self.default.map_or(Level::Notice, level)
    }

    /// Levels of those areas of messages that have a module's name, and of the modules whose lines
    /// are written in Apache's words.
    pub fn of_areas(&self) -> Vec<(&'static str, Level)> {
        const AREAS: [(&str, &str); 3] = [("ssl", "tls"), ("http", "http"), ("http2", "http")];
        let of_area = |module: &str, area: &'static str| Some((area, level(self.of(module)?)));
        let of_modules = BTreeSet::from_iter(httpd_message::modules())
            .into_iter()
            .filter_map(|module| of_area(module, module));
        AREAS
            .iter()
            .filter_map(|(module, area)| of_area(module, area))
            .chain(of_modules)
            .collect()
    }
}

fn level(number: u8) -> Level {
    match number {
        0..=3 => Level::Error,
        4 | 5 => Level::Notice,
        6 => Level::Info,
        _ => Level::Debug,
    }
}

fn say(modules: &mut Vec<(Box<str>, u8)>, name: &str, level: u8) {
    match modules.iter_mut().find(|(known, _)| **known == *name) {
        Some((_, known)) => *known = level,
        None => modules.push((name.into(), level)),
    }
}

fn parse(word: &str) -> Option<u8> {
    let lower = word.to_ascii_lowercase();
    if let Some(number) = lower.strip_prefix("trace") {
        return number
            .parse()
            .ok()
            .filter(|number| (1..=8).contains(number))
            .map(|number: u8| DEBUG + number);
    }
    NAMES
        .iter()
        .position(|name| *name == lower)
        .map(|at| at as u8)
}

fn set(node: &Node, loglevel: &mut LogLevel, _: &mut Reading<'_>) -> Result<(), String> {
    for word in texts(node) {
        let (module, name) = word
            .rsplit_once(':')
            .map_or((None, word.as_str()), |(module, name)| (Some(module), name));
        let level = parse(name).ok_or_else(|| {
            format!("LogLevel keyword must be one of emerg/alert/crit/error/warn/notice/info/debug/trace1/.../trace8: {name}")
        })?;
        match module {
            None => {
                // As Apache: what was said of modules before is forgotten.
                *loglevel = LogLevel {
                    default: Some(level),
                    modules: Vec::new(),
                };
            }
            Some(module) => {
                let bare = module.strip_prefix("mod_").unwrap_or(module);
                let bare = bare
                    .strip_suffix(".c")
                    .or_else(|| bare.strip_suffix("_module"))
                    .unwrap_or(bare);
                say(&mut loglevel.modules, bare, level);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels() {
        assert_eq!(
            (
                parse("Warn"),
                parse("trace1"),
                parse("trace8"),
                parse("trace9"),
                parse("loud")
            ),
            (Some(4), Some(8), Some(15), None, None)
        );
        let outer = LogLevel {
            default: Some(4),
            modules: vec![("rewrite".into(), 10), ("ssl".into(), 6)],
        };
        assert_eq!(
            (outer.rewrite_trace(), outer.of_server()),
            (3, Level::Notice)
        );
        assert_eq!(
            outer.of_areas(),
            [("tls", Level::Info), ("ssl", Level::Info)]
        );
        let inner = LogLevel {
            default: Some(15),
            modules: vec![("rewrite".into(), 8)],
        };
        assert_eq!(
            (
                outer.merge(&inner).rewrite_trace(),
                outer.merge(&LogLevel::default()).rewrite_trace()
            ),
            (1, 3)
        );
        assert_eq!(
            LogLevel {
                default: Some(9),
                modules: Vec::new()
            }
            .rewrite_trace(),
            2
        );
    }
}
