//! A TCP connection of a stream server: PROXY header, rules, TLS or a look at its hello, relay.
//!
//! Called by: `accept`, for each connection of such a listener.
//! Caveat: each wait has a limit of its own; until the relay, a client holds one small buffer.
//! Out of scope: the choice of a target, and the relay (`saker-stream-proxy`).

use super::Streams;
use crate::{
    accept::{self, HandshakeEnd},
    admission::ConnectionPermit,
    client_end::ClientEnd,
    io::Io,
    preface::{self, NoPreface, poll_more},
    transport::{TlsStream, Transport},
    worker::Worker,
};
use saker_config::model::{Address, StreamServer};
use saker_net::{RawStream, clock, proxy_preface::Preface};
use saker_pipeline::{Client, PrefaceAddresses};
use saker_stream_proxy::{Session, SessionProtocol, log_beginning, serve, status};
use saker_telemetry::{
    Metric, error_log,
    message::{self, Level},
};
use saker_tls::{Acceptor, HelloFacts, Preread, preread};
use std::{
    future::poll_fn,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    task::{Poll, ready},
};

/// Takes over an accepted connection.
pub fn start(
    worker: &Rc<Worker>,
    permit: ConnectionPermit,
    stream: RawStream,
    client: Client,
    (server, acceptor): (Arc<StreamServer>, Option<Acceptor>),
) {
    let Some(streams) = worker.streams() else {
        return;
    };
    let number = worker.shared.sessions.fetch_add(1, Ordering::Relaxed);
    let session = Session::new(
        server,
        SessionProtocol::Tcp,
        number,
        Arc::clone(&client.listener),
        client.peer,
        client.local,
    );
    let running = Running {
        worker: Rc::clone(worker),
        streams,
        session,
        client,
        permit: Some(permit),
    };
    tokio::task::spawn_local(running.run(stream, acceptor));
}

/// A connection with its session.
struct Running {
    worker: Rc<Worker>,
    streams: Rc<Streams>,
    session: Session,
    client: Client,
    /// `None`: it went on with the connection.
    permit: Option<ConnectionPermit>,
}

impl Running {
    async fn run(mut self, stream: RawStream, acceptor: Option<Acceptor>) {
        let stream = match stream.register() {
            Ok(stream) => stream,
            Err(error) => {
                let facts = format_args!("{error}");
                error_log::log_about(&message::CONNECTION_FAILED, &self.client, facts);
                self.session.status = status::INTERNAL_ERROR;
                return self.worker.counters.increment(Metric::ClosedError);
            }
        };
        if self.session.server.keeps_alive {
            // Without it, the idle limit ends what the kernel would.
            let _ = stream.keep_alive();
        }
        let mut io = Io::new(Transport::plain(stream), Vec::new());
        let streams = Rc::clone(&self.streams);
        let rules = &streams.context.rules;
        // Its error log has the lines about a preface.
        rules.settle_client(&mut self.session);
        log_beginning(&self.session);
        if let Err(status) = self.read_preface(&mut io).await {
            self.session.status = status;
            return;
        }
        rules.settle_client(&mut self.session);
        let address = self.session.client.ip().to_canonical();
        let admitted = self.permit.as_mut().map(|permit| permit.admit(address));
        if let Some(Err(error)) = admitted {
            self.session.status = status::UNAVAILABLE;
            return error.tell(&self.worker, &self.client);
        }
        let _places = match rules.limit(&mut self.session) {
            Ok(places) => places,
            Err(status) => return self.refuse(status, "limit of connections"),
        };
        if !rules.is_allowed(&mut self.session) {
            return self.refuse(status::FORBIDDEN, "access rule");
        }
        let is_tls = acceptor.is_some();
        let io = match acceptor {
            Some(acceptor) => self.end_tls(io, &acceptor).await,
            None => Some(io),
        };
        if let (true, Some(_), Err(status)) = (is_tls, &io, rules.settle_server(&mut self.session))
        {
            return self.end_refused(status);
        }
        rules.prepare(&mut self.session);
        let io = match io {
            Some(io) if self.session.server.reads_hello && !is_tls => self.named(io).await,
            io => io,
        };
        let Some(mut io) = io else {
            return;
        };
        if let Some(listener) = rules.listener(&mut self.session) {
            return self.pass(io, listener).await;
        }
        let ahead = std::mem::take(&mut io.input);
        let mut end = ClientEnd {
            io,
            worker: Rc::clone(&self.worker),
        };
        serve(&streams.context, &mut self.session, &mut end, ahead).await;
        self.worker.counters.increment(Metric::ClosedByServer);
        end.io.transport.send_close_notify();
    }

    /// Reads the ClientHello, and settles the server that its name leads to.
    async fn named(&mut self, io: Io) -> Option<Io> {
        let io = self.read_hello(io).await?;
        let number = self.session.server.number;
        let rules = &self.streams.context.rules;
        if let Err(status) = rules.settle_server(&mut self.session) {
            self.end_refused(status);
            return None;
        }
        if self.session.server.number != number {
            rules.prepare(&mut self.session);
        }
        Some(io)
    }

    /// Hands the connection to a listener of HTTP.
    async fn pass(mut self, io: Io, listener: Result<Address, u16>) {
        let (worker, permit) = (Rc::clone(&self.worker), self.permit.take());
        let (session, listener_of) = (&self.session, Arc::clone(&self.client.listener));
        let mut client = Client::new(session.client, session.local, listener_of, false);
        client.preface = session.proxied.map(|(source, destination)| {
            Rc::new(PrefaceAddresses {
                source,
                destination,
                peer: session.peer,
                tlvs: Box::default(),
            })
        });
        let passed = match (&listener, permit) {
            (Ok(listener), Some(permit)) => accept::pass((worker, permit), io, client, listener),
            _ => None,
        };
        let Some(running) = passed else {
            let address = listener.as_ref().map(ToString::to_string);
            error_log::log_about(
                &message::STREAM_NOT_PASSED,
                &self.session,
                format_args!("{}", address.unwrap_or_default()),
            );
            self.session.status = status::INTERNAL_ERROR;
            return;
        };
        // The requests are in the logs of `http`.
        self.session.end(status::OK);
        drop(self);
        running.await;
    }

