//! Encoders for Content-Encoding: gzip, brotli and zstd, whole ([`encode`], pure) and piece by
//! piece ([`Encoder`]); and decoders.
//!
//! Called by: static files and the page cache (results are kept) and the compression filter.
//! Caveat: windows are limited to what every decoder must support (8 MB for zstd, RFC 9659 section
//! 3; 16 MB for brotli by its format), and a small body gets a small window, because the encoder's
//! memory follows from it. Same input and settings give the same bytes on every worker; strong
//! entity tags rely on it.
//! Out of scope: encoding with `deflate` (half of its decoders expect the wrong wrapper) and
//! `compress`.

use brotli::{CompressorWriter, enc::BrotliEncoderInitParams};
use flate2::write::GzEncoder;
use saker_config::model::{Compression, CompressionCoding};
use saker_http::content_coding::Coding;
use saker_net::jobs::Cancel;
use std::io::{self, Read, Write};
use zstd::zstd_safe::CParameter;

/// log2 of the largest zstd window that a client must support (RFC 9659 section 3).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// Bytes that an encoder passes to its writer at a time.
const BROTLI_BUFFER_BYTES: usize = 8 << 10;
/// A job checks for cancellation after each of these pieces.
const JOB_PIECE_BYTES: usize = 64 << 10;

/// Compression level per coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    pub gzip: u32,
    pub brotli: u32,
    pub zstd: u32,
}

impl From<&Compression> for Levels {
    fn from(compression: &Compression) -> Levels {
        Levels {
            gzip: compression.gzip_level.min(9),
            brotli: compression.brotli_quality.min(11),
            zstd: compression.zstd_level.clamp(1, 22),
        }
    }
}

impl Levels {
    pub fn of(self, coding: Coding) -> u32 {
        match coding {
            Coding::Identity => 0,
            Coding::Gzip => self.gzip,
            Coding::Brotli => self.brotli,
            Coding::Zstd => self.zstd,
        }
    }
}

/// The HTTP coding for a configured name.
pub fn from_config(coding: CompressionCoding) -> Coding {
    match coding {
        CompressionCoding::Gzip => Coding::Gzip,
        CompressionCoding::Brotli => Coding::Brotli,
        CompressionCoding::Zstd => Coding::Zstd,
    }
}

/// Encodes a whole body. `None` if the result is not smaller; then it is sent as it is.
pub fn encode(coding: Coding, levels: Levels, data: &[u8]) -> Option<Vec<u8>> {
    encode_all(coding, levels, data).filter(|encoded| encoded.len() < data.len())
}

/// Encodes a whole body, even if the result is larger.
pub fn encode_all(coding: Coding, levels: Levels, data: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = Encoder::new(coding, levels, Some(data.len()))?;
    encoder.write(data).ok()?;
    encoder.finish().ok()
}

/// Encodes a whole body as a job that can be cancelled. `even_if_larger`: as [`encode_all`],
/// otherwise as [`encode`].
pub fn encode_as_job(
    cancel: &Cancel,
    coding: Coding,
    levels: Levels,
    data: &[u8],
    even_if_larger: bool,
) -> Option<Vec<u8>> {
    let mut encoder = Encoder::new(coding, levels, Some(data.len()))?;
    for piece in data.chunks(JOB_PIECE_BYTES) {
        cancel.check().ok()?;
        encoder.write(piece).ok()?;
    }
    encoder
        .finish()
        .ok()
        .filter(|encoded| even_if_larger || encoded.len() < data.len())
}

/// Limit for decoded bodies.
const DECODED_BYTES_MAX: u64 = 64 << 20;

/// True if [`decode`] knows the coding.
pub fn is_decodable(name: &[u8]) -> bool {
    [
        &b"identity"[..],
        b"gzip",
        b"x-gzip",
        b"br",
        b"zstd",
        b"deflate",
    ]
    .iter()
    .any(|known| known.eq_ignore_ascii_case(name.trim_ascii()))
}

/// Decodes a whole body by its Content-Encoding. `None`: unknown coding, broken, or too large.
pub fn decode(name: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    decode_up_to(name, data, DECODED_BYTES_MAX)
}

