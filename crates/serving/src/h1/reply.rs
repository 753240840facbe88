//! Responses to dispatched requests: a short one that is whole is sent at once, from the worker's
//! buffer; every other is sent piece by piece.
//!
//! Called by: `dispatch`, when the pipeline has answered.
//! Caveat: what the socket does not take at once is kept, and counted as sent in part.
//! Out of scope: hits of the route cache (`inbound`).

use super::{
    connection::Connection,
    head::{Http1Head, append_keep_alive, connection_of, framing_of},
    inbound::INLINE_BYTES_MAX,
    outgoing::Outgoing,
    request_body::BodyState,
    step::{AbortWatch, Incoming, Sending, Then, TunnelStart},
};
use crate::request::{Cause, Direction, Facts, Pace, Pending, log, response_head};
use saker_http::{Method, Status, Version};
use saker_http1::{Connection as ConnectionLine, ResponseFraming};
use saker_pipeline::{Body, ClientAbort, Exchange, LogFacts, Loggers, Response, ResponseHead};
use saker_telemetry::access_log::ConnectionStatus;
use std::{cell::RefCell, rc::Rc};

/// Room for most heads.
const HEAD_BYTES: usize = 512;

/// Facts about a response that its exchange does not have.
pub(super) struct ReplyTerms {
    /// The connection may serve another request.
    pub stays: bool,
    pub began_ns: u64,
    pub loggers: Rc<Loggers>,
    pub log_facts: Option<Rc<LogFacts>>,
}

impl ReplyTerms {
    /// The terms of a response that is not sent.
    pub fn cut(began_ns: u64, loggers: Rc<Loggers>, log_facts: Option<Rc<LogFacts>>) -> ReplyTerms {
        ReplyTerms {
            stays: false,
            began_ns,
            loggers,
            log_facts,
        }
    }
}

/// State of a response after the first write.
pub(super) enum Reply {
    /// All of it has gone, and its line is written.
    Sent(Then),
    Later(Box<Sending>),
}

/// A response whose head is encoded.
struct Encoded {
    body: Body,
    chunked: bool,
    then: Then,
    pace: Option<Box<Pace>>,
    abort: AbortWatch,
    log: Option<Pending>,
    incoming: Option<Incoming>,
}

impl Encoded {
    /// Content that goes behind the head in one write; `None`: not in one.
    fn inline(&self) -> Option<&[u8]> {
        let is_plain = self.pace.is_none()
            && !self.chunked
            && matches!(self.then, Then::Continue | Then::Close(_));
        match &self.body {
            Body::Empty if is_plain => Some(b""),
            Body::Memory(chunk) if is_plain && chunk.len() <= INLINE_BYTES_MAX => {
                Some(chunk.bytes())
            }
            _ => None,
        }
    }

    fn sending(self, outgoing: impl FnOnce(Body, bool) -> Outgoing) -> Box<Sending> {
        Box::new(Sending {
            outgoing: outgoing(self.body, self.chunked),
            then: self.then,
            log: self.log,
            pace: self.pace,
            abort: self.abort,
            incoming: self.incoming,
            _busy: None,
        })
    }
}

/// Clients that leave in the middle of the response.
fn abort_watch(exchange: &Exchange) -> AbortWatch {
    let abort = &exchange.upstream.client_abort;
    match abort.get() {
        ClientAbort::EndOfStream => AbortWatch::Always,
        // Parts of the content ask upstreams of their own.
        ClientAbort::Hangup if Rc::strong_count(abort) > 1 => AbortWatch::Shared(Rc::clone(abort)),
        _ => AbortWatch::Never,
    }
}

impl Connection {
    /// Sends a response, or as much of it as goes at once.
    pub(super) fn reply(
        &mut self,
        exchange: &Exchange,
        response: Response,
        terms: ReplyTerms,
        state: &Rc<RefCell<BodyState>>,
    ) -> Reply {
        let worker = Rc::clone(&self.session.worker);
        let mut out = std::mem::take(&mut worker.buffers.borrow_mut().out);
        out.clear();
        self.begin_head(&mut out);
        let mut encoded = self.encoded(exchange, response, terms, &mut out);
        // What follows the end of the request may be its content, which has a reader of its own.
        if !state.borrow().is_end() {
            encoded.abort = AbortWatch::Never;
            encoded.incoming = Some(Incoming::new(state));
            state.borrow_mut().begin_response();
        }
        if let Some(log) = &encoded.log {
            log.received(state.borrow().received());
            log.request_trailers(state.borrow_mut().take_trailers_to_log());
        }
        let reply = self.begin(encoded, &mut out);
        worker.buffers.borrow_mut().out = out;
        reply
    }

