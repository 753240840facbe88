//! The first read of a plain connection, before the event loop knows of it.
//!
//! Called by: `accept`.
//! Caveat: a client that sends its request at once and closes costs accept, recv, send and close,
//! and never meets epoll.

use super::{
    connection::Connection,
    idle,
    inbound::{self, Next},
    step::Sending,
};
use crate::{
    buffers::Buffers,
    freshness::ReadOrigin,
    io::Io,
    request::{Cause, Session},
    transport::Transport,
    worker::IdleConnection,
};
use saker_net::RawStream;
use saker_telemetry::Metric;
use std::rc::Rc;

/// Runs a connection that is on the event loop to its end.
pub fn run(session: Session, io: Io) -> impl Future<Output = ()> {
    // The request often comes in the same packet as a PROXY preface before it.
    let unseen_input = !io.input.is_empty();
    let mut connection = Connection::new(session, io);
    connection.unseen_input = unseen_input;
    connection.run()
}

/// Serves bytes that have already arrived. A response that fits the socket needs no task: the
/// connection ends with it, or waits without one.
pub fn first_read(session: Session, stream: RawStream, origin: ReadOrigin) {
    read_and_serve(session, stream, origin, true);
}

impl IdleConnection for Session {
    /// Its client may go on to ask, so it gets a task.
    fn resume(self: Box<Self>, stream: RawStream) {
        read_and_serve(*self, stream, ReadOrigin::Unknown, false);
    }

    fn end(&mut self, until_ms: &mut u64, now_ms: u64) -> Option<Metric> {
        idle::end(self, until_ms, now_ms)
    }
}

fn read_and_serve(mut session: Session, stream: RawStream, mut origin: ReadOrigin, is_first: bool) {
    let worker = Rc::clone(&session.worker);
    let mut buffers = worker.buffers.borrow_mut();
    let Buffers {
        read, out, index, ..
    } = &mut *buffers;
    let bytes = match stream.try_read(read) {
        Ok(0) => return worker.counters.increment(Metric::ClosedByClient),
        Ok(bytes) => {
            worker.counters.add(Metric::BytesIn, bytes as u64);
            bytes
        }
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
        Err(_) => return worker.counters.increment(Metric::ClosedByClient),
    };
    out.clear();
    let next = inbound::serve(
        &worker,
        &mut session,
        (&read[..bytes], &mut origin),
        index,
        out,
    );
    let written = if out.is_empty() {
        0
    } else {
        stream.try_write(out).unwrap_or(0)
    };
    worker.counters.add(Metric::BytesOut, written as u64);
    if written == out.len()
        && matches!(
            next,
            Next::Close {
                cause: Cause::Done,
                ..
            }
        )
    {
        return worker.counters.increment(Metric::ClosedByServer);
    }
    let rest = read[next.rest().min(bytes)..bytes].to_vec();
    let is_answered = bytes > 0 && rest.is_empty() && written == out.len();
    let waits = is_answered && matches!(next, Next::Read { .. });
    if is_first && waits && !session.is_draining() {
        drop(buffers);
        return idle::wait_from_now(session, stream);
    }
    let stream = match stream.register() {
        Ok(stream) => stream,
        Err(error) => return idle::failed(&session, &error),
    };
    let mut connection = Connection::new(session, Io::new(Transport::plain(stream), rest));
    if let Some(step) = connection.take(next, out, written) {
        connection.sending = Some(Sending::bytes(Vec::new(), step.into()));
    }
    drop(buffers);
    tokio::task::spawn_local(connection.run());
}
