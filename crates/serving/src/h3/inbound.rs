//! QUIC events to operations on the exchanges.
//!
//! Called by: `turn`.
//! Caveat: a stream is read only as long as its content is consumed; unread content stays with
//! QUIC, whose flow control then stops the client.

use super::{
    connection::{Connection, Ending},
    incoming::Incoming,
};
use crate::{mux::StreamId, request::Cause};
use bytes::{Buf, Bytes};
use saker_http::Status;
use saker_http3::{ConnectionError, ErrorCode, Event, HeadRefusal, HeadStore};
use saker_quic::{Lost, Read};
use saker_telemetry::{Metric, error_log, message};
use std::{collections::VecDeque, rc::Rc};

/// Read from one stream at a time.
const READ_BYTES: usize = 64 << 10;

impl Connection {
    /// Everything that has happened since the last turn.
    pub(super) fn take_events(&mut self, quic: &mut saker_quic::Connection) -> Option<Lost> {
        use saker_quic::Event;
        while let Some(event) = quic.poll_event() {
            match event {
                Event::Hello | Event::MayOpen { .. } => {}
                Event::Delivered(_) => self.exchanges.progress = true,
                Event::Established => self.ask_what_waited(quic),
                Event::Opened { bidirectional } => {
                    while let Some(stream) = quic.accept(bidirectional) {
                        self.opened(stream, quic);
                    }
                }
                Event::Readable(stream) => self.read(stream, quic),
                Event::Writable(stream) => {
                    self.exchanges.progress = true;
                    if self.out.unblock(stream, quic) {
                        self.machine.set_ready(stream, true);
                    }
                }
                Event::Stopped { stream, .. } => self.stopped(stream, quic),
                Event::Lost(lost) => return Some(lost),
            }
        }
        None
    }

    /// Continues with streams whose content has been read, or whose field section is no longer
    /// blocked.
    pub(super) fn read_on(&mut self, quic: &mut saker_quic::Connection) {
        for stream in std::mem::take(&mut self.out.resumed) {
            self.read(stream, quic);
        }
    }

    fn opened(&mut self, stream: u64, quic: &mut saker_quic::Connection) {
        match self.machine.opened(stream) {
            Ok(None) => {
                let (has_head, behind) = (is_unidirectional(stream), VecDeque::new());
                self.incoming.insert(
                    stream,
                    Incoming {
                        began_ms: saker_net::clock::turn_ms(),
                        has_head,
                        behind,
                        has_ended: false,
                    },
                );
                self.read(stream, quic);
            }
            Ok(Some(code)) => {
                quic.stop(stream, code.into());
                quic.reset(stream, code.into());
            }
            Err(fault) => self.fault(&fault),
        }
    }

    fn read(&mut self, stream: u64, quic: &mut saker_quic::Connection) {
        let worker = Rc::clone(&self.exchanges.session.worker);
        let mut buffers = worker.buffers.borrow_mut();
        let head = &mut buffers.head;
        while self.may_go_on() && self.digest_behind(stream, head, quic) {
            let mut chunks = std::mem::take(&mut self.chunks);
            let read = quic.read(stream, READ_BYTES, |chunk| chunks.push_back(chunk));
            let is_used = self.digest(stream, &mut chunks, read == Read::End, head, quic);
            if let Some(incoming) = self.incoming.get_mut(&stream).filter(|_| !is_used) {
                incoming.behind.append(&mut chunks);
                incoming.has_ended = read == Read::End;
            }
            chunks.clear();
            self.chunks = chunks;
            match read {
                Read::More => {}
                Read::Blocked => return,
                Read::End if !is_used => return,
                Read::End | Read::Gone => return drop(self.incoming.remove(&stream)),
                Read::Reset(_) => return self.given_up(stream, quic),
            }
        }
    }

    fn may_go_on(&self) -> bool {
        self.ending.as_ref().is_none_or(|ending| ending.is_graceful)
    }

    /// Processes bytes that were read before. Returns whether more can be read.
    fn digest_behind(
        &mut self,
        stream: u64,
        head: &mut HeadStore,
        quic: &mut saker_quic::Connection,
    ) -> bool {
        if self.exchanges.is_upload_full(StreamId(stream)) || self.early.holds(stream) {
            return false;
        }
        let Some(incoming) = self.incoming.get_mut(&stream) else {
            return false;
        };
        if incoming.behind.is_empty() {
            return true;
        }
        let (mut behind, has_ended) = (std::mem::take(&mut incoming.behind), incoming.has_ended);
        let is_used = self.digest(stream, &mut behind, has_ended, head, quic);
        if is_used && has_ended {
            self.incoming.remove(&stream);
            return false;
        }
        if let Some(incoming) = self.incoming.get_mut(&stream) {
            incoming.behind = behind;
        }
        is_used
    }

    /// Shows bytes to the machine. `false`: some are left, and wait with their stream.
    fn digest(
        &mut self,
        stream: u64,
        chunks: &mut VecDeque<Bytes>,
        ends: bool,
        head: &mut HeadStore,
        quic: &mut saker_quic::Connection,
    ) -> bool {
        let mut told_end = false;
        while let Some(mut chunk) = chunks.pop_front() {
            told_end = ends && chunks.is_empty();
            let used = self.receive(stream, &chunk, told_end, head, quic);
            // Bytes after a request that waits for the handshake wait with it, and so does the end
            // of the stream.
            if used < chunk.len() || self.early.holds(stream) {
                chunk.advance(used);
                chunks.push_front(chunk);
                return false;
            }
        }
        if ends && !told_end {
            self.receive(stream, &[], true, head, quic);
        }
        true
    }

