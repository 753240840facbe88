//! Refused input, changes of the table, and properties of fields.

use super::super::tests::{Field, List, unhex};
use super::*;
use saker_http::KnownField;

fn decode(decoder: &mut Decoder, block: &str) -> Result<Vec<Field>, HpackError> {
    let mut list = List::default();
    decoder.decode(&unhex(block), &mut list).map(|()| list.0)
}

#[test]
fn refused() {
    let rows = [
        ("80", HpackError::IndexZero),
        ("be", HpackError::IndexBeyondTable),
        ("ff80 8080 8001", HpackError::IndexBeyondTable),
        ("ffff ffff ff0f", HpackError::IntegerTooLarge),
        ("7e01 61", HpackError::IndexBeyondTable),
        ("0f80 0161 61", HpackError::IndexBeyondTable),
        ("ff", HpackError::Truncated),
        ("40", HpackError::Truncated),
        ("4001 61", HpackError::Truncated),
        ("4002 61", HpackError::Truncated),
        ("4001 6102 62", HpackError::Truncated),
        ("407f ffff ffff 0f", HpackError::IntegerTooLarge),
        ("407f 80ff ffff 0f", HpackError::Truncated),
        ("0001 6181 ff", HpackError::HuffmanPadding),
        ("0001 6184 ffff ffff", HpackError::HuffmanEndOfString),
        ("8220", HpackError::SizeUpdateLate),
        ("2082 3fe1 1f", HpackError::SizeUpdateLate),
        ("3fe2 1f", HpackError::SizeUpdateTooLarge),
        ("3f", HpackError::Truncated),
    ];
    for (block, want) in rows {
        assert_eq!(decode(&mut Decoder::new(4096), block), Err(want), "{block}");
    }
}

#[test]
fn an_empty_block_and_size_updates_only() {
    for block in ["", "20", "203f e11f", "2020 20"] {
        assert_eq!(
            decode(&mut Decoder::new(4096), block),
            Ok(vec![]),
            "{block}"
        );
    }
}

#[test]
fn a_size_update_evicts_and_the_table_stays_small() {
    let mut decoder = Decoder::new(4096);
    decode(&mut decoder, "4001 6101 62 4001 6301 64").unwrap();
    assert_eq!(decoder.table_bytes(), 68);
    let kept = decode(&mut decoder, "3f03 be").unwrap();
    assert_eq!((&kept[0].1[..], decoder.table_bytes()), (&b"c"[..], 34));
    assert_eq!(
        decode(&mut decoder, "bf"),
        Err(HpackError::IndexBeyondTable)
    );
    decode(&mut decoder, "20 4001 6101 62").unwrap();
    assert_eq!(decoder.table_bytes(), 0);
}

#[test]
fn a_limit_below_4096_holds_from_the_acknowledgement_on() {
    let mut decoder = Decoder::new(100);
    decode(&mut decoder, "3fe1 1f 4001 6101 62").unwrap();
    decoder.settings_acknowledged();
    assert_eq!(
        decode(&mut decoder, "82"),
        Err(HpackError::SizeUpdateMissing)
    );
    assert_eq!(
        decode(&mut decoder, "3f46 82"),
        Err(HpackError::SizeUpdateTooLarge)
    );
    assert_eq!(
        decode(&mut decoder, "3f45 82 be").map(|fields| fields.len()),
        Ok(2)
    );
    assert_eq!(decode(&mut decoder, "82").map(|fields| fields.len()), Ok(1));
}

#[test]
fn a_larger_limit_takes_effect_when_the_peer_says_so() {
    let mut decoder = Decoder::new(8192);
    let large = format!("4001 617f a11f {}", "62".repeat(4000 + 128));
    decode(&mut decoder, &large).unwrap();
    assert_eq!(decoder.table_bytes(), 0, "larger than the table of 4096");
    decode(&mut decoder, &format!("3fe1 3f {large}")).unwrap();
    assert_eq!(decoder.table_bytes(), 4128 + 1 + 32);
    assert_eq!(
        decode(&mut decoder, "3fe2 3f"),
        Err(HpackError::SizeUpdateTooLarge)
    );
}

/// RFC 7541 section 4.4: the name of an entry that goes to make room for the new one.
#[test]
fn a_name_outlives_its_entry() {
    let mut decoder = Decoder::new(4096);
    decode(&mut decoder, "3f07 4003 6162 6301 64").unwrap();
    let fields = decode(&mut decoder, "7e02 6566 be").unwrap();
    assert_eq!(
        (&fields[0].1[..], &fields[0].2[..]),
        (&b"abc"[..], &b"ef"[..])
    );
    assert_eq!(fields[0], fields[1]);
    assert_eq!(decoder.table_bytes(), 37);
}

#[test]
fn each_field_is_classified() {
    let mut decoder = Decoder::new(4096);
    let rows = [
        ("82", NameKind::Method),
        ("8f", NameKind::Other),
        ("90", NameKind::Known(KnownField::AcceptEncoding)),
        ("0f2b 0161", NameKind::Known(KnownField::UserAgent)),
        ("0f2b 0120", NameKind::Malformed),
        ("0f2b 0100", NameKind::Malformed),
        ("0004 686f 7374 0161", NameKind::Known(KnownField::Host)),
        ("0004 486f 7374 0161", NameKind::Malformed),
        ("0000 0161", NameKind::Malformed),
        ("4004 686f 7374 010a", NameKind::Malformed),
        ("be", NameKind::Malformed),
        ("0f2f 0161", NameKind::Known(KnownField::Host)),
        ("7e01 61", NameKind::Known(KnownField::Host)),
        ("be", NameKind::Known(KnownField::Host)),
        ("0f30 0109", NameKind::Malformed),
        ("1f2f 0161", NameKind::Known(KnownField::Host)),
    ];
    for (block, want) in rows {
        assert_eq!(
            decode(&mut decoder, block).map(|fields| fields[0].0),
            Ok(want),
            "{block}"
        );
    }
}

#[test]
fn the_sink_stops_the_decoder() {
    struct Once(usize);
    impl FieldSink for Once {
        fn field(&mut self, _: NameKind, _: &[u8], _: &[u8], _: bool) -> bool {
            self.0 += 1;
            false
        }
    }
    for block in ["8282", "4001 6101 6282"] {
        let mut sink = Once(0);
        assert_eq!(
            Decoder::new(4096).decode(&unhex(block), &mut sink),
            Err(HpackError::Stopped)
        );
        assert_eq!(sink.0, 1);
    }
}

#[test]
fn a_large_string_leaves_no_large_buffer() {
    let mut decoder = Decoder::new(4096);
    assert_eq!(decoder.scratch.bytes_held(), 0);
    decode(
        &mut decoder,
        &format!("0001 61ff da2e {}", "00".repeat(6105)),
    )
    .unwrap();
    assert_eq!(decoder.scratch.bytes_held(), 0);
    decode(&mut decoder, "0001 6185 0000 0000 00").unwrap();
    assert_eq!(decoder.scratch.bytes_held(), 64);
}
