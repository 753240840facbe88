//! Content of requests, whole or in pieces.
//!
//! Called by: the handler.
//! Caveat: a client may send more than it declared or stop half-way; both are errors here.
//! Out of scope: limits of the site (`body_size`), which the driver enforces.

use saker_http::Status;
use saker_pipeline::{BodyError, Exchange};
use std::future::poll_fn;

/// Pieces of uploads are collected up to this size before they are written.
const PIECE_BYTES: usize = 512 << 10;

fn status_of(error: BodyError) -> Status {
    match error {
        BodyError::TooLarge => Status::CONTENT_TOO_LARGE,
        BodyError::TrailersTooLarge => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
        BodyError::TimedOut => Status::REQUEST_TIMEOUT,
        BodyError::Gone | BodyError::Malformed | BodyError::Source => Status::BAD_REQUEST,
    }
}

/// Reads all of the content.
///
/// # Errors
/// 413 beyond `bytes_max`; the status for broken content.
pub async fn whole(exchange: &mut Exchange, bytes_max: u64) -> Result<Vec<u8>, Status> {
    if exchange
        .body
        .length()
        .is_some_and(|length| length > bytes_max)
    {
        return Err(Status::CONTENT_TOO_LARGE);
    }
    let mut content = Vec::new();
    while let Some(chunk) = poll_fn(|cx| exchange.body.poll_chunk(cx)).await {
        content.extend_from_slice(chunk.map_err(status_of)?.bytes());
        if content.len() as u64 > bytes_max {
            return Err(Status::CONTENT_TOO_LARGE);
        }
    }
    Ok(content)
}

/// Reads the next piece of the content. Empty: that was all.
///
/// # Errors
/// The status for broken content.
pub async fn piece(exchange: &mut Exchange) -> Result<Vec<u8>, Status> {
    let mut content = Vec::new();
    while content.len() < PIECE_BYTES
        && let Some(chunk) = poll_fn(|cx| exchange.body.poll_chunk(cx)).await
    {
        content.extend_from_slice(chunk.map_err(status_of)?.bytes());
    }
    Ok(content)
}

/// Returns true if the request has content.
///
/// # Errors
/// The status for broken content.
pub async fn is_there(exchange: &mut Exchange) -> Result<bool, Status> {
    if exchange.body.is_end() {
        return Ok(false);
    }
    while let Some(chunk) = poll_fn(|cx| exchange.body.poll_chunk(cx)).await {
        if !chunk.map_err(status_of)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
