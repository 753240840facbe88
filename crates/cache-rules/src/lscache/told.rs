//! Announcement of the cache to applications (LSCache protocol 2), and fields that clients may not
//! send.
//!
//! Called by: the page cache, for every dynamic request.
//! Caveat: plugins look for exact words: `crawler` and `combine` as substrings, the edition as a
//! prefix.
//! Out of scope: setting the variables.

use super::vary::VaryRules;
use std::borrow::Cow;

/// The cache's abilities for a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    pub on: bool,
    /// Application crawlers are allowed.
    pub crawler: bool,
    pub esi: bool,
    /// Combined requests for blocks (9.5).
    pub combine: bool,
    /// The Magento variant.
    pub litemage: bool,
}

impl Abilities {
    /// Parses the words of `CacheEngine`; `None` for an unknown word. `off` alone switches off.
    pub fn parse(words: &[u8]) -> Option<Abilities> {
        let mut abilities = Abilities::default();
        for word in words
            .split(|byte| byte.is_ascii_whitespace() || *byte == b',')
            .filter(|word| !word.is_empty())
        {
            match word.to_ascii_lowercase().as_slice() {
                b"off" => abilities = Abilities::default(),
                b"on" => abilities.on = true,
                b"crawler" => (abilities.on, abilities.crawler) = (true, true),
                b"esi" => (abilities.on, abilities.esi) = (true, true),
                b"combine" => (abilities.on, abilities.combine) = (true, true),
                _ => return None,
            }
        }
        Some(abilities)
    }

    /// The value of `X-LSCACHE`, if the cache is on.
    pub fn value(self) -> Option<&'static str> {
        self.on
            .then_some(match (self.crawler, self.esi, self.combine) {
                (false, false, false) => "on",
                (true, false, false) => "on,crawler",
                (false, true, false) => "on,esi",
                (false, false, true) => "on,combine",
                (true, true, false) => "on,crawler,esi",
                (true, false, true) => "on,crawler,combine",
                (false, true, true) => "on,esi,combine",
                (true, true, true) => "on,crawler,esi,combine",
            })
    }
}

/// Names and values about the cache itself, as variables and as those of request fields, for
/// plugins that would otherwise check the name of the server.
pub fn variables(abilities: Abilities) -> impl Iterator<Item = (&'static str, &'static str)> {
    let value = abilities.value();
    let litemage = value.filter(|_| abilities.litemage).map(|_| "1");
    [
        ("X-LSCACHE", value),
        ("HTTP_X_LSCACHE", value),
        ("X-LITEMAGE", litemage),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
}

/// Names and values about what a URL varies by, if rules have set it.
pub fn vary_variables(vary: &VaryRules) -> impl Iterator<Item = (&'static str, Cow<'_, [u8]>)> {
    let value = vary.value.as_deref().map(Cow::Borrowed);
    [
        ("LSCACHE_VARY_VALUE", value.clone()),
        ("HTTP_X_LSCACHE_VARY_VALUE", value),
        ("LSCACHE_VARY_COOKIE", vary.cookie_list().map(Cow::Owned)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
}

/// True for request fields that only a trusted peer may send; from others they are removed.
/// Gateways write underscores for dashes, so both are equal here.
pub fn is_reserved_request_field(name: &[u8]) -> bool {
    // Most names begin with another letter.
    if !matches!(name.first(), Some(b'x' | b'X')) {
        return false;
    }
    let begins = |with: &[u8]| {
        let fold = |byte: u8| match byte {
            b'_' => b'-',
            byte => byte.to_ascii_lowercase(),
        };
        name.get(..with.len()).is_some_and(|start| {
            start
                .iter()
                .zip(with)
                .all(|(one, other)| fold(*one) == *other)
        })
    };
    match name.len() {
        9 => begins(b"x-lscache"),
        10 if begins(b"x-litemage") => true,
        _ => begins(b"x-lscache-"),
    }
}

/// True if a request comes from a front cache that speaks the protocol (10). Only meaningful for
/// trusted peers.
pub fn is_front_cache(mut names: impl Iterator<Item = impl AsRef<[u8]>>) -> bool {
    names.any(|name| is_mark(name.as_ref()))
}

fn is_mark(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"x-lscache") || name.eq_ignore_ascii_case(b"x-litemage")
}
