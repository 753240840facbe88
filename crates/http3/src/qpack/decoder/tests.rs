//! Refused input, changes of the table, and properties of fields.

use super::super::tests::{List, unhex};
use super::*;
use saker_http::KnownField;

/// A table of 220 bytes with `:authority: www.example.com` (0), `:path: /sample/path` (1) and
/// `custom-key: custom-value` (2).
fn filled() -> Decoder {
    let mut decoder = Decoder::new(220);
    let instructions =
        "3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d c10c 2f73 616d 706c 652f 7061 7468
        4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565";
    decoder.receive(&unhex(instructions), || true).unwrap();
    decoder
}

fn decode(decoder: &mut Decoder, section: &str) -> Result<String, QpackError> {
    let bytes = unhex(section);
    let section = decoder.section(&bytes)?;
    let mut list = List::default();
    decoder
        .decode(section, &bytes, &mut list)
        .map(|()| list.lines())
}

#[test]
fn sections_that_are_refused() {
    let rows = [
        ("", QpackError::Truncated),
        ("00", QpackError::Truncated),
        ("03", QpackError::Truncated),
        ("ff", QpackError::Truncated),
        ("0001 80", QpackError::NoEntry),
        ("0000 ff", QpackError::Truncated),
        ("0000 ff24", QpackError::NoStaticEntry),
        ("0000 5f54 0161", QpackError::NoStaticEntry),
        ("0000 80", QpackError::NoEntry),
        ("0000 10", QpackError::NoEntry),
        ("0000 40 0161", QpackError::NoEntry),
        ("0000 00 0161", QpackError::NoEntry),
        ("0000 51", QpackError::Truncated),
        ("0000 5102 61", QpackError::Truncated),
        ("0000 21", QpackError::Truncated),
        ("0000 2161", QpackError::Truncated),
        ("0000 518161ff", QpackError::BadString),
        ("0000 5181 ff", QpackError::BadString),
        (
            "0000 ffff ffff ffff ffff ffff ff7f",
            QpackError::IntegerTooLarge,
        ),
        // Entries that the Required Insert Count does not cover, or that a base leaves below zero.
        ("0300 11", QpackError::NoEntry),
        ("0300 82", QpackError::NoEntry),
        ("0382 10", QpackError::BadBase),
        ("0301 80", QpackError::NoEntry),
        // 12 is the full range of 6 entries; with 3 inserted none above 9 can be meant.
        ("0d00 80", QpackError::BadRequiredInsertCount),
        ("0b00 80", QpackError::BadRequiredInsertCount),
        ("ffff ffff ffff ffff ff7f 00", QpackError::IntegerTooLarge),
    ];
    for (section, want) in rows {
        assert_eq!(decode(&mut filled(), section), Err(want), "{section}");
    }
}

#[test]
fn each_way_to_refer_to_an_entry() {
    let (authority, path) = (":authority: www.example.com\n", ":path: /sample/path\n");
    let rows = [
        ("0400 82 81", [authority, path].concat()),
        ("0482 10 11", [authority, path].concat()),
        ("0404 86", authority.into()),
        ("0481 80", authority.into()),
        ("0481 10", path.into()),
        ("0400 41 0161", ":path: a\n".into()),
        ("0480 00 0161", "custom-key: a\n".into()),
        ("0482 08 0161", ":authority: a\n".into()),
        ("0000 2161 0162", "a: b\n".into()),
    ];
    for (section, want) in rows {
        assert_eq!(decode(&mut filled(), section), Ok(want), "{section}");
    }
}

/// The number of insertions is told modulo twice the entries that fit (RFC 9204 section 4.5.1.1).
#[test]
fn required_insert_counts_come_round() {
    let mut decoder = Decoder::new(100);
    decoder.receive(&unhex("3f45"), || true).unwrap();
    for count in 1..=50u64 {
        decoder.receive(b"\x41a\x01b", || true).unwrap();
        // Three entries fit, so six is the full range; the last two can be referred to.
        for back in 0..2.min(count) {
            let required = count - back;
            let section = [(required % 6 + 1) as u8, 0, 0x80];
            assert_eq!(
                decoder.section(&section).map(|section| section.required),
                Ok(required),
                "{count} {back}"
            );
            let mut list = List::default();
            let read = decoder.section(&section).unwrap();
            assert_eq!(decoder.decode(read, &section, &mut list), Ok(()));
            assert_eq!(list.lines(), "a: b\n");
        }
        let ahead = [((count + 3) % 6 + 1) as u8, 0, 0x80];
        assert_eq!(
            decoder.section(&ahead).map(|section| section.required),
            Ok(count + 3)
        );
    }
}

