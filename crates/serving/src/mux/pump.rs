//! Sending of response bodies: the machine's scheduler decides whose turn it is, the wire and the
//! pace how much goes.
//!
//! Called by: the drivers, in each turn.

use super::{
    answer::Answer,
    completion_queue::Completion,
    exchanges::Exchanges,
    stream::{Stream, TunnelState},
    wire::{Reset, StreamId, Wire},
};
use crate::{
    pieces::{Broken, Pieces},
    request::Direction,
};
use saker_http::{Fields, Method, Status};
use saker_pipeline::{Body, Exchange, Forwarding, Response};
use saker_telemetry::{access_log::ConnectionStatus, error_log, message};
use std::{
    rc::Rc,
    task::{Context, Poll},
};

impl Exchanges {
    /// Takes the completions of all tasks.
    pub fn take_completions(&mut self, wire: &mut impl Wire) {
        for completion in self.completions.take() {
            match completion {
                Completion::Answer(id, answer) => self.answer(id, *answer, wire),
                Completion::Upload(id) => self.give_back(id, wire),
                Completion::Interim(id, status, fields) => self.interim(id, status, &fields, wire),
                Completion::Lost(id) => self.cut(id, wire),
                Completion::TunnelOver(id) => self.tunnel_over(id, wire),
            }
        }
    }

    /// RFC 9110 section 15.2, while the response is still to come.
    fn interim(&mut self, id: StreamId, status: Status, fields: &Fields, wire: &mut impl Wire) {
        let start = wire.made();
        if let Some(stream) = self
            .streams
            .get_mut(&id)
            .filter(|stream| stream.dispatch.is_some())
        {
            wire.send_interim(id, status, fields);
            stream.bytes += wire.made() - start;
        }
    }

    fn answer(&mut self, id: StreamId, mut answer: Answer, wire: &mut impl Wire) {
        if !self.streams.contains_key(&id) {
            return;
        }
        self.give_back(id, wire);
        if answer.exchange.limits.drops_connection {
            if let (Some(log), Some(stream)) =
                (answer.log(&self.session), self.streams.get_mut(&id))
            {
                stream.dispatch = None;
                log.write(&self.session, 0, 0, ConnectionStatus::Aborted);
            }
            let services = self.session.worker.services.borrow();
            let is_stream_alone = services.generation.model.limits.timeouts_are_silent;
            drop(services);
            return match is_stream_alone {
                // nginx ends the request; others of the connection go on.
                true => {
                    self.forget(id, wire);
                    wire.reset(id, Reset::Protocol);
                }
                false => self.drop_client(id, wire),
            };
        }
        let program = self.settle_tunnel(id, &mut answer.response);
        let log = answer.log(&self.session);
        let counted = std::mem::take(&mut answer.exchange.limits.counted);
        let exchange = &answer.exchange;
        let length = answer.response.body.length().filter(|_| program.is_none());
        let mut body = content(exchange, &mut answer.response);
        let empty = body.length() == Some(0) && program.is_none();
        let start = wire.made();
        let now = saker_net::clock::realtime_s();
        wire.send_head(
            id,
            &answer.response,
            length,
            empty,
            &mut self.session.common_headers(&answer.response.head),
            now,
        );
        if exchange.client.forwarding == Forwarding::Proxied {
            // The connection's last request may have been another client's.
            self.session.take(Rc::clone(&exchange.client));
        }
        let pace = self.session.pace(
            Direction::Out,
            &exchange.routing.settings,
            exchange.routing.site_index,
        );
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        stream.dispatch = None;
        stream.log = log;
        stream.pace = pace;
        stream._counted = counted;
        stream.bytes += wire.made() - start;
        if empty {
            return self.done(id, wire);
        }
        if let Some(tunnel) = program.and_then(|program| self.begin_tunnel(id, program)) {
            body = Body::Stream(Box::new(tunnel));
        }
        self.begin_body(id, body, wire);
    }

    /// The head of a stream is out, its body may follow.
    pub(super) fn begin_body(&mut self, id: StreamId, body: Body, wire: &mut impl Wire) {
        if let Some(stream) = self.streams.get_mut(&id) {
            self.sending += usize::from(stream.pieces.replace(Pieces::new(body)).is_none());
            wire.set_ready(id, true);
        }
    }

    /// Removes a stream. Unread content must not reduce the connection's window.
    pub(super) fn forget(&mut self, id: StreamId, wire: &mut impl Wire) -> Option<Stream> {
        let stream = self.streams.remove(&id)?;
        let unread = stream
            .upload
            .as_ref()
            .map_or(0, |upload| upload.borrow_mut().abandon());
        if unread > 0 {
            wire.release(id, unread);
        }
        self.sending -= usize::from(stream.pieces.is_some());
        self.waiting -= usize::from(stream.waits);
        Some(stream)
    }

