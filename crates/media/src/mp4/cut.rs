//! A part of a movie as a file of its own: a new index, followed by the bytes of the samples as
//! they are in the file.
//!
//! Caveat: video can only begin at a key frame, audio anywhere. So the new file begins at the key
//! frame at or before the requested time, which applies to all tracks, and each track's edit list
//! skips the beginning of its first samples. Nothing is decoded and no sample is copied.

use super::{
    Atoms, Chunk, MDHD, MVHD, Movie, TKHD, Track, Writer,
    atoms::Atom,
    chunks::{chunks, joined},
    edits::Beginning,
    head::Layout,
    movie::View,
    tables::Sizes,
    with_duration,
    writer::Width,
};
use crate::{MediaError, Piece, Times, bytes::scale, spans::Spans, work::step};
use std::ops::Range;

/// Larger offsets take eight bytes each; the index itself is far smaller than the margin.
const SHORT_BYTES_MAX: u64 = u32::MAX as u64 - (256 << 20);

/// The beginning of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// All tracks begin at the key frame at or before the time.
    #[default]
    KeyFrame,
    /// Each track begins with the sample of the time, which may not be decodable by itself (nginx).
    Sample,
    /// The samples from the key frame are there, and an edit list hides those before the time
    /// (nginx, `mp4_start_key_frame`).
    HiddenKeyFrame,
}

/// The file from `times.start_ms` (the key frame at or before it) to `times.end_ms`.
pub fn cut(movie: &Movie, times: Times) -> Result<Vec<Piece>, MediaError> {
    cut_at(movie, times, Start::KeyFrame)
}

/// The same with another beginning.
pub fn cut_at(movie: &Movie, times: Times, start: Start) -> Result<Vec<Piece>, MediaError> {
    let view = movie.view()?;
    let parts = match start {
        Start::KeyFrame => parts(&view, movie.file_bytes, times)?,
        _ => exact_parts(&view, movie.file_bytes, times, start)?,
    };
    let spans = Spans::new(
        parts
            .iter()
            .flat_map(|part| part.chunks.iter().map(Chunk::range)),
    );
    let head = match spans.length().saturating_add(16) <= u32::MAX.into() {
        true => [
            &(spans.length() as u32 + 8).to_be_bytes(),
            b"mdat".as_slice(),
        ]
        .concat(),
        false => [
            &1_u32.to_be_bytes(),
            b"mdat".as_slice(),
            &(spans.length() + 16).to_be_bytes(),
        ]
        .concat(),
    };
    let mut writer = Writer::default();
    writer.put(&movie.file_type);
    write(&mut writer, &view, &parts, &spans)?;
    let mut index = writer.finish(head.len() as u64);
    index.extend_from_slice(&head);
    Ok(std::iter::once(Piece::Memory(index))
        .chain(spans.ranges().map(Piece::File))
        .collect())
}

/// The remaining part of a track.
struct Part<'v, 'm> {
    track: &'v Track<'m>,
    samples: Range<u64>,
    /// Duration in its own units, from its first sample to its last.
    duration: i64,
    beginning: Beginning,
    /// Presentation time, in the movie's units.
    shown: u64,
    chunks: Vec<Chunk>,
}

fn parts<'v, 'm>(
    view: &'v View<'m>,
    file_bytes: u64,
    times: Times,
) -> Result<Vec<Part<'v, 'm>>, MediaError> {
    let start_ms = i64::try_from(times.start_ms).unwrap_or(i64::MAX);
    let end_ms = times
        .end_ms
        .filter(|end_ms| *end_ms > times.start_ms)
        .and_then(|end_ms| i64::try_from(end_ms).ok());
    let lead = view
        .lead()
        .and_then(|at| view.tracks.get(at))
        .ok_or(MediaError::Beyond)?;
    let is_there = |track: &Track<'_>| {
        track.tables.samples > 0 && track.end() > scale(start_ms, track.timescale, 1000)
    };
    if !view.tracks.iter().any(is_there) {
        return Err(MediaError::Beyond);
    }
    let key = lead
        .tables
        .sync_at(lead.own_time(scale(start_ms, lead.timescale, 1000)));
    let begins = (
        lead.shown_time(lead.tables.point(key).shown).max(0),
        lead.timescale,
    );
    view.tracks
        .iter()
        .map(|track| part(view, track, begins, end_ms, file_bytes))
        .collect()
}

