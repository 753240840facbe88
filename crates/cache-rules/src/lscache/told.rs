//! What the application is told (LSCache protocol 2), and what no visitor may tell it.
//!
//! Place in the walk: added to the variables of every dynamic request. Difficulty: plugins look for
//! exact words: `crawler` and `combine` by substring, the edition by its beginning.

use super::vary::VaryRules;

/// What the cache of a site can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    pub on: bool,
    /// Application crawlers are allowed.
    pub crawler: bool,
    pub esi: bool,
    /// Combined requests for blocks (9.5).
    pub combine: bool,
    /// The Magento flavour.
    pub litemage: bool,
}

impl Abilities {
    /// From the words of `CacheEngine`; `None` for a word that is none. `off` alone switches off.
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

/// Names and values, names as they are sent. With `as_fields` the same is said as request fields,
/// for plugins that would otherwise go by the name of the server.
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

/// Request fields that only a trusted peer may send on; from others they are removed before the
/// application sees them. Gateways write underscores for dashes, so both are the same here.
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

/// Whether a request comes from a front cache that speaks the protocol itself (10). Only to be
/// asked about trusted peers.
pub fn is_front_cache(mut names: impl Iterator<Item = impl AsRef<[u8]>>) -> bool {
    names.any(|name| is_mark(name.as_ref()))
}

fn is_mark(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"x-lscache") || name.eq_ignore_ascii_case(b"x-litemage")
}
