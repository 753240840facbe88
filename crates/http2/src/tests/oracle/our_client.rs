//! A small client on our machine: sends all its requests as soon as it may and gathers what comes
//! back.

use std::collections::HashMap;

use saker_http2::{
    Connection, ConnectionError, ErrorCode, Event, HeadStore, Indexing, Limits, OpenError, StreamId,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: &'static str,
    pub path: String,
    pub content: Vec<u8>,
    pub trailers: Vec<(&'static str, &'static str)>,
    /// Reset when that much has come.
    pub cancel_after: Option<usize>,
}

impl Request {
    pub fn get(path: &str) -> Request {
        Request {
            method: "GET",
            path: path.into(),
            ..Request::default()
        }
    }

    pub fn post(path: &str, content: Vec<u8>) -> Request {
        Request {
            method: "POST",
            path: path.into(),
            content,
            ..Request::default()
        }
    }

    fn has_content(&self) -> bool {
        !self.content.is_empty() || !self.trailers.is_empty()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub informational: Vec<u16>,
    pub fields: Vec<(String, String)>,
    pub content: Vec<u8>,
    pub trailers: Vec<(String, String)>,
    pub reset: Option<ErrorCode>,
    pub complete: bool,
}

#[derive(Debug, Default)]
pub struct Outcome {
    pub responses: Vec<Response>,
    pub fault: Option<ConnectionError>,
    pub goaway: Option<(StreamId, ErrorCode)>,
}

struct Exchange {
    at: usize,
    sent: usize,
    request_done: bool,
}

pub struct Client {
    machine: Connection,
    requests: Vec<Request>,
    next: usize,
    exchanges: HashMap<StreamId, Exchange>,
    outcome: Outcome,
}

impl Client {
    pub fn new(limits: Limits, requests: Vec<Request>) -> Self {
        let outcome = Outcome {
            responses: vec![Response::default(); requests.len()],
            ..Outcome::default()
        };
        Client {
            machine: Connection::client(limits),
            requests,
            next: 0,
            exchanges: HashMap::new(),
            outcome,
        }
    }

    pub async fn run(mut self, io: DuplexStream) -> Outcome {
        let (mut reader, mut writer) = tokio::io::split(io);
        let (mut input, mut out, mut head) = (Vec::new(), Vec::new(), HeadStore::default());
        self.machine.begin(&mut out);
        loop {
            self.open(&mut out);
            self.pump(&mut out);
            let is_done = self.exchanges.is_empty()
                && (self.next == self.requests.len() || self.machine.peer_is_going_away());
            if out.is_empty() && (self.outcome.fault.is_some() || is_done) {
                return self.outcome;
            }
            let mut buffer = [0; 4096];
            tokio::select! {
                read = reader.read(&mut buffer), if out.len() < 100_000 => match read {
                    Ok(0) | Err(_) => return self.outcome,
                    Ok(count) => input.extend_from_slice(&buffer[..count]),
                },
                written = writer.write(&out), if !out.is_empty() => match written {
                    Ok(count) => drop(out.drain(..count)),
                    Err(_) => return self.outcome,
                },
            }
            let used = self.receive(&input, &mut head, &mut out);
            input.drain(..used);
        }
    }

    fn open(&mut self, out: &mut Vec<u8>) {
        while let Some(request) = self.requests.get(self.next) {
            let opened = self.machine.open(!request.has_content(), out, |head| {
                head.pseudo(b":method", request.method.as_bytes());
                head.pseudo(b":scheme", b"http");
                head.pseudo(b":authority", b"example.com");
                head.pseudo(b":path", request.path.as_bytes());
                head.field(b"user-agent", b"ours", Indexing::Add);
            });
            match opened {
                Ok(stream) => {
                    self.exchanges.insert(
                        stream,
                        Exchange {
                            at: self.next,
                            sent: 0,
                            request_done: !request.has_content(),
                        },
                    );
                    self.machine.set_ready(stream, !request.content.is_empty());
                    self.next += 1;
                }
                Err(OpenError::TooMany) => return,
                Err(error) => {
                    return assert!(
                        self.machine.peer_is_going_away() || self.outcome.fault.is_some(),
                        "{error:?}"
                    );
                }
            }
        }
    }

