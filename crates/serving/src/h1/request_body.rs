//! The body of an HTTP/1 request, as the handler reads it and as the driver drains the rest.
//!
//! Called by: handlers, through `RequestBody`; `dispatch`, after the response.
//! Caveat: `100 Continue` is sent on the first read, so a request that is refused never causes an
//! upload (RFC 9110 section 10.1.1).

use crate::{
    io::Io,
    request::{Accounts, BodyTime, Direction, Pace},
    worker::Worker,
};
use saker_config::model::Throttle;
use saker_http::{Fields, Status};
use saker_http1::{BodyFraming, ChunkLimits, ChunkedDecoder, Decoded, RequestLimits};
use saker_net::Deadline;
use saker_pipeline::{BodyError, Chunk, ReadBuffer, RequestBody};
use saker_telemetry::{Metric, error_log, message};
use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context, Poll, ready},
};

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// State of the body, shared by the connection and the reader.
pub struct BodyState {
    framing: Framing,
    declared: Option<u64>,
    received: u64,
    /// 0: no limit.
    bytes_max: u64,
    /// The client waits for `100 Continue`, which is sent when the body is first read.
    awaits_continue: bool,
    /// It is sent even if content has come by then.
    pub always_continues: bool,
    failed: Option<BodyError>,
    trailers: Option<Fields>,
    /// A copy for the log, because a reader takes the original.
    trailers_to_log: Option<Fields>,
    pace: Option<Box<Pace>>,
    /// It is the pace that is waited for, not the client.
    held: bool,
}

enum Framing {
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    End,
}

/// States that a thread keeps.
const SPARE_COUNT_MAX: usize = 32;

thread_local! {
    static SPARE: RefCell<Vec<Rc<RefCell<BodyState>>>> = const { RefCell::new(Vec::new()) };
}

impl BodyState {
    /// Shares the state, in memory that an earlier request has used.
    pub fn shared(self) -> Rc<RefCell<BodyState>> {
        match SPARE.with_borrow_mut(Vec::pop) {
            Some(spare) => {
                spare.replace(self);
                spare
            }
            None => Rc::new(RefCell::new(self)),
        }
    }

    /// Keeps the memory for another request, unless a reader still has it or it has more of its
    /// own.
    pub fn recycle(state: Rc<RefCell<BodyState>>) {
        if Rc::strong_count(&state) > 1 || state.borrow().has_memory() {
            return;
        }
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < SPARE_COUNT_MAX {
                spare.push(state);
            }
        });
    }

    /// `limits`: of the connection's heads; trailers are under them, too.
    pub fn new(framing: BodyFraming, expects_continue: bool, limits: &RequestLimits) -> BodyState {
        let (framing, declared) = match framing {
            BodyFraming::None | BodyFraming::Length(0) => (Framing::End, Some(0)),
            BodyFraming::Length(length) => (Framing::Length(length), Some(length)),
            BodyFraming::Chunked => (
                Framing::Chunked(Box::new(ChunkedDecoder::new(chunk_limits(limits)))),
                None,
            ),
        };
        BodyState {
            framing,
            declared,
            received: 0,
            bytes_max: 0,
            awaits_continue: expects_continue,
            always_continues: false,
            failed: None,
            trailers: None,
            trailers_to_log: None,
            pace: None,
            held: false,
        }
    }

    fn has_memory(&self) -> bool {
        self.pace.is_some()
            || self.trailers.is_some()
            || self.trailers_to_log.is_some()
            || matches!(self.framing, Framing::Chunked(_))
    }

    /// Limits the rest of the body.
    pub fn limit(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    pub fn is_end(&self) -> bool {
        matches!(self.framing, Framing::End)
    }

    /// Counts content against its limit and the pace.
    fn take(&mut self, chunk: Chunk) -> Result<Chunk, BodyError> {
        let bytes = chunk.len() as u64;
        if let Some(pace) = &mut self.pace {
            pace.charge(bytes);
        }
        self.received += bytes;
        if self.is_over_limit() {
            return Err(BodyError::TooLarge);
        }
        Ok(chunk)
    }

    /// The size of a chunk counts as soon as it is known: its content need not come.
    fn is_over_limit(&self) -> bool {
        let announced = match &self.framing {
            Framing::Chunked(decoder) => decoder.chunk_left(),
            Framing::Length(_) | Framing::End => 0,
        };
        self.bytes_max > 0 && self.received.saturating_add(announced) > self.bytes_max
    }

    /// The response begins: nothing else may be said to the client any more.
    pub fn begin_response(&mut self) {
        self.awaits_continue = false;
    }

    /// Bytes of content so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    pub fn take_trailers_to_log(&mut self) -> Option<Fields> {
        self.trailers_to_log.take()
    }

    pub fn failed(&self) -> Option<BodyError> {
        self.failed
    }

    /// Returns true if reading the rest is cheap enough to keep the connection: it is short, and
    /// the client is already sending it.
    pub fn is_cheap_to_drain(&self, drain_bytes_max: u64) -> bool {
        let waits_for_us = self.awaits_continue;
        self.failed.is_none()
            && match &self.framing {
                Framing::End => true,
                Framing::Length(left) => !waits_for_us && *left <= drain_bytes_max,
                Framing::Chunked(_) => !waits_for_us,
            }
    }
}

