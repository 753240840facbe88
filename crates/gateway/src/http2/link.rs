//! A connection that requests share, as they and its driver see it.
//!
//! Requests put frames into `out` and wake the driver; the driver puts what came into the input of
//! its stream and wakes the request. Content is bounded both ways: what may be sent by the windows
//! and by the room in `out`, what has come by the stream's window, which is opened again when the
//! request takes it, so that a slow client slows its own stream only.

use super::waiting::Waiting;
use crate::hints::HINTS_MAX;
use foldhash::fast::RandomState;
use saker_cgi::ResponseHead;
use saker_http::Fields;
use saker_http2::{Connection, ErrorCode, HeadEncoder, Limits, OpenError, StreamId};
use saker_net::clock;
use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque},
    io,
    rc::Rc,
    task::{Context, Waker},
};

/// Streams on one connection, however many the server allows.
pub const STREAMS_MAX: usize = 128;
/// Receive window of one stream, beyond what its request has consumed.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// Frames of content are only made while there are fewer bytes to be sent.
pub const OUT_BYTES_MAX: usize = 64 << 10;

/// A server that does not read what it is sent gets no more requests.
const BACKLOG_BYTES_MAX: usize = 4 * OUT_BYTES_MAX;

/// No stream's unread content shuts the connection's window for the others.
fn limits() -> Limits {
    Limits {
        stream_window_bytes: STREAM_WINDOW_BYTES,
        connection_window_bytes: STREAM_WINDOW_BYTES * STREAMS_MAX as u32,
        // A server that we asked for many things may end many, and says so in small frames.
        resets_max: 10_000,
        resets_per_second: 1_000,
        window_updates_max: 20_000,
        window_updates_per_second: 20_000,
        empty_frames_max: 10_000,
        empty_frames_per_second: 1_000,
        ..Limits::default()
    }
}

/// Event received for a request.
pub enum StreamEvent {
    Head(ResponseHead),
    Content(Vec<u8>),
    Trailers(Fields),
    End,
    Lost(Lost),
}

/// Why there will be no (more of a) response.
#[derive(Clone, Debug)]
pub enum Lost {
    /// The server has not begun with it (RFC 9113 section 8.7).
    Unprocessed,
    Reset(ErrorCode),
    /// The server broke the rules.
    Fault(&'static str),
    Io(io::ErrorKind),
}

/// Events received for a request.
#[derive(Default)]
pub struct StreamInput {
    pub heard: VecDeque<StreamEvent>,
    /// Fields of 103s before the head; no more than would be passed on.
    pub hints: Vec<Fields>,
    waker: Option<Waker>,
    wants_room: bool,
}

impl StreamInput {
    pub fn put(&mut self, heard: StreamEvent) {
        self.heard.push_back(heard);
        self.wake();
    }

    pub fn put_hints(&mut self, fields: Fields) {
        if self.hints.len() < HINTS_MAX {
            self.hints.push(fields);
            self.wake();
        }
    }