#[test]
fn instructions_that_are_refused() {
    let rows = [
        ("3fbe01", QpackError::CapacityTooLarge),
        ("3fff ffff ffff ffff ff7f", QpackError::IntegerTooLarge),
        ("ff24 0161", QpackError::NoStaticEntry),
        ("83 0161", QpackError::NoEntry),
        ("03", QpackError::NoEntry),
        ("4161 7f5e", QpackError::EntryTooLarge),
        ("5fbe01", QpackError::EntryTooLarge),
        ("7ff306", QpackError::EntryTooLarge),
        ("c1fff2 06", QpackError::EntryTooLarge),
        ("c181 00", QpackError::BadString),
        ("61ff 0162", QpackError::BadString),
        ("20 4161 0162", QpackError::EntryTooLarge),
    ];
    for (instructions, want) in rows {
        assert_eq!(
            filled().receive(&unhex(instructions), || true),
            Err(want),
            "{instructions}"
        );
    }
    assert_eq!(Decoder::new(0).receive(&unhex("20"), || true), Ok(()));
    assert_eq!(
        Decoder::new(0).receive(&unhex("21"), || true),
        Err(QpackError::CapacityTooLarge)
    );
    assert_eq!(
        Decoder::new(220).receive(b"\x41a\x01b", || true),
        Err(QpackError::EntryTooLarge),
        "before a capacity is set"
    );
    assert_eq!(
        filled().receive(&unhex("02 02"), || false),
        Err(QpackError::Stopped)
    );
}

/// An entry as large as the table stays alone; one byte more is refused.
#[test]
fn the_largest_entry() {
    let entry = |value_bytes: usize| {
        let mut instruction = b"\x41a".to_vec();
        integer::encode(0, 0x7f, value_bytes, &mut instruction);
        instruction.extend(vec![b'v'; value_bytes]);
        instruction
    };
    let mut decoder = filled();
    assert_eq!(decoder.receive(&entry(220 - 33), || true), Ok(()));
    assert_eq!((decoder.table_bytes(), decoder.inserted()), (220, 4));
    assert_eq!(
        decoder.receive(&entry(220 - 32), || true),
        Err(QpackError::EntryTooLarge)
    );
}

/// The name of an entry that goes when the new one comes (RFC 9204 section 3.2.2).
#[test]
fn a_name_may_come_from_an_entry_that_is_evicted() {
    let mut decoder = filled();
    let mut instruction = vec![0x82];
    integer::encode(0, 0x7f, 150, &mut instruction);
    instruction.extend(vec![b'v'; 150]);
    assert_eq!(decoder.receive(&instruction, || true), Ok(()));
    assert_eq!(decoder.table_bytes(), 10 + 150 + 32);
    assert_eq!(
        decode(&mut decoder, "0500 80").map(|lines| lines.len()),
        Ok(10 + 2 + 150 + 1)
    );
    assert_eq!(decode(&mut decoder, "0500 81"), Err(QpackError::NoEntry));
}

#[test]
fn fields_are_classified_wherever_they_come_from() {
    let mut decoder = Decoder::new(220);
    // range: x; Range (in upper case): x; range: a value with a line end.
    decoder
        .receive(b"\x3f\xbd\x01\xf7\x01x\x45Range\x01x\xf7\x01\n", || true)
        .unwrap();
    let bytes = unhex("0400 82 81 80 5f280178 0f0001 78");
    let bytes = &bytes[..9];
    let section = decoder.section(bytes).unwrap();
    let mut list = List::default();
    decoder.decode(section, bytes, &mut list).unwrap();
    let kinds: Vec<NameKind> = list.0.iter().map(|field| field.0).collect();
    let range = NameKind::Known(KnownField::Range);
    assert_eq!(
        kinds,
        [range, NameKind::Malformed, NameKind::Malformed, range]
    );
}

#[test]
fn never_indexed_is_told() {
    for (section, want) in [
        ("0000 51 0161", false),
        ("0000 71 0161", true),
        ("0000 21610162", false),
        ("0000 31610162", true),
    ] {
        let bytes = unhex(section);
        let mut decoder = Decoder::new(0);
        let (read, mut list) = (decoder.section(&bytes).unwrap(), List::default());
        decoder.decode(read, &bytes, &mut list).unwrap();
        assert_eq!(list.0[0].3, want, "{section}");
    }
}

#[test]
fn nothing_is_cancelled_without_a_table() {
    let mut decoder = Decoder::new(0);
    decoder.cancel(4);
    assert!(!decoder.has_output());
}
