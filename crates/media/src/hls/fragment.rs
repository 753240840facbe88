//! A fragment (RFC 8216 section 3.3): a box that describes its samples, and the samples as they are
//! in the file.
//!
//! Caveat: tracks must be synchronized without edit lists, which players treat in different ways.
//! So times are presentation times: what a list would cut from a track's beginning is subtracted.
//! Samples of a track are scattered over the file; each run of them is a `trun` with an offset of
//! its own, so nothing has to be reordered.

use super::Plan;
use crate::{
    MediaError, Piece,
    mp4::{Chunk, Kind, Points, Syncs, Track, Width, Writer, chunks, joined},
    spans::Spans,
    work::step,
};

/// Maximum number of samples in a fragment; a second of uncompressed audio has fewer.
const SAMPLES_MAX: u64 = 200_000;
/// ISO/IEC 14496-12 sections 8.8.3.1 and 8.8.7.1.
const SYNC: u32 = 0x0200_0000;
const NOT_SYNC: u32 = 0x0101_0000;
const BASE_IS_MOOF: u32 = 0x02_0000;
const HAS_ENTRY: u32 = 0x02;
const HAS_FLAGS: u32 = 0x20;
const RUN_OFFSET: u32 = 0x01;
const RUN_DURATION: u32 = 0x100;
const RUN_SIZE: u32 = 0x200;
const RUN_FLAGS: u32 = 0x400;
const RUN_SHOWN: u32 = 0x800;

/// `number` counts from 0.
pub fn fragment(plan: &Plan<'_>, number: usize) -> Result<Vec<Piece>, MediaError> {
    if number >= plan.fragments() {
        return Err(MediaError::Beyond);
    }
    let mut parts = Vec::new();
    for (track, _) in &plan.tracks {
        let samples = plan.samples(number, track);
        if samples.end - samples.start > SAMPLES_MAX {
            return Err(MediaError::Unsupported(
                "a fragment would have too many samples",
            ));
        }
        parts.push((
            track,
            joined(chunks(&track.tables, samples, plan.movie.file_bytes)?),
        ));
    }
    let spans = Spans::new(
        parts
            .iter()
            .flat_map(|(_, chunks)| chunks.iter().map(Chunk::range)),
    );
    let content = u32::try_from(spans.length() + 8)
        .map_err(|_| MediaError::Unsupported("a fragment would be larger than 4 GB"))?;
    let mut types = Writer::default();
    types.atom(b"styp", |writer| writer.put(b"msdh\0\0\0\0msdhmsix"));
    let mut writer = Writer::default();
    writer.atom(b"moof", |writer| {
        writer.full_atom(b"mfhd", 0, 0, |writer| {
            writer.put32(u32::try_from(number + 1).unwrap_or(u32::MAX))
        });
        parts
            .iter()
            .filter(|(_, chunks)| !chunks.is_empty())
            .for_each(|(track, chunks)| write_track(writer, track, chunks, &spans));
    });
    // Offsets count from the beginning of the moof box.
    let head = [
        types.finish(0),
        writer.finish(8),
        content.to_be_bytes().to_vec(),
        b"mdat".to_vec(),
    ]
    .concat();
    Ok(std::iter::once(Piece::Memory(head))
        .chain(spans.ranges().map(Piece::File))
        .collect())
}

/// Section 8.8.6.
fn write_track(writer: &mut Writer, track: &Track<'_>, chunks: &[Chunk], spans: &Spans) {
    let Some(first) = chunks.first() else { return };
    writer.atom(b"traf", |writer| {
        writer.full_atom(b"tfhd", 0, BASE_IS_MOOF | HAS_ENTRY | HAS_FLAGS, |writer| {
            [
                track.number,
                first.entry,
                if track.kind == Kind::Audio {
                    SYNC
                } else {
                    NOT_SYNC
                },
            ]
            .iter()
            .for_each(|word| writer.put32(*word));
        });
        let (decoded, shift) = times(track, first.first);
        writer.full_atom(b"tfdt", 1, 0, |writer| writer.put64(decoded));
        let mut walk = (Points::new(&track.tables), Syncs::new(&track.tables));
        chunks
            .iter()
            .for_each(|chunk| write_run(writer, track, &mut walk, chunk, shift, spans));
    });
}

