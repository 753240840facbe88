//! A preface means the same however it arrives: a truncation is unfinished or already says what the
//! whole says, and the client's own bytes begin within what was received.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_net::proxy_preface::{Preface, PrefaceError, V2_BODY_BYTES_MAX, parse};

/// Longer inputs are cut at their beginning and at places spread over the rest.
const CUTS: usize = 160;
const V1_BYTES_MAX: usize = 107;
const V2_HEAD_BYTES: usize = 16;

fuzz_target!(|bytes: &[u8]| {
    let whole = parse(bytes);
    if let Ok(Preface::Complete {
        consumed, source, ..
    }) = whole
    {
        complete(bytes, consumed, whole);
        let families_agree = |(client, own): (std::net::SocketAddr, std::net::SocketAddr)| {
            client.is_ipv4() == own.is_ipv4()
        };
        assert!(source.is_none_or(families_agree));
    }
    let step = (bytes.len() / CUTS).max(1);
    let spread = (0..bytes.len()).step_by(step);
    for end in spread.chain(0..bytes.len().min(CUTS)) {
        truncated(&bytes[..end], whole);
    }
    if whole == Ok(Preface::Partial) {
        assert!(
            bytes.len() < V2_HEAD_BYTES + V2_BODY_BYTES_MAX,
            "a preface that never ends"
        );
    }
});

fn complete(bytes: &[u8], consumed: usize, whole: Result<Preface, PrefaceError>) {
    assert!(consumed <= bytes.len());
    assert_eq!(parse(&bytes[..consumed]), whole, "what follows has no say");
    assert_eq!(parse(&bytes[..consumed - 1]), Ok(Preface::Partial));
    if bytes.starts_with(b"PROXY ") {
        assert!(consumed <= V1_BYTES_MAX && bytes[..consumed].ends_with(b"\r\n"));
    } else {
        assert!((V2_HEAD_BYTES..=V2_HEAD_BYTES + V2_BODY_BYTES_MAX).contains(&consumed));
    }
}

fn truncated(start: &[u8], whole: Result<Preface, PrefaceError>) {
    let outcome = parse(start);
    assert!(
        outcome == Ok(Preface::Partial) || outcome == whole,
        "{outcome:?} after {} bytes, {whole:?} in the end",
        start.len()
    );
}
