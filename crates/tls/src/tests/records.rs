//! Data after the handshake, and everything that can go wrong with it.

use super::{
    authority::{Authority, Key, Sites},
    pair::{Pair, VERSIONS, client_config},
    raw::{ALERT, DATA, HANDSHAKE, Raw, Secrets},
};
use rustls::{
    AlertDescription, ClientConfig, Error,
    crypto::aws_lc_rs::{self, ALL_CIPHER_SUITES},
    version::{TLS12, TLS13},
};
use saker_tls::{Acceptor, INPUT_BYTES_MAX, State, TlsError, Whose};
use std::{io::Write, sync::Arc};

fn site(keys: &[Key]) -> (Authority, Acceptor) {
    let authority = Authority::new("A");
    let leaves: Vec<_> = keys
        .iter()
        .map(|key| authority.leaf(*key, &["a.example"]))
        .collect();
    let acceptor = Sites::new()
        .with(&["a.example"], &leaves.iter().collect::<Vec<_>>())
        .acceptor();
    (authority, acceptor)
}

fn pair(version: &'static rustls::SupportedProtocolVersion) -> Pair {
    let (authority, acceptor) = site(&[Key::Ecdsa]);
    Pair::shaken(
        &Arc::new(client_config(&authority, &[version])),
        &acceptor,
        "a.example",
    )
}

pub fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| u8::try_from(index % 251).unwrap())
        .collect()
}

#[test]
fn every_cipher_suite_both_ways() {
    let (authority, acceptor) = site(&[Key::Ecdsa, Key::Rsa]);
    for suite in ALL_CIPHER_SUITES {
        let provider = rustls::crypto::CryptoProvider {
            cipher_suites: vec![*suite],
            ..aws_lc_rs::default_provider()
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[suite.version()])
            .unwrap();
        let config = Arc::new(
            builder
                .with_root_certificates(authority.roots())
                .with_no_client_auth(),
        );
        let mut pair = Pair::shaken(&config, &acceptor, "a.example");
        for length in [1, 2, 1_339, 1_340, 1_341, 16_383, 16_384, 16_385, 100_000] {
            let text = pattern(length);
            let (said, answered) = (
                pair.say(&text),
                pair.answer(&[&text[..length / 2], &[], &text[length / 2..]]),
            );
            assert!(said == text && answered == text, "{suite:?} {length}");
        }
        assert_eq!(pair.answer(&[]), b"");
    }
}

#[test]
fn one_byte_at_a_time() {
    for version in VERSIONS {
        let (authority, acceptor) = site(&[Key::Ecdsa]);
        let mut pair = Pair::new(
            &Arc::new(client_config(&authority, &[version])),
            &acceptor,
            "a.example",
        );
        pair.step = 1;
        pair.shake().unwrap();
        assert_eq!(
            pair.say(b"GET / HTTP/1.1\r\n\r\n"),
            b"GET / HTTP/1.1\r\n\r\n"
        );
        assert_eq!(
            pair.answer(&[b"HTTP/1.1 200 OK\r\n\r\n"]),
            b"HTTP/1.1 200 OK\r\n\r\n"
        );
    }
}

/// The client's last handshake message and its request often come in one read.
#[test]
fn data_right_behind_the_handshake() {
    for version in VERSIONS {
        let (authority, acceptor) = site(&[Key::Ecdsa]);
        let mut pair = Pair::new(
            &Arc::new(client_config(&authority, &[version])),
            &acceptor,
            "a.example",
        );
        pair.client.writer().write_all(b"request").unwrap();
        pair.shake().unwrap();
        assert_eq!(pair.plain, b"request");
        assert_eq!(pair.answer(&[b"answer"]), b"answer");
    }
}

