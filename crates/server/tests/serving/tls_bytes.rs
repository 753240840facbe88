//! TLS on the wire of a running server, by a client that can do what none does: a byte at a time,
//! cut off in the middle, records too long, farewells of either side.
//!
//! The record layer's rules by themselves are tests of the `tls` crate (`tests/tls/records.rs`,
//! `record_rules.rs`); here is what the sockets, transports and drivers around it make of them.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate;
use crate::operate::{folder, start_in, wait_until};
use crate::tls_site;
use crate::tls_site::leaf_certificate;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject},
    version::{TLS12, TLS13},
};
use saker_testkit::{PATIENCE, Saker, frames, keep_waiting};
use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    sync::Arc,
    time::Duration,
};

static VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];
const REQUEST: &[u8] = b"GET /index.html HTTP/1.1\r\nHost: localhost\r\n\r\n";
const HELLO: &[u8] = b"<p>hello</p>\n";

struct Wire {
    tcp: TcpStream,
    tls: ClientConnection,
    /// Decrypted bytes that were not taken yet.
    heard: Vec<u8>,
    /// Bytes as received.
    received: Vec<u8>,
    /// Bytes that one write has.
    step: usize,
}

fn start(name: &str, limits: &str) -> Saker {
    let dir = folder(name);
    leaf_certificate(&dir, "site", "localhost");
    let site = "access_log = { path = \"{dir}/access.log\", format = '%m %U %>s' }";
    start_in(
        dir,
        &tls_site::configuration("", site).replacen(
            "[[listener]]",
            &format!("[limits]\n{limits}\n\n[[listener]]"),
            1,
        ),
    )
}

impl Wire {
    fn connect(
        saker: &Saker,
        version: &'static SupportedProtocolVersion,
        alpn: &[u8],
        step: usize,
    ) -> Wire {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(saker.dir.join("site.pem")).unwrap())
            .unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[version]);
        let mut config = config
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![alpn.to_vec()];
        let tls = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        let tcp = TcpStream::connect(saker.server.address()).unwrap();
        tcp.set_nodelay(true).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut wire = Wire {
            tcp,
            tls,
            heard: Vec::new(),
            received: Vec::new(),
            step,
        };
        while wire.tls.is_handshaking() {
            wire.flush();
            if wire.tls.is_handshaking() {
                assert!(wire.read(), "closed in the handshake");
            }
        }
        wire.flush();
        wire
    }

    /// The records that wait.
    fn records(&mut self) -> Vec<u8> {
        let mut records = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut records).unwrap();
        }
        records
    }

    fn flush(&mut self) {
        let records = self.records();
        records
            .chunks(self.step)
            .for_each(|piece| self.tcp.write_all(piece).unwrap());
    }

    fn say(&mut self, text: &[u8]) {
        self.tls.writer().write_all(text).unwrap();
        self.flush();
    }

    /// One read of the socket; `false`: its end.
    fn read(&mut self) -> bool {
        let mut bytes = vec![0; 20_000];
        let count = self.tcp.read(&mut bytes).unwrap();
        self.received.extend_from_slice(&bytes[..count]);
        let mut rest = &bytes[..count];
        while !rest.is_empty() {
            self.tls.read_tls(&mut rest).unwrap();
            self.tls.process_new_packets().unwrap();
            // An error says that there is nothing more for now.
            let _ = self.tls.reader().read_to_end(&mut self.heard);
        }
        count > 0
    }

    fn hear(&mut self, text: &[u8]) {
        while !self.heard.windows(text.len()).any(|window| window == text) {
            assert!(
                self.read(),
                "the end after {:?}",
                String::from_utf8_lossy(&self.heard)
            );
        }
        self.heard.clear();
    }

    /// Reads to the end of the connection; whether the server said goodbye before.
    fn ends_with_goodbye(&mut self) -> bool {
        while self.read() {}
        self.tls.process_new_packets().unwrap().peer_has_closed()
    }
}