fn chunk_limits(limits: &RequestLimits) -> ChunkLimits {
    ChunkLimits {
        trailer_bytes_max: limits.head_bytes_max,
        trailer_count_max: limits.header_count_max,
        trailer_line_bytes_max: limits.field_bytes_max,
        ..ChunkLimits::default()
    }
}

/// The handler's end of it.
pub struct Http1Body {
    pub io: Rc<RefCell<Io>>,
    pub worker: Rc<Worker>,
    /// Made when the client is first waited for. Not the connection's: the response may be on its
    /// way at the same time, with a limit of its own.
    pub deadline: Option<Rc<Deadline>>,
    pub state: Rc<RefCell<BodyState>>,
    pub time: BodyTime,
    pub accounts: Accounts,
}

impl RequestBody for Http1Body {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let mut state = self.state.borrow_mut();
        if let Some(error) = state.failed {
            return Poll::Ready(Some(Err(error)));
        }
        let polled = self.poll_next(cx, &mut state);
        match polled {
            Poll::Pending if state.held => {
                self.disarm();
                Poll::Pending
            }
            Poll::Pending => {
                let deadline = self
                    .deadline
                    .get_or_insert_with(|| self.worker.deadlines.add());
                if deadline.is_over() {
                    error_log::log(&message::BODY_TIMEOUT, format_args!(""));
                    state.failed = Some(BodyError::TimedOut);
                    return Poll::Ready(Some(Err(BodyError::TimedOut)));
                }
                deadline.arm_once(
                    self.time
                        .due_ms(saker_net::clock::turn_ms(), state.received),
                );
                deadline.register(cx);
                Poll::Pending
            }
            Poll::Ready(result) => {
                self.disarm();
                if let Err(error) = &result {
                    state.failed = Some(*error);
                }
                Poll::Ready(result.transpose())
            }
        }
    }

    fn length(&self) -> Option<u64> {
        self.state.borrow().declared
    }

    fn is_end(&self) -> bool {
        self.state.borrow().is_end()
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.state.borrow_mut().trailers.take()
    }

    fn throttle(&mut self, throttle: &Throttle, site: usize) {
        self.state.borrow_mut().pace = Pace::new(Direction::In, throttle, &self.accounts, site);
    }

    fn limit(&mut self, bytes_max: u64) {
        self.state.borrow_mut().limit(bytes_max);
    }
}

impl Drop for Http1Body {
    fn drop(&mut self) {
        if let Some(deadline) = self.deadline.take() {
            self.worker.deadlines.remove(&deadline);
        }
    }
}

impl Http1Body {
    fn disarm(&self) {
        if let Some(deadline) = &self.deadline {
            deadline.disarm();
        }
    }