#[test]
fn small_records_first_then_full_ones() {
    let mut pair = pair(&TLS13);
    let lengths = |pair: &mut Pair, bytes: usize| {
        let mut out = Vec::new();
        pair.server.send(&pattern(bytes), &mut out).unwrap();
        pair.hand_to_client(&out);
        let (mut lengths, mut rest) = (Vec::new(), &out[..]);
        while let [_, _, _, high, low, ..] = rest {
            let length = usize::from(*high) << 8 | usize::from(*low);
            lengths.push(length - 17);
            rest = &rest[5 + length..];
        }
        lengths
    };
    let first = lengths(&mut pair, 50_000);
    assert_eq!(first[..10], [1_340; 10]);
    assert_eq!(first[10..], [16_384, 16_384, 50_000 - 13_400 - 2 * 16_384]);
    assert_eq!(lengths(&mut pair, 20_000), [16_384, 3_616]);
    pair.server.after_idle();
    assert_eq!(lengths(&mut pair, 3_000), [1_340, 1_340, 320]);
}

#[test]
fn orderly_end_from_either_side() {
    for version in VERSIONS {
        let mut pair = pair(version);
        pair.client.writer().write_all(b"last words").unwrap();
        pair.client.send_close_notify();
        pair.exchange().unwrap();
        assert_eq!(
            (pair.state, &pair.plain[..]),
            (State::Closed, &b"last words"[..])
        );
        // We may still answer, and what comes behind is not looked at.
        assert_eq!(pair.answer(&[b"answer"]), b"answer");
        pair.give(b"anything").unwrap();
        assert!(pair.to_server.is_empty());
        let mut out = Vec::new();
        pair.server.close(&mut out);
        pair.server.close(&mut out);
        pair.hand_to_client(&out);
        assert_eq!(pair.client_error, None);
        assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
        assert_eq!(pair.server.send(b"more", &mut out), Err(TlsError::Ended));
    }
}

#[test]
fn a_connection_cut_off_is_not_an_orderly_end() {
    let mut pair = pair(&TLS13);
    pair.client.writer().write_all(&pattern(5_000)).unwrap();
    let mut sent = Vec::new();
    pair.client.write_tls(&mut sent).unwrap();
    pair.give(&sent[..sent.len() - 1]).unwrap();
    assert_eq!((pair.state, pair.plain.len()), (State::Open, 0));
}

#[test]
fn a_record_that_was_tampered_with() {
    for version in VERSIONS {
        let mut pair = pair(version);
        pair.client.writer().write_all(b"hello").unwrap();
        let mut sent = Vec::new();
        pair.client.write_tls(&mut sent).unwrap();
        *sent.last_mut().unwrap() ^= 1;
        assert!(matches!(
            pair.give(&sent),
            Err(TlsError::Refused {
                whose: Whose::Peer,
                ..
            })
        ));
        assert_eq!(
            pair.client_error,
            Some(Error::AlertReceived(AlertDescription::BadRecordMac))
        );
        assert_eq!(pair.give(b""), Err(TlsError::Ended));
    }
}

#[test]
fn lengths_on_both_sides_of_the_limit() {
    for (version, longest) in [(&TLS12, 16_384 + 2_048_u16), (&TLS13, 16_384 + 256)] {
        let header = |length: u16| [&[23, 3, 3][..], &length.to_be_bytes()].concat();
        let mut pair = pair(version);
        pair.give(&header(longest)).unwrap();
        assert_eq!(pair.state, State::Open);
        let mut pair = self::pair(version);
        assert!(pair.give(&header(longest + 1)).is_err());
        assert_eq!(
            pair.client_error,
            Some(Error::AlertReceived(AlertDescription::RecordOverflow))
        );
    }
}

#[test]
fn a_record_before_the_handshake_that_is_too_long() {
    let (authority, acceptor) = site(&[Key::Ecdsa]);
    let mut pair = Pair::new(
        &Arc::new(client_config(&authority, &VERSIONS)),
        &acceptor,
        "a.example",
    );
    let fault = pair.give(&[&[22, 3, 1, 0xff, 0xff][..], &[0; 100]].concat());
    assert!(
        matches!(
            fault,
            Err(TlsError::Refused {
                whose: Whose::Peer,
                ..
            })
        ),
        "{fault:?}"
    );
    assert!(matches!(pair.client_error, Some(Error::AlertReceived(_))));
}

