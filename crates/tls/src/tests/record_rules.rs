//! Rules of the record layer that only a client made by hand can break: what is asked of us and
//! when it is due, what may be empty, how long a record may be with its padding, and that nothing
//! follows our last word.

use super::{
    pair::VERSIONS,
    raw::{ALERT, DATA, HANDSHAKE},
    records::{pattern, raw, refused},
};
use rustls::version::{TLS12, TLS13};
use saker_tls::TlsError;

const KEY_UPDATE_REQUESTED: [u8; 5] = [24, 0, 0, 1, 1];

/// Lengths of the records' fragments.
fn fragments(mut records: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let [_, _, _, high, low, rest @ ..] = records {
        let length = usize::from(*high) << 8 | usize::from(*low);
        lengths.push(length);
        records = &rest[length..];
    }
    lengths
}

/// RFC 8446 section 4.6.3: one update answers any number of requests, before the next data. A
/// client that asks and does not read must not make answers pile up.
#[test]
fn key_updates_that_are_asked_for_are_answered_once_and_before_data() {
    let (mut pair, mut raw) = raw(&TLS13);
    let mut out = Vec::new();
    for _ in 0..1_000 {
        let mut records = raw.record(HANDSHAKE, &KEY_UPDATE_REQUESTED);
        raw.update();
        records.extend(raw.record(DATA, b"x"));
        pair.server
            .receive(&mut records, &mut pair.plain, &mut out)
            .unwrap();
    }
    assert_eq!((out.len(), pair.plain.len()), (0, 1_000));
    pair.server.send(b"answer", &mut out).unwrap();
    // Type and tag are 17 bytes.
    assert_eq!(fragments(&out), [5 + 17, 6 + 17]);
    out.clear();
    pair.server.send(b"more", &mut out).unwrap();
    assert_eq!(fragments(&out), [4 + 17]);
}

#[test]
fn key_updates_without_end_are_records_without_data() {
    let (mut pair, mut raw) = raw(&TLS13);
    for _ in 0..32 {
        pair.give(&raw.record(HANDSHAKE, &KEY_UPDATE_REQUESTED))
            .unwrap();
        raw.update();
    }
    assert_eq!(
        refused(&mut pair, &raw.record(HANDSHAKE, &KEY_UPDATE_REQUESTED)),
        "too many records without data"
    );
}

/// RFC 8446 section 5.4, RFC 5246 section 6.2.1.
#[test]
fn handshake_messages_and_alerts_are_never_empty() {
    for (version, alert) in [
        (&TLS12, "an alert that is none"),
        (&TLS13, "an empty alert"),
    ] {
        let (mut pair, mut sealing) = raw(version);
        assert_eq!(refused(&mut pair, &sealing.record(ALERT, b"")), alert);
        let (mut pair, mut sealing) = raw(version);
        let reason = refused(&mut pair, &sealing.record(HANDSHAKE, b""));
        assert!(
            [
                "renegotiation, which is not offered",
                "a handshake message that may not come now"
            ]
            .contains(&reason),
            "{reason}"
        );
    }
}

/// RFC 8446 section 5.4: content, type and padding are at most 2^14 + 1 bytes.
#[test]
fn padding_on_both_sides_of_the_limit() {
    // The type that the sealing appends is padding here.
    let padded = |zeros: usize| [&pattern(16_000)[..], &[DATA], &vec![0; zeros]].concat();
    let (mut pair, mut raw) = raw(&TLS13);
    pair.give(&raw.record(0, &padded(383))).unwrap();
    assert!(pair.plain == pattern(16_000));
    assert_eq!(
        refused(&mut pair, &raw.record(0, &padded(384))),
        "a record longer than allowed"
    );
}

#[test]
fn a_session_cancelled_by_the_user() {
    let cancelled = Err(TlsError::PeerAlert("user_canceled".into()));
    for version in VERSIONS {
        let (mut pair, mut raw) = raw(version);
        pair.give(&raw.record(ALERT, &[1, 90])).unwrap();
        let fatal = pair.give(&raw.record(ALERT, &[2, 90]));
        // RFC 5246 section 7.2: what is fatal ends; RFC 8446 section 6.1: a close_notify follows.
        assert_eq!(
            fatal,
            if version == &TLS12 {
                cancelled.clone()
            } else {
                Ok(())
            }
        );
    }
}

/// RFC 8446 section 6.1.
#[test]
fn nothing_is_said_behind_our_close_notify() {
    for version in VERSIONS {
        let (mut pair, mut raw) = raw(version);
        let mut out = Vec::new();
        pair.server.close(&mut out);
        let mut behind = Vec::new();
        let asked: &[u8] = if version == &TLS12 {
            &[1, 0, 0, 2, 3, 3]
        } else {
            &KEY_UPDATE_REQUESTED
        };
        pair.server
            .receive(
                &mut raw.record(HANDSHAKE, asked),
                &mut pair.plain,
                &mut behind,
            )
            .unwrap();
        if version == &TLS13 {
            raw.update();
        }
        let broken = pair
            .server
            .receive(&mut raw.record(20, &[1]), &mut pair.plain, &mut behind);
        assert!(
            matches!(broken, Err(TlsError::Refused { .. })),
            "{broken:?}"
        );
        assert_eq!((fragments(&out).len(), behind.len()), (1, 0));
    }
}

/// Each record has its number: one that comes twice, or after one that was left out, does not
/// decrypt (RFC 8446 section 5.3, RFC 5246 section 6.2.3.3).
#[test]
fn records_that_come_twice_or_out_of_order() {
    for version in VERSIONS {
        let (mut pair, mut sealing) = raw(version);
        let first = sealing.record(DATA, b"first");
        pair.give(&first).unwrap();
        assert_eq!(refused(&mut pair, &first), "a record that does not decrypt");
        let (mut pair, mut sealing) = raw(version);
        let _left_out = sealing.record(DATA, b"first");
        assert_eq!(
            refused(&mut pair, &sealing.record(DATA, b"second")),
            "a record that does not decrypt"
        );
        assert!(pair.plain.is_empty());
    }
}

/// The header is part of what is sealed (RFC 8446 section 5.2, RFC 5246 section 6.2.3.3).
#[test]
fn headers_that_were_tampered_with() {
    for version in VERSIONS {
        let (mut pair, mut sealing) = raw(version);
        let mut record = sealing.record(DATA, b"text");
        record[2] = 1;
        assert_eq!(
            refused(&mut pair, &record),
            "a record that does not decrypt"
        );
    }
    let (mut pair, mut sealing) = raw(&TLS12);
    let mut record = sealing.record(ALERT, b"\x01\x64");
    record[0] = DATA;
    assert_eq!(
        refused(&mut pair, &record),
        "a record that does not decrypt"
    );
    assert!(pair.plain.is_empty());
}
