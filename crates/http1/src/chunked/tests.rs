use super::*;

const LIMITS: ChunkLimits = ChunkLimits {
    line_extension_bytes_max: 10,
    extension_bytes_max: 20,
    trailer_bytes_max: 20,
    trailer_count_max: 2,
    trailer_line_bytes_max: 20,
};

/// Content and trailers, or the reason.
fn decoded(input: &[u8]) -> Result<(Vec<u8>, Fields), RejectReason> {
    decoded_by(ChunkedDecoder::new(LIMITS), input)
        .map(|(content, decoder)| (content, decoder.into_trailers()))
}

fn decoded_by(
    mut decoder: ChunkedDecoder,
    input: &[u8],
) -> Result<(Vec<u8>, ChunkedDecoder), RejectReason> {
    let (mut content, mut at) = (Vec::new(), 0);
    loop {
        match decoder
            .decode(&input[at..])
            .map_err(|reject| reject.reason)?
        {
            Decoded::NeedMore => panic!("unfinished"),
            Decoded::Data {
                consumed_before,
                len,
            } => {
                content.extend_from_slice(&input[at + consumed_before..at + consumed_before + len]);
                at += consumed_before + len;
            }
            Decoded::End { consumed } => {
                assert_eq!(at + consumed, input.len());
                assert!(decoder.is_done());
                return Ok((content, decoder));
            }
        }
    }
}

fn chunks(extension: &str, times: usize) -> Vec<u8> {
    [
        format!("1{extension}\r\nx\r\n").repeat(times).as_bytes(),
        b"0\r\n\r\n",
    ]
    .concat()
}

#[test]
fn end_leaves_what_follows() {
    let mut decoder = ChunkedDecoder::new(LIMITS);
    assert_eq!(
        decoder.decode(b"0\r\n\r\nGET"),
        Ok(Decoded::End { consumed: 5 })
    );
    assert_eq!(decoder.decode(b"GET"), Ok(Decoded::End { consumed: 0 }));
}

#[test]
fn data_is_given_as_far_as_it_is_there() {
    let mut decoder = ChunkedDecoder::new(LIMITS);
    assert_eq!(
        decoder.decode(b"5\r\nhe"),
        Ok(Decoded::Data {
            consumed_before: 3,
            len: 2
        })
    );
    assert_eq!(decoder.decode(b""), Ok(Decoded::NeedMore));
    assert_eq!(
        decoder.decode(b"llo\r"),
        Ok(Decoded::Data {
            consumed_before: 0,
            len: 3
        })
    );
    assert_eq!(decoder.decode(b"\r"), Ok(Decoded::NeedMore));
    assert_eq!(
        decoder.decode(b"\n0\r\n\r\n"),
        Ok(Decoded::End { consumed: 6 })
    );
}

#[test]
fn the_largest_size_is_not_an_overflow() {
    let mut decoder = ChunkedDecoder::new(LIMITS);
    assert_eq!(
        decoder.decode(b"ffffffffffffffff\r\nab"),
        Ok(Decoded::Data {
            consumed_before: 18,
            len: 2
        })
    );
    assert_eq!(
        decoder.decode(b"cd"),
        Ok(Decoded::Data {
            consumed_before: 0,
            len: 2
        })
    );
}

#[test]
fn extension_limits_have_two_sides() {
    assert!(decoded(&chunks(";aaaaaaaaa", 1)).is_ok());
    assert_eq!(
        decoded(&chunks(";aaaaaaaaaa", 1)),
        Err(RejectReason::ChunkExtensionsTooLong)
    );
    // Each chunk costs two bytes and pays for one.
    assert!(decoded(&chunks(";a", 19)).is_ok());
    assert_eq!(
        decoded(&chunks(";a", 20)),
        Err(RejectReason::ChunkExtensionsTooLong)
    );
}

#[test]
fn extensions_that_content_pays_for_are_without_limit() {
    let input = [
        &b"a;chunk-sig\r\n0123456789\r\n".repeat(1000)[..],
        b"0\r\n\r\n",
    ]
    .concat();
    assert_eq!(decoded(&input).unwrap().0.len(), 10_000);
}

