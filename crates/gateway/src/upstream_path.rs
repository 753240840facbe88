//! The path that an upstream sees of a request to a native proxy route.
//!
//! A server whose URL has no path gets the path of the request byte for byte as it was sent, unless
//! it has dot segments. The
//! path of a URL, even `/` alone, takes the place of the literal beginning of the route's pattern;
//! `strip_prefix` names another beginning, and `add_prefix` is put in front of what is left. The
//! rest stays byte for byte, so that `%2F` remains what it is.
//!
//! Called by: `native`.
//! Caveat: a path with dot segments is forwarded as the rules have read it, decoded and normalized:
//! otherwise it could lead to what other rules guard. If such segments come to be where the prefix
//! is cut off (`/b*` and `/b../x`), or the path has a backslash, it is not forwarded.

use saker_config::model::{Member, PathPattern, Proxy, Route};
use saker_http::{escape, path};
use saker_pipeline::{Exchange, Script};
use std::borrow::Cow;

/// A path for the upstream.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct UpstreamPath {
    /// Behind the path of the server's URL, escaped.
    pub path: Vec<u8>,
    /// The removed part, decoded, without a trailing slash.
    pub public_prefix: Box<str>,
    pub added_prefix: Box<str>,
    /// The path has a backslash or segments that may be read as `.` or `..`: it could lead elsewhere.
    pub leads_out: bool,
}

/// Returns the path for the upstream of `proxy`.
pub fn of(exchange: &Exchange, route: &Route, proxy: &Proxy) -> UpstreamPath {
    let raw = exchange.path_as_sent();
    let replaces = proxy
        .upstream
        .members
        .iter()
        .any(|member| member.names_path);
    let (strip, is_at_boundary) = match &proxy.terms.strip_prefix {
        Some(prefix) => (Cow::Borrowed(&**prefix), true),
        None if replaces => (replaced(&route.pattern), false),
        None => (Cow::Borrowed(""), false),
    };
    let added = &*proxy.terms.add_prefix;
    if strip.is_empty() && added.is_empty() && !replaces {
        return unchanged(&exchange.path, raw);
    }
    let (rest, is_stripped) = rest(&exchange.path, raw, &strip, is_at_boundary);
    // With room for a slash, a question mark, and the query.
    let query = exchange.query.as_ref().map_or(0, Vec::len);
    let mut path = Vec::with_capacity(added.len() + rest.len() + query + 2);
    path.extend_from_slice(added.as_bytes());
    // A pattern without a star stands for one path, which the server's takes the place of.
    let is_whole = rest.is_empty() && is_stripped && !strip.ends_with('/');
    let needs_slash = !is_whole || path.is_empty() && proxy.upstream.members.iter().any(is_bare);
    let ends_in_slash = is_whole && added.is_empty() && replaces && proxy.said.ends_with('/');
    if (needs_slash || ends_in_slash) && !rest.starts_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(&rest);
    UpstreamPath {
        public_prefix: match is_stripped {
            true => strip.trim_end_matches('/').into(),
            false => "".into(),
        },
        added_prefix: added.into(),
        leads_out: is_read_otherwise(&path),
        path,
    }
}

/// The path of a route without prefixes: as it was sent, unless it has dot segments. The upstream
/// gets those as the rules have read them, or it could find another place in them.
fn unchanged(decoded: &[u8], raw: Option<&[u8]>) -> UpstreamPath {
    let path = match raw.filter(|raw| !path::has_dot_segments(raw)) {
        Some(raw) => raw.to_vec(),
        None => escaped(decoded),
    };
    UpstreamPath {
        leads_out: is_read_otherwise(&path),
        path,
        ..UpstreamPath::default()
    }
}

/// Returns true if programs may read the path as another one than the rules have: for dot segments,
/// with parameters too, or because parsers of URLs take `\\` for `/` (browsers send `/` for it).
fn is_read_otherwise(path: &[u8]) -> bool {
    path.contains(&b'\\') || path::may_have_dot_segments(path)
}

/// The literal beginning of a pattern, which the path of a URL takes the place of. A regular
/// expression has none.
fn replaced(pattern: &PathPattern) -> Cow<'_, str> {
    match pattern {
        PathPattern::Regex(_) => Cow::Borrowed(""),
        pattern => pattern.literal_start(),
    }
}

fn is_bare(member: &Member) -> bool {
    member.path.is_empty()
}

