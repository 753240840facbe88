//! Time limits of an HTTP/2 connection, and how it ends when one is exceeded.
//!
//! Called by: `turn`, when there is nothing to do.

use super::connection::{Connection, Ending};
use crate::{
    mux::{Limit, Over, Pressure},
    request::Cause,
};
use saker_http2::ErrorCode;
use std::task::{Context, Poll};

impl Connection {
    /// Waits, or ends a connection whose limit is over.
    pub(super) fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Cause> {
        match self.exchanges.wait(cx, self.pressure()) {
            None => {}
            Some(Over::Rest) => self.machine.trim(),
            Some(Over::End(_, Limit::Write)) => return Poll::Ready(self.late()),
            Some(Over::End(cause, _)) => self.over(cause),
        }
        Poll::Pending
    }

    fn pressure(&self) -> Pressure {
        if self.is_blocked() {
            Pressure::Write
        } else if !self.io.input.is_empty() || self.machine.is_in_field_block() {
            Pressure::Head
        } else {
            Pressure::None
        }
    }

    /// RFC 9113 section 5.4.1: a GOAWAY, then the end.
    fn over(&mut self, cause: Cause) {
        let code = match cause {
            Cause::HeadTimeout => ErrorCode::ProtocolError,
            Cause::WriteTimeout => ErrorCode::EnhanceYourCalm,
            _ => ErrorCode::NoError,
        };
        let mut out = Vec::new();
        self.machine.go_away(code, &mut out);
        self.backlog.extend_from_slice(&out);
        self.ending = Some(Ending { cause });
        self.exchanges.rest_from_limits();
    }

    /// A client that reads nothing does not read a GOAWAY either.
    fn late(&mut self) -> Cause {
        // Bytes that the client does not accept must not stay in the kernel's buffers either.
        let _ = self.io.transport.reset_on_drop();
        Cause::WriteTimeout
    }
}
