//! FLV files (Adobe Flash Video File Format, version 10.1, annex E) from a byte or from a time on.
//!
//! What players got from servers with an flv module is a head of 13 bytes and the file from the
//! byte that they asked for. So it is here. Files with H.264 or AAC begin with tags without which
//! no later one can be decoded; those are put in between, with the time of what follows, so that
//! players that have not seen the beginning can begin there.

mod index;
mod metadata;
mod near;
mod tags;

pub use index::Index;

use crate::{Fault, Piece, Source, Times};
use tags::Tag;

/// A version of 1, and what is in the file; then the length of the head, and of the tag before the
/// first.
fn head(flags: u8) -> Vec<u8> {
    [
        b"FLV\x01".as_slice(),
        &[flags],
        &9_u32.to_be_bytes(),
        &[0; 4],
    ]
    .concat()
}

/// From byte `start` to byte `end`, which is the last one (as lighttpd has it). `None`: the whole
/// file is meant.
pub fn by_bytes<S: Source + ?Sized>(
    source: &S,
    start: u64,
    end: Option<u64>,
) -> Result<Option<Vec<Piece>>, Fault> {
    let length = source.length();
    let end = end
        .filter(|end| *end > start)
        .map_or(length, |end| end.saturating_add(1).min(length));
    if start >= length || start == 0 && end == length {
        return Ok(None);
    }
    let index = Index::read(source)?;
    if start < index.first_tag {
        return Ok(Some(vec![Piece::File(0..end)]));
    }
    let first = Tag::read(source, start).ok().flatten();
    index
        .part(source, start..end, first.map(|tag| tag.time_ms))
        .map(Some)
}

/// From the key frame at or before a time on, to the last tag before another.
pub fn by_times<S: Source + ?Sized>(
    source: &S,
    index: &Index,
    times: Times,
) -> Result<Vec<Piece>, Fault> {
    let key = index.key_at(times.start_ms);
    let end = times.end_ms.filter(|end_ms| *end_ms > times.start_ms);
    if times.start_ms > 0 && times.start_ms >= index.duration_ms {
        return Err(Fault::Beyond);
    }
    let end = match end {
        Some(end_ms) if end_ms < index.duration_ms => index.end_at(source, end_ms)?,
        _ => index.end,
    };
    let (time_ms, offset) = key.unwrap_or((0, index.first_tag));
    index.part(source, offset..end.max(offset), Some(time_ms))
}
