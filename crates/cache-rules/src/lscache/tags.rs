//! `X-LiteSpeed-Tag` (LSCache protocol 6.5): tags by which an entry can be purged.
//!
//! Called by: the page cache.
//! Caveat: tags of a private entry belong to its client, except for those that begin with
//! `public:`, so that a public purge can reach private entries.
//! Out of scope: the implicit tag of the URL ([`crate::names::url_tag`]).

use crate::rules::{
    tags::{TAGS_BYTES_MAX, TooManyTags},
    targeted::lines,
};
use saker_http::Fields;
use std::collections::HashSet;

pub const TAG: &str = "X-LiteSpeed-Tag";

/// Each tag once, in order, without its prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    /// Matched by public purges.
    pub public: Vec<Vec<u8>>,
    /// Matched by private purges of the same client.
    pub private: Vec<Vec<u8>>,
}

/// Tags from all lines of the field.
/// # Errors
/// There are too many to purge by, so the response must not be stored.
pub fn tags(fields: &Fields, private_entry: bool) -> Result<Tags, TooManyTags> {
    let mut tags = Tags::default();
    let mut seen: HashSet<(bool, &[u8])> = HashSet::new();
    let mut bytes = 0;
    for tag in lines(fields, TAG).flat_map(words) {
        bytes += tag.len() + 1;
        let (public, tag) = match strip_prefix(tag, b"public:") {
            Some(tag) => (true, tag),
            None => (!private_entry, tag),
        };
        if !tag.is_empty() && seen.insert((public, tag)) {
            let list = if public {
                &mut tags.public
            } else {
                &mut tags.private
            };
            list.push(tag.to_vec());
        }
    }
    // The last tag has no comma.
    if bytes > TAGS_BYTES_MAX + 1 {
        Err(TooManyTags)
    } else {
        Ok(tags)
    }
}

/// Splits at commas, semicolons and white space: none of them can be in a tag, and purges are split
/// the same way.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b',' | b';') || byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
}

/// Ignores case.
pub(super) fn strip_prefix<'a>(text: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}
