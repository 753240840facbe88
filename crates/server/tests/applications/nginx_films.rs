//! Parts of MP4 files beside nginx: which samples they have, how long they last, and what there is
//! when nothing is left.
//!
//! Called by: `cargo test -p saker --test applications nginx_films`.
//! Caveat: the indexes differ in form; samples, their bytes, and durations don't.

use crate::nginx_pair::Pair;
use saker_testkit::Client;
use std::{fs, net::SocketAddr};

/// Samples a second, and units of time in one.
const RATE: u32 = 30;
const UNITS: u32 = 600;
/// Samples of a chunk, and from one key frame to the next.
const PER_CHUNK: usize = 5;
const PER_KEY: usize = 30;

fn atom(kind: &str, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let length = u32::try_from(body.len() + 8).unwrap();
    [&length.to_be_bytes()[..], kind.as_bytes(), &body].concat()
}

fn words(words: impl IntoIterator<Item = u32>) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_be_bytes).collect()
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap()
}

/// A track of `count` samples, whose bytes begin at `offset`. The nth sample has `100 + n` bytes.
fn track(number_of_track: u32, count: usize, offset: usize, has_keys: bool) -> Vec<u8> {
    let sizes: Vec<usize> = (0..count).map(|at| 100 + at).collect();
    let duration = number(count) * (UNITS / RATE);
    let shown = duration * 1000 / UNITS;
    let offsets = (0..count)
        .step_by(PER_CHUNK)
        .map(|first| number(offset + sizes[..first].iter().sum::<usize>()));
    let offsets: Vec<u32> = offsets.collect();
    let keys: Vec<u32> = (0..count)
        .step_by(PER_KEY)
        .map(|at| number(at + 1))
        .collect();
    let tables = atom(
        "stbl",
        &[
            &atom("stsd", &[&words([0, 1]), &atom("avc1", &[&[0; 78]])]),
            &atom("stts", &[&words([0, 1, number(count), UNITS / RATE])]),
            &match has_keys {
                true => atom("stss", &[&words([0, number(keys.len())]), &words(keys)]),
                false => Vec::new(),
            },
            &atom("stsc", &[&words([0, 1, 1, number(PER_CHUNK), 1])]),
            &atom(
                "stsz",
                &[
                    &words([0, 0, number(count)]),
                    &words(sizes.iter().map(|size| number(*size))),
                ],
            ),
            &atom(
                "stco",
                &[&words([0, number(offsets.len())]), &words(offsets)],
            ),
        ],
    );
    let media = atom("minf", &[&atom("vmhd", &[&[0; 12]]), &tables]);
    let head = atom("mdhd", &[&words([0, 0, 0, UNITS, duration, 0])]);
    let place = words([0, 0, 0, number_of_track, 0, shown]);
    atom(
        "trak",
        &[
            &atom("tkhd", &[&place, &[0; 60]]),
            &atom("mdia", &[&head, &atom("hdlr", &[&[0; 24]]), &media]),
        ],
    )
}

/// A file with tracks of so many samples.
fn film(counts: &[usize], has_keys: bool) -> Vec<u8> {
    let bytes = |count: usize| (0..count).map(|at| 100 + at).sum::<usize>();
    let kind = atom("ftyp", &[b"isom\0\0\0\0"]);
    let longest = number(*counts.iter().max().unwrap()) * 1000 / RATE;
    let index = |start: usize| {
        let head = atom("mvhd", &[&words([0, 0, 0, 1000, longest]), &[0; 80]]);
        let mut offset = start;
        let mut tracks = Vec::new();
        for (at, count) in counts.iter().enumerate() {
            tracks.extend(track(number(at + 1), *count, offset, has_keys));
            offset += bytes(*count);
        }
        atom("moov", &[&head, &tracks])
    };
    let index = index(kind.len() + index(0).len() + 8);
    let mut content = Vec::new();
    for (which, count) in counts.iter().enumerate() {
        for at in 0..*count {
            content.extend(vec![
                b'A' + u8::try_from((at + which * 7) % 26).unwrap();
                100 + at
            ]);
        }
    }
    [kind, index, atom("mdat", &[&content])].concat()
}

