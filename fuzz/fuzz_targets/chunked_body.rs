//! Chunked content is the same however it arrives, is what a plain reading of the grammar says, and
//! survives being written again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_fuzz::{Input, cut};
use saker_http1::{
    CHUNK_END, ChunkLimits, ChunkedDecoder, Decoded, Reject, encode_chunk_head, encode_last_chunk,
};

const TIGHT: ChunkLimits = ChunkLimits {
    line_extension_bytes_max: 12,
    extension_bytes_max: 24,
    trailer_bytes_max: 48,
    trailer_count_max: 3,
    trailer_line_bytes_max: 24,
};
/// For trailers that were accepted once: writing adds a space after each colon.
const WIDE: ChunkLimits = ChunkLimits {
    line_extension_bytes_max: 0,
    extension_bytes_max: 0,
    trailer_bytes_max: 1 << 20,
    trailer_count_max: 64,
    trailer_line_bytes_max: usize::MAX,
};

type Lines = Vec<(String, Vec<u8>)>;

#[derive(Debug, PartialEq)]
enum End {
    Whole { consumed: usize, trailers: Lines },
    Broken(Reject),
    Unfinished,
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (Some(knob), Some(tight)) = (input.u16(), input.byte()) else {
        return;
    };
    let bytes = input.rest();
    let limits = if tight & 1 == 1 {
        TIGHT
    } else {
        ChunkLimits::default()
    };
    let (content, end) = decode(&[bytes], limits);
    assert_eq!(
        decode(&cut(bytes, knob), limits),
        (content.clone(), end_of_same(&end)),
        "cut by {knob}"
    );
    if let End::Whole { consumed, trailers } = end {
        assert_eq!(plain_reading(&bytes[..consumed]).as_ref(), Some(&content));
        written_again(&content, trailers, knob);
    }
});

fn end_of_same(end: &End) -> End {
    match end {
        End::Whole { consumed, trailers } => End::Whole {
            consumed: *consumed,
            trailers: trailers.clone(),
        },
        End::Broken(reject) => End::Broken(*reject),
        End::Unfinished => End::Unfinished,
    }
}

fn decode(pieces: &[&[u8]], limits: ChunkLimits) -> (Vec<u8>, End) {
    let (mut decoder, mut content, mut consumed) = (ChunkedDecoder::new(limits), Vec::new(), 0);
    for piece in pieces {
        let mut rest = *piece;
        loop {
            assert!(!decoder.is_done());
            match decoder.decode(rest) {
                Err(reject) => return (content, End::Broken(reject)),
                Ok(Decoded::NeedMore) => {
                    consumed += rest.len();
                    break;
                }
                Ok(Decoded::Data {
                    consumed_before,
                    len,
                }) => {
                    assert!(len > 0);
                    content.extend_from_slice(&rest[consumed_before..consumed_before + len]);
                    consumed += consumed_before + len;
                    rest = &rest[consumed_before + len..];
                }
                Ok(Decoded::End { consumed: last }) => {
                    assert!(decoder.is_done() && last <= rest.len());
                    let fields = decoder.into_trailers();
                    let trailers = fields
                        .iter()
                        .map(|(name, value)| (name.to_owned(), value.to_vec()))
                        .collect();
                    return (
                        content,
                        End::Whole {
                            consumed: consumed + last,
                            trailers,
                        },
                    );
                }
            }
        }
    }
    (content, End::Unfinished)
}

/// RFC 9112 section 7.1 with the whole body at hand: lines end at the first CRLF, and an extension
/// can't hold one.
fn plain_reading(bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut rest, mut content) = (bytes, Vec::new());
    loop {
        let (line, after) = line(rest)?;
        let digits = line
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        let size = usize::from_str_radix(std::str::from_utf8(&line[..digits]).ok()?, 16).ok()?;
        if !matches!(line.get(digits), None | Some(b';' | b' ' | b'\t')) {
            return None;
        }
        if size == 0 {
            rest = after;
            break;
        }
        content.extend_from_slice(after.get(..size)?);
        rest = after.get(size..)?.strip_prefix(b"\r\n")?;
    }
    while let (trailer, after) = line(rest)?
        && !trailer.is_empty()
    {
        rest = after;
    }
    (rest == b"\r\n").then_some(content)
}

fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    Some((&bytes[..end], &bytes[end + 2..]))
}

fn written_again(content: &[u8], trailers: Lines, knob: u16) {
    let mut fields = saker_http::Fields::new();
    trailers
        .iter()
        .for_each(|(name, value)| fields.append(name.clone(), value.clone()));
    let mut out = Vec::new();
    for piece in cut(content, knob) {
        encode_chunk_head(piece.len(), &mut out);
        out.extend_from_slice(piece);
        out.extend_from_slice(CHUNK_END);
    }
    encode_last_chunk(Some(&fields), &mut out);
    let end = End::Whole {
        consumed: out.len(),
        trailers,
    };
    assert_eq!(decode(&[&out], WIDE), (content.to_vec(), end));
}
