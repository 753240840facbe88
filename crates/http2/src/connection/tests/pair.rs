//! Our client and our server, joined by two pipes, and everything a driver can do with them. Also
//! the body of a fuzz target, so that only the public interface is used.

use std::collections::HashMap;

use super::{Connection, ErrorCode, Event, HeadStore, Indexing, Limits, StreamId};

const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "http"),
    (":authority", "a"),
    (":path", "/"),
];

/// Limits that well-behaved peers do not meet.
pub fn generous() -> Limits {
    let many = 1_000_000;
    Limits {
        resets_max: many,
        pings_max: many,
        settings_max: many,
        window_updates_max: many,
        priority_updates_max: many,
        empty_frames_max: many,
        concurrent_streams_max: 10,
        stream_window_bytes: 3_000,
        connection_window_bytes: 65_535,
        ..Limits::default()
    }
}

/// State of a stream as one side sees it.
#[derive(Default)]
struct Exchange {
    head_sent: bool,
    sent: usize,
    ended: bool,
    received: usize,
    unreleased: usize,
    /// Reset from either side: what is under way may be lost.
    reset: bool,
}

/// One end of the pipe.
struct Side {
    machine: Connection,
    head: HeadStore,
    out: Vec<u8>,
    exchanges: HashMap<u32, Exchange>,
}

impl Side {
    fn new(mut machine: Connection) -> Side {
        let mut out = Vec::new();
        machine.begin(&mut out);
        Side {
            machine,
            head: HeadStore::default(),
            out,
            exchanges: HashMap::new(),
        }
    }

    fn pick(&self, which: u8) -> Option<u32> {
        let mut ids: Vec<u32> = self.exchanges.keys().copied().collect();
        ids.sort_unstable();
        (!ids.is_empty()).then(|| ids[usize::from(which) % ids.len()])
    }

    /// Content by one frame, never beyond what was said to be possible.
    fn send(&mut self, stream: u32, amount: usize, end: bool) {
        let capacity = self.machine.send_capacity(StreamId(stream));
        let is_open = self.machine.is_open(StreamId(stream));
        let Some(exchange) = self
            .exchanges
            .get_mut(&stream)
            .filter(|exchange| exchange.head_sent)
        else {
            return;
        };
        let before = self.out.len();
        let granted = self
            .machine
            .begin_data(StreamId(stream), amount, end, &mut self.out);
        assert!(granted <= amount.min(capacity).min(16_375));
        assert_eq!(granted > 0, amount.min(capacity) > 0);
        self.out.resize(self.out.len() + granted, 7);
        exchange.sent += granted;
        exchange.ended |= is_open && end && granted == amount;
        assert_eq!(
            self.out.len() - before > 0,
            granted > 0 || (is_open && end && amount == 0)
        );
    }

    fn reset(&mut self, stream: u32) {
        self.machine
            .send_reset(StreamId(stream), ErrorCode::Cancel, &mut self.out);
        self.exchanges.entry(stream).or_default().reset = true;
    }

    fn release(&mut self, stream: u32, amount: usize) {
        let Some(exchange) = self.exchanges.get_mut(&stream) else {
            return;
        };
        let amount = amount.min(exchange.unreleased);
        exchange.unreleased -= amount;
        self.machine
            .release(StreamId(stream), amount, &mut self.out);
    }

    /// Takes what came through the pipe. `other`: what the other side says it has sent.
    fn receive(&mut self, input: &mut Vec<u8>, other: &HashMap<u32, Exchange>) {
        let mut used = 0;
        loop {
            self.machine.flushed();
            let (count, event) = self
                .machine
                .receive(&input[used..], 0, &mut self.head, &mut self.out)
                .expect("no fault of ours");
            used += count;
            match event {
                None if count == 0 => break,
                None | Some(Event::WindowOpened | Event::GoAway { .. }) => {}
                Some(Event::Head { stream, .. } | Event::Informational { stream }) => {
                    self.exchanges.entry(stream.0).or_default();
                }
                Some(Event::Data {
                    stream,
                    data,
                    flow_bytes,
                    end_stream,
                }) => {
                    let exchange = self
                        .exchanges
                        .get_mut(&stream.0)
                        .expect("content of a stream with a head");
                    assert!(!exchange.reset, "content after a reset");
                    exchange.received += data.len();
                    exchange.unreleased += flow_bytes;
                    let sent = &other[&stream.0];
                    assert!(
                        exchange.received <= sent.sent
                            && (!end_stream || exchange.received == sent.sent)
                    );
                }
                Some(Event::Trailers { stream }) => {
                    assert_eq!(
                        self.exchanges[&stream.0].received, other[&stream.0].sent,
                        "content before trailers"
                    );
                }
                Some(Event::Reset { stream, .. }) => {
                    let exchange = self
                        .exchanges
                        .get_mut(&stream.0)
                        .expect("a reset of a stream with a head");
                    assert!(
                        !std::mem::replace(&mut exchange.reset, true),
                        "a second reset"
                    );
                }
                Some(Event::ContentRefused { .. }) => panic!("no content is refused"),
                Some(Event::HeadRefused { .. }) => panic!("no head is large"),
            }
        }
        input.drain(..used);
    }
}