    fn poll_next(
        &self,
        cx: &mut Context<'_>,
        state: &mut BodyState,
    ) -> Poll<Result<Option<Chunk>, BodyError>> {
        loop {
            if state.is_end() {
                return Poll::Ready(Ok(None));
            }
            ready!(self.poll_interim(cx, state))?;
            if let Some(pace) = &mut state.pace {
                let polled = pace.poll_allowance(cx);
                state.held = polled.is_pending();
                ready!(polled);
            }
            if self.io.borrow().input.is_empty() {
                if let Framing::Length(left) = state.framing {
                    return self.poll_content(cx, state, left).map_ok(Some);
                }
                ready!(self.poll_read(cx))?;
            }
            if let Some(chunk) = self.decode(state)? {
                return Poll::Ready(Ok(Some(chunk)));
            }
        }
    }

    fn poll_interim(
        &self,
        cx: &mut Context<'_>,
        state: &mut BodyState,
    ) -> Poll<Result<(), BodyError>> {
        let mut io = self.io.borrow_mut();
        let is_due = io.input.is_empty() || state.always_continues;
        if std::mem::take(&mut state.awaits_continue) && is_due {
            io.interim.extend_from_slice(CONTINUE);
        }
        io.poll_interim(cx).map_err(|_| BodyError::Gone)
    }

    fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        let mut buffers = self.worker.buffers.borrow_mut();
        let mut io = self.io.borrow_mut();
        match ready!(io.transport.poll_read(cx, &mut buffers.read)) {
            Ok(0) | Err(_) => Poll::Ready(Err(BodyError::Gone)),
            Ok(bytes) => {
                self.worker.counters.add(Metric::BytesIn, bytes as u64);
                io.input.extend_from_slice(&buffers.read[..bytes]);
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Reads content, `left` bytes of which are still to come, to where it stays until it has gone.
    fn poll_content(
        &self,
        cx: &mut Context<'_>,
        state: &mut BodyState,
        left: u64,
    ) -> Poll<Result<Chunk, BodyError>> {
        let mut buffer = ReadBuffer::take();
        let mut buffers = self.worker.buffers.borrow_mut();
        let mut io = self.io.borrow_mut();
        let read = match buffer.unshared() {
            Some(room) => {
                let scratch = &mut buffers.read;
                ready!(io.transport.poll_read_behind(cx, room, scratch)).unwrap_or(0)
            }
            None => 0,
        };
        if read == 0 {
            return Poll::Ready(Err(BodyError::Gone));
        }
        self.worker.counters.add(Metric::BytesIn, read as u64);
        let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(read);
        io.input = buffer[bytes..].to_vec();
        state.framing = match left - bytes as u64 {
            0 => Framing::End,
            left => Framing::Length(left),
        };
        Poll::Ready(state.take(Chunk::of_read(&buffer, 0..bytes)))
    }

    /// Takes content out of the unused input; `None`: more is needed.
    fn decode(&self, state: &mut BodyState) -> Result<Option<Chunk>, BodyError> {
        let mut io = self.io.borrow_mut();
        let (content, consumed) = match &mut state.framing {
            Framing::End => return Ok(None),
            Framing::Length(left) => {
                let bytes = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(io.input.len());
                *left -= bytes as u64;
                if *left == 0 {
                    state.framing = Framing::End;
                }
                (0..bytes, bytes)
            }
            Framing::Chunked(decoder) => match decoder.decode(&io.input) {
                Err(reject) if reject.status == Status::REQUEST_HEADER_FIELDS_TOO_LARGE => {
                    return Err(BodyError::TrailersTooLarge);
                }
                Err(_) => return Err(BodyError::Malformed),
                Ok(Decoded::NeedMore) => (0..0, io.input.len()),
                Ok(Decoded::Data {
                    consumed_before,
                    len,
                }) => (
                    consumed_before..consumed_before + len,
                    consumed_before + len,
                ),
                Ok(Decoded::End { consumed }) => {
                    state.trailers =
                        Some(decoder.trailers().clone()).filter(|trailers| !trailers.is_empty());
                    state.trailers_to_log.clone_from(&state.trailers);
                    state.framing = Framing::End;
                    (0..0, consumed)
                }
            },
        };
        let chunk = (!content.is_empty()).then(|| Chunk::new(io.input[content].into()));
        io.consume(consumed);
        match chunk {
            Some(chunk) => state.take(chunk).map(Some),
            None if state.is_over_limit() => Err(BodyError::TooLarge),
            None => Ok(None),
        }
    }
}
