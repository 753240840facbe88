//! Both versions by table, every truncation, and a property: whatever comes, no panic, and nothing
//! consumed that wasn't there.

use super::*;
use proptest::prelude::*;

fn pair(source: &str, destination: &str) -> Option<(SocketAddr, SocketAddr)> {
    Some((source.parse().unwrap(), destination.parse().unwrap()))
}

fn complete(bytes: &[u8], source: Option<(SocketAddr, SocketAddr)>, tls: bool) {
    let expected = Preface::Complete {
        consumed: bytes.len(),
        source,
        tls,
    };
    let shown = String::from_utf8_lossy(bytes);
    assert_eq!(parse(bytes), Ok(expected), "{shown:?}");
    let with_more = [bytes, b"GET / HTTP/1.1\r\n"].concat();
    assert_eq!(parse(&with_more), Ok(expected), "{shown:?} and more");
    for length in 0..bytes.len() {
        assert_eq!(
            parse(&bytes[..length]),
            Ok(Preface::Partial),
            "{shown:?} cut to {length}"
        );
    }
}

fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [V2_SIGNATURE, &[command, family], &length, body].concat()
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    [
        &[kind],
        &u16::try_from(value.len()).unwrap().to_be_bytes()[..],
        value,
    ]
    .concat()
}

const TCP4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0xdc, 0x04, 0x01, 0xbb];

fn tcp4_with(tlvs: &[u8]) -> Vec<u8> {
    v2(0x21, 0x11, &[&TCP4, tlvs].concat())
}

fn tcp4_source() -> Option<(SocketAddr, SocketAddr)> {
    pair("192.0.2.1:56324", "198.51.100.2:443")
}

/// A preface with a checksum that is right, or off by one bit.
fn with_checksum(flip: u32) -> Vec<u8> {
    let mut preface = tcp4_with(&[tlv(TLV_CRC32C, &[0; 4]), tlv(0x04, b"padding")].concat());
    let at = V2_HEAD_BYTES + TCP4.len() + 3;
    let checksum = crc32c(preface.iter().copied()) ^ flip;
    preface[at..at + 4].copy_from_slice(&checksum.to_be_bytes());
    preface
}

#[test]
fn v1_accepted() {
    for (line, source) in [
        ("TCP4 192.0.2.1 198.51.100.2 56324 443", tcp4_source()),
        (
            "TCP4 0.0.0.0 255.255.255.255 0 65535",
            pair("0.0.0.0:0", "255.255.255.255:65535"),
        ),
        (
            "TCP6 2001:db8::1 ::1 1 80",
            pair("[2001:db8::1]:1", "[::1]:80"),
        ),
        (
            "TCP6 ::ffff:192.0.2.1 ::1 1 80",
            pair("[::ffff:192.0.2.1]:1", "[::1]:80"),
        ),
        ("UNKNOWN", None),
        ("UNKNOWN whatever  comes here", None),
        (
            "UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535",
            None, // the longest line that the specification names: 107 bytes with its end
        ),
    ] {
        complete(format!("PROXY {line}\r\n").as_bytes(), source, false);
    }
}

#[test]
fn v1_refused() {
    for line in [
        "",
        " ",
        "TCP4",
        "tcp4 192.0.2.1 198.51.100.2 1 2",
        "TCP5 192.0.2.1 198.51.100.2 1 2",
        "UDP4 192.0.2.1 198.51.100.2 1 2",
        "TCP4  192.0.2.1 198.51.100.2 1 2",
        "TCP4 192.0.2.1 198.51.100.2 1",
        "TCP4 192.0.2.1 198.51.100.2 1 2 ",
        "TCP4 192.0.2.1 198.51.100.2 1 2 3",
        "TCP4 192.0.2.1 198.51.100.2 1 65536",
        "TCP4 192.0.2.1 198.51.100.2 +1 2",
        "TCP4 192.0.2.1 198.51.100.2 01 2",
        "TCP4 192.0.2.1 198.51.100.2 -1 2",
        "TCP4 192.0.2.1 198.51.100.2 0x1 2",
        "TCP4 192.0.2.01 198.51.100.2 1 2",
        "TCP4 192.0.2.256 198.51.100.2 1 2",
        "TCP4 ::1 ::1 1 2",
        "TCP6 192.0.2.1 198.51.100.2 1 2",
        "TCP6 fe80::1%eth0 ::1 1 2",
        "TCP6 [::1] ::1 1 2",
        "TCP4 localhost 198.51.100.2 1 2",
        "TCP4\t192.0.2.1 198.51.100.2 1 2",
    ] {
        assert_eq!(
            parse(format!("PROXY {line}\r\n").as_bytes()),
            Err(PrefaceError::Malformed),
            "{line:?}"
        );
    }
    assert_eq!(
        parse(b"PROXY TCP4 192.0.2.1 198.51.100.2 1 2\n"),
        Err(PrefaceError::Malformed),
        "bare LF"
    );
    assert_eq!(
        parse(b"PROXY UNKNOWN\rx"),
        Err(PrefaceError::Malformed),
        "bare CR"
    );
    assert_eq!(
        parse(b"PROXY TCP4 \xff 198.51.100.2 1 2\r\n"),
        Err(PrefaceError::Malformed),
        "not UTF-8"
    );
}

