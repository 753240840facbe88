//! The vary string (LSCache protocol 4.3 and 6.6): selects the variant of a URL for a client.
//!
//! Called by: the page cache, for keys: from rewrite rules before the application runs, and from
//! `X-LiteSpeed-Vary` after.
//! Caveat: what the application sets replaces what rewrite rules have set, for the key of its
//! response, and is remembered for the URL ([`VaryRules::encode`]).
//! Out of scope: fields that Vary names (`rules::Vary`).

use super::{
    cookies::{pairs, push_escaped, push_piece},
    tags::strip_prefix,
};
use crate::{cookie_names::is_same, rules::targeted::lines};
use saker_http::{Fields, HeadView};

pub const VARY: &str = "X-LiteSpeed-Vary";
pub const VARY_COOKIE: &[u8] = b"_lscache_vary";

/// Everything a URL varies by, in addition to the vary cookie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VaryRules {
    /// Cookies by name, in order, each once.
    pub cookies: Vec<Vec<u8>>,
    /// A value such as `mobile+webp`.
    pub value: Option<Vec<u8>>,
}

impl VaryRules {
    /// `Cache-Vary`: names, each with or without `cookie=` in front.
    pub fn add_cookies(&mut self, list: &[u8]) {
        for name in list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let name = strip_prefix(name, b"cookie=").unwrap_or(name).trim_ascii();
            if !name.is_empty() && !self.cookies.iter().any(|held| held == name) {
                self.cookies.push(name.to_vec());
            }
        }
    }

    /// These rules in addition to others: the cookies of both, and these rules' value if they have one.
    pub fn over(&self, others: &VaryRules) -> VaryRules {
        let mut joined = self.clone();
        for name in &others.cookies {
            if !joined.cookies.contains(name) {
                joined.cookies.push(name.clone());
            }
        }
        joined.cookies.sort_unstable();
        joined.value = joined.value.or_else(|| others.value.clone());
        joined
    }

    /// `None` if the response does not set it (6.6).
    pub fn of_response(fields: &Fields) -> Option<VaryRules> {
        let mut rules = None;
        for item in lines(fields, VARY)
            .flat_map(|line| line.split(|byte| *byte == b','))
            .map(<[u8]>::trim_ascii)
        {
            let rules = rules.get_or_insert_with(VaryRules::default);
            match strip_prefix(item, b"value=") {
                Some(value) => {
                    rules.value =
                        Some(value.trim_ascii().to_vec()).filter(|value| !value.is_empty())
                }
                // A name without `cookie=` counts as well.
                None => rules.add_cookies(item),
            }
        }
        rules
    }

    /// The vary string of a request; each piece ends with a semicolon.
    pub fn string(&self, request: HeadView<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        self.string_into(request, &mut out);
        out
    }

    /// Appends the vary string to `out`.
    pub fn string_into(&self, request: HeadView<'_>, out: &mut Vec<u8>) {
        push_cookie(out, request, VARY_COOKIE);
        for (name, value) in further_vary_cookies(request) {
            push_piece(out, name, Some(value));
        }
        for name in self
            .cookies
            .iter()
            .filter(|name| !name.starts_with(VARY_COOKIE))
        {
            push_cookie(out, request, name);
        }
        if let Some(value) = &self.value {
            // Not a cookie: no name can begin like this.
            out.push(b'=');
            push_escaped(out, value);
            out.push(b';');
        }
    }

    /// Encodes the rules for the vary record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.cookies
            .iter()
            .for_each(|name| push_piece(&mut out, name, None));
        if let Some(value) = &self.value {
            push_piece(&mut out, b"", Some(value));
        }
        out
    }

    /// The value of `LSCACHE_VARY_COOKIE` (2).
    pub fn cookie_list(&self) -> Option<Vec<u8>> {
        (!self.cookies.is_empty()).then(|| self.cookies.join(&b","[..]))
    }
}

/// Appends the cookie of that name. One that occurs several times, or under names that applications
/// may take for it, appears with all its values: some applications take the first, others the last,
/// and PHP takes `a.b` and `a_b[c]` for `a_b`.
fn push_cookie(out: &mut Vec<u8>, request: HeadView<'_>, name: &[u8]) {
    let mut found = pairs(request)
        .filter(|pair| pair.0 == name || is_same(pair.0, name))
        .peekable();
    if found.peek().is_none() {
        push_piece(out, name, None);
    }
    found.for_each(|(name, value)| push_piece(out, name, Some(value)));
}

/// All cookies whose names begin with the vary cookie's, sorted by name, because browsers keep no
/// order.
fn further_vary_cookies(request: HeadView<'_>) -> Vec<(&[u8], &[u8])> {
    let longer =
        |pair: &(&[u8], &[u8])| pair.0.len() > VARY_COOKIE.len() && pair.0.starts_with(VARY_COOKIE);
    let mut found: Vec<(&[u8], &[u8])> = pairs(request).filter(longer).collect();
    found.sort_by(|one, other| one.0.cmp(other.0));
    found
}