/// Handshake, requests, key material: all that a client sends, a byte per TCP segment; and then a
/// byte per record.
#[test]
fn a_byte_at_a_time() {
    let saker = start("tls-bytes", "");
    for version in VERSIONS {
        let mut wire = Wire::connect(&saker, version, b"http/1.1", 1);
        wire.say(REQUEST);
        wire.hear(HELLO);
        REQUEST.iter().for_each(|byte| wire.say(&[*byte]));
        wire.hear(HELLO);
        let mut wire = Wire::connect(&saker, version, b"h2", 1);
        wire.say(frames::PREFACE);
        wire.say(&frames::frame(frames::SETTINGS, 0, 0, &[]));
        let get = |stream| {
            frames::frame(
                frames::HEADERS,
                frames::END_HEADERS | frames::END_STREAM,
                stream,
                &frames::get_block("/index.html"),
            )
        };
        wire.say(&get(1));
        wire.hear(HELLO);
        get(3).iter().for_each(|byte| wire.say(&[*byte]));
        wire.hear(HELLO);
    }
}

/// RFC 8446 section 6.1: the closing side sends close_notify first, and the other side answers with
/// its own.
#[test]
fn goodbyes_of_either_side() {
    let saker = start("tls-goodbye", "keep_alive_timeout = \"1s\"");
    for version in VERSIONS {
        for alpn in [&b"http/1.1"[..], b"h2"] {
            let preface = [frames::PREFACE, &frames::frame(frames::SETTINGS, 0, 0, &[])].concat();
            let first = if alpn == b"h2" { &preface[..] } else { REQUEST };
            let mut wire = Wire::connect(&saker, version, alpn, usize::MAX);
            wire.say(first);
            assert!(wire.read());
            wire.tls.send_close_notify();
            wire.flush();
            assert!(
                wire.ends_with_goodbye(),
                "{version:?} {alpn:?}: the client's was not answered"
            );
            let mut wire = Wire::connect(&saker, version, alpn, usize::MAX);
            wire.say(first);
            assert!(
                wire.ends_with_goodbye(),
                "{version:?} {alpn:?}: none after the idle time"
            );
        }
        let mut wire = Wire::connect(&saker, version, b"http/1.1", usize::MAX);
        wire.say(&[&REQUEST[..REQUEST.len() - 2], b"Connection: close\r\n\r\n"].concat());
        assert!(
            wire.ends_with_goodbye() && wire.heard.ends_with(HELLO),
            "{version:?}: none with the last response"
        );
    }
}

/// The request is answered that came before the client's last word.
#[test]
fn a_goodbye_right_behind_a_request() {
    let saker = start("tls-half", "");
    for version in VERSIONS {
        let mut wire = Wire::connect(&saker, version, b"http/1.1", usize::MAX);
        wire.tls.writer().write_all(REQUEST).unwrap();
        wire.tls.send_close_notify();
        wire.flush();
        assert!(wire.ends_with_goodbye() && wire.heard.ends_with(HELLO));
    }
}

