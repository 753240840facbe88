//! Frames out: heads, content, trailers, and whose turn it is (RFC 9114 sections 4.1 and 7.2; RFC
//! 9218 section 10).
//!
//! A verb for a stream that is gone does nothing: the peer may have reset it while the driver was
//! at work. What a driver must not do (two heads, content before the head) is asserted and ignored.

use super::Connection;
use crate::frame::{FrameHeader, kind};
use crate::qpack::{Encoder, STATELESS_PREFIX};
use crate::settings::Role;
use crate::stream::Stream;
use crate::varint;
use saker_http_mux::{MethodFacts, Priority};

/// Type, and a length of two bytes, which is enough for most sections.
const FIELDS_HEADER_BYTES: usize = 3;
const SHORT_LENGTH_MAX: usize = 0x3fff;

/// Why no stream could be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// One side is going away, or this is a server: another connection is needed.
    GoingAway,
}

/// Appends the fields of a head.
pub type HeadEncoder<'a> = saker_http_mux::HeadEncoder<'a, Encoder>;

/// The header of a DATA frame, for content that the driver puts behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    bytes: [u8; 9],
    len: u8,
}

impl DataHeader {
    /// For so many bytes, up to 2^62-1.
    pub fn new(length: u64) -> DataHeader {
        let length = length.min(varint::MAX);
        let mut bytes = [kind::DATA as u8; 9];
        let len = varint::len(length);
        let marked = (length | (len.trailing_zeros() as u64) << (8 * len - 2)).to_be_bytes();
        bytes[1..=len].copy_from_slice(&marked[8 - len..]);
        DataHeader {
            bytes,
            len: len as u8 + 1,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl Connection {
    /// Server: the final response head. Returns whether the stream was there to be answered.
    /// `end_stream`: the driver ends the stream after it.
    pub fn send_head(
        &mut self,
        stream: u64,
        end_stream: bool,
        out: &mut Vec<u8>,
        encode: impl FnOnce(&mut HeadEncoder<'_>),
    ) -> bool {
        let Some(open) = self
            .streams
            .get_mut(stream)
            .filter(|stream| !stream.local_ended && !stream.head_sent)
        else {
            return false;
        };
        open.head_sent = true;
        self.write_fields(stream, out, encode);
        self.end_local_if(stream, end_stream);
        true
    }

    /// Server: a head with a status of 1xx, before the final one.
    pub fn send_informational(
        &mut self,
        stream: u64,
        out: &mut Vec<u8>,
        encode: impl FnOnce(&mut HeadEncoder<'_>),
    ) -> bool {
        let is_possible = self
            .streams
            .get(stream)
            .is_some_and(|stream| !stream.local_ended && !stream.head_sent);
        if is_possible {
            self.write_fields(stream, out, encode);
        }
        is_possible
    }

    /// Trailers, after which the driver ends the stream.
    pub fn send_trailers(
        &mut self,
        stream: u64,
        out: &mut Vec<u8>,
        encode: impl FnOnce(&mut HeadEncoder<'_>),
    ) -> bool {
        let is_possible = self
            .streams
            .get(stream)
            .is_some_and(|stream| !stream.local_ended && stream.head_sent && !stream.is_tunnel);
        if is_possible {
            self.write_fields(stream, out, encode);
            self.end_local_if(stream, true);
        }
        is_possible
    }

    /// Client: a request head on a stream that the driver has opened.
    pub fn open(
        &mut self,
        stream: u64,
        end_stream: bool,
        out: &mut Vec<u8>,
        encode: impl FnOnce(&mut HeadEncoder<'_>),
    ) -> Result<(), OpenError> {
        debug_assert!(stream & 3 == 0 && self.streams.get(stream).is_none());
        if self.role != Role::Client || self.is_ending() {
            return Err(OpenError::GoingAway);
        }
        let method = self.write_fields(stream, out, encode);
        let opened = Stream {
            is_head_request: method.is_head,
            is_tunnel: method.is_connect,
            head_sent: true,
            local_ended: end_stream,
            ..Stream::new()
        };
        self.streams.insert(stream, Priority::default(), opened);
        self.next_request = self.next_request.max(stream + 4);
        Ok(())
    }

    /// Appends the header of a DATA frame for `bytes` of content, which the driver puts behind it,
    /// now or piece by piece; `end`: after these it ends the stream. Nothing where the stream is
    /// gone, and no frame for no content. Returns whether the stream was open.
    ///
    /// The length is a promise: a driver that can't keep it resets the stream.
    pub fn begin_data(&mut self, stream: u64, bytes: u64, end: bool, out: &mut Vec<u8>) -> bool {
        let Some(open) = self
            .streams
            .get(stream)
            .filter(|stream| !stream.local_ended)
        else {
            return false;
        };
        debug_assert!(open.head_sent, "content before the head");
        if bytes > 0 {
            out.extend_from_slice(DataHeader::new(bytes).bytes());
        }
        self.end_local_if(stream, end);
        true
    }

    /// The driver has ended our side of a stream.
    pub fn end(&mut self, stream: u64) {
        self.end_local_if(stream, true);
    }

    /// True if the driver has content for a stream and QUIC takes some, for
    /// [`Connection::next_ready`]. A stream that has ended is not ready any more by itself.
    pub fn set_ready(&mut self, stream: u64, ready: bool) {
        if let Some(open) = self.streams.get_mut(stream) {
            open.is_ready = ready;
            self.streams.requeue(stream);
        }
    }

    /// Which of the ready streams sends next. One frame each, then ask again.
    pub fn next_ready(&mut self) -> Option<u64> {
        self.streams.next_ready()
    }

    /// Returns the stream's priority: the request's, or the last update since.
    pub fn priority(&self, stream: u64) -> Option<Priority> {
        self.streams.priority(stream)
    }

    /// For a response that knows better than its request (RFC 9218 section 8). What the client
    /// itself says is read by the machine.
    pub fn set_priority(&mut self, stream: u64, priority: Priority) {
        self.streams.set_priority(stream, priority);
    }

    fn end_local_if(&mut self, id: u64, ends: bool) {
        if !ends {
            return;
        }
        if let Some(stream) = self.streams.get_mut(id) {
            stream.local_ended = true;
            self.streams.requeue(id);
            self.close_if_ended(id);
        }
    }

    fn write_fields(
        &mut self,
        stream: u64,
        out: &mut Vec<u8>,
        encode: impl FnOnce(&mut HeadEncoder<'_>),
    ) -> MethodFacts {
        let start = out.len();
        out.extend_from_slice(&[0; FIELDS_HEADER_BYTES]);
        self.encoder.begin(out);
        let mut encoder = HeadEncoder::new(&mut self.encoder, out);
        encode(&mut encoder);
        let method = encoder.method();
        self.encoder.finish(stream, out);
        write_fields_header(start, out);
        method
    }
}

/// Puts the header of a HEADERS frame in front of the section that follows the place left at
/// `start`. Lengths need not have the shortest form (RFC 9000 section 16).
fn write_fields_header(start: usize, out: &mut Vec<u8>) {
    let length = out.len() - start - FIELDS_HEADER_BYTES;
    debug_assert!(length >= STATELESS_PREFIX.len());
    if length > SHORT_LENGTH_MAX {
        let mut header = Vec::new();
        FrameHeader {
            kind: kind::HEADERS,
            length: length as u64,
        }
        .write(&mut header);
        out.splice(start..start + FIELDS_HEADER_BYTES, header);
    } else if let Some(place) = out.get_mut(start..start + FIELDS_HEADER_BYTES) {
        let [high, low] = (length as u16 | 0x4000).to_be_bytes();
        place.copy_from_slice(&[kind::HEADERS as u8, high, low]);
    }
}

#[cfg(test)]
mod data_header_tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_what_it_says() {
        for length in [
            0,
            1,
            63,
            64,
            16_383,
            16_384,
            (1 << 30) - 1,
            1 << 30,
            varint::MAX,
        ] {
            let header = DataHeader::new(length);
            let want = FrameHeader {
                kind: kind::DATA,
                length,
            };
            assert_eq!(
                FrameHeader::parse(header.bytes()),
                Some((want, header.bytes().len()))
            );
        }
    }
}
