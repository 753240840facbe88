//! One HTTP/3 connection of a test: requests go out, whole responses come back, as
//! [`saker_testkit::Client`] does it for HTTP/1.1.
//!
//! Frames and fields are `saker-http3`'s, in the role of a client, so that both its roles are tried
//! against each other in life. The one difficulty is that anything may happen on any stream while
//! one waits for another: what comes is kept by stream until it is asked for. Absent on purpose:
//! redirects, cookies, decompression, and patience beyond 20 seconds.

use crate::{
    quic::{Id, Quic},
    tls, transport,
};
use bytes::Bytes;
use quinn_proto::{
    Connection, Dir, Event, ReadError, Side, StreamEvent, StreamId, TransportConfig, VarInt,
    WriteError,
};
use rustls::client::Resumption;
use saker_http3::{ErrorCode, HeadStore, Indexing, Limits, Outgoing};
use saker_testkit::Response;
use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(20);
const TICKETS_MAX: usize = 64;

/// State shared by connections: trusted certificates, and session tickets for later connections.
#[derive(Clone)]
pub struct Trust(rustls::ClientConfig);

impl Trust {
    /// `chain` (PEM), for `localhost`.
    pub fn new(chain: &Path) -> Result<Trust, String> {
        let mut config =
            tls::configuration(chain, "h3", Resumption::in_memory_sessions(TICKETS_MAX))?;
        config.enable_early_data = true;
        Ok(Trust(config))
    }
}

pub struct Client {
    quic: Quic,
    id: Id,
    session: Session,
}

/// State of the connection, apart from QUIC, which calls it.
struct Session {
    machine: saker_http3::Connection,
    head: HeadStore,
    start: Instant,
    is_connected: bool,
    /// Why it is over.
    end: Option<String>,
    own: [Option<StreamId>; 3],
    /// Read, but not used up.
    inputs: HashMap<u64, (Vec<u8>, bool)>,
    /// Output that has no room in the stream yet; with the end, if it follows.
    outputs: HashMap<u64, (VecDeque<Bytes>, bool)>,
    answers: HashMap<u64, Answer>,
}

#[derive(Default)]
struct Answer {
    informational: Vec<u16>,
    status: Option<u16>,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    trailers: Vec<(String, String)>,
    is_ended: bool,
    /// Error code of a stream that was reset.
    error: Option<u64>,
}

impl Client {
    /// Returns when the handshake is done.
    pub fn connect(address: SocketAddr, trust: &Trust) -> Result<Client, String> {
        let mut client = Client::begin(address, trust, transport())?;
        client.wait(|session| session.is_connected.then_some(()))?;
        Ok(client)
    }

    /// The handshake is under way; with a ticket, requests may be sent at once.
    pub fn begin(
        address: SocketAddr,
        trust: &Trust,
        transport: TransportConfig,
    ) -> Result<Client, String> {
        let mut quic = Quic::new(trust.0.clone(), transport)?;
        let id = quic
            .connect(address, tls::NAME)
            .map_err(|error| error.to_string())?;
        let session = Session {
            machine: saker_http3::Connection::client(Limits::default()),
            head: HeadStore::default(),
            start: Instant::now(),
            is_connected: false,
            end: None,
            own: [None; 3],
            inputs: HashMap::new(),
            outputs: HashMap::new(),
            answers: HashMap::new(),
        };
        let mut client = Client { quic, id, session };
        if client.has_early_data() {
            client
                .session
                .flush(client.quic.connection(id).ok_or("it is over")?)?;
        }
        Ok(client)
    }

    /// As [`Client::connect`] has it; to be changed before [`Client::begin`].
    pub fn transport() -> TransportConfig {
        transport()
    }

    pub fn get(&mut self, path: &str) -> Result<Response, String> {
        let stream = self.ask("GET", path, &[], Some(b""))?;
        self.answer(stream)
    }

