//! `sticky`: sessions that stay with the member of an upstream that they began with.
//!
//! Called by: `upstream`.
//! Caveat: names of members are made of their addresses by a hash that everybody can compute; who
//! knows one may ask for the member, and for nothing else.
//! Out of scope: the choice (the gateway), cookies and tables of sessions (`saker-nginx`).

use crate::{
    reading::Reading,
    text::Text,
    values::{size, time_ms},
    variables::Variable,
};
use md5::{Digest, Md5};
use saker_nginx_syntax::Directive;
use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

/// One `sticky`.
#[derive(Clone, Debug, PartialEq)]
pub enum Sticky {
    Cookie(StickyCookie),
    /// The first variable that has a value names the member.
    Route(Box<[Variable]>),
    Learn(StickyLearn),
}

/// `sticky cookie`
#[derive(Clone, Debug, PartialEq)]
pub struct StickyCookie {
    pub name: Box<str>,
    /// `None`: until the browser ends. `u64::MAX`: `max`.
    pub expires_s: Option<u64>,
    pub domain: Option<Text>,
    pub path: Option<Text>,
    pub same_site: Option<Text>,
    pub is_http_only: bool,
    pub is_secure: bool,
}

/// `sticky learn`
#[derive(Clone, Debug, PartialEq)]
pub struct StickyLearn {
    /// Variables with the session of a response, and of a request; the first that has a value counts.
    pub create: Box<[Variable]>,
    pub lookup: Box<[Variable]>,
    pub zone: Box<str>,
    pub sessions_max: usize,
    pub timeout_ms: u64,
    pub sessions: Sessions,
}

/// Sessions and their members, of all workers. They end with the generation.
#[derive(Clone, Debug, Default)]
pub struct Sessions(Arc<Mutex<HashMap<Box<[u8]>, Session>>>);

/// A session's member, and its last use.
#[derive(Clone, Debug)]
struct Session {
    route: Box<str>,
    used_ms: u64,
}

