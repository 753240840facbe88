//! x

use crate::refusal::{NO_ROOM, Refusal};
use saker_content::coding;
use saker_pipeline::{Body, FilePart};
use saker_telemetry::{error_log, message};
use std::os::unix::fs::FileExt;

/// Of an entry whose life is prolonged; a larger one is made anew.
const READ_BYTES_MAX: usize = 8 << 20;

/// The content without its coding.
pub fn plain(body: &Body, coding: Option<&[u8]>) -> Result<Vec<u8>, Refusal> {
    let bytes = match body {
        Body::Empty => &b""[..],
        Body::Memory(chunk) => chunk.bytes(),
        // An entry that holds a while longer.
        Body::File(part) => return read(part).map_err(|error| broken(&error)),
        Body::Parts(_) | Body::Stream(_) => {
            return Err(Refusal::new("parts", "its content is not made here"));
        }
    };
    match coding {
        None => Ok(bytes.to_vec()),
        Some(coding) => coding::decode(coding, bytes)
            .ok_or_else(|| Refusal::new("coded", "it comes in a coding that is not known")),
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

/// Logs that a response is not kept. Of want of room the store tells once.
pub fn log_not_stored(error: &std::io::Error) {
    if error.kind() != std::io::ErrorKind::StorageFull {
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
