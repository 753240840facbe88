//! The output of HTTP/2: frames, gathered for one write per turn.
//!
//! Called by: the exchanges, through [`Wire`].

use super::{
    connection::{Connection, OUT_BYTES_MAX},
    head::Block,
};
use crate::request::response_head;
use crate::{
    common_headers::CommonHeaders,
    mux::{Exchanges, Reset, StreamId, Wire, head},
    pieces::{Broken, Piece, Pieces, file_step},
};
use saker_http::{Fields, Status};
use saker_http2::ErrorCode;
use saker_net::file_bytes;
use saker_pipeline::{FilePart, Response};
use saker_telemetry::Metric;

/// RFC 9113 section 4.1.
const HEADER_BYTES: usize = 9;
/// A frame fits a TLS record; see `begin_data` of the machine.
const DATA_BYTES_MAX: u64 = (16 << 10) - HEADER_BYTES as u64;

pub struct Frames<'a> {
    pub machine: &'a mut saker_http2::Connection,
    pub out: &'a mut Vec<u8>,
}

impl Connection {
    /// The exchanges, and the way out for them.
    pub(super) fn with_wire<'a>(
        &'a mut self,
        out: &'a mut Vec<u8>,
    ) -> (&'a mut Exchanges, Frames<'a>) {
        (
            &mut self.exchanges,
            Frames {
                machine: &mut self.machine,
                out,
            },
        )
    }
}

/// RFC 9113 section 5.1.1: 31 bits.
fn number(stream: StreamId) -> saker_http2::StreamId {
    saker_http2::StreamId(stream.0 as u32)
}

pub fn stream_id(stream: saker_http2::StreamId) -> StreamId {
    StreamId(u64::from(stream.0))
}

impl Wire for Frames<'_> {
    const REQUESTS: Metric = Metric::RequestsHttp2;
    const STREAMS_RESET: Metric = Metric::Http2StreamsReset;

    fn send_head(
        &mut self,
        stream: StreamId,
        response: &Response,
        length: Option<u64>,
        ends: bool,
        common: &mut CommonHeaders,
        now: i64,
    ) {
        self.machine
            .send_head(number(stream), ends, self.out, |block| {
                response_head::encode(&mut Block(block), response, length, common, now)
            });
    }

    fn send_continue(&mut self, stream: StreamId) {
        self.machine
            .send_informational(number(stream), self.out, |head| {
                head.status(Status::CONTINUE.0)
            });
    }

    fn send_interim(&mut self, stream: StreamId, status: Status, fields: &Fields) {
        self.machine
            .send_informational(number(stream), self.out, |block| {
                block.status(status.0);
                head::append_fields(fields, &mut Block(block));
            });
    }

    fn fits(&self, stream: StreamId, bytes: usize) -> bool {
        bytes <= self.machine.send_capacity(number(stream))
    }

    fn send_whole(&mut self, stream: StreamId, bytes: &[u8]) {
        let mut left = bytes;
        while !left.is_empty() {
            let granted = self
                .machine
                .begin_data(number(stream), left.len(), true, self.out);
            if granted == 0 {
                // Not with a body that fits; an endless loop would be worse than a cut stream.
                return self.reset(stream, Reset::Internal);
            }
            self.out.extend_from_slice(&left[..granted]);
            left = &left[granted..];
        }
    }

    fn send_piece(
        &mut self,
        stream: StreamId,
        pieces: &mut Pieces,
        allowance: u64,
    ) -> Result<Option<u64>, Broken> {
        let last = pieces.is_last();
        let Some(piece) = pieces.piece_mut() else {
            return Err(Broken);
        };
        let left = piece.length();
        let granted = match piece {
            Piece::Memory(chunk) => {
                let wanted = left.min(allowance).min(DATA_BYTES_MAX) as usize;
                let granted = self.machine.begin_data(
                    number(stream),
                    wanted,
                    last && wanted as u64 == left,
                    self.out,
                );
                self.out.extend_from_slice(&chunk.bytes()[..granted]);
                granted
            }
            Piece::File(part) => {
                let wanted = file_step(part, allowance, DATA_BYTES_MAX)?
                    .min(self.machine.send_capacity(number(stream)));
                self.file_frame(stream, part, wanted, last && wanted as u64 == left)?
            }
        };
        // The stream got its turn because its window is open, so some bytes can be sent; a stream
        // that is never woken would be worse than one that is cut.
        if granted == 0 {
            Err(Broken)
        } else {
            Ok(Some(granted as u64))
        }
    }

    fn send_end(&mut self, stream: StreamId) {
        self.machine.begin_data(number(stream), 0, true, self.out);
    }

    fn send_trailers(&mut self, stream: StreamId, trailers: &Fields) {
        self.machine
            .send_trailers(number(stream), self.out, |block| {
                head::append_fields(trailers, &mut Block(block))
            });
    }

    fn reset(&mut self, stream: StreamId, reset: Reset) {
        let code = match reset {
            Reset::NoError => ErrorCode::NoError,
            Reset::Internal => ErrorCode::InternalError,
            Reset::Protocol => ErrorCode::ProtocolError,
            Reset::Refused => ErrorCode::EnhanceYourCalm,
        };
        self.machine.send_reset(number(stream), code, self.out);
    }

    fn release(&mut self, stream: StreamId, bytes: usize) {
        self.machine.release(number(stream), bytes, self.out);
    }

    fn set_ready(&mut self, stream: StreamId, ready: bool) {
        self.machine.set_ready(number(stream), ready);
    }

    fn next_ready(&mut self) -> Option<StreamId> {
        self.machine.next_ready().map(stream_id)
    }

    fn has_room(&self) -> bool {
        self.out.len() < OUT_BYTES_MAX
    }

    fn made(&self) -> u64 {
        self.out.len() as u64
    }

    fn shut_down(&mut self) {
        self.machine.shut_down(self.out);
    }
}

impl Frames<'_> {
    /// Reads before it frames: a file that has shrunk must not have promised its end. The header
    /// then goes where room was left for it.
    fn file_frame(
        &mut self,
        stream: StreamId,
        part: &FilePart,
        bytes: usize,
        end: bool,
    ) -> Result<usize, Broken> {
        let start = self.out.len();
        let body = start + HEADER_BYTES;
        self.out.resize(body, 0);
        if file_bytes::append_exact_at(&part.file, part.offset, bytes, self.out).is_err() {
            self.out.truncate(start);
            return Err(Broken);
        }
        let mut header = Vec::with_capacity(HEADER_BYTES);
        let granted = self
            .machine
            .begin_data(number(stream), bytes, end, &mut header);
        match (granted == bytes, self.out.get_mut(start..body)) {
            (true, Some(place)) if place.len() == header.len() => place.copy_from_slice(&header),
            _ => {
                self.out.truncate(start);
                return Err(Broken);
            }
        }
        Ok(granted)
    }
}
