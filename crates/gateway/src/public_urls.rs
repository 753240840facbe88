//! URLs in responses of native proxy routes: those of the upstream become those that clients use.
//!
//! Called by: the gateway, before a response head is filtered.
//! Caveat: a path that already has the route's prefix is left alone, because applications that know
//! their prefix (X-Forwarded-Prefix) use it. Other URLs than the upstream's and this site's are
//! never changed.
//! Out of scope: ProxyPassReverse of Apache configurations (`answer`), and URLs in content.

use crate::forward;
use saker_config::model::{BackendAddress, Member, ProxyTerms, Upstream};
use saker_http::{Fields, KnownField, field_name::NameSet};
use saker_pipeline::{Exchange, UpstreamRequest, UpstreamTarget};

/// Prefixes of a route: what clients use, and what stands for it at the upstream.
struct Prefixes<'a> {
    public: &'a str,
    /// Behind the path of the server's URL.
    added: &'a str,
    upstream: &'a Upstream,
}

/// Fields that contain URLs or paths.
const WITH_URLS: NameSet = NameSet::of(&["location", "content-location", "refresh", "set-cookie"]);

/// Rewrites the fields of a response that contain URLs or paths, as far as the route wants that.
pub fn rewrite(fields: &mut Fields, exchange: &Exchange, call: &UpstreamRequest) {
    let (Some(terms), UpstreamTarget::Upstream(upstream)) = (&call.manner.terms, &call.to) else {
        return;
    };
    if !fields.may_have(WITH_URLS) {
        return;
    }
    let prefixes = Prefixes {
        public: &call.names.public_prefix,
        added: &call.names.added_prefix,
        upstream,
    };
    let host = exchange.head.view().known(KnownField::Host);
    if terms.rewrites_redirects {
        for name in ["Location", "Content-Location"] {
            let value = fields.first(name);
            if let Some(url) = value.and_then(|value| prefixes.url(value, host)) {
                fields.set(name, url);
            }
        }
        let refresh = fields.first("Refresh");
        if let Some(value) = refresh.and_then(|value| prefixes.refresh(value, host)) {
            fields.set("Refresh", value);
        }
    }
    rewrite_cookies(fields, terms, &prefixes);
}

fn rewrite_cookies(fields: &mut Fields, terms: &ProxyTerms, prefixes: &Prefixes<'_>) {
    let is_cookie = |name: &str| name.eq_ignore_ascii_case("Set-Cookie");
    if !terms.rewrites_cookies || !fields.iter().any(|(name, _)| is_cookie(name)) {
        return;
    }
    let before = std::mem::take(fields);
    for (name, value) in before.iter() {
        let rewritten = is_cookie(name).then(|| prefixes.cookie(value)).flatten();
        fields.append(name.to_owned(), rewritten.unwrap_or_else(|| value.to_vec()));
    }
}

