//! `INFLATE` and `DEFLATE` (mod_deflate): decode gzip in responses and in request bodies.
//!
//! Called by: the front ends, through [`filter_response`] and [`filter_request`].
//! Caveat: a few bytes can decode to very many. Besides a limit on the whole there is one on the
//! ratio, which takes effect early ([`InflateLimits`]).
//! Out of scope: encoding (`compress`, and the handlers of files).

use crate::transform::{Transform, TransformedBody, transform_response};
use flate2::{Decompress, FlushDecompress, Status as Decoded};
use saker_pipeline::{BodyError, Exchange, RequestBody, Response};
use saker_telemetry::{error_log, message};

/// Limits on decoded content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InflateLimits {
    /// Size in bytes; `None`: unlimited.
    pub bytes_max: Option<u64>,
    /// Size as a multiple of the encoded size.
    pub ratio_max: u64,
    /// Blocks in a row that may exceed the ratio.
    pub ratio_burst: u64,
}

/// Decodes the body of a response. The caller has removed gzip from its codings
/// ([`take_response_coding`], [`without_gzip`]).
pub fn filter_response(response: &mut Response, limits: InflateLimits) {
    transform_response(response, Inflating::new(limits, BodyError::Source));
}

/// Returns the request body, decoded if its last coding is gzip; the coding is removed from the
/// request's fields.
pub fn filter_request(
    exchange: &mut Exchange,
    body: Box<dyn RequestBody>,
    limits: InflateLimits,
) -> Box<dyn RequestBody> {
    if !take_request_coding(exchange) {
        return body;
    }
    let inflating = Box::new(Inflating::new(limits, BodyError::Malformed));
    Box::new(TransformedBody::new(body, inflating))
}

/// Returns the list without its last coding if that is gzip.
pub fn without_gzip(codings: &[u8]) -> Option<Vec<u8>> {
    let (before, last) = match codings.iter().rposition(|byte| *byte == b',') {
        Some(at) => (codings.get(..at)?, codings.get(at + 1..)?),
        None => (&b""[..], codings),
    };
    let last = last.trim_ascii();
    (last.eq_ignore_ascii_case(b"gzip") || last.eq_ignore_ascii_case(b"x-gzip"))
        .then(|| before.trim_ascii().to_vec())
}

/// Removes gzip from the response's own codings and returns whether it was there. `None`: the
/// response has no Content-Encoding.
pub fn take_response_coding(response: &mut Response) -> Option<bool> {
    let codings = response.fields().first("Content-Encoding")?.to_vec();
    let Some(rest) = without_gzip(&codings) else {
        return Some(false);
    };
    let fields = response.fields_mut();
    fields.remove("Content-Encoding");
    if !rest.is_empty() {
        fields.set("Content-Encoding", rest);
    }
    Some(true)
}

/// Removes gzip from the request's codings, and the fields that no longer hold.
fn take_request_coding(exchange: &mut Exchange) -> bool {
    let view = exchange.head.view();
    let Some(rest) = view.first("content-encoding").and_then(without_gzip) else {
        return false;
    };
    let gone = ["content-encoding", "content-length", "content-md5"];
    let kept = view.fields().filter(|(name, _)| {
        !gone
            .iter()
            .any(|gone| name.eq_ignore_ascii_case(gone.as_bytes()))
    });
    let rest = (!rest.is_empty()).then_some((&b"Content-Encoding"[..], rest.as_slice()));
    let head = exchange.head.with_fields(kept.chain(rest));
    exchange.head = head;
    true
}

/// Put out at a time, and looked at.
const BLOCK_BYTES: usize = 8 << 10;
/// log2 of the largest window there is (RFC 1951 section 2).
const WINDOW_LOG: u8 = 15;

struct Inflating {
    decoder: Decompress,
    limits: InflateLimits,
    /// Error for content that can't be decoded.
    fault: BodyError,
    /// Blocks in a row that were over the ratio.
    over_ratio: u64,
    is_complete: bool,
}

impl Inflating {
    fn new(limits: InflateLimits, fault: BodyError) -> Inflating {
        Inflating {
            decoder: Decompress::new_gzip(WINDOW_LOG),
            limits,
            fault,
            over_ratio: 0,
            is_complete: false,
        }
    }

    fn check(&mut self) -> Result<(), BodyError> {
        let (came, made) = (self.decoder.total_in().max(1), self.decoder.total_out());
        if self.limits.bytes_max.is_some_and(|max| made > max) {
            return Err(failed(
                "more than DeflateInflateLimitRequestBody allows",
                BodyError::TooLarge,
            ));
        }
        self.over_ratio = if made / came < self.limits.ratio_max {
            0
        } else {
            self.over_ratio + 1
        };
        if self.over_ratio > self.limits.ratio_burst {
            return Err(failed(
                "it becomes more times as much than DeflateInflateRatioLimit allows",
                self.fault,
            ));
        }
        Ok(())
    }
}

fn failed(reason: &str, error: BodyError) -> BodyError {
    error_log::log(&message::CONTENT_FILTER, format_args!("INFLATE: {reason}"));
    error
}

impl Transform for Inflating {
    fn push(&mut self, mut input: &[u8], output: &mut Vec<u8>) -> Result<(), BodyError> {
        // What stands behind the end is nothing.
        while !self.is_complete {
            output.reserve_exact(BLOCK_BYTES);
            let (came, made) = (self.decoder.total_in(), output.len());
            let outcome = self
                .decoder
                .decompress_vec(input, output, FlushDecompress::None);
            let outcome = outcome.map_err(|_| failed("the content is no gzip", self.fault))?;
            input = input
                .get((self.decoder.total_in() - came) as usize..)
                .unwrap_or_default();
            self.is_complete = outcome == Decoded::StreamEnd;
            self.check()?;
            if input.is_empty() && output.len() < output.capacity()
                || output.len() == made && !self.is_complete && input.is_empty()
            {
                break;
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), BodyError> {
        match self.is_complete || self.decoder.total_in() == 0 {
            true => Ok(()),
            false => Err(failed("the content ends before its end", self.fault)),
        }
    }
}

#[cfg(test)]
#[path = "inflate_tests.rs"]
mod tests;
