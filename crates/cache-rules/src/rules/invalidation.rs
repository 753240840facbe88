//! Invalidation (RFC 9111 section 4.4): URLs that a successful unsafe request invalidates.
//!
//! Called by: the page cache, for responses to unsafe methods.
//! Caveat: Location and Content-Location may contain anything, so they are resolved by RFC 3986 and
//! count only within the origin of the request.
//! Out of scope: keys, and purges that an application requests.

use super::targeted::lines;
use saker_http::{
    Fields, Method, Status,
    host::{canonical_host, parse_authority},
};

/// The origin of a request.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Host with or without port, as in the Host field.
    pub authority: &'a [u8],
}

/// Path and query of all URLs of that origin whose entries are to be invalidated; none for safe
/// methods and errors. `target`: the path and query of the request.
pub fn invalidated(
    method: Method,
    origin: Origin<'_>,
    target: &[u8],
    status: Status,
    fields: &Fields,
) -> Vec<Vec<u8>> {
    // "Non-error" is 2xx and 3xx; unknown methods count as unsafe.
    if method.is_safe() || !(status.is_success() || status.is_redirection()) {
        return Vec::new();
    }
    let mut targets = vec![without_fragment(target).to_vec()];
    for reference in lines(fields, "location").chain(lines(fields, "content-location")) {
        if let Some(found) =
            resolve(origin, target, reference).filter(|found| !targets.contains(found))
        {
            targets.push(found);
        }
    }
    targets
}

/// True if the only Content-Location names the requested URL: the response is its representation
/// (RFC 9110 sections 8.7 and 9.3.3).
pub fn is_about_target(origin: Origin<'_>, target: &[u8], fields: &Fields) -> bool {
    let mut references = lines(fields, "content-location");
    let (Some(reference), None) = (references.next(), references.next()) else {
        return false;
    };
    resolve(origin, target, reference).is_some_and(|found| found == without_fragment(target))
}

/// A reference of the same origin as path and query (RFC 3986 section 5.2.2).
fn resolve(origin: Origin<'_>, target: &[u8], reference: &[u8]) -> Option<Vec<u8>> {
    let reference = without_fragment(reference.trim_ascii());
    if let Some((scheme, rest)) = scheme(reference) {
        let rest = rest.strip_prefix(b"//")?;
        return scheme
            .eq_ignore_ascii_case(origin.scheme.as_bytes())
            .then(|| of_authority(origin, rest))
            .flatten();
    }
    if let Some(rest) = reference.strip_prefix(b"//") {
        return of_authority(origin, rest);
    }
    let (base_path, _) = split_query(without_fragment(target));
    let joined = match reference.first() {
        None => return None,
        Some(b'/') => reference.to_vec(),
        Some(b'?') => [base_path, reference].concat(),
        Some(_) => {
            let folder = memchr::memrchr(b'/', base_path).map_or(&b"/"[..], |at| &base_path[..=at]);
            [folder, reference].concat()
        }
    };
    Some(without_dots(&joined))
}

/// `rest` follows the two slashes.
fn of_authority(origin: Origin<'_>, rest: &[u8]) -> Option<Vec<u8>> {
    let end = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let port = if origin.scheme.eq_ignore_ascii_case("https") {
        443
    } else {
        80
    };
    let same = |text: &[u8]| {
        parse_authority(text).map(|read| (canonical_host(read.host), read.port.unwrap_or(port)))
    };
    let ours = same(origin.authority)?;
    (same(authority)? == ours).then(|| {
        without_dots(&if path.starts_with(b"/") {
            path.to_vec()
        } else {
            [b"/", path].concat()
        })
    })
}

/// A scheme and what follows its colon.
fn scheme(reference: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = reference
        .iter()
        .position(|byte| matches!(byte, b':' | b'/' | b'?'))?;
    let (scheme, rest) = reference.split_at(end);
    let rest = rest.strip_prefix(b":")?;
    let starts = scheme.first().is_some_and(u8::is_ascii_alphabetic);
    (starts
        && scheme
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte)))
    .then_some((scheme, rest))
}

fn without_fragment(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(b'#', text).unwrap_or(text.len())]
}

/// The query with its question mark.
fn split_query(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(memchr::memchr(b'?', text).unwrap_or(text.len()))
}

/// RFC 3986 section 5.2.4, on the path alone.
fn without_dots(target: &[u8]) -> Vec<u8> {
    let (path, query) = split_query(target);
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut ends_in_folder = false;
    for segment in path.split(|byte| *byte == b'/').skip(1) {
        ends_in_folder = matches!(segment, b"." | b"..");
        match segment {
            b"." => {}
            b".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    let mut out = Vec::with_capacity(target.len());
    for segment in &segments {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    if ends_in_folder || segments.is_empty() {
        out.push(b'/');
    }
    out.extend_from_slice(query);
    out
}