/// Decoding time of the first sample, and the amount to add to each sample's composition offset.
fn times(track: &Track<'_>, first: u64) -> (u64, i64) {
    let point = track.tables.point(first);
    let begun = match track.kind {
        // Audio is presented when it is decoded: a cut at its beginning shifts everything.
        Kind::Audio => track.shown_time(point.decoded),
        // Pictures are decoded before they are shown, and by how much less that is stays the same
        // for all.
        _ => point.decoded.saturating_add(track.pause),
    };
    let decoded = begun.max(0);
    let shown = track.shown_time(point.shown);
    (
        decoded.unsigned_abs(),
        shown
            .saturating_sub(decoded)
            .saturating_sub(point.shown - point.decoded),
    )
}

/// Section 8.8.8.
fn write_run(
    writer: &mut Writer,
    track: &Track<'_>,
    (points, syncs): &mut (Points<'_, '_>, Syncs<'_>),
    chunk: &Chunk,
    shift: i64,
    spans: &Spans,
) {
    let with_pictures = if track.kind == Kind::Audio {
        0
    } else {
        RUN_FLAGS | RUN_SHOWN
    };
    writer.full_atom(
        b"trun",
        1,
        RUN_OFFSET | RUN_DURATION | RUN_SIZE | with_pictures,
        |writer| {
            writer.put32(u32::try_from(chunk.samples).unwrap_or(u32::MAX));
            writer.offsets_follow(1, Width::Four);
            writer.put32(u32::try_from(spans.position(chunk.offset)).unwrap_or(u32::MAX));
            for sample in chunk.first..chunk.first + chunk.samples {
                step();
                let point = points.at(sample).unwrap_or_default();
                writer.put32(u32::try_from(point.delta).unwrap_or(u32::MAX));
                writer.put32(track.tables.sizes.of(sample));
                if with_pictures != 0 {
                    writer.put32(if syncs.has(sample) { SYNC } else { NOT_SYNC });
                    let later = (point.shown - point.decoded).saturating_add(shift);
                    writer.put32(i32::try_from(later).unwrap_or(0).cast_unsigned());
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        bytes::{be32, be64},
        hls::init,
        mp4::{Atoms, Movie, sample::file},
    };

    #[test]
    fn fragments_have_all_samples_once() {
        let file = file(65, 200);
        let movie = Movie::read(file.as_slice(), 1 << 20).unwrap();
        let plan = Plan::new(&movie, 2000).unwrap();
        assert!(Atoms::find(&init(&plan).unwrap(), b"moov").is_some());
        let mut bytes = Vec::new();
        for number in 0..plan.fragments() {
            let pieces = fragment(&plan, number).unwrap();
            let Some(Piece::Memory(head)) = pieces.first() else {
                panic!("no head")
            };
            let moof = Atoms::find(head, b"moof").unwrap();
            let traf = Atoms::find(moof.payload, b"traf").unwrap().payload;
            let decoded = be64(Atoms::find(traf, b"tfdt").unwrap().payload, 4).unwrap();
            assert_eq!(decoded, number as u64 * 2000);
            let run = Atoms::find(traf, b"trun").unwrap().payload;
            assert_eq!(
                be32(run, 8),
                Some(moof.whole.len() as u32 + 8),
                "behind the head of mdat"
            );
            assert_eq!(
                (be32(run, 20), be32(run, 24)),
                (Some(SYNC), Some(0)),
                "a key frame, shown as soon as it is decoded"
            );
            for piece in &pieces[1..] {
                let Piece::File(range) = piece else {
                    panic!("what is in the file stays there")
                };
                bytes.extend_from_slice(&file[range.start as usize..range.end as usize]);
            }
        }
        assert_eq!(bytes, (0..65).collect::<Vec<u8>>());
        assert!(matches!(
            fragment(&plan, plan.fragments()),
            Err(MediaError::Beyond)
        ));
    }
}
