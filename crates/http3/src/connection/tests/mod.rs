//! The machine under a peer made by hand: frames in as bytes, events out as short words.

mod client;
mod ending;
mod limits;
mod pair;
mod requests;
mod rules;
mod table;

use super::*;
use crate::frame::{FrameHeader, kind};
use crate::qpack::{Indexing, encode_stateless};

/// A machine with what its driver would lend it, and the input that had to wait.
pub(super) struct Bench {
    pub machine: Connection,
    pub head: HeadStore,
    pub out: Vec<u8>,
    pub now_ms: u64,
}

/// Streams of a client, as QUIC numbers them.
pub(super) const CONTROL: u64 = 2;
pub(super) const ENCODER: u64 = 6;
pub(super) const DECODER: u64 = 10;

impl Bench {
    pub fn new(machine: Connection) -> Bench {
        Bench {
            machine,
            head: HeadStore::default(),
            out: Vec::new(),
            now_ms: 0,
        }
    }

    /// A server whose client has sent SETTINGS.
    pub fn server(limits: Limits) -> Bench {
        let mut bench = Bench::new(Connection::server(limits, true));
        bench.open(CONTROL);
        bench
            .feed(
                CONTROL,
                &[&[0], &settings(&[(1, 4_096), (7, 16)])[..]].concat(),
                false,
            )
            .unwrap();
        bench
    }

    /// A client whose server has sent SETTINGS. Its streams are one higher.
    pub fn client(limits: Limits) -> Bench {
        let mut bench = Bench::new(Connection::client(limits));
        bench.open(CONTROL + 1);
        bench
            .feed(
                CONTROL + 1,
                &[&[0], &settings(&[(8, 1)])[..]].concat(),
                false,
            )
            .unwrap();
        bench
    }

    pub fn open(&mut self, stream: u64) {
        assert_eq!(self.machine.opened(stream), Ok(None));
    }

    /// All of `input`; the events as words.
    pub fn feed(&mut self, stream: u64, input: &[u8], fin: bool) -> Result<Vec<String>, Reason> {
        self.feed_some(stream, input, fin).map(|(events, used)| {
            assert_eq!(used, input.len(), "the stream has to wait");
            events
        })
    }

    /// As much as is taken.
    pub fn feed_some(
        &mut self,
        stream: u64,
        input: &[u8],
        fin: bool,
    ) -> Result<(Vec<String>, usize), Reason> {
        let (mut events, mut used) = (Vec::new(), 0);
        loop {
            let outcome =
                self.machine
                    .receive(stream, &input[used..], fin, self.now_ms, &mut self.head);
            self.machine.check_invariants();
            match outcome {
                Ok((0, None)) => return Ok((events, used)),
                Ok((count, event)) => {
                    used += count;
                    events.extend(event.map(words));
                }
                Err(fault) => {
                    assert_eq!(fault.code, fault.reason.code());
                    return Err(fault.reason);
                }
            }
        }
    }

    /// A request stream that is opened for this.
    pub fn request(&mut self, stream: u64, input: &[u8], fin: bool) -> Result<Vec<String>, Reason> {
        self.open(stream);
        self.feed(stream, input, fin)
    }

    /// Takes the pending bytes of one of our streams.
    pub fn take(&mut self, which: Outgoing) -> Vec<u8> {
        let bytes = self.machine.outgoing(which).to_vec();
        self.machine.sent(which, bytes.len());
        bytes
    }

    /// Answers with a head, without ending.
    pub fn answer(&mut self, stream: u64) -> bool {
        self.machine
            .send_head(stream, false, &mut self.out, |head| head.status(200))
    }
}

pub(super) fn words(event: Event<'_>) -> String {
    let end = |end: bool| if end { " end" } else { "" };
    match event {
        Event::Head { stream, end_stream } => format!("head {stream}{}", end(end_stream)),
        Event::Informational { stream } => format!("informational {stream}"),
        Event::HeadRefused {
            stream,
            end_stream,
            what,
        } => format!("too large {stream} {what:?}{}", end(end_stream)),
        Event::Data {
            stream,
            data,
            end_stream,
        } => format!("data {stream} {}{}", data.len(), end(end_stream)),
        Event::Trailers { stream } => format!("trailers {stream}"),
        Event::Reset { stream, code } => format!("reset {stream} {}", code.as_str()),
        Event::Stop { stream, code } => format!("stop {stream} {}", code.as_str()),
        Event::Unblocked { stream } => format!("unblocked {stream}"),
        Event::GoAway { first_refused } => format!("goaway {first_refused}"),
    }
}

pub(super) fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    FrameHeader {
        kind,
        length: payload.len() as u64,
    }
    .write(&mut out);
    out.extend_from_slice(payload);
    out
}

pub(super) fn integers(values: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    values
        .iter()
        .for_each(|value| crate::varint::write(*value, &mut out));
    out
}

pub(super) fn settings(entries: &[(u64, u64)]) -> Vec<u8> {
    let numbers: Vec<u64> = entries
        .iter()
        .flat_map(|(id, value)| [*id, *value])
        .collect();
    frame(kind::SETTINGS, &integers(&numbers))
}

/// Fields without the dynamic table.
pub(super) fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = crate::qpack::STATELESS_PREFIX.to_vec();
    fields.iter().for_each(|(name, value)| {
        encode_stateless(name.as_bytes(), value.as_bytes(), &mut section)
    });
    section
}

pub(super) const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "a"),
    (":path", "/"),
];
pub(super) const POST: [(&str, &str); 4] = [
    (":method", "POST"),
    (":scheme", "https"),
    (":authority", "a"),
    (":path", "/"),
];

pub(super) fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(kind::HEADERS, &section(fields))
}

pub(super) fn data(bytes: usize) -> Vec<u8> {
    frame(kind::DATA, &vec![b'x'; bytes])
}

proptest::proptest! {
    /// Whatever the two do, neither finds fault with the other, and nothing is lost.
    #[test]
    fn our_two_roles_understand_each_other(
        steps in proptest::collection::vec((0u8..12, proptest::arbitrary::any::<u8>(), 0usize..300), 1..400),
    ) {
        let mut pair = pair::Pair::new();
        steps.into_iter().for_each(|(operation, which, amount)| pair.step(operation, which, amount));
        pair.finish();
    }
}
