//! The content of a QUERY request as part of the cache key (draft-ietf-httpbis-safe-method-w-body,
//! section 2.7).
//!
//! Called by: the look-up, for sites whose `methods` has QUERY.
//! Caveat: the application still gets the content as it was sent. What is read here is bounded, and
//! a request with more content is passed on with all of it.
//! Out of scope: normalizing content beyond white space of JSON.

use crate::key::HEX;
use saker_http::{Fields, HeadView, chars::trim_ows};
use saker_pipeline::{BodyError, Chunk, ChunkQueue, Exchange, NoBody, RequestBody};
use sha2::{Digest, Sha256};
use std::{
    collections::VecDeque,
    future::poll_fn,
    task::{Context, Poll},
};

/// Request fields that say what the content is. All of them are part of the key.
const ABOUT_CONTENT: [&str; 4] = [
    "Content-Type",
    "Content-Encoding",
    "Content-Language",
    "Content-Location",
];

/// Content that a key covers.
pub struct CoveredContent {
    /// Stands for the content in keys.
    pub digest: Vec<u8>,
    /// The content itself, for a second request to the upstream.
    pub chunks: VecDeque<Chunk>,
}

/// Reads the content, and puts it back. `None`: there is more than `bytes_max`, it has trailers,
/// which no key covers, or the client has failed.
pub async fn read(exchange: &mut Exchange, bytes_max: u64) -> Option<CoveredContent> {
    if exchange
        .body
        .length()
        .is_some_and(|length| length > bytes_max)
    {
        return None;
    }
    let mut body = std::mem::replace(&mut exchange.body, Box::new(NoBody));
    let (mut read, mut chunks) = (QueryContent::default(), ChunkQueue::default());
    let outcome = loop {
        match poll_fn(|cx| body.poll_chunk(cx)).await {
            None => break Some(()),
            Some(Ok(chunk)) => {
                read.bytes += chunk.len() as u64;
                chunks.push(chunk);
                if read.bytes > bytes_max {
                    break None;
                }
            }
            Some(Err(error)) => {
                read.failed = Some(error);
                break None;
            }
        }
    };
    read.chunks = chunks.into_chunks();
    match outcome {
        Some(()) => read.trailers = body.trailers(),
        None => read.rest = Some(body),
    }
    let is_covered = outcome.is_some() && read.trailers.is_none();
    let covered = is_covered.then(|| CoveredContent {
        digest: digest(exchange.head.view(), &read.chunks),
        chunks: read.chunks.clone(),
    });
    exchange.body = Box::new(read);
    covered
}

/// Returns the content as a request body.
pub fn body(chunks: VecDeque<Chunk>) -> Box<dyn RequestBody> {
    Box::new(QueryContent {
        bytes: chunks.iter().map(|chunk| chunk.len() as u64).sum(),
        chunks,
        ..QueryContent::default()
    })
}

/// A digest of the content and of the fields about it, in hexadecimal.
fn digest(view: HeadView<'_>, chunks: &VecDeque<Chunk>) -> Vec<u8> {
    let mut hash = Sha256::new();
    for name in ABOUT_CONTENT {
        let mut count = 0u64;
        for value in view.all(name) {
            let value = trim_ows(value);
            hash.update((value.len() as u64).to_le_bytes());
            hash.update(value);
            count += 1;
        }
        // A length that no value has ends the list.
        hash.update(u64::MAX.to_le_bytes());
        hash.update(count.to_le_bytes());
    }
    let content: Vec<u8> = chunks
        .iter()
        .flat_map(|chunk| chunk.bytes().iter().copied())
        .collect();
    let canonical = is_json(view).then(|| without_space(&content)).flatten();
    hash.update(canonical.as_deref().unwrap_or(&content));
    hash.finalize()
        .iter()
        .flat_map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]])
        .collect()
}

/// True for unencoded JSON: `application/json` and types ending in `+json`.
fn is_json(view: HeadView<'_>) -> bool {
    let kind = view.first("Content-Type").unwrap_or_default();
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    let kind = trim_ows(kind).to_ascii_lowercase();
    (kind == b"application/json" || kind.ends_with(b"+json"))
        && view.first("Content-Encoding").is_none()
}

/// JSON without the white space between its tokens (RFC 8259 section 2). Where a space separates
/// two tokens that are not punctuation, which is no JSON, one is left. `None`: other languages may
/// read a difference in the space: it is no UTF-8, has bytes that no token of JSON has, or a string
/// that doesn't end.
fn without_space(text: &[u8]) -> Option<Vec<u8>> {
    std::str::from_utf8(text).ok()?;
    let mut out = Vec::with_capacity(text.len());
    let (mut is_string, mut is_escaped, mut has_space) = (false, false, false);
    for byte in text {
        let byte = *byte;
        if is_string {
            // A control character in a string is no JSON: a line end may end more than a line.
            (byte >= b' ').then(|| out.push(byte))?;
            is_string = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            continue;
        }
        if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
            has_space = true;
            continue;
        }
        let separates = |byte: u8| matches!(byte, b'{' | b'}' | b'[' | b']' | b',' | b':');
        let is_token = byte.is_ascii_alphanumeric() || matches!(byte, b'"' | b'+' | b'-' | b'.');
        if !is_token && !separates(byte) {
            return None;
        }
        if has_space && !separates(byte) && out.last().is_some_and(|last| !separates(*last)) {
            out.push(b' ');
        }
        has_space = false;
        is_string = byte == b'"';
        out.push(byte);
    }
    (!is_string).then_some(out)
}

