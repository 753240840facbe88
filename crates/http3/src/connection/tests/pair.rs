//! Our client and our server, joined by streams that overtake each other, and everything a driver
//! can do with them. Also the body of a fuzz target, so that only the public interface is used.

use std::collections::BTreeMap;

use super::{Connection, Event, HeadStore, Indexing, Limits, Outgoing};

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
        priority_updates_max: many,
        empty_frames_max: many,
        table_updates_max: many,
        control_bytes_max: many as usize,
        concurrent_streams_max: 10,
        table_bytes: 300,
        blocked_streams_max: 10,
        ..Limits::default()
    }
}

/// Bytes in transit on one stream in one direction.
#[derive(Default)]
struct Pipe {
    bytes: Vec<u8>,
    ended: bool,
    /// The end has been delivered.
    done: bool,
}

/// State of a stream as one side sees it.
#[derive(Default)]
struct Exchange {
    out: Pipe,
    /// Content that was promised and is not in the pipe yet.
    promised: usize,
    head_sent: bool,
    sent: usize,
    received: usize,
    heads: Vec<String>,
    remote_ended: bool,
    /// Our side ended before the peer's, of which a server does not want to hear the rest.
    ended_first: bool,
    /// Given up, from either side: what is under way is lost.
    gone: bool,
}

/// One end.
struct Side {
    machine: Connection,
    head: HeadStore,
    exchanges: BTreeMap<u64, Exchange>,
    /// Our own streams, by their kind.
    own: [Pipe; 3],
}

impl Side {
    fn new(machine: Connection) -> Side {
        Side {
            machine,
            head: HeadStore::default(),
            exchanges: BTreeMap::new(),
            own: Default::default(),
        }
    }

    fn pick(&self, which: u8) -> Option<u64> {
        let ids: Vec<u64> = self
            .exchanges
            .iter()
            .filter(|(_, exchange)| !exchange.gone)
            .map(|(id, _)| *id)
            .collect();
        (!ids.is_empty()).then(|| ids[usize::from(which) % ids.len()])
    }

    /// Keeps a promise, or makes one and keeps some of it.
    fn send(&mut self, stream: u64, amount: usize, end: bool) {
        let Some(exchange) = self
            .exchanges
            .get_mut(&stream)
            .filter(|exchange| exchange.head_sent && !exchange.out.ended && !exchange.gone)
        else {
            return;
        };
        if exchange.promised == 0 {
            let is_open =
                self.machine
                    .begin_data(stream, amount as u64, end, &mut exchange.out.bytes);
            assert!(
                is_open,
                "{stream} {amount} {end} {} {} {:?} {}",
                exchange.sent, exchange.received, exchange.heads, exchange.remote_ended
            );
            exchange.promised = amount;
            exchange.out.ended = end && amount == 0;
            return self.note_end(stream);
        }
        let part = amount.min(exchange.promised);
        exchange
            .out
            .bytes
            .resize(exchange.out.bytes.len() + part, 7);
        exchange.promised -= part;
        exchange.sent += part;
        exchange.out.ended = exchange.promised == 0 && !self.machine.is_open(stream);
    }

    fn trailers(&mut self, stream: u64) {
        let Some(exchange) = self
            .exchanges
            .get_mut(&stream)
            .filter(|exchange| exchange.promised == 0 && !exchange.out.ended)
        else {
            return;
        };
        exchange.out.ended |= self
            .machine
            .send_trailers(stream, &mut exchange.out.bytes, |head| {
                head.field(b"x", b"y", Indexing::Add)
            });
        self.note_end(stream);
    }

    fn give_up(&mut self, stream: u64) {
        self.machine.abandon(stream);
        self.exchanges.entry(stream).or_default().gone = true;
    }

    /// After a verb that may have ended our side.
    fn note_end(&mut self, stream: u64) {
        let is_open = self.machine.is_open(stream);
        if let Some(exchange) = self.exchanges.get_mut(&stream) {
            exchange.ended_first |= !is_open && !exchange.remote_ended;
        }
    }

    /// Moves what our own streams have to say into their pipes.
    fn flush(&mut self) {
        for (which, pipe) in Outgoing::ALL.into_iter().zip(&mut self.own) {
            let bytes = self.machine.outgoing(which).to_vec();
            self.machine.sent(which, bytes.len());
            pipe.bytes.extend(bytes);
        }
        assert!(!self.machine.has_outgoing());
    }

