//! The code against Appendix B, and its edges.

use super::*;
use proptest::prelude::*;

fn decoded(code: &[u8]) -> Result<Vec<u8>, CodingError> {
    let mut room = vec![0; decoded_len_max(code.len())];
    let len = decode(code, &mut room)?;
    room.truncate(len);
    Ok(room)
}

fn coded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(text, |byte| byte, &mut out);
    out
}

/// The first and the last code of many lengths, as Appendix B has them.
#[test]
fn codes_of_appendix_b() {
    let rows = [
        (b'0', 0x0, 5),
        (b't', 0x9, 5),
        (b' ', 0x14, 6),
        (b'u', 0x2d, 6),
        (b':', 0x5c, 7),
        (b'z', 0x7b, 7),
        (b'&', 0xf8, 8),
        (b'Z', 0xfd, 8),
        (b'!', 0x3f8, 10),
        (b'?', 0x3fc, 10),
        (b'|', 0x7fc, 11),
        (b'>', 0xffb, 12),
        (0, 0x1ff8, 13),
        (b'}', 0x3ffd, 14),
        (b'{', 0x7ffe, 15),
        (b'\\', 0x7fff0, 19),
        (128, 0xfffe6, 20),
        (230, 0x1fffe8, 21),
        (233, 0x3fffeb, 22),
        (239, 0x7ffff4, 23),
        (237, 0xfffff5, 24),
        (235, 0x1ffffef, 25),
        (255, 0x3ffffee, 26),
        (254, 0x7fffff0, 27),
        (249, 0xffffffe, 28),
        (10, 0x3ffffffc, 30),
        (22, 0x3ffffffe, 30),
    ];
    for (symbol, code, len) in rows {
        assert_eq!(
            (codes()[usize::from(symbol)], LENGTHS[usize::from(symbol)]),
            (code, len),
            "{symbol}"
        );
    }
    assert_eq!(codes()[256], 0x3fff_ffff);
}

/// Every pair of symbols, so that each code begins at many places of a byte and padding of every
/// length follows.
#[test]
fn every_pair_there_and_back() {
    for first in 0..=255 {
        for second in 0..=255 {
            assert_eq!(
                decoded(&coded(&[first, second])),
                Ok(vec![first, second]),
                "{first} {second}"
            );
        }
    }
    assert_eq!(decoded(b""), Ok(vec![]));
}

#[test]
fn padding() {
    type Row = (&'static [u8], Result<&'static [u8], CodingError>);
    let rows: [Row; 11] = [
        (&[0x07], Ok(b"0")),
        (&[0x06], Err(CodingError::HuffmanPadding)),
        (&[0x03], Err(CodingError::HuffmanPadding)),
        (&[0xff], Err(CodingError::HuffmanPadding)),
        (&[0x07, 0xff], Err(CodingError::HuffmanPadding)),
        (&[0xf8], Ok(b"&")),
        (&[0xf8, 0xff], Err(CodingError::HuffmanPadding)),
        (&[0xff, 0xff, 0xff], Err(CodingError::HuffmanPadding)),
        (
            &[0xff, 0xff, 0xff, 0xff],
            Err(CodingError::HuffmanEndOfString),
        ),
        (
            &[0x07, 0xff, 0xff, 0xff, 0xff],
            Err(CodingError::HuffmanEndOfString),
        ),
        (&[0xff, 0xff, 0xff, 0xf0, 0x07], Ok(b"\n0o")),
    ];
    for (code, want) in rows {
        assert_eq!(decoded(code), want.map(<[u8]>::to_vec), "{code:02x?}");
    }
}

/// On both sides of the length that fits the prefix, and where the code is not shorter.
#[test]
fn strings() {
    for len in [0, 1, 2, 3, 125, 126, 127, 128, 200, 203, 204, 300, 20_000] {
        for (byte, shorter) in [(b'a', len > 2), (b'&', false), (b'X', false), (0, false)] {
            let text = vec![byte; len];
            let mut out = Vec::new();
            encode_string(&text, (0, 0x7f), |byte| byte, &mut out);
            assert_eq!(out[0] & 0x80 != 0, shorter, "{len} {byte}");
            let mut cursor = integer::Cursor::new(&out);
            let first = cursor.byte().unwrap();
            let coded_len = cursor.integer(first, 0x7f).unwrap();
            let rest = cursor.take(coded_len).unwrap();
            assert_eq!(
                if shorter {
                    decoded(rest)
                } else {
                    Ok(rest.to_vec())
                },
                Ok(text)
            );
            assert!(cursor.byte().is_none() && coded_len <= len);
        }
    }
}

#[test]
fn a_mapped_string() {
    let mut out = Vec::new();
    encode_string(
        b"X-Request-ID",
        (0, 0x7f),
        |byte| byte.to_ascii_lowercase(),
        &mut out,
    );
    assert_eq!(decoded(&out[1..]).unwrap(), b"x-request-id");
    out.clear();
    encode_string(
        b"\0X",
        (0, 0x7f),
        |byte| byte.to_ascii_lowercase(),
        &mut out,
    );
    assert_eq!(out, b"\x02\0x");
}

/// Three bits of length, below a pattern (RFC 9204 section 4.5.6).
#[test]
fn a_prefix_of_few_bits() {
    for (text, want) in [
        (&b"&"[..], &[0x21, b'&'][..]),
        (b"aaaa", &[0x2b, 0x18, 0xc6, 0x3f]),
        (
            b"&&&&&&&",
            &[0x27, 0, b'&', b'&', b'&', b'&', b'&', b'&', b'&'],
        ),
    ] {
        let mut out = Vec::new();
        encode_string(text, (0x20, 0x07), |byte| byte, &mut out);
        assert_eq!(out, want);
    }
}

proptest! {
    #[test]
    fn there_and_back(text in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert_eq!(decoded(&coded(&text)), Ok(text));
    }

    /// The code is complete, so what is accepted has no other encoding.
    #[test]
    fn accepted_is_what_we_would_write(code in proptest::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(text) = decoded(&code) {
            prop_assert_eq!(coded(&text), code);
        }
    }
}
