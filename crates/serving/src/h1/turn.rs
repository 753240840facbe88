//! One turn of a connection: send the current response, serve what has been received, read on.
//!
//! Called by: `run`, for each wake-up.
//! Caveat: each state owns its data: a response being sent (`sending`), unused input (`io.input`),
//! or neither (idle). Time limits follow from the state: the write limit while sending, the head
//! limit while a head is incomplete, the keep-alive limit while idle.

use super::{
    connection::Connection,
    idle::{FIRST_REQUEST_MS, WITH_TASK_MS},
    inbound::{self, Next},
    outgoing::SendError,
    step::{Incoming, Sending, Step, Then},
};
use crate::{
    buffers::Buffers,
    freshness::ReadOrigin,
    request::{Cause, log, rejected, request_limits},
};
use saker_http::Status;
use saker_pipeline::ClientAbort;
use saker_telemetry::{Metric, access_log::ConnectionStatus, error_log, message};
use std::{
    io,
    rc::Rc,
    task::{Context, Poll, ready},
};

/// Turns of a busy connection before other tasks get theirs.
const TURNS_MAX: usize = 16;

impl Connection {
    /// Runs until a request has to be dispatched, the connection ends, or it has to wait.
    pub(super) fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        for _ in 0..TURNS_MAX {
            if self.sending.is_some() {
                match ready!(self.poll_sending(cx)) {
                    Then::Continue => {}
                    Then::Dispatch(request) => return Poll::Ready(Step::Dispatch(request)),
                    Then::Http2(beginning) => return Poll::Ready(Step::Http2(beginning)),
                    Then::Tunnel(beginning) => return Poll::Ready(Step::Tunnel(beginning)),
                    Then::Close(cause) => return Poll::Ready(Step::Close(cause)),
                }
            }
            if let Some(step) = ready!(self.poll_serve(cx)) {
                return Poll::Ready(step);
            }
        }
        // Reading and writing at once spare tokio's budget; this is ours.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Serves unused input, or reads and serves. `None`: another turn.
    fn poll_serve(&mut self, cx: &mut Context<'_>) -> Poll<Option<Step>> {
        let worker = Rc::clone(&self.session.worker);
        let mut buffers = worker.buffers.borrow_mut();
        let Buffers {
            read, out, index, ..
        } = &mut *buffers;
        out.clear();
        let next = if self.unseen_input {
            let input = std::mem::take(&mut self.io.borrow_mut().input);
            let next = inbound::serve(
                &worker,
                &mut self.session,
                (&input, &mut ReadOrigin::Unknown),
                index,
                out,
            );
            self.keep(&input, next.rest());
            next
        } else {
            let Poll::Ready(polled) = self.poll_read(cx, read) else {
                return self.wait(cx);
            };
            let bytes = match polled {
                Ok(0) if self.has_request_line() => {
                    self.refuse_cut_head();
                    return Poll::Ready(None);
                }
                Ok(0) | Err(_) => return Poll::Ready(Some(Step::Close(Cause::Gone))),
                Ok(bytes) => bytes,
            };
            self.drained = bytes < read.len();
            let mut origin = self.io.borrow().transport.origin();
            worker.counters.add(Metric::BytesIn, bytes as u64);
            if self.deadline.is_over() && !self.in_head {
                // The request came at the same moment as the end of the idle time, and comes first.
                self.deadline.disarm();
            }
            match self.joined(&read[..bytes]) {
                Joined::Whole => {
                    let next = inbound::serve(
                        &worker,
                        &mut self.session,
                        (&read[..bytes], &mut origin),
                        index,
                        out,
                    );
                    self.keep(&read[..bytes], next.rest());
                    next
                }
                Joined::Appended(true) => {
                    self.unseen_input = true;
                    return Poll::Ready(None);
                }
                Joined::Appended(false) => return Poll::Ready(None),
            }
        };
        let written = self.write_now(out);
        Poll::Ready(self.take(next, out, written))
    }

