//! mod_deflate's decoders: `INFLATE` for answers, `DEFLATE` for the bodies of requests. (Encoding
//! is the handlers'.)
//!
//! Difficulty: a few bytes can become very many. So besides a bound on the whole
//! (DeflateInflateLimitRequestBody) there is one on how many times as much it becomes
//! (DeflateInflateRatioLimit), which counts before there is much of it.

use super::{ContentFilter, Passage, Stage, Transform, TransformedBody};
use crate::{
    host::Host,
    local::Local,
    modules::deflate::InflateLimits,
    state::{peek, state},
};
use flate2::{Decompress, FlushDecompress, Status as Decoded};
use saker_files::Watcher;
use saker_http::Status;
use saker_pipeline::{BodyError, Exchange, LocalFuture, RequestBody};
use saker_telemetry::{error_log, message};

pub struct Inflate;

impl ContentFilter for Inflate {
    fn name(&self) -> &str {
        "INFLATE"
    }

    fn stage(&self) -> Stage {
        Stage::Decode
    }

    fn output<'f>(&'f self, passage: &'f mut Passage<'_>) -> LocalFuture<'f, Result<(), Status>> {
        if take_response_coding(passage) {
            let limits = passage.local.deflate.of_responses();
            passage.transform(Inflating::new(limits, BodyError::Source));
            let tag = passage
                .response
                .fields()
                .first("ETag")
                .map(|tag| passage.local.filters.decoded_tag(tag));
            match tag {
                Some(Some(tag)) => passage.response.fields_mut().set("ETag", tag),
                Some(None) => drop(passage.response.fields_mut().remove("ETag")),
                None => {}
            }
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

pub struct Deflate;

impl ContentFilter for Deflate {
    fn name(&self) -> &str {
        "DEFLATE"
    }

    fn stage(&self) -> Stage {
        Stage::ContentSet
    }

    fn changes_files(&self) -> bool {
        false
    }

    fn input(
        &self,
        exchange: &mut Exchange,
        _: &Host,
        _: &Watcher,
        local: &Local,
        body: Box<dyn RequestBody>,
    ) -> Box<dyn RequestBody> {
        if !take_request_coding(exchange) {
            return body;
        }
        let limits = local.deflate.of_requests(exchange.settings.body_bytes_max);
        Box::new(TransformedBody::new(
            body,
            Box::new(Inflating::new(limits, BodyError::Malformed)),
        ))
    }
}

/// The list without its last coding, if that is gzip.
fn without_gzip(codings: &[u8]) -> Option<Vec<u8>> {
    let (before, last) = match codings.iter().rposition(|byte| *byte == b',') {
        Some(at) => (codings.get(..at)?, codings.get(at + 1..)?),
        None => (&b""[..], codings),
    };
    let last = last.trim_ascii();
    (last.eq_ignore_ascii_case(b"gzip") || last.eq_ignore_ascii_case(b"x-gzip"))
        .then(|| before.trim_ascii().to_vec())
}

/// Takes gzip off the answer's codings: those that its handler says, or those that the file's name
/// says.
fn take_response_coding(passage: &mut Passage<'_>) -> bool {
    if let Some(codings) = passage
        .response
        .fields()
        .first("Content-Encoding")
        .map(<[u8]>::to_vec)
    {
        let Some(rest) = without_gzip(&codings) else {
            return false;
        };
        let fields = passage.response.fields_mut();
        fields.remove("Content-Encoding");
        if !rest.is_empty() {
            fields.set("Content-Encoding", rest);
        }
        return true;
    }
    let is_named = |lines: &[(Box<str>, Box<[u8]>)]| {
        let codings = lines.iter().find(|(name, _)| &**name == "Content-Encoding");
        codings.and_then(|(_, codings)| without_gzip(codings))
    };
    let Some(own) = peek(passage.exchange) else {
        return false;
    };
    let Some(rest) = is_named(&own.negotiated).or_else(|| is_named(&own.content_lines)) else {
        return false;
    };
    let own = state(passage.exchange);
    for lines in [&mut own.negotiated, &mut own.content_lines] {
        lines
            .iter_mut()
            .filter(|(name, _)| &**name == "Content-Encoding")
            .for_each(|(_, codings)| *codings = rest.as_slice().into());
        lines.retain(|(name, codings)| &**name != "Content-Encoding" || !codings.is_empty());
    }
    true
}

/// Takes gzip off the request's codings, and what no longer holds with it.
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
    /// What content that can't be decoded is.
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
