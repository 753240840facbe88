//! Responses' bodies into DATA frames: whose turn it is says the machine's scheduler, how much goes say windows, pace, and the room in one
//! write.

use super::{Connection, OUT_BYTES_MAX, head, inbox::Letter, stream::Stream, tunnel::TunnelState, walk::Answer};
use crate::{
    pieces::{Broken, Piece, Pieces, file_step},
    serving::Direction,
};
use saker_http::Method;
use saker_http2::{ErrorCode, StreamId};
use saker_pipeline::{Body, FilePart};
use saker_telemetry::{access_log::ConnectionStatus, error_log, message};
use std::{
    os::unix::fs::FileExt,
    rc::Rc,
    task::{Context, Poll},
};

/// RFC 9113 section 4.1.
const HEADER_BYTES: usize = 9;
/// A frame fits a TLS record; see `begin_data` of the machine.
const DATA_BYTES_MAX: u64 = (16 << 10) - HEADER_BYTES as u64;

impl Connection {
    /// Takes in what the walks have brought.
    pub(super) fn take_letters(&mut self, out: &mut Vec<u8>) {
        for letter in self.inbox.take() {
            match letter {
                Letter::Answer(id, answer) => self.answer(id, *answer, out),
                Letter::Upload(id) => self.give_back(id, out),
                Letter::TunnelOver(id) => self.tunnel_over(id, out),
            }
        }
    }

    fn answer(&mut self, id: StreamId, mut answer: Answer, out: &mut Vec<u8>) {
        if !self.streams.contains_key(&id) {
            return;
        }
        self.give_back(id, out);
        let program = self.settle_tunnel(id, &mut answer.response);
        let log = answer.log(self);
        let exchange = &answer.exchange;
        let length = answer.response.body.length().filter(|_| program.is_none());
        let mut body = std::mem::take(&mut answer.response.body);
        if exchange.head.view().method() == Method::Head || answer.response.status.forbids_content() {
            body = Body::Empty;
        }
        let empty = body.length() == Some(0) && program.is_none();
        let start = out.len();
        let now = saker_net::clock::realtime_s();
        let worker = Rc::clone(&self.session.worker);
        head::send(&mut self.machine, id, &answer.response, length, empty, &mut worker.tail.borrow_mut(), now, out);
        let pace = self.session.pace(Direction::Out, &exchange.settings, exchange.site_index);
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.walk = None;
        stream.log = log;
        stream.pace = pace;
        stream.bytes += (out.len() - start) as u64;
        if empty {
            return self.done(id, out);
        }
        if let Some(tunnel) = program.and_then(|program| self.begin_tunnel(id, program)) {
            body = Body::Stream(Box::new(tunnel));
        }
        self.begin_body(id, body);
    }

    /// The head of a stream is out, its body may follow.
    pub(super) fn begin_body(&mut self, id: StreamId, body: Body) {
        if let Some(stream) = self.streams.get_mut(&id) {
            self.sending += usize::from(stream.pieces.replace(Pieces::new(body)).is_none());
            self.machine.set_ready(id, true);
        }
    }

    /// Takes a stream out. The connection's window must not be smaller for content that nobody has read.
    pub(super) fn forget(&mut self, id: StreamId, out: &mut Vec<u8>) -> Option<Stream> {
        let stream = self.streams.remove(&id)?;
        let unread = stream.upload.as_ref().map_or(0, |upload| upload.borrow_mut().abandon());
        if unread > 0 {
            self.machine.release(id, unread, out);
        }
        self.sending -= usize::from(stream.pieces.is_some());
        self.waiting -= usize::from(stream.waits);
        Some(stream)
    }