    /// Reads, unless the last read drained the socket and it has not become readable since.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let transport = &mut self.io.borrow_mut().transport;
        if std::mem::take(&mut self.drained) {
            ready!(transport.poll_readable(cx))?;
        }
        transport.poll_read_now(cx, buf)
    }

    /// Keeps unused bytes of a turn. A head that is still incomplete keeps its deadline.
    fn keep(&mut self, bytes: &[u8], rest: usize) {
        if rest > 0 {
            self.scanner = None;
            self.set_in_head(false);
        }
        if rest < bytes.len() {
            self.io.borrow_mut().input = bytes[rest..].to_vec();
        }
    }

    /// Appends new bytes to an incomplete head; tells whether it is worth parsing now.
    fn joined(&mut self, bytes: &[u8]) -> Joined {
        let mut io = self.io.borrow_mut();
        if io.input.is_empty() {
            return Joined::Whole;
        }
        io.input.extend_from_slice(bytes);
        let services = self.session.worker.services();
        let limits = request_limits(self.session.limits(&services.generation));
        let scanner = self.scanner.get_or_insert_default();
        Joined::Appended(scanner.worth_parsing(&io.input, &limits))
    }

    pub(super) fn write_now(&self, out: &[u8]) -> usize {
        if out.is_empty() {
            return 0;
        }
        // A full socket or a broken connection shows again when the rest is sent.
        let written = self.io.borrow_mut().transport.write_now(out).unwrap_or(0);
        self.session
            .worker
            .counters
            .add(Metric::BytesOut, written as u64);
        written
    }

    /// Acts on the outcome of `serve`; `out[written..]` still has to be sent.
    pub(super) fn take(&mut self, next: Next, out: &[u8], written: usize) -> Option<Step> {
        self.unseen_input = !matches!(next, Next::Read { .. } | Next::Close { .. })
            && !self.io.borrow().input.is_empty();
        let then = match next {
            Next::Read { .. } | Next::Again { .. } => Then::Continue,
            Next::Dispatch { request, .. } => Then::Dispatch(request),
            Next::Http2 { beginning, .. } => Then::Http2(beginning),
            Next::Close { cause } => Then::Close(cause),
            Next::Send { mut sending, .. } => {
                sending.outgoing.prefix(out[written..].to_vec());
                self.sending = Some(sending);
                return None;
            }
        };
        // Under TLS accepted bytes may not have been sent yet.
        let is_sent = written == out.len() && !self.io.borrow().transport.has_unsent();
        match (is_sent, then) {
            (true, Then::Continue) => None,
            (true, Then::Dispatch(request)) => Some(Step::Dispatch(request)),
            (true, Then::Http2(beginning)) => Some(Step::Http2(beginning)),
            (true, Then::Tunnel(beginning)) => Some(Step::Tunnel(beginning)),
            (true, Then::Close(cause)) => Some(Step::Close(cause)),
            (false, mut then) => {
                if let Then::Dispatch(request) = &mut then {
                    // Files and rules may be others by then.
                    request.decision = None;
                }
                self.sending = Some(Sending::bytes(out[written..].to_vec(), then));
                None
            }
        }
    }

    /// Nothing to read: sets the limit that applies, or ends a connection whose limit is over.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Option<Step>> {
        let partial = !self.io.borrow().input.is_empty();
        if self.deadline.is_over() {
            let step = self.idle_from_now(partial).or_else(|| self.over(partial));
            return Poll::Ready(step);
        }
        if self.session.is_banned() {
            return Poll::Ready(Some(Step::Close(Cause::Banned)));
        }
        let now_ms = saker_net::clock::turn_ms();
        if !partial && self.session.is_draining() {
            if self.session.requests > 0 {
                return Poll::Ready(Some(Step::Close(Cause::Done)));
            }
            if !std::mem::replace(&mut self.awaits_first, true) {
                self.deadline.arm(now_ms + FIRST_REQUEST_MS);
            }
            self.deadline.register(cx);
            return Poll::Pending;
        }
        let services = self.session.worker.services.borrow();
        match (partial, self.in_head) {
            (false, _) => {
                let limit_ms = self.session.idle_timeout_ms(&services.generation);
                let with_task_ms = if self.io.borrow().transport.is_plain() {
                    limit_ms.min(WITH_TASK_MS)
                } else {
                    limit_ms
                };
                self.deadline.arm(now_ms + with_task_ms);
            }
            // The limit is for the whole head, so more of it does not move it.
            (true, false) => self
                .deadline
                .arm(now_ms + self.session.limits(&services.generation).head_timeout_ms),
            (true, true) => {}
        }
        drop(services);
        self.set_in_head(partial);
        self.deadline.register(cx);
        Poll::Pending
    }

    /// The idle connection waits on without a task if its limit is not over yet.
    fn idle_from_now(&mut self, partial: bool) -> Option<Step> {
        if partial || self.session.is_draining() || !self.io.borrow().transport.is_plain() {
            return None;
        }
        let services = self.session.worker.services.borrow();
        let limit_ms = self.session.idle_timeout_ms(&services.generation);
        let since_ms = self.deadline.at_ms().saturating_sub(WITH_TASK_MS);
        (limit_ms > WITH_TASK_MS).then(|| Step::Idle(since_ms + limit_ms))
    }

    /// True if an incomplete head has a whole request line.
    fn has_request_line(&self) -> bool {
        let io = self.io.borrow();
        memchr::memchr(b'\n', io.input.trim_ascii_start()).is_some()
    }

    /// The client has ended its side within a head (RFC 9112 section 8). Like Apache, answers it if
    /// there is a request line: the client may still read.
    fn refuse_cut_head(&mut self) {
        let input = std::mem::take(&mut self.io.borrow_mut().input);
        let mut out = Vec::new();
        inbound::refuse_with(&self.session, Status::BAD_REQUEST, &input, &mut out);
        self.deadline.disarm();
        self.sending = Some(Sending::bytes(out, Then::Close(Cause::Gone)));
    }

    fn over(&mut self, partial: bool) -> Option<Step> {
        if !partial {
            rejected::log_timeout(&self.session, None);
            return Some(Step::Close(Cause::Idle));
        }
        rejected::log_timeout(&self.session, Some(&self.io.borrow().input));
        self.deadline.disarm();
        let status = Status::REQUEST_TIMEOUT;
        if self.is_silent() {
            log::refused(&self.session, status, &self.io.borrow().input, 0, 0);
            return Some(Step::Close(Cause::HeadTimeout));
        }
        let mut out = Vec::new();
        inbound::refuse_with(&self.session, status, &[], &mut out);
        self.sending = Some(Sending::bytes(out, Then::Close(Cause::HeadTimeout)));
        None
    }

    /// Returns true if timeouts have no response.
    fn is_silent(&self) -> bool {
        let services = self.session.worker.services.borrow();
        self.session
            .limits(&services.generation)
            .timeouts_are_silent
    }

    /// Sends on; `then` once everything has gone.
    pub(super) fn poll_sending(&mut self, cx: &mut Context<'_>) -> Poll<Then> {
        let Some(mut sending) = self.sending.take() else {
            return Poll::Ready(Then::Continue);
        };
        let result = self.poll_outgoing(cx, &mut sending);
        let Poll::Ready(result) = result else {
            self.sending = Some(sending);
            return Poll::Pending;
        };
        self.end_write_limit();
        let (mut then, status) = match result {
            Ok(()) => (sending.then, ConnectionStatus::KeepAlive),
            Err(cause) => (Then::Close(cause), ConnectionStatus::Aborted),
        };
        if matches!(then, Then::Close(Cause::Gone))
            && sending.abort.ends_with_stream()
            && sending.outgoing.bytes() == 0
            && let Some(log) = &mut sending.log
        {
            log.client_closed_request();
        }
        if let Then::Tunnel(beginning) = &mut then {
            // Its line is written at its end.
            (beginning.log, beginning.bytes) = (sending.log.take(), sending.outgoing.bytes());
        }
        if let Some(log) = sending.log.take() {
            let closes = matches!(then, Then::Close(_)) && status != ConnectionStatus::Aborted;
            let status = if closes {
                ConnectionStatus::Close
            } else {
                status
            };
            if let Some(incoming) = &sending.incoming {
                incoming.note(&log);
            }
            log.response_trailers(sending.outgoing.take_trailers());
            // The number in nginx's logs has the framing of chunks in it.
            let body_bytes = match error_log::speaks_nginx() {
                true => sending.outgoing.framed_body_bytes(),
                false => sending.outgoing.body_bytes(),
            };
            log.write(&self.session, body_bytes, sending.outgoing.bytes(), status);
        }
        if matches!(then, Then::Close(Cause::WriteTimeout)) {
            // What the client would not take must not stay in the kernel's buffers either.
            let _ = self.io.borrow().transport.reset_on_drop();
        }
        Poll::Ready(then)
    }

    fn poll_outgoing(
        &mut self,
        cx: &mut Context<'_>,
        sending: &mut Sending,
    ) -> Poll<Result<(), Cause>> {
        loop {
            let allowance = match &mut sending.pace {
                Some(pace) => match pace.poll_allowance(cx) {
                    Poll::Ready(allowance) => allowance,
                    Poll::Pending => {
                        // The pace delays the response, not the client.
                        self.end_write_limit();
                        sending.outgoing.read_ahead(cx);
                        return Poll::Pending;
                    }
                },
                None => u64::MAX,
            };
            let before = sending.outgoing.body_bytes();
            let mut progress = false;
            let polled = sending.outgoing.poll_send(
                cx,
                &self.io,
                &self.session.worker,
                allowance,
                &mut progress,
            );
            if let Some(pace) = &mut sending.pace {
                pace.charge(sending.outgoing.body_bytes() - before);
            }
            match polled {
                Poll::Ready(Ok(())) if sending.outgoing.is_done() => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.send_failed(error))),
                Poll::Pending if sending.outgoing.awaits_source() => {
                    // Its source has limits of its own.
                    self.end_write_limit();
                    if sending.abort.ends_with_stream() {
                        ready!(self.poll_gone(cx, &mut None, ClientAbort::EndOfStream));
                        sending.outgoing.client_left();
                        return Poll::Ready(Err(Cause::Gone));
                    }
                    return Poll::Pending;
                }
                Poll::Pending => {
                    // A client that is still sending may read when it is done with that.
                    let has_come = sending.incoming.as_mut().is_some_and(Incoming::has_come);
                    return self.wait_to_send(cx, progress || has_come);
                }
            }
        }
    }

    fn end_write_limit(&mut self) {
        self.deadline.disarm();
        self.writing = false;
    }

    fn wait_to_send(&mut self, cx: &mut Context<'_>, progress: bool) -> Poll<Result<(), Cause>> {
        if self.writing && !progress && self.deadline.is_over() {
            error_log::log_about(
                &message::WRITE_TIMEOUT,
                &*self.session.client,
                format_args!(""),
            );
            return Poll::Ready(Err(Cause::WriteTimeout));
        }
        if progress || !self.writing {
            let services = self.session.worker.services();
            let limit = self.session.limits(&services.generation).write_timeout_ms;
            self.deadline.arm(saker_net::clock::turn_ms() + limit);
        }
        self.writing = true;
        self.deadline.register(cx);
        Poll::Pending
    }

    fn send_failed(&self, error: SendError) -> Cause {
        match error {
            SendError::Gone => Cause::Gone,
            SendError::Cut => {
                error_log::log_about(
                    &message::RESPONSE_CUT,
                    &*self.session.client,
                    format_args!(""),
                );
                Cause::Cut
            }
        }
    }
}

enum Joined {
    /// Nothing was kept: the bytes stand for themselves.
    Whole,
    Appended(bool),
}
