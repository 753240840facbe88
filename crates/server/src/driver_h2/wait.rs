//! What a connection waits for, and how long it may.

use super::{Connection, turn::Ending};
use crate::serving::Cause;
use saker_http2::ErrorCode;
use saker_telemetry::{error_log, message};
use std::task::{Context, Poll};

/// Which time limit is running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// We are at work, or a handler's own limit runs.
    #[default]
    None,
    /// No stream is open, since a moment ago.
    Idle,
    /// No stream is open, for so long that memory was given back.
    Resting,
    /// Part of a frame, or of a header block, has come.
    Head,
    /// The socket takes nothing.
    Write,
    /// The client's windows are closed.
    Window,
}

/// An idle connection that has seen no request for so long gives back what the requests before needed.
const REST_AFTER_MS: u64 = 2_000;

impl Connection {
    /// Sets the limit that applies, or ends a connection whose limit is over.
    pub(super) fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Cause> {
        let limit = self.limit_now();
        let progress = std::mem::take(&mut self.progress);
        if self.deadline.is_over() && limit == self.limit && !progress {
            return self.over(cx, limit);
        }
        if limit != self.limit || (progress && limit != Limit::Head) {
            self.limit = limit;
            match self.limit_ms(limit) {
                Some(limit_ms) => self.deadline.arm(super::now_ms() + limit_ms),
                None => self.deadline.disarm(),
            }
        }
        self.inbox.register(cx);
        self.deadline.register(cx);
        if self.wakeups.register(cx) || !self.inbox.is_empty() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn limit_now(&self) -> Limit {
        if self.is_blocked() {
            return Limit::Write;
        }
        if !self.io.input.is_empty() || self.machine.is_in_field_block() {
            return Limit::Head;
        }
        if self.streams.is_empty() {
            return if self.limit == Limit::Resting { Limit::Resting } else { Limit::Idle };
        }
        debug_assert_eq!(self.sending, self.streams.values().filter(|stream| stream.pieces.is_some()).count());
        debug_assert_eq!(self.waiting, self.streams.values().filter(|stream| stream.waits).count());
        // Those that wait are held up by us.
        if self.sending > self.waiting { Limit::Window } else { Limit::None }
    }

    fn limit_ms(&self, limit: Limit) -> Option<u64> {
        let services = self.session.worker.services();
        let limits = self.session.limits(&services.generation);
        match limit {
            Limit::None => None,
            Limit::Idle => Some(limits.keep_alive_timeout_ms.min(REST_AFTER_MS)),
            Limit::Resting => Some(limits.keep_alive_timeout_ms.saturating_sub(REST_AFTER_MS)),
            Limit::Head => Some(limits.head_timeout_ms),
            Limit::Write | Limit::Window => Some(limits.write_timeout_ms),
        }
    }

    /// A request has come: the time without one is over.
    pub(super) fn end_idleness(&mut self) {
        if matches!(self.limit, Limit::Idle | Limit::Resting) {
            self.limit = Limit::None;
        }
    }

    /// What is idle rests first, if there is time for that. Else RFC 9113 section 5.4.1: a GOAWAY, then the end.
    fn over(&mut self, cx: &mut Context<'_>, limit: Limit) -> Poll<Cause> {
        if limit == Limit::Idle
            && let Some(left_ms) = self.limit_ms(Limit::Resting).filter(|left_ms| *left_ms > 0)
        {
            self.machine.trim();
            self.streams.shrink_to_fit();
            self.limit = Limit::Resting;
            self.deadline.arm(super::now_ms() + left_ms);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let (cause, code) = match limit {
            Limit::None | Limit::Idle | Limit::Resting => (Cause::Idle, ErrorCode::NoError),
            Limit::Head => (Cause::HeadTimeout, ErrorCode::ProtocolError),
            Limit::Window => (Cause::WriteTimeout, ErrorCode::EnhanceYourCalm),
            Limit::Write => return Poll::Ready(self.late()),
        };
        match cause {
            Cause::HeadTimeout => error_log::log_about(&message::HEAD_TIMEOUT, &*self.session.client, format_args!("")),
            Cause::WriteTimeout => error_log::log_about(&message::WRITE_TIMEOUT, &*self.session.client, format_args!("")),
            _ => {}
        }
        let mut out = Vec::new();
        self.machine.go_away(code, &mut out);
        self.backlog.extend_from_slice(&out);
        self.ending = Some(Ending { cause });
        self.limit = Limit::None;
        self.deadline.disarm();
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// A client that reads nothing does not read a GOAWAY either.
    fn late(&mut self) -> Cause {
        error_log::log_about(&message::WRITE_TIMEOUT, &*self.session.client, format_args!(""));
        // What the client would not take must not stay in the kernel's buffers either.
        let _ = self.io.transport.reset_on_drop();
        Cause::WriteTimeout
    }
}