    /// Sends a request and returns its stream. Without `body` the content is still to come, by
    /// [`Client::send`].
    pub fn ask(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<u64, String> {
        let pseudo = [
            (":method", method),
            (":scheme", "https"),
            (":authority", tls::NAME),
            (":path", path),
        ];
        self.ask_exactly(&pseudo, fields, body)
    }

    /// The same with all pseudo-fields as given.
    pub fn ask_exactly(
        &mut self,
        pseudo: &[(&str, &str)],
        fields: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<u64, String> {
        let quic = self
            .quic
            .connection(self.id)
            .ok_or("the connection is over")?;
        let stream = quic
            .streams()
            .open(Dir::Bi)
            .ok_or("no more streams for now")?;
        let number = u64::from(stream);
        let mut out = Vec::new();
        let is_all = body.is_some_and(<[u8]>::is_empty);
        self.session
            .machine
            .open(number, is_all, &mut out, |head| {
                pseudo
                    .iter()
                    .for_each(|(name, value)| head.pseudo(name.as_bytes(), value.as_bytes()));
                fields.iter().for_each(|(name, value)| {
                    head.field(name.as_bytes(), value.as_bytes(), Indexing::Add)
                });
            })
            .map_err(|error| format!("{error:?}"))?;
        self.session.answers.insert(number, Answer::default());
        self.session
            .outputs
            .insert(number, (VecDeque::from([Bytes::from(out)]), is_all));
        self.session.flush(quic)?;
        match body {
            Some(body) if !is_all => self.send(number, body, true)?,
            _ => self.session.write(quic, number)?,
        }
        Ok(number)
    }

    /// Content, as one DATA frame, and the end of the request if it is.
    pub fn send(&mut self, stream: u64, content: &[u8], is_end: bool) -> Result<(), String> {
        let quic = self
            .quic
            .connection(self.id)
            .ok_or("the connection is over")?;
        let mut header = Vec::new();
        self.session
            .machine
            .begin_data(stream, content.len() as u64, is_end, &mut header);
        let (pieces, ends) = self.session.outputs.entry(stream).or_default();
        pieces.extend(
            [Bytes::from(header), Bytes::copy_from_slice(content)]
                .into_iter()
                .filter(|piece| !piece.is_empty()),
        );
        *ends |= is_end;
        self.session.write(quic, stream)
    }

    /// Bytes as they are: frames that a good client would not send.
    pub fn send_raw(&mut self, stream: u64, bytes: &[u8]) -> Result<(), String> {
        let quic = self
            .quic
            .connection(self.id)
            .ok_or("the connection is over")?;
        self.session
            .outputs
            .entry(stream)
            .or_default()
            .0
            .push_back(Bytes::copy_from_slice(bytes));
        self.session.write(quic, stream)
    }

    /// The whole response. A reset is an error that names its code, as is the connection's end.
    pub fn answer(&mut self, stream: u64) -> Result<Response, String> {
        self.wait(|session| session.answers.get(&stream).map_or_else(gone, Answer::over))??;
        let answer = self
            .session
            .answers
            .remove(&stream)
            .ok_or("no such request")?;
        let status = answer.status.ok_or("the stream ended without a response")?;
        let Answer {
            fields,
            body,
            trailers,
            ..
        } = answer;
        Ok(Response {
            version: "HTTP/3".into(),
            status,
            reason: String::new(),
            fields,
            body,
            trailers,
        })
    }

    /// Waits until so much of a response's content is there, and takes it; less at its end.
    pub fn content(&mut self, stream: u64, bytes: usize) -> Result<Vec<u8>, String> {
        self.wait(|session| {
            let Some(answer) = session.answers.get(&stream) else {
                return gone();
            };
            (answer.body.len() >= bytes)
                .then_some(Ok(()))
                .or_else(|| answer.over())
        })??;
        let body = &mut self
            .session
            .answers
            .get_mut(&stream)
            .ok_or("no such request")?
            .body;
        Ok(body.drain(..bytes.min(body.len())).collect())
    }

    /// Waits for a response's head: its status and fields.
    pub fn head(&mut self, stream: u64) -> Result<(u16, Vec<(String, String)>), String> {
        self.wait(|session| {
            let Some(answer) = session.answers.get(&stream) else {
                return gone();
            };
            answer.status.map(|_| Ok(())).or_else(|| answer.over())
        })??;
        let answer = self.session.answers.get(&stream).ok_or("no such request")?;
        Ok((
            answer.status.ok_or("the stream ended without a response")?,
            answer.fields.clone(),
        ))
    }

    /// Statuses of 1xx that have come for a request.
    pub fn informational(&self, stream: u64) -> &[u16] {
        self.session
            .answers
            .get(&stream)
            .map_or(&[], |answer| &answer.informational)
    }

    /// Gives a request up (RFC 9114 section 4.1.1).
    pub fn cancel(&mut self, stream: u64) {
        let code = VarInt::from_u32(crate::http3::REQUEST_CANCELLED);
        self.session.machine.abandon(stream);
        self.session.answers.remove(&stream);
        if let Some(quic) = self.quic.connection(self.id) {
            let id = request_stream(stream);
            // Either may have ended.
            let _ = quic.send_stream(id).reset(code);
            let _ = quic.recv_stream(id).stop(code);
        }
    }

    /// Lets time pass, and answers what QUIC has to.
    pub fn idle(&mut self, time: Duration) -> Result<(), String> {
        let until = Instant::now() + time;
        while Instant::now() < until && self.session.end.is_none() {
            self.turn(until)?;
        }
        Ok(())
    }

    /// Why the connection is over, once it is.
    pub fn wait_for_end(&mut self) -> Result<String, String> {
        let until = Instant::now() + PATIENCE;
        while self.session.end.is_none() {
            if Instant::now() > until {
                return Err(format!("it did not end within {PATIENCE:?}"));
            }
            self.turn(until)?;
        }
        Ok(self.session.end.clone().unwrap_or_default())
    }

    pub fn has_early_data(&mut self) -> bool {
        self.quic
            .connection(self.id)
            .is_some_and(|quic| quic.has_0rtt())
    }

    /// True if the server has taken what left before the handshake was done.
    pub fn is_early_data_accepted(&mut self) -> Result<bool, String> {
        self.wait(|session| session.is_connected.then_some(()))?;
        Ok(self
            .quic
            .connection(self.id)
            .is_some_and(|quic| quic.accepted_0rtt()))
    }

    pub fn is_server_going_away(&self) -> bool {
        self.session.machine.peer_is_going_away()
    }

    pub fn server_allows_extended_connect(&mut self) -> Result<bool, String> {
        self.wait(|session| session.machine.is_peer_known().then_some(()))?;
        Ok(self.session.machine.peer_allows_extended_connect())
    }

    /// Goes on from another port.
    pub fn move_to_another_port(&mut self) -> Result<(), String> {
        self.quic
            .move_to_another_port(self.id)
            .map_err(|error| error.to_string())
    }

    /// For figures, key updates and whatever else QUIC has.
    pub fn quic(&mut self) -> Option<&mut Connection> {
        self.quic.connection(self.id)
    }

    fn wait<T>(&mut self, mut ready: impl FnMut(&Session) -> Option<T>) -> Result<T, String> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(ready) = ready(&self.session) {
                return Ok(ready);
            }
            if let Some(end) = &self.session.end {
                return Err(end.clone());
            }
            if Instant::now() > until {
                return Err(format!("nothing within {PATIENCE:?}"));
            }
            self.turn(until)?;
        }
    }

