//! A small PNG encoder: 8 bits, RGB, the filter chosen row by row. PNG (third edition) sections are
//! cited where they are obeyed.

use flate2::{Compression, Crc, write::ZlibEncoder};
use std::io::Write;

const CHANNELS: usize = 3;
const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// A square picture, rows from the top.
pub struct Picture {
    pub edge: usize,
    pub pixels: Vec<[u8; CHANNELS]>,
}

pub fn encode(picture: &Picture) -> Vec<u8> {
    let edge = u32::try_from(picture.edge)
        .unwrap_or(u32::MAX)
        .to_be_bytes();
    // Section 11.2.1: width, height, 8 bits, color type 2 (RGB), the only compression and filter
    // methods, not interlaced.
    let head = [&edge[..], &edge[..], &[8, 2, 0, 0, 0]].concat();
    let mut out = SIGNATURE.to_vec();
    chunk(&mut out, b"IHDR", &head);
    chunk(&mut out, b"IDAT", &compressed(&filtered(picture)));
    chunk(&mut out, b"IEND", &[]);
    out
}

/// The picture as a `.ico` file with one image in it, which may be a PNG.
pub fn icon(picture: &Picture) -> Vec<u8> {
    let image = encode(picture);
    let (edge, length) = (
        u8::try_from(picture.edge).unwrap_or(0),
        u32::try_from(image.len()).unwrap_or(u32::MAX),
    );
    let mut out = vec![0, 0, 1, 0, 1, 0, edge, edge, 0, 0, 1, 0, 24, 0];
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&22u32.to_le_bytes());
    out.extend_from_slice(&image);
    out
}

/// Section 5.3: length, type, data, and a checksum of type and data.
fn chunk(out: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    let mut crc = Crc::new();
    crc.update(kind);
    crc.update(data);
    out.extend_from_slice(&u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(kind);
    out.extend_from_slice(data);
    out.extend_from_slice(&crc.sum().to_be_bytes());
}

fn compressed(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    // Writing to memory does not fail.
    let _ = encoder.write_all(data);
    encoder.finish().unwrap_or_default()
}

/// Section 9.2; of the filters, the one with the smallest sum of magnitudes (section 12.7).
fn filtered(picture: &Picture) -> Vec<u8> {
    let stride = picture.edge * CHANNELS;
    let bytes = picture.pixels.as_flattened();
    let blank = vec![0; stride];
    let mut out = Vec::with_capacity(bytes.len() + picture.edge);
    for (number, row) in bytes.chunks_exact(stride).enumerate() {
        let above = if number == 0 {
            &blank
        } else {
            &bytes[(number - 1) * stride..number * stride]
        };
        let best = (0..=4)
            .map(|filter| (filter, filter_row(filter, row, above)))
            .min_by_key(|(_, row)| magnitude(row));
        if let Some((filter, row)) = best {
            out.push(filter);
            out.extend_from_slice(&row);
        }
    }
    out
}

fn filter_row(filter: u8, row: &[u8], above: &[u8]) -> Vec<u8> {
    let left = |at: usize, of: &[u8]| if at < CHANNELS { 0 } else { of[at - CHANNELS] };
    let predicted = |at: usize| match filter {
        1 => left(at, row),
        2 => above[at],
        3 => u8::midpoint(left(at, row), above[at]),
        4 => paeth(left(at, row), above[at], left(at, above)),
        _ => 0,
    };
    (0..row.len())
        .map(|at| row[at].wrapping_sub(predicted(at)))
        .collect()
}

/// Section 9.4.
fn paeth(left: u8, above: u8, corner: u8) -> u8 {
    let estimate = i16::from(left) + i16::from(above) - i16::from(corner);
    let distance = |value: u8| (estimate - i16::from(value)).abs();
    if distance(left) <= distance(above) && distance(left) <= distance(corner) {
        left
    } else if distance(above) <= distance(corner) {
        above
    } else {
        corner
    }
}

fn magnitude(row: &[u8]) -> u64 {
    row.iter()
        .map(|byte| u64::from(byte.cast_signed().unsigned_abs()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::ZlibDecoder;
    use std::io::Read;

    fn picture() -> Picture {
        let pixels = (0..64u8)
            .map(|n| [n * 3, n.wrapping_mul(n), 255 - n])
            .collect();
        Picture { edge: 8, pixels }
    }

    /// Undoes the filters as a reader would.
    fn decode(data: &[u8], edge: usize) -> Vec<u8> {
        let mut filtered = Vec::new();
        ZlibDecoder::new(data)
            .read_to_end(&mut filtered)
            .expect("zlib");
        let stride = edge * CHANNELS;
        let mut out: Vec<u8> = Vec::new();
        for (number, line) in filtered.chunks_exact(stride + 1).enumerate() {
            for (at, byte) in line[1..].iter().enumerate() {
                let left = if at < CHANNELS {
                    0
                } else {
                    out[number * stride + at - CHANNELS]
                };
                let above = if number == 0 {
                    0
                } else {
                    out[(number - 1) * stride + at]
                };
                let corner = if number == 0 || at < CHANNELS {
                    0
                } else {
                    out[(number - 1) * stride + at - CHANNELS]
                };
                let predicted = match line[0] {
                    0 => 0,
                    1 => left,
                    2 => above,
                    3 => u8::midpoint(left, above),
                    _ => paeth(left, above, corner),
                };
                out.push(byte.wrapping_add(predicted));
            }
        }
        out
    }

    #[test]
    fn what_goes_in_comes_out() {
        let picture = picture();
        let data = compressed(&filtered(&picture));
        assert_eq!(decode(&data, picture.edge), picture.pixels.as_flattened());
    }

    #[test]
    fn chunks_stand_in_order() {
        let file = encode(&picture());
        assert!(file.starts_with(SIGNATURE));
        assert_eq!(&file[12..16], b"IHDR");
        assert!(
            file.ends_with(b"\0\0\0\0IEND\xaeB`\x82"),
            "the checksum of an empty IEND is known"
        );
    }
}
