//! multipart/byteranges (RFC 9110 section 14.6): several ranges of one representation in one
//! response.
//!
//! Called by: static files and the page cache.
//! Caveat: the boundary must not occur in the content. It is not searched for; it is unguessable,
//! so authors of content can't include it.
//! Out of scope: parsing Range fields.

use crate::content::Content;
use saker_http::{Fields, Status, range::ByteRange};
use saker_pipeline::{Body, Chunk, ReadyHead, Response};
use saker_telemetry::error_log;
use std::{
    cell::Cell,
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    rc::Rc,
};

/// Makes boundaries: a keyed hash of a counter, without a system call.
#[derive(Default)]
pub struct Boundaries {
    seed: RandomState,
    count: Cell<u64>,
}

impl Boundaries {
    /// 16 hexadecimal digits, as many as Apache's have; under an nginx configuration 20 digits, as
    /// many as nginx's.
    pub fn next(&self) -> String {
        let count = self.count.get();
        self.count.set(count.wrapping_add(1));
        let hash = self.seed.hash_one(count);
        match error_log::speaks_nginx() {
            true => format!("{hash:020}"),
            false => format!("{hash:016x}"),
        }
    }
}

/// The value of Content-Range for a range.
pub fn content_range(range: ByteRange, length: u64) -> Vec<u8> {
    format!("bytes {}-{}/{length}", range.first, range.last).into_bytes()
}

/// 206 with several ranges of a content; `fields`: those of a 200, except for the ones that
/// describe the range.
pub fn response(
    boundaries: &Boundaries,
    content_type: Option<&[u8]>,
    mut fields: Fields,
    content: &Content,
    ranges: &[ByteRange],
) -> Response {
    let boundary = boundaries.next();
    let body = Body::Parts(parts(content_type, content, ranges, &boundary));
    fields.set(
        "Content-Type",
        format!("multipart/byteranges; boundary={boundary}").into_bytes(),
    );
    fields.append(
        "Content-Length",
        body.length().unwrap_or_default().to_string().into_bytes(),
    );
    Response::ready(
        Rc::new(ReadyHead::new(Status::PARTIAL_CONTENT, fields)),
        body,
    )
}

fn parts(
    content_type: Option<&[u8]>,
    content: &Content,
    ranges: &[ByteRange],
    boundary: &str,
) -> VecDeque<Body> {
    let length = content.length();
    // Each of the two spells the names of the fields in its own way.
    let (kind_name, range_name) = match error_log::speaks_nginx() {
        true => ("Content-Type: ", "Content-Range: "),
        false => ("Content-type: ", "Content-range: "),
    };
    let mut parts = VecDeque::with_capacity(ranges.len() * 2 + 1);
    for range in ranges {
        // With an empty line first, as Apache and nginx have it (RFC 2046 section 5.1.1: a preamble).
        let mut head = format!("\r\n--{boundary}\r\n").into_bytes();
        // RFC 9110 section 14.6: each part has the Content-Type that a 200 would have.
        if let Some(content_type) = content_type {
            head.extend_from_slice(&[kind_name.as_bytes(), content_type, b"\r\n"].concat());
        }
        head.extend_from_slice(
            &[
                range_name.as_bytes(),
                content_range(*range, length).as_slice(),
                b"\r\n\r\n",
            ]
            .concat(),
        );
        parts.push_back(Body::Memory(Chunk::from(head)));
        parts.push_back(content.part(range.first..range.last + 1));
    }
    parts.push_back(Body::Memory(Chunk::from(
        format!("\r\n--{boundary}--\r\n").into_bytes(),
    )));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_differ_and_are_tokens() {
        let boundaries = Boundaries::default();
        let (one, two) = (boundaries.next(), boundaries.next());
        assert_ne!(one, two);
        assert_ne!(one, Boundaries::default().next());
        assert!(one.len() == 16 && one.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
