//! An accepted connection on its way to a driver: PROXY protocol preface, TLS handshake, choice of
//! protocol.
//!
//! Called by: `listener`, for each accepted socket.
//! Caveat: a plain connection without a preface goes straight to the HTTP/1 driver, in the same
//! turn; everything else becomes a task.
//! Out of scope: QUIC, which has its own way in (`quic`).

use crate::{
    admission::ConnectionPermit,
    freshness::ReadOrigin,
    h1, h2,
    io::Io,
    preface::{self, Waiting},
    request::{Http2Terms, Session},
    stream,
    transport::{HandshakeFailure, HandshakeStep, TlsStream, Transport},
    worker::{Draining, Worker},
};
use saker_config::model::{Address, StreamServer};
use saker_net::{RawStream, Stream, proxy_preface::Preface};
use saker_pipeline::{Client, PrefaceAddresses};
use saker_telemetry::{Metric, error_log, message};
use saker_tls::{ACME_TLS_ALPN, Acceptor, TlsError};
use std::{future::poll_fn, net::SocketAddr, os::fd::AsFd, rc::Rc, sync::Arc, time::Duration};
use tokio::time::{Instant, error::Elapsed, sleep, timeout_at};

/// Polling interval of a handshake that waits for its certificate.
const CERTIFICATE_POLL: Duration = Duration::from_millis(100);
/// Maximum wait for a certificate. The client's own handshake limit is suspended meanwhile.
const CERTIFICATE_WAIT_MAX: Duration = Duration::from_secs(60);
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 64 << 10;

/// The response to plain HTTP on an HTTPS port.
const SPEAK_TLS: &str = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>400 Bad Request</title>\n\
<h1>400 Bad Request</h1>\n<p>The client is speaking plain HTTP to an SSL-enabled server port: use https://.</p>\n";

/// Settings of a listener that matter for a new connection.
struct ListenerSettings {
    /// The connection belongs to a stream server.
    stream: Option<Arc<StreamServer>>,
    preface: bool,
    /// The header names the client.
    names_client: bool,
    /// The address of the connection stays what it is, whatever the header names.
    keeps_local: bool,
    acceptor: Option<Acceptor>,
    http2: Http2Terms,
}

/// Takes over an accepted connection.
pub fn start(
    worker: &Rc<Worker>,
    mut permit: ConnectionPermit,
    (stream, origin): (RawStream, ReadOrigin),
    peer: SocketAddr,
    local: SocketAddr,
    listener: Arc<Address>,
) {
    let mut client = Client::new(peer, local, listener, false);
    let settings = settings(worker, &mut client);
    let tells_of_sockets = worker
        .services
        .borrow()
        .generation
        .model
        .server
        .tells_of_sockets;
    if tells_of_sockets && stream.is_tcp() {
        client.socket = stream.as_fd().try_clone_to_owned().ok().map(Rc::new);
    }
    client.tls = settings.acceptor.is_some();
    client.secure = client.tls;
    if let Some(server) = settings.stream {
        let settings = (server, settings.acceptor);
        return stream::start(worker, permit, stream, client, settings);
    }
    if settings.preface || client.tls {
        let worker = Rc::clone(worker);
        tokio::task::spawn_local(
            async move { receive(worker, permit, stream, client, settings).await },
        );
        return;
    }
    if let Err(error) = permit.admit(client.ip()) {
        return error.tell(worker, &client);
    }
    h1::first_read(
        Session::new(Rc::clone(worker), client, permit, settings.http2),
        stream,
        origin,
    );
}