/// The same with another limit, and for `deflate` as well (with zlib's wrapper, as in RFC 9110
/// section 8.4.1.2).
pub fn decode_up_to(name: &[u8], data: &[u8], bytes_max: u64) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let limit = bytes_max + 1;
    match name.trim_ascii().to_ascii_lowercase().as_slice() {
        b"identity" => out.extend_from_slice(data),
        b"gzip" | b"x-gzip" => drop(
            flate2::read::MultiGzDecoder::new(data)
                .take(limit)
                .read_to_end(&mut out)
                .ok()?,
        ),
        b"br" => drop(
            brotli::Decompressor::new(data, 4096)
                .take(limit)
                .read_to_end(&mut out)
                .ok()?,
        ),
        b"zstd" => drop(
            zstd::stream::read::Decoder::new(data)
                .ok()?
                .take(limit)
                .read_to_end(&mut out)
                .ok()?,
        ),
        b"deflate" => drop(
            flate2::read::ZlibDecoder::new(data)
                .take(limit)
                .read_to_end(&mut out)
                .ok()?,
        ),
        _ => return None,
    }
    (out.len() as u64 <= bytes_max).then_some(out)
}

/// Encodes piece by piece: `write` input, `flush` when everything written must be decodable, `take`
/// the output.
pub enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Encoder {
    /// `None` for identity, or if the encoder can't be created. `length`: of the input, if known.
    pub fn new(coding: Coding, levels: Levels, length: Option<usize>) -> Option<Encoder> {
        let room = length.map_or(0, |length| length / 3);
        match coding {
            Coding::Identity => None,
            Coding::Gzip => Some(Encoder::Gzip(GzEncoder::new(
                Vec::with_capacity(room),
                flate2::Compression::new(levels.gzip),
            ))),
            Coding::Brotli => Some(Encoder::Brotli(Box::new(brotli(
                levels.brotli,
                length,
                room,
            )))),
            Coding::Zstd => zstd(levels.zstd, length, room).ok().map(Encoder::Zstd),
        }
    }

    pub fn write(&mut self, data: &[u8]) -> io::Result<()> {
        match self {
            Encoder::Gzip(encoder) => encoder.write_all(data),
            Encoder::Brotli(encoder) => encoder.write_all(data),
            Encoder::Zstd(encoder) => encoder.write_all(data),
        }
    }

    /// Makes everything written so far decodable; costs some bytes each time.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Encoder::Gzip(encoder) => encoder.flush(),
            Encoder::Brotli(encoder) => encoder.flush(),
            Encoder::Zstd(encoder) => encoder.flush(),
        }
    }

    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(self.output())
    }

    /// Bytes that [`Encoder::take`] would return.
    pub fn ready_bytes(&mut self) -> usize {
        self.output().len()
    }

    /// The rest of the output, with the end mark.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Encoder::Gzip(encoder) => encoder.finish(),
            Encoder::Brotli(encoder) => Ok(encoder.into_inner()),
            Encoder::Zstd(encoder) => encoder.finish(),
        }
    }

    fn output(&mut self) -> &mut Vec<u8> {
        match self {
            Encoder::Gzip(encoder) => encoder.get_mut(),
            Encoder::Brotli(encoder) => encoder.get_mut(),
            Encoder::Zstd(encoder) => encoder.get_mut(),
        }
    }
}

fn brotli(quality: u32, length: Option<usize>, room: usize) -> CompressorWriter<Vec<u8>> {
    let mut params = BrotliEncoderInitParams();
    params.quality = quality as i32;
    params.lgwin = window_log(length, 16, 22) as i32;
    params.size_hint = length.unwrap_or(0);
    CompressorWriter::with_params(Vec::with_capacity(room), BROTLI_BUFFER_BYTES, &params)
}

fn zstd(
    level: u32,
    length: Option<usize>,
    room: usize,
) -> io::Result<zstd::stream::write::Encoder<'static, Vec<u8>>> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::with_capacity(room), level as i32)?;
    // Levels up to 19 stay within the limit, and a known length makes the window fit it.
    if level > 19 {
        encoder.set_parameter(CParameter::WindowLog(window_log(
            length,
            10,
            ZSTD_WINDOW_LOG_MAX,
        )))?;
    }
    encoder.set_pledged_src_size(length.map(|length| length as u64))?;
    Ok(encoder)
}

