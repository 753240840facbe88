//! The PROXY protocol, versions 1 and 2: a trusted load balancer's statement about the client, sent
//! before the client's own bytes. Pure.
//!
//! Called by: the server's driver, on listeners that require it, and only for trusted peers; the
//! gateway, which sends it to upstreams that want it.
//! Caveat: the preface determines the client address, so anything that is not exactly as written in
//! the specification (haproxy.org, proxy-protocol.txt, 2.1 and 2.2) is refused.
//! Out of scope: TLVs other than the checksum and TLS.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

/// Longest version 1 line with its CRLF (2.1).
const V1_BYTES_MAX: usize = 107;

/// Longest version 2 body that is waited for; addresses need 216 bytes, certificates in TLVs some
/// hundreds.
pub const V2_BODY_BYTES_MAX: usize = 4096;

const V1_START: &[u8] = b"PROXY ";
const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const V2_HEAD_BYTES: usize = 16;
/// Place of the family and the transport.
const V2_FAMILY: usize = 13;
/// Transports of families (2.2).
const STREAM: u8 = 1;
const DATAGRAM: u8 = 2;

const TLV_CRC32C: u8 = 0x03;
const TLV_SSL: u8 = 0x20;
const CLIENT_SSL: u8 = 0x01;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preface {
    /// Right so far; call again with more bytes after the same ones.
    Partial,
    Complete {
        /// The client's own bytes start here.
        consumed: usize,
        /// Client and the address it connected to. `None` for health checks of the balancer itself
        /// (LOCAL), and for clients that have no IP address (UNKNOWN, UNSPEC, UNIX): the
        /// connection's own addresses stand then.
        source: Option<(SocketAddr, SocketAddr)>,
        /// The client spoke TLS to the balancer (PP2_TYPE_SSL).
        tls: bool,
    },
}

/// Why a preface was refused. The connection must be closed: nothing may be guessed about who is
/// there (2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefaceError {
    /// Begins like neither version.
    Missing,
    /// Version 1 without CRLF within 107 bytes, or version 2 above [`V2_BODY_BYTES_MAX`].
    TooLong,
    Malformed,
    /// A version, command, family or transport that is not ours to understand.
    Unsupported,
    Checksum,
}

impl fmt::Display for PrefaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PrefaceError::Missing => "no PROXY preface",
            PrefaceError::TooLong => "PROXY preface too long",
            PrefaceError::Malformed => "malformed PROXY preface",
            PrefaceError::Unsupported => "unsupported PROXY preface",
            PrefaceError::Checksum => "wrong checksum in PROXY preface",
        })
    }
}

impl std::error::Error for PrefaceError {}

/// Looks at everything received so far.
pub fn parse(bytes: &[u8]) -> Result<Preface, PrefaceError> {
    if starts_alike(bytes, V2_SIGNATURE) {
        parse_v2(bytes, STREAM)
    } else if starts_alike(bytes, V1_START) {
        parse_v1(bytes)
    } else {
        Err(PrefaceError::Missing)
    }
}

/// Client and the address that it sent to, where a preface names them.
pub type Named = Option<(SocketAddr, SocketAddr)>;

/// Looks at a datagram. `None`: it has no preface; else the length of the preface, which is version 2
/// (version 1 is for TCP), and whom it names.
///
/// # Errors
/// The preface is broken, or does not end in the datagram.
pub fn parse_datagram(bytes: &[u8]) -> Result<Option<(usize, Named)>, PrefaceError> {
    if !bytes.starts_with(V2_SIGNATURE) {
        return Ok(None);
    }
    match parse_v2(bytes, DATAGRAM)? {
        Preface::Complete {
            consumed, source, ..
        } => Ok(Some((consumed, source))),
        Preface::Partial => Err(PrefaceError::Malformed),
    }
}

/// Appends the preface of a datagram, as [`encode`] that of a connection. Version 1 has no transport
/// for it: it says TCP, as nginx does.
pub fn encode_datagram(version: PrefaceVersion, source: Named, out: &mut Vec<u8>) {
    let start = out.len();
    encode(version, source, out);
    if version == PrefaceVersion::V2
        && let Some(family) = out.get_mut(start + V2_FAMILY)
        && *family != 0
    {
        *family = *family & 0xf0 | DATAGRAM;
    }
}

