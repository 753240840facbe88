//! Entity tags (RFC 9110 section 8.8.3): parsing of lists, strong and weak comparison.
//!
//! Caveat: a comma may stand inside a tag, so a list cannot be split at its commas.

use crate::chars::is_entity_tag_char;

/// `W/"x"` or `"x"`, borrowed from the field value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag<'a> {
    pub weak: bool,
    /// Without quotes.
    pub opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Parses a single tag.
    pub fn parse(text: &'a [u8]) -> Option<EntityTag<'a>> {
        let (tag, rest) = EntityTag::take(text)?;
        rest.is_empty().then_some(tag)
    }

    /// RFC 9110 section 8.8.3.2.
    pub fn strong_eq(self, other: EntityTag<'_>) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    pub fn weak_eq(self, other: EntityTag<'_>) -> bool {
        self.opaque == other.opaque
    }

    /// Parses the tag at the beginning of `text`; returns the rest, too. `W` is case-sensitive.
    fn take(text: &'a [u8]) -> Option<(EntityTag<'a>, &'a [u8])> {
        let (weak, quoted) = match text.strip_prefix(b"W/") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let inner = quoted.strip_prefix(b"\"")?;
        let (opaque, rest) = inner.split_at_checked(memchr::memchr(b'"', inner)?)?;
        let whole = opaque.iter().all(|byte| is_entity_tag_char(*byte));
        whole.then_some((EntityTag { weak, opaque }, rest.get(1..)?))
    }
}

/// Returns true if any tag of a list satisfies `matches`; `None` if a member is malformed. Empty
/// members are allowed (RFC 9110 section 5.6.1.2). The `*` of If-Match is not a list and not
/// handled here.
pub fn any_of_list(value: &[u8], mut matches: impl FnMut(EntityTag<'_>) -> bool) -> Option<bool> {
    let mut rest = skip(value, b" \t,");
    let mut found = false;
    while !rest.is_empty() {
        let (tag, after) = EntityTag::take(rest)?;
        found |= matches(tag);
        let next = skip(after, b" \t");
        if !next.is_empty() && next[0] != b',' {
            return None;
        }
        rest = skip(next, b" \t,");
    }
    Some(found)
}

fn skip<'a>(text: &'a [u8], bytes: &[u8]) -> &'a [u8] {
    let start = text
        .iter()
        .position(|byte| !bytes.contains(byte))
        .unwrap_or(text.len());
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn strong(opaque: &[u8]) -> EntityTag<'_> {
        EntityTag {
            weak: false,
            opaque,
        }
    }

    #[test]
    fn parses_one_tag() {
        let cases: [(&[u8], Option<EntityTag<'_>>); 15] = [
            (b"\"x\"", Some(strong(b"x"))),
            (
                b"W/\"x\"",
                Some(EntityTag {
                    weak: true,
                    opaque: b"x",
                }),
            ),
            (b"\"\"", Some(strong(b""))),
            (b"\"a,b\"", Some(strong(b"a,b"))),
            (b"\"\xc3\xa4\"", Some(strong(b"\xc3\xa4"))),
            (b"\"a\\\"", Some(strong(b"a\\"))),
            (b"", None),
            (b"x", None),
            (b"\"", None),
            (b"\"x", None),
            (b"w/\"x\"", None),
            (b"W/x", None),
            (b"\"x\" ", None),
            (b"\"a b\"", None),
            (b"\"a\0b\"", None),
        ];
        for (text, want) in cases {
            assert_eq!(EntityTag::parse(text), want, "{text:?}");
        }
    }

    /// The table of RFC 9110 section 8.8.3.2.
    #[test]
    fn compares_as_the_standard_shows() {
        let rows: [(&[u8], &[u8], bool, bool); 4] = [
            (b"W/\"1\"", b"W/\"1\"", false, true),
            (b"W/\"1\"", b"W/\"2\"", false, false),
            (b"W/\"1\"", b"\"1\"", false, true),
            (b"\"1\"", b"\"1\"", true, true),
        ];
        for (one, two, strong, weak) in rows {
            let (one, two) = (
                EntityTag::parse(one).unwrap(),
                EntityTag::parse(two).unwrap(),
            );
            assert_eq!(
                (one.strong_eq(two), one.weak_eq(two)),
                (strong, weak),
                "{one:?} {two:?}"
            );
            assert_eq!(
                (two.strong_eq(one), two.weak_eq(one)),
                (strong, weak),
                "{two:?} {one:?}"
            );
        }
    }

    #[test]
    fn lists() {
        let cases: [(&[u8], Option<bool>); 13] = [
            (b"\"x\"", Some(true)),
            (b"\"a\",\"x\"", Some(true)),
            (b" \"a\" , W/\"b\",\t\"x\" ", Some(true)),
            (b",, \"x\",,", Some(true)),
            (b"\"a\", \"b\"", Some(false)),
            (b"\"a,x\"", Some(false)),
            (b"W/\"x\"", Some(false)),
            (b"", Some(false)),
            (b", ,", Some(false)),
            (b"\"x\", y", None),
            (b"\"x\" \"y\"", None),
            (b"\"x\", *", None),
            (b"\"x\"; \"y\"", None),
        ];
        for (value, want) in cases {
            assert_eq!(
                any_of_list(value, |tag| tag.strong_eq(strong(b"x"))),
                want,
                "{value:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_list_gives_back_the_tags_it_was_made_of(tags in prop::collection::vec("[!#-~]{0,8}", 0..6)) {
            let value = tags.iter().map(|tag| format!("\"{tag}\"")).collect::<Vec<_>>().join(", ");
            let mut seen = Vec::new();
            let outcome = any_of_list(value.as_bytes(), |tag| { seen.push(tag.opaque.to_vec()); false });
            prop_assert_eq!(outcome, Some(false));
            prop_assert_eq!(seen, tags.into_iter().map(String::into_bytes).collect::<Vec<_>>());
        }

        #[test]
        fn no_value_makes_it_panic(value: Vec<u8>) {
            any_of_list(&value, |_| false);
        }
    }
}
