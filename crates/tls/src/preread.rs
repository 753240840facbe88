//! Facts that a ClientHello states in the clear, for routing a TLS connection that ends elsewhere.
//!
//! Called by: streams, with the bytes that have come so far.
//! Caveat: nothing of it is authenticated; it chooses a target, and permits nothing.
//! Out of scope: encrypted hellos (ECH), of which only the outer one is seen.

use crate::client_hello::{Peek, Reader, first_message, server_name};

/// Facts that a ClientHello states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HelloFacts {
    /// In lower case, without a dot at its end.
    pub server_name: Option<String>,
    /// The same as it was sent.
    pub server_name_as_sent: Option<Box<[u8]>>,
    /// Protocols that the client offers, in its order (RFC 7301).
    pub protocols: Vec<Vec<u8>>,
    /// The highest version that the client offers, as logs write it.
    pub version: Option<&'static str>,
}

/// Outcome of a look at the first bytes of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preread {
    /// More bytes are needed to tell.
    Incomplete,
    Hello(HelloFacts),
    /// A hello beyond [`HELLO_BYTES_MAX`](crate::client_hello::HELLO_BYTES_MAX).
    TooLong,
    /// Something else than TLS, or a hello that cannot be read.
    Other,
}

/// Looks at the first bytes of a connection.
pub fn preread(input: &[u8]) -> Preread {
    match input.first() {
        None => Preread::Incomplete,
        Some(22) => match first_message(input) {
            Ok(body) => facts(&body).map_or(Preread::Other, Preread::Hello),
            Err(Peek::Incomplete) => Preread::Incomplete,
            Err(Peek::TooLong) => Preread::TooLong,
            Err(_) => Preread::Other,
        },
        Some(_) => Preread::Other,
    }
}

fn facts(body: &[u8]) -> Option<HelloFacts> {
    let mut facts = HelloFacts::default();
    let mut reader = Reader(body);
    // RFC 8446 section 4.1.2: legacy_version.
    facts.version = version(reader.u16()?);
    reader.take(32)?;
    reader.vector8()?;
    reader.vector16()?;
    reader.vector8()?;
    let extensions = if reader.0.is_empty() {
        &[]
    } else {
        reader.vector16()?
    };
    let mut extensions = Reader(extensions);
    while !extensions.0.is_empty() {
        let (kind, content) = (extensions.u16()?, extensions.vector16()?);
        let mut content = Reader(content);
        match kind {
            0 => {
                let names = content.vector16()?;
                facts.server_name = server_name(names);
                facts.server_name_as_sent = first_name(names).map(Into::into);
            }
            16 => {
                let mut list = Reader(content.vector16()?);
                while !list.0.is_empty() {
                    facts.protocols.push(list.vector8()?.to_vec());
                }
            }
            // RFC 8446 section 4.2.1. Values that only test tolerance are no versions.
            43 => {
                let mut list = Reader(content.vector8()?);
                let mut highest = None;
                while let Some(code) = list.u16() {
                    highest = highest.max(Some(code).filter(|code| version(*code).is_some()));
                }
                facts.version = highest.and_then(version);
            }
            _ => {}
        }
    }
    Some(facts)
}

/// The first host name of a list, whatever it is made of.
fn first_name(list: &[u8]) -> Option<&[u8]> {
    let mut list = Reader(list);
    while !list.0.is_empty() {
        let (kind, name) = (list.u8()?, list.vector16()?);
        if kind == 0 {
            return Some(name);
        }
    }
    None
}

fn version(code: u16) -> Option<&'static str> {
    Some(match code {
        0x0300 => "SSLv3",
        0x0301 => "TLSv1",
        0x0302 => "TLSv1.1",
        0x0303 => "TLSv1.2",
        0x0304 => "TLSv1.3",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector16(bytes: &[u8]) -> Vec<u8> {
        let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        [&length[..], bytes].concat()
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &vector16(content)].concat()
    }

    fn record(extensions: &[u8]) -> Vec<u8> {
        let body = [
            &[3, 3][..],
            &[7; 32],
            &[0],
            &vector16(&[0x13, 1]),
            &[1, 0],
            &vector16(extensions),
        ]
        .concat();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        let message = [&[1][..], &length[1..], &body].concat();
        [&[22, 3, 1][..], &vector16(&message)].concat()
    }

    #[test]
    fn facts_of_a_hello() {
        let name = vector16(&[&[0][..], &vector16(b"A.test")].concat());
        let extensions = [
            extension(0, &name),
            extension(16, &vector16(b"\x02h2\x08http/1.1")),
            extension(43, &[6, 0x7a, 0x7a, 3, 4, 3, 3]),
        ]
        .concat();
        let bytes = record(&extensions);
        let expected = HelloFacts {
            server_name: Some("a.test".into()),
            server_name_as_sent: Some(b"A.test"[..].into()),
            protocols: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            version: Some("TLSv1.3"),
        };
        assert_eq!(preread(&bytes), Preread::Hello(expected));
        for length in 0..bytes.len() {
            assert_eq!(preread(&bytes[..length]), Preread::Incomplete, "{length}");
        }
    }

    #[test]
    fn other_bytes() {
        assert_eq!(preread(b"GET / HTTP/1.1\r\n"), Preread::Other);
        assert_eq!(preread(b"\x16\x02\x00"), Preread::Other);
        let facts = HelloFacts {
            version: Some("TLSv1.2"),
            ..HelloFacts::default()
        };
        assert_eq!(preread(&record(b"")), Preread::Hello(facts));
        // A list that is longer than its extension.
        assert_eq!(
            preread(&record(&extension(16, b"\x00\x09\x02h2"))),
            Preread::Other
        );
    }
}
