//! Which requests are passed on, before anything is looked for in the file system; and what is in
//! force for them.
//!
//! In Apache's order: rules of the host have had their say (`[P]` among them); then the innermost
//! `<Location>` with a ProxyPass, then the host's own in the order in which they stand. Settings
//! are the host's with `<Proxy>` and `<Location>` laid over; no folder has a say.

use crate::{
    modules::{cache, setenvif},
    proxy::{forward, interpolate::interpolate, proxied::Proxied},
    state::{peek, state},
    verdict::Verdict,
    walk,
    worker::ApacheRules,
};
use saker_apache_model::{
    dir_config::{DirConfig, Section},
    host::Host,
    matcher::Matcher,
    proxy::pass::{From, Pass, Passed, Paths, servlet_path},
};
use saker_http::{
    Method, Status,
    path::{EncodedSlashes, Slashes, has_dot_segments, has_encoded_slash, normalize_with},
    target,
};
use saker_pipeline::{Exchange, Response};
use std::{borrow::Cow, sync::Arc};

/// `mapping=encoded`: before the path is decoded, so that what can't be decoded may be passed on
/// all the same.
///
/// The answer, if there is one already.
pub fn translate_encoded(exchange: &mut Exchange, host: &Host) -> Option<Verdict> {
    let is_one = |pass: &Pass| pass.flags.is_encoded;
    if host.proxy.passes.iter().any(is_one)
        || host.locations.iter().any(|section| {
            section
                .local
                .proxy
                .pass()
                .is_some_and(|one| is_one(&one.pass))
        })
    {
        return find(exchange, host, true);
    }
    None
}

/// Finds out whether the path is passed on, and notes it. Returns the answer, if there is one
/// already.
pub fn translate(exchange: &mut Exchange, host: &Host) -> Option<Verdict> {
    find(exchange, host, false)
}

fn find(exchange: &mut Exchange, host: &Host, is_encoded: bool) -> Option<Verdict> {
    let section = section(exchange, host, is_encoded);
    if section.is_none() && host.proxy.passes.is_empty() || is_kept(exchange, host) {
        return None;
    }
    let raw = raw(exchange);
    let raw = if is_encoded {
        // Sections and rules have seen the path without dot segments, and the backend gets no
        // other one.
        Cow::Owned(normalized(unreserved_decoded(&raw), host.slashes.merge))
    } else {
        raw
    };
    let path_end = raw
        .iter()
        .position(|byte| *byte == b'?')
        .unwrap_or(raw.len());
    let paths = Paths {
        decoded: &exchange.path,
        raw: raw.get(..path_end).unwrap_or_default(),
        raw_with_query: &raw,
    };
    let of_section = section.and_then(|section| {
        Some((
            &section.local.proxy.pass()?.pass,
            of_matcher(&section.matcher),
        ))
    });
    let of_host = host.proxy.passes.iter().map(|pass| (pass, From::Section));
    let interpolates = |local: &DirConfig| local.proxy.said().and_then(|said| said.interpolates);
    let of_place = section.and_then(|section| interpolates(&section.local));
    let fills_in = of_place.or_else(|| interpolates(&host.defaults)) == Some(true);
    let fill_in = |text: &str| {
        if fills_in {
            interpolate(exchange, text)
        } else {
            text.to_owned()
        }
    };
    let mut passes = of_section
        .into_iter()
        .chain(of_host)
        .filter(|(pass, _)| pass.flags.is_encoded == is_encoded);
    let found = passes.find_map(|(pass, from)| {
        let decision = decide(pass, &from, paths, &fill_in)?;
        Some((decision, &pass.flags))
    });
    let Some((Some(proxied), flags)) = found else {
        return None;
    };
    // A servlet's path goes on without what it was resolved from.
    let is_as_sent = flags.nocanon || flags.is_encoded && !flags.is_servlet;
    if is_as_sent && is_ambiguous(&raw) {
        return Some(Verdict::Answer(Response::new(Status::BAD_REQUEST)));
    }
    if flags.is_servlet {
        // Sections decide about the path that the backend understands.
        exchange.path = path_of_servlet(paths.raw, host)?;
    }
    state(exchange).proxied = Some(Box::new(proxied));
    None
}

/// The innermost `<Location>` with a ProxyPass.
fn section<'h>(exchange: &Exchange, host: &'h Host, is_encoded: bool) -> Option<&'h Section> {
    let path = if is_encoded {
        path_of(exchange)
    } else {
        &exchange.path
    };
    let mut sections = host.locations.iter().rev();
    let found = sections.find(|section| {
        section.local.proxy.pass().is_some() && walk::is_for_path(exchange, section, path)
    });
    found.map(|section| &**section)
}