    /// Puts unsent bytes of interim responses first.
    fn begin_head(&self, head: &mut Vec<u8>) {
        let interim = std::mem::take(&mut self.io.borrow_mut().interim);
        head.extend_from_slice(&interim);
    }

    /// `out`: the head.
    fn begin(&mut self, encoded: Encoded, out: &mut Vec<u8>) -> Reply {
        let head_bytes = out.len();
        match encoded.inline() {
            Some(content) => out.extend_from_slice(content),
            None => {
                let head = out.clone();
                return Reply::Later(
                    encoded.sending(|body, is_chunked| Outgoing::new(head, body, is_chunked)),
                );
            }
        }
        let written = self.write_now(out);
        let body_bytes = written.saturating_sub(head_bytes);
        // Under TLS accepted bytes may not have been sent yet.
        if written == out.len() && !self.io.borrow().transport.has_unsent() {
            if let Some(log) = &encoded.log {
                let status = match encoded.then {
                    Then::Close(_) => ConnectionStatus::Close,
                    _ => ConnectionStatus::KeepAlive,
                };
                log.write(&self.session, body_bytes as u64, written as u64, status);
            }
            return Reply::Sent(encoded.then);
        }
        let head = out.get(written..head_bytes).unwrap_or_default().to_vec();
        Reply::Later(encoded.sending(|mut body, _| {
            if let Body::Memory(chunk) = &mut body {
                chunk.advance(body_bytes);
            }
            Outgoing::resumed(head, body, written as u64, body_bytes as u64)
        }))
    }

    /// A response whose line alone is wanted.
    pub(super) fn sending(
        &mut self,
        exchange: &Exchange,
        response: Response,
        terms: ReplyTerms,
    ) -> Box<Sending> {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        self.begin_head(&mut head);
        let encoded = self.encoded(exchange, response, terms, &mut head);
        encoded.sending(|body, is_chunked| Outgoing::new(head, body, is_chunked))
    }

    fn encoded(
        &mut self,
        exchange: &Exchange,
        mut response: Response,
        terms: ReplyTerms,
        head: &mut Vec<u8>,
    ) -> Encoded {
        let view = exchange.head.view();
        let is_without_chunks = exchange.limits.is_without_chunks;
        let framing = framing_of(&response, view, is_without_chunks);
        let stays = terms.stays && framing != ResponseFraming::UntilClose;
        let now = saker_net::clock::turn_s();
        let connection = match (&response.head, &response.tunnel) {
            (ResponseHead::Built(_), Some(_)) if response.status == Status::SWITCHING_PROTOCOLS => {
                ConnectionLine::Upgrade
            }
            // The following bytes belong to the tunnel (RFC 9110 section 9.3.6).
            (ResponseHead::Built(_), Some(_)) => ConnectionLine::KeepAlive,
            _ => connection_of(view.version(), stays, self.session.says_keep_alive()),
        };
        response_head::encode(
            &mut Http1Head::new(view, connection, head).without_chunks(is_without_chunks),
            &response,
            response.body.length(),
            &mut self.session.common_headers(&response.head),
            now,
        );
        if let Some(timeout_s) = exchange.limits.keep_alive_s.filter(|_| stays)
            && response.tunnel.is_none()
        {
            append_keep_alive(connection, timeout_s, head);
        }
        let log = self.pending(exchange, &response, stays, terms);
        let no_content = view.method() == Method::Head || response.status.forbids_content();
        let body = if no_content {
            Body::Empty
        } else {
            std::mem::take(&mut response.body)
        };
        let then = match response.tunnel.take() {
            Some(program) => Then::Tunnel(Box::new(TunnelStart {
                program,
                log: None,
                bytes: 0,
                _busy: None,
            })),
            None if stays => Then::Continue,
            None => Then::Close(Cause::Done),
        };
        let pace = self.session.pace(
            Direction::Out,
            &exchange.routing.settings,
            exchange.routing.site_index,
        );
        Encoded {
            body,
            chunked: framing == ResponseFraming::Chunked && view.version() >= Version::Http11,
            then,
            pace,
            abort: abort_watch(exchange),
            log,
            incoming: None,
        }
    }

    fn pending(
        &self,
        exchange: &Exchange,
        response: &Response,
        stays: bool,
        terms: ReplyTerms,
    ) -> Option<Pending> {
        let facts = Facts {
            site: exchange.routing.site_index,
            status: response.status,
            path: &exchange.path,
            fields: Some(response.fields()),
            length: log::sent_length(response),
            stays,
            log_facts: terms.log_facts.as_ref(),
        };
        let view = exchange.head.view();
        let log = Pending::with_fields(&self.session, terms.loggers, view, &facts, &exchange.host);
        log.map(|log| log.began(terms.began_ns).asked_by(&self.session, exchange))
    }
}
