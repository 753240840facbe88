//! Which representation is chosen, and what becomes of the table.

use super::super::tests::{decoded, unhex};
use super::super::{Decoder, QpackError};
use super::*;

fn encoder(capacity: u64) -> Encoder {
    let mut encoder = Encoder::new();
    encoder.allow_table(capacity);
    encoder
}

/// A section on a stream, without its prefix where that is the stateless one.
fn section(encoder: &mut Encoder, stream: u64, fields: &[(&str, &str, Indexing)]) -> Vec<u8> {
    let mut out = b"before".to_vec();
    encoder.begin(&mut out);
    fields.iter().for_each(|(name, value, indexing)| {
        encoder.field(name.as_bytes(), value.as_bytes(), *indexing, &mut out)
    });
    encoder.finish(stream, &mut out);
    let out = out.split_off(6);
    out.strip_prefix(&STATELESS_PREFIX)
        .map_or(out.clone(), <[u8]>::to_vec)
}

#[test]
fn representations() {
    use Indexing::{Add, Never, Without};
    let rows = [
        ((":method", "GET", Add), "d1"),
        ((":method", "GET", Never), "7f00 03474554"),
        ((":path", "/", Without), "c1"),
        (("Accept-Encoding", "gzip, deflate, br", Without), "df"),
        (("vary", "origin", Add), "fc"),
        (("x-frame-options", "sameorigin", Without), "ff23"),
        (("ETag", "&", Without), "57 01 26"),
        (("etag", "&", Never), "77 01 26"),
        (("&", "&", Without), "21 26 01 26"),
        (("&", "&", Never), "31 26 01 26"),
        (("X&", "&", Add), "22 7826 01 26"),
        ((":status", "299", Add), "5f09 83 1000 7d"),
    ];
    for (field, want) in rows {
        let got = section(&mut encoder(0), 0, &[field]);
        if field.0 == ":status" {
            assert_eq!(&got[..2], &unhex(want)[..2]);
            continue;
        }
        assert_eq!(got, unhex(want), "{field:?}");
    }
}

#[test]
fn statuses() {
    for status in 100..1000 {
        let (mut out, mut stateless) = (STATELESS_PREFIX.to_vec(), STATELESS_PREFIX.to_vec());
        let mut encoder = encoder(0);
        encoder.status(status, &mut out);
        encode_status_stateless(status, &mut stateless);
        assert_eq!(out, stateless);
        assert_eq!(
            decoded(&mut Decoder::new(0), &out, 0).unwrap().lines(),
            format!(":status: {status}\n")
        );
    }
}

#[test]
fn entries_are_referred_to_when_acknowledged_and_made_once() {
    let field = [("x", "&", Indexing::Add)];
    let mut encoder = encoder(4_096);
    assert_eq!(section(&mut encoder, 0, &field), unhex("21 78 01 26"));
    assert_eq!(std::mem::take(encoder.output()), unhex("3fe11f 4178 0126"));
    assert_eq!(section(&mut encoder, 4, &field), unhex("21 78 01 26"));
    assert!(encoder.output().is_empty());
    encoder.receive(&[0x01]).unwrap();
    assert_eq!(section(&mut encoder, 8, &field), unhex("0200 80"));
    assert_eq!(
        section(&mut encoder, 12, &[("x", "*", Indexing::Without)]),
        unhex("0200 40 01 2a")
    );
    assert_eq!(
        section(&mut encoder, 12, &[("x", "&", Indexing::Never)]),
        unhex("31 78 01 26")
    );
    assert_eq!(encoder.outstanding(), 2);
    encoder.receive(&unhex("88 4c")).unwrap();
    assert_eq!(encoder.outstanding(), 0);
}

/// A table of two entries: the oldest goes when nothing refers to it.
#[test]
fn what_is_referred_to_is_not_evicted() {
    let add = |name| [(name, "&", Indexing::Add)];
    let mut encoder = encoder(70);
    for name in ["a", "b"] {
        section(&mut encoder, 0, &add(name));
    }
    section(&mut encoder, 0, &add("c"));
    assert_eq!(
        (encoder.table_bytes(), encoder.inserted),
        (68, 2),
        "not while it is not acknowledged"
    );
    encoder.receive(&[2]).unwrap();
    assert_eq!(section(&mut encoder, 4, &add("a")), unhex("0201 81"));
    section(&mut encoder, 8, &add("c"));
    assert_eq!(encoder.inserted, 2, "not while stream 4 may need it");
    let both = [("a", "&", Indexing::Add), ("c", "&", Indexing::Add)];
    encoder.receive(&[0x84]).unwrap();
    section(&mut encoder, 12, &both);
    assert_eq!(encoder.inserted, 2, "not in a section that refers to it");
    encoder.receive(&[0x4c]).unwrap();
    section(&mut encoder, 16, &add("c"));
    assert_eq!((encoder.table_bytes(), encoder.inserted), (68, 3));
}