/// Version of a preface that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefaceVersion {
    V1,
    V2,
}

/// Appends the preface of a connection for a client. `source`: the client and the address that it
/// connected to; `None`: it has no IP address (UNKNOWN, UNSPEC).
pub fn encode(
    version: PrefaceVersion,
    source: Option<(SocketAddr, SocketAddr)>,
    out: &mut Vec<u8>,
) {
    let canonical = |address: SocketAddr| (address.ip().to_canonical(), address.port());
    let source = source.map(|(from, to)| (canonical(from), canonical(to)));
    match (version, source) {
        (PrefaceVersion::V1, None) => out.extend_from_slice(b"PROXY UNKNOWN\r\n"),
        (PrefaceVersion::V1, Some((from, to))) => out.extend_from_slice(&v1_line(from, to)),
        (PrefaceVersion::V2, source) => {
            // Command PROXY; UNSPEC over UNSPEC, or STREAM over IPv4 or IPv6 (2.2).
            let (family, body) = match source {
                None => (0, Vec::new()),
                Some(((IpAddr::V4(from), from_port), (IpAddr::V4(to), to_port))) => {
                    let ports = [from_port.to_be_bytes(), to_port.to_be_bytes()].concat();
                    (0x11, [&from.octets()[..], &to.octets(), &ports].concat())
                }
                Some(((from, from_port), (to, to_port))) => {
                    let ports = [from_port.to_be_bytes(), to_port.to_be_bytes()].concat();
                    (
                        0x21,
                        [&v6(from).octets()[..], &v6(to).octets(), &ports].concat(),
                    )
                }
            };
            out.extend_from_slice(V2_SIGNATURE);
            // The body has at most 36 bytes.
            out.extend_from_slice(&[0x21, family, 0, body.len() as u8]);
            out.extend_from_slice(&body);
        }
    }
}

fn v1_line(from: (IpAddr, u16), to: (IpAddr, u16)) -> Vec<u8> {
    let ports = format!("{} {}\r\n", from.1, to.1);
    match (from.0, to.0) {
        (IpAddr::V4(from), IpAddr::V4(to)) => format!("PROXY TCP4 {from} {to} {ports}"),
        (from, to) => format!(
            "PROXY TCP6 {} {} {ports}",
            v6_text(v6(from)),
            v6_text(v6(to))
        ),
    }
    .into_bytes()
}

/// Both addresses are of one family.
fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Without dots, which some readers refuse in mapped addresses.
fn v6_text(address: Ipv6Addr) -> String {
    match address.to_ipv4_mapped() {
        Some(_) => {
            let [.., high, low] = address.segments();
            format!("::ffff:{high:x}:{low:x}")
        }
        None => address.to_string(),
    }
}

fn starts_alike(bytes: &[u8], expected: &[u8]) -> bool {
    bytes.iter().zip(expected).all(|(a, b)| a == b)
}

fn parse_v1(bytes: &[u8]) -> Result<Preface, PrefaceError> {
    let window = bytes.get(..V1_BYTES_MAX).unwrap_or(bytes);
    let Some(end) = window.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
        return if window.len() == V1_BYTES_MAX {
            Err(PrefaceError::TooLong)
        } else {
            Ok(Preface::Partial)
        };
    };
    match window.get(end..) {
        Some([b'\r', b'\n', ..]) => {}
        Some([b'\r']) if window.len() < V1_BYTES_MAX => return Ok(Preface::Partial),
        Some([b'\r']) => return Err(PrefaceError::TooLong),
        _ => return Err(PrefaceError::Malformed),
    }
    let line = window
        .get(V1_START.len()..end)
        .ok_or(PrefaceError::Malformed)?;
    let source = v1_source(std::str::from_utf8(line).map_err(|_| PrefaceError::Malformed)?)?;
    Ok(Preface::Complete {
        consumed: end + 2,
        source,
        tls: false,
    })
}