/// log2 of a window that holds `length` bytes, within `min..=max`.
fn window_log(length: Option<usize>, min: u32, max: u32) -> u32 {
    length.map_or(max, |length| {
        length.max(1).next_power_of_two().ilog2().clamp(min, max)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    const ALL: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];

    fn levels() -> Levels {
        Levels::from(&Compression::default())
    }

    pub(crate) fn decode(coding: Coding, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match coding {
            Coding::Identity => out.extend_from_slice(data),
            Coding::Gzip => drop(
                flate2::read::GzDecoder::new(data)
                    .read_to_end(&mut out)
                    .unwrap(),
            ),
            Coding::Brotli => drop(
                brotli::Decompressor::new(data, 4096)
                    .read_to_end(&mut out)
                    .unwrap(),
            ),
            Coding::Zstd => out = zstd::stream::decode_all(data).unwrap(),
        }
        out
    }

    fn text(length: usize) -> Vec<u8> {
        (0..length)
            .map(|at| b"the quick brown fox jumps over it "[(at * at / 7 + at) % 34])
            .collect()
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn text_shrinks_and_comes_back() {
        for coding in ALL {
            for length in [200, 5_000, 300_000] {
                let data = text(length);
                let encoded = encode(coding, levels(), &data).unwrap();
                assert!(encoded.len() < data.len());
                assert_eq!(decode(coding, &encoded), data, "{coding:?} {length}");
                assert_eq!(
                    encode(coding, levels(), &data),
                    Some(encoded),
                    "{coding:?} is not repeatable"
                );
            }
        }
    }

    #[test]
    fn what_does_not_shrink_is_left() {
        for coding in ALL {
            assert_eq!(encode(coding, levels(), &noise(4096)), None, "{coding:?}");
            assert_eq!(encode(coding, levels(), b""), None, "{coding:?}");
        }
        assert_eq!(encode(Coding::Identity, levels(), &text(5_000)), None);
    }

    #[test]
    fn levels_at_the_edges_work() {
        let highest = Levels::from(&Compression {
            gzip_level: 99,
            brotli_quality: 99,
            zstd_level: 99,
            ..Compression::default()
        });
        assert_eq!(
            highest,
            Levels {
                gzip: 9,
                brotli: 11,
                zstd: 22
            }
        );
        let lowest = Levels::from(&Compression {
            gzip_level: 1,
            brotli_quality: 0,
            zstd_level: 0,
            ..Compression::default()
        });
        let data = text(20_000);
        for coding in ALL {
            for levels in [highest, lowest] {
                assert_eq!(
                    decode(coding, &encode(coding, levels, &data).unwrap()),
                    data,
                    "{coding:?} {levels:?}"
                );
            }
        }
    }

    #[test]
    fn windows_fit_the_body() {
        let cases = [
            (Some(0), 16),
            (Some(65_536), 16),
            (Some(65_537), 17),
            (Some(1 << 30), 22),
            (None, 22),
        ];
        for (length, expected) in cases {
            assert_eq!(window_log(length, 16, 22), expected, "{length:?}");
        }
    }

    /// After a flush everything written so far can be decoded, though the end is not there yet.
    #[test]
    fn flushed_pieces_are_decodable_at_once() {
        for coding in ALL {
            let mut encoder = Encoder::new(coding, levels(), None).unwrap();
            let mut sent = Vec::new();
            encoder.write(b"first ").unwrap();
            encoder.flush().unwrap();
            assert!(encoder.ready_bytes() > 0, "{coding:?}");
            sent.extend(encoder.take());
            assert_eq!(decode_start(coding, &sent, 6), b"first ", "{coding:?}");
            encoder.write(b"second").unwrap();
            sent.extend(encoder.finish().unwrap());
            assert_eq!(decode(coding, &sent), b"first second", "{coding:?}");
        }
    }

    fn decode_start(coding: Coding, data: &[u8], length: usize) -> Vec<u8> {
        let mut out = vec![0; length];
        match coding {
            Coding::Gzip => flate2::read::GzDecoder::new(data)
                .read_exact(&mut out)
                .unwrap(),
            Coding::Brotli => brotli::Decompressor::new(data, 4096)
                .read_exact(&mut out)
                .unwrap(),
            _ => zstd::stream::read::Decoder::new(data)
                .unwrap()
                .read_exact(&mut out)
                .unwrap(),
        }
        out
    }
}
