//! The first moments of a connection: one read before the event loop knows of it, the PROXY preface where one is due.

use super::{
    Buffers, Connection, READ_BYTES,
    inbound::{self, Next},
    io::Io,
    session::Session,
    turn::{Cause, Sending},
};
use crate::{connection::Opened, deadlines::Deadline, worker::Worker};
use saker_config::model::Address;
use saker_net::{
    RawStream, Stream,
    proxy_preface::{self, Preface},
};
use saker_pipeline::Client;
use saker_telemetry::{Metric, error_log, message};
use std::{
    future::poll_fn,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
};

/// Takes over an accepted connection.
pub fn start(worker: &Rc<Worker>, opened: Opened, stream: RawStream, peer: SocketAddr, local: SocketAddr, listener: Arc<Address>) {
    let client = Client::new(peer, local, listener, false);
    match expects_preface(worker, &client) {
        true => with_preface(worker, opened, stream, client),
        false => without_preface(worker, opened, stream, client),
    }
}

fn expects_preface(worker: &Worker, client: &Client) -> bool {
    let services = worker.services();
    let listeners = &services.generation.model.listeners;
    let Some(listener) = listeners.iter().find(|listener| listener.address == *client.listener) else { return false };
    listener.proxy_protocol_from.iter().any(|network| network.contains(client.ip()))
}

fn without_preface(worker: &Rc<Worker>, mut opened: Opened, stream: RawStream, client: Client) {
    if !opened.admit(client.ip()) {
        return too_many(worker, &client);
    }
    first_read(Session::new(Rc::clone(worker), client, opened), stream);
}

fn too_many(worker: &Worker, client: &Client) {
    worker.counters.increment(Metric::ClosedPerAddressLimit);
    error_log::log_client(&message::ADDRESS_CONNECTION_LIMIT, client.address, format_args!(""));
}

/// Serves what the client has sent already; a response that fits the socket and ends the connection leaves nothing to wait for.
fn first_read(mut session: Session, stream: RawStream) {
    let worker = Rc::clone(&session.worker);
    let mut buffers = worker.buffers.borrow_mut();
    let Buffers { read, out, index } = &mut *buffers;
    let bytes = match stream.try_read(read) {
        Ok(0) => return worker.counters.increment(Metric::ClosedByClient),
        Ok(bytes) => {
            worker.counters.add(Metric::BytesIn, bytes as u64);
            bytes
        }
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
        Err(_) => return worker.counters.increment(Metric::ClosedByClient),
    };
    out.clear();
    let next = inbound::serve(&worker, &mut session, &read[..bytes], index, out);
    let written = if out.is_empty() { 0 } else { stream.try_write(out).unwrap_or(0) };
    worker.counters.add(Metric::BytesOut, written as u64);
    if written == out.len() && matches!(next, Next::Close { cause: Cause::Done, .. }) {
        return worker.counters.increment(Metric::ClosedByServer);
    }
    let rest = read[next.rest().min(bytes)..bytes].to_vec();
    let Ok(stream) = stream.register() else { return worker.counters.increment(Metric::ClosedError) };
    let mut connection = Connection::new(session, Io::new(stream, rest));
    if let Some(step) = connection.take(next, out, written) {
        connection.sending = Some(Sending::bytes(Vec::new(), step.into()));
    }
    drop(buffers);
    tokio::task::spawn_local(connection.run());
}

fn with_preface(worker: &Rc<Worker>, mut opened: Opened, stream: RawStream, client: Client) {
    let Ok(stream) = stream.register() else { return };
    let worker = Rc::clone(worker);
    tokio::task::spawn_local(async move {
        let mut io = Io::new(stream, Vec::new());
        let deadline = worker.deadlines.add();
        deadline.arm(saker_net::clock::monotonic_ms() + worker.services().generation.model.limits.head_timeout_ms);
        let preface = poll_fn(|cx| poll_preface(cx, &mut io, &deadline)).await;
        worker.deadlines.remove(&deadline);
        let Some(client) = preface.and_then(|preface| behind(client.clone(), preface)) else {
            worker.counters.increment(Metric::ProxyPrefacesRefused);
            return error_log::log_client(&message::PROXY_PREFACE_BAD, client.address, format_args!(""));
        };
        if !opened.admit(client.ip()) {
            return too_many(&worker, &client);
        }
        // The request often comes in the same packet as the preface.
        let unseen_input = !io.input.is_empty();
        let mut connection = Connection::new(Session::new(worker, client, opened), io);
        connection.unseen_input = unseen_input;
        connection.run().await;
    });
}

/// `None`: malformed, late, or gone.
fn poll_preface(cx: &mut Context<'_>, io: &mut Io, deadline: &Deadline) -> Poll<Option<Preface>> {
    loop {
        if deadline.is_over() {
            return Poll::Ready(None);
        }
        match proxy_preface::parse(&io.input) {
            Ok(Preface::Partial) => {}
            Ok(preface @ Preface::Complete { consumed, .. }) => {
                io.consume(consumed);
                return Poll::Ready(Some(preface));
            }
            Err(_) => return Poll::Ready(None),
        }
        deadline.register(cx);
        match ready!(poll_more(cx, io)) {
            Ok(0) | Err(_) => return Poll::Ready(None),
            Ok(_) => {}
        }
    }
}

fn poll_more(cx: &mut Context<'_>, io: &mut Io) -> Poll<std::io::Result<usize>> {
    let Io { stream, input }: &mut Io = io;
    let mut piece = [0; 4096];
    const { assert!(READ_BYTES >= 4096) };
    let read = ready!(Stream::poll_read(stream, cx, &mut piece))?;
    input.extend_from_slice(&piece[..read]);
    Poll::Ready(Ok(read))
}

fn behind(client: Client, preface: Preface) -> Option<Client> {
    match preface {
        Preface::Complete { source: Some((source, destination)), tls, .. } => Some(Client::new(source, destination, client.listener, tls)),
        // LOCAL, UNKNOWN: the proxy speaks for itself (a health check).
        Preface::Complete { source: None, .. } => Some(client),
        Preface::Partial => None,
    }
}