/// `TCP4 source destination source-port destination-port` with single spaces; after UNKNOWN
/// anything goes (2.1).
fn v1_source(line: &str) -> Result<Option<(SocketAddr, SocketAddr)>, PrefaceError> {
    let mut words = line.split(' ');
    let mut next = || words.next().ok_or(PrefaceError::Malformed);
    let (source, destination): (IpAddr, IpAddr) = match next()? {
        "TCP4" => (
            v1_address::<Ipv4Addr>(next()?)?,
            v1_address::<Ipv4Addr>(next()?)?,
        ),
        "TCP6" => (
            v1_address::<Ipv6Addr>(next()?)?,
            v1_address::<Ipv6Addr>(next()?)?,
        ),
        "UNKNOWN" => return Ok(None),
        _ => return Err(PrefaceError::Malformed),
    };
    let (source_port, destination_port) = (v1_port(next()?)?, v1_port(next()?)?);
    if words.next().is_some() {
        return Err(PrefaceError::Malformed);
    }
    Ok(Some((
        SocketAddr::new(source, source_port),
        SocketAddr::new(destination, destination_port),
    )))
}

fn v1_address<A: FromStr + Into<IpAddr>>(word: &str) -> Result<IpAddr, PrefaceError> {
    word.parse::<A>()
        .map(Into::into)
        .map_err(|_| PrefaceError::Malformed)
}

