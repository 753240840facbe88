//! Looks into a ClientHello before the handshake begins (RFC 8446 section 4.1.2), to choose the
//! configuration that shall answer it.
//!
//! Place in the walk: first bytes -> here -> `acceptor` chooses -> rustls reads the same bytes
//! again and is the only judge of them: what does not parse here is passed on as a hello that asks
//! for nothing special. The one difficulty is that a hello may lie in several records.

use crate::{offered::Offered, provider::group_code};
use rustls::pki_types::DnsName;
use saker_config::model::Group;
use std::borrow::Cow;

/// Real ones have 200 to 2,000 bytes, those with post-quantum keys included.
pub const HELLO_BYTES_MAX: usize = 16 * 1024;

const HANDSHAKE_RECORD: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const RECORD_PAYLOAD_MAX: usize = 1 << 14;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// In lower case, without a dot at its end.
    pub server_name: Option<String>,
    /// The client wants to check an ACME challenge (RFC 8737).
    pub acme_challenge: bool,
    pub prefers_chacha20: bool,
    pub groups: Groups,
    /// Groups that a key share was sent for.
    pub key_shares: Groups,
    pub offered: Offered,
}

/// A set of the groups that we know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Groups(u8);

impl Groups {
    const KNOWN: [Group; 4] = [
        Group::X25519MlKem768,
        Group::X25519,
        Group::Secp256r1,
        Group::Secp384r1,
    ];

    pub fn of(groups: &[Group]) -> Groups {
        groups
            .iter()
            .map(|group| group_code(*group))
            .fold(Groups::default(), Groups::with)
    }

    pub fn has(self, group: Group) -> bool {
        self.0 & Groups::default().with(group_code(group)).0 != 0
    }

    pub fn and(self, other: Groups) -> Groups {
        Groups(self.0 & other.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn with(self, code: u16) -> Groups {
        let at = Groups::KNOWN
            .iter()
            .position(|group| group_code(*group) == code);
        Groups(self.0 | at.map_or(0, |at| 1 << at))
    }
}

/// Classification of the first bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Peek {
    /// More bytes are needed to tell.
    Incomplete,
    Hello(ClientHello),
    PlainHttp,
    PlainHttp2Preface,
    NotTls,
    TooLong,
}

pub fn peek(input: &[u8]) -> Peek {
    match input.first() {
        None => Peek::Incomplete,
        Some(&HANDSHAKE_RECORD) => peek_records(input),
        Some(first) if first.is_ascii_alphabetic() => in_the_clear(input),
        Some(_) => Peek::NotTls,
    }
}

/// Peeks at the first handshake message without records, as QUIC carries it (RFC 9001 section
/// 4.1.3).
pub fn peek_message(message: &[u8]) -> Peek {
    match whole_message(message) {
        Some(body) => hello(body),
        None if claims_too_much(message) => Peek::TooLong,
        None => Peek::Incomplete,
    }
}

/// `PRI` is a method reserved for HTTP/2's preface (RFC 9113 section 3.4).
fn in_the_clear(input: &[u8]) -> Peek {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";
    match input.get(..PREFACE.len()) {
        Some(PREFACE) => Peek::PlainHttp2Preface,
        None if PREFACE.starts_with(input) => Peek::Incomplete,
        _ => Peek::PlainHttp,
    }
}

fn peek_records(input: &[u8]) -> Peek {
    match first_message(input) {
        Ok(body) => hello(&body),
        Err(peek) => peek,
    }
}

/// Returns the body of the message that the first records carry.
pub fn first_message(input: &[u8]) -> Result<Cow<'_, [u8]>, Peek> {
    let mut message = Vec::new();
    let mut rest = input;
    loop {
        let (payload, after) = match record(rest) {
            Ok(Some(found)) => found,
            Ok(None) => return Err(Peek::Incomplete),
            Err(what) => return Err(what),
        };
        // The usual case copies nothing: one record, one message.
        if message.is_empty()
            && let Some(body) = whole_message(payload)
        {
            return Ok(Cow::Borrowed(body));
        }
        message.extend_from_slice(payload);
        if let Some(body) = whole_message(&message) {
            return Ok(Cow::Owned(body.to_vec()));
        }
        if message.len() > HELLO_BYTES_MAX || claims_too_much(&message) {
            return Err(Peek::TooLong);
        }
        rest = after;
    }
}

/// A record's content, and what comes behind it.
type ContentAndRest<'i> = (&'i [u8], &'i [u8]);