    pub fn register(&mut self, cx: &Context<'_>) {
        self.waker = Some(cx.waker().clone());
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

pub struct Inner {
    pub machine: Connection,
    /// Frames to be sent.
    pub out: Vec<u8>,
    pub streams: HashMap<StreamId, Rc<RefCell<StreamInput>>, RandomState>,
    driver: Option<Waker>,
    /// Time at which the last byte arrived.
    pub heard_ms: u64,
    idle_since_ms: u64,
    /// No new streams.
    is_retired: bool,
    has_served: bool,
}

pub struct Link {
    pub inner: RefCell<Inner>,
    pub waiting: Rc<Waiting>,
    /// Epoch of the backend at creation.
    pub epoch: u32,
    /// It serves one request only.
    is_single: Cell<bool>,
}

impl Link {
    pub fn new(waiting: Rc<Waiting>, epoch: u32, is_single: bool) -> Link {
        let (mut machine, mut out, now_ms) = (
            Connection::client(limits()),
            Vec::with_capacity(256),
            clock::monotonic_ms(),
        );
        machine.begin(&mut out);
        let inner = Inner {
            machine,
            out,
            streams: HashMap::default(),
            driver: None,
            heard_ms: now_ms,
            idle_since_ms: now_ms,
            is_retired: false,
            has_served: false,
        };
        Link {
            inner: RefCell::new(inner),
            waiting,
            epoch,
            is_single: Cell::new(is_single),
        }
    }

    /// Number of more requests it takes.
    pub fn room(&self) -> usize {
        let inner = self.inner.borrow();
        let own = STREAMS_MAX.saturating_sub(inner.streams.len());
        let takes_none = inner.is_retired || inner.out.len() >= BACKLOG_BYTES_MAX;
        if takes_none {
            0
        } else {
            inner.machine.streams_available().min(own)
        }
    }

    /// A request on a stream of its own. `ends`: it has no content.
    pub fn open(
        self: &Rc<Link>,
        ends: bool,
        encode: impl FnOnce(&mut HeadEncoder<'_>),
    ) -> Result<Stream, OpenError> {
        let mut guard = self.inner.borrow_mut();
        let inner = &mut *guard;
        let id = inner.machine.open(ends, &mut inner.out, encode)?;
        let input = Rc::<RefCell<StreamInput>>::default();
        inner.streams.insert(id, Rc::clone(&input));
        inner.wake_driver();
        let is_reused = std::mem::replace(&mut inner.has_served, true);
        inner.is_retired |= self.is_single.get();
        Ok(Stream {
            link: Rc::clone(self),
            id,
            input,
            is_reused,
        })
    }

    /// Handles a request's timeout. If nothing at all arrived for most of that time, the connection
    /// gets no new requests.
    pub fn suspect(&self, timeout_ms: u64) {
        let mut inner = self.inner.borrow_mut();
        if clock::monotonic_ms().saturating_sub(inner.heard_ms) > timeout_ms / 2 {
            inner.retire();
        }
    }

    /// Closes it if it has been idle too long, or belongs to what was there before. `true`: it may
    /// be forgotten.
    pub fn sweep(&self, now_ms: u64, kept_ms: u64, epoch: u32) -> bool {
        let mut inner = self.inner.borrow_mut();
        let is_idle =
            inner.streams.is_empty() && now_ms.saturating_sub(inner.idle_since_ms) >= kept_ms;
        if is_idle || self.epoch != epoch {
            inner.retire();
        }
        inner.is_retired
    }

    /// Ends the connection and reports the reason to all waiting requests.
    pub fn end(&self, lost: &Lost) {
        let mut inner = self.inner.borrow_mut();
        inner.is_retired = true;
        inner
            .streams
            .drain()
            .for_each(|(_, input)| input.borrow_mut().put(StreamEvent::Lost(lost.clone())));
        drop(inner);
        self.waiting.wake(1);
    }
}

impl Inner {
    pub fn register_driver(&mut self, cx: &Context<'_>) {
        self.driver = Some(cx.waker().clone());
    }

    fn wake_driver(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    fn retire(&mut self) {
        self.is_retired = true;
        if self.streams.is_empty() {
            self.machine.shut_down(&mut self.out);
        }
        self.wake_driver();
    }

    /// There may be room to send for those who wait for it.
    pub fn make_room(&mut self) {
        if self.out.len() >= OUT_BYTES_MAX {
            return;
        }
        for input in self.streams.values() {
            let mut input = input.borrow_mut();
            if std::mem::take(&mut input.wants_room) {
                input.wake();
            }
        }
    }

    /// Nothing more will come for that stream.
    pub fn forget(&mut self, id: StreamId) {
        self.streams.remove(&id);
        if self.streams.is_empty() {
            self.idle_since_ms = clock::monotonic_ms();
            if self.is_retired {
                self.retire();
            }
        }
    }
}

/// A request's end of its stream. Dropping it tells the server that the response is no longer
/// wanted.
pub struct Stream {
    pub link: Rc<Link>,
    id: StreamId,
    pub input: Rc<RefCell<StreamInput>>,
    /// The connection had served a request before.
    pub is_reused: bool,
}

impl Stream {
    /// The server still takes content.
    pub fn is_open(&self) -> bool {
        self.link.inner.borrow().machine.is_open(self.id)
    }

    /// True if content may be sent now; else the request is woken when that changes.
    pub fn has_room(&self) -> bool {
        let inner = self.link.inner.borrow();
        let has_room = inner.out.len() < OUT_BYTES_MAX && inner.machine.send_capacity(self.id) > 0;
        self.input.borrow_mut().wants_room = !has_room;
        has_room
    }

    /// Puts content before the driver; how much of it.
    pub fn send(&self, content: &[u8]) -> usize {
        let mut guard = self.link.inner.borrow_mut();
        let inner = &mut *guard;
        let granted = inner
            .machine
            .begin_data(self.id, content.len(), false, &mut inner.out);
        inner
            .out
            .extend_from_slice(content.get(..granted).unwrap_or_default());
        inner.wake_driver();
        granted
    }

    /// The content is over.
    pub fn end(&self, trailers: Option<Fields>) {
        let mut guard = self.link.inner.borrow_mut();
        let inner = &mut *guard;
        match trailers {
            None => _ = inner.machine.begin_data(self.id, 0, true, &mut inner.out),
            Some(fields) => {
                _ = inner
                    .machine
                    .send_trailers(self.id, &mut inner.out, |block| {
                        super::heads::encode_trailers(&fields, block)
                    })
            }
        }
        inner.wake_driver();
    }

    /// The request has taken content.
    pub fn release(&self, bytes: usize) {
        let mut guard = self.link.inner.borrow_mut();
        let inner = &mut *guard;
        inner.machine.release(self.id, bytes, &mut inner.out);
        if !inner.out.is_empty() {
            inner.wake_driver();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let heard = std::mem::take(&mut self.input.borrow_mut().heard);
        let unread = heard
            .iter()
            .map(|heard| {
                if let StreamEvent::Content(content) = heard {
                    content.len()
                } else {
                    0
                }
            })
            .sum();
        {
            let mut guard = self.link.inner.borrow_mut();
            let inner = &mut *guard;
            inner
                .machine
                .send_reset(self.id, ErrorCode::Cancel, &mut inner.out);
            inner.machine.release(self.id, unread, &mut inner.out);
            inner.forget(self.id);
            inner.wake_driver();
        }
        self.link.waiting.wake(1);
    }
}