    fn turn(&mut self, until: Instant) -> Result<(), String> {
        let session = &mut self.session;
        let each = |quic: &mut Quic, id, events: &mut Vec<Event>| {
            for event in events.drain(..) {
                let Some(connection) = quic.connection(id) else {
                    return;
                };
                if let Err(error) = session.happened(connection, event) {
                    session.end.get_or_insert(error);
                }
            }
        };
        self.quic
            .turn(until, each)
            .map_err(|error| error.to_string())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.quic.close(self.id, crate::http3::NO_ERROR);
    }
}

impl Answer {
    fn over(&self) -> Option<Result<(), String>> {
        match self.error {
            Some(code) => Some(Err(format!("the stream was reset with {code:#x}"))),
            None => self.is_ended.then_some(Ok(())),
        }
    }
}

/// It was never asked, or has been taken.
fn gone() -> Option<Result<(), String>> {
    Some(Err("no such request".into()))
}

impl Session {
    fn happened(&mut self, quic: &mut Connection, event: Event) -> Result<(), String> {
        match event {
            Event::Connected => {
                self.is_connected = true;
                self.flush(quic)
            }
            Event::ConnectionLost { reason } => Err(reason.to_string()),
            Event::Stream(StreamEvent::Opened { dir }) => {
                while let Some(stream) = quic.streams().accept(dir) {
                    self.machine
                        .opened(u64::from(stream))
                        .map_err(|fault| fault.to_string())?;
                    self.read(quic, stream)?;
                }
                Ok(())
            }
            Event::Stream(StreamEvent::Readable { id }) => self.read(quic, id),
            Event::Stream(StreamEvent::Writable { id }) => self.write(quic, u64::from(id)),
            Event::Stream(StreamEvent::Stopped { id, .. }) => {
                self.outputs.remove(&u64::from(id));
                let _ = quic
                    .send_stream(id)
                    .reset(VarInt::from_u32(crate::http3::NO_ERROR)); // It may have ended.
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn read(&mut self, quic: &mut Connection, stream: StreamId) -> Result<(), String> {
        let number = u64::from(stream);
        let (input, is_ended) = self.inputs.entry(number).or_default();
        let mut incoming = quic.recv_stream(stream);
        // One that we have stopped.
        let Ok(mut chunks) = incoming.read(true) else {
            return Ok(());
        };
        let reset = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => input.extend_from_slice(&chunk.bytes),
                Ok(None) => {
                    *is_ended = true;
                    break None;
                }
                Err(ReadError::Blocked) => break None,
                Err(ReadError::Reset(code)) => break Some(code.into_inner()),
            }
        };
        let _ = chunks.finalize(); // The turn sends it anyway.
        if let Some(code) = reset {
            self.inputs.remove(&number);
            self.give_up(number, code);
            return self
                .machine
                .stream_reset(number, self.now_ms())
                .map(drop)
                .map_err(|fault| fault.to_string());
        }
        self.understand(number)?;
        self.flush(quic)
    }

    /// Hands the machine what has come, until it has used it up or waits for another stream.
    fn understand(&mut self, first: u64) -> Result<(), String> {
        let mut next = VecDeque::from([first]);
        while let Some(number) = next.pop_front() {
            let Some((input, is_ended)) = self.inputs.remove(&number) else {
                continue;
            };
            let (mut used, now_ms) = (0, self.now_ms());
            loop {
                let outcome =
                    self.machine
                        .receive(number, &input[used..], is_ended, now_ms, &mut self.head);
                let (count, event) =
                    outcome.map_err(|fault| format!("the server broke the protocol: {fault}"))?;
                used += count;
                match event {
                    None if count == 0 => break,
                    None => {}
                    Some(saker_http3::Event::Unblocked { stream }) => next.push_back(stream),
                    Some(event) => note(&mut self.answers, &self.head, event),
                }
            }
            if !is_ended || used < input.len() {
                self.inputs
                    .insert(number, (input[used..].to_vec(), is_ended));
            }
        }
        Ok(())
    }

    fn give_up(&mut self, stream: u64, code: u64) {
        if let Some(answer) = self.answers.get_mut(&stream) {
            answer.error = Some(code);
        }
    }

    /// Writes the connection's own streams.
    fn flush(&mut self, quic: &mut Connection) -> Result<(), String> {
        for (which, stream) in Outgoing::ALL.into_iter().zip(&mut self.own) {
            while !self.machine.outgoing(which).is_empty() {
                if stream.is_none() {
                    *stream = quic.streams().open(Dir::Uni);
                }
                let Some(stream) = *stream else {
                    return Err("the server allows no control streams".into());
                };
                match quic.send_stream(stream).write(self.machine.outgoing(which)) {
                    Ok(count) => self.machine.sent(which, count),
                    Err(WriteError::Blocked) => break,
                    Err(error) => return Err(format!("a stream that has to stay: {error}")),
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, quic: &mut Connection, number: u64) -> Result<(), String> {
        let Some((pieces, is_end)) = self.outputs.get_mut(&number) else {
            return Ok(());
        };
        let mut stream = quic.send_stream(request_stream(number));
        while !pieces.is_empty() {
            match stream.write_chunks(pieces.make_contiguous()) {
                Ok(written) => drop(pieces.drain(..written.chunks)),
                Err(WriteError::Blocked) => return Ok(()),
                // What it answered is still to be read.
                Err(_) => {
                    self.outputs.remove(&number);
                    return Ok(());
                }
            }
        }
        if *is_end {
            self.outputs.remove(&number);
            let _ = stream.finish(); // It may have been stopped.
        }
        Ok(())
    }

    fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }
}

fn note(answers: &mut HashMap<u64, Answer>, head: &HeadStore, event: saker_http3::Event<'_>) {
    use saker_http3::Event as E;
    match event {
        E::Head { stream, end_stream } => with(answers, stream, |answer| {
            (answer.status, answer.fields, answer.is_ended) =
                (Some(head.status().0), fields(head), end_stream);
        }),
        E::Informational { stream } => with(answers, stream, |answer| {
            answer.informational.push(head.status().0)
        }),
        E::Data {
            stream,
            data,
            end_stream,
        } => with(answers, stream, |answer| {
            answer.body.extend_from_slice(data);
            answer.is_ended = end_stream;
        }),
        E::Trailers { stream } => with(answers, stream, |answer| {
            (answer.trailers, answer.is_ended) = (fields(head), true)
        }),
        E::Reset { stream, code } => {
            with(answers, stream, |answer| answer.error = Some(code.into()))
        }
        E::HeadRefused { stream, .. } => with(answers, stream, |answer| {
            answer.error = Some(ErrorCode::ExcessiveLoad.into())
        }),
        E::Stop { .. } | E::Unblocked { .. } | E::GoAway { .. } => {}
    }
}

fn with(answers: &mut HashMap<u64, Answer>, stream: u64, change: impl FnOnce(&mut Answer)) {
    if let Some(answer) = answers.get_mut(&stream) {
        change(answer);
    }
}

fn fields(head: &HeadStore) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    head.view()
        .fields()
        .map(|(name, value)| (text(name), text(value)))
        .collect()
}

fn request_stream(number: u64) -> StreamId {
    StreamId::new(Side::Client, Dir::Bi, number >> 2)
}
