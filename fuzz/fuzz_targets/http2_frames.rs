//! Any frames after the preface, for either role, mean the same however they arrive: the same
//! events, the same replies, the same end; and a driver never has to keep more than one frame.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_fuzz::{Input, cut};
use saker_http2::{
    Connection, ConnectionError, ErrorCode, Event, HeadStore, Indexing, Limits, PREFACE, StreamId,
};

const EMPTY_SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (Some(knob), Some(options)) = (input.u16(), input.byte()) else {
        return;
    };
    let bytes = input.rest();
    let whole = run(&[bytes], options);
    assert_eq!(run(&cut(bytes, knob), options), whole, "cut by {knob}");
});

/// Events as text, the end, and everything that was sent.
type Outcome = (Vec<String>, Option<ConnectionError>, Vec<u8>);

fn run(pieces: &[&[u8]], options: u8) -> Outcome {
    let mut driver = Driver::new(options);
    // An empty input has no pieces, but a beginning all the same.
    for piece in [&[][..]].iter().chain(pieces) {
        driver.kept.extend_from_slice(piece);
        if let Err(fault) = driver.receive() {
            return (driver.events, Some(fault), driver.out);
        }
    }
    (driver.events, None, driver.out)
}

struct Driver {
    machine: Connection,
    head: HeadStore,
    kept: Vec<u8>,
    out: Vec<u8>,
    events: Vec<String>,
    is_server: bool,
    /// Answers, resets and windows by the events' count, so that they are the same each time.
    is_busy: bool,
}

impl Driver {
    fn new(options: u8) -> Driver {
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
        let kept = if is_server {
            [PREFACE, EMPTY_SETTINGS].concat()
        } else {
            EMPTY_SETTINGS.to_vec()
        };
        let (head, out, events) = (HeadStore::default(), Vec::new(), Vec::new());
        let mut driver = Driver {
            machine,
            head,
            kept,
            out,
            events,
            is_server,
            is_busy: options & 8 != 0,
        };
        driver.machine.begin(&mut driver.out);
        (0..3).for_each(|at| driver.open(at == 2));
        driver
    }

    /// Client: a request for frames to be about.
    fn open(&mut self, end_stream: bool) {
        if !self.is_server {
            let opened = self.machine.open(end_stream, &mut self.out, |head| {
                head.pseudo(b":method", b"GET")
            });
            assert!(opened.is_ok());
        }
    }

    fn receive(&mut self) -> Result<(), ConnectionError> {
        let mut used = 0;
        let bytes = std::mem::take(&mut self.kept);
        loop {
            let (count, event) =
                self.machine
                    .receive(&bytes[used..], 0, &mut self.head, &mut self.out)?;
            self.machine.check_invariants();
            used += count;
            match event {
                Some(event) => self.event(event),
                None if count == 0 => break,
                None => {}
            }
        }
        self.kept = bytes[used..].to_vec();
        assert!(self.kept.len() < 9 + 16_384, "half a frame at most");
        Ok(())
    }

    fn event(&mut self, event: Event<'_>) {
        self.events.push(format!("{event:?}"));
        if let Event::Head { .. }
        | Event::HeadRefused { .. }
        | Event::Informational { .. }
        | Event::Trailers { .. } = event
        {
            let view = self.head.view();
            self.events.push(format!(
                "{:?} {:?}",
                view.start_line(),
                view.fields().collect::<Vec<_>>()
            ));
            let no_line_ends =
                |text: &[u8]| !text.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
            assert!(
                view.fields()
                    .all(|(name, value)| no_line_ends(name) && no_line_ends(value))
            );
        }
        match event {
            Event::Head { stream, .. } if self.is_server && self.is_busy => self.answer(stream),
            Event::Data {
                stream, flow_bytes, ..
            } => self.machine.release(stream, flow_bytes, &mut self.out),
            Event::Trailers { stream } if self.is_busy => {
                self.machine
                    .send_reset(stream, ErrorCode::Cancel, &mut self.out)
            }
            _ => {}
        }
        while let Some(stream) = self.machine.next_ready() {
            let granted = self.machine.begin_data(stream, 500, true, &mut self.out);
            assert!(granted > 0);
            self.out.resize(self.out.len() + granted, 0);
        }
    }

    fn answer(&mut self, stream: StreamId) {
        self.machine
            .send_head(stream, false, &mut self.out, |head| {
                head.status(200);
                head.field(b"server", b"saker", Indexing::Add);
            });
        self.machine.set_ready(stream, true);
    }
}

fn tight() -> Limits {
    Limits {
        concurrent_streams_max: 2,
        header_list_bytes_max: 200,
        header_count_max: 6,
        continuation_frames_max: 2,
        resets_max: 3,
        pings_max: 3,
        settings_max: 3,
        window_updates_max: 3,
        priority_updates_max: 3,
        empty_frames_max: 3,
        control_bytes_max: 100,
        stream_window_bytes: 100,
        connection_window_bytes: 65_535,
        header_table_bytes: 100,
        ..Limits::default()
    }
}
