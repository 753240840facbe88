//! Whatever a file's tables say, the work on it is bounded by its bytes.

use super::steps;
use crate::{
    MediaError, Times, flv, hls,
    mp4::{self, Movie, Writer},
};
use proptest::prelude::*;

/// Steps for each byte of a file, and those that any file costs (a fragment of samples that take no
/// bytes, and the most fragments that there are).
const STEPS_PER_BYTE: u64 = 64;
const STEPS_ANYWAY: u64 = 1_000_000;

/// Content of a track's tables.
#[derive(Clone, Debug, Default)]
struct Tables {
    timescales: (u32, u32),
    durations: Vec<(u32, u32)>,
    shown: Vec<(u32, u32)>,
    syncs: Option<Vec<u32>>,
    /// All of the same size, and how many.
    same: Option<(u32, u32)>,
    sizes: Vec<u32>,
    runs: Vec<(u32, u32)>,
    chunks: Vec<u32>,
    edits: Vec<(u32, u32)>,
    kind: [u8; 4],
}

fn table(writer: &mut Writer, kind: &[u8; 4], count: usize, words: impl Iterator<Item = u32>) {
    writer.full_atom(kind, 0, 0, |writer| {
        writer.put32(count as u32);
        words.for_each(|word| writer.put32(word));
    });
}

fn zeros(writer: &mut Writer, kind: &[u8; 4], before: &[u32], length: usize) {
    writer.full_atom(kind, 0, 0, |writer| {
        before.iter().for_each(|word| writer.put32(*word));
        writer.put(&vec![0; length - before.len() * 4 - 4]);
    });
}

fn write_stbl(writer: &mut Writer, tables: &Tables) {
    let pairs = |pairs: &[(u32, u32)]| {
        pairs
            .iter()
            .flat_map(|(one, other)| [*one, *other])
            .collect::<Vec<_>>()
    };
    writer.full_atom(b"stsd", 0, 0, |writer| {
        writer.put32(1);
        writer.atom(b"avc1", |writer| {
            writer.put(&[0; 78]);
            writer.atom(b"avcC", |writer| writer.put(&[1, 0x64, 0, 0x1f]));
        });
    });
    table(
        writer,
        b"stts",
        tables.durations.len(),
        pairs(&tables.durations).into_iter(),
    );
    if !tables.shown.is_empty() {
        table(
            writer,
            b"ctts",
            tables.shown.len(),
            pairs(&tables.shown).into_iter(),
        );
    }
    if let Some(syncs) = &tables.syncs {
        table(writer, b"stss", syncs.len(), syncs.iter().copied());
    }
    writer.full_atom(b"stsz", 0, 0, |writer| {
        let (bytes, count) = tables.same.unwrap_or((0, tables.sizes.len() as u32));
        writer.put32(bytes);
        writer.put32(count);
        if bytes == 0 {
            tables.sizes.iter().for_each(|size| writer.put32(*size));
        }
    });
    table(
        writer,
        b"stsc",
        tables.runs.len(),
        tables
            .runs
            .iter()
            .flat_map(|(first, count)| [*first, *count, 1]),
    );
    table(
        writer,
        b"stco",
        tables.chunks.len(),
        tables.chunks.iter().copied(),
    );
}

fn write_track(writer: &mut Writer, number: u32, tables: &Tables) {
    writer.atom(b"trak", |writer| {
        zeros(writer, b"tkhd", &[0, 0, number, 0, 0], 84);
        writer.atom(b"edts", |writer| {
            table(
                writer,
                b"elst",
                tables.edits.len(),
                tables
                    .edits
                    .iter()
                    .flat_map(|(duration, time)| [*duration, *time, 0x0001_0000]),
            );
        });
        writer.atom(b"mdia", |writer| {
            zeros(writer, b"mdhd", &[0, 0, tables.timescales.1, 0], 24);
            writer.full_atom(b"hdlr", 0, 0, |writer| {
                writer.put(&[0; 4]);
                writer.put(&tables.kind);
                writer.put(&[0; 13]);
            });
            writer.atom(b"minf", |writer| {
                writer.atom(b"stbl", |writer| write_stbl(writer, tables))
            });
        });
    });
}