    /// Fills `out` with content as far as that goes.
    pub(super) fn pump(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) {
        for id in self.wakeups.take() {
            if self.streams.get_mut(&id).is_some_and(|stream| std::mem::take(&mut stream.waits)) {
                self.waiting -= 1;
                self.machine.set_ready(id, true);
            }
        }
        while out.len() < OUT_BYTES_MAX
            && let Some(id) = self.machine.next_ready()
        {
            let start = out.len();
            let next = self.pump_one(cx, id, out);
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.bytes += (out.len() - start) as u64;
            }
            self.progress |= out.len() > start;
            match next {
                Next::More => {}
                Next::Wait => self.hold(id),
                Next::Done => self.done(id, out),
                Next::Cut => self.cut(id, out),
            }
        }
    }

    /// No turns until it is woken.
    fn hold(&mut self, id: StreamId) {
        self.machine.set_ready(id, false);
        if let Some(stream) = self.streams.get_mut(&id) {
            self.waiting += usize::from(!std::mem::replace(&mut stream.waits, true));
        }
    }

    /// One frame. A stream that has to wait gets a waker of its own for that; most never do.
    fn pump_one(&mut self, cx: &mut Context<'_>, id: StreamId, out: &mut Vec<u8>) -> Next {
        let own = self.streams.get(&id).and_then(|stream| stream.waker.clone());
        if let Some(waker) = &own {
            return self.step(&mut Context::from_waker(waker), id, out);
        }
        let next = self.step(cx, id, out);
        let (Next::Wait, Some(stream)) = (&next, self.streams.get_mut(&id)) else { return next };
        let waker = self.wakeups.waker(id);
        stream.waker = Some(waker.clone());
        self.step(&mut Context::from_waker(&waker), id, out)
    }

    fn step(&mut self, cx: &mut Context<'_>, id: StreamId, out: &mut Vec<u8>) -> Next {
        let Some(stream) = self.streams.get_mut(&id) else { return Next::Cut };
        let Some(pieces) = &mut stream.pieces else { return Next::Cut };
        let allowance = match stream.pace.as_mut().map(|pace| pace.poll_allowance(cx)) {
            None => u64::MAX,
            Some(Poll::Ready(allowance)) => allowance,
            Some(Poll::Pending) => return Next::Wait,
        };
        match pieces.poll_piece(cx) {
            Poll::Pending => return Next::Wait,
            Poll::Ready(Err(Broken)) => return Next::Cut,
            Poll::Ready(Ok(None)) => {
                match pieces.take_trailers() {
                    Some(trailers) => _ = self.machine.send_trailers(id, out, |block| head::append_fields(&trailers, block)),
                    None => _ = self.machine.begin_data(id, 0, true, out),
                }
                return Next::Done;
            }
            Poll::Ready(Ok(Some(_))) => {}
        }
        let sent = match frame(&mut self.machine, id, pieces, allowance, out) {
            Ok(sent) => sent,
            Err(Broken) => return Next::Cut,
        };
        if sent == 0 {
            // Not with an open window, which is what gave it its turn; a stream that nobody wakes would be worse than one that is cut.
            return Next::Cut;
        }
        pieces.advance(sent);
        stream.body_bytes += sent as u64;
        if let Some(pace) = &mut stream.pace {
            pace.charge(sent as u64);
        }
        if pieces.is_over() { Next::Done } else { Next::More }
    }

    /// The response is whole.
    pub(super) fn done(&mut self, id: StreamId, out: &mut Vec<u8>) {
        self.machine.set_ready(id, false);
        if self.is_half_open(id) {
            return;
        }
        let Some(mut stream) = self.forget(id, out) else { return };
        stream.note_received();
        if let Some(log) = stream.log.take() {
            log.write(&self.session, stream.body_bytes, stream.bytes, ConnectionStatus::KeepAlive);
        }
        // RFC 9113 section 8.1: a long rest of the request is not wanted; not an error. A short one the machine lets pass by, and also the
        // beginning of one whose length is not known.
        let upload = stream.upload.as_ref().map(|upload| upload.borrow());
        if upload.is_some_and(|upload| !upload.has_ended() && (stream.is_connect || !upload.is_cheap_to_drain())) {
            self.machine.send_reset(id, ErrorCode::NoError, out);
        }
    }

    /// We have ended our side of a tunnel; the client may still have something to say.
    fn is_half_open(&mut self, id: StreamId) -> bool {
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| matches!(stream.tunnel, Some(TunnelState::Open(_)))) else {
            return false;
        };
        self.sending -= usize::from(stream.pieces.take().is_some());
        true
    }

    fn tunnel_over(&mut self, id: StreamId, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.note_received();
        stream.tunnel = None;
        if stream.pieces.is_none() {
            self.done(id, out);
        }
    }

    /// What was promised can't be sent: the client has to see that it is not whole.
    fn cut(&mut self, id: StreamId, out: &mut Vec<u8>) {
        self.machine.set_ready(id, false);
        self.machine.send_reset(id, ErrorCode::InternalError, out);
        let Some(stream) = self.forget(id, out) else { return };
        error_log::log_about(&message::RESPONSE_CUT, &*self.session.client, format_args!(""));
        self.log_cut(&stream);
    }
}

enum Next {
    More,
    /// The body is being made, or held up.
    Wait,
    Done,
    Cut,
}

/// Appends one DATA frame of the piece; the number of content bytes.
fn frame(
    machine: &mut saker_http2::Connection,
    id: StreamId,
    pieces: &mut Pieces,
    allowance: u64,
    out: &mut Vec<u8>,
) -> Result<usize, Broken> {
    let last = pieces.is_last();
    let Some(piece) = pieces.piece_mut() else { return Ok(0) };
    let left = piece.length();
    match piece {
        Piece::Memory(chunk) => {
            let wanted = left.min(allowance).min(DATA_BYTES_MAX) as usize;
            let granted = machine.begin_data(id, wanted, last && wanted as u64 == left, out);
            out.extend_from_slice(&chunk.bytes()[..granted]);
            Ok(granted)
        }
        Piece::File(part) => {
            let wanted = file_step(part, allowance, DATA_BYTES_MAX)?.min(machine.send_capacity(id));
            file_frame(machine, id, part, wanted, last && wanted as u64 == left, out)
        }
    }
}

/// Reads before it frames: a file that has shrunk must not have promised its end. The header then goes where room was left for it.
fn file_frame(
    machine: &mut saker_http2::Connection,
    id: StreamId,
    part: &FilePart,
    bytes: usize,
    end: bool,
    out: &mut Vec<u8>,
) -> Result<usize, Broken> {
    let start = out.len();
    let body = start + HEADER_BYTES;
    out.resize(body + bytes, 0);
    if part.file.read_exact_at(&mut out[body..], part.offset).is_err() {
        out.truncate(start);
        return Err(Broken);
    }
    let mut header = Vec::with_capacity(HEADER_BYTES);
    let granted = machine.begin_data(id, bytes, end, &mut header);
    match (granted == bytes, out.get_mut(start..body)) {
        (true, Some(place)) if place.len() == header.len() => place.copy_from_slice(&header),
        _ => {
            out.truncate(start);
            return Err(Broken);
        }
    }
    Ok(granted)
}
