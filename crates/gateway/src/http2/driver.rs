//! Drives one connection: sends what requests have put before it, reads, and hands out what came.

use super::{
    heads,
    link::{Inner, Link, Lost, StreamEvent},
};
use crate::{exchange_context::ExchangeContext, pool::Connection};
use saker_http::Status;
use saker_http2::{ErrorCode, Event, HeadStore, StreamId};
use saker_net::clock;
use std::{
    future::poll_fn,
    io,
    rc::Rc,
    task::{Context, Poll, ready},
};

/// Reads that a connection which always has more to say gets before the others have theirs.
const TURNS_MAX: usize = 16;

pub struct Driver {
    link: Rc<Link>,
    connection: Connection,
    /// Bytes being sent; meanwhile the link's `out` continues to grow.
    sending: Vec<u8>,
    sent: usize,
    /// Bytes of incomplete frames.
    input: Vec<u8>,
    head: HeadStore,
    context: ExchangeContext,
    /// The server takes nothing more.
    is_broken: bool,
}

impl Driver {
    pub fn new(link: Rc<Link>, connection: Connection, context: ExchangeContext) -> Driver {
        Driver {
            link,
            connection,
            sending: Vec::new(),
            sent: 0,
            input: Vec::new(),
            head: HeadStore::default(),
            context,
            is_broken: false,
        }
    }

