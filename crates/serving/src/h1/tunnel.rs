//! A connection after 101 Switching Protocols (RFC 9110 section 15.2.2): bytes are relayed in both
//! directions until both ends have closed.
//!
//! Called by: `run`.
//! Caveat: such a connection may be silent for hours, so it keeps only the socket and its log
//! line; bytes pass through the worker's read buffer.

use super::step::TunnelStart;
use crate::{
    client_end::ClientEnd,
    io::Io,
    request::{Cause, Session},
};
use saker_stream_proxy::{Relay, RelayEnd};
use saker_telemetry::access_log::ConnectionStatus;
use std::{
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll},
};

/// Runs to the end of both sides.
pub async fn run(session: Session, io: Io, beginning: TunnelStart) {
    let client = ClientEnd {
        io,
        worker: Rc::clone(&session.worker),
    };
    let mut running = Running {
        session,
        client,
        beginning,
        relay: Relay::default(),
    };
    let end = poll_fn(|cx| running.poll(cx)).await;
    running.end(end);
}

struct Running {
    session: Session,
    client: ClientEnd,
    beginning: TunnelStart,
    relay: Relay,
}

impl Running {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<RelayEnd> {
        let worker = Rc::clone(&self.session.worker);
        let mut buffers = worker.buffers.borrow_mut();
        self.relay.poll(
            cx,
            &mut self.client,
            self.beginning.program.as_mut(),
            &mut buffers.read,
        )
    }

    fn end(&mut self, end: RelayEnd) {
        let (cause, status) = match end {
            RelayEnd::Whole => (Cause::Done, ConnectionStatus::Close),
            RelayEnd::Idle => (Cause::Idle, ConnectionStatus::Close),
            RelayEnd::ClientGone => (Cause::Gone, ConnectionStatus::Aborted),
            RelayEnd::Cut => (Cause::Cut, ConnectionStatus::Aborted),
        };
        self.log(status);
        self.session.worker.counters.increment(cause.metric());
        if end != RelayEnd::Cut {
            self.client.io.transport.send_close_notify();
        }
    }

    fn log(&mut self, status: ConnectionStatus) {
        let Some(log) = self.beginning.log.take() else {
            return;
        };
        let sent = self.relay.bytes_out();
        log.received(self.relay.bytes_in());
        log.write(&self.session, sent, self.beginning.bytes + sent, status);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Cut by the end of the worker. A panic may hold the logs.
        if !std::thread::panicking() {
            self.log(ConnectionStatus::Aborted);
        }
    }
}