/// Decimal without sign or leading zero (2.1): Rust's own parser would let `+80` and `080` pass.
fn v1_port(word: &str) -> Result<u16, PrefaceError> {
    let is_canonical =
        word.bytes().all(|byte| byte.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    word.parse()
        .ok()
        .filter(|_| is_canonical)
        .ok_or(PrefaceError::Malformed)
}

fn parse_v2(bytes: &[u8], transport: u8) -> Result<Preface, PrefaceError> {
    // Refused at the first byte that shows it, not only when all has come.
    if bytes
        .get(12)
        .is_some_and(|byte| !matches!(byte, 0x20 | 0x21))
    {
        return Err(PrefaceError::Unsupported);
    }
    let Some(&[.., command, family, high, low]) = bytes.first_chunk::<V2_HEAD_BYTES>() else {
        return Ok(Preface::Partial);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > V2_BODY_BYTES_MAX {
        return Err(PrefaceError::TooLong);
    }
    let consumed = V2_HEAD_BYTES + length;
    let Some(preface) = bytes.get(..consumed) else {
        return Ok(Preface::Partial);
    };
    // LOCAL: the receiver uses the connection's own addresses and skips the rest whatever it is
    // (2.2).
    let (source, tls) = if command == 0x21 {
        v2_proxied(preface, family, transport)?
    } else {
        (None, false)
    };
    Ok(Preface::Complete {
        consumed,
        source,
        tls,
    })
}

type Proxied = (Option<(SocketAddr, SocketAddr)>, bool);

fn v2_proxied(preface: &[u8], family: u8, transport: u8) -> Result<Proxied, PrefaceError> {
    let body = preface.get(V2_HEAD_BYTES..).unwrap_or_default();
    let (source, address_bytes) = match (family >> 4, family & 0xf) {
        // UNSPEC: addresses are to be ignored (2.2), and since their length is unknown, so is where
        // TLVs would begin.
        (0, 0) => return Ok((None, false)),
        (1, over) if over == transport => (Some(v2_ipv4(body)?), 12),
        (2, over) if over == transport => (Some(v2_ipv6(body)?), 36),
        (3, over) if over == transport => (None, 216),
        _ => return Err(PrefaceError::Unsupported),
    };
    let tlvs = body.get(address_bytes..).ok_or(PrefaceError::Malformed)?;
    let tls = v2_tlvs(preface, tlvs)?;
    Ok((source, tls))
}

/// Returns the TLVs behind the addresses of a complete preface (2.2.1): a type, two bytes of length,
/// and the value, one behind the other. Version 1 has none.
pub fn tlvs(preface: &[u8]) -> &[u8] {
    if !preface.starts_with(V2_SIGNATURE) {
        return &[];
    }
    let address_bytes = match preface.get(13) {
        Some(0x11 | 0x12) => 12,
        Some(0x21 | 0x22) => 36,
        Some(0x31) => 216,
        _ => return &[],
    };
    preface
        .get(V2_HEAD_BYTES + address_bytes..)
        .unwrap_or_default()
}

/// Returns the value of the first TLV of a type, of a sequence of them.
pub fn tlv(mut tlvs: &[u8], wanted: u8) -> Option<&[u8]> {
    while let [kind, high, low, rest @ ..] = tlvs {
        let (value, behind) =
            rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
        if *kind == wanted {
            return Some(value);
        }
        tlvs = behind;
    }
    None
}

fn v2_ipv4(body: &[u8]) -> Result<(SocketAddr, SocketAddr), PrefaceError> {
    let mut rest = body;
    let (source, destination) = (
        Ipv4Addr::from(take::<4>(&mut rest)?),
        Ipv4Addr::from(take::<4>(&mut rest)?),
    );
    v2_ports(source.into(), destination.into(), rest)
}

fn v2_ipv6(body: &[u8]) -> Result<(SocketAddr, SocketAddr), PrefaceError> {
    let mut rest = body;
    let (source, destination) = (
        Ipv6Addr::from(take::<16>(&mut rest)?),
        Ipv6Addr::from(take::<16>(&mut rest)?),
    );
    v2_ports(source.into(), destination.into(), rest)
}

fn v2_ports(
    source: IpAddr,
    destination: IpAddr,
    mut rest: &[u8],
) -> Result<(SocketAddr, SocketAddr), PrefaceError> {
    let source_port = u16::from_be_bytes(take(&mut rest)?);
    let destination_port = u16::from_be_bytes(take(&mut rest)?);
    Ok((
        SocketAddr::new(source, source_port),
        SocketAddr::new(destination, destination_port),
    ))
}

/// Walks the TLVs (2.2): all must be whole, the checksum right, and TLS is noted.
fn v2_tlvs(preface: &[u8], mut tlvs: &[u8]) -> Result<bool, PrefaceError> {
    let (mut tls, mut is_checked) = (false, false);
    while !tlvs.is_empty() {
        let [kind, high, low] = take(&mut tlvs)?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let (value, rest) = tlvs
            .split_at_checked(length)
            .ok_or(PrefaceError::Malformed)?;
        match kind {
            // Two checksums can't both be right, as each counts the other's bytes.
            TLV_CRC32C if is_checked => return Err(PrefaceError::Malformed),
            TLV_CRC32C => {
                v2_checksum(preface, preface.len() - tlvs.len(), value)?;
                is_checked = true;
            }
            TLV_SSL => tls |= v2_ssl(value)?,
            _ => {}
        }
        tlvs = rest;
    }
    Ok(tls)
}

/// CRC32c over the whole preface with the checksum's own bytes as zeros (2.2.3).
fn v2_checksum(preface: &[u8], at: usize, value: &[u8]) -> Result<(), PrefaceError> {
    let expected = u32::from_be_bytes(value.try_into().map_err(|_| PrefaceError::Malformed)?);
    let bytes = preface.iter().enumerate().map(|(index, byte)| {
        if (at..at + 4).contains(&index) {
            0
        } else {
            *byte
        }
    });
    if crc32c(bytes) == expected {
        Ok(())
    } else {
        Err(PrefaceError::Checksum)
    }
}

/// pp2_tlv_ssl: one byte of flags, four of verification result, then TLVs that we have no use for
/// (2.2.5).
fn v2_ssl(value: &[u8]) -> Result<bool, PrefaceError> {
    match value {
        [flags, _, _, _, _, ..] => Ok(flags & CLIENT_SSL != 0),
        _ => Err(PrefaceError::Malformed),
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], PrefaceError> {
    let (first, rest) = bytes
        .split_first_chunk::<N>()
        .ok_or(PrefaceError::Malformed)?;
    *bytes = rest;
    Ok(*first)
}

/// RFC 3720 appendix B.4. Bit by bit: it runs once per connection over some dozens of bytes.
fn crc32c(bytes: impl Iterator<Item = u8>) -> u32 {
    !bytes.fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    })
}

#[cfg(test)]
mod tests;
