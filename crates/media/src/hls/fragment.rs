//! A fragment (RFC 8216 section 3.3): a box that says what its samples are, and the samples as they
//! lie in the file.
//!
//! Difficulty: tracks are to be in step without edit lists, which players treat in different ways.
//! So times are told as they are shown: what a list would take from a track's beginning is taken
//! from its times. Samples of a track lie apart from each other in the file; each run of them is a
//! `trun` with an offset of its own, so that nothing has to be put in another order.

use super::Plan;
use crate::{
    Fault, Piece,
    mp4::{Chunk, Kind, Points, Syncs, Track, Width, Writer, chunks, joined},
    spans::Spans,
    work::step,
};

/// More samples are no fragment; a second of uncompressed sound has less.
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
pub fn fragment(plan: &Plan<'_>, number: usize) -> Result<Vec<Piece>, Fault> {
    if number >= plan.fragments() {
        return Err(Fault::Beyond);
    }
    let mut parts = Vec::new();
    for (track, _) in &plan.tracks {
        let samples = plan.samples(number, track);
        if samples.end - samples.start > SAMPLES_MAX {
            return Err(Fault::Unsupported("a fragment would have too many samples"));
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
        .map_err(|_| Fault::Unsupported("a fragment would be larger than 4 GB"))?;
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

/// When the first sample is decoded, and what is to be added to how much later each is shown.
fn times(track: &Track<'_>, first: u64) -> (u64, i64) {
    let point = track.tables.point(first);
    let begun = match track.kind {
        // Sound is shown when it is decoded: what is cut off at its beginning moves everything.
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
            Err(Fault::Beyond)
        ));
    }
}