#[test]
fn a_handshake_that_never_ends_is_bounded() {
    let (authority, acceptor) = site(&[Key::Ecdsa]);
    let mut pair = Pair::new(
        &Arc::new(client_config(&authority, &VERSIONS)),
        &acceptor,
        "a.example",
    );
    // A hello of 16,384 bytes in records of one byte.
    let tiny = |byte: u8| [22, 3, 1, 0, 1, byte];
    let flood: Vec<u8> = [1, 0, 0x40, 0]
        .into_iter()
        .chain([0; INPUT_BYTES_MAX / 6 - 4])
        .flat_map(tiny)
        .collect();
    pair.give(&flood).unwrap();
    assert_eq!(pair.to_server.len(), flood.len());
    assert!(matches!(
        pair.give(&tiny(0).repeat(2)),
        Err(TlsError::Refused {
            whose: Whose::Peer,
            ..
        })
    ));
}

/// Handshakes, and then seals records of any kind with the client's key.
pub fn raw(version: &'static rustls::SupportedProtocolVersion) -> (Pair, Raw) {
    let (authority, acceptor) = site(&[Key::Ecdsa]);
    let mut config = client_config(&authority, &[version]);
    let secrets = Arc::new(Secrets::default());
    config.enable_secret_extraction = true;
    config.key_log = Arc::clone(&secrets) as Arc<dyn rustls::KeyLog>;
    let mut pair = Pair::shaken(&Arc::new(config.clone()), &acceptor, "a.example");
    let other =
        rustls::ClientConnection::new(Arc::new(config), "a.example".try_into().unwrap()).unwrap();
    let client = std::mem::replace(&mut pair.client, other);
    let raw = Raw::new(client, &secrets, version == &TLS13);
    (pair, raw)
}

/// Gives a record; the fault.
pub fn refused(pair: &mut Pair, record: &[u8]) -> &'static str {
    let mut out = Vec::new();
    let mut record = record.to_vec();
    match pair.server.receive(&mut record, &mut pair.plain, &mut out) {
        Err(TlsError::Refused {
            whose: Whose::Peer,
            reason,
        }) if !out.is_empty() => reason.into_owned().leak(),
        other => panic!("{other:?}, {} bytes to send", out.len()),
    }
}

#[test]
fn floods_of_records_without_data() {
    for version in VERSIONS {
        let (mut pair, mut raw) = raw(version);
        for _ in 0..3 {
            for _ in 0..32 {
                pair.give(&raw.record(DATA, b"")).unwrap();
            }
            pair.give(&raw.record(DATA, b"x")).unwrap();
        }
        assert_eq!(pair.plain, b"xxx");
        for _ in 0..32 {
            pair.give(&raw.record(DATA, b"")).unwrap();
        }
        assert_eq!(
            refused(&mut pair, &raw.record(DATA, b"")),
            "too many records without data"
        );
    }
}

#[test]
fn renegotiation_is_refused_and_insisting_ends_it() {
    let (mut pair, mut raw) = raw(&TLS12);
    let mut out = Vec::new();
    let mut hello = raw.record(HANDSHAKE, &[1, 0, 0, 2, 3, 3]);
    pair.server
        .receive(&mut hello, &mut pair.plain, &mut out)
        .unwrap();
    assert_eq!(out.first(), Some(&ALERT));
    pair.give(&raw.record(DATA, b"goes on")).unwrap();
    assert_eq!(pair.plain, b"goes on");
    assert_eq!(
        refused(&mut pair, &raw.record(HANDSHAKE, &[1, 0, 0, 2, 3, 3])),
        "renegotiation, which is not offered"
    );
}

