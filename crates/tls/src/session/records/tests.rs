//! Tests of internals: keys that have sealed all they may.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::session::handshake::Handshake;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::aws_lc_rs,
    version::{TLS12, TLS13},
};
use std::{io::Read, sync::Arc};

#[test]
fn parts_are_taken_as_one() {
    let mut parts = Parts {
        parts: &[b"ab", b"", b"cdef", b"g"],
        at: 0,
    };
    let mut taken = Vec::new();
    for count in [1, 3, 0, 2, 5] {
        let mut out = Vec::new();
        parts.take(count, &mut out);
        taken.push(String::from_utf8(out).unwrap());
    }
    assert_eq!(taken, ["a", "bcd", "", "ef", "g"]);
}

/// A client, and our side's records after the handshake; a key seals ten records.
fn shaken(version: &'static SupportedProtocolVersion) -> (ClientConnection, Records) {
    let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[version])
        .unwrap();
    let client = client.with_root_certificates(roots).with_no_client_auth();
    let mut client =
        ClientConnection::new(Arc::new(client), "a.example".try_into().unwrap()).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap();
    let mut server = server
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    server.enable_secret_extraction = true;
    let mut handshake = Handshake::new(Arc::new(server), None, Default::default()).unwrap();
    let (mut input, mut is_over) = (Vec::new(), false);
    while !is_over {
        while client.wants_write() {
            client.write_tls(&mut input).unwrap();
        }
        let mut out = Vec::new();
        let used;
        (used, is_over) = handshake
            .receive(&mut input, &mut Vec::new(), &mut out)
            .unwrap();
        input.drain(..used);
        heard(&mut client, &out);
    }
    let mut records = handshake.into_records().unwrap();
    records.seal_max = 10;
    (client, records)
}

fn heard(client: &mut ClientConnection, mut bytes: &[u8]) -> Vec<u8> {
    let mut heard = Vec::new();
    while !bytes.is_empty() {
        client.read_tls(&mut bytes).unwrap();
        client.process_new_packets().unwrap();
        // An error says that there is nothing more for now.
        let _ = client.reader().read_to_end(&mut heard);
    }
    heard
}

/// RFC 8446 section 5.5.
#[test]
fn a_key_is_changed_before_it_has_sealed_all_it_may() {
    let (mut client, mut records) = shaken(&TLS13);
    for text in (0..100).map(|number| [number; 3]) {
        let mut out = Vec::new();
        records.send(&[&text], &mut out).unwrap();
        assert!(records.seal.sequence <= records.seal_max);
        assert_eq!(heard(&mut client, &out), text);
    }
    let mut out = Vec::new();
    records.send(&[&[7; 500_000]], &mut out).unwrap();
    assert_eq!(heard(&mut client, &out), [7; 500_000]);
    assert!(records.seal.sequence <= records.seal_max);
}

#[test]
fn under_tls12_a_used_up_key_ends_the_session_in_good_order() {
    let (mut client, mut records) = shaken(&TLS12);
    let (mut sent, mut out) = (0, Vec::new());
    let fault = loop {
        match records.send(&[b"x"], &mut out) {
            Ok(()) => sent += 1,
            Err(fault) => break fault,
        }
    };
    assert!(
        matches!(
            fault,
            TlsError::Refused {
                whose: Whose::Ours,
                ..
            }
        ),
        "{fault:?}"
    );
    assert!(records.seal.sequence <= records.seal_max);
    assert_eq!(heard(&mut client, &out), vec![b'x'; sent]);
    assert!(client.process_new_packets().unwrap().peer_has_closed());
    assert_eq!(records.send(&[b"more"], &mut out), Err(TlsError::Ended));
}
