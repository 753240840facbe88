//! Sessions of clients: named values in one text, which the client or a store keeps (mod_session).
//!
//! Called by: `form`, which keeps log-ins in them; front ends, which load and save the text.
//! Caveat: names are compared without regard to case, and the name `expiry` is the session's own
//! end in microseconds. The text is form-encoded, so sessions written by Apache can be read.
//! Out of scope: cookies and their encryption, which front ends do.

use saker_http::query::{form_decoded, parameters};
use std::{cell::RefCell, rc::Rc};

/// Values of a session; further ones are not read.
const VALUES_MAX: usize = 500;
const EXPIRY: &[u8] = b"expiry";
const SECOND_US: i64 = 1_000_000;

/// The session of a request, which its subrequests share.
pub type SharedSession = Rc<RefCell<Session>>;

/// A session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    values: Vec<(Vec<u8>, Vec<u8>)>,
    /// End of the session in microseconds since 1970; 0: none.
    expiry_us: i64,
    /// Values were set or removed.
    is_changed: bool,
    is_saved: bool,
    /// It is an earlier one, not a new one.
    is_known: bool,
}

/// Lifetimes of sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// Seconds after the last request; 0: no end.
    pub max_age_s: i64,
    /// A session that only lives longer than before is saved after this time.
    pub update_interval_s: i64,
}

impl Session {
    /// Reads the text of a session; without one, or if it has ended, the session is new.
    pub fn load(text: Option<&[u8]>, now_s: i64, lifetime: Lifetime) -> Session {
        let now_us = now_s.saturating_mul(SECOND_US);
        let mut session = Session::default();
        if let Some(text) = text {
            session.read(text);
            session.is_known = true;
            if session.expiry_us != 0 && session.expiry_us < now_us {
                session = Session::default();
            }
        }
        if lifetime.max_age_s > 0 && session.expiry_us == 0 {
            session.expiry_us = after(now_us, lifetime.max_age_s);
        }
        session
    }

    /// Sets the values of a text. Names and values whose encoding is malformed are skipped.
    fn read(&mut self, text: &[u8]) {
        for parameter in parameters(text).filter(|parameter| !parameter.name.is_empty()) {
            let value = parameter.value.unwrap_or_default();
            if !is_encoded(parameter.name) || !is_encoded(value) {
                continue;
            }
            let (name, value) = (form_decoded(parameter.name), form_decoded(value));
            if value.is_empty() {
                self.remove(&name);
            } else if *name == *EXPIRY {
                self.expiry_us = leading_number(&value);
            } else if self.values.len() < VALUES_MAX {
                self.insert(&name, &value);
            }
        }
    }

    /// Returns true if the session is one that was loaded, and has not ended.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// End in microseconds since 1970; 0: none.
    pub fn expiry_us(&self) -> i64 {
        self.expiry_us
    }

    /// Returns true if values were set or removed.
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Takes over the text that a program has sent.
    pub fn replace_with(&mut self, text: &[u8]) {
        self.read(text);
        self.is_changed = true;
    }

    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let found = self
            .values
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_slice())
    }

    /// Sets a value, or removes it.
    pub fn set(&mut self, name: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => self.insert(name, value),
            None => self.remove(name),
        }
        self.is_changed = true;
    }

    fn insert(&mut self, name: &[u8], value: &[u8]) {
        let known = self
            .values
            .iter_mut()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        match known {
            Some((_, slot)) => *slot = value.to_vec(),
            None => self.values.push((name.to_vec(), value.to_vec())),
        }
    }

    fn remove(&mut self, name: &[u8]) {
        self.values
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    }

    /// The text of the session.
    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let expiry = self.expiry_us.to_string().into_bytes();
        let own = (self.expiry_us != 0).then_some((EXPIRY, expiry.as_slice()));
        let values = self.values.iter();
        let pairs = values.map(|(name, value)| (name.as_slice(), value.as_slice()));
        for (name, value) in pairs.chain(own) {
            if !text.is_empty() {
                text.push(b'&');
            }
            encode(name, &mut text);
            text.push(b'=');
            encode(value, &mut text);
        }
        text
    }

    /// The text to be kept at the end of the request. `None`: it stays as it is.
    pub fn to_save(&mut self, now_s: i64, lifetime: Lifetime) -> Option<Vec<u8>> {
        let now_us = now_s.saturating_mul(SECOND_US);
        if self.is_saved || self.expiry_us != 0 && self.expiry_us < now_us {
            return None;
        }
        let had_until_us = self.expiry_us;
        let has_end = lifetime.max_age_s > 0;
        if !self.is_changed && !has_end {
            return None;
        }
        if has_end {
            let until_us = after(now_us, lifetime.max_age_s);
            let longer_us = until_us.saturating_sub(had_until_us);
            let least_us = lifetime.update_interval_s.saturating_mul(SECOND_US);
            if least_us > 0 && !self.is_changed && had_until_us != 0 && longer_us < least_us {
                return None;
            }
            self.expiry_us = until_us;
        }
        self.is_saved = true;
        Some(self.text())
    }
}