    /// Sends content as far as that goes.
    pub fn pump(&mut self, cx: &mut Context<'_>, wire: &mut impl Wire) {
        for id in self.wakeups.take() {
            if self
                .streams
                .get_mut(&id)
                .is_some_and(|stream| std::mem::take(&mut stream.waits))
            {
                self.waiting -= 1;
                wire.set_ready(id, true);
            }
        }
        while wire.has_room()
            && let Some(id) = wire.next_ready()
        {
            let start = wire.made();
            let next = self.pump_one(cx, id, wire);
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.bytes += wire.made() - start;
            }
            self.progress |= wire.made() > start;
            match next {
                Next::More => {}
                Next::Wait => self.hold(id, wire),
                Next::Done => self.done(id, wire),
                Next::Cut => self.cut(id, wire),
            }
        }
    }

    /// No turns until it is woken.
    fn hold(&mut self, id: StreamId, wire: &mut impl Wire) {
        wire.set_ready(id, false);
        if let Some(stream) = self.streams.get_mut(&id) {
            self.waiting += usize::from(!std::mem::replace(&mut stream.waits, true));
        }
    }

    /// Sends one frame. A stream that has to wait gets a waker of its own for that; most never do.
    fn pump_one(&mut self, cx: &mut Context<'_>, id: StreamId, wire: &mut impl Wire) -> Next {
        let own = self
            .streams
            .get(&id)
            .and_then(|stream| stream.waker.clone());
        if let Some(waker) = &own {
            return self.step(&mut Context::from_waker(waker), id, wire);
        }
        let next = self.step(cx, id, wire);
        let (Next::Wait, Some(stream)) = (&next, self.streams.get_mut(&id)) else {
            return next;
        };
        let waker = self.wakeups.waker(id);
        stream.waker = Some(waker.clone());
        self.step(&mut Context::from_waker(&waker), id, wire)
    }

    fn step(&mut self, cx: &mut Context<'_>, id: StreamId, wire: &mut impl Wire) -> Next {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Next::Cut;
        };
        let Some(pieces) = &mut stream.pieces else {
            return Next::Cut;
        };
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
                    Some(trailers) => {
                        wire.send_trailers(id, &trailers);
                        stream
                            .log
                            .iter()
                            .for_each(|log| log.response_trailers(Some(trailers.clone())));
                    }
                    None => wire.send_end(id),
                }
                return Next::Done;
            }
            Poll::Ready(Ok(Some(_))) => {}
        }
        let sent = match wire.send_piece(id, pieces, allowance) {
            Ok(Some(sent)) => sent,
            Ok(None) => return Next::More,
            Err(Broken) => return Next::Cut,
        };
        if sent == 0 {
            // Impossible with an open window, which gave the stream its turn; a stream that is
            // never woken would be worse than one that is cut.
            return Next::Cut;
        }
        pieces.advance(sent as usize);
        stream.body_bytes += sent;
        if let Some(pace) = &mut stream.pace {
            pace.charge(sent);
        }
        if pieces.is_over() {
            Next::Done
        } else {
            Next::More
        }
    }

    /// The response is whole.
    pub(super) fn done(&mut self, id: StreamId, wire: &mut impl Wire) {
        wire.set_ready(id, false);
        if self.is_half_open(id) {
            return;
        }
        let Some(mut stream) = self.forget(id, wire) else {
            return;
        };
        stream.note_received();
        if let Some(log) = stream.log.take() {
            log.write(
                &self.session,
                stream.body_bytes,
                stream.bytes,
                ConnectionStatus::KeepAlive,
            );
        }
        // RFC 9113 section 8.1: a long rest of the request is not wanted; not an error. A short one
        // the machine lets pass by, and also the beginning of one whose length is not known.
        let upload = stream.upload.as_ref().map(|upload| upload.borrow());
        if upload.is_some_and(|upload| {
            !upload.has_ended() && (stream.is_connect || !upload.is_cheap_to_drain())
        }) {
            wire.reset(id, Reset::NoError);
        }
    }

    /// We have ended our side of a tunnel; the client may still have something to say.
    fn is_half_open(&mut self, id: StreamId) -> bool {
        let Some(stream) = self
            .streams
            .get_mut(&id)
            .filter(|stream| matches!(stream.tunnel, Some(TunnelState::Open(_))))
        else {
            return false;
        };
        self.sending -= usize::from(stream.pieces.take().is_some());
        true
    }

    fn tunnel_over(&mut self, id: StreamId, wire: &mut impl Wire) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        stream.note_received();
        stream.tunnel = None;
        if stream.pieces.is_none() {
            self.done(id, wire);
        }
    }

    /// Resets a stream whose promised response can't be sent, so that the client sees that it is
    /// incomplete.
    fn cut(&mut self, id: StreamId, wire: &mut impl Wire) {
        if !self.streams.contains_key(&id) {
            return;
        }
        wire.set_ready(id, false);
        wire.reset(id, Reset::Internal);
        let Some(stream) = self.forget(id, wire) else {
            return;
        };
        error_log::log_about(
            &message::RESPONSE_CUT,
            &*self.session.connection,
            format_args!(""),
        );
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

/// Takes the content that is sent behind the head; empty: the head ends the stream.
fn content(exchange: &Exchange, response: &mut Response) -> Body {
    let body = std::mem::take(&mut response.body);
    let is_bare = exchange.head.view().method() == Method::Head
        || response.status.forbids_content()
        || matches!(&body, Body::Stream(stream) if stream.is_over());
    match is_bare {
        true => Body::Empty,
        false => body,
    }
}
