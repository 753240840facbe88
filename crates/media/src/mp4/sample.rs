//! Index boxes for tests.

use super::Writer;

/// Tables of a track whose samples have one byte each, in chunks of ten from byte 1000 on. `shown`
/// empty: there is no ctts.
pub fn stbl(
    durations: &[(u32, u32)],
    shown: &[(u32, i32)],
    syncs: Option<&[u32]>,
    samples: u32,
) -> Vec<u8> {
    let mut writer = Writer::default();
    tables(&mut writer, durations, shown, syncs, samples);
    writer.finish(0)
}

fn tables(
    writer: &mut Writer,
    durations: &[(u32, u32)],
    shown: &[(u32, i32)],
    syncs: Option<&[u32]>,
    samples: u32,
) {
    let counted = |writer: &mut Writer, kind: &[u8; 4], version, count: usize, words: &[u32]| {
        writer.full_atom(kind, version, 0, |writer| {
            writer.put32(count as u32);
            words.iter().for_each(|word| writer.put32(*word));
        });
    };
    writer.full_atom(b"stsd", 0, 0, |writer| {
        writer.put32(1);
        writer.atom(b"avc1", |writer| {
            writer.put(&[0; 78]);
            writer.atom(b"avcC", |writer| writer.put(&[1, 0x64, 0, 0x1f]));
        });
    });
    let words: Vec<u32> = durations
        .iter()
        .flat_map(|(count, delta)| [*count, *delta])
        .collect();
    counted(writer, b"stts", 0, durations.len(), &words);
    if !shown.is_empty() {
        let words: Vec<u32> = shown
            .iter()
            .flat_map(|(count, offset)| [*count, offset.cast_unsigned()])
            .collect();
        counted(writer, b"ctts", 1, shown.len(), &words);
    }
    if let Some(syncs) = syncs {
        counted(writer, b"stss", 0, syncs.len(), syncs);
    }
    writer.full_atom(b"stsz", 0, 0, |writer| {
        writer.put32(1);
        writer.put32(samples);
    });
    let per_chunk = if samples > 10_000 { samples } else { 10 };
    counted(writer, b"stsc", 0, 1, &[1, per_chunk, 1]);
    let chunks: Vec<u32> = (0..samples.div_ceil(per_chunk))
        .map(|chunk| 1000 + chunk * per_chunk)
        .collect();
    counted(writer, b"stco", 0, chunks.len(), &chunks);
}

/// A whole file of one video track: 1000 units per second, `samples` of 100 units and a byte each,
/// every tenth a key frame, and a first edit that begins at `media_time`.
pub fn file(samples: u32, media_time: i32) -> Vec<u8> {
    let head = |writer: &mut Writer, kind: &[u8; 4], before: &[u32], length: usize| {
        writer.full_atom(kind, 0, 0, |writer| {
            before.iter().for_each(|word| writer.put32(*word));
            writer.put(&vec![0; length - before.len() * 4 - 4]);
        });
    };
    let mut index = Writer::default();
    index.atom(b"moov", |writer| {
        head(writer, b"mvhd", &[0, 0, 1000, samples * 100], 100);
        writer.atom(b"trak", |writer| {
            head(writer, b"tkhd", &[0, 0, 1, 0, samples * 100], 84);
            writer.atom(b"edts", |writer| {
                writer.full_atom(b"elst", 0, 0, |writer| {
                    [1, samples * 100, media_time.cast_unsigned(), 0x0001_0000]
                        .iter()
                        .for_each(|word| writer.put32(*word));
                });
            });
            writer.atom(b"mdia", |writer| {
                head(writer, b"mdhd", &[0, 0, 1000, samples * 100], 24);
                writer.full_atom(b"hdlr", 0, 0, |writer| {
                    writer.put(b"\0\0\0\0vide\0\0\0\0\0\0\0\0\0\0\0\0\0")
                });
                writer.atom(b"minf", |writer| {
                    writer.atom(b"stbl", |writer| {
                        let keys: Vec<u32> =
                            (0..samples).step_by(10).map(|sample| sample + 1).collect();
                        let shown = (media_time > 0).then_some((samples, media_time));
                        tables(
                            writer,
                            &[(samples, 100)],
                            shown.as_slice(),
                            Some(&keys),
                            samples,
                        );
                    });
                });
            });
        });
    });
    let mut file = Writer::default();
    file.atom(b"ftyp", |writer| writer.put(b"isom\0\0\0\0"));
    // The tables say that chunks begin at 1000.
    file.atom(b"mdat", |writer| writer.put(&vec![0; 1000 - 24]));
    let mut file = file.finish(0);
    file.extend((0..samples).map(|sample| sample as u8));
    let mdat = (8 + 1000 - 24 + samples).to_be_bytes();
    file[16..20].copy_from_slice(&mdat);
    file.extend_from_slice(&index.finish(0));
    file
}
