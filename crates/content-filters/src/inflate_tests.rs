use super::*;
use std::io::Write;

const FREE: InflateLimits = InflateLimits {
    bytes_max: None,
    ratio_max: u64::MAX,
    ratio_burst: 3,
};

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn inflate(limits: InflateLimits, data: &[u8], size: usize) -> Result<Vec<u8>, BodyError> {
    let (mut filter, mut output) = (Inflating::new(limits, BodyError::Malformed), Vec::new());
    for piece in data.chunks(size) {
        filter.push(piece, &mut output)?;
    }
    filter.finish(&mut output)?;
    Ok(output)
}

#[test]
fn any_split_gives_the_same() {
    let text: Vec<u8> = (0..40_000_u32)
        .flat_map(|number| (number * number % 977).to_string().into_bytes())
        .collect();
    for data in [&b""[..], b"a", &text] {
        let encoded = gzip(data);
        for size in [1, 2, 7, 100, 8192, 1 << 20] {
            assert_eq!(inflate(FREE, &encoded, size).unwrap(), data, "{size}");
        }
        assert_eq!(
            inflate(FREE, &[&encoded, b"rubbish".as_slice()].concat(), 5).unwrap(),
            data
        );
    }
}

#[test]
fn what_is_broken_is_an_error() {
    let encoded = gzip(b"some content that is long enough to be cut");
    for size in [1, 1000] {
        assert_eq!(
            inflate(FREE, b"no gzip at all, whatever it is", size),
            Err(BodyError::Malformed)
        );
        assert_eq!(
            inflate(FREE, &encoded[..encoded.len() - 1], size),
            Err(BodyError::Malformed)
        );
        let mut wrong_sum = encoded.clone();
        wrong_sum[encoded.len() - 6] ^= 1;
        assert_eq!(inflate(FREE, &wrong_sum, size), Err(BodyError::Malformed));
    }
}

#[test]
fn bounds_on_both_sides() {
    let encoded = gzip(&[b'x'; 100]);
    let at_most = |bytes_max| InflateLimits {
        bytes_max: Some(bytes_max),
        ..FREE
    };
    assert_eq!(inflate(at_most(100), &encoded, 9).unwrap().len(), 100);
    assert_eq!(inflate(at_most(99), &encoded, 9), Err(BodyError::TooLarge));
    // A megabyte of nothing: a thousand times what it was.
    let bomb = gzip(&vec![0; 1 << 20]);
    let ratio = |ratio_max| InflateLimits { ratio_max, ..FREE };
    assert_eq!(inflate(ratio(200), &bomb, 8192), Err(BodyError::Malformed));
    assert_eq!(inflate(ratio(100_000), &bomb, 8192).unwrap().len(), 1 << 20);
    // A short one is over the ratio not often enough to matter.
    assert!(inflate(ratio(200), &gzip(&[0; 20_000]), 8192).is_ok());
}

#[test]
fn the_last_coding_is_the_first_to_go() {
    for (codings, expected) in [
        ("gzip", Some("")),
        ("X-GZIP", Some("")),
        ("br, gzip", Some("br")),
        ("gzip, br", None),
        ("", None),
        ("identity", None),
    ] {
        assert_eq!(
            without_gzip(codings.as_bytes()).as_deref(),
            expected.map(str::as_bytes),
            "{codings}"
        );
    }
}