/// The parts of a file that begins at the time itself, by the times at which samples are decoded.
fn exact_parts<'v, 'm>(
    view: &'v View<'m>,
    file_bytes: u64,
    times: Times,
    start: Start,
) -> Result<Vec<Part<'v, 'm>>, MediaError> {
    let all = view.tracks.iter();
    let parts: Vec<Part<'v, 'm>> = all
        .map(|track| exact_part(view, track, times, start, file_bytes))
        .collect::<Result<_, _>>()?;
    match parts.iter().any(|part| !part.samples.is_empty()) {
        true => Ok(parts),
        false => Err(MediaError::Beyond),
    }
}

fn exact_part<'v, 'm>(
    view: &View<'m>,
    track: &'v Track<'m>,
    times: Times,
    start: Start,
    file_bytes: u64,
) -> Result<Part<'v, 'm>, MediaError> {
    let tables = &track.tables;
    let units = |ms: u64| scale(i64::try_from(ms).unwrap_or(i64::MAX), track.timescale, 1000);
    let begin = units(times.start_ms);
    let all = tables.decoded_at(tables.samples);
    let end_ms = times.end_ms.filter(|end_ms| *end_ms > times.start_ms);
    let length = end_ms.map(|end_ms| units(end_ms - times.start_ms));
    let first = tables.sample_at(begin);
    let behind = match length {
        Some(length) => tables.samples_within(first, length),
        None => tables.samples,
    };
    let mut samples = first..behind.max(first);
    let mut beginning = Beginning::default();
    if start == Start::HiddenKeyFrame && !samples.is_empty() {
        samples.start = tables.sync_before(first);
        beginning.media_time = (begin - tables.decoded_at(samples.start)).max(0);
    }
    if samples.is_empty() {
        samples = 0..0;
    }
    let rest = all.saturating_sub(begin).max(0);
    let duration = length.map_or(rest, |length| length.min(rest));
    Ok(Part {
        track,
        duration,
        beginning,
        shown: u64::try_from(scale(duration, view.timescale, track.timescale)).unwrap_or(0),
        chunks: joined(chunks(tables, samples.clone(), file_bytes)?),
        samples,
    })
}

/// `begins`: when the new file begins, in the units of the lead.
fn part<'v, 'm>(
    view: &View<'m>,
    track: &'v Track<'m>,
    begins: (i64, u32),
    end_ms: Option<i64>,
    file_bytes: u64,
) -> Result<Part<'v, 'm>, MediaError> {
    let tables = &track.tables;
    let begin = scale(begins.0, track.timescale, begins.1);
    let own_begin = track.own_time(begin);
    let end = end_ms.map(|end_ms| scale(end_ms, track.timescale, 1000));
    let behind = end.map_or(tables.samples, |end| tables.end_before(track.own_time(end)));
    let is_over = track.end() <= begin;
    let first = if is_over {
        behind
    } else {
        tables.sync_at(own_begin).min(behind)
    };
    let first_point = tables.point(first);
    let duration = tables.decoded_at(behind) - tables.decoded_at(first);
    let media_time = own_begin.saturating_sub(first_point.decoded);
    let beginning = Beginning {
        media_time: media_time.max(0),
        pause: u64::try_from(scale(
            media_time.min(0).saturating_neg(),
            view.timescale,
            track.timescale,
        ))
        .unwrap_or(0),
    };
    let lasts = duration
        .saturating_add(first_point.shown - first_point.decoded)
        .saturating_sub(beginning.media_time);
    let lasts = end
        .map_or(lasts, |end| {
            lasts.min(end.saturating_sub(begin).saturating_add(media_time.min(0)))
        })
        .max(0);
    let samples = if duration > 0 || first < behind {
        first..behind
    } else {
        0..0
    };
    Ok(Part {
        track,
        duration,
        beginning,
        shown: u64::try_from(scale(lasts, view.timescale, track.timescale)).unwrap_or(0),
        chunks: joined(chunks(tables, samples.clone(), file_bytes)?),
        samples,
    })
}

