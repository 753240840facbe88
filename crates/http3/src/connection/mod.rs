//! One HTTP/3 connection, in the role of the server or of the client.
//!
//! The driver hands what comes on the peer's streams to [`Connection::receive`] and sends by verbs.
//! Streams are known by QUIC's identifiers (RFC 9000 section 2.1). The parts: `request` (frames of
//! requests and responses), `fields` (field sections), `unidirectional` (the peer's control,
//! encoder and decoder streams), `control` (the control stream's frames), `send` (frames out),
//! `ending` (GOAWAY, and streams that end before their time).
//!
//! The one difficulty: what a peer may make us do without getting anything done. Each such thing
//! has a bucket or a bound in [`Limits`]; a stream that the peer breaks is given up and counted, a
//! connection that it breaks ends with a reason.

mod control;
mod ending;
mod fields;
mod request;
mod send;
mod state;
mod unidirectional;

use std::collections::VecDeque;

use saker_http_mux::{HeadRefusal, HeadStore, PriorityNotes, StreamTable};

use crate::error::{ConnectionError, ErrorCode, Reason};
use crate::flood::Floods;
use crate::frame::stream_type;
use crate::limits::Limits;
use crate::qpack::{Decoder, Encoder};
use crate::settings::{self, PeerSettings, Role};
use crate::stream::Stream;

pub use send::{DataHeader, HeadEncoder, OpenError};
use state::{ControlReader, Ending, PeerStreams};

/// Event produced by input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A request (server) or a final response (client) is in the head store.
    Head { stream: u64, end_stream: bool },
    /// Client: a response with a status of 1xx is in the head store; the final one is still to
    /// come.
    Informational { stream: u64 },
    /// A head over a limit (server: 431 or 414), or a malformed one where these are answered (400).
    /// The store has what fitted; a method or target that did not come is empty.
    HeadRefused {
        stream: u64,
        end_stream: bool,
        what: HeadRefusal,
    },
    /// Content. The end may come by itself, without any.
    Data {
        stream: u64,
        data: &'a [u8],
        end_stream: bool,
    },
    /// Trailers are in the head store. They end the peer's side of the stream.
    Trailers { stream: u64 },
    /// We give the stream up for what the peer did to it ([`Connection::stream_fault`] has the
    /// reason). The driver resets it and asks the peer to stop, with this code.
    Reset { stream: u64, code: ErrorCode },
    /// A unidirectional stream of no use: the driver asks the peer to stop, with this code.
    Stop { stream: u64, code: ErrorCode },
    /// A stream whose field section had to wait can go on: [`Connection::receive`] for it, with
    /// what was left of its input.
    Unblocked { stream: u64 },
    /// The peer will take no requests from this stream on. Client: those are gone and may be tried
    /// elsewhere.
    GoAway { first_refused: u64 },
}

/// Our streams beside those of requests. Each begins with its type, which is part of what is to be
/// sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    Control,
    Encoder,
    Decoder,
}

impl Outgoing {
    pub const ALL: [Outgoing; 3] = [Outgoing::Control, Outgoing::Encoder, Outgoing::Decoder];
}

pub struct Connection {
    role: Role,
    limits: Limits,
    /// We are a server and allow `:protocol` (RFC 9220).
    extended_connect: bool,
    /// Once they have come.
    peer: Option<PeerSettings>,
    decoder: Decoder,
    encoder: Encoder,
    streams: StreamTable<Stream>,
    peer_streams: PeerStreams,
    control: ControlReader,
    /// Streams whose field sections wait for the table.
    blocked: Vec<u64>,
    /// Those that can go on and of which the driver has not been told.
    unblocked: VecDeque<u64>,
    /// Bytes of field sections that streams hold.
    waiting_section_bytes: usize,
    /// PRIORITY_UPDATE for streams that are still to come.
    idle_priorities: PriorityNotes,
    floods: Floods,
    control_out: Vec<u8>,
    /// The encoder and decoder streams have been begun: their type was sent.
    encoder_begun: bool,
    decoder_begun: bool,
    ending: Ending,
    /// The lowest request stream that has not been opened.
    next_request: u64,
    /// Identifier in the peer's last GOAWAY.
    peer_goaway: Option<u64>,
    max_push_id: Option<u64>,
    stream_fault: Option<(u64, Reason)>,
    fault: Option<ConnectionError>,
}

impl Connection {
    /// `extended_connect`: whether CONNECT may come with `:protocol` (RFC 9220 section 3).
    pub fn server(limits: Limits, extended_connect: bool) -> Connection {
        Connection::new(Role::Server, limits, extended_connect)
    }

