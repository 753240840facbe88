//! `$request_body`: the content of the request, where it goes to an upstream and fits into the buffer
//! (`client_body_buffer_size`).
//!
//! Called by: `rules`, before the upstream is chosen, in configurations that refer to the variable.
//! Caveat: longer content has no value, as in nginx, which has it in a file then.

use crate::{kept_content, request::Request, state::State};
use saker_nginx_model::modules::body::BodyFiles;
use saker_pipeline::Exchange;
use std::sync::Arc;

/// Default of `client_body_buffer_size`.
const BUFFER_BYTES: u64 = 16 << 10;

/// Returns the bytes of content to be kept; `None`: none is wanted, or there is none.
pub fn wanted(request: &mut Request<'_>) -> Option<u64> {
    let location = Arc::clone(&request.state.location);
    let is_read = request.nginx.reads_content
        && location.conf.upstreams.pass.is_some()
        && !request.state.is_subrequest
        && request.state.content.is_none()
        && request
            .state
            .location
            .conf
            .body
            .files
            .is_none_or(|files| files == BodyFiles::Off)
        && !request.exchange.body.is_end();
    let bytes = location.conf.core.body_buffer_bytes;
    let bytes = bytes.unwrap_or(BUFFER_BYTES);
    // The buffer grows by a quarter at most where that is enough.
    let length = request.exchange.body.length();
    let fitting = length.filter(|length| *length < bytes.saturating_add(bytes / 4));
    is_read.then(|| fitting.unwrap_or(bytes))
}

/// Reads the content, and keeps it for the variable.
pub async fn keep(exchange: &mut Exchange, bytes_max: u64) {
    let chunks = kept_content::read(exchange, bytes_max).await;
    let content = chunks.map(|chunks| {
        let pieces: Vec<&[u8]> = chunks.iter().map(|chunk| chunk.bytes()).collect();
        pieces.concat()
    });
    if let Some(state) = exchange.extensions.get_mut::<State>() {
        state.content = content.map(Into::into);
    }
}
