//! Tables of a track (ISO/IEC 14496-12 sections 8.6 and 8.7), used in place: nothing is unpacked.
//!
//! Caveat: a table may claim more entries than it has bytes for, and few bytes may claim billions
//! of samples. So lengths are checked once, here, and code that walks a table counts entries, not
//! samples.

use super::atoms::Atoms;
use crate::{
    MediaError,
    bytes::{be16, be32, be64},
    work::step,
};
use std::ops::Range;

/// A list of entries of one width.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entries<'m> {
    bytes: &'m [u8],
    width: usize,
}

impl<'m> Entries<'m> {
    /// A count of four bytes at `at`, and the entries behind it.
    fn counted(payload: &'m [u8], at: usize, width: usize) -> Result<Entries<'m>, MediaError> {
        let short = MediaError::Damaged("a table is shorter than it says");
        let Some(count) = be32(payload, at).and_then(|count| usize::try_from(count).ok()) else {
            return Err(short);
        };
        let bytes = count
            .checked_mul(width)
            .and_then(|length| payload.get(at + 4..)?.get(..length));
        bytes.map(|bytes| Entries { bytes, width }).ok_or(short)
    }

    pub fn len(&self) -> usize {
        self.bytes.len().checked_div(self.width).unwrap_or(0)
    }

    /// Four bytes of an entry, `offset` bytes in it.
    pub fn word(&self, entry: usize, offset: usize) -> Option<u32> {
        be32(
            self.bytes,
            entry.checked_mul(self.width)?.checked_add(offset)?,
        )
    }

    fn long(&self, entry: usize) -> Option<u64> {
        be64(self.bytes, entry.checked_mul(self.width)?)
    }

    /// Entries of two words.
    fn pairs(self) -> impl Iterator<Item = (u32, u32)> {
        (0..self.len()).map_while(move |entry| Some((self.word(entry, 0)?, self.word(entry, 4)?)))
    }
}

/// Bytes of each sample (stsz, stz2).
#[derive(Clone, Copy, Debug)]
pub enum Sizes<'m> {
    Same {
        bytes: u32,
        count: u64,
    },
    Words(Entries<'m>),
    Packed {
        bits: u8,
        bytes: &'m [u8],
        count: u64,
    },
}

impl<'m> Sizes<'m> {
    fn read(stbl: &'m [u8]) -> Result<Sizes<'m>, MediaError> {
        let short = || MediaError::Damaged("the table of sizes is shorter than it says");
        if let Some(stsz) = Atoms::find(stbl, b"stsz") {
            return match be32(stsz.payload, 4).ok_or_else(short)? {
                0 => Entries::counted(stsz.payload, 8, 4).map(Sizes::Words),
                bytes => Ok(Sizes::Same {
                    bytes,
                    count: be32(stsz.payload, 8).ok_or_else(short)?.into(),
                }),
            };
        }
        let stz2 = Atoms::find(stbl, b"stz2")
            .ok_or(MediaError::Damaged("a track has no table of sizes"))?;
        let bits = stz2
            .payload
            .get(7)
            .copied()
            .filter(|bits| matches!(bits, 4 | 8 | 16))
            .ok_or_else(short)?;
        let count = be32(stz2.payload, 8).map(u64::from).ok_or_else(short)?;
        let length = usize::try_from((count * u64::from(bits)).div_ceil(8)).map_err(|_| short())?;
        let bytes = stz2
            .payload
            .get(12..)
            .and_then(|rest| rest.get(..length))
            .ok_or_else(short)?;
        Ok(Sizes::Packed { bits, bytes, count })
    }

    pub fn count(&self) -> u64 {
        match self {
            Sizes::Same { count, .. } | Sizes::Packed { count, .. } => *count,
            Sizes::Words(entries) => entries.len() as u64,
        }
    }

    pub fn of(&self, sample: u64) -> u32 {
        let at = usize::try_from(sample).unwrap_or(usize::MAX);
        match self {
            Sizes::Same { bytes, .. } => *bytes,
            Sizes::Words(entries) => entries.word(at, 0).unwrap_or(0),
            Sizes::Packed {
                bits: 16, bytes, ..
            } => at
                .checked_mul(2)
                .and_then(|at| be16(bytes, at))
                .map_or(0, u32::from),
            Sizes::Packed { bits: 8, bytes, .. } => {
                bytes.get(at).map_or(0, |size| u32::from(*size))
            }
            Sizes::Packed { bytes, .. } => {
                let pair = bytes.get(at / 2).copied().unwrap_or(0);
                u32::from(if at.is_multiple_of(2) {
                    pair >> 4
                } else {
                    pair & 15
                })
            }
        }
    }

    pub fn sum(&self, samples: Range<u64>) -> u64 {
        match self {
            Sizes::Same { bytes, .. } => samples
                .end
                .saturating_sub(samples.start)
                .saturating_mul(u64::from(*bytes)),
            _ => samples
                .inspect(|_| step())
                .map(|sample| u64::from(self.of(sample)))
                .fold(0, u64::saturating_add),
        }
    }
}

/// Chunk offsets in the file (stco, co64).
#[derive(Clone, Copy, Debug)]
pub enum Offsets<'m> {
    Words(Entries<'m>),
    Longs(Entries<'m>),
}

impl<'m> Offsets<'m> {
    fn read(stbl: &'m [u8]) -> Result<Offsets<'m>, MediaError> {
        if let Some(stco) = Atoms::find(stbl, b"stco") {
            return Entries::counted(stco.payload, 4, 4).map(Offsets::Words);
        }
        let co64 = Atoms::find(stbl, b"co64")
            .ok_or(MediaError::Damaged("a track has no table of chunks"))?;
        Entries::counted(co64.payload, 4, 8).map(Offsets::Longs)
    }

    pub fn len(&self) -> usize {
        match self {
            Offsets::Words(entries) | Offsets::Longs(entries) => entries.len(),
        }
    }

    pub fn of(&self, chunk: usize) -> Option<u64> {
        match self {
            Offsets::Words(entries) => entries.word(chunk, 0).map(u64::from),
            Offsets::Longs(entries) => entries.long(chunk),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Tables<'m> {
    /// stts: how many samples, and how long each.
    pub durations: Entries<'m>,
    /// ctts: how many samples, and how much later than decoded each is shown.
    pub offsets_shown: Entries<'m>,
    pub offsets_version: u8,
    /// stss: samples that can be decoded on their own, counted from 1. `None`: all.
    pub syncs: Option<Entries<'m>>,
    /// stsc: first chunk, samples in each, sample entry.
    pub runs: Entries<'m>,
    pub sizes: Sizes<'m>,
    pub chunks: Offsets<'m>,
    /// Number of samples that all tables cover.
    pub samples: u64,
}

impl<'m> Tables<'m> {
    pub fn read(stbl: &'m [u8]) -> Result<Tables<'m>, MediaError> {
        let find = |kind: &[u8; 4], fault| {
            Atoms::find(stbl, kind)
                .map(|atom| atom.payload)
                .ok_or(MediaError::Damaged(fault))
        };
        let durations = Entries::counted(find(b"stts", "a track has no table of times")?, 4, 8)?;
        let runs = Entries::counted(
            find(b"stsc", "a track has no table of samples in chunks")?,
            4,
            12,
        )?;
        let shown = Atoms::find(stbl, b"ctts").map(|atom| atom.payload);
        let syncs = Atoms::find(stbl, b"stss")
            .map(|atom| Entries::counted(atom.payload, 4, 4))
            .transpose()?;
        let mut tables = Tables {
            durations,
            offsets_shown: shown
                .map(|shown| Entries::counted(shown, 4, 8))
                .transpose()?
                .unwrap_or_default(),
            offsets_version: shown.and_then(|shown| shown.first().copied()).unwrap_or(0),
            syncs,
            runs,
            sizes: Sizes::read(stbl)?,
            chunks: Offsets::read(stbl)?,
            samples: 0,
        };
        tables.samples = tables
            .sizes
            .count()
            .min(tables.timed()?)
            .min(tables.in_chunks()?);
        Ok(tables)
    }

    /// Samples that have a time. All times together have to be numbers that can be reckoned with.
    fn timed(&self) -> Result<u64, MediaError> {
        let (mut samples, mut time) = (0_u64, 0_u64);
        for (count, delta) in self.durations.pairs() {
            samples = samples.saturating_add(count.into());
            time = time.saturating_add(u64::from(count) * u64::from(delta));
        }
        if time > 1 << 60 {
            return Err(MediaError::Damaged(
                "a track is longer than time can be counted",
            ));
        }
        Ok(samples)
    }

    fn in_chunks(&self) -> Result<u64, MediaError> {
        let (mut samples, mut expected) = (0_u64, 1);
        for run in 0..self.runs.len() {
            step();
            let (first, count) = (
                self.runs.word(run, 0).unwrap_or(0),
                self.runs.word(run, 4).unwrap_or(0),
            );
            let next = self.first_chunk(run + 1);
            if first < expected
                || run == 0 && first != 1
                || next <= u64::from(first) && run + 1 < self.runs.len()
            {
                return Err(MediaError::Damaged("chunks are out of order"));
            }
            expected = first;
            samples = samples.saturating_add(
                next.saturating_sub(first.into())
                    .saturating_mul(count.into()),
            );
        }
        Ok(samples)
    }

    /// First chunk of a run of chunks, counted from 1; after the last run, one more than the number
    /// of chunks.
    pub fn first_chunk(&self, run: usize) -> u64 {
        self.runs
            .word(run, 0)
            .map_or(self.chunks.len() as u64 + 1, u64::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_all_kinds() {
        let words = b"\0\0\0\x18stsz\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x09";
        let same = b"\0\0\0\x14stsz\0\0\0\0\0\0\0\x05\xff\xff\xff\xff";
        let four = b"\0\0\0\x16stz2\0\0\0\0\0\0\0\x04\0\0\0\x03\x12\x30";
        let wide = b"\0\0\0\x16stz2\0\0\0\0\0\0\0\x10\0\0\0\x01\x01\x02";
        let sums = [words.as_slice(), same, four, wide].map(|stbl| {
            Sizes::read(stbl)
                .map(|sizes| (sizes.count(), sizes.sum(0..sizes.count())))
                .unwrap()
        });
        assert_eq!(
            sums,
            [(1, 9), (0xffff_ffff, 5 * 0xffff_ffff), (3, 6), (1, 0x102)]
        );
        for bad in [
            b"\0\0\0\x14stsz\0\0\0\0\0\0\0\0\0\0\0\x01".as_slice(),
            b"\0\0\0\x14stz2\0\0\0\0\0\0\0\x05\0\0\0\0",
            b"",
        ] {
            assert!(Sizes::read(bad).is_err());
        }
    }
}
