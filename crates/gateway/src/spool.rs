//! A response that is heard ahead of its client: in memory, then on disk, up to limits, so that a
//! slow client does not hold a program.
//!
//! A task of its own (`Pump`) listens until the response is whole; the body that the driver sends
//! takes from the other end. The difficulty is that either may stop first: a client that goes stops
//! the program (unless it outlives its client), and a response that breaks must be seen to break,
//! not to end. And there may be any number of clients that don't read: a turn ends after so many
//! bytes, the disk is other threads' business ([`BufferFile`]), and where a file has no room the
//! program waits.

use crate::{
    conversation::{READ_BYTES_MAX, Said, TURN_BYTES_MAX},
    failure::Failure,
    hearing::Hearing,
};
use saker_files::{
    BufferFile, BufferFiles,
    buffer_files::{ClientKey, Share},
};
use saker_http::Fields;
use saker_pipeline::{Asker, BodyError, BodyStream, Chunk};
use saker_telemetry::{error_log, message};
use std::{
    cell::RefCell,
    collections::VecDeque,
    future::poll_fn,
    io,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

#[derive(Clone, Copy)]
pub struct Bounds {
    pub memory_bytes: usize,
    /// 0: never on disk.
    pub disk_bytes: u64,
}

#[derive(Default)]
struct State {
    chunks: VecDeque<Chunk>,
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
pub struct Ahead {
    content: Vec<u8>,
    /// The last that was said, if it was no content.
    said: Option<Result<Said, Failure>>,
}

/// The whole content, if the rest of the response is here already and not longer than that. Waits
/// for nothing.
pub fn whole(hearing: &mut Hearing, bytes_max: usize) -> Result<Vec<u8>, Ahead> {
    let mut cx = Context::from_waker(Waker::noop());
    let mut content = Vec::new();
    while content.len() <= bytes_max {
        match hearing.poll_said(&mut cx) {
            Poll::Ready(Ok(Said::Content(more))) if content.is_empty() => content = more,
            Poll::Ready(Ok(Said::Content(more))) => content.extend_from_slice(&more),
            Poll::Ready(Ok(Said::End)) => return Ok(content),
            Poll::Ready(other) => {
                return Err(Ahead {
                    content,
                    said: Some(other),
                });
            }
            Poll::Pending => break,
        }
    }
    Err(Ahead {
        content,
        said: None,
    })
}

/// The end where the response is heard.
pub struct Pump {
    hearing: Hearing,
    state: Rc<RefCell<State>>,
    bounds: Bounds,
    outlives_client: bool,
    /// Reading is paused because there was no room.
    is_paused: bool,
    room: Room,
    client: Asker,
    name: Rc<str>,
}

impl Pump {
    /// `ahead`: what was heard already.
    pub fn new(
        (hearing, ahead): (Hearing, Ahead),
        bounds: Bounds,
        outlives_client: bool,
        room: Room,
        client: Asker,
        name: Rc<str>,
    ) -> Pump {
        let mut pump = Pump {
            hearing,
            state: Rc::default(),
            bounds,
            outlives_client,
            is_paused: false,
            room,
            client,
            name,
        };
        if !ahead.content.is_empty() {
            pump.state.borrow_mut().push_memory(ahead.content);
        }
        ahead.said.into_iter().for_each(|said| pump.take(said));
        pump
    }

    /// The other end. `length`: what the head promised.
    pub fn body(&self, length: Option<u64>) -> SpooledBody {
        SpooledBody {
            state: Rc::clone(&self.state),
            length,
        }
    }

    /// Listens until the response is over, or the request's content has all been told where
    /// `until_told`.
    pub async fn run(&mut self, until_told: bool) {
        poll_fn(|cx| self.poll(cx, until_told)).await;
    }

    pub fn is_over(&self) -> bool {
        self.state.borrow().outcome.is_some()
    }

    fn poll(&mut self, cx: &mut Context<'_>, until_told: bool) -> Poll<()> {
        let mut taken = 0;
        loop {
            let has_room = self.has_room(cx);
            if self.is_over() || until_told && self.hearing.has_told_all() {
                return Poll::Ready(());
            }
            if !has_room {
                self.hearing.pause();
                self.is_paused = true;
                return Poll::Pending;
            }
            if std::mem::take(&mut self.is_paused) {
                self.hearing.resume();
            }
            if taken >= TURN_BYTES_MAX {
                // A program that is never slower than we are gets no more of the worker than others
                // do.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match self.hearing.poll_said(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(said) => {
                    taken += if let Ok(Said::Content(content)) = &said {
                        content.len()
                    } else {
                        0
                    };
                    self.take(said);
                }
            }
        }
    }

    /// Room for more; else, or when the client has gone, the writer waits or ends.
    fn has_room(&mut self, cx: &Context<'_>) -> bool {
        let mut state = self.state.borrow_mut();
        if state.is_abandoned && !self.outlives_client && state.outcome.is_none() {
            state.outcome = Some(Err(()));
            return true;
        }
        state.writer = Some(cx.waker().clone());
        if let Some(file) = &mut state.file {
            file.poll_write(cx);
        }
        state.is_abandoned || self.has_place(&mut state)
    }

    /// For a read more: in memory, as long as nothing lies behind it, or in a file.
    fn has_place(&self, state: &mut State) -> bool {
        let is_full = state.memory_bytes >= self.bounds.memory_bytes;
        if self.bounds.disk_bytes == 0 || !is_full && !state.is_on_disk() {
            return !is_full;
        }
        let make = || {
            BufferFile::new(
                Arc::clone(&self.room.files),
                self.room.client,
                Share::Response,
                self.bounds.disk_bytes,
            )
        };
        state.file.get_or_insert_with(make).can_take(READ_BYTES_MAX)
    }

    fn take(&mut self, said: Result<Said, Failure>) {
        let outcome = match said {
            Ok(Said::Content(content)) => return self.keep(content),
            Ok(Said::Trailers(fields)) => {
                self.state.borrow_mut().trailers = Some(fields);
                return;
            }
            Ok(Said::End) => Ok(()),
            Ok(Said::Head(_) | Said::Switched(_)) => Err("a second response head".to_owned()),
            Err(failure) => Err(failure.to_string()),
        };
        if let Err(reason) = &outcome {
            error_log::log_about(
                &message::PROGRAM_CUT,
                &self.client,
                format_args!("{}: {reason}", self.name),
            );
        }
        let mut state = self.state.borrow_mut();
        state.outcome = Some(outcome.map_err(drop));
        state.wake_reader();
    }

    fn keep(&mut self, content: Vec<u8>) {
        let mut state = self.state.borrow_mut();
        if state.is_abandoned {
            return;
        }
        let fits =
            !state.is_on_disk() && state.memory_bytes + content.len() <= self.bounds.memory_bytes;
        match state.file.as_mut().filter(|_| !fits) {
            Some(file) => file.push(&content),
            // At most a read more than the bound: there was room before it.
            None => state.push_memory(content),
        }
        state.wake_reader();
    }
}

impl State {
    fn is_on_disk(&self) -> bool {
        self.file.as_ref().is_some_and(|file| !file.is_empty())
    }

    fn push_memory(&mut self, content: Vec<u8>) {
        self.memory_bytes += content.len();
        self.chunks.push_back(Chunk::from(content));
    }

    /// `Ready(None)`: there is nothing now.
    fn poll_next(&mut self, cx: &Context<'_>) -> Poll<io::Result<Option<Chunk>>> {
        if let Some(chunk) = self.chunks.pop_front() {
            self.memory_bytes -= chunk.len();
            return Poll::Ready(Ok(Some(chunk)));
        }
        match &mut self.file {
            Some(file) => file.poll_pop(cx).map_ok(|bytes| bytes.map(Chunk::from)),
            None => Poll::Ready(Ok(None)),
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
pub struct SpooledBody {
    state: Rc<RefCell<State>>,
    length: Option<u64>,
}

impl BodyStream for SpooledBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let mut state = self.state.borrow_mut();
        let Poll::Ready(next) = state.poll_next(cx) else {
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        };
        match (next, state.outcome) {
            (Ok(Some(chunk)), _) => {
                state.wake_writer();
                Poll::Ready(Some(Ok(chunk)))
            }
            (Err(_), _) | (_, Some(Err(()))) => Poll::Ready(Some(Err(BodyError::Source))),
            (Ok(None), Some(Ok(()))) => Poll::Ready(None),
            (Ok(None), None) => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.state.borrow_mut().trailers.take()
    }
}

impl Drop for SpooledBody {
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        state.is_abandoned = true;
        // Without a reader no data is kept, even if the program continues.
        (state.chunks, state.memory_bytes, state.file) = (VecDeque::new(), 0, None);
        state.wake_writer();
    }
}