/// If a reload has moved the listener, the connection is that of its address now.
fn settings(worker: &Worker, client: &mut Client) -> ListenerSettings {
    let services = worker.services.borrow();
    let model = &services.generation.model;
    let listener = model.listener_of(&client.listener, client.local);
    let Some(listener) = listener.inspect(|listener| {
        if listener.address != *client.listener {
            client.listener = Arc::new(listener.address.clone());
        }
    }) else {
        return ListenerSettings {
            stream: None,
            preface: false,
            names_client: true,
            keeps_local: false,
            acceptor: None,
            http2: Http2Terms::default(),
        };
    };
    let preface = listener
        .proxy_protocol_from
        .iter()
        .any(|network| network.contains(client.ip()))
        && !listener
            .proxy_protocol_except
            .iter()
            .any(|network| network.contains(client.ip()));
    ListenerSettings {
        stream: listener.stream.clone(),
        preface,
        names_client: listener
            .proxy_protocol_believed
            .as_ref()
            .is_none_or(|all| all.iter().any(|network| network.contains(client.ip()))),
        keeps_local: listener.proxy_protocol_believed.is_some(),
        acceptor: listener
            .tls
            .as_ref()
            .and_then(|_| worker.tls.borrow().acceptor(&listener.address).cloned()),
        http2: Http2Terms {
            direct: listener.http2 && listener.http2_direct,
            upgrade: listener.http2 && listener.http2_upgrade && !preface,
            extended_connect: listener.http2_websockets,
        },
    }
}

/// Everything that may have to wait before a driver can begin.
async fn receive(
    worker: Rc<Worker>,
    mut permit: ConnectionPermit,
    stream: RawStream,
    client: Client,
    settings: ListenerSettings,
) {
    let stream = match stream.register() {
        Ok(stream) => stream,
        Err(error) => {
            error_log::log_about(
                &message::CONNECTION_FAILED,
                &client,
                format_args!("{error}"),
            );
            return worker.counters.increment(Metric::ClosedError);
        }
    };
    let mut io = Io::new(Transport::plain(stream), Vec::new());
    let client = match settings.preface {
        true => match await_preface(&worker, &mut io, client, &settings).await {
            Some(client) => client,
            None => return,
        },
        false => client,
    };
    if let Err(error) = permit.admit(client.ip()) {
        return error.tell(&worker, &client);
    }
    drive(worker, permit, io, client, settings).await;
}

/// Takes over a connection of a stream, for the listener of an address. `None`: there is no such
/// listener of HTTP, or it ends TLS that the stream has ended.
pub fn pass(
    (worker, permit): (Rc<Worker>, ConnectionPermit),
    mut io: Io,
    mut client: Client,
    address: &Address,
) -> Option<impl Future<Output = ()> + use<>> {
    let bound = {
        let services = worker.services.borrow();
        let all = &services.generation.model.listeners;
        let exact = all.iter().find(|one| one.address == *address);
        let found = exact.or_else(|| all.iter().find(|one| one.address.covers(address)))?;
        found.address.clone()
    };
    client.listener = Arc::new(bound);
    let settings = settings(&worker, &mut client);
    let is_tls = matches!(io.transport, Transport::Tls(_));
    if settings.stream.is_some() || is_tls && settings.acceptor.is_some() {
        return None;
    }
    client.tls = settings.acceptor.is_some();
    client.secure = is_tls || client.tls;
    Some(async move {
        let client = match settings.preface {
            true => match await_preface(&worker, &mut io, client, &settings).await {
                Some(client) => client,
                None => return,
            },
            false => client,
        };
        drive(worker, permit, io, client, settings).await;
    })
}

/// Ends TLS, if the listener does, and chooses the protocol.
async fn drive(
    worker: Rc<Worker>,
    permit: ConnectionPermit,
    io: Io,
    mut client: Client,
    settings: ListenerSettings,
) {
    let Some(acceptor) = settings.acceptor else {
        return h1::run(Session::new(worker, client, permit, settings.http2), io).await;
    };
    let Transport::Plain(stream) = io.transport else {
        return;
    };
    let tls = TlsStream::new(
        stream.into_stream(),
        acceptor.accept_from(client.address.ip(), client.local.ip()),
        io.input,
    );
    let tls = match handshake(&worker, tls, &client).await {
        Handshake::Done(tls) => tls,
        Handshake::Plain(tls) => {
            let (stream, input) = tls.into_plain();
            let io = Io::new(Transport::plain(stream), input);
            (client.tls, client.speaks_plain) = (false, true);
            let session = Session::new(worker, client, permit, over_tls(settings.http2));
            return h1::run(session, io).await;
        }
        Handshake::Over => return,
    };
    let alpn = |name: &[u8]| {
        tls.info()
            .is_some_and(|info| info.alpn.as_deref() == Some(name))
    };
    if alpn(ACME_TLS_ALPN) {
        return end_challenge(&worker, tls).await;
    }
    let alpn_is_h2 = alpn(b"h2");
    let Some(info) = tls.info().cloned() else {
        return;
    };
    client.session = Some(info);
    let session = Session::new(worker, client, permit, over_tls(settings.http2));
    let io = Io::new(Transport::Tls(tls), Vec::new());
    match alpn_is_h2 {
        true => h2::run(session, io, h2::Beginning::Preface).await,
        false => h1::run(session, io).await,
    }
}

