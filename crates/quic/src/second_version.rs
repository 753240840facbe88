//! QUIC version 2 (RFC 9369) for a machine that knows version 1: both differ in names of keys,
//! which rustls knows, and in the numbers of the long headers' types, which are translated here.
//!
//! What comes in is translated before the machine sees it, and back again for the moment of its
//! decryption, because the header is authenticated; what goes out is translated before it is
//! encrypted. Header protection covers other bits of the byte. The difficulty is that a datagram
//! may hold several packets, so that lengths have to be read.

use crate::VERSION_2;
use bytes::BytesMut;
use quinn_proto::crypto::{CryptoError, PacketKey};
use rustls::quic;

const LONG_HEADER: u8 = 0x80;
const TYPE: u8 = 0x30;
/// Version 1 says 0 to 3 for Initial, 0-RTT, Handshake and Retry, version 2 one more, and 0 for
/// Retry (RFC 9369 section 3.2).
const ONE: u8 = 0x10;
const INITIAL: u8 = 0x00;
const RETRY: u8 = 0x30;

/// Version 1's first byte of a long header as version 2 writes it.
pub fn to_wire(first: u8) -> u8 {
    (first & !TYPE) | (first.wrapping_add(ONE) & TYPE)
}

fn from_wire(first: u8) -> u8 {
    (first & !TYPE) | (first.wrapping_sub(ONE) & TYPE)
}

/// True if a datagram begins with a packet of version 2.
pub fn is(datagram: &[u8]) -> bool {
    is_long(datagram) && datagram.get(1..5) == Some(&VERSION_2.to_be_bytes())
}

fn is_long(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first & LONG_HEADER != 0)
}

/// Translates the packets of a datagram. What is malformed stays as it is from there on: the
/// machine drops it.
pub fn translate(datagram: &mut [u8]) {
    let mut rest = datagram;
    while is(rest) {
        let Some(first) = rest.first_mut() else {
            return;
        };
        *first = from_wire(*first);
        match packet_bytes(rest) {
            Some(bytes) => rest = rest.get_mut(bytes..).unwrap_or_default(),
            None => return,
        }
    }
}

/// A Retry that the machine wrote, on its way out: it is not encrypted, so no key has translated
/// it.
pub fn translate_retry(datagram: &mut [u8]) {
    if let Some(first) = datagram.first_mut().filter(|first| **first & TYPE == RETRY) {
        *first = to_wire(*first);
    }
}

/// Length of a packet with a long header, in version 1's form (RFC 9000 section 17.2); `None`: it
/// goes to the end.
fn packet_bytes(packet: &[u8]) -> Option<usize> {
    let kind = packet.first()? & TYPE;
    if kind == RETRY {
        return None;
    }
    let mut at = 5;
    for _connection_id in 0..2 {
        at += 1 + usize::from(*packet.get(at)?);
    }
    if kind == INITIAL {
        let (token_bytes, length) = integer(packet.get(at..)?)?;
        at = at.checked_add(length)?.checked_add(token_bytes)?;
    }
    let (rest_bytes, length) = integer(packet.get(at..)?)?;
    at.checked_add(length)?.checked_add(rest_bytes)
}

/// RFC 9000 section 16: the value, and how many bytes it took.
fn integer(bytes: &[u8]) -> Option<(usize, usize)> {
    let first = *bytes.first()?;
    let length = 1 << (first >> 6);
    let rest = bytes.get(1..length)?;
    let value = rest.iter().fold(u64::from(first & 0x3f), |value, byte| {
        (value << 8) | u64::from(*byte)
    });
    Some((usize::try_from(value).ok()?, length))
}

/// A key of version 2 for packets whose headers say version 1's types.
pub struct Key(pub Box<dyn quic::PacketKey>);

impl PacketKey for Key {
    fn encrypt(&self, number: u64, packet: &mut [u8], header_bytes: usize) {
        if let Some(first) = packet
            .first_mut()
            .filter(|first| **first & LONG_HEADER != 0)
        {
            *first = to_wire(*first);
        }
        self.0.encrypt(number, packet, header_bytes);
    }

    fn decrypt(
        &self,
        number: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        if !is_long(header) {
            return self.0.decrypt(number, header, payload);
        }
        let mut header = header.to_vec();
        if let Some(first) = header.first_mut() {
            *first = to_wire(*first);
        }
        self.0.decrypt(number, &header, payload)
    }

    fn tag_len(&self) -> usize {
        self.0.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(first: u8, token: Option<&[u8]>, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![first];
        packet.extend(VERSION_2.to_be_bytes());
        packet.extend([4, 1, 2, 3, 4, 2, 5, 6]);
        if let Some(token) = token {
            packet.push(token.len() as u8);
            packet.extend(token);
        }
        packet.extend([0x40, payload.len() as u8]);
        packet.extend(payload);
        packet
    }

    #[test]
    fn every_packet_of_a_datagram_is_translated() {
        let initial = |first| packet(first, Some(b"token"), &[0x90; 30]);
        let handshake = |first| packet(first, None, &[0xb0; 20]);
        let mut datagram = [initial(0xd3), handshake(0xf1), vec![0x41; 9]].concat();
        translate(&mut datagram);
        assert_eq!(
            datagram,
            [initial(0xc3), handshake(0xe1), vec![0x41; 9]].concat()
        );
    }

    #[test]
    fn types_have_their_numbers() {
        for (first, second) in [
            (0xc0, 0xd0),
            (0xd0, 0xe0),
            (0xe0, 0xf0),
            (0xf0, 0xc0),
            (0xcf, 0xdf),
        ] {
            assert_eq!(to_wire(first), second);
            assert_eq!(from_wire(second), first);
        }
    }

    #[test]
    fn malformed_datagrams_are_left_to_the_machine() {
        let whole = [
            packet(0xd3, Some(b"t"), &[1; 5]),
            packet(0xf1, None, &[2; 5]),
        ]
        .concat();
        for end in 0..whole.len() {
            translate(&mut whole[..end].to_vec());
        }
        let mut huge = packet(0xd0, None, &[]);
        huge.truncate(13);
        huge.extend([0xff; 20]);
        translate(&mut huge);
        let mut first_version = [0xc0, 0, 0, 0, 1, 0, 0, 0, 0];
        translate(&mut first_version);
        assert_eq!(first_version[0], 0xc0);
    }
}
