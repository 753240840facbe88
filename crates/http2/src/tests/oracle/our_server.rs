//! A small server on our machine, with paths that do what the tests need.
//!
//! `/bytes/N` answers with N bytes, `/echo` with the request's content and trailers, `/hints` with
//! a 103 first, `/trailers` with trailers, `/reset` with RST_STREAM, `/early` before the request's
//! content has come, and then resets with NO_ERROR.

use std::collections::HashMap;

use saker_http2::{
    Connection, ConnectionError, ErrorCode, Event, HeadStore, Indexing, Limits, StreamId,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// Report of a finished connection.
#[derive(Debug, Default)]
pub struct Served {
    pub requests: usize,
    pub resets: Vec<ErrorCode>,
    pub fault: Option<ConnectionError>,
    pub goaway: Option<ErrorCode>,
}

/// Response in progress.
#[derive(Default)]
struct Answer {
    content: Vec<u8>,
    sent: usize,
    /// No more content will be added.
    complete: bool,
    echo: bool,
    trailers: Vec<(String, String)>,
    reset_after: bool,
}

pub struct Server {
    pub machine: Connection,
    answers: HashMap<StreamId, Answer>,
    served: Served,
    /// `shut_down` when that many requests have come.
    pub shut_down_after: Option<usize>,
}

impl Server {
    pub fn new(limits: Limits) -> Self {
        Server {
            machine: Connection::server(limits, true),
            answers: HashMap::new(),
            served: Served::default(),
            shut_down_after: None,
        }
    }

    /// Until the peer closes, a fault ends it, or the machine says that it is finished.
    pub async fn run(mut self, io: DuplexStream) -> Served {
        let (mut reader, mut writer) = tokio::io::split(io);
        let (mut input, mut out, mut head) = (Vec::new(), Vec::new(), HeadStore::default());
        self.machine.begin(&mut out);
        loop {
            self.pump(&mut out);
            if out.is_empty() && (self.served.fault.is_some() || self.machine.is_finished()) {
                return self.served;
            }
            let mut buffer = [0; 4096];
            tokio::select! {
                read = reader.read(&mut buffer), if out.len() < 100_000 => match read {
                    Ok(0) | Err(_) => return self.served,
                    Ok(count) => input.extend_from_slice(&buffer[..count]),
                },
                written = writer.write(&out), if !out.is_empty() => match written {
                    Ok(count) => drop(out.drain(..count)),
                    Err(_) => return self.served,
                },
            }
            let used = self.receive(&input, &mut head, &mut out);
            input.drain(..used);
        }
    }

    fn receive(&mut self, input: &[u8], head: &mut HeadStore, out: &mut Vec<u8>) -> usize {
        let mut used = 0;
        while self.served.fault.is_none() {
            match self.machine.receive(&input[used..], 0, head, out) {
                Ok((0, None)) => break,
                Ok((count, event)) => {
                    used += count;
                    if let Some(event) = event {
                        self.event(event, head, out);
                    }
                }
                Err(fault) => self.served.fault = Some(fault),
            }
            self.machine.flushed();
        }
        used
    }

    fn event(&mut self, event: Event<'_>, head: &HeadStore, out: &mut Vec<u8>) {
        match event {
            Event::Head { stream, end_stream } => self.request(stream, end_stream, head, out),
            Event::ContentRefused { .. } => unreachable!("content that is refused is reset here"),
            Event::HeadRefused { stream, .. } => {
                self.machine
                    .send_head(stream, true, out, |head| head.status(431));
            }
            Event::Data {
                stream,
                data,
                flow_bytes,
                end_stream,
            } => {
                self.machine.release(stream, flow_bytes, out);
                if let Some(answer) = self.answers.get_mut(&stream).filter(|answer| answer.echo) {
                    answer.content.extend_from_slice(data);
                    answer.complete |= end_stream;
                    self.machine.set_ready(stream, true);
                }
            }
            Event::Trailers { stream } => {
                if let Some(answer) = self.answers.get_mut(&stream).filter(|answer| answer.echo) {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    answer.trailers = head
                        .view()
                        .fields()
                        .map(|(name, value)| (text(name), text(value)))
                        .collect();
                    answer.complete = true;
                    self.machine.set_ready(stream, true);
                }
            }
            Event::Reset { stream, code } => {
                self.answers.remove(&stream);
                self.served.resets.push(code);
            }
            Event::GoAway { code, .. } => self.served.goaway = Some(code),
            Event::WindowOpened | Event::Informational { .. } => {}
        }
    }

    fn request(&mut self, stream: StreamId, end_stream: bool, head: &HeadStore, out: &mut Vec<u8>) {
        self.served.requests += 1;
        if self.shut_down_after == Some(self.served.requests) {
            self.machine.shut_down(out);
        }
        let view = head.view();
        let path = String::from_utf8_lossy(view.target()).into_owned();
        let mut answer = Answer {
            complete: true,
            ..Answer::default()
        };
        let mut status = 200;
        match path.trim_start_matches('/').split('/').collect::<Vec<_>>()[..] {
            ["bytes", count] => answer.content = super::pattern(count.parse().unwrap_or(0)),
            ["echo"] => (answer.echo, answer.complete) = (true, end_stream),
            ["hints"] => {
                self.machine.send_informational(stream, out, |head| {
                    head.status(103);
                    head.field(b"link", b"</a.css>; rel=preload", Indexing::Add);
                });
            }
            ["trailers"] => {
                answer.content = b"before".to_vec();
                answer.trailers = vec![("x-end".into(), "yes".into())];
            }
            ["reset"] => return self.machine.send_reset(stream, ErrorCode::Cancel, out),
            ["early"] => (answer.content, answer.reset_after) = (b"enough".to_vec(), true),
            ["head"] => {
                let line = view.start_line().to_vec();
                let fields = view
                    .fields()
                    .flat_map(|(name, value)| [name, b": ", value, b"\n"].concat());
                answer.content = line.into_iter().chain(*b"\n").chain(fields).collect();
            }
            _ => status = 404,
        }
        let is_head = view.method_token() == b"HEAD";
        let length = answer.content.len().to_string();
        let ends =
            is_head || (answer.complete && answer.content.is_empty() && answer.trailers.is_empty());
        self.machine.send_head(stream, ends, out, |head| {
            head.status(status);
            head.field(b"Server", b"ours", Indexing::Add);
            if !answer.echo {
                head.field(b"content-length", length.as_bytes(), Indexing::Without);
            }
        });
        if !ends {
            self.answers.insert(stream, answer);
            self.machine.set_ready(stream, true);
        }
    }

    fn pump(&mut self, out: &mut Vec<u8>) {
        while out.len() < 50_000
            && let Some(stream) = self.machine.next_ready()
        {
            let Some(answer) = self.answers.get_mut(&stream) else {
                self.machine.set_ready(stream, false);
                continue;
            };
            let rest = &answer.content[answer.sent..];
            let end = answer.complete && answer.trailers.is_empty();
            let granted = self.machine.begin_data(stream, rest.len(), end, out);
            out.extend_from_slice(&rest[..granted]);
            answer.sent += granted;
            if answer.sent < answer.content.len() {
                continue;
            }
            self.machine.set_ready(stream, false);
            if !answer.complete {
                continue;
            }
            if !answer.trailers.is_empty() {
                self.machine.send_trailers(stream, out, |head| {
                    answer.trailers.iter().for_each(|(name, value)| {
                        head.field(name.as_bytes(), value.as_bytes(), Indexing::Without)
                    });
                });
            }
            if answer.reset_after {
                self.machine.send_reset(stream, ErrorCode::NoError, out);
            }
            self.answers.remove(&stream);
        }
    }
}