/// The terms of a port for TLS, where HTTP/2 is agreed upon by the handshake alone.
fn over_tls(http2: Http2Terms) -> Http2Terms {
    Http2Terms {
        direct: false,
        upgrade: false,
        ..http2
    }
}

/// The outcome of a handshake.
enum Handshake {
    Done(Box<TlsStream>),
    /// The client speaks HTTP in the clear, and the rules have a page for that.
    Plain(Box<TlsStream>),
    /// It failed and was logged.
    Over,
}

/// Completes the TLS handshake.
async fn handshake(worker: &Rc<Worker>, tls: TlsStream, client: &Client) -> Handshake {
    let services = worker.services();
    let limits = services
        .generation
        .connection_limits(client, b"")
        .map_or(&services.generation.model.limits, Arc::as_ref);
    match handshake_within(worker, tls, limits.tls_handshake_timeout_ms).await {
        HandshakeEnd::Done(tls) => return Handshake::Done(tls),
        HandshakeEnd::Failed(tls, TlsError::PlainHttp) if limits.refusals_have_pages => {
            return Handshake::Plain(tls);
        }
        HandshakeEnd::Gone => {}
        HandshakeEnd::Failed(tls, fault) => refuse(worker, *tls, client, &fault).await,
        HandshakeEnd::Late => {
            error_log::log_about(&message::TLS_HANDSHAKE_TIMEOUT, client, format_args!(""));
        }
    }
    Handshake::Over
}

/// The end of a handshake.
pub enum HandshakeEnd {
    Done(Box<TlsStream>),
    /// The client has left.
    Gone,
    /// The alert is sent; the client may still have to read it.
    Failed(Box<TlsStream>, TlsError),
    Late,
}

/// Completes a handshake within a time, and counts its end.
pub async fn handshake_within(
    worker: &Rc<Worker>,
    mut tls: TlsStream,
    limit_ms: u64,
) -> HandshakeEnd {
    let outcome = drive_handshake(worker, &mut tls, Duration::from_millis(limit_ms)).await;
    let counters = &worker.counters;
    match outcome {
        Ok(Ok(())) => {
            let resumed = tls.info().is_some_and(|info| info.resumed);
            counters.increment(if resumed {
                Metric::TlsHandshakesResumed
            } else {
                Metric::TlsHandshakesFull
            });
            HandshakeEnd::Done(Box::new(tls))
        }
        Ok(Err(HandshakeFailure::Gone)) => {
            counters.increment(Metric::TlsHandshakesFailed);
            counters.increment(Metric::ClosedByClient);
            HandshakeEnd::Gone
        }
        Ok(Err(HandshakeFailure::Fault(fault))) => {
            counters.increment(Metric::TlsHandshakesFailed);
            counters.increment(Metric::ClosedMalformed);
            HandshakeEnd::Failed(Box::new(tls), fault)
        }
        Err(_) => {
            counters.increment(Metric::TlsHandshakesFailed);
            counters.increment(Metric::ClosedHeadTimeout);
            HandshakeEnd::Late
        }
    }
}