fn write(
    writer: &mut Writer,
    view: &View<'_>,
    parts: &[Part<'_, '_>],
    spans: &Spans,
) -> Result<(), MediaError> {
    let longest = parts
        .iter()
        .map(|part| part.beginning.pause.saturating_add(part.shown))
        .max()
        .unwrap_or(0);
    let mut parts = parts.iter();
    writer.atom(b"moov", |writer| {
        for atom in Atoms::new(view.index) {
            let atom = atom?;
            match (&atom.kind, atom.kind == *b"trak") {
                (b"mvhd", _) => write_head(writer, &atom, MVHD, longest),
                (_, true) => parts
                    .next()
                    .map_or(Ok(()), |part| write_track(writer, part, spans))?,
                _ => writer.put(atom.whole),
            }
        }
        Ok(())
    })
}

fn write_head(writer: &mut Writer, atom: &Atom<'_>, layout: Layout, duration: u64) {
    writer.atom(&atom.kind, |writer| {
        writer.put(&with_duration(layout, atom.payload, duration))
    });
}

fn write_track(writer: &mut Writer, part: &Part<'_, '_>, spans: &Spans) -> Result<(), MediaError> {
    let all = part.beginning.pause.saturating_add(part.shown);
    writer.atom(b"trak", |writer| {
        for atom in Atoms::new(part.track.whole) {
            let atom = atom?;
            match &atom.kind {
                b"tkhd" => {
                    write_head(writer, &atom, TKHD, all);
                    part.beginning.write(writer, part.shown);
                }
                b"edts" => {}
                b"mdia" => write_media(writer, &atom, part, spans)?,
                _ => writer.put(atom.whole),
            }
        }
        Ok(())
    })
}

fn write_media(
    writer: &mut Writer,
    mdia: &Atom<'_>,
    part: &Part<'_, '_>,
    spans: &Spans,
) -> Result<(), MediaError> {
    writer.atom(b"mdia", |writer| {
        for atom in Atoms::new(mdia.payload) {
            let atom = atom?;
            match &atom.kind {
                b"mdhd" => write_head(writer, &atom, MDHD, part.duration.unsigned_abs()),
                b"minf" => write_information(writer, &atom, part, spans)?,
                _ => writer.put(atom.whole),
            }
        }
        Ok(())
    })
}

fn write_information(
    writer: &mut Writer,
    minf: &Atom<'_>,
    part: &Part<'_, '_>,
    spans: &Spans,
) -> Result<(), MediaError> {
    writer.atom(b"minf", |writer| {
        for atom in Atoms::new(minf.payload) {
            let atom = atom?;
            match &atom.kind {
                b"stbl" => writer.atom(b"stbl", |writer| write_tables(writer, part, spans)),
                _ => writer.put(atom.whole),
            }
        }
        Ok(())
    })
}

/// Tables that say what samples have beyond times, sizes and places (groups, dependencies) are left
/// out: players do without.
fn write_tables(writer: &mut Writer, part: &Part<'_, '_>, spans: &Spans) {
    writer.put(part.track.entries.whole);
    write_durations(writer, part);
    write_offsets_shown(writer, part);
    write_syncs(writer, part);
    write_sizes(writer, part);
    write_runs(writer, part);
    write_chunks(writer, part, spans);
}

/// A table with a count, which `fill` says when it has written the entries.
fn write_table(
    writer: &mut Writer,
    kind: &[u8; 4],
    version: u8,
    fill: impl FnOnce(&mut Writer) -> usize,
) {
    writer.full_atom(kind, version, 0, |writer| {
        let at = writer.len();
        writer.put32(0);
        let count = fill(writer);
        writer.set_count(at, count);
    });
}

