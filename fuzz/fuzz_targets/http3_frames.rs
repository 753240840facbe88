//! Anything on any streams, for either role, means the same however it arrives: the same events,
//! the same replies, the same end.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_fuzz::{Input, cut};
use saker_http3::{Connection, ConnectionError, Event, HeadStore, Indexing, Limits, Outgoing};
use std::collections::BTreeMap;

/// Streams of each kind, as a client's peer sees them; a server's unidirectional streams are one
/// higher.
const STREAMS: [u64; 8] = [2, 6, 10, 14, 0, 4, 8, 12];

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (Some(knob), Some(options)) = (input.u16(), input.byte()) else {
        return;
    };
    let records = records(input.rest());
    let whole = run(&records, options, 0);
    assert_eq!(run(&records, options, knob.max(1)), whole, "cut by {knob}");
});

/// A stream, what comes on it, and whether it is the last.
type Record<'a> = (u64, &'a [u8], bool);

/// Each has a byte for its stream and end, and its length in front.
fn records(mut rest: &[u8]) -> Vec<Record<'_>> {
    let mut records = Vec::new();
    while let [which, len, behind @ ..] = rest {
        let (bytes, next) = behind.split_at(usize::from(*len).min(behind.len()));
        records.push((STREAMS[usize::from(*which) % 8], bytes, which & 0x80 != 0));
        rest = next;
    }
    records
}

/// Events that the driver got, the end, and the output. Content is joined, and left out if the
/// connection or its stream ended with an error, because the amount before the error depends on the
/// cut.
#[derive(Debug, PartialEq)]
struct Outcome {
    events: Vec<String>,
    content: BTreeMap<u64, usize>,
    fault: Option<ConnectionError>,
    sent: [Vec<u8>; 3],
}

struct Driver {
    machine: Connection,
    head: HeadStore,
    /// Bytes that the machine could not take yet, and whether the end follows.
    kept: BTreeMap<u64, (Vec<u8>, bool)>,
    outcome: Outcome,
    is_server: bool,
    answers: bool,
}

fn run(records: &[Record<'_>], options: u8, knob: u16) -> Outcome {
    let is_server = options & 1 == 0;
    let limits = if options & 2 == 0 {
        Limits::default()
    } else {
        tight()
    };
    let machine = if is_server {
        Connection::server(limits, options & 4 != 0)
    } else {
        Connection::client(limits)
    };
    let outcome = Outcome {
        events: Vec::new(),
        content: BTreeMap::new(),
        fault: None,
        sent: Default::default(),
    };
    let mut driver = Driver {
        machine,
        head: HeadStore::default(),
        kept: BTreeMap::new(),
        outcome,
        is_server,
        answers: options & 8 != 0,
    };
    driver.open();
    for (stream, bytes, fin) in records {
        let stream = if is_server || stream & 2 == 0 {
            *stream
        } else {
            stream + 1
        };
        let pieces = cut(bytes, knob);
        let count = pieces.len().max(1);
        for at in 0..count {
            driver.receive(
                stream,
                pieces.get(at).copied().unwrap_or_default(),
                *fin && at + 1 == count,
            );
        }
    }
    driver.finish()
}

impl Driver {
    fn open(&mut self) {
        for stream in STREAMS {
            match (self.is_server, stream & 2) {
                (true, _) => assert_eq!(self.machine.opened(stream), Ok(None)),
                (false, 0) => {
                    let method: &[u8] =
                        [&b"GET"[..], b"HEAD", b"CONNECT", b"POST"][stream as usize / 4];
                    let opened = self
                        .machine
                        .open(stream, stream == 0, &mut Vec::new(), |head| {
                            head.pseudo(b":method", method)
                        });
                    assert_eq!(opened, Ok(()));
                }
                _ => assert_eq!(self.machine.opened(stream + 1), Ok(None)),
            }
        }
    }

    fn receive(&mut self, stream: u64, bytes: &[u8], fin: bool) {
        let kept = self.kept.entry(stream).or_default();
        if kept.1 {
            return;
        }
        kept.0.extend_from_slice(bytes);
        kept.1 = fin;
        self.hear(stream);
    }

    fn hear(&mut self, stream: u64) {
        let (bytes, fin) = self.kept.remove(&stream).unwrap_or_default();
        let mut used = 0;
        while self.outcome.fault.is_none() {
            match self
                .machine
                .receive(stream, &bytes[used..], fin, 0, &mut self.head)
            {
                Ok((0, None)) => break,
                Ok((count, event)) => {
                    used += count;
                    let told = event.map(|event| self.told(event));
                    if let Some(Some(unblocked)) = told {
                        self.hear(unblocked);
                    }
                }
                Err(fault) => self.outcome.fault = Some(fault),
            }
            self.machine.check_invariants();
        }
        self.kept.insert(stream, (bytes[used..].to_vec(), fin));
    }

    /// Returns a stream that can go on.
    fn told(&mut self, event: Event<'_>) -> Option<u64> {
        match event {
            Event::Data {
                stream,
                data,
                end_stream,
            } => {
                *self.outcome.content.entry(stream).or_default() += data.len();
                if end_stream {
                    self.outcome.events.push(format!("end {stream}"));
                }
            }
            // The end may be told with the head or after it.
            Event::Head { stream, end_stream }
            | Event::HeadRefused {
                stream, end_stream, ..
            } => {
                for (name, value) in self.head.view().fields() {
                    assert!(
                        !name
                            .iter()
                            .chain(value)
                            .any(|byte| matches!(byte, b'\r' | b'\n' | 0))
                    );
                }
                self.outcome.events.push(format!(
                    "head {stream} {:?}",
                    self.head.view().fields().collect::<Vec<_>>()
                ));
                self.answer(stream);
                if end_stream {
                    self.outcome.events.push(format!("end {stream}"));
                }
            }
            Event::Reset { stream, code } => {
                self.outcome.content.remove(&stream);
                self.outcome.events.push(format!("reset {stream} {code:?}"));
            }
            Event::Unblocked { stream } => return Some(stream),
            other => self.outcome.events.push(format!("{other:?}")),
        }
        None
    }

    /// Heads with references to the table, as far as the client has acknowledged any.
    fn answer(&mut self, stream: u64) {
        if !self.is_server || !self.answers {
            return;
        }
        let mut out = Vec::new();
        self.machine.send_head(stream, false, &mut out, |head| {
            head.status(200);
            head.field(b"server", b"fuzzed", Indexing::Add);
            head.field(b"x-stream", &stream.to_be_bytes(), Indexing::Add);
        });
        self.outcome.events.push(format!("sent {out:?}"));
    }

    fn finish(mut self) -> Outcome {
        if self.outcome.fault.is_some() {
            self.outcome.content.clear();
            return self.outcome;
        }
        // An increment of insertions may be said at once or in parts, depending on when it is asked
        // for: here once.
        self.outcome.sent = Outgoing::ALL.map(|which| self.machine.outgoing(which).to_vec());
        self.outcome
    }
}

fn tight() -> Limits {
    Limits {
        header_list_bytes_max: 200,
        header_count_max: 6,
        target_bytes_max: 10,
        field_bytes_max: 40,
        field_section_bytes_max: 100,
        table_bytes: 100,
        blocked_streams_max: 1,
        table_updates_max: 10,
        control_frame_bytes_max: 30,
        resets_max: 2,
        priority_updates_max: 3,
        empty_frames_max: 4,
        ..Limits::default()
    }
}
