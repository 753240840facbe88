//! Parts of a made-up file with H.264: by bytes and by times.

use super::*;
use crate::{
    Times,
    flv::{by_bytes, by_times},
};

fn tag(kind: u8, time_ms: u32, content: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = (content.len() as u32).to_be_bytes();
    let [high, low @ ..] = time_ms.to_be_bytes();
    let tag = [&[kind][..], &length, &low, &[high], &[0; 3], content].concat();
    [tag.as_slice(), &(tag.len() as u32).to_be_bytes()].concat()
}

/// A decoder's tag, then pictures every 100 ms, of which every tenth is a key frame.
fn file() -> (Vec<u8>, Vec<usize>) {
    let mut file = [head(1), tag(VIDEO, 0, b"\x17\0decoder")].concat();
    let mut at = Vec::new();
    for number in 0..50 {
        at.push(file.len());
        let first = if number % 10 == 0 { 0x17 } else { 0x27 };
        file.extend(tag(VIDEO, number * 100, &[first, 1, number as u8]));
    }
    (file, at)
}

fn whole(pieces: &[Piece], file: &[u8]) -> Vec<u8> {
    let bytes = |piece: &Piece| match piece {
        Piece::Memory(bytes) => bytes.clone(),
        Piece::File(range) => file[range.start as usize..range.end as usize].to_vec(),
    };
    pieces.iter().flat_map(bytes).collect()
}

#[test]
fn by_byte() {
    let (file, at) = file();
    let made = by_bytes(file.as_slice(), at[20] as u64, None)
        .unwrap()
        .unwrap();
    let expected = [
        head(1),
        tag(VIDEO, 2000, b"\x17\0decoder"),
        file[at[20]..].to_vec(),
    ]
    .concat();
    assert_eq!(whole(&made, &file), expected);
    let to = by_bytes(file.as_slice(), at[20] as u64, Some(at[21] as u64 - 1))
        .unwrap()
        .unwrap();
    assert_eq!(
        whole(&to, &file),
        expected[..expected.len() - (file.len() - at[21])]
    );
    let between = by_bytes(file.as_slice(), at[20] as u64 + 1, None)
        .unwrap()
        .unwrap();
    assert_eq!(
        whole(&between, &file),
        [head(1), file[at[20] + 1..].to_vec()].concat(),
        "as it was asked for"
    );
    for (start, end) in [
        (0, None),
        (file.len() as u64, None),
        (u64::MAX, Some(3)),
        (0, Some(u64::MAX)),
    ] {
        assert!(
            by_bytes(file.as_slice(), start, end).unwrap().is_none(),
            "{start} {end:?}"
        );
    }
    assert_eq!(
        whole(
            &by_bytes(file.as_slice(), 0, Some(99)).unwrap().unwrap(),
            &file
        ),
        file[..100]
    );
}

#[test]
fn by_time() {
    let (file, at) = file();
    let index = Index::read_with_keys(file.as_slice()).unwrap();
    assert_eq!(
        (index.duration_ms, index.keys.len(), index.end),
        (4900, 5, file.len() as u64)
    );
    for (start_ms, end_ms, first, end) in [
        (0, None, 0, 50),
        (999, None, 0, 50),
        (1000, None, 10, 50),
        (2345, Some(3150), 20, 32),
        (2345, Some(1), 20, 50),
        (1500, Some(9_999_999), 10, 50),
    ] {
        let made = whole(
            &by_times(file.as_slice(), &index, Times { start_ms, end_ms }).unwrap(),
            &file,
        );
        let range = at[first]..at.get(end).copied().unwrap_or(file.len());
        let decoder = tag(VIDEO, first as u32 * 100, b"\x17\0decoder");
        assert_eq!(
            made,
            [head(1), decoder, file[range].to_vec()].concat(),
            "{start_ms} {end_ms:?}"
        );
    }
    assert!(matches!(
        by_times(
            file.as_slice(),
            &index,
            Times {
                start_ms: 4900,
                end_ms: None
            }
        ),
        Err(MediaError::Beyond)
    ));
}

#[test]
fn no_cut_off_file_is_a_panic() {
    let (file, _) = file();
    for end in 0..file.len() {
        let cut_off = &file[..end];
        if let Ok(index) = Index::read_with_keys(cut_off) {
            let _ = by_times(
                cut_off,
                &index,
                Times {
                    start_ms: 1500,
                    end_ms: Some(1700),
                },
            );
        }
        let _ = by_bytes(cut_off, 100, None);
    }
}

#[test]
fn a_head_that_is_longer_than_the_file_is_refused() {
    let mut file = [head(5), vec![0; 23]].concat();
    file[8] = 42;
    assert!(
        matches!(
            Index::read_with_keys(file.as_slice()),
            Err(MediaError::Damaged(_))
        ),
        "the first tag is behind the end"
    );
    assert!(by_bytes(file.as_slice(), 1, None).is_err());
    file[8] = 32;
    let index = Index::read_with_keys(file.as_slice()).unwrap();
    assert_eq!((index.first_tag, index.end), (36, 36));
}