/// True for a path that is passed on as it was sent, and that a backend may read as another one than
/// the sections did: dot segments remove something else if `%2F` separates segments.
fn is_ambiguous(target: &[u8]) -> bool {
    let end = target.iter().position(|byte| *byte == b'?');
    let path = target
        .get(..end.unwrap_or(target.len()))
        .unwrap_or_default();
    has_encoded_slash(path) && has_dot_segments(path)
}

fn path_of_servlet(raw: &[u8], host: &Host) -> Option<Vec<u8>> {
    let path = servlet_path(raw)?;
    let mut read = Vec::with_capacity(path.len());
    normalize_with(&path, slashes_kept(host), &mut read).ok()?;
    Some(read)
}

/// The path as it was received, decoded but for its slashes, and without dot segments.
pub fn path_with_slashes(exchange: &Exchange, host: &Host) -> Option<Vec<u8>> {
    let raw = path_of(exchange);
    let mut read = Vec::with_capacity(raw.len());
    normalize_with(raw, slashes_kept(host), &mut read).ok()?;
    Some(read)
}

/// The host's treatment of slashes where encoded ones go on to another server.
fn slashes_kept(host: &Host) -> Slashes {
    match host.slashes.encoded {
        EncodedSlashes::Refuse => Slashes {
            encoded: EncodedSlashes::Keep,
            ..host.slashes
        },
        _ => host.slashes,
    }
}

/// True if the variable `no-proxy` keeps the request from ProxyPass (Apache manual, mod_proxy,
/// "ProxyPass").
fn is_kept(exchange: &mut Exchange, host: &Host) -> bool {
    let is_set = exchange.environment.first(b"no-proxy").is_some();
    setenvif::depends_on_variable(exchange, host, &host.defaults, Some(b"no-proxy"));
    is_set
}

/// `Some(None)`: it is ours, and no other server is asked.
fn decide(
    pass: &Pass,
    section: &From,
    paths: Paths<'_>,
    fill_in: &dyn Fn(&str) -> String,
) -> Option<Option<Proxied>> {
    match pass.passes(paths, section, fill_in) {
        Passed::No => None,
        Passed::Exception => Some(None),
        Passed::To { url, encoding } => Some(Some(Proxied { url, encoding })),
    }
}

