//! Changes of fields that upstreams send: redirects, and attributes of cookies.
//!
//! Called by: `response`, for responses of upstreams, cached ones, too.
//! Caveat: in each list, the first entry that matches decides. An expression replaces the whole
//! value, a text the beginning that it is.
//! Out of scope: what the entries are (`saker-nginx-model`).

use crate::{pages, request::Request};
use saker_http::Fields;
use saker_nginx_model::{
    Location,
    modules::upstream_rewrites::{CookieFlags, Rewrite, RewritesConf, Wanted},
};
use std::{ops::Range, sync::Arc};

/// Changes the fields of a response. Returns true if its location is still the upstream's.
pub fn rewrite(request: &mut Request<'_>, location: &Location, fields: &mut Fields) -> bool {
    let Some(proxied) = &location.proxied else {
        return true;
    };
    let redirects = Arc::clone(&proxied.redirects);
    let mut is_own = true;
    for (name, behind) in [("Location", None), ("Refresh", Some(&b"url="[..]))] {
        let Some(value) = fields.first(name).filter(|_| !redirects.is_empty()) else {
            continue;
        };
        let value = value.to_vec();
        let from = match behind {
            None => 0,
            Some(mark) => match position(&value, mark) {
                Some(at) => at + mark.len(),
                None => continue,
            },
        };
        let (kept, url) = value.split_at(from);
        if let Some(url) = first(request, &redirects, url, begins) {
            let url = pages::field_value(&[kept, &url].concat());
            is_own &= behind.is_some();
            fields.set(name, url);
        }
    }
    let rewrites = &location.conf.upstreams.of(proxied.gateway).rewrites;
    let is_cookie = |name: &str| name.eq_ignore_ascii_case("Set-Cookie");
    if rewrites.changes_cookies() && fields.iter().any(|(name, _)| is_cookie(name)) {
        let before = std::mem::take(fields);
        for (name, value) in before.iter() {
            let changed = is_cookie(name).then(|| cookie(request, rewrites, value));
            let value = changed.flatten().unwrap_or_else(|| value.to_vec());
            fields.append(name.to_owned(), value);
        }
    }
    is_own
}

/// Finds a text without regard to case.
fn position(value: &[u8], text: &[u8]) -> Option<usize> {
    let mut windows = value.windows(text.len());
    windows.position(|window| window.eq_ignore_ascii_case(text))
}

/// The part of a value that a text takes, if it does.
type Compare = fn(&[u8], &[u8]) -> Option<Range<usize>>;

fn begins(value: &[u8], text: &[u8]) -> Option<Range<usize>> {
    value.starts_with(text).then_some(0..text.len())
}

/// A domain is compared as a whole, without its first dot, which stays.
fn is_domain(value: &[u8], text: &[u8]) -> Option<Range<usize>> {
    let bare = value.strip_prefix(b".").unwrap_or(value);
    let from = value.len() - bare.len();
    bare.eq_ignore_ascii_case(text).then_some(from..value.len())
}

fn is_name(value: &[u8], text: &[u8]) -> Option<Range<usize>> {
    value.eq_ignore_ascii_case(text).then_some(0..value.len())
}

/// Returns the part of a value that matches.
fn matched(
    request: &mut Request<'_>,
    wanted: &Wanted,
    value: &[u8],
    compare: Compare,
) -> Option<Range<usize>> {
    match wanted {
        Wanted::Text(text) => {
            let text = request.text(text);
            compare(value, &text)
        }
        Wanted::Regex(regex) => request.regex(regex, value).then_some(0..value.len()),
    }
}

/// Applies the first entry that matches.
fn first(
    request: &mut Request<'_>,
    rewrites: &[Rewrite],
    value: &[u8],
    compare: Compare,
) -> Option<Vec<u8>> {
    for rewrite in rewrites {
        if let Some(part) = matched(request, &rewrite.from, value, compare) {
            let mut changed = value.get(..part.start).unwrap_or_default().to_vec();
            changed.extend(request.text(&rewrite.to));
            changed.extend_from_slice(value.get(part.end..).unwrap_or_default());
            return Some(changed);
        }
    }
    None
}

