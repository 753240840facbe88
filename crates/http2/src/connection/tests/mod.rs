//! The machine under a peer made by hand: frames in as bytes, frames and events out as short words.

mod client;
mod ending;
mod floods;
mod flow;
mod operations;
mod pair;
mod requests;
mod rules;

use super::*;
use crate::frame::{FrameHeader, HEADER_BYTES, flag, kind};
use crate::hpack::Indexing;
use saker_http_mux::HeadStore;

/// A machine with what its driver would lend it.
pub(super) struct Bench {
    pub machine: Connection,
    pub head: HeadStore,
    pub out: Vec<u8>,
    pub now_ms: u64,
}

impl Bench {
    pub fn new(machine: Connection) -> Bench {
        Bench {
            machine,
            head: HeadStore::default(),
            out: Vec::new(),
            now_ms: 0,
        }
    }

    /// A server whose client has sent its preface, acknowledgement included; nothing in the output.
    pub fn server(limits: Limits) -> Bench {
        let mut bench = Bench::new(Connection::server(limits, true));
        bench.machine.begin(&mut bench.out);
        bench
            .feed(&[PREFACE, &settings(&[])[..], &settings_ack()].concat())
            .unwrap();
        bench.out.clear();
        bench
    }

    /// A client whose server has sent SETTINGS.
    pub fn client(limits: Limits) -> Bench {
        let mut bench = Bench::new(Connection::client(limits));
        bench.machine.begin(&mut bench.out);
        bench
            .feed(&[settings(&[]), settings_ack()].concat())
            .unwrap();
        bench.out.clear();
        bench
    }

    /// All of `input`; the events as words.
    pub fn feed(&mut self, input: &[u8]) -> Result<Vec<String>, Reason> {
        let mut events = Vec::new();
        let mut used = 0;
        loop {
            match self
                .machine
                .receive(&input[used..], self.now_ms, &mut self.head, &mut self.out)
            {
                Ok((0, None)) => {
                    return if used == input.len() {
                        Ok(events)
                    } else {
                        panic!("{} bytes left", input.len() - used)
                    };
                }
                Ok((count, event)) => {
                    used += count;
                    events.extend(event.map(words));
                }
                Err(fault) => {
                    assert_eq!(fault.code, fault.reason.code());
                    assert!(
                        sent(&self.out)
                            .last()
                            .is_some_and(|frame| frame.starts_with("GOAWAY")),
                        "no GOAWAY"
                    );
                    return Err(fault.reason);
                }
            }
        }
    }

    /// The events of input that must not be a fault.
    pub fn events(&mut self, input: &[u8]) -> Vec<String> {
        self.feed(input).unwrap()
    }

    /// Returns the frames sent since the last call.
    pub fn sent(&mut self) -> Vec<String> {
        let mut words = sent(&self.out);
        self.out.clear();
        self.machine.write_stops(&mut self.out);
        words.extend(sent(&self.out));
        self.out.clear();
        words
    }

    /// Answers with a head, without ending.
    pub fn answer(&mut self, stream: u32) -> bool {
        self.machine
            .send_head(StreamId(stream), false, &mut self.out, |head| {
                head.status(200)
            })
    }

    /// As much of `wanted` as is granted, by one frame.
    pub fn data(&mut self, stream: u32, wanted: usize, end: bool) -> usize {
        let granted = self
            .machine
            .begin_data(StreamId(stream), wanted, end, &mut self.out);
        self.out.resize(self.out.len() + granted, 0);
        granted
    }

    pub fn open(&mut self, method: &str, end: bool) -> Result<u32, OpenError> {
        let opened = self.machine.open(end, &mut self.out, |head| {
            head.pseudo(b":method", method.as_bytes());
            head.pseudo(b":scheme", b"http");
            head.pseudo(b":authority", b"a");
            head.pseudo(b":path", b"/");
        });
        opened.map(|stream| stream.0)
    }
}

