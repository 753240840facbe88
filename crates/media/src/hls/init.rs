//! The initialization section (RFC 8216 section 3.3): the tracks with their sample entries, and no
//! samples.

use super::Plan;
use crate::{
    MediaError,
    mp4::{Atom, Atoms, MDHD, MVHD, TKHD, Track, Writer, with_duration},
};

pub fn init(plan: &Plan<'_>) -> Result<Vec<u8>, MediaError> {
    let mut writer = Writer::default();
    writer.atom(b"ftyp", |writer| writer.put(b"iso6\0\0\0\0iso6cmfcmp41"));
    writer.atom(b"moov", |writer| {
        let head = Atoms::find(plan.index, b"mvhd")
            .ok_or(MediaError::Damaged("its index has no head (mvhd)"))?;
        writer.atom(b"mvhd", |writer| {
            writer.put(&with_duration(MVHD, head.payload, 0))
        });
        for (track, _) in &plan.tracks {
            write_track(writer, track)?;
        }
        writer.atom(b"mvex", |writer| {
            plan.tracks
                .iter()
                .for_each(|(track, _)| write_defaults(writer, track))
        });
        Ok::<(), MediaError>(())
    })?;
    Ok(writer.finish(0))
}

/// Writes a track without an edit list, because times count from the beginning of the presentation
/// (see `fragment`).
fn write_track(writer: &mut Writer, track: &Track<'_>) -> Result<(), MediaError> {
    writer.atom(b"trak", |writer| {
        for atom in Atoms::new(track.whole) {
            let atom = atom?;
            match &atom.kind {
                b"tkhd" => writer.atom(b"tkhd", |writer| {
                    writer.put(&with_duration(TKHD, atom.payload, 0))
                }),
                b"mdia" => write_media(writer, &atom, track)?,
                _ => {}
            }
        }
        Ok(())
    })
}

fn write_media(writer: &mut Writer, mdia: &Atom<'_>, track: &Track<'_>) -> Result<(), MediaError> {
    writer.atom(b"mdia", |writer| {
        for atom in Atoms::new(mdia.payload) {
            let atom = atom?;
            match &atom.kind {
                b"mdhd" => writer.atom(b"mdhd", |writer| {
                    writer.put(&with_duration(MDHD, atom.payload, 0))
                }),
                b"minf" => write_information(writer, &atom, track)?,
                _ => writer.put(atom.whole),
            }
        }
        Ok(())
    })
}

fn write_information(
    writer: &mut Writer,
    minf: &Atom<'_>,
    track: &Track<'_>,
) -> Result<(), MediaError> {
    writer.atom(b"minf", |writer| {
        for atom in Atoms::new(minf.payload) {
            let atom = atom?;
            match &atom.kind {
                b"stbl" => writer.atom(b"stbl", |writer| {
                    writer.put(track.entries.whole);
                    [b"stts", b"stsc", b"stco"]
                        .iter()
                        .for_each(|kind| writer.full_atom(kind, 0, 0, |writer| writer.put32(0)));
                    writer.full_atom(b"stsz", 0, 0, |writer| writer.put64(0));
                }),
                _ => writer.put(atom.whole),
            }
        }
        Ok(())
    })
}

/// ISO/IEC 14496-12 section 8.8.3.
fn write_defaults(writer: &mut Writer, track: &Track<'_>) {
    writer.full_atom(b"trex", 0, 0, |writer| {
        [track.number, 1, 0, 0, 0]
            .iter()
            .for_each(|word| writer.put32(*word))
    });
}