    /// Returns how many bytes were used.
    fn receive(
        &mut self,
        stream: u64,
        bytes: &[u8],
        ends: bool,
        head: &mut HeadStore,
        quic: &mut saker_quic::Connection,
    ) -> usize {
        let mut at = 0;
        loop {
            match self.machine.receive(
                stream,
                &bytes[at..],
                ends,
                saker_net::clock::turn_ms(),
                head,
            ) {
                Ok((0, None)) => return at,
                Ok((used, event)) => {
                    at += used;
                    event
                        .into_iter()
                        .for_each(|event| self.obey(event, head, quic));
                    if self.early.holds(stream) {
                        return at;
                    }
                }
                Err(fault) => {
                    self.fault(&fault);
                    return bytes.len();
                }
            }
        }
    }

    fn obey(&mut self, event: Event<'_>, head: &HeadStore, quic: &mut saker_quic::Connection) {
        match event {
            Event::Head { stream, .. } if head.has_foreign_scheme() => {
                self.note_head(stream);
                let (exchanges, mut wire) = self.with_wire(quic);
                let id = StreamId(stream);
                exchanges.refuse(id, Status::BAD_REQUEST, head.view(), &mut wire);
            }
            Event::Head { stream, end_stream } => {
                self.note_head(stream);
                self.ask(stream, end_stream, head.view(), head.protocol(), quic);
            }
            Event::HeadRefused { stream, what, .. } => {
                self.note_head(stream);
                let status = match what {
                    HeadRefusal::Target => Status::URI_TOO_LONG,
                    HeadRefusal::Fields => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
                    HeadRefusal::Malformed(_) => Status::BAD_REQUEST,
                };
                let (exchanges, mut wire) = self.with_wire(quic);
                exchanges.refuse(StreamId(stream), status, head.view(), &mut wire);
            }
            Event::Data {
                stream,
                data,
                end_stream,
            } => {
                let (exchanges, mut wire) = self.with_wire(quic);
                exchanges.content(StreamId(stream), data, data.len(), end_stream, &mut wire);
            }
            Event::Trailers { stream } => self.exchanges.upload_end(StreamId(stream), head.view()),
            Event::Reset { stream, code } => self.give_up(stream, code, quic),
            Event::Stop { stream, code } => {
                self.incoming.remove(&stream);
                quic.stop(stream, code.into());
            }
            Event::Unblocked { stream } => self.unblocked(stream),
            // Clients send no responses, and pushes are not used.
            Event::Informational { .. } | Event::GoAway { .. } => {}
        }
    }

    /// Its section had all that was to come of it, or there is more behind.
    fn unblocked(&mut self, stream: u64) {
        let now_ms = saker_net::clock::turn_ms();
        let ended = || Incoming {
            began_ms: now_ms,
            has_head: false,
            behind: VecDeque::new(),
            has_ended: true,
        };
        let incoming = self.incoming.entry(stream).or_insert_with(ended);
        if incoming.behind.is_empty() {
            // An empty piece makes the machine run, even if no input is left.
            incoming.behind.push_back(Bytes::new());
        }
        self.out.resumed.push(stream);
    }

    fn note_head(&mut self, stream: u64) {
        if let Some(incoming) = self.incoming.get_mut(&stream) {
            incoming.has_head = true;
        }
    }

    fn fault(&mut self, fault: &ConnectionError) {
        self.exchanges
            .session
            .worker
            .counters
            .increment(Metric::Http3ConnectionErrors);
        error_log::log_about(
            &message::HTTP3_ERROR,
            &*self.exchanges.session.connection,
            format_args!("{fault}"),
        );
        self.ending = Some(Ending {
            cause: Cause::Rejected,
            code: fault.code,
            is_graceful: false,
            due_ms: 0,
        });
    }

    /// Ends a stream both ways.
    fn give_up(&mut self, stream: u64, code: ErrorCode, quic: &mut saker_quic::Connection) {
        self.incoming.remove(&stream);
        self.early.forget(stream);
        self.out.forget(stream);
        quic.reset(stream, code.into());
        quic.stop(stream, code.into());
        let (exchanges, mut wire) = self.with_wire(quic);
        exchanges.reset(StreamId(stream), &mut wire);
    }

    /// RESET_STREAM: the client has given up its request, and with it wants no answer (RFC 9114
    /// section 4.1.1).
    fn given_up(&mut self, stream: u64, quic: &mut saker_quic::Connection) {
        let outcome = self
            .machine
            .stream_reset(stream, saker_net::clock::turn_ms());
        self.cancelled(stream, outcome, quic);
    }

    /// STOP_SENDING: no answer is wanted.
    fn stopped(&mut self, stream: u64, quic: &mut saker_quic::Connection) {
        let outcome = self
            .machine
            .stream_stopped(stream, saker_net::clock::turn_ms());
        self.cancelled(stream, outcome, quic);
    }

    fn cancelled(
        &mut self,
        stream: u64,
        outcome: Result<bool, ConnectionError>,
        quic: &mut saker_quic::Connection,
    ) {
        match outcome {
            Ok(_) if is_unidirectional(stream) => drop(self.incoming.remove(&stream)),
            Ok(_) => self.give_up(stream, ErrorCode::RequestCancelled, quic),
            Err(fault) => self.fault(&fault),
        }
    }
}

/// RFC 9000 section 2.1.
fn is_unidirectional(stream: u64) -> bool {
    stream & 2 != 0
}