#[test]
fn key_updates_in_pieces_and_broken_ones() {
    const AMISS: &str = "a handshake message that may not come now";
    for pieces in [
        &[&[24, 0, 0, 1, 1][..]][..],
        &[&[24], &[0, 0], &[1, 1]],
        &[&[24, 0, 0, 1], &[0]],
    ] {
        let (mut pair, mut raw) = raw(&TLS13);
        for piece in pieces {
            pair.give(&raw.record(HANDSHAKE, piece)).unwrap();
        }
        raw.update();
        pair.give(&raw.record(DATA, b"under the new key")).unwrap();
        assert_eq!(pair.plain, b"under the new key");
    }
    for (pieces, reason) in [
        (&[&[24, 0, 0, 1, 2][..]][..], "a key update of unknown kind"),
        (&[&[24, 0, 0, 2]], AMISS),
        (&[&[24, 0, 0, 1, 0, 24]], AMISS),
        (&[&[1, 0, 0, 0]], AMISS),
        (&[b""], AMISS),
    ] {
        let (mut pair, mut raw) = raw(&TLS13);
        assert_eq!(
            refused(&mut pair, &raw.record(HANDSHAKE, pieces[0])),
            reason
        );
    }
    let (mut pair, mut raw) = raw(&TLS13);
    pair.give(&raw.record(HANDSHAKE, &[24, 0])).unwrap();
    assert_eq!(
        refused(&mut pair, &raw.record(DATA, b"x")),
        "a record amid a handshake message"
    );
}

#[test]
fn alerts() {
    for version in VERSIONS {
        let (mut pair, mut raw) = raw(version);
        pair.give(&raw.record(ALERT, &[1, 90])).unwrap();
        assert_eq!(
            pair.give(&raw.record(ALERT, &[2, 80])),
            Err(TlsError::PeerAlert("internal_error".into()))
        );
        let (mut pair, mut raw) = self::raw(version);
        assert_eq!(
            refused(&mut pair, &raw.record(ALERT, &[1])),
            "an alert that is none"
        );
    }
    // A warning that is no end in TLS 1.2 is one in TLS 1.3.
    let (mut pair, mut raw12) = raw(&TLS12);
    pair.give(&raw12.record(ALERT, &[1, 100])).unwrap();
    let (mut pair, mut raw13) = raw(&TLS13);
    assert_eq!(
        pair.give(&raw13.record(ALERT, &[1, 100])),
        Err(TlsError::PeerAlert("no_renegotiation".into()))
    );
}

#[test]
fn records_of_the_wrong_kind() {
    const AMISS: &str = "a record of a kind that may not come now";
    for version in VERSIONS {
        let (mut pair, mut raw) = raw(version);
        assert_eq!(refused(&mut pair, &raw.record(20, &[1])), AMISS);
        assert_eq!(refused(&mut self::raw(version).0, &[99, 3, 3, 0, 0]), AMISS);
        assert_eq!(refused(&mut self::raw(version).0, &[23, 2, 0, 0, 0]), AMISS);
        assert_eq!(
            refused(&mut self::raw(version).0, &[23, 3, 3, 0, 0]),
            "a record that does not decrypt"
        );
    }
    let (mut pair, _) = raw(&TLS13);
    assert_eq!(refused(&mut pair, &[20, 3, 3, 0, 1, 1]), AMISS);
    let (mut pair, mut raw) = raw(&TLS13);
    assert_eq!(
        refused(&mut pair, &raw.record(0, b"\0\0\0")),
        "a record of padding alone"
    );
}

#[test]
fn padding_is_taken_off() {
    let (mut pair, mut raw) = raw(&TLS13);
    // The type that the sealing appends is padding here, and the real one stands before.
    pair.give(&raw.record(0, b"text\x17\0\0\0")).unwrap();
    assert_eq!(pair.plain, b"text");
}