/// A truncated request is refused: in the middle of a record, and between two records of a head or
/// of content.
#[test]
fn truncation_makes_no_request_of_a_part() {
    let saker = start("tls-cut", "");
    let post = b"POST /cut HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345";
    for version in VERSIONS {
        let mut wire = Wire::connect(&saker, version, b"http/1.1", usize::MAX);
        wire.tls.writer().write_all(REQUEST).unwrap();
        let records = wire.records();
        wire.tcp.write_all(&records[..records.len() - 1]).unwrap();
        wire.tcp.shutdown(Shutdown::Write).unwrap();
        while wire.read() {}
        assert_eq!(wire.heard, b"");
        let mut wire = Wire::connect(&saker, version, b"http/1.1", usize::MAX);
        wire.say(&REQUEST[..REQUEST.len() - 1]);
        wire.tcp.shutdown(Shutdown::Write).unwrap();
        while wire.read() {}
        assert!(wire.heard.starts_with(b"HTTP/1.1 400 "));
        let mut wire = Wire::connect(&saker, version, b"http/1.1", usize::MAX);
        wire.say(post);
        wire.tcp.shutdown(Shutdown::Write).unwrap();
        while wire.read() {}
        let heard = String::from_utf8_lossy(&wire.heard).into_owned();
        assert!(!heard.starts_with("HTTP/1.1 2"), "{heard}");
    }
    // In a log that has this one, nothing came of the others.
    let mut wire = Wire::connect(&saker, &TLS13, b"http/1.1", usize::MAX);
    wire.say(&[&REQUEST[..4], &b"/last"[..], &REQUEST[15..]].concat());
    wire.hear(b"404");
    let log = saker.dir.join("access.log");
    wait_until("the last line", || {
        fs::read_to_string(&log).is_ok_and(|log| log.contains("GET /last 404"))
    });
    let log = fs::read_to_string(&log).unwrap();
    assert!(
        !log.contains("/index.html") && !log.contains(" 200"),
        "{log}"
    );
}

/// Lengths beyond the standard's (RFC 8446 section 5.2, RFC 5246 section 6.2.3) end the connection
/// with an alert, whatever would follow.
#[test]
fn records_that_are_too_long() {
    let saker = start("tls-long", "");
    for (version, longest) in [(&TLS12, 16_384 + 2_048_u16), (&TLS13, 16_384 + 256)] {
        let mut wire = Wire::connect(&saker, version, b"http/1.1", usize::MAX);
        wire.say(REQUEST);
        wire.hear(HELLO);
        let header = [&[23, 3, 3][..], &(longest + 1).to_be_bytes()].concat();
        wire.tcp.write_all(&header).unwrap();
        let mut rest = Vec::new();
        wire.tcp.read_to_end(&mut rest).unwrap();
        let alert = wire
            .tls
            .read_tls(&mut &rest[..])
            .map(|_| wire.tls.process_new_packets().err());
        let overflow = rustls::Error::AlertReceived(rustls::AlertDescription::RecordOverflow);
        assert_eq!(alert.unwrap(), Some(overflow), "{version:?}: {rest:?}");
    }
}

/// After a pause responses begin with records that fit a TCP segment each (the window of congestion
/// is small again), and go on in full ones.
#[test]
fn records_are_small_at_first_and_after_a_pause() {
    let saker = start("tls-sizes", "");
    saker
        .dir
        .write("www/large.bin", operate::pattern(200_000))
        .unwrap();
    let mut wire = Wire::connect(&saker, &TLS13, b"http/1.1", usize::MAX);
    let request = [&REQUEST[..5], &b"large.bin"[..], &REQUEST[15..]].concat();
    let mut lengths = |pause_ms| {
        keep_waiting(&wire.tcp, Duration::from_millis(pause_ms)).unwrap();
        wire.received.clear();
        wire.say(&request);
        wire.hear(&operate::pattern(200_000)[199_000..]);
        record_lengths(&wire.received)
    };
    let is_small =
        |lengths: &[usize]| lengths.iter().filter(|length| **length < 1_400).count() >= 10;
    let first = lengths(0);
    // A busy machine makes pauses of its own.
    let mut second = lengths(0);
    for _ in 0..10 {
        if is_small(&second) {
            second = lengths(0);
        }
    }
    let third = lengths(2_000);
    assert!(
        is_small(&first) && !is_small(&second) && is_small(&third),
        "{first:?} {second:?} {third:?}"
    );
    assert!(
        [&first, &second, &third].iter().all(|lengths| lengths
            .iter()
            .filter(|length| **length > 16_000)
            .count()
            >= 9)
    );
}

fn record_lengths(mut received: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let [_, _, _, high, low, rest @ ..] = received {
        let length = usize::from(*high) << 8 | usize::from(*low);
        lengths.push(length);
        received = rest.get(length..).unwrap_or_default();
    }
    lengths
}