/// The part of the path behind `strip`, escaped, and whether the path begins with that.
fn rest<'a>(
    decoded: &'a [u8],
    raw: Option<&'a [u8]>,
    strip: &str,
    is_at_boundary: bool,
) -> (Cow<'a, [u8]>, bool) {
    let begins = |rest: &[u8]| !is_at_boundary || matches!(rest.first(), None | Some(b'/'));
    let whole = raw.filter(|raw| !path::has_dot_segments(raw));
    if let Some(raw) = whole {
        return match path::strip_raw_prefix(raw, strip.as_bytes()).filter(|rest| begins(rest)) {
            Some(rest) => (Cow::Borrowed(rest), true),
            None => (Cow::Borrowed(raw), false),
        };
    }
    match decoded
        .strip_prefix(strip.as_bytes())
        .filter(|rest| begins(rest))
    {
        Some(rest) => (Cow::Owned(escaped(rest)), true),
        None => (Cow::Owned(escaped(decoded)), false),
    }
}

fn escaped(decoded: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(decoded.len() + 8);
    escape::uri_path(decoded, &mut path);
    path
}

/// Divides the path of an application behind uwsgi or SCGI into the prefix that it is mounted at
/// and the rest (PEP 3333).
pub fn mount(script: &mut Script, prefix: &str) {
    for (name, value) in &mut script.variables {
        match name.as_slice() {
            b"SCRIPT_NAME" => *value = prefix.as_bytes().to_vec(),
            b"PATH_INFO" => {
                if let Some(rest) = value.strip_prefix(prefix.as_bytes()) {
                    *value = rest.to_vec();
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns: decoded path, path as sent, the upstream's (or `-` for a refusal).
    #[test]
    fn paths_without_prefixes_are_read_as_the_rules_did() {
        for (decoded, raw, expected) in [
            ("/a/b c", "/a//b%20c", "/a//b%20c"),
            ("/a/b/c", "/a/b%2Fc", "/a/b%2Fc"),
            ("/a..b;x", "/a..b;x", "/a..b;x"),
            ("/a\\b", "/a%5Cb", "/a%5Cb"),
            ("/up/x", "/admin/delete/../../up/x", "/up/x"),
            ("/up/x", "/admin/%2e%2e/up/./x", "/up/x"),
            ("/admin\\x", "/admin\\x", "-"),
            ("/x/..\\admin/x", "/x/..\\admin/x", "-"),
            ("/%2e%2e\\admin/x", "/%2e%2e\\admin/x", "-"),
            ("/up/..;/admin", "/up/..;/admin", "-"),
            ("/up/..;/admin", "/up/%2e%2e%3b/admin", "-"),
        ] {
            let found = unchanged(decoded.as_bytes(), Some(raw.as_bytes()));
            let shown = match found.leads_out {
                true => "-".into(),
                false => String::from_utf8(found.path).unwrap(),
            };
            assert_eq!(shown, expected, "{raw}");
        }
    }

    /// Columns: decoded path, path as sent, prefix, at a segment boundary only, rest.
    #[test]
    fn rests() {
        for (decoded, raw, strip, is_at_boundary, expected) in [
            ("/api/x", Some("/api/x"), "/api", true, "/x"),
            ("/api", Some("/api"), "/api", true, ""),
            ("/apis", Some("/apis"), "/api", true, "- /apis"),
            ("/apis", Some("/apis"), "/api", false, "s"),
            ("/a/b/c", Some("/a/b%2Fc"), "/a/", false, "b%2Fc"),
            ("/a/@s/n", Some("/a/%40s%2fn"), "/a", true, "/%40s%2fn"),
            ("/a/b", Some("//a//b"), "/a", true, "//b"),
            ("/a/b", Some("/a/x/../b"), "/a", true, "/b"),
            ("/b", Some("/a/%2e%2e/b"), "/a", true, "- /b"),
            ("/a/ü", None, "/a", true, "/%c3%bc"),
            ("/x", None, "/a", true, "- /x"),
        ] {
            let raw = raw.map(str::as_bytes);
            let (rest, is_stripped) = rest(decoded.as_bytes(), raw, strip, is_at_boundary);
            let mut shown = if is_stripped { "" } else { "- " }.to_owned();
            shown.push_str(
                &String::from_utf8(rest.into_owned())
                    .unwrap()
                    .to_ascii_lowercase(),
            );
            assert_eq!(shown, expected.to_ascii_lowercase(), "{decoded} {strip}");
        }
    }
}