impl PartialEq for Sessions {
    fn eq(&self, other: &Sessions) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl StickyLearn {
    /// Returns the member of a session, which is used now.
    pub fn find(&self, session: &[u8], now_ms: u64) -> Option<Box<str>> {
        let mut all = self
            .sessions
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let known = all.get_mut(session)?;
        if now_ms.saturating_sub(known.used_ms) >= self.timeout_ms {
            all.remove(session);
            return None;
        }
        known.used_ms = now_ms;
        Some(known.route.clone())
    }

    /// Binds a session to a member. A full table forgets what was not used for longest.
    pub fn bind(&self, session: &[u8], route: &str, now_ms: u64) {
        if session.len() > SESSION_NAME_BYTES_MAX {
            return;
        }
        let mut all = self
            .sessions
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if all.len() >= self.sessions_max && !all.contains_key(session) {
            let mut times: Vec<u64> = all.values().map(|session| session.used_ms).collect();
            times.sort_unstable();
            let middle = times.get(times.len() / 2).copied().unwrap_or_default();
            all.retain(|_, session| session.used_ms > middle);
        }
        let known = Session {
            route: route.into(),
            used_ms: now_ms,
        };
        all.insert(session.into(), known);
    }
}

/// Longer names of sessions are not kept.
const SESSION_NAME_BYTES_MAX: usize = 4096;

/// Bytes of a zone per session, as in nginx on 64 bits.
const SESSION_BYTES: u64 = 128;
const TIMEOUT_MS: u64 = 600_000;

/// The name of the member at an address.
pub fn route_of(address: &str) -> String {
    let hash = Md5::digest(address.as_bytes());
    hash.iter().fold(String::new(), |mut text, byte| {
        // Writing to memory cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads the directive.
///
/// # Errors
/// nginx's message.
pub fn read(directive: &Directive, reading: &mut Reading<'_>) -> Result<Sticky, String> {
    match directive.argument(0) {
        "cookie" => cookie(directive, reading).map(Sticky::Cookie),
        "route" => {
            let variables: Result<Vec<Variable>, String> = directive
                .texts()
                .skip(1)
                .map(|word| variable(word, reading))
                .collect();
            Ok(Sticky::Route(variables?.into()))
        }
        "learn" => learn(directive, reading).map(Sticky::Learn),
        other => Err(format!("invalid parameter \"{other}\"")),
    }
}

fn variable(word: &str, reading: &mut Reading<'_>) -> Result<Variable, String> {
    let name = word.strip_prefix('$').filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| format!("invalid variable name \"{word}\""))?;
    Ok(reading.variables.named(name))
}

fn cookie(directive: &Directive, reading: &mut Reading<'_>) -> Result<StickyCookie, String> {
    let name = directive.argument(1);
    if name.is_empty() {
        return Err("\"sticky cookie\" needs the name of a cookie".to_owned());
    }
    let mut cookie = StickyCookie {
        name: name.into(),
        expires_s: None,
        domain: None,
        path: None,
        same_site: None,
        is_http_only: false,
        is_secure: false,
    };
    for word in directive.texts().skip(2) {
        let invalid = || format!("invalid parameter \"{word}\"");
        match word.split_once('=') {
            Some(("expires", "max")) => cookie.expires_s = Some(u64::MAX),
            Some(("expires", text)) => {
                cookie.expires_s = Some(time_ms(text).ok_or_else(invalid)? / 1000);
            }
            Some(("domain", text)) => cookie.domain = Some(reading.text(text)?),
            Some(("path", text)) => cookie.path = Some(reading.text(text)?),
            Some(("samesite", text)) => cookie.same_site = Some(reading.text(text)?),
            None if word == "httponly" => cookie.is_http_only = true,
            None if word == "secure" => cookie.is_secure = true,
            _ => return Err(invalid()),
        }
    }
    Ok(cookie)
}

fn learn(directive: &Directive, reading: &mut Reading<'_>) -> Result<StickyLearn, String> {
    let (mut create, mut lookup) = (Vec::new(), Vec::new());
    let mut learn = StickyLearn {
        create: Box::default(),
        lookup: Box::default(),
        zone: "".into(),
        sessions_max: 0,
        timeout_ms: TIMEOUT_MS,
        sessions: Sessions::default(),
    };
    for word in directive.texts().skip(1) {
        let invalid = || format!("invalid parameter \"{word}\"");
        match word.split_once('=') {
            Some(("create", text)) => create.push(variable(text, reading)?),
            Some(("lookup", text)) => lookup.push(variable(text, reading)?),
            Some(("zone", text)) => {
                let (name, bytes) = text.split_once(':').ok_or_else(invalid)?;
                let bytes = size(bytes).ok_or_else(invalid)?;
                learn.zone = name.into();
                learn.sessions_max = usize::try_from(bytes / SESSION_BYTES)
                    .unwrap_or(usize::MAX)
                    .max(1);
            }
            Some(("timeout", text)) => learn.timeout_ms = time_ms(text).ok_or_else(invalid)?,
            // Sessions are created with the head of the response anyway, and other servers are not
            // told about them.
            None if matches!(word, "header" | "sync") => {}
            _ => return Err(invalid()),
        }
    }
    if create.is_empty() || lookup.is_empty() || learn.zone.is_empty() {
        return Err("\"sticky learn\" needs \"create\", \"lookup\", and \"zone\"".to_owned());
    }
    (learn.create, learn.lookup) = (create.into(), lookup.into());
    Ok(learn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_end_and_tables_are_bounded() {
        let learn = StickyLearn {
            create: Box::default(),
            lookup: Box::default(),
            zone: "z".into(),
            sessions_max: 4,
            timeout_ms: 1000,
            sessions: Sessions::default(),
        };
        for at in 0..5_u64 {
            learn.bind(&[at as u8], "a", at);
        }
        assert!(learn.find(&[0], 5).is_none());
        assert_eq!(learn.find(&[4], 900).as_deref(), Some("a"));
        assert!(learn.find(&[4], 1900).is_none());
        learn.bind(&[b'x'; SESSION_NAME_BYTES_MAX + 1], "a", 1900);
        assert!(
            learn
                .find(&[b'x'; SESSION_NAME_BYTES_MAX + 1], 1900)
                .is_none()
        );
        learn.bind(&[b'x'; SESSION_NAME_BYTES_MAX], "a", 1900);
        assert!(learn.find(&[b'x'; SESSION_NAME_BYTES_MAX], 1900).is_some());
    }

    #[test]
    fn routes_are_hashes_of_addresses() {
        assert_eq!(route_of("127.0.0.1:8080").len(), 32);
        assert_ne!(route_of("127.0.0.1:8080"), route_of("127.0.0.1:8081"));
    }
}
