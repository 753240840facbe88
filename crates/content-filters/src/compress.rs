//! Compresses generated responses while they are sent: listings, fixed texts, error pages, and
//! streams of other handlers.
//!
//! Called by: the pipeline, as the last filter that changes content.
//! Caveat: static files don't come here, their codings are kept by their handler. Vary is due as
//! soon as another client could have got other bytes, compressed or not.
//! Out of scope: partial content (206) and `no-transform`; which fields change is decided by
//! `saker_content`.

use crate::{encoded_stream::EncodedStream, transform::as_stream};
use saker_content::{
    coded_fields::{describe, may_be_coded},
    coding::{self, Encoder, Levels},
};
use saker_http::content_coding::{AcceptedCodings, Coding};
use saker_net::jobs::{self, Cancel, JobKind};
use saker_pipeline::{Body, Chunk, Exchange, Filter, LocalFuture, Response, ResponseHead};
use saker_telemetry::{Counters, Metric};
use std::sync::Arc;

/// Bodies up to this size are encoded on the worker: cheaper than handing them to another thread.
const INLINE_BYTES_MAX: usize = 4 << 10;

#[derive(Clone, Debug, Default)]
pub struct Compress {
    pub counters: Arc<Counters>,
}

impl Filter for Compress {
    fn name(&self) -> &'static str {
        "compress"
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        if !is_candidate(exchange, response) {
            return saker_pipeline::done();
        }
        Box::pin(async move {
            if compress(exchange, response).await {
                self.counters.increment(Metric::CompressionDone);
            }
        })
    }
}

/// Returns true if the response was compressed.
async fn compress(exchange: &mut Exchange, response: &mut Response) -> bool {
    // From here on the response differs from client to client.
    exchange.depends_on_request();
    if exchange.routing.settings.compression.varies {
        response.fields_mut().add_token("Vary", "Accept-Encoding");
    }
    let Some(coding) = selected(exchange) else {
        return false;
    };
    let compression = &exchange.routing.settings.compression;
    let (levels, even_if_larger, tags) = (
        Levels::from(compression),
        compression.even_if_larger,
        compression.tags,
    );
    let Some(body) = encoded(
        coding,
        levels,
        std::mem::take(&mut response.body),
        even_if_larger,
    )
    .await
    .map_err(|body| response.body = body)
    .ok() else {
        return false;
    };
    exchange.trace("respond", None, || {
        format!("compressed with {}", coding.token())
    });
    response.body = body;
    let length = response.body.length();
    let fields = response.fields_mut();
    describe(fields, coding, tags);
    match length {
        Some(length) if fields.has("Content-Length") => {
            fields.set("Content-Length", length.to_string().into_bytes())
        }
        _ => drop(fields.remove("Content-Length")),
    }
    true
}

/// The coding preferred by client and configuration; `None` for identity.
fn selected(exchange: &Exchange) -> Option<Coding> {
    let mut offered: Vec<Coding> = exchange
        .routing
        .settings
        .compression
        .codings
        .iter()
        .map(|coding| coding::from_config(*coding))
        .collect();
    offered.push(Coding::Identity);
    AcceptedCodings::of(exchange.head.view())
        .best(&offered)
        .filter(|coding| *coding != Coding::Identity)
}

/// Returns whether this response is compressed for clients that accept a coding.
fn is_candidate(exchange: &Exchange, response: &Response) -> bool {
    let ResponseHead::Built(fields) = &response.head else {
        return false;
    };
    let is_made = match response.body {
        Body::Memory(_) | Body::Stream(_) => true,
        // A stored response of an upstream.
        Body::File(_) => exchange.upstream.is_answered_by_program,
        Body::Empty | Body::Parts(_) => false,
    };
    is_made
        && may_be_coded(
            &exchange.routing.settings.compression,
            response.status,
            fields,
            response.body.length(),
        )
}

/// The body in its coding, or as it was where that is no gain.
async fn encoded(
    coding: Coding,
    levels: Levels,
    body: Body,
    even_if_larger: bool,
) -> Result<Body, Body> {
    match body {
        Body::Memory(chunk) => match encoded_chunk(coding, levels, &chunk, even_if_larger).await {
            Some(data) => Ok(Body::Memory(Chunk::from(data))),
            None => Err(Body::Memory(chunk)),
        },
        Body::Stream(stream) => match Encoder::new(coding, levels, None) {
            Some(encoder) => Ok(Body::Stream(Box::new(EncodedStream::new(stream, encoder)))),
            None => Err(Body::Stream(stream)),
        },
        Body::File(part) => match Encoder::new(coding, levels, None) {
            Some(encoder) => {
                let stream = as_stream(Body::File(part));
                Ok(Body::Stream(Box::new(EncodedStream::new(stream, encoder))))
            }
            None => Err(Body::File(part)),
        },
        other => Err(other),
    }
}

async fn encoded_chunk(
    coding: Coding,
    levels: Levels,
    chunk: &Chunk,
    even_if_larger: bool,
) -> Option<Vec<u8>> {
    if chunk.len() <= INLINE_BYTES_MAX {
        let encode = if even_if_larger {
            coding::encode_all
        } else {
            coding::encode
        };
        return encode(coding, levels, chunk.bytes());
    }
    let data = chunk.bytes().to_vec();
    let work =
        move |cancel: &Cancel| coding::encode_as_job(cancel, coding, levels, &data, even_if_larger);
    jobs::run(JobKind::Encoding, None, work)
        .await
        .ok()
        .flatten()
}

#[cfg(test)]
#[path = "compress_tests.rs"]
mod tests;
