//! `map`, `split_clients`, and `valid_referers`: variables made of others.
//!
//! Called by: `load`.
//! Caveat: names of hosts have wildcards only where `hostnames` says so; the order is nginx's:
//! exact, longest wildcard at the beginning, longest at the end, expressions in the order of the
//! file.
//! Out of scope: evaluation (`saker-nginx`).

use crate::{
    modules::{charset::CharsetMap, geoip::GeoIpTables, network_index::NetworkIndex},
    reading::Reading,
    text::Text,
    values::Regex,
};
use saker_ap_expr::Subnet;
use saker_nginx_syntax::Directive;
use std::{collections::HashMap, sync::Arc};

/// A `map`.
#[derive(Clone, Debug, Default)]
pub struct Map {
    pub source: Text,
    pub names: NameTable<Text>,
    pub default: Option<Text>,
    pub is_volatile: bool,
    /// Keys are names of hosts, and a dot at the end of a value means nothing.
    pub has_hostnames: bool,
}

/// All tables that variables are looked up in, by the numbers of their sources.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    pub maps: Vec<Arc<Map>>,
    pub geos: Vec<Arc<Geo>>,
    pub splits: Vec<Arc<Split>>,
    pub charsets: Vec<Arc<CharsetMap>>,
    pub geoip: GeoIpTables,
}

/// Values by a name in lower case, with wildcards and expressions.
#[derive(Clone, Debug)]
pub struct NameTable<T> {
    exact: HashMap<Box<str>, T>,
    /// By what follows `*`, with its dot.
    suffixes: HashMap<Box<str>, T>,
    /// By what precedes `*`, with its dot.
    prefixes: HashMap<Box<str>, T>,
    pub regexes: Vec<(Regex, T)>,
}

impl<T> Default for NameTable<T> {
    fn default() -> Self {
        NameTable {
            exact: HashMap::new(),
            suffixes: HashMap::new(),
            prefixes: HashMap::new(),
            regexes: Vec::new(),
        }
    }
}

impl<T: Clone> NameTable<T> {
    /// Adds an exact name; returns false if there is one.
    pub fn add_exact(&mut self, name: &str, value: T) -> bool {
        add(&mut self.exact, name, value)
    }

    /// Adds a name with a wildcard: `*.a`, `.a`, or `a.*`. Returns `None` if it has none, and false
    /// if it is there.
    pub fn add_wildcard(&mut self, name: &str, value: T) -> Option<bool> {
        if let Some(rest) = name.strip_prefix("*.") {
            return Some(add(&mut self.suffixes, &format!(".{rest}"), value));
        }
        if let Some(rest) = name.strip_prefix('.') {
            let is_new = add(&mut self.suffixes, name, value.clone());
            return Some(add(&mut self.exact, rest, value) && is_new);
        }
        let rest = name.strip_suffix(".*")?;
        Some(add(&mut self.prefixes, &format!("{rest}."), value))
    }

    /// Returns the value of a name with or without a wildcard, as it would be added.
    pub fn literal_of(&self, name: &str) -> Option<&T> {
        let name = name.to_ascii_lowercase();
        if let Some(rest) = name.strip_prefix("*.") {
            return self.suffixes.get(format!(".{rest}").as_str());
        }
        match name.strip_suffix(".*") {
            Some(rest) => self.prefixes.get(format!("{rest}.").as_str()),
            None if name.starts_with('.') => self.suffixes.get(name.as_str()),
            None => self.exact.get(name.as_str()),
        }
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        let named = self.exact.values().chain(self.suffixes.values());
        let named = named.chain(self.prefixes.values());
        named.chain(self.regexes.iter().map(|(_, value)| value))
    }

