//! The load itself: connections that keep so many requests under way until it is enough.
//!
//! Every event of a connection comes here with the connection. The one difficulty is early data
//! that the server refuses: all streams of the connection are gone then, and what was asked on them
//! is asked again. Absent on purpose: GOAWAY is not looked at; what a server does not take any more
//! comes back as an error.

use crate::{
    counts::LoadCounts,
    http3::{self, Response},
    plan::{End, Plan, Tickets},
    quic::{Id, Quic},
};
use bytes::Bytes;
use quinn_proto::{
    Connection, Dir, Event, ReadError, ReadableError, StreamEvent, StreamId, VarInt, WriteError,
};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    time::{Duration, Instant},
};

/// Handshakes at a time; more would only time each other out.
const HANDSHAKES_MAX: usize = 200;
/// A server that refuses everything need not be asked for long.
const ERRORS_MAX: u64 = 1000;
static CONTENT: [u8; 65_536] = [b'x'; 65_536];

pub struct Visitors<'p> {
    plan: &'p Plan,
    /// Ready to be sent, a head per path.
    heads: Vec<Bytes>,
    visitors: Vec<Option<Visitor>>,
    /// Connections in their handshake.
    handshaking: usize,
    /// Handshaking ones, too.
    open: usize,
    started: u64,
    /// Times at which slots are free for their next request.
    thinking: BinaryHeap<Reverse<(Instant, Id, u64)>>,
    connections_so_far: u64,
    /// Nothing new is begun.
    pub is_over: bool,
    pub counts: LoadCounts,
}

struct Visitor {
    /// Differs from that of an earlier one with the same id.
    number: u64,
    since: Instant,
    asks: Vec<Ask>,
    /// Places whose visitor thinks.
    thinking: usize,
    asked: usize,
    is_established: bool,
    is_early: bool,
}

struct Ask {
    stream: StreamId,
    since: Instant,
    response: Response,
    /// The head, as long as it has not left.
    head: Option<Bytes>,
    content_left: u64,
}

