//! The output of HTTP/3: frames on QUIC streams.
//!
//! Called by: the exchanges, through [`Wire`].
//! Caveat: one DATA frame covers all content whose length is known (a file of 100 MB is one
//! frame), and content is handed over as QUIC accepts it. Small bodies go in one piece with their
//! head. Ends of streams are QUIC's.

use super::{connection::Connection, head::Section, unsent::Unsent};
use crate::request::response_head;
use crate::{
    common_headers::CommonHeaders,
    mux::{Exchanges, Reset, StreamId, Wire, head},
    pieces::{Broken, Piece, Pieces, file_step},
};
use bytes::{Buf, Bytes};
use rustix::{buffer::spare_capacity, io::Errno};
use saker_http::{Fields, Status};
use saker_http3::{ErrorCode, Priority};
use saker_pipeline::{FilePart, Response};
use saker_quic::Written;
use saker_telemetry::Metric;

/// Bytes of a file that are read at a time, at least and at most: a quarter of the path's capacity.
/// QUIC returns space one piece at a time and searches the pieces for each packet, so neither few
/// nor many are good.
const FILE_BYTES_MIN: u64 = 32 << 10;
const FILE_BYTES_MAX: u64 = 256 << 10;
/// Content in memory that is handed over at a time.
const MEMORY_BYTES: u64 = 64 << 10;
/// Content that is copied behind its head, so that both are one piece.
const JOINED_BYTES: u64 = 16 << 10;

pub struct Streams<'a> {
    pub machine: &'a mut saker_http3::Connection,
    pub out: &'a mut Unsent,
    pub quic: &'a mut saker_quic::Connection,
}

impl Connection {
    /// The exchanges, and the way out for them.
    pub(super) fn with_wire<'a>(
        &'a mut self,
        quic: &'a mut saker_quic::Connection,
    ) -> (&'a mut Exchanges, Streams<'a>) {
        (
            &mut self.exchanges,
            Streams {
                machine: &mut self.machine,
                out: &mut self.out,
                quic,
            },
        )
    }
}

impl Wire for Streams<'_> {
    const REQUESTS: Metric = Metric::RequestsHttp3;
    const STREAMS_RESET: Metric = Metric::Http3StreamsReset;

    fn send_head(
        &mut self,
        stream: StreamId,
        response: &Response,
        length: Option<u64>,
        ends: bool,
        common: &mut CommonHeaders,
        now: i64,
    ) {
        self.prioritize(stream);
        self.gather(stream, |machine, out| {
            machine.send_head(stream.0, ends, out, |section| {
                response_head::encode(&mut Section(section), response, length, common, now)
            });
        });
        if ends {
            self.out.end(stream.0, self.quic);
        }
    }

    fn send_continue(&mut self, stream: StreamId) {
        self.gather(stream, |machine, out| {
            _ = machine.send_informational(stream.0, out, |head| head.status(Status::CONTINUE.0))
        });
    }

    fn send_interim(&mut self, stream: StreamId, status: Status, fields: &Fields) {
        self.gather(stream, |machine, out| {
            _ = machine.send_informational(stream.0, out, |section| {
                section.status(status.0);
                head::append_fields(fields, &mut Section(section));
            })
        });
    }

    /// Always true: bytes that QUIC does not accept at once wait here, and are few.
    fn fits(&self, _: StreamId, _: usize) -> bool {
        true
    }

    fn send_whole(&mut self, stream: StreamId, bytes: &[u8]) {
        self.gather(stream, |machine, out| {
            machine.begin_data(stream.0, bytes.len() as u64, true, out);
            out.extend_from_slice(bytes);
        });
        self.out.end(stream.0, self.quic);
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
        let sent = match self.content(stream, piece, allowance)? {
            Some(0) => return Err(Broken),
            Some(sent) => sent,
            None => {
                self.set_ready(stream, false);
                return Ok(None);
            }
        };
        if last && sent == left {
            self.send_end(stream);
        }
        Ok(Some(sent))
    }

    fn send_end(&mut self, stream: StreamId) {
        self.machine.end(stream.0);
        self.out.end(stream.0, self.quic);
    }

    fn send_trailers(&mut self, stream: StreamId, trailers: &Fields) {
        self.gather(stream, |machine, out| {
            _ = machine.send_trailers(stream.0, out, |block| {
                head::append_fields(trailers, &mut Section(block))
            })
        });
        self.out.end(stream.0, self.quic);
    }

    fn reset(&mut self, stream: StreamId, reset: Reset) {
        let code = match reset {
            // The response stands; no more of the request is wanted (RFC 9114 section 4.1.1).
            Reset::NoError => {
                self.out.resumed.push(stream.0);
                return self.quic.stop(stream.0, ErrorCode::NoError.into());
            }
            Reset::Internal => ErrorCode::InternalError.into(),
            Reset::Protocol => ErrorCode::GeneralProtocolError.into(),
            Reset::Refused => ErrorCode::ExcessiveLoad.into(),
        };
        self.out.forget(stream.0);
        self.machine.abandon(stream.0);
        self.quic.reset(stream.0, code);
        self.quic.stop(stream.0, code);
    }

    fn release(&mut self, stream: StreamId, _: usize) {
        self.out.resumed.push(stream.0);
    }

    fn set_ready(&mut self, stream: StreamId, ready: bool) {
        self.machine.set_ready(stream.0, ready);
    }

    fn next_ready(&mut self) -> Option<StreamId> {
        self.machine.next_ready().map(StreamId)
    }

    fn has_room(&self) -> bool {
        self.out.made < self.out.left
    }

    fn made(&self) -> u64 {
        self.out.made
    }

    fn shut_down(&mut self) {
        self.out.wants_shut_down = true;
    }
}