    /// Returns the value of an exact name or the longest wildcard.
    pub fn literal(&self, name: &str) -> Option<&T> {
        if let Some(value) = self.exact.get(name) {
            return Some(value);
        }
        let dots = || name.bytes().enumerate().filter(|(_, byte)| *byte == b'.');
        let suffix = |(at, _): (usize, u8)| self.suffixes.get(name.get(at..)?);
        if !self.suffixes.is_empty()
            && let Some(value) = dots().find_map(suffix)
        {
            return Some(value);
        }
        if self.prefixes.is_empty() {
            return None;
        }
        let ends: Vec<usize> = dots().map(|(at, _)| at + 1).collect();
        let prefix = |end: &usize| self.prefixes.get(name.get(..*end)?);
        // Something stands for the wildcard.
        let is_inside = |end: &&usize| **end < name.len();
        ends.iter().rev().filter(is_inside).find_map(prefix)
    }
}

fn add<T>(table: &mut HashMap<Box<str>, T>, name: &str, value: T) -> bool {
    let name = name.to_ascii_lowercase();
    if table.contains_key(name.as_str()) {
        return false;
    }
    table.insert(name.into(), value);
    true
}

/// A `geo`.
#[derive(Clone, Debug, Default)]
pub struct Geo {
    /// The address; `None`: the client's.
    pub source: Option<Text>,
    /// Networks, longest prefix last.
    pub networks: Vec<(Subnet, Box<[u8]>)>,
    /// Their positions.
    pub index: NetworkIndex,
    pub default: Box<[u8]>,
    pub proxies: Vec<Subnet>,
    pub is_recursive: bool,
}

/// A `split_clients`.
#[derive(Clone, Debug, Default)]
pub struct Split {
    pub source: Text,
    /// Upper bounds of the hash, with the values of what lies below.
    pub parts: Vec<(u32, Text)>,
    pub rest: Option<Text>,
}

/// Names of `valid_referers`.
#[derive(Clone, Debug, Default)]
pub struct Referers {
    pub none: bool,
    pub blocked: bool,
    pub server_names: bool,
    /// Hosts with the beginnings of their paths.
    pub hosts: NameTable<Box<str>>,
    pub regexes: Vec<Regex>,
}

/// The name behind the `$`.
///
/// # Errors
/// nginx's message where there is none.
pub fn variable_name(text: &str) -> Result<&str, String> {
    text.strip_prefix('$')
        .filter(|name| !name.is_empty())
        .ok_or_else(|| format!("invalid variable name \"{text}\""))
}

/// Reads a `map`.
///
/// # Errors
/// nginx's message.
pub fn map(directive: &Directive, reading: &mut Reading<'_>) -> Result<(String, Map), String> {
    let mut map = Map {
        source: reading.text(directive.argument(0))?,
        ..Map::default()
    };
    let name = variable_name(directive.argument(1))?;
    for entry in directive.inside() {
        let key = entry.name();
        match (key, entry.arguments.len()) {
            ("hostnames", 0) => {
                map.has_hostnames = true;
                continue;
            }
            ("volatile", 0) => {
                map.is_volatile = true;
                continue;
            }
            (_, 1) => {}
            _ => {
                let message = "invalid number of the map parameters";
                reading.report.error(entry, message, None);
                continue;
            }
        }
        let outcome = map_entry(&mut map, entry, reading);
        if let Err(message) = outcome {
            reading.report.error(entry, message, None);
        }
    }
    Ok((name.to_owned(), map))
}

fn map_entry(map: &mut Map, entry: &Directive, reading: &mut Reading<'_>) -> Result<(), String> {
    let key = entry.name();
    let value = reading.text(entry.argument(0))?;
    if key == "default" && !entry.name.is_quoted {
        if map.default.replace(value).is_some() {
            return Err("duplicate default map parameter".to_owned());
        }
        return Ok(());
    }
    if let Some(pattern) = key.strip_prefix('~') {
        let (pattern, caseless) = match pattern.strip_prefix('*') {
            Some(rest) => (rest, true),
            None => (pattern, false),
        };
        let regex = Regex::compile(pattern, caseless, &mut reading.variables)?;
        map.names.regexes.push((regex, value));
        return Ok(());
    }
    // A backslash keeps the special words from being special.
    let key = key.strip_prefix('\\').unwrap_or(key);
    if map.has_hostnames && !is_host_pattern(key) {
        return Err(format!("invalid hostname or wildcard \"{key}\""));
    }
    let is_new = match map.has_hostnames {
        true => map.names.add_wildcard(key, value.clone()),
        false => None,
    };
    match is_new.unwrap_or_else(|| map.names.add_exact(key, value)) {
        true => Ok(()),
        false => Err(format!("conflicting parameter \"{key}\"")),
    }
}