    fn end_refused(&mut self, status: u16) {
        self.session.status = status;
        self.worker.counters.increment(Metric::ClosedDenied);
    }

    fn refuse(&mut self, status: u16, rule: &str) {
        self.session.status = status;
        self.worker.counters.increment(Metric::ClosedDenied);
        // nginx's rules have said so in its words.
        if !error_log::speaks_nginx() {
            let facts = format_args!("{rule} of {}", self.session.server.origin);
            error_log::log_about(&message::STREAM_REFUSED, &self.session, facts);
        }
    }

    /// Reads the PROXY header, where each connection begins with one.
    async fn read_preface(&mut self, io: &mut Io) -> Result<(), u16> {
        let is_unix = matches!(*self.session.listener, Address::Unix(_));
        let peer = (!is_unix).then(|| self.session.peer.ip());
        if !self.session.server.preface_from.includes(peer) {
            return Ok(());
        }
        let limit_ms = self.session.server.preface_timeout_ms;
        match preface::read(&self.worker, io, limit_ms, &self.session).await {
            Ok((Preface::Complete { source, .. }, _)) => {
                self.session.proxied = source;
                Ok(())
            }
            end => {
                self.worker.counters.increment(Metric::ProxyPrefacesRefused);
                // A client that says nothing has said nothing wrong.
                Err(match end {
                    Err(NoPreface::Late) => status::OK,
                    _ => status::BAD_REQUEST,
                })
            }
        }
    }

    /// Ends the client's TLS here.
    async fn end_tls(&mut self, io: Io, acceptor: &Acceptor) -> Option<Io> {
        let Transport::Plain(socket) = io.transport else {
            return None;
        };
        let session = acceptor.accept_from(self.session.client.ip(), self.session.local.ip());
        let tls = TlsStream::new(socket.into_stream(), session, io.input);
        let limit_ms = self.session.server.handshake_timeout_ms;
        match accept::handshake_within(&self.worker, tls, limit_ms).await {
            HandshakeEnd::Done(tls) => {
                self.session.tls = tls.info().cloned();
                // An ACME challenge: none of the stream's demands have been met.
                if tls.info().is_none_or(|info| info.policy.is_none()) {
                    accept::end_challenge(&self.worker, tls).await;
                    return None;
                }
                Some(Io::new(Transport::Tls(tls), Vec::new()))
            }
            end => {
                self.session.status = status::INTERNAL_ERROR;
                if let HandshakeEnd::Failed(tls, fault) = end {
                    let facts = format_args!("{fault}");
                    error_log::log_about(&message::TLS_HANDSHAKE_FAILED, &self.session, facts);
                    accept::linger(&self.worker, tls.into_stream()).await;
                }
                None
            }
        }
    }

    /// Reads the ClientHello, without taking it from what is passed on.
    async fn read_hello(&mut self, mut io: Io) -> Option<Io> {
        let server = Arc::clone(&self.session.server);
        let deadline = self.worker.deadlines.add();
        deadline.arm(clock::monotonic_ms().saturating_add(server.hello_timeout_ms));
        let found = poll_fn(|cx| {
            loop {
                // Bytes beyond the limit are not looked at, whether they have come or not.
                let looked_at = io.input.len().min(server.hello_bytes_max);
                match preread(io.input.get(..looked_at).unwrap_or_default()) {
                    Preread::Incomplete if io.input.len() < server.hello_bytes_max => {}
                    Preread::Hello(facts) => return Poll::Ready(Ok(Some(facts))),
                    Preread::Incomplete | Preread::TooLong => {
                        return Poll::Ready(Err(status::BAD_REQUEST));
                    }
                    Preread::Other => return Poll::Ready(Ok(None)),
                }
                if deadline.is_over() {
                    return Poll::Ready(Err(status::OK));
                }
                deadline.register(cx);
                match ready!(poll_more(cx, &mut io)) {
                    Ok(bytes) if bytes > 0 => {}
                    _ => return Poll::Ready(Err(status::OK)),
                }
            }
        })
        .await;
        self.worker.deadlines.remove(&deadline);
        match found {
            Ok(facts) => {
                self.session.hello = facts;
                Some(io)
            }
            Err(status) => {
                self.session.status = status;
                // A hello has begun, and says nothing.
                self.session.hello = Some(HelloFacts::default());
                if status == status::BAD_REQUEST {
                    log_full(&self.session);
                }
                None
            }
        }
    }
}

/// Logs a hello that is longer than the bytes that are read ahead.
fn log_full(session: &Session) {
    let message = &message::STREAM_HELLO_TOO_LONG;
    match error_log::speaks_nginx() {
        true => error_log::log_nginx(
            message,
            Level::Error,
            session,
            format_args!("preread buffer full while prereading client data"),
        ),
        false => error_log::log_about(
            message,
            session,
            format_args!("beyond {} bytes", session.server.hello_bytes_max),
        ),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A panic may hold the logs.
        if !std::thread::panicking() {
            // Cut by the end of the worker.
            self.session.end(status::INTERNAL_ERROR);
            self.streams.log(&mut self.session);
        }
    }
}