#[test]
fn plaintext_on_both_sides_of_the_limit() {
    for version in VERSIONS {
        let (mut pair, mut raw) = raw(version);
        pair.give(&raw.record(DATA, &pattern(16_384))).unwrap();
        assert_eq!(pair.plain.len(), 16_384);
        assert_eq!(
            refused(&mut pair, &raw.record(DATA, &pattern(16_385))),
            "a record longer than allowed"
        );
    }
}

#[test]
fn keys_that_are_updated() {
    let mut pair = pair(&TLS13);
    for round in 0..40 {
        pair.client.refresh_traffic_keys().unwrap();
        assert_eq!(pair.say(b"said"), b"said", "{round}");
        assert_eq!(pair.answer(&[b"answered"]), b"answered", "{round}");
    }
}

/// The update comes in the same read as the end of the handshake.
#[test]
fn keys_that_are_updated_at_once() {
    let (authority, acceptor) = site(&[Key::Ecdsa]);
    let config = Arc::new(client_config(&authority, &[&TLS13]));
    for step in [usize::MAX, 1, 7] {
        let mut pair = Pair::new(&config, &acceptor, "a.example");
        while pair.client.is_handshaking() {
            pair.exchange().unwrap();
        }
        pair.step = step;
        pair.client.refresh_traffic_keys().unwrap();
        assert_eq!(pair.say(b"said"), b"said");
        assert_eq!(pair.answer(&[b"answered"]), b"answered");
        assert_eq!(pair.client_error, None);
    }
}

#[test]
fn http_on_the_tls_port() {
    let (authority, acceptor) = site(&[Key::Ecdsa]);
    let config = Arc::new(client_config(&authority, &VERSIONS));
    for (bytes, fault) in [
        (
            &b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..],
            TlsError::PlainHttp,
        ),
        (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            TlsError::PlainHttp2Preface,
        ),
        (b"\x80\x01\x02", TlsError::NotTls),
        (b"\x16GET", TlsError::NotTls),
    ] {
        assert_eq!(
            Pair::new(&config, &acceptor, "a.example").give(bytes),
            Err(fault)
        );
    }
}

#[test]
fn what_is_sent_too_early_is_refused() {
    let (authority, acceptor) = site(&[Key::Ecdsa]);
    let mut pair = Pair::new(
        &Arc::new(client_config(&authority, &VERSIONS)),
        &acceptor,
        "a.example",
    );
    let mut out = Vec::new();
    assert_eq!(pair.server.send(b"early", &mut out), Err(TlsError::Ended));
    pair.server.close(&mut out);
    assert!(out.is_empty());
    pair.shake().unwrap();
    assert_eq!(pair.answer(&[b"in time"]), b"in time");
}

/// Whatever a byte of the client's flights is changed to, there is an answer, an alert or a wait,
/// and never a panic.
#[test]
fn flights_that_were_tampered_with() {
    let (authority, acceptor) = site(&[Key::Ecdsa]);
    for version in VERSIONS {
        let config = Arc::new(client_config(&authority, &[version]));
        for (flight, at, change) in (0..2).flat_map(|flight| {
            (0..1_500)
                .step_by(5)
                .map(move |at| (flight, at, 1 << (at % 8)))
        }) {
            let mut pair = Pair::new(&config, &acceptor, "a.example");
            if flight == 1 {
                pair.exchange().unwrap();
            }
            let mut sent = Vec::new();
            pair.client.write_tls(&mut sent).unwrap();
            let Some(byte) = sent.get_mut(at) else {
                continue;
            };
            *byte ^= change;
            let (first, rest) = sent.split_at(at);
            let fault = pair.give(first).and_then(|()| pair.give(rest)).err();
            // The finished message proves the whole handshake: nothing that was changed comes
            // through to data.
            assert!(pair.plain.is_empty());
            if fault.is_some() {
                assert_eq!(pair.give(b"more"), Err(TlsError::Ended));
            }
        }
    }
}