/// An attribute of a cookie; the first is the cookie itself.
struct Attribute {
    name: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl Attribute {
    fn parse(part: &[u8]) -> Attribute {
        let part = part.trim_ascii_start();
        match part.iter().position(|byte| *byte == b'=') {
            None => Attribute {
                name: part.to_vec(),
                value: None,
            },
            Some(at) => Attribute {
                name: part.get(..at).unwrap_or_default().to_vec(),
                value: part.get(at + 1..).map(<[u8]>::to_vec),
            },
        }
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// Returns a cookie with its attributes changed; `None`: nothing changes.
fn cookie(request: &mut Request<'_>, rewrites: &RewritesConf, value: &[u8]) -> Option<Vec<u8>> {
    let mut attributes: Vec<Attribute> = value
        .split(|byte| *byte == b';')
        .map(Attribute::parse)
        .collect();
    let mut is_changed = false;
    let kinds = [
        ("domain", &rewrites.cookie_domains, is_domain as Compare),
        ("path", &rewrites.cookie_paths, begins),
    ];
    for (name, list, compare) in kinds {
        let list = list.as_deref().unwrap_or_default();
        for attribute in attributes.iter_mut().skip(1).filter(|one| one.is(name)) {
            let value = attribute.value.as_deref().unwrap_or_default();
            if let Some(changed) = first(request, list, value, compare) {
                attribute.value = Some(pages::field_value(&changed));
                is_changed = true;
            }
        }
    }
    let flags = rewrites.cookie_flags.as_deref().unwrap_or_default();
    is_changed |= set_flags(request, flags, &mut attributes);
    is_changed.then(|| {
        let parts = attributes.iter().map(|one| match &one.value {
            Some(value) => [&*one.name, b"=", value].concat(),
            None => one.name.clone(),
        });
        parts.collect::<Vec<_>>().join(&b"; "[..])
    })
}

/// Sets or removes the flags of the first entry for the cookie.
fn set_flags(
    request: &mut Request<'_>,
    entries: &[CookieFlags],
    attributes: &mut Vec<Attribute>,
) -> bool {
    // What has no value is no cookie.
    let cookie = attributes.first().filter(|one| one.value.is_some());
    let Some(name) = cookie.map(|one| one.name.clone()) else {
        return false;
    };
    let mut chosen = None;
    for entry in entries {
        if matched(request, &entry.name, &name, is_name).is_some() {
            chosen = Some(entry);
            break;
        }
    }
    let Some(entry) = chosen else {
        return false;
    };
    let mut added = [None, None, None];
    for flag in &entry.flags {
        let flag = request.text(flag).to_ascii_lowercase();
        match flag.as_slice() {
            b"secure" => added[0] = Some(("Secure", None)),
            b"httponly" => added[1] = Some(("HttpOnly", None)),
            b"samesite=strict" => added[2] = Some(("SameSite", Some("Strict"))),
            b"samesite=lax" => added[2] = Some(("SameSite", Some("Lax"))),
            b"samesite=none" => added[2] = Some(("SameSite", Some("None"))),
            b"nosecure" | b"nohttponly" | b"nosamesite" => {
                let name = flag.get(2..).unwrap_or_default();
                let mut at = 0;
                attributes.retain(|one| {
                    at += 1;
                    at == 1 || !one.name.eq_ignore_ascii_case(name)
                });
            }
            _ => {}
        }
    }
    for (name, value) in added.into_iter().flatten() {
        add_flag(attributes, name, value);
    }
    true
}

fn add_flag(attributes: &mut Vec<Attribute>, name: &str, value: Option<&str>) {
    let value = value.map(|value| value.as_bytes().to_vec());
    let mut others = attributes.iter_mut().skip(1);
    match others.find(|one| one.is(name)) {
        Some(known) if value.is_some() => known.value = value,
        Some(_) => {}
        None => attributes.push(Attribute {
            name: name.as_bytes().to_vec(),
            value,
        }),
    }
}