/// The payload of a whole record, and what is behind it.
fn record(input: &[u8]) -> Result<Option<ContentAndRest<'_>>, Peek> {
    if input.get(1).is_some_and(|major| *major != 3) {
        return Err(Peek::NotTls);
    }
    let Some((&[kind, _, _, high, low], rest)) = input.split_first_chunk::<5>() else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if kind != HANDSHAKE_RECORD || length == 0 || length > RECORD_PAYLOAD_MAX {
        // rustls knows the alert for it.
        return Err(Peek::Hello(ClientHello::default()));
    }
    Ok(rest.split_at_checked(length))
}

/// The body of a message that is there whole. Other messages than a ClientHello are for rustls to
/// refuse.
fn whole_message(bytes: &[u8]) -> Option<&[u8]> {
    let (&[kind, high, middle, low], rest) = bytes.split_first_chunk::<4>()?;
    match kind {
        CLIENT_HELLO => rest.get(..length24(high, middle, low)),
        _ => Some(&[]),
    }
}

fn claims_too_much(message: &[u8]) -> bool {
    matches!(message, [_, high, middle, low, ..] if length24(*high, *middle, *low) > HELLO_BYTES_MAX)
}

fn length24(high: u8, middle: u8, low: u8) -> usize {
    usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low)
}

fn hello(body: &[u8]) -> Peek {
    Peek::Hello(read_hello(body).unwrap_or_default())
}

fn read_hello(body: &[u8]) -> Option<ClientHello> {
    let mut hello = ClientHello::default();
    let mut reader = Reader(body);
    reader.take(2 + 32)?;
    reader.vector8()?;
    let suites = reader.vector16()?;
    hello.prefers_chacha20 = prefers_chacha20(suites);
    hello.offered.set_suites(codes(suites));
    reader.vector8()?;
    // RFC 5246 section 7.4.1.2: there may be no extensions at all.
    let mut extensions = Reader(if reader.0.is_empty() {
        &[]
    } else {
        reader.vector16()?
    });
    while !extensions.0.is_empty() {
        let (kind, content) = (extensions.u16()?, extensions.vector16()?);
        read_extension(kind, Reader(content), &mut hello)?;
    }
    Some(hello)
}

fn read_extension(kind: u16, mut content: Reader<'_>, hello: &mut ClientHello) -> Option<()> {
    match kind {
        0 => hello.server_name = server_name(content.vector16()?),
        10 => {
            let groups = content.vector16()?;
            hello.groups = codes(groups).fold(Groups::default(), Groups::with);
            hello.offered.set_groups(codes(groups));
        }
        16 => hello.acme_challenge = offers_acme(content.vector16()?)?,
        51 => hello.key_shares = key_shares(content.vector16()?)?,
        _ => {}
    }
    Some(())
}

/// RFC 6066 section 3. Addresses are not allowed as names; a client that sends one has sent none.
pub fn server_name(list: &[u8]) -> Option<String> {
    let mut list = Reader(list);
    while !list.0.is_empty() {
        let (kind, name) = (list.u8()?, list.vector16()?);
        if kind == 0 {
            let name = DnsName::try_from(name).ok()?;
            return Some(canonical_name(name.as_ref()));
        }
    }
    None
}