fn file(tracks: &[Tables]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.atom(b"ftyp", |writer| writer.put(b"isom\0\0\0\0"));
    writer.atom(b"mdat", |writer| writer.put(&[0; 2000]));
    writer.atom(b"moov", |writer| {
        let timescale = tracks.first().map_or(1000, |tables| tables.timescales.0);
        zeros(writer, b"mvhd", &[0, 0, timescale, 0], 100);
        tracks
            .iter()
            .zip(1..)
            .for_each(|(tables, number)| write_track(writer, number, tables));
    });
    writer.finish(0)
}

/// Everything that requests can ask of a file; the steps of the dearest request.
fn dearest(file: &[u8], fragment_ms: u64) -> u64 {
    let mut dearest = 0;
    let mut measure = |work: &mut dyn FnMut()| {
        let before = steps();
        work();
        dearest = dearest.max(steps() - before);
    };
    let Ok(movie) = Movie::read(file, 1 << 24) else {
        return 0;
    };
    measure(&mut || drop(movie.duration_ms()));
    for times in [
        Times::default(),
        Times {
            start_ms: 1,
            end_ms: Some(2),
        },
        Times {
            start_ms: 1 << 49,
            end_ms: None,
        },
    ] {
        measure(&mut || drop(mp4::cut(&movie, times)));
    }
    let mut fragments = 0;
    measure(&mut || {
        if let Ok(plan) = hls::Plan::new(&movie, fragment_ms) {
            fragments = plan.fragments();
            drop(hls::main(&plan, "v"));
            drop(hls::media(&plan, "v"));
        }
    });
    for number in [0, fragments / 2, fragments.saturating_sub(1), fragments] {
        measure(&mut || {
            drop(hls::Plan::new(&movie, fragment_ms).and_then(|plan| hls::fragment(&plan, number)))
        });
    }
    dearest
}

fn is_bounded(file: &[u8], steps: u64) -> bool {
    steps <= STEPS_ANYWAY + STEPS_PER_BYTE * file.len() as u64
}

/// 99 samples of 0xffffffff units each, none of them marked as a key frame.
fn endless(timescale: u32) -> Tables {
    Tables {
        timescales: (timescale, timescale),
        durations: vec![(1, u32::MAX); 99],
        same: Some((1, 99)),
        runs: vec![(1, 99)],
        chunks: vec![30],
        kind: *b"vide",
        ..Tables::default()
    }
}

#[test]
fn a_few_samples_of_a_hundred_years_each_are_as_many_fragments() {
    for timescale in [1, 1000, u32::MAX] {
        let file = file(&[endless(timescale)]);
        let before = steps();
        let movie = Movie::read(file.as_slice(), 1 << 20).unwrap();
        let plan = hls::Plan::new(&movie, 6000).unwrap();
        assert!(plan.fragments() <= 99, "{}", plan.fragments());
        assert!(hls::main(&plan, "v").len() + hls::media(&plan, "v").len() < 10_000);
        assert!(
            steps() - before < 10_000,
            "{} steps for {} bytes",
            steps() - before,
            file.len()
        );
    }
}

#[test]
fn numbers_that_do_not_fit_end_the_search() {
    for (edit, scales) in [
        ((u32::MAX, u32::MAX), (1, u32::MAX)),
        ((u32::MAX, 0x7fff_ffff), (1, 1)),
        ((0, 0x7fff_ffff), (1, u32::MAX)),
    ] {
        let edits = [vec![edit; 9], vec![(1, 0)]].concat();
        let file = file(&[Tables {
            edits,
            timescales: scales,
            ..endless(scales.1)
        }]);
        assert!(is_bounded(&file, dearest(&file, 1)));
    }
}

