//! One turn of a connection: everything that a wake-up may concern, once, then one write.
//!
//! Called by: `start`, for each wake-up.

use super::connection::{Connection, OUT_BYTES_MAX};
use crate::{buffers::Buffers, freshness::ReadOrigin, request::Cause, worker::Worker};
use saker_telemetry::Metric;
use std::{
    rc::Rc,
    task::{Context, Poll, ready},
};

/// Turns of a busy connection before other tasks get theirs.
const TURNS_MAX: usize = 16;

impl Connection {
    /// Runs until the connection ends or has to wait.
    pub(super) fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Cause> {
        let worker = Rc::clone(&self.exchanges.session.worker);
        for _ in 0..TURNS_MAX {
            match self.poll_backlog(cx) {
                Poll::Pending => return self.wait(cx),
                Poll::Ready(Err(cause)) => return Poll::Ready(cause),
                Poll::Ready(Ok(())) => {}
            }
            if let Some(cause) = self.ended() {
                return Poll::Ready(cause);
            }
            let mut out = std::mem::take(&mut worker.buffers.borrow_mut().out);
            out.clear();
            let worked = self.work(cx, &worker, &mut out);
            let wrote = !out.is_empty();
            let result = self.write(&out);
            worker.buffers.borrow_mut().out = out;
            match (result, worked) {
                (Err(cause), _) | (Ok(()), Worked::Ended(cause)) => return Poll::Ready(cause),
                (Ok(()), Worked::Idle) if !wrote && !self.machine.has_stops() => {
                    return self.wait(cx);
                }
                (Ok(()), _) => {}
            }
        }
        // Reading and writing at once spare tokio's budget; this is ours.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads, answers, pumps.
    fn work(&mut self, cx: &mut Context<'_>, worker: &Rc<Worker>, out: &mut Vec<u8>) -> Worked {
        // The previous turn has been written, in a TLS record of its own.
        self.machine.write_stops(out);
        let read = self.poll_input(cx, worker, out);
        self.awaits_preface &= read.is_pending();
        let awaits_preface = self.awaits_preface;
        let (exchanges, mut wire) = self.with_wire(out);
        exchanges.take_completions(&mut wire);
        if !awaits_preface {
            exchanges.pump(cx, &mut wire);
        }
        if self.exchanges.session.is_draining()
            || self.machine.peer_is_going_away()
            || self.exchanges.session.is_banned()
        {
            self.machine.shut_down(out);
        }
        match read {
            Poll::Pending => Worked::Idle,
            Poll::Ready(Ok(())) => Worked::Some,
            Poll::Ready(Err(cause)) => Worked::Ended(cause),
        }
    }

    /// Serves received bytes. Ready if there were any.
    fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Rc<Worker>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<(), Cause>> {
        if self.ending.is_some() {
            return Poll::Pending;
        }
        let mut buffers = worker.buffers.borrow_mut();
        let Buffers { read, head, .. } = &mut *buffers;
        if !self.unseen_input {
            let bytes = match ready!(self.io.transport.poll_read_now(cx, read)) {
                Ok(0) | Err(_) => return Poll::Ready(Err(Cause::Gone)),
                Ok(bytes) => bytes,
            };
            worker.counters.add(Metric::BytesIn, bytes as u64);
            // Frames behind the first may be younger than the wake-up.
            match self.io.input.is_empty()
                && self.io.transport.origin() == ReadOrigin::WakeUp
                && is_one_frame(&read[..bytes])
            {
                true => worker.freshness.hear(),
                false => worker.freshness.look(),
            }
            if self.io.input.is_empty() {
                let used = self.serve(&read[..bytes], head, out);
                self.io.input.extend_from_slice(&read[used..bytes]);
                return Poll::Ready(Ok(()));
            }
            self.io.input.extend_from_slice(&read[..bytes]);
        }
        let input = std::mem::take(&mut self.io.input);
        let used = self.serve(&input, head, out);
        self.io.input = input;
        self.io.consume(used);
        Poll::Ready(Ok(()))
    }

    /// Hands frames to the transport; unaccepted bytes wait.
    fn write(&mut self, out: &[u8]) -> Result<(), Cause> {
        if out.is_empty() {
            return Ok(());
        }
        let taken = match self.io.transport.write_now(out) {
            Ok(taken) => taken,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
            Err(_) => return Err(Cause::Gone),
        };
        self.exchanges
            .session
            .worker
            .counters
            .add(Metric::BytesOut, taken as u64);
        self.backlog.extend_from_slice(&out[taken..]);
        if taken == out.len() {
            self.machine.flushed();
        }
        Ok(())
    }

    /// Ready when everything has gone to the socket.
    fn poll_backlog(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        let mut from = 0;
        while from < self.backlog.len() {
            let taken = match self.io.transport.poll_write(cx, &self.backlog[from..]) {
                Poll::Ready(Ok(taken)) if taken > 0 => taken,
                Poll::Ready(_) => return Poll::Ready(Err(Cause::Gone)),
                Poll::Pending => {
                    self.exchanges.progress |= from > 0;
                    self.backlog.drain(..from);
                    return Poll::Pending;
                }
            };
            self.exchanges
                .session
                .worker
                .counters
                .add(Metric::BytesOut, taken as u64);
            from += taken;
        }
        if from > 0 {
            self.backlog = Vec::new();
            self.machine.flushed();
        }
        match self.io.transport.poll_flush(cx) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
            Poll::Ready(Err(_)) => Poll::Ready(Err(Cause::Gone)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Nothing is left to be sent: whether that was all.
    fn ended(&self) -> Option<Cause> {
        match &self.ending {
            Some(ending) => Some(ending.cause),
            None => self.machine.is_finished().then_some(Cause::Done),
        }
    }

    /// Frames beyond this are only made when those before have gone.
    pub(super) fn is_blocked(&self) -> bool {
        !self.backlog.is_empty() || self.io.transport.has_unsent()
    }
}

/// RFC 9113 section 4.1: its length comes first, without the head of nine bytes.
fn is_one_frame(bytes: &[u8]) -> bool {
    matches!(bytes, [high, middle, low, ..] if u32::from_be_bytes([0, *high, *middle, *low]) as usize + 9 == bytes.len())
}

const _: () = assert!(OUT_BYTES_MAX >= 32 << 10);

enum Worked {
    Some,
    /// There was nothing to read.
    Idle,
    Ended(Cause),
}