    /// Ends with the connection.
    pub async fn run(mut self) {
        let lost = poll_fn(|cx| self.poll(cx)).await;
        self.link.end(&lost);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Lost> {
        for _ in 0..TURNS_MAX {
            if self.poll_write(cx).is_ready() && self.link.inner.borrow().machine.is_finished() {
                return Poll::Ready(Lost::Unprocessed);
            }
            match self.poll_read(cx) {
                Poll::Ready(Ok(())) => self.link.waiting.wake(self.link.room()),
                Poll::Ready(Err(lost)) => {
                    // Sends the final frames; delivery isn't awaited.
                    let _ = self.poll_write(cx);
                    return Poll::Ready(lost);
                }
                Poll::Pending => {
                    self.link.inner.borrow_mut().register_driver(cx);
                    return Poll::Pending;
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ready when all has been sent. A server that takes no more may have said why: what it said is
    /// read before the end is seen.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.take_frames() {
            let Some(transport) = self.connection.transport().filter(|_| !self.is_broken) else {
                return Poll::Ready(());
            };
            match ready!(
                transport.poll_write(cx, self.sending.get(self.sent..).unwrap_or_default())
            ) {
                Ok(bytes) if bytes > 0 => {
                    self.sent += bytes;
                    self.connection.count_sent(bytes);
                }
                _ => self.is_broken = true,
            }
        }
        match self.connection.transport().filter(|_| !self.is_broken) {
            Some(transport) => {
                self.is_broken |= ready!(transport.poll_flush(cx)).is_err();
                Poll::Ready(())
            }
            None => Poll::Ready(()),
        }
    }

    /// True if there is something to be sent.
    fn take_frames(&mut self) -> bool {
        if self.sent < self.sending.len() {
            return true;
        }
        let mut inner = self.link.inner.borrow_mut();
        self.sending.clear();
        self.sent = 0;
        if inner.out.is_empty() {
            inner.machine.flushed();
            return false;
        }
        std::mem::swap(&mut self.sending, &mut inner.out);
        inner.make_room();
        true
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Lost>> {
        let Some(transport) = self.connection.transport() else {
            return Poll::Ready(Err(Lost::Io(io::ErrorKind::NotConnected)));
        };
        let mut scratch = self.context.scratch.borrow_mut();
        let bytes = match ready!(transport.poll_read(cx, &mut scratch)) {
            Ok(0) => return Poll::Ready(Err(Lost::Io(io::ErrorKind::UnexpectedEof))),
            Err(error) => return Poll::Ready(Err(Lost::Io(error.kind()))),
            Ok(bytes) => bytes,
        };
        self.connection.count_received(bytes);
        self.input
            .extend_from_slice(scratch.get(..bytes).unwrap_or_default());
        drop(scratch);
        Poll::Ready(self.obey_all())
    }

    fn obey_all(&mut self) -> Result<(), Lost> {
        let mut guard = self.link.inner.borrow_mut();
        let (inner, mut used) = (&mut *guard, 0);
        inner.heard_ms = clock::monotonic_ms();
        let outcome = loop {
            let rest = self.input.get(used..).unwrap_or_default();
            match inner
                .machine
                .receive(rest, inner.heard_ms, &mut self.head, &mut inner.out)
            {
                Ok((0, None)) => break Ok(()),
                Ok((bytes, event)) => {
                    used += bytes;
                    event
                        .into_iter()
                        .for_each(|event| obey(inner, event, &self.head));
                }
                Err(fault) => break Err(Lost::Fault(fault.reason.as_str())),
            }
        };
        self.input.drain(..used);
        outcome
    }
}

/// Puts what came where its request finds it.
fn obey(inner: &mut Inner, event: Event<'_>, head: &HeadStore) {
    match event {
        Event::Head { stream, end_stream } => {
            let heard = StreamEvent::Head(heads::response(head.status(), head.view()));
            put(inner, stream, heard, end_stream);
        }
        Event::Data {
            stream,
            data,
            flow_bytes,
            end_stream,
        } => {
            let is_wanted = inner.streams.contains_key(&stream);
            // What is taken is given back when the request takes it; padding at once.
            let unwanted = if is_wanted {
                flow_bytes - data.len()
            } else {
                flow_bytes
            };
            if unwanted > 0 {
                inner.machine.release(stream, unwanted, &mut inner.out);
            }
            match data.is_empty() {
                true if end_stream => put(inner, stream, StreamEvent::End, false),
                true => {}
                false => put(
                    inner,
                    stream,
                    StreamEvent::Content(data.to_vec()),
                    end_stream,
                ),
            }
        }
        Event::Trailers { stream } => put(
            inner,
            stream,
            StreamEvent::Trailers(heads::trailers(head.view())),
            true,
        ),
        Event::HeadRefused { stream, .. } => {
            inner
                .machine
                .send_reset(stream, ErrorCode::Cancel, &mut inner.out);
            put(
                inner,
                stream,
                StreamEvent::Lost(Lost::Fault("response head too large")),
                false,
            );
        }
        // A server's.
        Event::ContentRefused { .. } => {}
        Event::Reset { stream, code } => put(
            inner,
            stream,
            StreamEvent::Lost(reset(inner, stream, code)),
            false,
        ),
        Event::GoAway { last, .. } => go_away(inner, last),
        Event::WindowOpened => inner.make_room(),
        Event::Informational { stream } if head.status() == Status::EARLY_HINTS => {
            hint(inner, stream, head)
        }
        // Nothing that concerns the client.
        Event::Informational { .. } => {}
    }
}

fn hint(inner: &Inner, stream: StreamId, head: &HeadStore) {
    if let Some(input) = inner.streams.get(&stream) {
        input.borrow_mut().put_hints(heads::trailers(head.view()));
    }
}

fn put(inner: &Inner, stream: StreamId, heard: StreamEvent, is_end: bool) {
    let Some(input) = inner.streams.get(&stream) else {
        return;
    };
    let mut input = input.borrow_mut();
    input.put(heard);
    if is_end {
        input.put(StreamEvent::End);
    }
}

/// Reset by the server; or by us, for what it did.
fn reset(inner: &Inner, stream: StreamId, code: ErrorCode) -> Lost {
    match inner.machine.stream_fault().filter(|(at, _)| *at == stream) {
        Some((_, reason)) => Lost::Fault(reason.as_str()),
        None if code == ErrorCode::RefusedStream => Lost::Unprocessed,
        None => Lost::Reset(code),
    }
}

/// RFC 9113 section 6.8: what came after the last stream that it names was not begun with.
fn go_away(inner: &mut Inner, last: StreamId) {
    inner.streams.retain(|stream, input| {
        let stays = *stream <= last;
        if !stays {
            input.borrow_mut().put(StreamEvent::Lost(Lost::Unprocessed));
        }
        stays
    });
}
