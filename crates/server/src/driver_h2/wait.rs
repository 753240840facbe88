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
    /// No stream is open.
    Idle,
    /// Part of a frame, or of a header block, has come.
    Head,
    /// The socket takes nothing.
    Write,
    /// The client's windows are closed.
    Window,
}

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
        if !self.inbox.is_empty() {
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
            return Limit::Idle;
        }
        let sending = self.streams.values().filter(|stream| stream.pieces.is_some()).count();
        // Those that wait are held up by us.
        if sending > self.waiting.len() { Limit::Window } else { Limit::None }
    }

    fn limit_ms(&self, limit: Limit) -> Option<u64> {
        let services = self.session.worker.services();
        let limits = &services.generation.model.limits;
        match limit {
            Limit::None => None,
            Limit::Idle => Some(limits.keep_alive_timeout_ms),
            Limit::Head => Some(limits.head_timeout_ms),
            Limit::Write | Limit::Window => Some(limits.write_timeout_ms),
        }
    }

    /// RFC 9113 section 5.4.1: a GOAWAY, then the end.
    fn over(&mut self, cx: &mut Context<'_>, limit: Limit) -> Poll<Cause> {
        let (cause, code) = match limit {
            Limit::None | Limit::Idle => (Cause::Idle, ErrorCode::NoError),
            Limit::Head => (Cause::HeadTimeout, ErrorCode::ProtocolError),
            Limit::Window => (Cause::WriteTimeout, ErrorCode::EnhanceYourCalm),
            Limit::Write => return Poll::Ready(self.late()),
        };
        match cause {
            Cause::HeadTimeout => error_log::log_client(&message::HEAD_TIMEOUT, self.session.client.address, format_args!("")),
            Cause::WriteTimeout => error_log::log_client(&message::WRITE_TIMEOUT, self.session.client.address, format_args!("")),
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
        error_log::log_client(&message::WRITE_TIMEOUT, self.session.client.address, format_args!(""));
        // What the client would not take must not stay in the kernel's buffers either.
        let _ = self.io.transport.reset_on_drop();
        Cause::WriteTimeout
    }
}
