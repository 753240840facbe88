//! ngx_http_headers_module, and `more_set_headers` of the third-party module.
//!
//! Called by: `load`.
//! Caveat: a level with its own `add_header` has none of the outer ones, unless
//! `add_header_inherit merge` says so.
//! Out of scope: values at request time (`saker-nginx`).

use crate::{
    inherit::inherit,
    reading::{Reading, Setters},
    text::Text,
    values::{invalid, time_ms},
};
use saker_nginx_syntax::Directive;
use std::sync::Arc;

/// One `add_header`.
#[derive(Clone, Debug, PartialEq)]
pub struct AddHeader {
    pub name: Box<str>,
    pub value: Text,
    pub is_always: bool,
}

/// A field set or removed by `more_set_headers` or `more_clear_headers`, for all responses.
#[derive(Clone, Debug, PartialEq)]
pub struct SetHeader {
    /// May end with `*` where it is removed.
    pub name: Box<str>,
    /// Empty: removed.
    pub value: Text,
    /// Statuses that it is for; empty: all.
    pub statuses: Box<[u16]>,
}

/// `expires`
#[derive(Clone, Debug, PartialEq)]
pub enum Expires {
    Off,
    Epoch,
    Max,
    /// Seconds from now.
    Access(i64),
    /// Seconds from the modification of the file.
    Modified(i64),
    /// A time of the day, in seconds.
    Daily(i64),
    /// One of the above, known at request time.
    Variable(Text),
}

/// A level's share of the fields of the level around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inheritance {
    /// All, if it has none itself.
    Usual,
    None,
    /// All, before its own.
    Merged,
}

impl Inheritance {
    fn of(self, own: &mut Option<Arc<[AddHeader]>>, outer: Option<&Arc<[AddHeader]>>) {
        match (self, &*own, outer) {
            (Inheritance::None, None, _) => *own = Some(Arc::default()),
            (Inheritance::Merged, Some(own_ones), Some(outer)) => {
                *own = Some(outer.iter().chain(own_ones.iter()).cloned().collect());
            }
            (Inheritance::Usual | Inheritance::Merged, None, Some(outer)) => {
                *own = Some(Arc::clone(outer));
            }
            _ => {}
        }
    }
}

/// Settings of the module.
#[derive(Clone, Debug, Default)]
pub struct HeadersConf {
    pub added: Option<Arc<[AddHeader]>>,
    /// `add_header_inherit`
    pub inherits: Option<Inheritance>,
    /// `add_trailer`
    pub trailers: Option<Arc<[AddHeader]>>,
    /// `add_trailer_inherit`
    pub inherits_trailers: Option<Inheritance>,
    pub expires: Option<Expires>,
    pub set: Option<Arc<[SetHeader]>>,
}

impl HeadersConf {
    pub fn inherit(&mut self, outer: &HeadersConf) {
        // The rules of inheritance are inherited themselves.
        inherit!(self, outer: inherits inherits_trailers expires);
        for (rule, own, outer) in [
            (self.inherits, &mut self.added, &outer.added),
            (self.inherits_trailers, &mut self.trailers, &outer.trailers),
        ] {
            rule.unwrap_or(Inheritance::Usual).of(own, outer.as_ref());
        }
        // Those of the third-party module are joined.
        self.set = match (&outer.set, &self.set) {
            (Some(outer), Some(own)) => Some(outer.iter().chain(own.iter()).cloned().collect()),
            (outer, own) => own.clone().or_else(|| outer.clone()),
        };
    }
}

pub const SETTERS: Setters<HeadersConf> = &[
    ("add_header", |d, conf, reading| {
        add(d, &mut conf.added, reading)
    }),
    ("add_header_inherit", |d, conf, _| {
        conf.inherits = Some(inheritance(d)?);
        Ok(())
    }),
    ("add_trailer", |d, conf, reading| {
        add(d, &mut conf.trailers, reading)
    }),
    ("add_trailer_inherit", |d, conf, _| {
        conf.inherits_trailers = Some(inheritance(d)?);
        Ok(())
    }),
    ("expires", |d, conf, reading| {
        let (text, is_modified) = match d.argument(0) {
            "modified" => (d.argument(1), true),
            text => (text, false),
        };
        conf.expires = Some(match text.contains('$') {
            true => Expires::Variable(reading.text(text)?),
            false => parse_expires(text, is_modified).ok_or_else(|| invalid(text))?,
        });
        Ok(())
    }),
    ("more_set_headers", |d, conf, reading| {
        set_headers(d, conf, reading, false)
    }),
    ("more_clear_headers", |d, conf, reading| {
        set_headers(d, conf, reading, true)
    }),
];

