//! Any file is cut, or refused: what is made is as long as it says, lies in the file, and can be
//! read again. The work on it is bounded by its bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_media::{Piece, Source, Times, flv, hls, mp4, work::steps};

/// Larger indexes are not worth a fuzzer's time.
const INDEX_BYTES_MAX: u64 = 1 << 20;

/// Steps for each byte of a file, for all that is asked of it below, and those that any file may
/// cost.
const STEPS_PER_BYTE: u64 = 1024;
const STEPS_ANYWAY: u64 = 20_000_000;

/// All of it, where it is small enough to be put together.
fn whole(pieces: &[Piece], file: &[u8]) -> Option<Vec<u8>> {
    let mut made = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Memory(bytes) => made.extend_from_slice(bytes),
            Piece::File(range) => {
                assert!(range.start <= range.end && range.end <= file.length());
                made.extend_from_slice(&file[range.start as usize..range.end as usize]);
            }
        }
    }
    (made.len() < 1 << 20).then_some(made)
}

fn of_mp4(file: &[u8], times: Times) {
    let Ok(movie) = mp4::Movie::read(file, INDEX_BYTES_MAX) else {
        return;
    };
    assert!(movie.duration_ms().is_ok_and(|ms| ms > 0));
    if let Ok(pieces) = mp4::cut(&movie, times)
        && let Some(made) = whole(&pieces, file)
    {
        // Its tables are sound.
        let again = mp4::Movie::read(made.as_slice(), u64::MAX);
        assert!(again.is_ok(), "{again:?}");
        if let Ok(pieces) = again.and_then(|movie| mp4::cut(&movie, Times::default())) {
            whole(&pieces, &made);
        }
    }
    let Ok(plan) = hls::Plan::new(&movie, 1 + times.start_ms % 10_000) else {
        return;
    };
    assert!(
        hls::media(&plan, "v").ends_with("#EXT-X-ENDLIST\n")
            && hls::main(&plan, "v").starts_with("#EXTM3U\n")
    );
    let _ = hls::init(&plan);
    for number in (0..plan.fragments()).take(8) {
        if let Ok(pieces) = hls::fragment(&plan, number) {
            whole(&pieces, file);
        }
    }
}

fn of_flv(file: &[u8], times: Times) {
    if let Ok(Some(pieces)) = flv::by_bytes(file, times.start_ms, times.end_ms) {
        whole(&pieces, file);
    }
    let Ok(index) = flv::Index::read_with_keys(file) else {
        return;
    };
    if let Ok(pieces) = flv::by_times(file, &index, times) {
        let made = whole(&pieces, file).unwrap_or_default();
        assert!(made.is_empty() || made.starts_with(b"FLV\x01"));
    }
}

// Four bytes: from when to when.
fuzz_target!(|input: &[u8]| {
    let Some(([a, b, c, d], file)) = input.split_first_chunk::<4>() else {
        return;
    };
    let end = u16::from_be_bytes([*c, *d]);
    let times = Times {
        start_ms: u16::from_be_bytes([*a, *b]).into(),
        end_ms: (end > 0).then_some(end.into()),
    };
    let before = steps();
    of_mp4(file, times);
    of_flv(file, times);
    let done = steps() - before;
    assert!(
        done <= STEPS_ANYWAY + STEPS_PER_BYTE * file.len() as u64,
        "{done} steps for {} bytes",
        file.len()
    );
});
