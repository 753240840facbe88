//! Positions of samples in the file.

use super::tables::Tables;
use crate::{MediaError, work::step};
use std::ops::Range;

/// Samples that lie one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub offset: u64,
    pub bytes: u64,
    pub first: u64,
    pub samples: u64,
    /// Index of the sample entry, from 1.
    pub entry: u32,
}

impl Chunk {
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.bytes
    }
}

/// The chunks of `samples`, the first and the last of them cut to size. All of them lie in a file
/// of `file_bytes`.
pub fn chunks(
    tables: &Tables<'_>,
    samples: Range<u64>,
    file_bytes: u64,
) -> Result<Vec<Chunk>, MediaError> {
    let (mut found, mut sample) = (Vec::new(), 0);
    for run in 0..tables.runs.len() {
        step();
        let per_chunk = u64::from(tables.runs.word(run, 4).unwrap_or(0));
        let entry = tables.runs.word(run, 8).unwrap_or(1);
        let (from, to) = (tables.first_chunk(run), tables.first_chunk(run + 1));
        if per_chunk == 0 {
            continue;
        }
        // Runs and chunks before the first sample are passed over at once.
        let skipped =
            (samples.start.saturating_sub(sample) / per_chunk).min(to.saturating_sub(from));
        sample += skipped * per_chunk;
        for chunk in from + skipped..to {
            step();
            if sample >= samples.end {
                return Ok(found);
            }
            let wanted = sample.max(samples.start)..(sample + per_chunk).min(samples.end);
            if !wanted.is_empty() {
                let before = tables.sizes.sum(sample..wanted.start);
                found.push(part(tables, chunk, before, wanted, entry, file_bytes)?);
            }
            sample += per_chunk;
        }
    }
    Ok(found)
}

/// `before`: bytes of the chunk in front of the first sample that is wanted.
fn part(
    tables: &Tables<'_>,
    chunk: u64,
    before: u64,
    wanted: Range<u64>,
    entry: u32,
    file_bytes: u64,
) -> Result<Chunk, MediaError> {
    let at = usize::try_from(chunk - 1)
        .ok()
        .and_then(|chunk| tables.chunks.of(chunk));
    let bytes = tables.sizes.sum(wanted.clone());
    let offset = at.and_then(|at| at.checked_add(before));
    let inside = offset.filter(|offset| {
        offset
            .checked_add(bytes)
            .is_some_and(|end| end <= file_bytes)
    });
    let offset = inside.ok_or(MediaError::Damaged("samples lie outside of the file"))?;
    Ok(Chunk {
        offset,
        bytes,
        first: wanted.start,
        samples: wanted.end - wanted.start,
        entry,
    })
}

/// Merges adjacent chunks.
pub fn joined(chunks: Vec<Chunk>) -> Vec<Chunk> {
    let mut joined: Vec<Chunk> = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        match joined.last_mut() {
            Some(last) if last.offset + last.bytes == chunk.offset && last.entry == chunk.entry => {
                last.bytes += chunk.bytes;
                last.samples += chunk.samples;
            }
            _ => joined.push(chunk),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mp4::sample::stbl;

    #[test]
    fn chunks_are_cut_to_size() {
        let bytes = stbl(&[(35, 1)], &[], None, 35);
        let tables = Tables::read(&bytes).unwrap();
        let found = chunks(&tables, 12..31, 2000).unwrap();
        let told: Vec<_> = found
            .iter()
            .map(|chunk| (chunk.range(), chunk.first, chunk.samples))
            .collect();
        assert_eq!(
            told,
            [
                (1012..1020, 12, 8),
                (1020..1030, 20, 10),
                (1030..1031, 30, 1)
            ]
        );
        assert_eq!(
            joined(found),
            [Chunk {
                offset: 1012,
                bytes: 19,
                first: 12,
                samples: 19,
                entry: 1
            }]
        );
        assert!(chunks(&tables, 5..5, 2000).unwrap().is_empty());
        assert!(chunks(&tables, 12..31, 1031).is_ok() && chunks(&tables, 12..31, 1030).is_err());
    }
}