fn add(
    directive: &Directive,
    list: &mut Option<Arc<[AddHeader]>>,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let is_always = match directive.arguments.get(2).map(|word| word.text.as_str()) {
        None => false,
        Some("always") => true,
        Some(other) => return Err(format!("invalid parameter \"{other}\"")),
    };
    let added = AddHeader {
        name: directive.argument(0).into(),
        value: reading.text(directive.argument(1))?,
        is_always,
    };
    let before = list.take().unwrap_or_default();
    *list = Some(before.iter().cloned().chain([added]).collect());
    Ok(())
}

fn inheritance(directive: &Directive) -> Result<Inheritance, String> {
    match directive.argument(0) {
        "on" => Ok(Inheritance::Usual),
        "off" => Ok(Inheritance::None),
        "merge" => Ok(Inheritance::Merged),
        other => Err(invalid(other)),
    }
}

/// Parses a lifetime.
pub fn parse_expires(text: &str, is_modified: bool) -> Option<Expires> {
    let seconds = |text: &str| {
        let ms = time_ms(text)?;
        i64::try_from(ms / 1000).ok()
    };
    Some(match text {
        "off" => Expires::Off,
        "epoch" if !is_modified => Expires::Epoch,
        "max" if !is_modified => Expires::Max,
        _ if text.starts_with('@') => {
            Expires::Daily(seconds(text.get(1..)?).filter(|time| *time <= 86_400)?)
        }
        _ => {
            let (text, sign) = match text.strip_prefix('-') {
                Some(rest) => (rest, -1),
                None => (text.strip_prefix('+').unwrap_or(text), 1),
            };
            let seconds = seconds(text)? * sign;
            match is_modified {
                true => Expires::Modified(seconds),
                false => Expires::Access(seconds),
            }
        }
    })
}

fn set_headers(
    directive: &Directive,
    conf: &mut HeadersConf,
    reading: &mut Reading<'_>,
    clears: bool,
) -> Result<(), String> {
    let mut statuses: Vec<u16> = Vec::new();
    let mut lines = Vec::new();
    let mut words = directive.texts();
    while let Some(word) = words.next() {
        match word {
            "-s" => {
                let list = words.next().unwrap_or_default();
                for status in list.split_ascii_whitespace() {
                    statuses.push(status.parse().map_err(|_| invalid(status))?);
                }
            }
            "-t" => return Err("-t is not supported: name the fields for all types".to_owned()),
            "-a" => {}
            line => lines.push(line),
        }
    }
    let mut all: Vec<SetHeader> = conf.set.take().unwrap_or_default().to_vec();
    for line in lines {
        let (name, value) = match clears {
            true => (line, ""),
            false => line.split_once(':').unwrap_or((line, "")),
        };
        all.push(SetHeader {
            name: name.trim().into(),
            value: reading.text(value.trim())?,
            statuses: statuses.as_slice().into(),
        });
    }
    conf.set = Some(all.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes() {
        let cases = [
            ("30d", false, Some(Expires::Access(2_592_000))),
            ("-1", false, Some(Expires::Access(-1))),
            ("+24h", false, Some(Expires::Access(86_400))),
            ("1h", true, Some(Expires::Modified(3600))),
            ("@15h30m", false, Some(Expires::Daily(55_800))),
            ("max", false, Some(Expires::Max)),
            ("max", true, None),
            ("soon", false, None),
        ];
        for (text, is_modified, expected) in cases {
            assert_eq!(parse_expires(text, is_modified), expected, "{text}");
        }
    }
}