/// The first atom of a kind, at any depth.
fn find<'f>(file: &'f [u8], kind: &str) -> Vec<&'f [u8]> {
    let mut found = Vec::new();
    let mut rest = file;
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap();
        let (own, body) = (&behind[..4], &rest[8..length.max(8)]);
        match own {
            own if own == kind.as_bytes() => found.push(body),
            b"moov" | b"trak" | b"mdia" | b"minf" | b"stbl" => found.extend(find(body, kind)),
            _ => {}
        }
        rest = &rest[length.max(8)..];
    }
    found
}

/// Duration, sizes of samples, their first bytes, and key frames.
type Summary = (u32, Vec<u8>, Vec<u8>, Vec<u8>);

/// The tracks with samples.
fn summary(file: &[u8]) -> Vec<Summary> {
    let word = |bytes: &[u8], at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut tracks = Vec::new();
    for track in find(file, "trak") {
        let one = |kind| find(track, kind).first().copied().unwrap_or_default();
        let (sizes, offsets, runs) = (one("stsz"), one("stco"), one("stsc"));
        let count = word(sizes, 8);
        if count == 0 {
            continue;
        }
        let index = |at: u32| usize::try_from(at).unwrap();
        let size = |at: u32| index(word(sizes, 12 + index(at) * 4));
        let mut run = 0;
        let (mut sample, mut firsts) = (0, Vec::new());
        for chunk in 0..word(offsets, 4) {
            let is_next = |run: u32| word(runs, 8 + index(run) * 12) <= chunk + 1;
            while run + 1 < word(runs, 4) && is_next(run + 1) {
                run += 1;
            }
            let mut at = index(word(offsets, 8 + index(chunk) * 4));
            for _ in 0..word(runs, 8 + index(run) * 12 + 4) {
                if sample < count {
                    firsts.push(file[at]);
                    at += size(sample);
                    sample += 1;
                }
            }
        }
        tracks.push((
            word(one("mdhd"), 16),
            sizes.to_vec(),
            firsts,
            one("stss").to_vec(),
        ));
    }
    tracks
}

#[test]
fn nginx_films_have_the_same_samples() {
    let text = "== http\nserver { listen {ip}:{p}; root {shared}; location / { mp4; } }\n";
    let pair = Pair::start("nginx-films", &[], text);
    fs::write(pair.dir.join("one.mp4"), film(&[90], true)).unwrap();
    fs::write(pair.dir.join("two.mp4"), film(&[60, 90], true)).unwrap();
    fs::write(pair.dir.join("plain.mp4"), film(&[90], false)).unwrap();
    fs::write(pair.dir.join("bad.mp4"), &film(&[90], true)[..700]).unwrap();
    for name in ["one", "two", "plain", "bad"] {
        for part in [
            "start=1",
            "start=1.5",
            "start=0.7&end=1.3",
            "start=1.01&end=1.02",
            "end=1",
            "end=1.99",
            "end=9",
            "start=2.5",
            "start=2.99",
            "start=3",
            "start=7",
            "start=1&end=1",
            "start=2&end=1",
        ] {
            let target = format!("/{name}.mp4?{part}");
            let seen = pair.both(|address: SocketAddr| {
                let mut client = Client::connect(address).unwrap();
                let response = client.get(&target).unwrap();
                let tracks = match response.status == 200 {
                    true => summary(&response.body),
                    false => Vec::new(),
                };
                (target.clone(), response.status, tracks)
            });
            let is_over =
                matches!(part, "start=3" | "start=7" | "start=1.01&end=1.02") || name == "bad";
            assert_eq!(seen.1, if is_over { 500 } else { 200 }, "{target}");
        }
    }
}
