//! Which representation is chosen, and what becomes of the table.

use super::super::tests::unhex;
use super::*;

fn block(encoder: &mut Encoder, fields: &[(&str, &str, Indexing)]) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.begin(&mut out);
    fields.iter().for_each(|(name, value, indexing)| {
        encoder.field(name.as_bytes(), value.as_bytes(), *indexing, &mut out)
    });
    out
}

#[test]
fn representations() {
    use Indexing::{Add, Never, Without};
    let rows = [
        ((":method", "GET", Add), "82"),
        ((":method", "GET", Never), "12 03474554"),
        ((":scheme", "https", Without), "87"),
        (("Accept-Encoding", "gzip, deflate", Without), "90"),
        (("etag", "", Add), "a2"),
        (("ETag", "&", Without), "0f13 01 26"),
        (("etag", "&", Never), "1f13 01 26"),
        (("etag", "&", Add), "62 01 26"),
        (("etag", "&", Add), "be"),
        (("etag", "&", Without), "be"),
        (("etag", "&", Never), "1f13 01 26"),
        (("etag", "*", Add), "62 01 2a"),
        (("etag", "&", Add), "bf"),
        (("&", "&", Without), "00 01 26 01 26"),
        (("&", "&", Add), "40 01 26 01 26"),
        (("&", "*", Without), "0f2f 01 2a"),
        (("&", "*", Add), "7e 01 2a"),
        (("&", "&", Never), "10 01 26 01 26"),
        (("X&", "&", Add), "40 02 7826 01 26"),
        (("x&", "*", Without), "0f2f 01 2a"),
    ];
    let mut encoder = Encoder::new();
    for (field, want) in rows {
        assert_eq!(block(&mut encoder, &[field]), unhex(want), "{field:?}");
    }
}

#[test]
fn statuses() {
    let mut encoder = Encoder::new();
    let mut out = Vec::new();
    for status in [200, 204, 206, 304, 400, 404, 500, 307, 307] {
        encoder.status(status, &mut out);
    }
    assert_eq!(out, unhex("88 89 8a 8b 8c 8d 8e 48 03 333037 be"));
    out.clear();
    encode_status_stateless(200, &mut out);
    encode_status_stateless(307, &mut out);
    encode_stateless(b"ETag", b"&", &mut out);
    encode_stateless(b":path", b"/index.html", &mut out);
    encode_stateless(b"Q", b"", &mut out);
    assert_eq!(out, unhex("88 08 03 333037 0f13 01 26 85 00 01 71 00"));
}

#[test]
fn size_updates_say_the_smallest_and_the_last() {
    let rows: [(&[usize], &str); 7] = [
        (&[4096], ""),
        (&[65_536], ""),
        (&[100], "3f45"),
        (&[100, 65_536], "3fe1 1f"),
        (&[0, 50], "20 3f13"),
        (&[100, 10, 4096], "2a 3fe1 1f"),
        (&[4096], ""),
    ];
    let mut encoder = Encoder::new();
    for (sizes, want) in rows {
        sizes
            .iter()
            .for_each(|size| encoder.set_table_bytes_max(*size));
        assert_eq!(block(&mut encoder, &[]), unhex(want), "{sizes:?}");
        assert_eq!(block(&mut encoder, &[]), b"", "said once");
    }
}

/// A size that was smaller for a moment has evicted what the peer has evicted (RFC 7541 section
/// 4.2).
#[test]
fn a_small_size_between_two_blocks_empties_the_table() {
    let mut encoder = Encoder::new();
    let field = ("etag", "&", Indexing::Add);
    assert_eq!(block(&mut encoder, &[field]), unhex("62 01 26"));
    encoder.set_table_bytes_max(0);
    encoder.set_table_bytes_max(4096);
    assert_eq!(
        block(&mut encoder, &[field, field]),
        unhex("20 3fe1 1f 62 01 26 be")
    );
}

#[test]
fn an_entry_of_more_than_half_of_the_table_is_not_made() {
    let mut encoder = Encoder::new();
    let (fits, large) = ("a".repeat(2048 - 32 - 4), "a".repeat(2048 - 32 - 4 + 1));
    assert_eq!(
        block(&mut encoder, &[("etag", &large, Indexing::Add)])[0],
        0x0f
    );
    assert_eq!(encoder.table_bytes(), 0);
    assert_eq!(
        block(&mut encoder, &[("etag", &fits, Indexing::Add)])[0],
        0x62
    );
    assert_eq!(encoder.table_bytes(), 2048);
    encoder.set_table_bytes_max(0);
    assert_eq!(
        block(&mut encoder, &[("etag", "&", Indexing::Add)]),
        unhex("20 0f13 01 26")
    );
}

/// Chains that lead to entries which are gone, in buckets that names share.
#[test]
fn evicted_entries_are_not_referred_to() {
    let mut encoder = Encoder::new();
    encoder.set_table_bytes_max(150);
    let mut decoder = super::super::Decoder::new(4096);
    for turn in 0..500u32 {
        let (name, value) = (
            ["x-aa", "x-ba", "etag", "x-ca"][turn as usize % 4],
            ["1", "22", "333"][(turn * turn) as usize % 3],
        );
        let mut list = super::super::tests::List::default();
        assert_eq!(
            decoder.decode(
                &block(&mut encoder, &[(name, value, Indexing::Add)]),
                &mut list
            ),
            Ok(())
        );
        assert_eq!(
            (&list.0[0].1[..], &list.0[0].2[..]),
            (name.as_bytes(), value.as_bytes())
        );
        assert!(encoder.table_bytes() <= 150);
    }
}

#[test]
fn an_unused_encoder_holds_no_memory() {
    let mut encoder = Encoder::new();
    let mut out = Vec::new();
    encoder.begin(&mut out);
    encoder.status(200, &mut out);
    encoder.field(b"etag", b"x", Indexing::Without, &mut out);
    assert!(encoder.table.holds_no_memory());
}