/// Content that was read ahead, and what is left of it.
#[derive(Default)]
struct QueryContent {
    chunks: VecDeque<Chunk>,
    bytes: u64,
    /// `None`: all of it was read.
    rest: Option<Box<dyn RequestBody>>,
    /// The error that reading ended with.
    failed: Option<BodyError>,
    trailers: Option<Fields>,
}

impl RequestBody for QueryContent {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if let Some(chunk) = self.chunks.pop_front() {
            return Poll::Ready(Some(Ok(chunk)));
        }
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match &mut self.rest {
            Some(rest) => rest.poll_chunk(cx),
            None => Poll::Ready(None),
        }
    }

    fn length(&self) -> Option<u64> {
        match &self.rest {
            Some(rest) => rest.length(),
            None => Some(self.bytes),
        }
    }

    fn is_end(&self) -> bool {
        self.chunks.is_empty()
            && self.failed.is_none()
            && self.rest.as_ref().is_none_or(|rest| rest.is_end())
    }

    fn trailers(&mut self) -> Option<Fields> {
        match &mut self.rest {
            Some(rest) => rest.trailers(),
            None => self.trailers.take(),
        }
    }

    fn take_time(&mut self) {
        self.rest.iter_mut().for_each(|rest| rest.take_time());
    }

    fn throttle(&mut self, throttle: &saker_config::model::Throttle, site: usize) {
        self.rest
            .iter_mut()
            .for_each(|rest| rest.throttle(throttle, site));
    }

    fn limit(&mut self, bytes_max: u64) {
        self.rest.iter_mut().for_each(|rest| rest.limit(bytes_max));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_http::{RequestHead, Version};

    fn key(fields: &[(&str, &str)], content: &[&str]) -> Vec<u8> {
        let head = RequestHead::build("QUERY", "/", Version::Http11, fields);
        let chunks = content
            .iter()
            .map(|text| Chunk::from(text.as_bytes().to_vec()))
            .collect();
        digest(head.view(), &chunks)
    }

    #[test]
    fn content_and_its_type_select() {
        const JSON: (&str, &str) = ("Content-Type", "application/json; charset=utf-8");
        let same = [
            (key(&[], &["a=1"]), key(&[], &["a", "=1"])),
            (
                key(&[JSON], &["{\"a\": 1}"]),
                key(&[JSON], &["{\n\"a\":1 }\n"]),
            ),
            (key(&[("Accept", "a")], &["x"]), key(&[], &["x"])),
        ];
        for (one, other) in same {
            assert_eq!(one, other);
        }
        let other_coding = [JSON, ("Content-Encoding", "gzip")];
        let different = [
            (key(&[], &["a=1"]), key(&[], &["a=2"])),
            (
                key(&[], &["a=1"]),
                key(&[("Content-Type", "text/plain")], &["a=1"]),
            ),
            (key(&[], &["{\"a\": 1}"]), key(&[], &["{\"a\":1}"])),
            (
                key(&[JSON], &["{\"a b\":1}"]),
                key(&[JSON], &["{\"ab\":1}"]),
            ),
            (key(&other_coding, &["[1]"]), key(&other_coding, &["[ 1]"])),
            (
                key(&[("Content-Type", "a"), ("Content-Type", "b")], &[]),
                key(&[("Content-Type", "a"), ("Content-Encoding", "b")], &[]),
            ),
        ];
        for (one, other) in different {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn only_space_between_tokens_goes() {
        let rows = [
            ("{ \"a\" : [ 1 , true ] }", "{\"a\":[1,true]}"),
            ("\" a \\\" b \"", "\" a \\\" b \""),
            ("1 2", "1 2"),
            ("\"a\\\\\" \"b\"", "\"a\\\\\" \"b\""),
            (" \t\r\n", ""),
        ];
        for (given, want) in rows {
            let got = without_space(given.as_bytes());
            assert_eq!(got.as_deref(), Some(want.as_bytes()), "{given}");
        }
    }

    #[test]
    fn what_is_no_json_stays_as_it_is() {
        let rows: [&[u8]; 8] = [
            b"{'q':'a, b'}",
            b"{\"a\": 1} // b",
            b"[1, /* a */ 2]",
            b"\"open ",
            b"\"a\nb\"",
            b"[1,\xc2\xa0 2]",
            b"\"\xff\" ",
            b"[\0 1\0 ]\0",
        ];
        for given in rows {
            assert_eq!(without_space(given), None, "{given:?}");
        }
        const JSON: (&str, &str) = ("Content-Type", "application/json");
        for (one, other) in [
            ("{'q':'a, b'}", "{'q':'a,b'}"),
            ("[1] # a b", "[1] # a  b"),
            ("{\"a\":1 // b\n}", "{\"a\":1 // b }"),
        ] {
            assert_ne!(key(&[JSON], &[one]), key(&[JSON], &[other]), "{one}");
        }
    }
}