/// As the host of a request is compared (`saker_http::host::canonical_host`).
pub fn canonical_name(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn offers_acme(list: &[u8]) -> Option<bool> {
    let mut list = Reader(list);
    while !list.0.is_empty() {
        if list.vector8()? == crate::ACME_TLS_ALPN {
            return Some(true);
        }
    }
    Some(false)
}

fn key_shares(list: &[u8]) -> Option<Groups> {
    let (mut list, mut groups) = (Reader(list), Groups::default());
    while !list.0.is_empty() {
        groups = groups.with(list.u16()?);
        list.vector16()?;
    }
    Some(groups)
}

/// True if the first suite, values that only test tolerance aside (RFC 8701), is one with ChaCha20.
fn prefers_chacha20(suites: &[u8]) -> bool {
    let is_grease = |code: &u16| code & 0x0f0f == 0x0a0a;
    codes(suites)
        .find(|code| !is_grease(code))
        .is_some_and(|code| matches!(code, 0x1303 | 0xcca8 | 0xcca9))
}

fn codes(list: &[u8]) -> impl Iterator<Item = u16> + '_ {
    list.chunks_exact(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// Takes a message apart.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.take(2)
            .map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    pub fn vector8(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(usize::from(length))
    }

    pub fn vector16(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector16(bytes: &[u8]) -> Vec<u8> {
        [
            &u16::try_from(bytes.len()).unwrap().to_be_bytes()[..],
            bytes,
        ]
        .concat()
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &vector16(content)].concat()
    }

    fn message(suites: &[u8], extensions: &[u8]) -> Vec<u8> {
        let body = [
            &[3, 3][..],
            &[7; 32],
            &[0],
            &vector16(suites),
            &[1, 0],
            &vector16(extensions),
        ]
        .concat();
        [
            &[1][..],
            &u32::try_from(body.len()).unwrap().to_be_bytes()[1..],
            &body,
        ]
        .concat()
    }

    fn in_records(message: &[u8], size: usize) -> Vec<u8> {
        message
            .chunks(size)
            .flat_map(|piece| [&[22, 3, 1][..], &vector16(piece)].concat())
            .collect()
    }

    fn with_name(name: &[u8]) -> Vec<u8> {
        let list = [&[0][..], &vector16(name)].concat();
        message(&[0x13, 0x01], &extension(0, &vector16(&list)))
    }

    fn found(bytes: &[u8]) -> ClientHello {
        match peek(bytes) {
            Peek::Hello(hello) => hello,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names() {
        let name = |text: &[u8]| found(&in_records(&with_name(text), 1 << 14)).server_name;
        assert_eq!(name(b"WWW.Example.org"), Some("www.example.org".into()));
        assert_eq!(name(b"www.example.org."), Some("www.example.org".into()));
        assert_eq!(name(b"127.0.0.1"), None);
        assert_eq!(name(b"bad name"), None);
        let bare = found(&in_records(&message(&[0x13, 0x01], &[]), 1 << 14));
        assert_eq!(bare.offered.suites(), "TLS_AES_128_GCM_SHA256");
        let offered = bare.offered.clone();
        let nothing_else = ClientHello {
            offered,
            ..ClientHello::default()
        };
        assert_eq!(bare, nothing_else);
    }

    #[test]
    fn several_records_and_every_cut() {
        let bytes = in_records(&with_name(b"a.example"), 7);
        for cut in 0..bytes.len() {
            assert_eq!(peek(&bytes[..cut]), Peek::Incomplete, "{cut}");
        }
        assert_eq!(found(&bytes).server_name.as_deref(), Some("a.example"));
        assert_eq!(
            found(&[&bytes[..], b"more"].concat())
                .server_name
                .as_deref(),
            Some("a.example")
        );
    }

    #[test]
    fn groups_shares_protocols_and_taste() {
        let extensions = [
            extension(10, &vector16(&[0x0a, 0x0a, 0x11, 0xec, 0, 0x1d])),
            extension(16, &vector16(b"\x02h2\x0aacme-tls/1")),
            extension(
                51,
                &vector16(&[&[0, 0x1d][..], &vector16(&[9; 32])].concat()),
            ),
        ];
        let hello = found(&in_records(
            &message(&[0x1a, 0x1a, 0x13, 0x03, 0x13, 0x01], &extensions.concat()),
            1 << 14,
        ));
        assert!(hello.acme_challenge && hello.prefers_chacha20);
        assert!(
            hello.groups.has(Group::X25519MlKem768) && !hello.key_shares.has(Group::X25519MlKem768)
        );
        assert_eq!(hello.key_shares, Groups::of(&[Group::X25519]));
        assert_eq!(
            hello.groups.and(Groups::of(&[Group::Secp256r1])),
            Groups::default()
        );
    }

    #[test]
    fn what_is_no_hello() {
        assert_eq!(peek(b""), Peek::Incomplete);
        assert_eq!(peek(b"GET / HTTP/1.1\r\n"), Peek::PlainHttp);
        assert_eq!(peek(b"P"), Peek::Incomplete);
        assert_eq!(peek(b"PR"), Peek::Incomplete);
        assert_eq!(peek(b"PROPFIND /"), Peek::PlainHttp);
        assert_eq!(
            peek(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
            Peek::PlainHttp2Preface
        );
        assert_eq!(peek(b"\x80\x2e\x01"), Peek::NotTls);
        assert_eq!(peek(b"\x16GET"), Peek::NotTls);
        assert_eq!(peek(b"\0"), Peek::NotTls);
    }

    #[test]
    fn what_is_broken_is_left_to_rustls() {
        for bytes in [
            &b"\x16\x03\x01\x00\x00"[..],
            b"\x16\x03\x01\x40\x01",
            b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",
        ] {
            assert_eq!(found(bytes), ClientHello::default());
        }
        let mut cut_short = with_name(b"a.example");
        cut_short[43] = 0xff;
        assert_eq!(
            found(&in_records(&cut_short, 1 << 14)),
            ClientHello::default()
        );
    }

    #[test]
    fn the_longest_hello_that_is_heard() {
        let of_length = |length: usize| {
            let header = [&[1][..], &u32::try_from(length).unwrap().to_be_bytes()[1..]].concat();
            in_records(&[header, vec![0; 64]].concat(), 1 << 14)
        };
        assert_eq!(peek(&of_length(HELLO_BYTES_MAX)), Peek::Incomplete);
        assert_eq!(peek(&of_length(HELLO_BYTES_MAX + 1)), Peek::TooLong);
    }
}