/// Escapes of characters that need none are undone (RFC 3986 section 6.2.2.2), as far as the query.
fn unreserved_decoded(target: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(target.len());
    let mut at = 0;
    while let Some(byte) = target.get(at) {
        let digits = target
            .get(at + 1..at + 3)
            .filter(|_| *byte == b'%')
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let decoded = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match decoded.filter(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(byte)) {
            Some(decoded) => {
                out.push(decoded);
                at += 3;
            }
            None if *byte == b'?' => {
                out.extend_from_slice(target.get(at..).unwrap_or_default());
                return out;
            }
            None => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    out
}

/// RFC 3986 section 5.2.4, as far as the query; a segment above the root is dropped. `merges`:
/// several slashes count as one (`MergeSlashes`).
fn normalized(target: Vec<u8>, merges: bool) -> Vec<u8> {
    let end = target.iter().position(|byte| *byte == b'?');
    let (path, query) = target.split_at(end.unwrap_or(target.len()));
    let is_dot = |segment: &[u8]| matches!(segment, b"." | b"..");
    let is_doubled = merges && path.windows(2).any(|pair| pair == b"//");
    if !is_doubled && !path.split(|byte| *byte == b'/').any(is_dot) {
        return target;
    }
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut segments = path.split(|byte| *byte == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match segment {
            b"." => {}
            b".." => drop(kept.pop()),
            b"" if merges && segments.peek().is_some() => {}
            segment => kept.push(segment),
        }
        if segments.peek().is_none() && is_dot(segment) {
            kept.push(b"");
        }
    }
    [b"/", &*kept.join(&b'/'), query].concat()
}

fn of_matcher(matcher: &Matcher) -> From {
    match matcher {
        Matcher::Exact(path) => From::Prefix(path.clone()),
        Matcher::Pattern(pattern) => From::Pattern(Arc::clone(pattern)),
        // The whole path goes on.
        Matcher::Wild(_) => From::Prefix(Box::default()),
    }
}

/// As received, without the query.
pub fn path_of(exchange: &Exchange) -> &[u8] {
    let view = exchange.head.view();
    target::from_last_leading_slash(view.target())
        .split(|byte| *byte == b'?')
        .next()
        .unwrap_or_default()
}

/// Path and query as received; of a path that rules have led to, as it would have been.
fn raw(exchange: &Exchange) -> Cow<'_, [u8]> {
    let view = exchange.head.view();
    let is_own =
        exchange.is_as_received() && !peek(exchange).is_some_and(|state| state.is_subrequest);
    match target::split(view.method(), view.target()) {
        Ok(target::Target::Origin { .. }) if is_own => {
            Cow::Borrowed(target::from_last_leading_slash(view.target()))
        }
        _ => Cow::Owned(crate::call::target_of(exchange)),
    }
}

/// `map_to_storage` for such a request.
pub fn settings(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    proxied: &Proxied,
) -> Verdict {
    if exchange.head.view().method() == Method::Trace && !host.trace_enabled {
        return Verdict::Answer(Response::new(Status::METHOD_NOT_ALLOWED));
    }
    if let Some(refused) = forward::refusal(exchange, host, &proxied.url) {
        return refused;
    }
    let is_forwarded = state(exchange).is_forwarded;
    let mut local = Arc::clone(&host.defaults);
    let mut captures = Vec::new();
    {
        let mut memo = rules.memo.borrow_mut();
        for section in host
            .proxy
            .sections
            .iter()
            .filter(|section| section.is_for(url_in_rules(&proxied.url)))
        {
            local = memo.over(&local, &section.local);
        }
        // Paths of another server are none of ours.
        if !is_forwarded {
            local = walk::locations(&mut memo, host, local, exchange, &mut captures);
        }
    }
    captures
        .iter()
        .for_each(|(name, value)| exchange.environment.set_known(name.as_bytes(), value));
    exchange.routing.path_info.clear();
    exchange.routing.mapped = None;
    let path = exchange.path.clone();
    let own = state(exchange);
    (own.filename, own.kind, own.path) = ([b"proxy:", proxied.url.as_slice()].concat(), None, path);
    let local = match walk::conditions(rules, exchange, host, rules.watcher(), local) {
        Ok(local) => local,
        Err(pause) => return Verdict::Wait(pause),
    };
    exchange.routing.settings =
        rules
            .memo
            .borrow_mut()
            .settings(&local, host, &cache::url_path(exchange), None);
    exchange.trace("map_to_storage", Some(&host.origin), || {
        format!("passed on to {}", String::from_utf8_lossy(&proxied.url))
    });
    if !state(exchange).is_subrequest {
        setenvif::of_section(exchange, host, rules.watcher(), &local);
    }
    state(exchange).local = Some(local);
    Verdict::Pass
}

/// Without the socket.
fn url_in_rules(url: &[u8]) -> &[u8] {
    match url.get(..5) {
        Some(scheme) if scheme.eq_ignore_ascii_case(b"unix:") => url
            .iter()
            .position(|byte| *byte == b'|')
            .and_then(|at| url.get(at + 1..))
            .unwrap_or(url),
        _ => url,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_no_escape_has_none() {
        for (target, expected) in [
            ("/%41%2f%7e", "/A%2f~"),
            ("/a%4", "/a%4"),
            ("/a?%41", "/a?%41"),
            ("/%zz%20", "/%zz%20"),
        ] {
            assert_eq!(
                unreserved_decoded(target.as_bytes()),
                expected.as_bytes(),
                "{target}"
            );
        }
    }

    #[test]
    fn backends_get_no_dot_segments() {
        for (target, expected) in [
            ("/a/../b?c=/../d", "/b?c=/../d"),
            ("/a/./b/.", "/a/b/"),
            ("/a/b/..", "/a/"),
            ("/../../a", "/a"),
            ("/a%2F..%2Fb", "/a%2F..%2Fb"),
            ("/a/..b/...", "/a/..b/..."),
        ] {
            let target = target.as_bytes().to_vec();
            assert_eq!(normalized(target, false), expected.as_bytes(), "{expected}");
        }
    }

    #[test]
    fn slashes_are_merged_where_the_host_says_so() {
        let both = |target: &str| {
            [true, false].map(|merges| {
                String::from_utf8(normalized(target.as_bytes().to_vec(), merges)).unwrap()
            })
        };
        assert_eq!(both("//a//b//?c//d"), ["/a/b/?c//d", "//a//b//?c//d"]);
        assert_eq!(both("/a/../b//"), ["/b/", "/b//"]);
    }

    #[test]
    fn sections_are_for_urls_without_their_socket() {
        assert_eq!(url_in_rules(b"unix:/a.sock|fcgi://h/x"), b"fcgi://h/x");
        assert_eq!(url_in_rules(b"http://h/x"), b"http://h/x");
    }
}