#[test]
fn a_large_field_gets_no_entry_and_a_small_table_none() {
    for (capacity, value_bytes, want) in [
        (200, 67, 100),
        (200, 68, 0),
        (31, 0, 0),
        (68, 1, 34),
        (66, 1, 0),
    ] {
        let mut encoder = encoder(capacity);
        section(
            &mut encoder,
            0,
            &[("x", &"v".repeat(value_bytes), Indexing::Add)],
        );
        assert_eq!(encoder.table_bytes(), want, "{capacity} {value_bytes}");
    }
}

/// A peer that does not take what we say makes us stop, not pile up; one that acknowledges nothing,
/// too.
#[test]
fn what_is_kept_is_bounded() {
    let mut encoder = encoder(u64::MAX);
    for turn in 0..20_000u64 {
        encoder.receive(&[1]).err();
        section(
            &mut encoder,
            4 * turn,
            &[
                ("x", &format!("&{turn}"), Indexing::Add),
                ("y", "&", Indexing::Add),
            ],
        );
        assert!(
            encoder.output_bytes() <= OUTPUT_BYTES_MAX + 100
                && encoder.outstanding() <= OUTSTANDING_MAX
        );
        assert!(encoder.table_bytes() <= 4_096);
    }
    assert_eq!(encoder.outstanding(), OUTSTANDING_MAX);
}

#[test]
fn a_large_required_insert_count_takes_a_longer_prefix() {
    let mut encoder = encoder(65_536);
    let mut decoder = Decoder::new(65_536);
    for turn in 0..600u64 {
        let field = [("x", &*format!("&{turn}"), Indexing::Add)];
        section(&mut encoder, 8 * turn, &field);
        decoder.cancel(8 * turn);
        decoder
            .receive(&std::mem::take(encoder.output()), || true)
            .unwrap();
        encoder.receive(&std::mem::take(decoder.output())).unwrap();
        let mut out = Vec::new();
        encoder.begin(&mut out);
        encoder.field(
            field[0].0.as_bytes(),
            field[0].1.as_bytes(),
            Indexing::Add,
            &mut out,
        );
        encoder.finish(8 * turn + 4, &mut out);
        assert_eq!(
            out.len(),
            if (turn + 1) % 4_096 + 1 < 255 { 3 } else { 4 }
                + usize::from((turn + 1) % 4_096 + 1 >= 255 + 128)
        );
        let lines = decoded(&mut decoder, &out, 8 * turn + 4).map(|list| list.lines());
        assert_eq!(lines, Ok(format!("x: &{turn}\n")));
        encoder.receive(&std::mem::take(decoder.output())).unwrap();
    }
}

#[test]
fn instructions_that_are_refused() {
    let rows = [
        ("00", QpackError::BadIncrement),
        ("02", QpackError::BadIncrement),
        ("3fff ffff ffff ffff ff1f", QpackError::BadIncrement),
        ("3fff ffff ffff ffff ffff ff7f", QpackError::IntegerTooLarge),
        ("84", QpackError::NothingToAcknowledge),
    ];
    for (instructions, want) in rows {
        let mut encoder = encoder(4_096);
        section(&mut encoder, 0, &[("x", "&", Indexing::Add)]);
        assert_eq!(
            encoder.receive(&unhex(instructions)),
            Err(want),
            "{instructions}"
        );
    }
    let mut encoder = encoder(4_096);
    assert_eq!(
        encoder.receive(&unhex("44 7f")),
        Ok(()),
        "a stream that refers to nothing may be cancelled"
    );
}

#[test]
fn an_unused_encoder_holds_no_memory() {
    let mut encoder = encoder(4_096);
    section(
        &mut encoder,
        0,
        &[
            ("etag", "x", Indexing::Without),
            ("vary", "origin", Indexing::Add),
        ],
    );
    assert!(
        encoder.table.holds_no_memory()
            && encoder.out.capacity() == 0
            && encoder.outstanding.capacity() == 0
    );
}
