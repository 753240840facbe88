//! Streams of a worker: what their sessions share, and the way in for TCP and UDP.
//!
//! Called by: `accept`, for connections of listeners that belong to a stream server; `worker_thread`,
//! for UDP sockets.
//! Caveat: a session keeps the rules that it began with; its log files may be reopened meanwhile.
//! Out of scope: choosing and relaying, which `saker-stream-proxy` does.

mod connection;
mod datagrams;

pub use connection::start;
pub use datagrams::listen;

use crate::shared::Shared;
use saker_net::Deadlines;
use saker_pipeline::Generation;
use saker_stream_proxy::{Session, SessionProtocol, StreamContext, status};
use saker_telemetry::{
    Counters, Metric,
    access_log::{Flushed, LogBuffer},
    error_log, message,
};
use std::{cell::RefCell, rc::Rc, sync::Arc};

/// The streams of a generation, for one worker.
pub struct Streams {
    pub context: Rc<StreamContext>,
    logs: RefCell<Vec<LogBuffer>>,
    /// For each log: its lines are written at once.
    are_immediate: Vec<bool>,
    counters: Arc<Counters>,
}

impl Streams {
    /// `None`: the generation has no streams.
    pub fn new(
        generation: &Arc<Generation>,
        shared: &Shared,
        deadlines: &Rc<Deadlines>,
        index: usize,
    ) -> Option<Rc<Streams>> {
        let rules = (shared.make_stream_rules)(generation)?;
        let (mut logs, mut are_immediate) = (Vec::new(), Vec::new());
        for target in rules.log_targets() {
            match shared.logs.open(target) {
                Ok(file) => {
                    file.set_rotation(generation.model.rotation_of(target));
                    logs.push(LogBuffer::new(file));
                    let mut known = generation.model.stream_logs.iter();
                    let log = known.find(|log| log.target == *target);
                    are_immediate.push(log.is_some_and(|log| log.is_immediate));
                }
                // It was open when the configuration was put in force.
                Err(error) => {
                    error_log::log(&message::LOG_WRITE_FAILED, format_args!("{error}"));
                    logs.clear();
                    break;
                }
            }
        }
        let workers = shared.counters.len();
        let context = StreamContext::new(rules, Rc::clone(deadlines), workers);
        Some(Rc::new(Streams {
            context: Rc::new(context),
            logs: RefCell::new(logs),
            are_immediate,
            counters: Arc::clone(shared.counters.get(index)?),
        }))
    }

    /// Counts a session that has ended, and writes the lines about it.
    pub fn log(&self, session: &mut Session) {
        self.count_session(session);
        let mut flushed = Flushed::default();
        self.context.rules.log(session, &mut |number, line| {
            if let Some(log) = self.logs.borrow_mut().get_mut(number) {
                let done = log.append(|out| out.extend_from_slice(line));
                flushed.written += done.written;
                flushed.dropped += done.dropped;
                if self.are_immediate.get(number) == Some(&true) {
                    let done = log.flush();
                    flushed.written += done.written;
                    flushed.dropped += done.dropped;
                }
            }
        });
        self.count(flushed);
    }

    /// Hands gathered lines to their files.
    pub fn flush(&self) {
        for log in self.logs.borrow_mut().iter_mut() {
            let done = log.flush();
            self.count(done);
        }
    }

    fn count_session(&self, session: &Session) {
        let counters = &self.counters;
        counters.increment(match session.protocol {
            SessionProtocol::Tcp => Metric::StreamSessionsTcp,
            SessionProtocol::Udp => Metric::StreamSessionsUdp,
        });
        match session.status {
            status::FORBIDDEN | status::UNAVAILABLE => counters.increment(Metric::StreamRefused),
            status::BAD_GATEWAY => counters.increment(Metric::StreamUnreachable),
            _ => {}
        }
        counters.add(Metric::StreamBytesReceived, session.bytes_received);
        counters.add(Metric::StreamBytesSent, session.bytes_sent);
    }

    fn count(&self, done: Flushed) {
        self.counters.add(Metric::LogLinesWritten, done.written);
        self.counters.add(Metric::LogLinesDropped, done.dropped);
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        // A panic may hold the logs.
        if !std::thread::panicking() {
            self.flush();
        }
    }
}
