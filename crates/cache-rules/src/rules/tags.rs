//! Tags for other caches: Surrogate-Key, Cache-Tag, xkey, X-Magento-Tags and similar fields.
//!
//! Called by: the page cache, so that a purge by tag works whichever cache the tag was meant for.
//! Caveat: a response with too many tags must not be stored.
//! Out of scope: X-LiteSpeed-Tag, which has scopes ([`crate::lscache`]).

use saker_http::Fields;

/// Limit on the tags of a response; pages of large shops come near.
pub const TAGS_BYTES_MAX: usize = 65_535;

/// The field, and whether commas separate its tags; otherwise white space does.
const TAG_FIELDS: &[(&str, bool)] = &[
    ("surrogate-key", false),
    ("cache-tag", true),
    ("edge-cache-tag", true),
    ("cache-tags", true),
    ("xkey", false),
    ("x-magento-tags", true),
    ("x-cache-tags", true),
];

/// Tags of a response, each once, in order.
/// # Errors
/// More than [`TAGS_BYTES_MAX`]: the response can't be purged by all its tags, so it must not be
/// stored.
pub fn tags(fields: &Fields) -> Result<Vec<Vec<u8>>, TooManyTags> {
    let mut tags: Vec<Vec<u8>> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut bytes = 0;
    for (name, value) in fields.iter() {
        let Some((_, commas)) = TAG_FIELDS
            .iter()
            .find(|field| field.0.eq_ignore_ascii_case(name))
        else {
            continue;
        };
        let separates = |byte: &u8| *byte == b',' || (!commas && byte.is_ascii_whitespace());
        for tag in value
            .split(separates)
            .map(<[u8]>::trim_ascii)
            .filter(|tag| !tag.is_empty())
        {
            if seen.insert(tag) {
                bytes += tag.len();
                tags.push(tag.to_vec());
            }
        }
    }
    if bytes > TAGS_BYTES_MAX {
        Err(TooManyTags)
    } else {
        Ok(tags)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyTags;

/// True for fields with tags, which clients need not see.
pub fn is_tag_field(name: &str) -> bool {
    TAG_FIELDS
        .iter()
        .any(|field| field.0.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_tags() {
        let rows: [(&str, &str, &[&str]); 9] = [
            ("Surrogate-Key", "a b  c", &["a", "b", "c"]),
            ("surrogate-key", "a,b", &["a", "b"]),
            ("Cache-Tag", "a, b c ,d", &["a", "b c", "d"]),
            ("Edge-Cache-Tag", "a,b", &["a", "b"]),
            ("xkey", "a b", &["a", "b"]),
            (
                "X-Magento-Tags",
                "cat_p,cat_p_1,FPC",
                &["cat_p", "cat_p_1", "FPC"],
            ),
            ("Cache-Tag", "a,a,,A", &["a", "A"]),
            ("Cache-Tag", " , ", &[]),
            ("X-Tag", "a", &[]),
        ];
        for (name, value, want) in rows {
            let mut fields = Fields::new();
            fields.append(name, value.as_bytes());
            let found = tags(&fields).expect("few");
            assert_eq!(
                found,
                want.iter()
                    .map(|tag| tag.as_bytes().to_vec())
                    .collect::<Vec<_>>(),
                "{name}: {value}"
            );
        }
    }

    #[test]
    fn too_many() {
        let of = |bytes: usize| {
            let mut fields = Fields::new();
            fields.append("Cache-Tag", vec![b'x'; bytes]);
            fields.append("Cache-Tag", vec![b'x'; bytes]);
            tags(&fields).map(|tags| tags.len())
        };
        assert_eq!(of(TAGS_BYTES_MAX), Ok(1));
        assert_eq!(of(TAGS_BYTES_MAX + 1), Err(TooManyTags));
    }
}