#[test]
fn trailer_limits_have_two_sides() {
    assert_eq!(
        decoded(b"0\r\nA: 34567890123456\r\n\r\n"),
        Err(RejectReason::TrailersTooLarge)
    );
    assert_eq!(
        decoded(b"0\r\nA: 3456789012345\r\n\r\n")
            .unwrap()
            .1
            .first("a"),
        Some(&b"3456789012345"[..])
    );
    assert_eq!(decoded(b"0\r\nA:\r\nB:\r\n\r\n").unwrap().1.len(), 2);
    assert_eq!(
        decoded(b"0\r\nA:\r\nB:\r\nC:\r\n\r\n"),
        Err(RejectReason::TooManyTrailers)
    );
}

#[test]
fn chunk_heads_are_hexadecimal_and_never_end_the_body() {
    for (len, text) in [
        (1, "1\r\n"),
        (15, "f\r\n"),
        (16, "10\r\n"),
        (255, "ff\r\n"),
        (0x12ab, "12ab\r\n"),
    ] {
        let mut out = Vec::new();
        encode_chunk_head(len, &mut out);
        assert_eq!(out, text.as_bytes());
    }
    let mut out = Vec::new();
    encode_chunk_head(0, &mut out);
    assert!(out.is_empty());
}

#[test]
fn last_chunk_carries_trailers_that_may_be_there() {
    let mut trailers = Fields::new();
    trailers.append("Server-Timing", &b"db;dur=1"[..]);
    trailers.append("Content-Length", &b"5"[..]);
    let mut out = Vec::new();
    encode_last_chunk(Some(&trailers), &mut out);
    encode_last_chunk(None, &mut out);
    assert_eq!(out, b"0\r\nServer-Timing: db;dur=1\r\n\r\n0\r\n\r\n");
}

#[test]
fn a_trailer_line_has_a_limit_of_its_own() {
    let limits = ChunkLimits {
        trailer_line_bytes_max: 10,
        ..ChunkLimits::default()
    };
    let decoded =
        |line: &str| ChunkedDecoder::new(limits).decode(format!("0\r\n{line}\r\n\r\n").as_bytes());
    assert!(matches!(decoded("Name: 2345"), Ok(Decoded::End { .. })));
    assert!(
        matches!(decoded("Name:2345   "), Ok(Decoded::End { .. })),
        "space around a value is not its"
    );
    assert_eq!(
        decoded("Name: 23456").map_err(|reject| reject.reason),
        Err(RejectReason::TrailersTooLarge)
    );
}

#[test]
fn what_programs_take_for_a_forbidden_name_is_forbidden() {
    for name in [
        "Authorization",
        "x_forwarded_for",
        "X.Real.IP",
        "content_length",
        "TRANSFER_ENCODING",
    ] {
        assert!(is_forbidden_trailer(name), "{name}");
    }
    assert!(!is_forbidden_trailer("X-Forwarding") && !is_forbidden_trailer("x_sum"));
}

/// Line ends of other servers are accepted in responses, and never in requests.
#[test]
fn responses_may_have_other_line_ends() {
    let lenient: [&[u8]; 7] = [
        b"3 \r\nabc\r\n0\r\n\r\n",
        b"3\t \nabc\r\n0\r\n\r\n",
        b"3\nabc\n0\n\n",
        b"3;a=b\nabc\r\n0\r\n\r\n",
        b"3\r\nabc\n0\r\n\r\n",
        b"3\r\nabc\r\n0\r\n\n",
        b"3\r\nabc\r\n0\r\nX: y\n\r\n",
    ];
    for input in lenient {
        let shown = input.escape_ascii();
        let read = decoded_by(ChunkedDecoder::of_response(LIMITS), input);
        let (content, decoder) = read.unwrap_or_else(|why| panic!("{shown}: {why:?}"));
        assert!(content == b"abc" && decoder.was_lenient(), "{shown}");
        assert!(decoded(input).is_err(), "{shown}");
    }
    let strict = b"3\r\nabc\r\n0\r\nX: y\r\n\r\n";
    let read = decoded_by(ChunkedDecoder::of_response(LIMITS), strict);
    let (content, decoder) = read.unwrap();
    assert!(content == b"abc" && !decoder.was_lenient());
    assert_eq!(decoder.into_trailers().first("x"), Some(&b"y"[..]));
    let bad: [&[u8]; 4] = [
        b"3\rabc\r\n0\r\n\r\n",
        b" 3\r\nabc\r\n0\r\n\r\n",
        b"\nabc\r\n0\r\n\r\n",
        b"3\r\nabcd\r\n0\r\n\r\n",
    ];
    for input in bad {
        let read = decoded_by(ChunkedDecoder::of_response(LIMITS), input);
        assert!(read.is_err(), "{}", input.escape_ascii());
    }
}
