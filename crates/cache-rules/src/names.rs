//! What entries are called when they are to be purged: scopes, and the tags within them.
//!
//! Used where responses are stored, and by everything that purges (response fields, PURGE, the
//! control socket), so that both call a thing by the same bytes. The difficulty is that
//! applications choose their tags freely: the first byte says of which kind a tag is, so that a tag
//! of an application that looks like a URL is none.

/// Everything of a scope.
pub const ALL: &[u8] = b"*";

const URL: u8 = b'U';
const TAG: u8 = b'T';
/// Occurs neither in names of hosts nor in what is told of visitors.
const BETWEEN: u8 = 0;

/// Of a site: its first name, or the place that it has among all sites where it has none. No purge
/// goes beyond it.
pub fn scope(first_name: Option<&str>, index: usize) -> Vec<u8> {
    match first_name.filter(|name| !name.is_empty() && *name != "*") {
        Some(name) => name.to_ascii_lowercase().into_bytes(),
        None => format!("*{index}").into_bytes(),
    }
}

/// Of one visitor's private entries.
pub fn private_scope(scope: &[u8], visitor: &[u8]) -> Vec<u8> {
    [scope, &[BETWEEN], visitor].concat()
}

/// Of all variants of a URL: the key without what varies.
pub fn url_tag(key: &[u8]) -> Vec<u8> {
    with_kind(URL, key)
}

/// One that the application chose.
pub fn tag(name: &[u8]) -> Vec<u8> {
    with_kind(TAG, name)
}

/// What a tag is, for people: `*`, the URL, or the application's own word. `None`: not one of ours.
pub fn shown(tag: &[u8]) -> Option<Shown<'_>> {
    match tag {
        ALL => Some(Shown::All),
        [URL, key @ ..] => Some(Shown::Url(key)),
        [TAG, name @ ..] => Some(Shown::Tag(name)),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown<'t> {
    All,
    Url(&'t [u8]),
    Tag(&'t [u8]),
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
        assert_eq!(shown(ALL), Some(Shown::All));
        assert_eq!((shown(b""), shown(b"x")), (None, None));
    }
}
