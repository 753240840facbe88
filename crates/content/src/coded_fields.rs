//! Compressible responses, and the effect of a coding on their fields.
//!
//! Called by: the compression filter, static files, and the page cache.
//! Caveat: digests cover the exact bytes, so responses with one stay as they are.
//! Out of scope: encoding (`coding`), and negotiation with the client.

use saker_config::model::{CodedTags, Compression};
use saker_http::{Fields, Status, content_coding::Coding, media_type};

/// Digest fields over the exact bytes of a body (RFC 9530).
const DIGESTS: [&str; 4] = ["Content-Digest", "Repr-Digest", "Digest", "Content-MD5"];

/// True if content with this head may be compressed. `length`: if known.
pub fn may_be_coded(
    compression: &Compression,
    status: Status,
    fields: &Fields,
    length: Option<u64>,
) -> bool {
    // What costs least comes first: most responses leave here early.
    let fits = length
        .is_none_or(|length| (compression.min_bytes..=compression.max_bytes).contains(&length));
    let wanted = match compression.statuses {
        [] => compression.errors || !status.is_error() && !(300..400).contains(&status.0),
        statuses => statuses.contains(&status.0),
    };
    fits && wanted
        && !compression.codings.is_empty()
        && status != Status::PARTIAL_CONTENT
        && !status.forbids_content()
        && fields
            .first("Content-Type")
            .map_or(compression.every_type, |value| {
                is_compressible(compression, value)
            })
        && !fields.has("Content-Range")
        && !fields.has("Content-Encoding")
        && !DIGESTS.iter().any(|name| fields.has(name))
        && !forbids_transformation(fields)
}

/// True if bodies of this type are worth compressing: the built-in list and the configured one.
pub fn is_compressible(compression: &Compression, content_type: &[u8]) -> bool {
    let essence = content_type
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    compression.every_type
        || !compression.types_are_complete && media_type::is_compressible(essence)
        || compression
            .types
            .iter()
            .any(|other| other.as_bytes().eq_ignore_ascii_case(essence))
}

/// RFC 9111 section 5.2.2.6.
fn forbids_transformation(fields: &Fields) -> bool {
    let values = fields
        .iter()
        .filter(|field| field.0.eq_ignore_ascii_case("Cache-Control"));
    values
        .flat_map(|field| field.1.split(|byte| *byte == b','))
        .any(|part| part.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
}

/// Applies a coding to the fields that describe the content.
pub fn describe(fields: &mut Fields, coding: Coding, tags: CodedTags) {
    describe_as(fields, coding.token(), tags);
}

/// The same for a coding by its name.
pub fn describe_as(fields: &mut Fields, token: &'static str, tags: CodedTags) {
    fields.set("Content-Encoding", token.as_bytes());
    let tag = fields.first("ETag").map(<[u8]>::to_vec);
    match (tags, tag) {
        (CodedTags::Level, tag) => {
            fields.remove("Accept-Ranges");
            let weakened = tag
                .filter(|tag| !tag.starts_with(b"W/"))
                .map(|tag| [b"W/", tag.as_slice()].concat());
            weakened.into_iter().for_each(|tag| fields.set("ETag", tag));
        }
        // The encoder is deterministic, so the coding's name distinguishes the bytes.
        (CodedTags::Coding, Some(tag)) => {
            let bare = tag.strip_suffix(b"\"").unwrap_or(&tag);
            fields.set("ETag", [bare, b"-", token.as_bytes(), b"\""].concat());
        }
        (CodedTags::Absent, _) => drop(fields.remove("ETag")),
        (CodedTags::Coding | CodedTags::Same, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressible_types() {
        let compression = Compression {
            types: vec!["Application/X-Thing".into()],
            ..Compression::default()
        };
        assert!(is_compressible(&compression, b"text/css; charset=utf-8"));
        assert!(is_compressible(&compression, b"application/x-thing;a=b"));
        assert!(!is_compressible(&compression, b"image/png"));
    }
}