    /// Looks at some of what came on a stream; says which streams can go on.
    fn hear(&mut self, stream: u64, pipe: &mut Pipe, amount: usize) -> Vec<u64> {
        let count = amount.min(pipe.bytes.len());
        let fin = pipe.ended && count == pipe.bytes.len();
        let (mut used, mut unblocked) = (0, Vec::new());
        loop {
            let outcome =
                self.machine
                    .receive(stream, &pipe.bytes[used..count], fin, 0, &mut self.head);
            self.machine.check_invariants();
            let (step, event) = outcome.expect("no fault of ours");
            used += step;
            match event {
                None if step == 0 => break,
                None | Some(Event::GoAway { .. }) => {}
                Some(Event::Unblocked { stream }) => unblocked.push(stream),
                Some(Event::Head { stream, end_stream }) => {
                    let fields: Vec<String> = self
                        .head
                        .view()
                        .fields()
                        .map(|(name, value)| format!("{name:?}{value:?}"))
                        .collect();
                    let exchange = self.exchanges.entry(stream).or_default();
                    exchange.heads.push(fields.concat());
                    exchange.remote_ended |= end_stream;
                }
                Some(Event::Data {
                    stream,
                    data,
                    end_stream,
                }) => {
                    let exchange = self
                        .exchanges
                        .get_mut(&stream)
                        .expect("content of a stream with a head");
                    assert!(
                        !exchange.gone && !exchange.remote_ended,
                        "content after the end"
                    );
                    exchange.received += data.len();
                    exchange.remote_ended |= end_stream;
                }
                Some(Event::Trailers { stream }) => {
                    let exchange = self
                        .exchanges
                        .get_mut(&stream)
                        .expect("trailers of a stream with a head");
                    assert!(!std::mem::replace(&mut exchange.remote_ended, true));
                }
                Some(other) => panic!("{other:?}"),
            }
        }
        pipe.bytes.drain(..used);
        pipe.done |= fin && pipe.bytes.is_empty();
        unblocked
    }
}

pub struct Pair {
    client: Side,
    server: Side,
    next_stream: u64,
    is_ending: bool,
}

impl Pair {
    pub fn new() -> Pair {
        let (mut client, mut server) = (
            Side::new(Connection::client(generous())),
            Side::new(Connection::server(generous(), true)),
        );
        for number in 0..3 {
            assert_eq!(client.machine.opened(4 * number + 3), Ok(None));
            assert_eq!(server.machine.opened(4 * number + 2), Ok(None));
        }
        Pair {
            client,
            server,
            next_stream: 0,
            is_ending: false,
        }
    }

    /// One operation of whichever side; those that are impossible now are none.
    pub fn step(&mut self, operation: u8, which: u8, amount: usize) {
        let end = which.is_multiple_of(3);
        let (at_client, at_server) = (self.client.pick(which), self.server.pick(which));
        match (operation, at_client, at_server) {
            (0, ..) => self.open(end, which),
            (1, Some(stream), _) => self.client.send(stream, amount, end),
            (2, Some(stream), _) => self.client.trailers(stream),
            (3, _, Some(stream)) => self.answer(stream, end, which),
            (4, _, Some(stream)) => self.server.send(stream, amount, end),
            (5, _, Some(stream)) => self.server.trailers(stream),
            (6 | 7, Some(stream), _) => self.deliver(stream, amount),
            (8 | 9, ..) => self.deliver_own(which, amount % 40),
            (10, Some(stream), _) if which.is_multiple_of(8) => self.give_up(stream),
            (11, ..) if which.is_multiple_of(32) => {
                self.server.machine.shut_down();
                self.is_ending = true;
            }
            _ => {}
        }
        self.client.machine.check_invariants();
        self.server.machine.check_invariants();
    }

    fn open(&mut self, end: bool, which: u8) {
        let open = self
            .client
            .exchanges
            .values()
            .filter(|exchange| !exchange.gone)
            .count();
        if open >= 10 {
            return;
        }
        let (stream, mut bytes) = (self.next_stream, Vec::new());
        let opened = self.client.machine.open(stream, end, &mut bytes, |head| {
            GET.iter()
                .for_each(|(name, value)| head.pseudo(name.as_bytes(), value.as_bytes()));
            head.field(b"user-agent", &[b'a' + which % 4; 20], Indexing::Add);
        });
        if opened.is_err() {
            return;
        }
        self.next_stream += 4;
        let out = Pipe {
            bytes,
            ended: end,
            done: false,
        };
        self.client.exchanges.insert(
            stream,
            Exchange {
                out,
                head_sent: true,
                ..Exchange::default()
            },
        );
        let refused = self
            .server
            .machine
            .opened(stream)
            .expect("no fault of ours")
            .is_some();
        self.server.exchanges.insert(
            stream,
            Exchange {
                gone: refused,
                ..Exchange::default()
            },
        );
        if refused {
            self.client.give_up(stream);
        }
    }