#[test]
fn the_main_playlist_goes_through_each_track_once() {
    // As many fragments as there may be, beside a long table of the other track.
    let pictures = Tables {
        timescales: (1000, 1000),
        durations: vec![(40_000, 1000)],
        same: Some((1, 40_000)),
        runs: vec![(1, 40_000)],
        chunks: vec![30],
        kind: *b"vide",
        ..Tables::default()
    };
    let sound = Tables {
        durations: [(1, 1), (1, 2)].repeat(20_000),
        kind: *b"soun",
        ..pictures.clone()
    };
    let file = file(&[pictures, sound]);
    assert!(
        is_bounded(&file, dearest(&file, 1)),
        "{} steps for {} bytes",
        dearest(&file, 1),
        file.len()
    );
}

#[test]
fn too_many_fragments_are_refused() {
    let tables = Tables {
        timescales: (1, 1),
        durations: vec![(u32::MAX, 1)],
        same: Some((1, u32::MAX)),
        runs: vec![(1, u32::MAX)],
        chunks: vec![0],
        kind: *b"vide",
        ..Tables::default()
    };
    let file = file(&[tables]);
    let movie = Movie::read(file.as_slice(), 1 << 20).unwrap();
    assert!(matches!(
        hls::Plan::new(&movie, 1000),
        Err(MediaError::Unsupported(_))
    ));
    assert!(is_bounded(&file, dearest(&file, 1)));
}

#[test]
fn flv_of_tiny_tags() {
    let mut file = b"FLV\x01\x01\0\0\0\x09\0\0\0\0".to_vec();
    for number in 0..100_000_u32 {
        let [high, time @ ..] = number.to_be_bytes();
        file.extend_from_slice(
            &[
                &[9, 0, 0, 2],
                &time[..],
                &[high, 0, 0, 0, 0x17, 1, 0, 0, 0, 13],
            ]
            .concat(),
        );
    }
    let before = steps();
    let index = flv::Index::read_with_keys(file.as_slice()).unwrap();
    flv::by_times(
        file.as_slice(),
        &index,
        Times {
            start_ms: 5,
            end_ms: Some(90_000),
        },
    )
    .unwrap();
    assert!(index.memory_bytes() < 8 << 20);
    assert!(
        steps() - before <= file.len() as u64,
        "{}",
        steps() - before
    );
}

/// Numbers at which something may tip over.
fn edge() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(2),
        Just(1000),
        Just(0x7fff_ffff),
        Just(0x8000_0000),
        Just(u32::MAX),
        0..200_u32
    ]
}

fn pairs(count: usize) -> impl Strategy<Value = Vec<(u32, u32)>> {
    prop::collection::vec((edge(), edge()), 0..count)
}

fn tables() -> impl Strategy<Value = Tables> {
    let syncs = prop::option::of(prop::collection::vec(edge(), 0..20));
    let sizes = (
        prop::option::of((edge(), edge())),
        prop::collection::vec(edge(), 0..40),
    );
    let places = (
        pairs(6),
        prop::collection::vec(0..2100_u32, 0..20),
        pairs(4),
    );
    let kind = prop_oneof![Just(*b"vide"), Just(*b"soun"), Just(*b"text")];
    (
        (edge(), edge()),
        pairs(30),
        pairs(30),
        syncs,
        sizes,
        places,
        kind,
    )
        .prop_map(
            |(
                timescales,
                durations,
                shown,
                syncs,
                (same, sizes),
                (mut runs, chunks, edits),
                kind,
            )| {
                // The first run begins with the first chunk; otherwise hardly anything is left to
                // be tried.
                runs.iter_mut().take(1).for_each(|run| run.0 = 1);
                Tables {
                    timescales,
                    durations,
                    shown,
                    syncs,
                    same,
                    sizes,
                    runs,
                    chunks,
                    edits,
                    kind,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn work_is_bounded_by_bytes(tracks in prop::collection::vec(tables(), 1..3), fragment_ms in prop_oneof![Just(1), Just(6000), Just(u64::MAX), 1..100_000_u64]) {
        let file = file(&tracks);
        let steps = dearest(&file, fragment_ms);
        prop_assert!(is_bounded(&file, steps), "{steps} steps for {} bytes", file.len());
    }
}
