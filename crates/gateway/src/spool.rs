//! The content of a response on its way from its upstream to the client.
//!
//! While the client keeps up, content goes straight through: the reader polls the upstream
//! ([`RelayedBody`]). When the client takes nothing, the response is read ahead of it: into memory,
//! and if the client stays behind, onto disk, up to limits, so that a slow client does not hold a
//! program. A reader that promises to say when its client takes nothing does that in its own task;
//! for others a task of its own reads ahead. The difficulty is that either end may stop first: a
//! client that goes stops the program (unless it outlives its client), and a response that breaks
//! must be seen to break, not to end. And there may be any number of clients that don't read: a
//! turn ends after so many bytes, the disk is other threads' business ([`BufferFile`]), and where a
//! file has no room the program waits.

use crate::{
    exchange_context::{READ_BYTES_MAX, TURN_BYTES_MAX, UpstreamEvent},
    failure::Failure,
    nginx_words,
    read_rate::ReadRate,
    upstream_exchange::UpstreamExchange,
};
use saker_cgi::Fault;
use saker_files::{
    BufferFile, BufferFiles,
    buffer_files::{ClientKey, Share},
};
use saker_http::Fields;
use saker_net::clock;
use saker_pipeline::{BodyError, BodyStream, Chunk, ChunkQueue, RequestLogContext};
use saker_telemetry::{error_log, message};
use std::{
    any::Any,
    cell::RefCell,
    future::poll_fn,
    io,
    num::NonZeroU64,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// Time for which a client may be behind by all that memory holds before a file is used: a socket
/// that is full for a moment makes no slow client.
const SLOW_MS: u64 = 100;

#[derive(Clone, Copy)]
pub struct Bounds {
    pub memory_bytes: usize,
    /// 0: never on disk.
    pub disk_bytes: u64,
}

/// Content that is ahead of its reader.
#[derive(Default)]
struct Spool {
    chunks: ChunkQueue,
    memory_bytes: usize,
    /// Behind what is in memory.
    file: Option<BufferFile>,
    trailers: Option<Fields>,
    outcome: Option<Result<(), ()>>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// The reader is gone.
    is_abandoned: bool,
}

/// Account for a client's files.
#[derive(Clone)]
pub struct Room {
    pub files: Arc<BufferFiles>,
    pub client: ClientKey,
}

/// Part of an unfinished response that was read ahead.
#[derive(Default)]
pub struct ReadAhead {
    first: Option<Chunk>,
    /// Behind the first.
    more: Vec<Chunk>,
    /// The last that was said, if it was no content.
    said: Option<Result<UpstreamEvent, Failure>>,
}

/// The whole content, if the rest of the response is here already and not longer than that. Waits
/// for nothing.
pub fn whole(upstream: &mut UpstreamExchange, bytes_max: usize) -> Result<Chunk, Box<ReadAhead>> {
    let mut cx = Context::from_waker(Waker::noop());
    let (mut ahead, mut bytes) = (ReadAhead::default(), 0);
    while bytes <= bytes_max {
        match upstream.poll_event(&mut cx) {
            Poll::Ready(Ok(UpstreamEvent::Content(more))) => {
                bytes += more.len();
                match ahead.first {
                    None => ahead.first = Some(more),
                    Some(_) => ahead.more.push(more),
                }
            }
            Poll::Ready(Ok(UpstreamEvent::End)) => return Ok(ahead.joined()),
            Poll::Ready(other) => {
                ahead.said = Some(other);
                break;
            }
            Poll::Pending => break,
        }
    }
    Err(Box::new(ahead))
}

impl ReadAhead {
    fn joined(self) -> Chunk {
        match self.first {
            Some(first) if self.more.is_empty() => first.compact(),
            first => {
                let all = first.iter().chain(&self.more);
                Chunk::from(all.map(Chunk::bytes).collect::<Vec<_>>().concat())
            }
        }
    }
}

/// The end where the response is heard.
pub struct Pump {
    upstream: UpstreamExchange,
    bounds: Bounds,
    /// Reading is paused because there was no room.
    is_paused: bool,
    /// Time since which the client has been behind by all that memory holds.
    full_since_ms: Option<u64>,
    room: Room,
    client: RequestLogContext,
    name: Rc<str>,
    rate: Option<ReadRate>,
    drops_trailers: bool,
}

impl Pump {
    pub fn new(
        upstream: UpstreamExchange,
        bounds: Bounds,
        room: Room,
        client: RequestLogContext,
        name: Rc<str>,
    ) -> Pump {
        Pump {
            upstream,
            bounds,
            is_paused: false,
            full_since_ms: None,
            room,
            client,
            name,
            rate: None,
            drops_trailers: false,
        }
    }

    /// Limits the speed at which content is read.
    pub fn limit_rate(&mut self, rate: Option<NonZeroU64>) {
        self.rate = rate.map(|rate| ReadRate::new(rate, clock::monotonic_ms()));
    }

    /// Trailers are left out.
    pub fn drop_trailers(&mut self, is_dropped: bool) {
        self.drops_trailers = is_dropped;
    }

    /// The next thing that the upstream says, at its rate.
    fn poll_upstream(&mut self, cx: &mut Context<'_>) -> Poll<Result<UpstreamEvent, Failure>> {
        let Some(rate) = &mut self.rate else {
            return self.upstream.poll_event(cx);
        };
        if let Some(wait_ms) = rate.wait_ms(clock::monotonic_ms()) {
            self.upstream.pause_for(cx, wait_ms);
            self.is_paused = true;
            return Poll::Pending;
        }
        let event = match rate.take_rest() {
            Some(rest) => UpstreamEvent::Content(rest),
            None => std::task::ready!(self.upstream.poll_event(cx))?,
        };
        Poll::Ready(Ok(match event {
            UpstreamEvent::Content(content) => UpstreamEvent::Content(rate.cut(content)),
            other => other,
        }))
    }

    /// Reads ahead until the response is over. With `until_told`, also until the request's content
    /// has all been told, or there is no more room: the rest is told while the response goes out.
    fn poll(&mut self, spool: &mut Spool, cx: &mut Context<'_>, until_told: bool) -> Poll<()> {
        let mut taken = 0;
        loop {
            if spool.is_over() || until_told && self.upstream.has_told_all() {
                return Poll::Ready(());
            }
            match self.poll_room(spool, cx) {
                Poll::Ready(true) => {}
                Poll::Ready(false) if until_told => return Poll::Ready(()),
                Poll::Ready(false) => {
                    self.tell(spool, cx);
                    if spool.is_over() {
                        continue;
                    }
                    return Poll::Pending;
                }
                Poll::Pending => return Poll::Pending,
            }
            if taken >= TURN_BYTES_MAX {
                // A program that is never slower than we are gets no more of the worker than others
                // do.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.resume();
            match self.poll_upstream(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(UpstreamEvent::Content(content))) => {
                    taken += content.len();
                    spool.keep(content, self.bounds);
                }
                Poll::Ready(said) => self.take(spool, said),
            }
        }
    }

    /// The next piece for a reader that has everything before it.
    fn poll_next(
        &mut self,
        spool: &mut Spool,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.full_since_ms = None;
        self.resume();
        loop {
            match self.poll_upstream(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(UpstreamEvent::Content(content))) => {
                    // The time that the client takes for it isn't the program's silence.
                    self.pause();
                    return Poll::Ready(Some(Ok(content)));
                }
                Poll::Ready(said) => self.take(spool, said),
            }
            match spool.outcome {
                Some(Ok(())) => return Poll::Ready(None),
                Some(Err(())) => return Poll::Ready(Some(Err(BodyError::Source))),
                None => {}
            }
        }
    }

    fn pause(&mut self) {
        self.upstream.pause();
        self.is_paused = true;
    }

    fn resume(&mut self) {
        if std::mem::take(&mut self.is_paused) {
            self.upstream.resume();
        }
    }

    /// Tells the request's content on while the response has to wait: its client may not read before
    /// it has sent everything.
    fn tell(&mut self, spool: &mut Spool, cx: &mut Context<'_>) {
        if self.upstream.has_told_all() {
            return;
        }
        match self.upstream.tell(cx) {
            // Its limit is for the response, which is not read.
            Ok(()) => self.pause(),
            Err(failure) => self.take(spool, Err(failure)),
        }
    }

    /// True if there is room for more; else the upstream has to wait. Pending: for a moment.
    fn poll_room(&mut self, spool: &mut Spool, cx: &Context<'_>) -> Poll<bool> {
        if let Some(file) = &mut spool.file {
            file.poll_write(cx);
        }
        if spool.is_abandoned {
            return Poll::Ready(true);
        }
        let is_full = spool.memory_bytes >= self.bounds.memory_bytes;
        if !is_full && !spool.is_on_disk() {
            return Poll::Ready(true);
        }
        if self.bounds.disk_bytes > 0 && !spool.is_on_disk() && !self.is_slow() {
            self.upstream.pause_for(cx, SLOW_MS);
            self.is_paused = true;
            return Poll::Pending;
        }
        let has_room = match self.bounds.disk_bytes {
            0 => !is_full,
            disk_bytes => {
                let file = || {
                    let files = Arc::clone(&self.room.files);
                    BufferFile::new(files, self.room.client, Share::Response, disk_bytes)
                };
                spool.file.get_or_insert_with(file).can_take(READ_BYTES_MAX)
            }
        };
        if !has_room {
            self.pause();
        }
        Poll::Ready(has_room)
    }

    /// True if the client is slower than the program, not just late for a moment.
    fn is_slow(&mut self) -> bool {
        let now_ms = clock::monotonic_ms();
        now_ms.saturating_sub(*self.full_since_ms.get_or_insert(now_ms)) >= SLOW_MS
    }

    /// Anything but content.
    fn take(&mut self, spool: &mut Spool, said: Result<UpstreamEvent, Failure>) {
        let outcome = match said {
            Ok(UpstreamEvent::Content(content)) => return spool.keep(content, self.bounds),
            Ok(UpstreamEvent::Trailers(fields)) => {
                spool.trailers = Some(fields).filter(|_| !self.drops_trailers);
                return;
            }
            Ok(UpstreamEvent::End) => Ok(()),
            Ok(UpstreamEvent::Head(_) | UpstreamEvent::Switched(_)) => {
                Err(Failure::Broken(Fault::SecondHead.into()))
            }
            Err(failure) => Err(failure),
        };
        match &outcome {
            Ok(()) => {}
            Err(failure) if error_log::speaks_nginx() => {
                nginx_words::log_cut(&self.client, &self.name, failure);
            }
            Err(failure) => error_log::log_about(
                &message::PROGRAM_CUT,
                &self.client,
                format_args!("{}: {failure}", self.name),
            ),
        }
        spool.outcome = Some(outcome.map_err(drop));
        spool.wake_reader();
    }
}