#[test]
fn v1_length_on_both_sides_of_the_edge() {
    let line = |bytes: usize| format!("PROXY UNKNOWN {}\r\n", "x".repeat(bytes - 16)).into_bytes();
    complete(&line(V1_BYTES_MAX), None, false);
    assert_eq!(parse(&line(V1_BYTES_MAX + 1)), Err(PrefaceError::TooLong));
    let endless = [b"PROXY ", &[b'x'; 200][..]].concat();
    assert_eq!(parse(&endless[..V1_BYTES_MAX - 1]), Ok(Preface::Partial));
    assert_eq!(parse(&endless[..V1_BYTES_MAX]), Err(PrefaceError::TooLong));
    let cr_at_the_end = [&endless[..V1_BYTES_MAX - 1], b"\r"].concat();
    assert_eq!(parse(&cr_at_the_end), Err(PrefaceError::TooLong));
}

#[test]
fn something_else_is_seen_at_once() {
    for bytes in [
        &b"G"[..],
        b"GET / HTTP/1.1\r\n\r\n",
        b"PROXX",
        b"proxy TCP4",
        b"\r\n\r\nX",
        b"\x16\x03\x01",
        b"PROXY\t",
    ] {
        assert_eq!(parse(bytes), Err(PrefaceError::Missing), "{bytes:?}");
    }
    assert_eq!(parse(b""), Ok(Preface::Partial));
}

#[test]
fn v2_addresses() {
    complete(&tcp4_with(b""), tcp4_source(), false);
    let (source, destination): (Ipv6Addr, Ipv6Addr) = (
        "2001:db8::1".parse().unwrap(),
        "2001:db8::2".parse().unwrap(),
    );
    let body = [&source.octets()[..], &destination.octets(), &[0, 1, 0, 80]].concat();
    complete(
        &v2(0x21, 0x21, &body),
        pair("[2001:db8::1]:1", "[2001:db8::2]:80"),
        false,
    );
    complete(&v2(0x21, 0x31, &[b'/'; 216]), None, false);
    complete(&v2(0x21, 0x00, b""), None, false);
    complete(&v2(0x21, 0x00, b"anything"), None, false);
}

#[test]
fn v2_local_skips_whatever_follows() {
    for (family, body) in [
        (0x00, &b""[..]),
        (0x11, &TCP4),
        (0x11, b"short"),
        (0x99, b"\x20\xff\xff"),
    ] {
        complete(&v2(0x20, family, body), None, false);
    }
}

#[test]
fn v2_tlvs() {
    complete(&tcp4_with(&tlv(0x02, b"example.com")), tcp4_source(), false);
    complete(&tcp4_with(&tlv(0x04, b"")), tcp4_source(), false);
    complete(
        &tcp4_with(&tlv(TLV_SSL, &[1, 0, 0, 0, 0])),
        tcp4_source(),
        true,
    );
    complete(
        &tcp4_with(&tlv(
            TLV_SSL,
            &[&[7, 0, 0, 0, 0][..], &tlv(0x21, b"TLSv1.3")].concat(),
        )),
        tcp4_source(),
        true,
    );
    complete(
        &tcp4_with(&tlv(TLV_SSL, &[0, 0, 0, 0, 0])),
        tcp4_source(),
        false,
    );
    complete(&with_checksum(0), tcp4_source(), false);
}

