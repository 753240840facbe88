//! Cuts of a made-up file: what is in them, and that they are sound.

use super::*;
use crate::mp4::sample::file;

/// Concatenates the pieces.
fn whole(pieces: &[Piece], file: &[u8]) -> Vec<u8> {
    let bytes = |piece: &Piece| match piece {
        Piece::Memory(bytes) => bytes.clone(),
        Piece::File(range) => file[range.start as usize..range.end as usize].to_vec(),
    };
    pieces.iter().flat_map(bytes).collect()
}

fn cut_of(file: &[u8], start_ms: u64, end_ms: Option<u64>) -> Result<Vec<u8>, MediaError> {
    let movie = Movie::read(file, 1 << 20)?;
    cut(&movie, Times { start_ms, end_ms }).map(|pieces| whole(&pieces, file))
}

/// Samples' bytes in order.
fn samples(made: &[u8]) -> Vec<u8> {
    let movie = Movie::read(made, 1 << 20).unwrap();
    let view = movie.view().unwrap();
    let tables = &view.tracks[0].tables;
    let chunks = chunks(tables, 0..tables.samples, made.len() as u64).unwrap();
    chunks
        .iter()
        .flat_map(|chunk| made[chunk.offset as usize..][..chunk.bytes as usize].to_vec())
        .collect()
}

#[test]
fn begins_at_the_key_frame_and_ends_where_asked() {
    let file = file(50, 200);
    // Asked for, the first sample, the first that is not in it, how long it is shown.
    let rows = [
        (0, None, 0, 50, 5000),
        (999, None, 0, 50, 5000),
        (1000, None, 10, 50, 4000),
        (2350, None, 20, 50, 3000),
        (2350, Some(3000), 20, 30, 1000),
        (2350, Some(2950), 20, 30, 950),
        (2350, Some(2350), 20, 50, 3000),
        (4999, Some(99_999), 40, 50, 1000),
    ];
    for (start_ms, end_ms, first, end, duration) in rows {
        let made = cut_of(&file, start_ms, end_ms).unwrap();
        assert_eq!(
            samples(&made),
            (first..end).collect::<Vec<u8>>(),
            "{start_ms} {end_ms:?}"
        );
        let movie = Movie::read(made.as_slice(), 1 << 20).unwrap();
        let view = movie.view().unwrap();
        let track = &view.tracks[0];
        let mvhd = Atoms::find(view.index, b"mvhd").unwrap();
        assert_eq!(
            MVHD.duration(mvhd.payload),
            Some(duration),
            "{start_ms} {end_ms:?}"
        );
        assert_eq!(
            (track.beginning.media_time, track.tables.point(0).shown),
            (200, 200),
            "the key frame is shown first"
        );
        assert_eq!(track.tables.sync_at(0), 0);
        assert_eq!(
            track.tables.syncs.and_then(|syncs| syncs.word(0, 0)),
            Some(1)
        );
    }
    assert!(matches!(cut_of(&file, 5000, None), Err(MediaError::Beyond)));
}

#[test]
fn a_cut_of_a_cut_is_the_cut() {
    let file = file(50, 0);
    let once = cut_of(&file, 1500, None).unwrap();
    let twice = cut_of(&once, 1000, Some(2000)).unwrap();
    assert_eq!(samples(&twice), (20..30).collect::<Vec<u8>>());
}

#[test]
fn samples_outside_of_the_file_are_refused() {
    let mut file = file(50, 0);
    let at = file
        .windows(4)
        .position(|window| window == b"stco")
        .unwrap()
        + 12;
    file[at..at + 4].copy_from_slice(&0xffff_ff00_u32.to_be_bytes());
    assert!(matches!(
        cut_of(&file, 0, None),
        Err(MediaError::Damaged(_))
    ));
    assert!(
        cut_of(&file, 1000, None).is_ok(),
        "what is not needed is not looked at"
    );
}