/// Returns true if a wildcard, if any, stands at the beginning or the end.
fn is_host_pattern(key: &str) -> bool {
    match key.matches('*').count() {
        0 => true,
        1 => key.starts_with("*.") || key.ends_with(".*"),
        _ => false,
    }
}

/// Reads a `split_clients`.
///
/// # Errors
/// nginx's message.
pub fn split_clients(
    directive: &Directive,
    reading: &mut Reading<'_>,
) -> Result<(String, Split), String> {
    let mut split = Split {
        source: reading.text(directive.argument(0))?,
        ..Split::default()
    };
    let name = variable_name(directive.argument(1))?;
    // In hundredths of a percent.
    let mut total: u64 = 0;
    let mut is_whole = false;
    for entry in directive.inside() {
        let value = reading.text(entry.argument(0))?;
        if entry.name() == "*" {
            split.rest = Some(value);
            // It takes all that is left.
            is_whole = true;
            continue;
        }
        let Some(share) = percent(entry.name()) else {
            let message = format!("invalid percent value \"{}\"", entry.name());
            reading.report.error(entry, message, None);
            continue;
        };
        total += share;
        if total > 10_000 || is_whole {
            return Err("percent total is greater than 100%".to_owned());
        }
        let bound = total * 0xffff_ffff / 10_000;
        split
            .parts
            .push((u32::try_from(bound).unwrap_or(u32::MAX), value));
    }
    Ok((name.to_owned(), split))
}

fn percent(text: &str) -> Option<u64> {
    let number = text.strip_suffix('%')?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let part = match part.len() {
        0 => 0,
        1 => part.parse::<u64>().ok()? * 10,
        2 => part.parse::<u64>().ok()?,
        _ => return None,
    };
    let share = whole.parse::<u64>().ok()? * 100 + part;
    (share > 0).then_some(share)
}

/// Reads `valid_referers`, which may be repeated.
///
/// # Errors
/// nginx's message.
pub fn valid_referers(
    directive: &Directive,
    referers: &mut Referers,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    for word in directive.texts() {
        match word {
            "none" => referers.none = true,
            "blocked" => referers.blocked = true,
            "server_names" => referers.server_names = true,
            _ if word.starts_with('~') => {
                let pattern = word.get(1..).unwrap_or_default();
                let regex = Regex::compile(pattern, true, &mut reading.variables)?;
                referers.regexes.push(regex);
            }
            _ => {
                let (host, path) = word.split_at(word.find('/').unwrap_or(word.len()));
                let path: Box<str> = path.into();
                if referers.hosts.add_wildcard(host, path.clone()).is_none() {
                    referers.hosts.add_exact(host, path);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_wildcards() {
        let mut table = NameTable::default();
        table.add_exact("a.test", 1);
        assert_eq!(table.add_wildcard("*.a.test", 2), Some(true));
        assert_eq!(table.add_wildcard(".b.test", 3), Some(true));
        assert_eq!(table.add_wildcard("www.*", 4), Some(true));
        assert_eq!(table.add_wildcard("*.x.a.test", 5), Some(true));
        assert_eq!(table.add_wildcard("plain", 5), None);
        let cases = [
            ("a.test", Some(1)),
            ("q.a.test", Some(2)),
            ("q.x.a.test", Some(5)),
            ("b.test", Some(3)),
            ("c.b.test", Some(3)),
            ("www.org", Some(4)),
            ("www.", None),
            ("www.q.a.test", Some(2)),
            ("other", None),
        ];
        for (name, expected) in cases {
            assert_eq!(table.literal(name).copied(), expected, "{name}");
        }
    }

    #[test]
    fn shares() {
        assert_eq!(percent("0.5%"), Some(50));
        assert_eq!(percent("33.33%"), Some(3333));
        assert_eq!(
            (percent("5"), percent("0%"), percent("x%")),
            (None, None, None)
        );
    }
}