    pub fn client(limits: Limits) -> Connection {
        Connection::new(Role::Client, limits, false)
    }

    /// SETTINGS are in the output at once (RFC 9114 section 6.2.1).
    fn new(role: Role, limits: Limits, extended_connect: bool) -> Connection {
        let mut control_out = vec![stream_type::CONTROL as u8];
        settings::write(&limits, role, extended_connect, &mut control_out);
        Connection {
            role,
            limits,
            extended_connect,
            peer: None,
            decoder: Decoder::new(limits.table_bytes as usize),
            encoder: Encoder::new(),
            streams: StreamTable::new(),
            peer_streams: PeerStreams::default(),
            control: ControlReader::default(),
            blocked: Vec::new(),
            unblocked: VecDeque::new(),
            waiting_section_bytes: 0,
            idle_priorities: PriorityNotes::default(),
            floods: Floods::default(),
            control_out,
            encoder_begun: false,
            decoder_begun: false,
            ending: Ending::No,
            next_request: 0,
            peer_goaway: None,
            max_push_id: None,
            stream_fault: None,
            fault: None,
        }
    }

    /// The peer has opened a stream, which QUIC says in the order of their identifiers. With a
    /// code: it is not taken, the driver resets it (or asks to stop it) with that.
    pub fn opened(&mut self, stream: u64) -> Result<Option<ErrorCode>, ConnectionError> {
        match (self.role, stream & 3) {
            (Role::Server, 0) => Ok(self.request_opened(stream).err().map(Reason::code)),
            (Role::Server, 2) | (Role::Client, 3) => {
                self.peer_streams.opened(stream);
                Ok(None)
            }
            // RFC 9114 section 6.1.
            (Role::Client, 1) => Err(self.fail(Reason::ServerOpenedStream)),
            _ => Ok(None),
        }
    }

