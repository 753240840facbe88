//! Absolute URLs among results of rules: known schemes, and escaping of such URLs.
//!
//! Called by: `run`.
//! Caveat: a result is a URL only if its scheme is one of these; anything else is a path, whatever
//! it looks like.
//! Out of scope: validation.

use saker_ap_expr::escape_uri;

/// Scheme, and whether its URLs have queries.
const SCHEMES: &[(&[u8], bool)] = &[
    (b"http://", true),
    (b"https://", true),
    (b"ajp://", true),
    (b"balancer://", true),
    (b"ftp://", false),
    (b"fcgi://", true),
    (b"gopher://", false),
    (b"h2://", true),
    (b"h2c://", true),
    (b"ldap://", false),
    (b"mailto:", true),
    (b"news:", false),
    (b"nntp://", false),
    (b"scgi://", true),
    (b"ws://", true),
    (b"wss://", true),
    (b"uwsgi://", true),
    (b"unix://", true),
    (b"unix:", true),
];
/// Shorter texts are taken for paths without a look.
const URI_BYTES_MIN: usize = 6;

/// An absolute URL's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scheme {
    /// Length including the colon and the slashes.
    pub length: usize,
    pub has_query: bool,
}

/// `None` for a path.
pub(crate) fn scheme(uri: &[u8]) -> Option<Scheme> {
    if uri.len() < URI_BYTES_MIN || uri[0] == b'/' {
        return None;
    }
    let starts = |name: &[u8]| {
        uri.get(..name.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(name))
    };
    let (name, has_query) = SCHEMES.iter().find(|(name, _)| starts(name))?;
    Some(Scheme {
        length: name.len(),
        has_query: *has_query,
    })
}

/// Escapes all behind the host.
pub(crate) fn escape_absolute(uri: &[u8], scheme: Scheme) -> Vec<u8> {
    let mut kept = scheme.length;
    let is_ldap = uri[..kept].eq_ignore_ascii_case(b"ldap://");
    if uri[kept - 1] == b'/' {
        match uri[kept..].iter().position(|byte| *byte == b'/') {
            Some(host) => kept += host + 1,
            None => return uri.to_vec(),
        }
    }
    let (start, rest) = uri.split_at(kept);
    let mut out = start.to_vec();
    if !is_ldap {
        out.extend_from_slice(&escape_uri(rest));
        return out;
    }
    // RFC 4516 section 2: its parts stand between question marks.
    for (number, part) in rest.splitn(5, |byte| *byte == b'?').enumerate() {
        if number > 0 {
            out.push(b'?');
        }
        out.extend_from_slice(&escape_uri(part));
    }
    out
}

/// Replaces `prefix` at the start of `path` by `replacement`; both end with a slash, written or
/// not. `None` if it does not start so.
pub(crate) fn replace_prefix(path: &[u8], prefix: &[u8], replacement: &[u8]) -> Option<Vec<u8>> {
    let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix);
    let rest = path.strip_prefix(prefix)?.strip_prefix(b"/")?;
    let mut out = replacement.to_vec();
    if out.last().is_some_and(|byte| *byte != b'/') {
        out.push(b'/');
    }
    out.extend_from_slice(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes() {
        for uri in [
            "http://a",
            "HTTPS://a",
            "ws://a",
            "mailto:x",
            "unix:/x",
            "ldap://h/",
        ] {
            assert!(scheme(uri.as_bytes()).is_some(), "{uri}");
        }
        for uri in [
            "",
            "/http://a",
            "a",
            "ws://",
            "foo://host",
            "http:/a/b/c",
            "httpx://a",
        ] {
            assert_eq!(scheme(uri.as_bytes()), None, "{uri}");
        }
    }

    #[test]
    fn escaping() {
        let cases = [
            ("http://h/a b?c", "http://h/a%20b%3fc"),
            ("http://h", "http://h"),
            ("http://h/", "http://h/"),
            ("http://h ost/x", "http://h ost/x"),
            ("mailto:a b", "mailto:a%20b"),
            ("ldap://h/a b?c d?e?f?g?h", "ldap://h/a%20b?c%20d?e?f?g%3fh"),
        ];
        for (uri, escaped) in cases {
            let scheme = scheme(uri.as_bytes()).expect(uri);
            assert_eq!(
                String::from_utf8_lossy(&escape_absolute(uri.as_bytes(), scheme)),
                escaped
            );
        }
    }

    #[test]
    fn prefixes() {
        let replaced = |path: &str, prefix: &str, new: &str| {
            replace_prefix(path.as_bytes(), prefix.as_bytes(), new.as_bytes())
                .map(|path| String::from_utf8_lossy(&path).into_owned())
        };
        assert_eq!(
            replaced("/srv/a/b", "/srv/a/", "/x").as_deref(),
            Some("/x/b")
        );
        assert_eq!(replaced("/srv/a/b", "/srv/a", "/").as_deref(), Some("/b"));
        assert_eq!(replaced("/srv/a/b", "/srv/a", "").as_deref(), Some("b"));
        assert_eq!(replaced("/srv/ab", "/srv/a", "/x"), None);
        assert_eq!(replaced("/srv", "/srv/a", "/x"), None);
    }
}
