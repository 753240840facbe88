//! Changes of fields that upstreams send: `proxy_redirect`, `proxy_cookie_domain`,
//! `proxy_cookie_path`, and `proxy_cookie_flags`.
//!
//! Called by: the list of setters, and `finish`, which adds the default redirect.
//! Caveat: the first entry that matches decides; a level with entries has none of the outer ones.
//! Out of scope: applying them (`saker-nginx`).

use crate::{
    inherit::inherit,
    reading::{Reading, Setters},
    text::Text,
    values::{Regex, invalid},
};
use saker_nginx_syntax::Directive;
use std::sync::Arc;

/// The part of a value that is looked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    Text(Text),
    Regex(Regex),
}

/// A replacement in a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewrite {
    pub from: Wanted,
    pub to: Text,
}

impl Rewrite {
    /// A replacement without variables.
    pub fn literal(from: &str, to: &str) -> Rewrite {
        Rewrite {
            from: Wanted::Text(Text::literal(from)),
            to: Text::literal(to),
        }
    }
}

/// `proxy_redirect`
#[derive(Clone, Debug, PartialEq)]
pub enum Redirect {
    Off,
    Default,
    Replace(Rewrite),
}

/// `proxy_cookie_flags`
#[derive(Clone, Debug, PartialEq)]
pub struct CookieFlags {
    /// The name of the cookie.
    pub name: Wanted,
    pub flags: Box<[Text]>,
}

/// Changes of fields of responses.
#[derive(Clone, Debug, Default)]
pub struct RewritesConf {
    pub redirects: Option<Arc<[Redirect]>>,
    pub cookie_domains: Option<Arc<[Rewrite]>>,
    pub cookie_paths: Option<Arc<[Rewrite]>>,
    pub cookie_flags: Option<Arc<[CookieFlags]>>,
}

impl RewritesConf {
    pub fn inherit(&mut self, outer: &RewritesConf) {
        inherit!(self, outer: redirects cookie_domains cookie_paths cookie_flags);
    }

    /// Returns true if cookies are changed.
    pub fn changes_cookies(&self) -> bool {
        let has =
            |list: &Option<Arc<[Rewrite]>>| list.as_ref().is_some_and(|list| !list.is_empty());
        let has_flags = self
            .cookie_flags
            .as_ref()
            .is_some_and(|list| !list.is_empty());
        has(&self.cookie_domains) || has(&self.cookie_paths) || has_flags
    }
}

pub const SETTERS: Setters<RewritesConf> = &[
    ("proxy_redirect", redirect),
    ("proxy_cookie_domain", |d, conf, reading| {
        replacement(d, &mut conf.cookie_domains, reading, true)
    }),
    ("proxy_cookie_path", |d, conf, reading| {
        replacement(d, &mut conf.cookie_paths, reading, false)
    }),
    ("proxy_cookie_flags", cookie_flags),
];

fn push<T: Clone>(list: &mut Option<Arc<[T]>>, one: T) {
    let before = list.take().unwrap_or_default();
    *list = Some(before.iter().cloned().chain([one]).collect());
}

/// Reads a text with variables, or an expression behind `~` or `~*`.
fn wanted(text: &str, is_caseless: bool, reading: &mut Reading<'_>) -> Result<Wanted, String> {
    let Some(pattern) = text.strip_prefix('~') else {
        return reading.text(text).map(Wanted::Text);
    };
    let (pattern, is_caseless) = match pattern.strip_prefix('*') {
        Some(rest) => (rest, true),
        None => (pattern, is_caseless),
    };
    Regex::compile(pattern, is_caseless, &mut reading.variables).map(Wanted::Regex)
}

fn redirect(
    directive: &Directive,
    conf: &mut RewritesConf,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let (from, to) = (directive.argument(0), directive.argument(1));
    let one = match (from, directive.arguments.len()) {
        ("off", 1) => Redirect::Off,
        ("default", 1) => Redirect::Default,
        (_, 1) => return Err(format!("invalid parameter \"{from}\"")),
        _ => Redirect::Replace(Rewrite {
            from: wanted(from, false, reading)?,
            to: reading.text(to)?,
        }),
    };
    push(&mut conf.redirects, one);
    Ok(())
}

fn replacement(
    directive: &Directive,
    list: &mut Option<Arc<[Rewrite]>>,
    reading: &mut Reading<'_>,
    is_domain: bool,
) -> Result<(), String> {
    let (from, to) = (directive.argument(0), directive.argument(1));
    if directive.arguments.len() == 1 {
        if from != "off" {
            return Err(format!("invalid parameter \"{from}\""));
        }
        *list = Some(Arc::default());
        return Ok(());
    }
    // Domains have no dot in front, neither those that are compared nor those that replace them.
    let bare = |text: &'_ str| match is_domain {
        true => text.strip_prefix('.').unwrap_or(text).to_owned(),
        false => text.to_owned(),
    };
    let is_pattern = from.starts_with('~');
    let to = match is_pattern {
        true => to.to_owned(),
        false => bare(to),
    };
    let from = bare(from);
    let to = reading.text(&to)?;
    let from = wanted(&from, is_domain, reading)?;
    push(list, Rewrite { from, to });
    Ok(())
}

const FLAGS: [&str; 8] = [
    "secure",
    "nosecure",
    "httponly",
    "nohttponly",
    "samesite=strict",
    "samesite=lax",
    "samesite=none",
    "nosamesite",
];

fn cookie_flags(
    directive: &Directive,
    conf: &mut RewritesConf,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let list = &mut conf.cookie_flags;
    let name = directive.argument(0);
    if name == "off" && directive.arguments.len() == 1 {
        *list = Some(Arc::default());
        return Ok(());
    }
    let name = wanted(name, true, reading)?;
    let mut flags = Vec::new();
    for word in directive.texts().skip(1) {
        if !word.contains('$') && !FLAGS.iter().any(|known| known.eq_ignore_ascii_case(word)) {
            return Err(invalid(word));
        }
        flags.push(reading.text(word)?);
    }
    let flags = flags.into();
    push(list, CookieFlags { name, flags });
    Ok(())
}