    /// Looks at the next bytes that came on a stream of the peer's, or on a request stream of ours;
    /// `fin`: they are the last. Returns how many were used and what came of them. To be called
    /// again with the rest until it returns nothing and uses nothing; if bytes are left then, the
    /// stream waits for [`Event::Unblocked`], and the driver keeps them. Empty input is no error.
    /// After an error, with whose code the connection is to be closed, nothing more is read.
    ///
    /// `now_ms`: any clock that does not run back.
    pub fn receive<'a>(
        &mut self,
        stream: u64,
        bytes: &'a [u8],
        fin: bool,
        now_ms: u64,
        head: &mut HeadStore,
    ) -> Result<(usize, Option<Event<'a>>), ConnectionError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let outcome = match stream & 2 {
            0 => self.receive_request_stream(stream, bytes, fin, &mut Turn { now_ms, head }),
            _ => self.receive_unidirectional(stream, bytes, fin, now_ms),
        };
        outcome
            .and_then(|done| self.check_output().map(|()| done))
            .map_err(|reason| self.fail(reason))
    }

    /// Returns the pending bytes of one of our own streams. The driver opens the stream when it
    /// first has bytes, and reports what it took by calling [`Connection::sent`].
    pub fn outgoing(&mut self, which: Outgoing) -> &[u8] {
        let (begun, kind, out) = match which {
            Outgoing::Control => return &self.control_out,
            Outgoing::Encoder => (
                &mut self.encoder_begun,
                stream_type::ENCODER,
                self.encoder.output(),
            ),
            Outgoing::Decoder => (
                &mut self.decoder_begun,
                stream_type::DECODER,
                self.decoder.output(),
            ),
        };
        if !out.is_empty() && !std::mem::replace(begun, true) {
            out.insert(0, kind as u8);
        }
        out
    }

    /// So many bytes of [`Connection::outgoing`] have been written to their stream.
    pub fn sent(&mut self, which: Outgoing, bytes: usize) {
        let out = match which {
            Outgoing::Control => &mut self.control_out,
            Outgoing::Encoder => self.encoder.output(),
            Outgoing::Decoder => self.decoder.output(),
        };
        out.drain(..bytes.min(out.len()));
    }

    /// True if any of [`Outgoing`] has something to send.
    pub fn has_outgoing(&self) -> bool {
        !self.control_out.is_empty() || self.encoder.output_bytes() > 0 || self.decoder.has_output()
    }

    /// Request streams with an entry: those that at least one side has not ended.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// True if more can be sent on a stream.
    pub fn is_open(&self, stream: u64) -> bool {
        self.streams
            .get(stream)
            .is_some_and(|stream| !stream.local_ended)
    }

    /// The reason of the last stream error of ours, for the log.
    pub fn stream_fault(&self) -> Option<(u64, Reason)> {
        self.stream_fault
    }

    /// The peer's SETTINGS have come.
    pub fn is_peer_known(&self) -> bool {
        self.peer.is_some()
    }

    /// Client: whether `:protocol` may be sent (RFC 9220 section 3).
    pub fn peer_allows_extended_connect(&self) -> bool {
        self.peer.is_some_and(|peer| peer.connect_protocol)
    }

    /// The peer's SETTINGS_H3_DATAGRAM (RFC 9297 section 2.1.1).
    pub fn peer_allows_datagrams(&self) -> bool {
        self.peer.is_some_and(|peer| peer.datagrams)
    }

    /// The peer's SETTINGS_MAX_FIELD_SECTION_SIZE, an advice (RFC 9114 section 4.2.2).
    pub fn peer_field_section_bytes_max(&self) -> Option<u64> {
        self.peer.and_then(|peer| peer.field_section_bytes_max)
    }

    /// Gives back memory that streams of the past needed; for a connection that has been idle for a
    /// while.
    pub fn trim(&mut self) {
        self.streams.trim();
        self.idle_priorities.trim();
        self.control_out.shrink_to_fit();
        self.encoder.output().shrink_to_fit();
        self.decoder.output().shrink_to_fit();
        self.blocked.shrink_to_fit();
        self.unblocked.shrink_to_fit();
    }

    fn request_opened(&mut self, stream: u64) -> Result<(), Reason> {
        self.next_request = self.next_request.max(stream + 4);
        let priority = self.idle_priorities.take(stream);
        if self.is_refusing(stream) {
            return Err(Reason::ShuttingDown);
        }
        if self.streams.len() >= self.limits.concurrent_streams_max as usize {
            return Err(Reason::TooManyStreams);
        }
        let opened = Stream {
            is_priority_told: priority.is_some(),
            ..Stream::new()
        };
        self.streams
            .insert(stream, priority.unwrap_or_default(), opened);
        Ok(())
    }

    /// True if the driver still has to do with a stream. A server that has answered is done, unless
    /// both sides talk.
    fn is_of_interest(&self, stream: u64) -> bool {
        self.streams.get(stream).is_some_and(|stream| {
            self.role == Role::Client || !stream.local_ended || stream.is_tunnel
        })
    }

    /// Checks the output limit: a peer that sends requests and does not read makes the output grow.
    fn check_output(&self) -> Result<(), Reason> {
        let bytes = self.control_out.len() + self.decoder.output_bytes();
        if bytes > self.limits.control_bytes_max {
            Err(Reason::RepliesUnread)
        } else {
            Ok(())
        }
    }

    /// A connection error (RFC 9114 section 8).
    #[cold]
    fn fail(&mut self, reason: Reason) -> ConnectionError {
        let fault = ConnectionError::from(reason);
        self.fault = Some(fault);
        fault
    }

    fn count_reset(&mut self, now_ms: u64) -> Result<(), Reason> {
        let fits = self.floods.resets.take(
            self.limits.resets_max,
            self.limits.resets_per_second,
            now_ms,
        );
        if fits {
            Ok(())
        } else {
            Err(Reason::TooManyResets)
        }
    }

    fn count_empty_frame(&mut self, now_ms: u64) -> Result<(), Reason> {
        let limits = &self.limits;
        let fits = self.floods.empty_frames.take(
            limits.empty_frames_max,
            limits.empty_frames_per_second,
            now_ms,
        );
        if fits {
            Ok(())
        } else {
            Err(Reason::TooManyEmptyFrames)
        }
    }
}

/// Context that the driver passes to one call.
struct Turn<'t> {
    now_ms: u64,
    head: &'t mut HeadStore,
}

#[cfg(any(test, debug_assertions))]
impl Connection {
    /// Checks what must hold between any two calls; for tests and fuzzing, in builds with debug
    /// assertions.
    pub fn check_invariants(&self) {
        self.streams.check_invariants();
        assert!(
            self.role == Role::Client
                || self.streams.len() <= self.limits.concurrent_streams_max as usize
        );
        let waiting: usize = self
            .streams
            .iter()
            .map(|(_, stream)| stream.section.len())
            .sum();
        assert_eq!(waiting, self.waiting_section_bytes);
        assert!(waiting <= self.limits.waiting_section_bytes_max);
        assert!(self.blocked.len() <= self.limits.blocked_streams_max as usize);
        for (id, stream) in self.streams.iter() {
            assert!(!(stream.remote_ended && stream.local_ended), "{stream:?}");
            assert!(self.role == Role::Client || id < self.next_request);
        }
        assert!(self.decoder.table_bytes() <= self.limits.table_bytes as usize);
    }
}

#[cfg(test)]
mod tests;