    fn pump(&mut self, out: &mut Vec<u8>) {
        while out.len() < 50_000
            && let Some(stream) = self.machine.next_ready()
        {
            let Some(exchange) = self.exchanges.get_mut(&stream) else {
                return;
            };
            let request = &self.requests[exchange.at];
            let rest = &request.content[exchange.sent..];
            let granted =
                self.machine
                    .begin_data(stream, rest.len(), request.trailers.is_empty(), out);
            out.extend_from_slice(&rest[..granted]);
            exchange.sent += granted;
            if exchange.sent == request.content.len() {
                self.machine.set_ready(stream, false);
                if !request.trailers.is_empty() {
                    self.machine.send_trailers(stream, out, |head| {
                        request.trailers.iter().for_each(|(name, value)| {
                            head.field(name.as_bytes(), value.as_bytes(), Indexing::Add)
                        });
                    });
                }
                exchange.request_done = true;
                self.finish(stream);
            }
        }
    }

    fn finish(&mut self, stream: StreamId) {
        let done = |exchange: &Exchange| {
            exchange.request_done && self.outcome.responses[exchange.at].complete
        };
        if self.exchanges.get(&stream).is_some_and(done) {
            self.exchanges.remove(&stream);
        }
    }

    fn receive(&mut self, input: &[u8], head: &mut HeadStore, out: &mut Vec<u8>) -> usize {
        let mut used = 0;
        while self.outcome.fault.is_none() {
            match self.machine.receive(&input[used..], 0, head, out) {
                Ok((0, None)) => break,
                Ok((count, event)) => {
                    used += count;
                    if let Some(event) = event {
                        self.event(event, head, out);
                    }
                }
                Err(fault) => self.outcome.fault = Some(fault),
            }
            self.machine.flushed();
        }
        used
    }

    fn response(&mut self, stream: StreamId) -> &mut Response {
        let at = self
            .exchanges
            .get(&stream)
            .expect("an event for a stream that is open")
            .at;
        &mut self.outcome.responses[at]
    }

    fn event(&mut self, event: Event<'_>, head: &HeadStore, out: &mut Vec<u8>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = || {
            head.view()
                .fields()
                .map(|(name, value)| (text(name), text(value)))
                .collect()
        };
        match event {
            Event::Head { stream, end_stream } => {
                let response = self.response(stream);
                (response.status, response.fields, response.complete) =
                    (head.status().0, fields(), end_stream);
                self.finish(stream);
            }
            Event::Informational { stream } => {
                self.response(stream).informational.push(head.status().0)
            }
            Event::Data {
                stream,
                data,
                flow_bytes,
                end_stream,
            } => {
                self.machine.release(stream, flow_bytes, out);
                let response = self.response(stream);
                response.content.extend_from_slice(data);
                response.complete = end_stream;
                let received = response.content.len();
                let at = self.exchanges[&stream].at;
                if self.requests[at]
                    .cancel_after
                    .is_some_and(|after| received >= after)
                {
                    self.machine.send_reset(stream, ErrorCode::Cancel, out);
                    self.exchanges.remove(&stream);
                }
                self.finish(stream);
            }
            Event::Trailers { stream } => {
                let response = self.response(stream);
                (response.trailers, response.complete) = (fields(), true);
                self.finish(stream);
            }
            Event::Reset { stream, code } => {
                self.response(stream).reset = Some(code);
                self.exchanges.remove(&stream);
            }
            Event::GoAway { last, code } => {
                self.outcome.goaway = Some((last, code));
                self.exchanges.retain(|stream, _| *stream <= last);
            }
            Event::HeadRefused { stream, .. } => {
                self.machine.send_reset(stream, ErrorCode::Cancel, out)
            }
            Event::ContentRefused { .. } => unreachable!("a client resets the stream"),
            Event::WindowOpened => {}
        }
    }
}