fn write_durations(writer: &mut Writer, part: &Part<'_, '_>) {
    let durations = part.track.tables.durations;
    let entries = (0..durations.len())
        .map_while(|entry| Some((durations.word(entry, 0)?, durations.word(entry, 4)?)));
    write_table(writer, b"stts", 0, |writer| {
        write_clipped(writer, entries, &part.samples)
    });
}

fn write_offsets_shown(writer: &mut Writer, part: &Part<'_, '_>) {
    let (offsets, version) = (
        part.track.tables.offsets_shown,
        part.track.tables.offsets_version,
    );
    if offsets.len() > 0 {
        let entries = (0..offsets.len())
            .map_while(|entry| Some((offsets.word(entry, 0)?, offsets.word(entry, 4)?)));
        write_table(writer, b"ctts", version, |writer| {
            write_clipped(writer, entries, &part.samples)
        });
    }
}

/// Runs of samples with something in common, as far as they are in `samples`.
fn write_clipped(
    writer: &mut Writer,
    entries: impl Iterator<Item = (u32, u32)>,
    samples: &Range<u64>,
) -> usize {
    let (mut at, mut count) = (0_u64, 0);
    for (length, value) in entries {
        step();
        let end = at.saturating_add(length.into());
        let kept = end.min(samples.end).saturating_sub(at.max(samples.start));
        if kept > 0 {
            writer.put32(u32::try_from(kept).unwrap_or(u32::MAX));
            writer.put32(value);
            count += 1;
        }
        if end >= samples.end {
            break;
        }
        at = end;
    }
    count
}

fn write_syncs(writer: &mut Writer, part: &Part<'_, '_>) {
    let Some(syncs) = part.track.tables.syncs else {
        return;
    };
    let numbers = (0..syncs.len())
        .map_while(|entry| syncs.word(entry, 0))
        .map(u64::from);
    let kept =
        numbers.filter(|number| (part.samples.start + 1..part.samples.end + 1).contains(number));
    write_table(writer, b"stss", 0, |writer| {
        let before = writer.len();
        kept.for_each(|number| {
            writer.put32(u32::try_from(number - part.samples.start).unwrap_or(u32::MAX))
        });
        (writer.len() - before) / 4
    });
}

fn write_sizes(writer: &mut Writer, part: &Part<'_, '_>) {
    let (sizes, samples) = (&part.track.tables.sizes, &part.samples);
    let count = u32::try_from(samples.end - samples.start).unwrap_or(u32::MAX);
    writer.full_atom(b"stsz", 0, 0, |writer| match sizes {
        Sizes::Same { bytes, .. } => {
            writer.put32(*bytes);
            writer.put32(count);
        }
        _ => {
            writer.put32(0);
            writer.put32(count);
            for sample in samples.clone() {
                step();
                writer.put32(sizes.of(sample));
            }
        }
    });
}

fn write_runs(writer: &mut Writer, part: &Part<'_, '_>) {
    write_table(writer, b"stsc", 0, |writer| {
        let (mut last, mut count) = (None, 0);
        for (chunk, number) in part.chunks.iter().zip(1_u32..) {
            let run = (chunk.samples, chunk.entry);
            if last != Some(run) {
                last = Some(run);
                count += 1;
                [
                    number,
                    u32::try_from(chunk.samples).unwrap_or(u32::MAX),
                    chunk.entry,
                ]
                .iter()
                .for_each(|word| writer.put32(*word));
            }
        }
        count
    });
}

fn write_chunks(writer: &mut Writer, part: &Part<'_, '_>, spans: &Spans) {
    let is_short = spans.length() <= SHORT_BYTES_MAX;
    let (kind, width) = if is_short {
        (b"stco", Width::Four)
    } else {
        (b"co64", Width::Eight)
    };
    write_table(writer, kind, 0, |writer| {
        writer.offsets_follow(part.chunks.len(), width);
        for chunk in &part.chunks {
            let position = spans.position(chunk.offset);
            match width {
                Width::Four => writer.put32(u32::try_from(position).unwrap_or(u32::MAX)),
                Width::Eight => writer.put64(position),
            }
        }
        part.chunks.len()
    });
}

#[cfg(test)]
mod tests;