#[test]
fn v2_refused() {
    for (preface, expected) in [
        (v2(0x11, 0x11, &TCP4), PrefaceError::Unsupported),
        (v2(0x22, 0x11, &TCP4), PrefaceError::Unsupported),
        (v2(0x21, 0x12, &TCP4), PrefaceError::Unsupported),
        (v2(0x21, 0x41, &TCP4), PrefaceError::Unsupported),
        (v2(0x21, 0x13, &TCP4), PrefaceError::Unsupported),
        (v2(0x21, 0x01, &TCP4), PrefaceError::Unsupported),
        (v2(0x21, 0x11, &TCP4[..11]), PrefaceError::Malformed),
        (v2(0x21, 0x21, &[0; 35]), PrefaceError::Malformed),
        (v2(0x21, 0x31, &[0; 215]), PrefaceError::Malformed),
        (tcp4_with(&[0x04]), PrefaceError::Malformed),
        (tcp4_with(&[0x04, 0]), PrefaceError::Malformed),
        (tcp4_with(&[0x04, 0, 1]), PrefaceError::Malformed),
        (tcp4_with(&[0x04, 0xff, 0xff, 0]), PrefaceError::Malformed),
        (
            tcp4_with(&tlv(TLV_SSL, &[1, 0, 0, 0])),
            PrefaceError::Malformed,
        ),
        (
            tcp4_with(&tlv(TLV_CRC32C, &[0; 3])),
            PrefaceError::Malformed,
        ),
        (tcp4_with(&tlv(TLV_CRC32C, &[0; 4])), PrefaceError::Checksum),
        (with_checksum(1), PrefaceError::Checksum),
        (with_checksum(1 << 31), PrefaceError::Checksum),
    ] {
        assert_eq!(parse(&preface), Err(expected), "{preface:x?}");
    }
}

#[test]
fn v2_only_one_checksum() {
    let mut preface = with_checksum(0);
    preface[V2_HEAD_BYTES - 1] += 7;
    preface.extend(tlv(TLV_CRC32C, &[0; 4]));
    let at = V2_HEAD_BYTES + TCP4.len() + 3;
    preface[at..at + 4].fill(0);
    let checksum = crc32c(preface.iter().copied());
    preface[at..at + 4].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(parse(&preface), Err(PrefaceError::Malformed));
}

#[test]
fn v2_length_on_both_sides_of_the_edge() {
    let body = |bytes: usize| [&TCP4[..], &tlv(0x04, &vec![0; bytes - TCP4.len() - 3])].concat();
    assert!(parse(&v2(0x21, 0x11, &body(V2_BODY_BYTES_MAX))).is_ok());
    let too_long = v2(0x21, 0x11, &body(V2_BODY_BYTES_MAX + 1));
    assert_eq!(parse(&too_long), Err(PrefaceError::TooLong));
    assert_eq!(
        parse(&too_long[..V2_HEAD_BYTES]),
        Err(PrefaceError::TooLong),
        "not waited for"
    );
}

#[test]
fn v2_version_is_judged_as_soon_as_it_is_there() {
    let preface = v2(0x31, 0x11, &TCP4);
    assert_eq!(parse(&preface[..12]), Ok(Preface::Partial));
    assert_eq!(parse(&preface[..13]), Err(PrefaceError::Unsupported));
}

/// RFC 3720 appendix B.4, and the check value that catalogues of checksums give.
#[test]
fn crc32c_known_answers() {
    assert_eq!(crc32c([0; 32].into_iter()), 0x8a91_36aa);
    assert_eq!(crc32c([0xff; 32].into_iter()), 0x62a8_ab43);
    assert_eq!(crc32c(b"123456789".iter().copied()), 0xe306_9283);
}

fn check_any(bytes: &[u8]) -> Result<(), TestCaseError> {
    let outcome = parse(bytes);
    if let Ok(Preface::Complete { consumed, .. }) = outcome {
        prop_assert!(consumed <= bytes.len());
        prop_assert_eq!(parse(&bytes[..consumed]), outcome);
    }
    // What is refused once stays refused, and what is complete stays so, whatever comes after.
    if outcome != Ok(Preface::Partial) {
        prop_assert_eq!(parse(&[bytes, b"more"].concat()), outcome);
    }
    Ok(())
}