    fn answer(&mut self, stream: u64, end: bool, which: u8) {
        let Some(exchange) = self
            .server
            .exchanges
            .get_mut(&stream)
            .filter(|exchange| !exchange.heads.is_empty())
        else {
            return;
        };
        let sent = self
            .server
            .machine
            .send_head(stream, end, &mut exchange.out.bytes, |head| {
                head.status(200);
                head.field(b"server", b"pair", Indexing::Add);
                head.field(b"x-kind", &[b'a' + which % 5; 30], Indexing::Add);
            });
        exchange.head_sent |= sent;
        exchange.out.ended |= sent && end;
        self.server.note_end(stream);
    }

    /// Some of what both sides have said on a request stream.
    fn deliver(&mut self, stream: u64, amount: usize) {
        transfer(&mut self.client, &mut self.server, stream, amount);
        transfer(&mut self.server, &mut self.client, stream, amount);
    }

    /// Some of one of the other streams.
    fn deliver_own(&mut self, which: u8, amount: usize) {
        self.client.flush();
        self.server.flush();
        let kind = usize::from(which) % 3;
        let (from, to, first) = if which.is_multiple_of(2) {
            (&mut self.client, &mut self.server, 2)
        } else {
            (&mut self.server, &mut self.client, 3)
        };
        let mut pipe = std::mem::take(&mut from.own[kind]);
        let unblocked = to.hear(first + 4 * kind as u64, &mut pipe, amount);
        from.own[kind] = pipe;
        unblocked
            .into_iter()
            .for_each(|stream| transfer(from, to, stream, 0));
    }

    /// Both sides hear of it at once: QUIC's frames are not our matter.
    fn give_up(&mut self, stream: u64) {
        self.client.give_up(stream);
        self.server
            .machine
            .stream_reset(stream, 0)
            .expect("no fault of ours");
        self.server.exchanges.entry(stream).or_default().gone = true;
    }

    /// Everything is said and heard; both sides know the same, and nothing is left.
    pub fn finish(&mut self) {
        let streams: Vec<u64> = self.client.exchanges.keys().copied().collect();
        for round in 0..6 {
            (0..6).for_each(|which| self.deliver_own(which, usize::MAX));
            for stream in &streams {
                if round == 2 {
                    self.answer(*stream, false, 0);
                }
                if round > 2 {
                    self.complete(*stream);
                }
                self.deliver(*stream, usize::MAX);
            }
        }
        (0..6).for_each(|which| self.deliver_own(which, usize::MAX));
        for stream in streams {
            let (client, server) = (
                &self.client.exchanges[&stream],
                &self.server.exchanges[&stream],
            );
            if !client.gone && !server.gone {
                assert_eq!(server.sent, client.received, "{stream}");
                assert!(
                    server.ended_first || (client.sent == server.received && server.remote_ended),
                    "{stream}"
                );
                assert!(
                    client.remote_ended && client.out.done && server.out.done,
                    "{stream}"
                );
                assert_eq!((client.heads.len(), server.heads.len()), (1, 1));
            }
        }
        assert_eq!(
            (
                self.client.machine.open_streams(),
                self.server.machine.open_streams()
            ),
            (0, 0)
        );
        self.server.machine.shut_down();
        self.server.machine.shut_down();
        assert!(self.server.machine.is_finished());
    }

    fn complete(&mut self, stream: u64) {
        for side in [&mut self.client, &mut self.server] {
            side.send(stream, 50, true);
            let promised = side
                .exchanges
                .get(&stream)
                .map_or(0, |exchange| exchange.promised);
            side.send(stream, promised, true);
            side.send(stream, 0, true);
        }
    }
}

/// Moves bytes between sides. A stream that waits for the table reports no events until it can go
/// on.
fn transfer(from: &mut Side, to: &mut Side, stream: u64, amount: usize) {
    let Some(exchange) = from
        .exchanges
        .get_mut(&stream)
        .filter(|exchange| !exchange.gone && !exchange.out.done)
    else {
        return;
    };
    if to
        .exchanges
        .get(&stream)
        .is_some_and(|exchange| exchange.gone)
    {
        return;
    }
    let mut pipe = std::mem::take(&mut exchange.out);
    to.hear(stream, &mut pipe, amount);
    if let Some(exchange) = from.exchanges.get_mut(&stream) {
        exchange.out = pipe;
    }
}