impl Prefixes<'_> {
    /// The URL of a redirect; `None`: it stays as it is.
    fn url(&self, url: &[u8], host: Option<&[u8]>) -> Option<Vec<u8>> {
        if url.starts_with(b"/") && !url.starts_with(b"//") {
            return self.path(url);
        }
        let authority_at = ["http://", "https://"].iter().find_map(|scheme| {
            let start = url.get(..scheme.len())?;
            start
                .eq_ignore_ascii_case(scheme.as_bytes())
                .then_some(scheme.len())
        })?;
        let rest = url.get(authority_at..)?;
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?' | b'#'))
            .unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = if path.starts_with(b"/") {
            path.to_vec()
        } else {
            [b"/", path].concat()
        };
        // A site may have the name of its upstream: then nothing but the path is rewritten.
        if host.is_some_and(|host| host.eq_ignore_ascii_case(authority)) {
            let path = self.path(&path)?;
            return Some([&url[..authority_at + end], &path].concat());
        }
        let is_own = |member: &&Member| forward::authority(member).eq_ignore_ascii_case(authority);
        self.upstream.members.iter().find(is_own)?;
        match self.path(&path) {
            Some(path) => Some(path),
            // Outside of the prefix, the server has no URL that clients could use.
            None => self.is_public(&path).then(|| match self.public.is_empty() {
                true => rooted(&path),
                false => path,
            }),
        }
    }

    /// A path of the upstream as one of the route; `None`: it stays as it is.
    fn path(&self, path: &[u8]) -> Option<Vec<u8>> {
        let rests = self.upstream.members.iter().filter_map(|member| {
            let rest = path.strip_prefix(member.path.as_bytes())?;
            let rest = rest.strip_prefix(self.added.as_bytes())?;
            ends_a_segment(rest).then_some((rest, member.path.len() + self.added.len()))
        });
        let (rest, stripped) = rests.max_by_key(|(_, stripped)| *stripped)?;
        if stripped == 0 && (self.public.is_empty() || self.is_public(path)) {
            return None;
        }
        if !self.public.is_empty() {
            return Some([self.public.as_bytes(), rest].concat());
        }
        Some(rooted(rest))
    }

    /// Returns true if the path begins with the public prefix.
    fn is_public(&self, path: &[u8]) -> bool {
        path.strip_prefix(self.public.as_bytes())
            .is_some_and(ends_a_segment)
    }

    /// `5; url=http://…`
    fn refresh(&self, value: &[u8], host: Option<&[u8]>) -> Option<Vec<u8>> {
        let at = value
            .windows(4)
            .position(|window| window.eq_ignore_ascii_case(b"url="))?
            + 4;
        let (before, url) = value.split_at(at);
        let quote = url
            .first()
            .filter(|byte| matches!(byte, b'"' | b'\''))
            .copied();
        let Some(quote) = quote else {
            return Some([before, &self.url(url, host)?].concat());
        };
        let url = url.get(1..)?;
        let end = url.iter().position(|byte| *byte == quote)?;
        let (url, after) = url.split_at(end);
        Some([before, &[quote], &self.url(url, host)?, after].concat())
    }

    /// A cookie with its path and domain rewritten; `None`: it stays as it is.
    fn cookie(&self, cookie: &[u8]) -> Option<Vec<u8>> {
        // RFC 6265bis section 4.1.3.2: such a cookie has the path `/`, or none accepts it.
        let is_of_host = cookie
            .get(..7)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"__Host-"));
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let mut is_changed = false;
        for (at, part) in cookie.split(|byte| *byte == b';').enumerate() {
            let (name, value) = attribute(part);
            let new_path = match at {
                0 => None,
                _ if name.eq_ignore_ascii_case(b"path") && !is_of_host => self.cookie_path(value),
                _ if name.eq_ignore_ascii_case(b"domain") && self.is_upstream_domain(value) => {
                    is_changed = true;
                    continue;
                }
                _ => None,
            };
            is_changed |= new_path.is_some();
            parts.push(match new_path {
                Some(path) => [b" Path=", path.as_slice()].concat(),
                None => part.to_vec(),
            });
        }
        is_changed.then(|| parts.join(&b';'))
    }

    fn cookie_path(&self, path: &[u8]) -> Option<Vec<u8>> {
        let mut path = self.path(path)?;
        // The path `/app/` would not match a request for `/app`.
        if path.len() > 1 && path.ends_with(b"/") && path.len() == self.public.len() + 1 {
            path.pop();
        }
        Some(path)
    }

    /// Returns true for the host of a server of the upstream, which no client accepts from this
    /// one.
    fn is_upstream_domain(&self, domain: &[u8]) -> bool {
        let domain = domain.strip_prefix(b".").unwrap_or(domain);
        self.upstream.members.iter().any(|member| {
            matches!(&member.backend.address, BackendAddress::Tcp { host, .. }
                if host.as_bytes().eq_ignore_ascii_case(domain))
        })
    }
}

/// A path with one slash in front: two of them, or a backslash, which browsers take for one, would
/// begin the name of another host.
fn rooted(path: &[u8]) -> Vec<u8> {
    let is_slash = |byte: &&u8| matches!(byte, b'/' | b'\\');
    let slashes = path.iter().take_while(is_slash).count();
    [b"/", path.get(slashes..).unwrap_or_default()].concat()
}

/// Returns true if the text behind a prefix of a path begins another segment, or is no part of the
/// path any more.
fn ends_a_segment(rest: &[u8]) -> bool {
    matches!(rest.first(), None | Some(b'/' | b'?' | b'#'))
}

/// Name and value of an attribute, without white space.
fn attribute(part: &[u8]) -> (&[u8], &[u8]) {
    let at = part.iter().position(|byte| *byte == b'=');
    let (name, value) = part.split_at(at.unwrap_or(part.len()));
    let value = value.strip_prefix(b"=").unwrap_or_default();
    (name.trim_ascii(), value.trim_ascii())
}

#[cfg(test)]
mod tests;
