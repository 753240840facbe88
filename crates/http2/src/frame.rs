//! Frames on the wire (RFC 9113 sections 4.1 and 6): the nine bytes in front of each, and the small
//! frames that we write whole.
//!
//! Absent on purpose: a type per frame. A frame is read where it is acted upon, in `connection/`,
//! straight from the driver's buffer.

use crate::error::ErrorCode;
use crate::stream::StreamId;

pub(crate) const HEADER_BYTES: usize = 9;
/// RFC 9113 section 4.2: what everybody accepts.
pub(crate) const FRAME_BYTES_MIN: u32 = 16_384;
/// RFC 9113 section 6.5.2: the largest SETTINGS_MAX_FRAME_SIZE.
pub(crate) const FRAME_BYTES_CAP: u32 = (1 << 24) - 1;
/// Stream identifiers are 31 bits, the bit above is reserved and ignored (RFC 9113 section 4.1).
pub(crate) const STREAM_ID_MAX: u32 = (1 << 31) - 1;

/// Frame types (RFC 9113 section 6; RFC 9218 section 7.1).
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0x0;
    pub(crate) const HEADERS: u8 = 0x1;
    pub(crate) const PRIORITY: u8 = 0x2;
    pub(crate) const RST_STREAM: u8 = 0x3;
    pub(crate) const SETTINGS: u8 = 0x4;
    pub(crate) const PUSH_PROMISE: u8 = 0x5;
    pub(crate) const PING: u8 = 0x6;
    pub(crate) const GOAWAY: u8 = 0x7;
    pub(crate) const WINDOW_UPDATE: u8 = 0x8;
    pub(crate) const CONTINUATION: u8 = 0x9;
    pub(crate) const PRIORITY_UPDATE: u8 = 0x10;
}

pub(crate) mod flag {
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// The first nine bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub length: u32,
    pub kind: u8,
    pub flags: u8,
    pub stream: StreamId,
}

impl FrameHeader {
    /// `None`: not all nine bytes are there.
    #[inline]
    pub fn parse(input: &[u8]) -> Option<FrameHeader> {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *input.first_chunk::<HEADER_BYTES>()?;
        let stream = u32::from_be_bytes([s0, s1, s2, s3]) & STREAM_ID_MAX;
        Some(FrameHeader {
            length: u32::from_be_bytes([0, l0, l1, l2]),
            kind,
            flags,
            stream: StreamId(stream),
        })
    }

    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let [_, l0, l1, l2] = self.length.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.0.to_be_bytes();
        [l0, l1, l2, self.kind, self.flags, s0, s1, s2, s3]
    }

    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }
}

pub(crate) fn write_reset(stream: StreamId, code: ErrorCode, out: &mut Vec<u8>) {
    FrameHeader {
        length: 4,
        kind: kind::RST_STREAM,
        flags: 0,
        stream,
    }
    .write(out);
    out.extend_from_slice(&u32::from(code).to_be_bytes());
}

pub(crate) fn write_ping(ack: bool, payload: [u8; 8], out: &mut Vec<u8>) {
    let flags = if ack { flag::ACK } else { 0 };
    FrameHeader {
        length: 8,
        kind: kind::PING,
        flags,
        stream: StreamId::CONNECTION,
    }
    .write(out);
    out.extend_from_slice(&payload);
}

/// `increment` between 1 and 2^31-1 (RFC 9113 section 6.9).
pub(crate) fn write_window_update(stream: StreamId, increment: u32, out: &mut Vec<u8>) {
    FrameHeader {
        length: 4,
        kind: kind::WINDOW_UPDATE,
        flags: 0,
        stream,
    }
    .write(out);
    out.extend_from_slice(&increment.to_be_bytes());
}

pub(crate) fn write_goaway(last: StreamId, code: ErrorCode, debug: &str, out: &mut Vec<u8>) {
    let length = 8 + debug.len() as u32;
    FrameHeader {
        length,
        kind: kind::GOAWAY,
        flags: 0,
        stream: StreamId::CONNECTION,
    }
    .write(out);
    out.extend_from_slice(&last.0.to_be_bytes());
    out.extend_from_slice(&u32::from(code).to_be_bytes());
    out.extend_from_slice(debug.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_the_same_after_writing_and_reading() {
        let header = FrameHeader {
            length: 0x01_02_03,
            kind: 0xab,
            flags: 0x25,
            stream: StreamId(0x7fff_fffe),
        };
        assert_eq!(
            header.to_bytes(),
            [1, 2, 3, 0xab, 0x25, 0x7f, 0xff, 0xff, 0xfe]
        );
        assert_eq!(FrameHeader::parse(&header.to_bytes()), Some(header));
        assert_eq!(FrameHeader::parse(&header.to_bytes()[..8]), None);
    }

    #[test]
    fn the_reserved_bit_is_ignored() {
        let header = FrameHeader::parse(&[0, 0, 0, 0, 0, 0x80, 0, 0, 1]).unwrap();
        assert_eq!(header.stream, StreamId(1));
    }

    #[test]
    fn small_frames() {
        let mut out = Vec::new();
        write_reset(StreamId(3), ErrorCode::Cancel, &mut out);
        write_ping(true, *b"abcdefgh", &mut out);
        write_window_update(StreamId(1), 0x0102_0304, &mut out);
        write_goaway(StreamId(5), ErrorCode::EnhanceYourCalm, "no", &mut out);
        let want: [&[u8]; 4] = [
            b"\0\0\x04\x03\0\0\0\0\x03\0\0\0\x08",
            b"\0\0\x08\x06\x01\0\0\0\0abcdefgh",
            b"\0\0\x04\x08\0\0\0\0\x01\x01\x02\x03\x04",
            b"\0\0\x0a\x07\0\0\0\0\0\0\0\0\x05\0\0\0\x0bno",
        ];
        assert_eq!(out, want.concat());
    }
}
