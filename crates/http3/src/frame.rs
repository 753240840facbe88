//! Frames on the wire (RFC 9114 section 7.1): type and length in front of each, and the small
//! frames that we write whole.
//!
//! Absent on purpose: a type per frame. A frame is read where it is acted upon, in `connection/`,
//! straight from the driver's bytes. No frames of reserved types are sent (section 7.2.8): nothing
//! is gained by it for those who are answered.

use crate::varint;

/// Type and length take no more than this.
pub(crate) const HEADER_BYTES_MAX: usize = 16;

/// Frame types (RFC 9114 section 7.2; RFC 9218 section 7.2).
pub(crate) mod kind {
    pub(crate) const DATA: u64 = 0x00;
    pub(crate) const HEADERS: u64 = 0x01;
    pub(crate) const CANCEL_PUSH: u64 = 0x03;
    pub(crate) const SETTINGS: u64 = 0x04;
    pub(crate) const PUSH_PROMISE: u64 = 0x05;
    pub(crate) const GOAWAY: u64 = 0x07;
    pub(crate) const MAX_PUSH_ID: u64 = 0x0d;
    pub(crate) const PRIORITY_UPDATE: u64 = 0xf0700;
    pub(crate) const PRIORITY_UPDATE_OF_PUSH: u64 = 0xf0701;

    /// Types that HTTP/2 has and HTTP/3 must not (RFC 9114 section 7.2.8): PRIORITY, PING,
    /// WINDOW_UPDATE, CONTINUATION.
    pub(crate) fn is_of_http2(kind: u64) -> bool {
        matches!(kind, 0x02 | 0x06 | 0x08 | 0x09)
    }
}

/// Types of unidirectional streams (RFC 9114 section 6.2, RFC 9204 section 4.2).
pub(crate) mod stream_type {
    pub(crate) const CONTROL: u64 = 0x00;
    pub(crate) const PUSH: u64 = 0x01;
    pub(crate) const ENCODER: u64 = 0x02;
    pub(crate) const DECODER: u64 = 0x03;
}

/// Header of a frame: its type and the length of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub kind: u64,
    pub length: u64,
}

impl FrameHeader {
    /// With the bytes it takes; `None`: not all are there.
    #[inline]
    pub fn parse(input: &[u8]) -> Option<(FrameHeader, usize)> {
        let (kind, kind_bytes) = varint::parse(input)?;
        let (length, length_bytes) = varint::parse(input.get(kind_bytes..)?)?;
        Some((FrameHeader { kind, length }, kind_bytes + length_bytes))
    }

    #[inline]
    pub fn write(self, out: &mut Vec<u8>) {
        varint::write(self.kind, out);
        varint::write(self.length, out);
    }
}

/// A frame header that comes in parts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeaderInParts {
    bytes: [u8; HEADER_BYTES_MAX],
    len: u8,
}

impl HeaderInParts {
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes what it needs of the input. The header when it is whole, and the bytes used.
    #[inline]
    pub fn take(&mut self, input: &[u8]) -> (Option<FrameHeader>, usize) {
        if self.is_empty()
            && let Some((header, used)) = FrameHeader::parse(input)
        {
            return (Some(header), used);
        }
        self.take_slowly(input)
    }

    #[cold]
    fn take_slowly(&mut self, input: &[u8]) -> (Option<FrameHeader>, usize) {
        for (at, byte) in input.iter().enumerate() {
            if let Some(slot) = self.bytes.get_mut(usize::from(self.len)) {
                *slot = *byte;
                self.len += 1;
            }
            if let Some((header, _)) = FrameHeader::parse(&self.bytes[..usize::from(self.len)]) {
                self.len = 0;
                return (Some(header), at + 1);
            }
        }
        (None, input.len())
    }
}

/// A frame whose payload is one integer: GOAWAY, and what else has an identifier only.
pub(crate) fn write_number(kind: u64, value: u64, out: &mut Vec<u8>) {
    FrameHeader {
        kind,
        length: varint::len(value) as u64,
    }
    .write(out);
    varint::write(value, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_the_same_for_every_cut() {
        for (kind, length) in [
            (0, 0),
            (1, 63),
            (kind::PRIORITY_UPDATE, 16_384),
            (varint::MAX, varint::MAX),
        ] {
            let header = FrameHeader { kind, length };
            let mut out = Vec::new();
            header.write(&mut out);
            let len = out.len();
            out.extend_from_slice(b"payload");
            for cut in 0..len {
                let mut parts = HeaderInParts::default();
                assert_eq!(parts.take(&out[..cut]), (None, cut));
                assert_eq!(parts.take(&out[cut..]), (Some(header), len - cut));
                assert!(parts.is_empty());
            }
        }
    }

    #[test]
    fn a_number() {
        let mut out = Vec::new();
        write_number(kind::GOAWAY, 0x1234, &mut out);
        assert_eq!(out, [7, 2, 0x52, 0x34]);
    }
}