fn words(event: Event<'_>) -> String {
    let end = |end: bool| if end { " end" } else { "" };
    match event {
        Event::Head { stream, end_stream } => format!("head {}{}", stream.0, end(end_stream)),
        Event::Informational { stream } => format!("informational {}", stream.0),
        Event::HeadRefused {
            stream, end_stream, ..
        } => format!("too large {}{}", stream.0, end(end_stream)),
        Event::Data {
            stream,
            data,
            flow_bytes,
            end_stream,
        } => format!(
            "data {} {}/{flow_bytes}{}",
            stream.0,
            data.len(),
            end(end_stream)
        ),
        Event::Trailers { stream } => format!("trailers {}", stream.0),
        Event::Reset { stream, code } => format!("reset {} {}", stream.0, code.as_str()),
        Event::WindowOpened => "window".into(),
        Event::ContentRefused { stream, end_stream } => {
            format!("content refused {} {end_stream}", stream.0)
        }
        Event::GoAway { last, code } => format!("goaway {} {}", last.0, code.as_str()),
    }
}

/// Frames as words.
pub(super) fn sent(mut out: &[u8]) -> Vec<String> {
    let mut frames = Vec::new();
    if let Some(rest) = out.strip_prefix(PREFACE) {
        out = rest;
    }
    while let Some(header) = FrameHeader::parse(out) {
        let payload = &out[HEADER_BYTES..HEADER_BYTES + header.length as usize];
        out = &out[HEADER_BYTES + payload.len()..];
        frames.push(frame_words(header, payload));
    }
    assert!(out.is_empty(), "half a frame");
    frames
}

fn frame_words(header: FrameHeader, payload: &[u8]) -> String {
    let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
    let code = |at: usize| ErrorCode::from(number(at)).as_str();
    let stream = header.stream.0;
    let end = if header.has(flag::END_STREAM) {
        " end"
    } else {
        ""
    };
    let open = if header.has(flag::END_HEADERS) {
        ""
    } else {
        " more"
    };
    match header.kind {
        kind::DATA => format!("DATA {stream} {}{end}", payload.len()),
        kind::HEADERS => format!("HEADERS {stream}{end}{open}"),
        kind::CONTINUATION => format!("CONTINUATION {stream}{open}"),
        kind::RST_STREAM => format!("RST_STREAM {stream} {}", code(0)),
        kind::SETTINGS if header.has(flag::ACK) => "SETTINGS ack".into(),
        kind::SETTINGS => "SETTINGS".into(),
        kind::PING if header.has(flag::ACK) => "PING ack".into(),
        kind::PING => "PING".into(),
        kind::GOAWAY => format!("GOAWAY {} {}", number(0), code(4)),
        kind::WINDOW_UPDATE => format!("WINDOW_UPDATE {stream} {}", number(0)),
        other => panic!("we send no frame of type {other}"),
    }
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader {
        length: payload.len() as u32,
        kind,
        flags,
        stream: StreamId(stream),
    };
    [&header.to_bytes(), payload].concat()
}

pub(super) fn settings(entries: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> = entries
        .iter()
        .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    frame(kind::SETTINGS, 0, 0, &payload)
}

pub(super) fn settings_ack() -> Vec<u8> {
    frame(kind::SETTINGS, flag::ACK, 0, &[])
}

pub(super) fn ping(payload: &[u8; 8]) -> Vec<u8> {
    frame(kind::PING, 0, 0, payload)
}

pub(super) fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

pub(super) fn rst(stream: u32, code: ErrorCode) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &u32::from(code).to_be_bytes())
}

pub(super) fn data(stream: u32, bytes: usize, end: bool) -> Vec<u8> {
    frame(kind::DATA, u8::from(end), stream, &vec![b'x'; bytes])
}

/// Fields without indexing.
pub(super) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    fields.iter().for_each(|(name, value)| {
        crate::hpack::encode_stateless(name.as_bytes(), value.as_bytes(), &mut block)
    });
    block
}

pub(super) const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "http"),
    (":authority", "a"),
    (":path", "/"),
];
pub(super) const POST: [(&str, &str); 4] = [
    (":method", "POST"),
    (":scheme", "http"),
    (":authority", "a"),
    (":path", "/"),
];

pub(super) fn headers(stream: u32, fields: &[(&str, &str)], end: bool) -> Vec<u8> {
    frame(
        kind::HEADERS,
        flag::END_HEADERS | u8::from(end),
        stream,
        &block(fields),
    )
}

/// A request without content.
pub(super) fn get(stream: u32) -> Vec<u8> {
    headers(stream, &GET, true)
}

/// A request whose content is to come.
pub(super) fn post(stream: u32) -> Vec<u8> {
    headers(stream, &POST, false)
}
