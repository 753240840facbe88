//! Announcement of the cache to applications (LSCache protocol 2), and fields that clients may not
//! send.
//!
//! Called by: the page cache, for every dynamic request.
//! Caveat: plugins look for exact words: `crawler` and `combine` as substrings, the edition as a
//! prefix.
//! Out of scope: setting the variables.

use super::vary::VaryRules;

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
    pub fn value(self) -> Option<String> {
        let words = [
            (self.crawler, "crawler"),
            (self.esi, "esi"),
            (self.combine, "combine"),
        ];
        let further = words.iter().filter(|word| word.0).map(|word| word.1);
        self.on.then(|| {
            std::iter::once("on")
                .chain(further)
                .collect::<Vec<_>>()
                .join(",")
        })
    }
}

/// Names and values. With `as_fields` also as request fields, for plugins that would otherwise
/// check the name of the server.
pub fn variables(
    abilities: Abilities,
    vary: &VaryRules,
    as_fields: bool,
) -> Vec<(&'static str, Vec<u8>)> {
    let mut told = Vec::new();
    let Some(value) = abilities.value() else {
        return told;
    };
    told.push(("X-LSCACHE", value.clone().into_bytes()));
    if as_fields {
        told.push(("HTTP_X_LSCACHE", value.into_bytes()));
    }
    if abilities.litemage {
        told.push(("X-LITEMAGE", b"1".to_vec()));
    }
    if let Some(value) = &vary.value {
        told.push(("LSCACHE_VARY_VALUE", value.clone()));
        if as_fields {
            told.push(("HTTP_X_LSCACHE_VARY_VALUE", value.clone()));
        }
    }
    if let Some(list) = vary.cookie_list() {
        told.push(("LSCACHE_VARY_COOKIE", list));
    }
    told
}

/// True for request fields that only a trusted peer may send; from others they are removed.
/// Gateways write underscores for dashes, so both are equal here.
pub fn is_reserved_request_field(name: &[u8]) -> bool {
    let name: Vec<u8> = name
        .iter()
        .map(|byte| {
            if *byte == b'_' {
                b'-'
            } else {
                byte.to_ascii_lowercase()
            }
        })
        .collect();
    is_mark(&name) || name.starts_with(b"x-lscache-")
}

/// True if a request comes from a front cache that speaks the protocol (10). Only meaningful for
/// trusted peers.
pub fn is_front_cache(mut names: impl Iterator<Item = impl AsRef<[u8]>>) -> bool {
    names.any(|name| is_mark(name.as_ref()))
}

fn is_mark(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"x-lscache") || name.eq_ignore_ascii_case(b"x-litemage")
}
