//! The plain bytes of a response body, and how storing failures are logged.
//!
//! Called by: `write` and `partial`.
//! Caveat: bodies that arrive in pieces are not read here (`storing_body`).
//! Out of scope: encoding (`encode`).

use crate::refusal::{NO_ROOM, Refusal};
use saker_cache_store::HandedOver;
use saker_content::coding;
use saker_pipeline::{Body, FilePart};
use saker_telemetry::{error_log, message};
use std::os::unix::fs::FileExt;

/// Limit for reading a revalidated entry; a larger one is fetched again.
const READ_BYTES_MAX: usize = 8 << 20;

/// The content without its coding.
pub fn plain(body: &Body, coding: Option<&[u8]>) -> Result<Vec<u8>, Refusal> {
    let bytes = match body {
        Body::Empty => &b""[..],
        Body::Memory(chunk) => chunk.bytes(),
        // A revalidated entry.
        Body::File(part) => return read(part).map_err(|error| broken(&error)),
        Body::Parts(_) | Body::Stream(_) => {
            return Err(Refusal::new("parts", "its content is sent from files"));
        }
    };
    match coding {
        None => Ok(bytes.to_vec()),
        Some(coding) => coding::decode(coding, bytes)
            .ok_or_else(|| Refusal::new("coded", "its content coding is unknown")),
    }
}

fn read(part: &FilePart) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![
        0;
        usize::try_from(part.length)
            .unwrap_or(usize::MAX)
            .min(READ_BYTES_MAX)
    ];
    if bytes.len() as u64 != part.length {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    part.file.read_exact_at(&mut bytes, part.offset)?;
    Ok(bytes)
}

/// Logs that a response could not be stored. A full disk is logged once, by the store.
pub fn log_not_stored(error: &std::io::Error) {
    // After an upgrade the successor stores pages.
    if error.kind() != std::io::ErrorKind::StorageFull && !HandedOver::is(error) {
        error_log::log(&message::CACHE_NOT_STORED, format_args!("{error}"));
    }
}

pub fn broken(error: &std::io::Error) -> Refusal {
    let word = if error.kind() == std::io::ErrorKind::StorageFull {
        NO_ROOM
    } else {
        "store"
    };
    Refusal::new(word, error.to_string())
}