impl Spool {
    fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    fn is_on_disk(&self) -> bool {
        self.file.as_ref().is_some_and(|file| !file.is_empty())
    }

    fn keep(&mut self, content: Chunk, bounds: Bounds) {
        if self.is_abandoned {
            return;
        }
        let fits = !self.is_on_disk() && self.memory_bytes + content.len() <= bounds.memory_bytes;
        match self.file.as_mut().filter(|_| !fits) {
            Some(file) => file.push(content.bytes()),
            // At most a read more than the bound: there was room before it.
            None => self.push_memory(content),
        }
        self.wake_reader();
    }

    fn push_memory(&mut self, content: Chunk) {
        self.memory_bytes += content.len();
        self.chunks.push(content);
    }

    /// `Ready(None)`: there is nothing now.
    fn poll_pop(&mut self, cx: &Context<'_>) -> Poll<io::Result<Option<Chunk>>> {
        if let Some(chunk) = self.chunks.pop() {
            self.memory_bytes -= chunk.len();
            return Poll::Ready(Ok(Some(chunk)));
        }
        match &mut self.file {
            Some(file) => file.poll_pop(cx).map_ok(|bytes| bytes.map(Chunk::from)),
            None => Poll::Ready(Ok(None)),
        }
    }

    /// For a reader in another task than the one that reads ahead.
    fn poll_chunk(&mut self, cx: &Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let Poll::Ready(next) = self.poll_pop(cx) else {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        };
        match (next, self.outcome) {
            (Ok(Some(chunk)), _) => {
                self.wake_writer();
                Poll::Ready(Some(Ok(chunk)))
            }
            (Err(_), _) | (_, Some(Err(()))) => Poll::Ready(Some(Err(BodyError::Source))),
            (Ok(None), Some(Ok(()))) => Poll::Ready(None),
            (Ok(None), None) => {
                self.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn wake_reader(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    fn wake_writer(&mut self) {
        if let Some(waker) = self.writer.take() {
            waker.wake();
        }
    }
}

/// The end where the client is.
pub struct RelayedBody {
    by: By,
    length: Option<u64>,
    is_prompt: bool,
}

/// Task that reads from the upstream.
#[allow(clippy::large_enum_variant)] // One per response, and mostly the large variant.
enum By {
    /// The reader's own. `is_promised`: the reader says when its client takes nothing.
    Reader {
        pump: Box<Pump>,
        spool: Spool,
        is_promised: bool,
        /// Dropped with the pump.
        held: Box<dyn Any>,
    },
    /// One of its own.
    Task(Rc<RefCell<Spool>>),
    Moving,
}

impl RelayedBody {
    /// `length`: what the head promised. `held` is dropped with the connection to the upstream.
    pub fn new(
        pump: Pump,
        ahead: ReadAhead,
        length: Option<u64>,
        held: Box<dyn Any>,
    ) -> RelayedBody {
        let mut pump = Box::new(pump);
        let mut spool = Spool::default();
        ahead
            .first
            .into_iter()
            .chain(ahead.more)
            .filter(|chunk| !chunk.is_empty())
            .for_each(|chunk| spool.push_memory(chunk));
        ahead
            .said
            .into_iter()
            .for_each(|said| pump.take(&mut spool, said));
        RelayedBody {
            by: By::Reader {
                pump,
                spool,
                is_promised: false,
                held,
            },
            length,
            is_prompt: false,
        }
    }

    /// Lets parts of the content go out before others come.
    pub fn make_prompt(&mut self) {
        self.is_prompt = true;
    }

    /// Reads ahead until the request's content has all been told, or there is no room for more of
    /// the response.
    pub async fn tell_all(&mut self) {
        if let By::Reader { pump, spool, .. } = &mut self.by {
            poll_fn(|cx| pump.poll(spool, cx, true)).await;
        }
    }

    /// True if the request's content has all been told, or the response is over.
    pub fn has_told_all(&self) -> bool {
        match &self.by {
            By::Reader { pump, spool, .. } => pump.upstream.has_told_all() || spool.is_over(),
            By::Task(_) | By::Moving => true,
        }
    }

    /// Has a task read ahead, which goes on without a reader where `outlives_client`.
    pub fn detach(&mut self, outlives_client: bool) {
        let (mut pump, spool, held) = match std::mem::replace(&mut self.by, By::Moving) {
            By::Reader {
                pump, spool, held, ..
            } => (pump, spool, held),
            other => {
                self.by = other;
                return;
            }
        };
        let is_over = spool.is_over();
        let spool = Rc::new(RefCell::new(spool));
        self.by = By::Task(Rc::clone(&spool));
        if is_over {
            return;
        }
        tokio::task::spawn_local(async move {
            let _held = held;
            poll_fn(|cx| {
                let spool = &mut *spool.borrow_mut();
                if spool.is_abandoned && !outlives_client {
                    return Poll::Ready(());
                }
                spool.writer = Some(cx.waker().clone());
                pump.poll(spool, cx, false)
            })
            .await;
        });
    }
}

impl BodyStream for RelayedBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if let By::Reader {
            is_promised: false, ..
        } = self.by
        {
            self.detach(false);
        }
        match &mut self.by {
            By::Reader { pump, spool, .. } => match std::task::ready!(spool.poll_pop(cx)) {
                Ok(Some(chunk)) => Poll::Ready(Some(Ok(chunk))),
                Err(_) => Poll::Ready(Some(Err(BodyError::Source))),
                Ok(None) => match spool.outcome {
                    Some(Ok(())) => Poll::Ready(None),
                    Some(Err(())) => Poll::Ready(Some(Err(BodyError::Source))),
                    None => pump.poll_next(spool, cx),
                },
            },
            By::Task(spool) => spool.borrow_mut().poll_chunk(cx),
            By::Moving => Poll::Ready(Some(Err(BodyError::Source))),
        }
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn trailers(&mut self) -> Option<Fields> {
        match &mut self.by {
            By::Reader { spool, .. } => spool.trailers.take(),
            By::Task(spool) => spool.borrow_mut().trailers.take(),
            By::Moving => None,
        }
    }

    fn promise_read_ahead(&mut self) {
        if let By::Reader { is_promised, .. } = &mut self.by {
            *is_promised = true;
        }
    }

    fn read_ahead(&mut self, cx: &mut Context<'_>) {
        if let By::Reader { pump, spool, .. } = &mut self.by {
            // What it waits for wakes the reader's task.
            let _ = pump.poll(spool, cx, false);
        }
    }

    fn is_prompt(&self) -> bool {
        self.is_prompt
    }

    fn client_left(&mut self) {
        if let By::Reader { pump, .. } = &self.by
            && error_log::speaks_nginx()
        {
            nginx_words::log_left(&pump.client, &pump.name);
        }
    }
}

impl Drop for RelayedBody {
    fn drop(&mut self) {
        if let By::Task(spool) = &self.by {
            let mut spool = spool.borrow_mut();
            spool.is_abandoned = true;
            // Without a reader no data is kept, even if the program continues.
            (spool.chunks, spool.memory_bytes, spool.file) = (ChunkQueue::default(), 0, None);
            spool.wake_writer();
        }
    }
}
