//! Connections that wait for their clients without a task, in the worker's table: those whose first
//! request was answered at once, and those that have been idle for a while.
//!
//! Called by: `start` and `run`; the worker, when the client goes on or something has changed.
//! Caveat: only plain connections; what TLS has to remember is far larger than a task. Leaving the
//! event loop and coming back are four system calls, so a connection whose client keeps asking gets
//! a task, and keeps it.

use crate::{
    io::Io,
    request::{Cause, Session, rejected},
    transport::Transport,
    worker::IdleConnection,
};
use saker_net::{IdleStream, RawStream};
use saker_telemetry::{Metric, error_log, message};
use std::rc::Rc;

/// Idle time with a task.
pub const WITH_TASK_MS: u64 = 250;

/// Timeout of the first request on a connection that arrived just before the server closed its
/// listeners.
pub const FIRST_REQUEST_MS: u64 = 1000;

/// Lets a connection wait until its client goes on or `until_ms` is over.
pub fn wait(session: Session, io: Io, until_ms: u64) {
    let Transport::Plain(socket) = io.transport else {
        return;
    };
    let stream = match socket.into_stream().deregister() {
        Ok(stream) => stream,
        Err(error) => return failed(&session, &error),
    };
    add(session, stream, until_ms);
}

/// The same for a connection that has not been on the event loop.
pub fn wait_from_now(session: Session, stream: RawStream) {
    let limit_ms = {
        let services = session.worker.services.borrow();
        session.idle_timeout_ms(&services.generation)
    };
    add(session, stream, saker_net::clock::turn_ms() + limit_ms);
}

fn add(session: Session, stream: RawStream, until_ms: u64) {
    let worker = Rc::clone(&session.worker);
    let idle = IdleStream {
        stream,
        until_ms,
        value: Box::new(session) as Box<dyn IdleConnection>,
    };
    if let Err(idle) = worker.idle.add(idle) {
        // It gets its task again, and its idle time from the beginning.
        idle.value.resume(idle.stream);
    }
}

/// The metric by which a connection that waits is counted if it has to end now. May bring its
/// deadline forward.
pub fn end(session: &mut Session, until_ms: &mut u64, now_ms: u64) -> Option<Metric> {
    let cause = if *until_ms <= now_ms {
        rejected::log_timeout(session, None);
        Cause::Idle
    } else if session.is_banned() {
        Cause::Banned
    } else if !session.is_draining() {
        return None;
    } else if session.requests > 0 {
        Cause::Done
    } else {
        *until_ms = (*until_ms).min(now_ms + FIRST_REQUEST_MS);
        return None;
    };
    Some(cause.metric())
}

pub fn failed(session: &Session, error: &std::io::Error) {
    error_log::log_about(
        &message::CONNECTION_FAILED,
        &*session.client,
        format_args!("{error}"),
    );
    session.worker.counters.increment(Metric::ClosedError);
}