impl<'p> Visitors<'p> {
    pub fn new(plan: &'p Plan, authority: &str) -> Visitors<'p> {
        let heads = plan
            .paths
            .iter()
            .map(|path| http3::request(authority, path, plan.upload_bytes).into())
            .collect();
        Visitors {
            plan,
            heads,
            visitors: Vec::new(),
            handshaking: 0,
            open: 0,
            started: 0,
            thinking: BinaryHeap::new(),
            connections_so_far: 0,
            is_over: false,
            counts: LoadCounts::default(),
        }
    }

    /// True if there is nothing left to be done.
    pub fn is_done(&self) -> bool {
        let has_all_been_asked =
            matches!(self.plan.end, End::Requests(wanted) if self.started >= wanted);
        self.counts.errors_in_all() > ERRORS_MAX
            || self.is_over
            || (has_all_been_asked && self.open == 0)
    }

    /// As many connections as wanted, some at a time.
    pub fn open_connections(&mut self, quic: &mut Quic, name: &str) -> Result<(), String> {
        while self.open < self.plan.connections
            && self.handshaking < HANDSHAKES_MAX
            && self.may_ask()
            && !self.waits_for_a_ticket()
        {
            let id = quic
                .connect(self.plan.address, name)
                .map_err(|error| error.to_string())?;
            let is_early = self.plan.tickets == Tickets::EarlyData
                && quic.connection(id).is_some_and(|quic| quic.has_0rtt());
            if self.visitors.len() <= id {
                self.visitors.resize_with(id + 1, || None);
            }
            let number = self.connections_so_far;
            self.visitors[id] = Some(Visitor {
                number,
                since: Instant::now(),
                asks: Vec::new(),
                thinking: 0,
                asked: 0,
                is_established: false,
                is_early,
            });
            self.connections_so_far += 1;
            self.handshaking += 1;
            self.open += 1;
            if is_early {
                self.begin(quic, id);
            }
        }
        Ok(())
    }

    pub fn happened(&mut self, quic: &mut Quic, id: Id, events: &mut Vec<Event>) {
        for event in events.drain(..) {
            match event {
                Event::Connected => self.connected(quic, id),
                Event::ConnectionLost { reason } => self.lost(id, &reason.to_string()),
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => accept(quic, id),
                Event::Stream(StreamEvent::Readable { id: stream }) => {
                    self.readable(quic, id, stream)
                }
                Event::Stream(StreamEvent::Writable { id: stream }) => {
                    self.writable(quic, id, stream)
                }
                Event::Stream(StreamEvent::Available { dir: Dir::Bi }) => self.ask(quic, id),
                Event::Stream(StreamEvent::Stopped { id: stream, .. }) => {
                    self.stopped(quic, id, stream)
                }
                _ => {}
            }
        }
    }

    /// Those who have thought long enough go on. Says when the next one has.
    pub fn think(&mut self, quic: &mut Quic, now: Instant) -> Option<Instant> {
        while let Some(&Reverse((time, id, number))) = self.thinking.peek() {
            if time > now {
                return Some(time);
            }
            self.thinking.pop();
            if let Some(Some(visitor)) = self.visitors.get_mut(id)
                && visitor.number == number
            {
                visitor.thinking = visitor.thinking.saturating_sub(1);
                self.ask(quic, id);
            }
        }
        None
    }

    /// Handshakes and requests that take longer than the plan has patience for.
    pub fn overdue(&self, now: Instant) -> usize {
        let is_overdue = |since: Instant| now.saturating_duration_since(since) > self.plan.patience;
        let visitors = self.visitors.iter().flatten();
        visitors
            .map(|visitor| {
                let asks = visitor
                    .asks
                    .iter()
                    .filter(|ask| is_overdue(ask.since))
                    .count();
                asks + usize::from(!visitor.is_established && is_overdue(visitor.since))
            })
            .sum()
    }

    /// Connections that should be there.
    pub fn missing(&self) -> Option<u64> {
        let missing = self.plan.connections.saturating_sub(self.open);
        (missing > 0).then_some(missing as u64)
    }

    /// One in `every` of those who think has thought enough. How many that are.
    pub fn wake(&mut self, quic: &mut Quic, every: usize) -> u64 {
        let before = self.started;
        for id in (0..self.visitors.len()).step_by(every.max(1)) {
            if let Some(Some(visitor)) = self.visitors.get_mut(id) {
                visitor.thinking = visitor.thinking.saturating_sub(1);
                self.ask(quic, id);
            }
        }
        self.started - before
    }

    /// The server is told.
    pub fn close_all(&mut self, quic: &mut Quic) {
        for id in 0..self.visitors.len() {
            self.close(quic, id);
        }
    }

    fn may_ask(&self) -> bool {
        !self.is_over && !matches!(self.plan.end, End::Requests(wanted) if self.started >= wanted)
    }

    /// The first connection fetches a ticket for those that follow.
    fn waits_for_a_ticket(&self) -> bool {
        self.plan.tickets != Tickets::No && self.counts.handshakes == 0 && self.open > 0
    }

    fn connected(&mut self, quic: &mut Quic, id: Id) {
        let Some(Some(visitor)) = self.visitors.get_mut(id) else {
            return;
        };
        self.handshaking -= 1;
        self.counts.handshakes += 1;
        visitor.is_established = true;
        let was_early = std::mem::take(&mut visitor.is_early);
        if was_early && quic.connection(id).is_some_and(|quic| quic.accepted_0rtt()) {
            self.counts.early += 1;
            self.ask(quic, id);
            return;
        }
        self.started -= visitor.asks.len() as u64;
        visitor.asked -= visitor.asks.len();
        visitor.asks.clear();
        self.begin(quic, id);
    }

    fn begin(&mut self, quic: &mut Quic, id: Id) {
        let Some(connection) = quic.connection(id) else {
            return;
        };
        let control = connection.streams().open(Dir::Uni);
        if control.is_none_or(|stream| {
            connection.send_stream(stream).write(http3::CONTROL_STREAM)
                != Ok(http3::CONTROL_STREAM.len())
        }) {
            self.counts.error("no room for a control stream".into());
        }
        self.ask(quic, id);
    }

    fn lost(&mut self, id: Id, reason: &str) {
        let Some(visitor) = self.visitors.get_mut(id).and_then(Option::take) else {
            return;
        };
        self.handshaking -= usize::from(!visitor.is_established);
        self.open -= 1;
        // One that had nothing to do may go.
        let has_lost = visitor.asks.len() + usize::from(!visitor.is_established);
        (0..has_lost).for_each(|_| self.counts.error(format!("connection lost: {reason}")));
    }

    fn close(&mut self, quic: &mut Quic, id: Id) {
        if let Some(visitor) = self.visitors.get_mut(id).and_then(Option::take) {
            self.handshaking -= usize::from(!visitor.is_established);
            self.open -= 1;
            self.counts.lost_packets += quic
                .connection(id)
                .map_or(0, |quic| quic.stats().path.lost_packets);
            quic.close(id, http3::NO_ERROR);
        }
    }

    /// As many requests as there are places for; without any left, the end of the connection.
    fn ask(&mut self, quic: &mut Quic, id: Id) {
        let Some(connection) = quic.connection(id) else {
            return;
        };
        let per_connection = self.plan.requests_per_connection.unwrap_or(usize::MAX);
        let mut may_ask = self.may_ask();
        let Some(Some(visitor)) = self.visitors.get_mut(id) else {
            return;
        };
        if !visitor.is_established && !visitor.is_early {
            return;
        }
        while may_ask
            && visitor.asks.len() + visitor.thinking < self.plan.streams
            && visitor.asked < per_connection
        {
            let Some(stream) = connection.streams().open(Dir::Bi) else {
                return;
            };
            let head = self.heads[(self.started % self.heads.len() as u64) as usize].clone();
            let content_left = self.plan.upload_bytes.unwrap_or(0);
            let mut ask = Ask {
                stream,
                since: Instant::now(),
                response: Response::default(),
                head: Some(head),
                content_left,
            };
            self.counts.bytes_sent += ask.write(connection);
            visitor.asks.push(ask);
            visitor.asked += 1;
            self.started += 1;
            may_ask = !matches!(self.plan.end, End::Requests(wanted) if self.started >= wanted);
        }
        if visitor.asks.is_empty() && visitor.thinking == 0 {
            self.close(quic, id);
        }
    }

    fn readable(&mut self, quic: &mut Quic, id: Id, stream: StreamId) {
        let Some(connection) = quic.connection(id) else {
            return;
        };
        let Some(Some(visitor)) = self.visitors.get_mut(id) else {
            return;
        };
        let Some(place) = visitor.asks.iter().position(|ask| ask.stream == stream) else {
            // The server's own streams have nothing that a load would need.
            let _ = read(connection, stream, |_| Ok(()));
            return;
        };
        let response = &mut visitor.asks[place].response;
        let before = response.body_bytes;
        let outcome = read(connection, stream, |bytes| response.receive(bytes));
        self.counts.bytes_received += response.body_bytes - before;
        let outcome = match outcome {
            Ok(false) => return,
            Ok(true) => response.end(),
            Err(error) => Err(error),
        };
        let ask = visitor.asks.swap_remove(place);
        if ask.content_left > 0 {
            let _ = connection
                .send_stream(stream)
                .reset(VarInt::from_u32(http3::REQUEST_CANCELLED));
        }
        self.answered(ask.since, outcome);
        self.next(quic, id);
    }

    fn answered(&mut self, since: Instant, outcome: Result<u16, String>) {
        match outcome {
            Ok(200..300) => self.counts.latencies.record(since.elapsed()),
            Ok(status) => self.counts.error(format!("status {status}")),
            Err(error) => self.counts.error(error),
        }
    }

    fn next(&mut self, quic: &mut Quic, id: Id) {
        if self.plan.think > Duration::ZERO
            && let Some(Some(visitor)) = self.visitors.get_mut(id)
        {
            visitor.thinking += 1;
            self.thinking.push(Reverse((
                Instant::now() + self.plan.think,
                id,
                visitor.number,
            )));
            return;
        }
        self.ask(quic, id);
    }

    fn writable(&mut self, quic: &mut Quic, id: Id, stream: StreamId) {
        if let Some(connection) = quic.connection(id)
            && let Some(ask) = self.ask_of(id, stream)
        {
            let sent = ask.write(connection);
            self.counts.bytes_sent += sent;
        }
    }

    /// A server may not want all of the content (RFC 9114 section 4.1). It is owed a reset then
    /// (RFC 9000 section 3.5).
    fn stopped(&mut self, quic: &mut Quic, id: Id, stream: StreamId) {
        if let Some(connection) = quic.connection(id) {
            let _ = connection
                .send_stream(stream)
                .reset(VarInt::from_u32(http3::NO_ERROR)); // It may have ended.
        }
        if let Some(ask) = self.ask_of(id, stream) {
            (ask.head, ask.content_left) = (None, 0);
        }
    }

    fn ask_of(&mut self, id: Id, stream: StreamId) -> Option<&mut Ask> {
        self.visitors
            .get_mut(id)?
            .as_mut()?
            .asks
            .iter_mut()
            .find(|ask| ask.stream == stream)
    }
}

impl Ask {
    /// As much as there is room for; the end of the stream after the last byte. Says how much
    /// content went.
    fn write(&mut self, connection: &mut Connection) -> u64 {
        let mut stream = connection.send_stream(self.stream);
        let mut sent = 0;
        loop {
            let is_head = self.head.is_some();
            let piece = self.head.take().unwrap_or_else(|| {
                Bytes::from_static(&CONTENT[..self.content_left.min(65_536) as usize])
            });
            if piece.is_empty() {
                let _ = stream.finish(); // It may have been stopped.
                return sent;
            }
            let mut pieces = [piece];
            match stream.write_chunks(&mut pieces) {
                Ok(written) if is_head => {
                    let [rest] = pieces;
                    self.head = (written.chunks == 0).then_some(rest);
                }
                Ok(written) => {
                    self.content_left -= written.bytes as u64;
                    sent += written.bytes as u64;
                }
                Err(WriteError::Blocked) => {
                    let [rest] = pieces;
                    self.head = is_head.then_some(rest);
                    return sent;
                }
                Err(_) => {
                    (self.head, self.content_left) = (None, 0);
                    return sent;
                }
            }
        }
    }
}

/// Hands over what has come; true at the end of the stream.
fn read(
    connection: &mut Connection,
    stream: StreamId,
    mut each: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<bool, String> {
    let mut stream = connection.recv_stream(stream);
    let mut chunks = match stream.read(true) {
        Ok(chunks) => chunks,
        Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => {
            return Err("read after the end".into());
        }
    };
    let outcome = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => {
                if let Err(error) = each(&chunk.bytes) {
                    break Err(error);
                }
            }
            Ok(None) => break Ok(true),
            Err(ReadError::Blocked) => break Ok(false),
            Err(ReadError::Reset(code)) => {
                break Err(format!("reset with {:#x}", code.into_inner()));
            }
        }
    };
    // What it wants sent is sent in this turn anyway.
    let _ = chunks.finalize();
    outcome
}

fn accept(quic: &mut Quic, id: Id) {
    while let Some(connection) = quic.connection(id) {
        let Some(stream) = connection.streams().accept(Dir::Uni) else {
            return;
        };
        let _ = read(connection, stream, |_| Ok(()));
    }
}