impl Streams<'_> {
    /// Gathers bytes that must be sent completely, together with the following ones of the stream.
    fn gather(
        &mut self,
        stream: StreamId,
        make: impl FnOnce(&mut saker_http3::Connection, &mut Vec<u8>),
    ) {
        let out = self.out.gather(stream.0, self.quic);
        let start = out.len();
        make(self.machine, out);
        let made = out.len() - start;
        self.out.made += made as u64;
    }

    /// Raises the stream above less urgent bytes in QUIC's buffer (RFC 9218 section 10).
    fn prioritize(&mut self, stream: StreamId) {
        let urgency = self.machine.priority(stream.0).unwrap_or_default().urgency;
        if urgency != Priority::default().urgency {
            self.quic.prioritize(
                stream.0,
                i32::from(Priority::default().urgency) - i32::from(urgency),
            );
        }
    }

    /// Content of a piece, with a frame header where one begins. `None`: no room.
    fn content(
        &mut self,
        stream: StreamId,
        piece: &Piece,
        allowance: u64,
    ) -> Result<Option<u64>, Broken> {
        let Some(waiting) = self.out.ready(stream.0) else {
            return Ok(None);
        };
        if waiting.frame_left == 0 {
            waiting.frame_left = piece.length();
            self.gather(stream, |machine, out| {
                _ = machine.begin_data(stream.0, piece.length(), false, out)
            });
        }
        let sent = match piece {
            Piece::Memory(chunk) => {
                let wanted = piece.length().min(allowance).min(MEMORY_BYTES);
                self.memory(stream, &chunk.bytes()[..wanted as usize])?
            }
            Piece::File(part) => self.file(stream, part, allowance)?,
        };
        match sent {
            Some(sent) => self.out.note_content(stream.0, sent),
            None => self.out.block(stream.0),
        }
        Ok(sent)
    }

    fn memory(&mut self, stream: StreamId, bytes: &[u8]) -> Result<Option<u64>, Broken> {
        if self.out.is_gathering(stream.0) && bytes.len() as u64 <= JOINED_BYTES {
            self.gather(stream, |_, out| out.extend_from_slice(bytes));
            return Ok(Some(bytes.len() as u64));
        }
        if !self.out.clear_way(stream.0, self.quic) {
            return Ok(None);
        }
        let written = self.quic.write(stream.0, bytes);
        self.taken(&written)
    }

    fn file(
        &mut self,
        stream: StreamId,
        part: &FilePart,
        allowance: u64,
    ) -> Result<Option<u64>, Broken> {
        let step = (self.quic.congestion_window_bytes() / 4).clamp(FILE_BYTES_MIN, FILE_BYTES_MAX);
        let wanted = file_step(part, allowance, step)?;
        if !self.out.clear_way(stream.0, self.quic) {
            return Ok(None);
        }
        let Some(waiting) = self.out.ready(stream.0) else {
            return Ok(None);
        };
        if waiting.held.is_empty() {
            waiting.held = read(part, wanted)?;
        }
        let mut piece = waiting.held.slice(..wanted.min(waiting.held.len()));
        let written = self.quic.write_chunk(stream.0, &mut piece);
        if let Written::Bytes(bytes) = written {
            waiting.held.advance(bytes);
        }
        self.taken(&written)
    }

    fn taken(&mut self, written: &Written) -> Result<Option<u64>, Broken> {
        match written {
            Written::Bytes(bytes) => {
                self.out.made += *bytes as u64;
                Ok(Some(*bytes as u64))
            }
            // An event says that the client has stopped the stream.
            Written::Blocked | Written::Stopped(_) => Ok(None),
            Written::Gone => Err(Broken),
        }
    }
}

/// Reads this many bytes of a file; a file that has shrunk is broken.
fn read(part: &FilePart, wanted: usize) -> Result<Bytes, Broken> {
    let mut bytes = Vec::with_capacity(wanted);
    while bytes.len() < wanted {
        let offset = part.offset + bytes.len() as u64;
        match rustix::io::pread(&*part.file, spare_capacity(&mut bytes), offset) {
            Ok(0) => return Err(Broken),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return Err(Broken),
        }
    }
    bytes.truncate(wanted);
    Ok(Bytes::from(bytes))
}