pub struct Pair {
    client: Side,
    server: Side,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    is_ending: bool,
}

impl Pair {
    pub fn new() -> Pair {
        let (client, server) = (
            Side::new(Connection::client(generous())),
            Side::new(Connection::server(generous(), true)),
        );
        Pair {
            client,
            server,
            to_server: Vec::new(),
            to_client: Vec::new(),
            is_ending: false,
        }
    }

    /// One operation of whichever side; those that are impossible now are none.
    pub fn step(&mut self, operation: u8, which: u8, amount: usize) {
        let end = which.is_multiple_of(3);
        let (at_client, at_server) = (self.client.pick(which), self.server.pick(which));
        match (operation, at_client, at_server) {
            (0, ..) => self.open(end),
            (1, Some(stream), _) => self.client.send(stream, amount, end),
            (2, Some(stream), _) => self.trailers_of_client(stream),
            (3, Some(stream), _) => self.client.release(stream, amount),
            (4, Some(stream), _) if which.is_multiple_of(8) => self.client.reset(stream),
            (5, _, Some(stream)) => self.answer(stream, end),
            (6, _, Some(stream)) => self.server.send(stream, amount, end),
            (7, _, Some(stream)) => self.server.release(stream, amount),
            (8, _, Some(stream)) if which.is_multiple_of(8) => self.server.reset(stream),
            (9, _, Some(stream)) => self.server.machine.set_ready(StreamId(stream), end),
            (10, ..) => self.next_of_server(amount),
            (11 | 12, ..) => self.deliver(amount),
            (13, ..) if which.is_multiple_of(32) => {
                self.server.machine.shut_down(&mut self.server.out);
                self.is_ending = true;
            }
            _ => {}
        }
        self.client.machine.check_invariants();
        self.server.machine.check_invariants();
    }

    fn open(&mut self, end: bool) {
        let opened = self.client.machine.open(end, &mut self.client.out, |head| {
            GET.iter()
                .for_each(|(name, value)| head.pseudo(name.as_bytes(), value.as_bytes()));
            head.field(b"user-agent", b"pair", Indexing::Add);
        });
        if let Ok(stream) = opened {
            self.client.exchanges.insert(
                stream.0,
                Exchange {
                    head_sent: true,
                    ended: end,
                    ..Exchange::default()
                },
            );
        }
    }

    fn trailers_of_client(&mut self, stream: u32) {
        if self
            .client
            .machine
            .send_trailers(StreamId(stream), &mut self.client.out, |head| {
                head.field(b"x", b"y", Indexing::Add)
            })
        {
            self.client.exchanges.entry(stream).or_default().ended = true;
        }
    }

    fn answer(&mut self, stream: u32, end: bool) {
        let sent =
            self.server
                .machine
                .send_head(StreamId(stream), end, &mut self.server.out, |head| {
                    head.status(200);
                    head.field(b"server", b"pair", Indexing::Add);
                });
        let exchange = self.server.exchanges.entry(stream).or_default();
        exchange.head_sent |= sent;
        exchange.ended |= sent && end;
    }

    /// The side that has the turn can send.
    fn next_of_server(&mut self, amount: usize) {
        if let Some(stream) = self.server.machine.next_ready() {
            assert!(self.server.machine.send_capacity(stream) > 0);
            self.server.send(stream.0, amount.max(1), false);
        }
    }

    /// Moves some bytes each way.
    fn deliver(&mut self, amount: usize) {
        let some =
            |from: &mut Vec<u8>, to: &mut Vec<u8>| to.extend(from.drain(..amount.min(from.len())));
        self.server.machine.write_stops(&mut self.server.out);
        some(&mut self.client.out, &mut self.to_server);
        some(&mut self.server.out, &mut self.to_client);
        self.server
            .receive(&mut self.to_server, &self.client.exchanges);
        self.client
            .receive(&mut self.to_client, &self.server.exchanges);
    }

    fn settle(&mut self) {
        loop {
            self.deliver(usize::MAX);
            self.server.machine.write_stops(&mut self.server.out);
            if self.client.out.is_empty() && self.server.out.is_empty() {
                break;
            }
        }
    }

    /// Everything given up, both sides are as they began.
    pub fn finish(&mut self) {
        self.settle();
        let ids: Vec<u32> = self
            .client
            .exchanges
            .keys()
            .chain(self.server.exchanges.keys())
            .copied()
            .collect();
        for id in ids {
            self.client.release(id, usize::MAX);
            self.server.release(id, usize::MAX);
            self.client.reset(id);
        }
        self.settle();
        for side in [&self.client, &self.server] {
            assert_eq!(side.machine.open_streams(), 0);
            // What is not announced yet is less than half a window.
            assert!(side.machine.connection_capacity() > 65_535 / 2);
        }
        assert!(!self.is_ending || self.server.machine.is_finished());
    }
}