proptest! {
    #[test]
    fn anything(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        check_any(&bytes)?;
    }

    #[test]
    fn anything_after_a_good_start(is_v2: bool, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        check_any(&[if is_v2 { V2_SIGNATURE } else { V1_START }, &bytes].concat())?;
    }

    #[test]
    fn any_body(family in prop_oneof![Just(0x11_u8), Just(0x21), Just(0x31)], body in proptest::collection::vec(any::<u8>(), 0..300)) {
        check_any(&v2(0x21, family, &body))?;
    }

    #[test]
    fn any_line(line in "(TCP4|TCP6|UNKNOWN)?[ 0-9a-f:.]{0,60}(\r|\n|\r\n)?") {
        check_any(format!("PROXY {line}").as_bytes())?;
    }
}

#[test]
fn what_is_sent_is_read_back() {
    for (source, destination, v1) in [
        (
            "192.0.2.1:1234",
            "198.51.100.1:80",
            "PROXY TCP4 192.0.2.1 198.51.100.1 1234 80\r\n",
        ),
        (
            "[2001:db8::1]:1234",
            "[2001:db8::2]:443",
            "PROXY TCP6 2001:db8::1 2001:db8::2 1234 443\r\n",
        ),
        (
            "[::ffff:192.0.2.1]:5",
            "198.51.100.1:80",
            "PROXY TCP4 192.0.2.1 198.51.100.1 5 80\r\n",
        ),
    ] {
        let addresses = pair(source, destination);
        let canonical = addresses.map(|(from, to)| {
            let plain =
                |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
            (plain(from), plain(to))
        });
        let mut line = Vec::new();
        encode(PrefaceVersion::V1, addresses, &mut line);
        assert_eq!(String::from_utf8_lossy(&line), v1);
        complete(&line, canonical, false);
        let mut binary = Vec::new();
        encode(PrefaceVersion::V2, addresses, &mut binary);
        complete(&binary, canonical, false);
    }
}

#[test]
fn addresses_of_two_families_become_one() {
    let mixed = pair("192.0.2.1:1", "[2001:db8::2]:2");
    for version in [PrefaceVersion::V1, PrefaceVersion::V2] {
        let mut sent = Vec::new();
        encode(version, mixed, &mut sent);
        let Ok(Preface::Complete { source, .. }) = parse(&sent) else {
            panic!("{version:?}: {sent:?}");
        };
        let (from, to) = source.unwrap();
        assert_eq!(from.ip().to_canonical().to_string(), "192.0.2.1");
        assert_eq!(to.to_string(), "[2001:db8::2]:2");
    }
}

#[test]
fn clients_without_an_address() {
    for version in [PrefaceVersion::V1, PrefaceVersion::V2] {
        let mut sent = Vec::new();
        encode(version, None, &mut sent);
        complete(&sent, None, false);
    }
}

#[test]
fn prefaces_of_datagrams() {
    let client: SocketAddr = "192.0.2.7:5000".parse().unwrap();
    let server: SocketAddr = "203.0.113.1:53".parse().unwrap();
    let mut datagram = Vec::new();
    encode_datagram(PrefaceVersion::V2, Some((client, server)), &mut datagram);
    assert_eq!(datagram[V2_FAMILY], 0x12);
    let length = datagram.len();
    datagram.extend_from_slice(b"content");
    assert_eq!(
        parse_datagram(&datagram),
        Ok(Some((length, Some((client, server)))))
    );
    // Each part of it is broken, and so is one for a connection.
    for end in V2_SIGNATURE.len()..length {
        assert_eq!(
            parse_datagram(&datagram[..end]),
            Err(PrefaceError::Malformed),
            "{end}"
        );
    }
    let mut stream = Vec::new();
    encode(PrefaceVersion::V2, Some((client, server)), &mut stream);
    assert_eq!(parse_datagram(&stream), Err(PrefaceError::Unsupported));
    assert_eq!(parse(&datagram), Err(PrefaceError::Unsupported));
    // UNSPEC names no client; version 1 and all else are content.
    let mut unnamed = Vec::new();
    encode_datagram(PrefaceVersion::V2, None, &mut unnamed);
    assert_eq!(parse_datagram(&unnamed), Ok(Some((16, None))));
    for content in [
        &b""[..],
        b"PROXY TCP4 192.0.2.7 203.0.113.1 1 2\r\n",
        &V2_SIGNATURE[..11],
    ] {
        assert_eq!(parse_datagram(content), Ok(None));
    }
}