/// Drives the handshake. The outer error is the time limit, of the client or of the certificate.
async fn drive_handshake(
    worker: &Worker,
    tls: &mut TlsStream,
    limit: Duration,
) -> Result<Result<(), HandshakeFailure>, Elapsed> {
    let mut until = Instant::now() + limit;
    let mut waited = Duration::ZERO;
    loop {
        match timeout_at(until, poll_fn(|cx| tls.poll_handshake(cx))).await? {
            Ok(HandshakeStep::Done) => return Ok(Ok(())),
            Err(failure) => return Ok(Err(failure)),
            Ok(HandshakeStep::AwaitsCertificate) => {
                sleep(CERTIFICATE_POLL).await;
                waited += CERTIFICATE_POLL;
                if waited < CERTIFICATE_WAIT_MAX && worker.draining.get() == Draining::Nothing {
                    until += CERTIFICATE_POLL;
                }
            }
        }
    }
}

/// Ends a TLS-ALPN-01 connection: the authority has seen the certificate, and no data follows (RFC
/// 8737 section 3).
pub async fn end_challenge(worker: &Rc<Worker>, tls: Box<TlsStream>) {
    worker.counters.increment(Metric::ClosedByServer);
    let mut io = Io::new(Transport::Tls(tls), Vec::new());
    io.linger(worker, LINGER, LINGER_BYTES_MAX).await;
}

async fn refuse(worker: &Rc<Worker>, tls: TlsStream, client: &Client, fault: &TlsError) {
    let mut io = Io::new(Transport::plain(tls.into_stream()), Vec::new());
    match fault {
        TlsError::PlainHttp => {
            error_log::log_about(&message::HTTP_ON_TLS_PORT, client, format_args!(""));
            let _ = io.transport.write_now(speak_tls().as_bytes());
        }
        fault => error_log::log_about(
            &message::TLS_HANDSHAKE_FAILED,
            client,
            format_args!("{fault}"),
        ),
    }
    // Closing at once would reset, and take the alert or the answer from the client.
    io.linger(worker, LINGER, LINGER_BYTES_MAX).await;
}

/// The client that the preface names; `None`: the connection is refused.
async fn await_preface(
    worker: &Rc<Worker>,
    io: &mut Io,
    client: Client,
    settings: &ListenerSettings,
) -> Option<Client> {
    let limit_ms = worker.services().generation.model.limits.head_timeout_ms;
    let preface = preface::read(worker, io, limit_ms, &Waiting(&client)).await;
    let behind = preface
        .ok()
        .and_then(|(preface, tlvs)| behind(client, preface, tlvs))
        .map(|(mut behind, before)| match settings.names_client {
            true => {
                if settings.keeps_local {
                    behind.local = before.local;
                }
                behind
            }
            false => {
                let mut before = before;
                before.preface = behind.preface;
                before
            }
        });
    if behind.is_none() {
        worker.counters.increment(Metric::ProxyPrefacesRefused);
    }
    behind
}

/// Closes a connection whose client may still have to read what it was sent.
pub async fn linger(worker: &Rc<Worker>, stream: Stream) {
    let mut io = Io::new(Transport::plain(stream), Vec::new());
    io.linger(worker, LINGER, LINGER_BYTES_MAX).await;
}

/// Returns the client that a preface names, and the one that sent it.
fn behind(client: Client, preface: Preface, tlvs: Box<[u8]>) -> Option<(Client, Client)> {
    match preface {
        Preface::Complete {
            source: Some((source, destination)),
            tls,
            ..
        } => {
            let listener = Arc::clone(&client.listener);
            let mut behind = Client::new(source, destination, listener, tls || client.tls);
            behind.tls = client.tls;
            behind.socket.clone_from(&client.socket);
            behind.preface = Some(Rc::new(PrefaceAddresses {
                source,
                destination,
                peer: client.address,
                tlvs,
            }));
            Some((behind, client))
        }
        // LOCAL, UNKNOWN: the proxy speaks for itself (a health check).
        Preface::Complete { source: None, .. } => Some((client.clone(), client)),
        Preface::Partial => None,
    }
}

fn speak_tls() -> String {
    let length = SPEAK_TLS.len();
    let head = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close\r\n";
    format!("{head}Content-Length: {length}\r\n\r\n{SPEAK_TLS}")
}