fn after(now_us: i64, seconds: i64) -> i64 {
    now_us.saturating_add(seconds.saturating_mul(SECOND_US))
}

/// Returns true if each `%` has two digits and no byte is zero.
fn is_encoded(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        let digits = rest.get(at + 1..at + 3);
        if !digits.is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit) && pair != b"00") {
            return false;
        }
        rest = rest.get(at + 3..).unwrap_or_default();
    }
    true
}

fn leading_number(text: &[u8]) -> i64 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = text
        .get(..digits)
        .and_then(|text| std::str::from_utf8(text).ok());
    match digits {
        None | Some("") => 0,
        Some(digits) => digits.parse().unwrap_or(i64::MAX),
    }
}

fn encode(text: &[u8], to: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b' ' => to.push(b'+'),
            b'.' | b'-' | b'*' | b'_' => to.push(*byte),
            byte if byte.is_ascii_alphanumeric() => to.push(*byte),
            byte => to.extend_from_slice(format!("%{byte:02x}").as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Lifetime = Lifetime {
        max_age_s: 3600,
        update_interval_s: 0,
    };
    const NONE: Lifetime = Lifetime {
        max_age_s: 0,
        update_interval_s: 0,
    };

    fn text(session: &Session) -> String {
        String::from_utf8(session.text()).unwrap()
    }

    #[test]
    fn texts() {
        for (from, to) in [
            (
                "realm-user=ann&realm-pw=a+b%26",
                "realm-user=ann&realm-pw=a+b%26",
            ),
            ("a=1&A=2", "a=2"),
            ("a=1&a=", ""),
            ("a=x=y", "a=x%3dy"),
            ("a=%zz&b=1&%=2&c=%0", "b=1"),
            ("a=%00", ""),
            ("=1&&b", ""),
            ("expiry=9000000000000000&a=1", "a=1&expiry=9000000000000000"),
        ] {
            let session = Session::load(Some(from.as_bytes()), 1, NONE);
            assert_eq!(text(&session), to, "{from}");
        }
    }

    #[test]
    fn sessions_end() {
        let now_s = 1000;
        let at = |expiry_us: i64| {
            let from = format!("a=1&expiry={expiry_us}");
            Session::load(Some(from.as_bytes()), now_s, NONE)
        };
        assert_eq!(at(1_000_000_000 - 1).get(b"a"), None);
        assert_eq!(at(1_000_000_000).get(b"A"), Some(&b"1"[..]));
        assert!(!at(1_000_000_000 - 1).is_known());
        assert!(at(1_000_000_000).is_known());
        let new = Session::load(None, now_s, HOUR);
        assert!(!new.is_known());
        assert_eq!(text(&new), "expiry=4600000000");
    }

    #[test]
    fn what_is_saved() {
        let mut session = Session::load(Some(b"a=1"), 1000, NONE);
        assert_eq!(session.to_save(1000, NONE), None, "nothing has changed");
        session.set(b"b", Some(b"2"));
        assert_eq!(session.to_save(1000, NONE), Some(b"a=1&b=2".to_vec()));
        assert_eq!(session.to_save(1000, NONE), None, "once per request");
        let mut session = Session::load(Some(b"a=1"), 1000, NONE);
        session.set(b"a", None);
        assert_eq!(session.to_save(1000, NONE), Some(Vec::new()), "removed");
        let mut session = Session::load(Some(b"a=1&expiry=1000000000"), 1000, HOUR);
        assert_eq!(session.to_save(1001, HOUR), None, "it has ended meanwhile");
        let kept = b"a=1&expiry=4600000000".to_vec();
        assert_eq!(session.to_save(1000, HOUR), Some(kept.clone()));
        let rarely = Lifetime {
            update_interval_s: 60,
            ..HOUR
        };
        let mut session = Session::load(Some(&kept), 1000, rarely);
        assert_eq!(session.to_save(1059, rarely), None);
        assert!(session.to_save(1060, rarely).is_some());
    }

    #[test]
    fn the_number_of_values_is_limited() {
        let from = |count: usize| {
            let all: Vec<String> = (0..count).map(|number| format!("v{number}=1")).collect();
            Session::load(Some(all.join("&").as_bytes()), 1, NONE)
        };
        assert!(from(VALUES_MAX).get(b"v499").is_some());
        assert_eq!(from(VALUES_MAX + 1).get(b"v500"), None);
    }
}
