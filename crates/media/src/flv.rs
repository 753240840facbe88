//! FLV files (Adobe Flash Video File Format, version 10.1, annex E) from a byte or from a time on.
//!
//! Called by: `static-files`. As with other servers' flv modules, players get a header of 13 bytes
//! and the file from the requested byte. Files with H.264 or AAC begin with tags without which no
//! later one can be decoded; those are inserted, with the time of the following tag, so that
//! players can begin there.

mod index;
mod metadata;
mod near;
mod tags;

pub use index::Index;

use crate::{MediaError, Piece, Source, Times};
use tags::Tag;

/// The header (version 1 and the kinds of tags), followed by its length and that of the tag before
/// the first one.
fn head(flags: u8) -> Vec<u8> {
    [
        b"FLV\x01".as_slice(),
        &[flags],
        &9_u32.to_be_bytes(),
        &[0; 4],
    ]
    .concat()
}

/// Cuts from byte `start` to byte `end`, inclusive (as in lighttpd). `None`: the whole file.
pub fn by_bytes<S: Source + ?Sized>(
    source: &S,
    start: u64,
    end: Option<u64>,
) -> Result<Option<Vec<Piece>>, MediaError> {
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

/// Cuts from the key frame at or before a time to the last tag before another.
pub fn by_times<S: Source + ?Sized>(
    source: &S,
    index: &Index,
    times: Times,
) -> Result<Vec<Piece>, MediaError> {
    let key = index.key_at(times.start_ms);
    let end = times.end_ms.filter(|end_ms| *end_ms > times.start_ms);
    if times.start_ms > 0 && times.start_ms >= index.duration_ms {
        return Err(MediaError::Beyond);
    }
    let end = match end {
        Some(end_ms) if end_ms < index.duration_ms => index.end_at(source, end_ms)?,
        _ => index.end,
    };
    let (time_ms, offset) = key.unwrap_or((0, index.first_tag));
    index.part(source, offset..end.max(offset), Some(time_ms))
}
