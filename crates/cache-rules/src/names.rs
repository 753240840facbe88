//! Names for purging: scopes, and the tags within them.
//!
//! Called by: everything that stores responses, and everything that purges (response fields, PURGE,
//! the control socket), so that both use the same bytes.
//! Caveat: applications choose tags freely; the first byte marks the kind, so that an application's
//! tag that looks like a URL is not one.
//! Out of scope: hashing (`TagMark`).

/// Everything of a scope.
pub const ALL: &[u8] = b"*";

const URL: u8 = b'U';
const TAG: u8 = b'T';
const GROUP: u8 = b'G';
/// Occurs neither in host names nor in client identities.
const BETWEEN: u8 = 0;

/// The scope of a site: its first name, or its index if it has none. No purge goes beyond it.
pub fn scope(first_name: Option<&str>, index: usize) -> Vec<u8> {
    match first_name.filter(|name| !name.is_empty() && *name != "*") {
        Some(name) => name.to_ascii_lowercase().into_bytes(),
        None => format!("*{index}").into_bytes(),
    }
}

/// The scope of one client's private entries.
pub fn private_scope(scope: &[u8], identity: &[u8]) -> Vec<u8> {
    [scope, &[BETWEEN], identity].concat()
}

/// The tag of all variants of a URL: the key without the variant.
pub fn url_tag(key: &[u8]) -> Vec<u8> {
    with_kind(URL, key)
}

/// [`url_tag`] of a URL and its query.
pub fn url_tag_of(url: &[u8], query: Option<&[u8]>) -> Vec<u8> {
    let mut tag = Vec::with_capacity(url.len() + query.map_or(0, <[u8]>::len) + 2);
    tag.push(URL);
    tag.extend_from_slice(url);
    if let Some(query) = query {
        tag.push(b'?');
        tag.extend_from_slice(query);
    }
    tag
}

/// A tag chosen by the application.
pub fn tag(name: &[u8]) -> Vec<u8> {
    with_kind(TAG, name)
}

/// The tag of a cache group (RFC 9875), which is of one origin: `scheme://host:port`.
pub fn group(origin: &[u8], name: &[u8]) -> Vec<u8> {
    with_kind(GROUP, &[origin, &[BETWEEN], name].concat())
}

/// A tag for people: `*`, the URL, or the application's word. `None`: not a valid tag.
pub fn shown(tag: &[u8]) -> Option<Shown<'_>> {
    match tag {
        ALL => Some(Shown::All),
        [URL, key @ ..] => Some(Shown::Url(key)),
        [TAG, name @ ..] => Some(Shown::Tag(name)),
        [GROUP, rest @ ..] => {
            let at = memchr::memchr(BETWEEN, rest)?;
            Some(Shown::Group(&rest[at + 1..]))
        }
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown<'t> {
    All,
    Url(&'t [u8]),
    Tag(&'t [u8]),
    /// A cache group of the entry's origin.
    Group(&'t [u8]),
}

fn with_kind(kind: u8, rest: &[u8]) -> Vec<u8> {
    let mut tag = Vec::with_capacity(rest.len() + 1);
    tag.push(kind);
    tag.extend_from_slice(rest);
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes() {
        assert_eq!(scope(Some("Example.ORG"), 3), b"example.org");
        for nameless in [None, Some(""), Some("*")] {
            assert_eq!(scope(nameless, 3), b"*3");
        }
        assert_eq!(scope(Some("*.example.org"), 0), b"*.example.org");
        assert_eq!(private_scope(b"a", b"b"), b"a\0b");
        assert_ne!(private_scope(b"a", b"bc"), private_scope(b"ab", b"c"));
    }

    #[test]
    fn tags_of_different_kinds_are_never_equal() {
        for name in ["*", "T", "U", "http://a/", ""] {
            let (url, own) = (url_tag(name.as_bytes()), tag(name.as_bytes()));
            assert_ne!(url, own);
            assert!(url != ALL && own != ALL, "{name}");
            assert_eq!(
                (shown(&url), shown(&own)),
                (
                    Some(Shown::Url(name.as_bytes())),
                    Some(Shown::Tag(name.as_bytes()))
                )
            );
        }
        assert_eq!(url_tag_of(b"http://a/", None), url_tag(b"http://a/"));
        assert_eq!(url_tag_of(b"http://a/", Some(b"")), url_tag(b"http://a/?"));
        assert_eq!(
            url_tag_of(b"http://a/", Some(b"b")),
            url_tag(b"http://a/?b")
        );
        assert_eq!(shown(ALL), Some(Shown::All));
        assert_eq!((shown(b""), shown(b"x")), (None, None));
        let of = group(b"http://a:80", b"news");
        assert_eq!(shown(&of), Some(Shown::Group(b"news")));
        assert_ne!(of, group(b"https://a:443", b"news"));
        assert_ne!(of, tag(&of[1..]));
    }
}
