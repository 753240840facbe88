//! A session over TCP: the choice of a member, the connection to it, and the bytes both ways.
//!
//! Called by: the listeners, when the client's end is ready.
//! Caveat: what the client has sent meanwhile waits in the socket, except for the bytes that were
//! read to decide (`ahead`).
//! Out of scope: accepting, PROXY headers of clients, TLS of clients.

use crate::{
    READ_BYTES_MAX, StreamContext,
    attempt::Attempt,
    complaint::{complain, complain_of_end},
    idle::IdleLimit,
    pace::Pace,
    relay::{Relay, RelayEnd},
    rules::Action,
    session::Session,
    status, steps,
};
use saker_config::model::Upstream;
use saker_gateway::{Choice, Failure, StreamConnection};
use saker_net::{clock, proxy_preface};
use saker_pipeline::Tunnel;
use std::{
    future::poll_fn,
    io,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, timeout_at};

/// Serves a session to its end, which its status tells. `ahead`: bytes of the client that were read
/// already.
pub async fn serve(
    context: &StreamContext,
    session: &mut Session,
    client: &mut dyn Tunnel,
    ahead: Vec<u8>,
) {
    match context.rules.action(session).settled().await {
        Action::End(status) => session.status = status,
        Action::Return(text) => {
            let limit = IdleLimit::new(&context.deadlines, session.server.idle_timeout_ms);
            session.bytes_sent += send(client, &text, &limit).await;
        }
        Action::Proxy(upstream, key) => match connect(context, session, &upstream, &key).await {
            Some(mut member) => {
                steps::log_connected(session, member.local_address());
                relay(context, session, client, (member, ahead)).await;
            }
            None => session.status = status::BAD_GATEWAY,
        },
    }
    session.end(status::OK);
}

/// Sends a text and closes; returns the bytes that were taken.
async fn send(client: &mut dyn Tunnel, text: &[u8], limit: &IdleLimit) -> u64 {
    let mut sent = 0;
    poll_fn(|cx| {
        while let Some(rest) = text.get(sent..).filter(|rest| !rest.is_empty()) {
            match client.poll_write(cx, rest) {
                Poll::Ready(Ok(bytes)) if bytes > 0 => sent += bytes,
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return limit.poll(cx),
            }
        }
        match client.poll_flush(cx) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => limit.poll(cx),
        }
    })
    .await;
    let _ = client.shutdown();
    sent as u64
}

/// Tries members until one takes the connection.
async fn connect(
    context: &StreamContext,
    session: &mut Session,
    upstream: &Arc<Upstream>,
    key: &[u8],
) -> Option<StreamConnection> {
    let server = Arc::clone(&session.server);
    let mut preface = Vec::new();
    if let Some(version) = session.preface {
        let source = (!session.is_unix()).then_some((session.client, session.local));
        proxy_preface::encode(version, source, &mut preface);
    }
    let until =
        (server.tries_ms > 0).then(|| Instant::now() + Duration::from_millis(server.tries_ms));
    let mut tried = Vec::new();
    session.has_target = true;
    loop {
        let choice = Choice {
            client: session.client.ip(),
            target: b"",
            key,
            route: None,
        };
        let member = match context.members.choose(upstream, &choice, &mut tried) {
            Ok(member) => member,
            Err(failure) => {
                complain(session, &upstream.name, &failure);
                return None;
            }
        };
        let began_ms = clock::monotonic_ms();
        let mut attempt = Attempt {
            address: member.to_string().into(),
            ..Attempt::default()
        };
        let connecting = member.connect(&preface);
        let connected = match until {
            None => connecting.await,
            Some(until) => match timeout_at(until, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(Failure::ConnectTimeout),
            },
        };
        attempt.session_ms = clock::monotonic_ms().saturating_sub(began_ms);
        let failure = match connected {
            Ok(mut connection) => {
                member.succeed();
                attempt.connect_ms = Some(attempt.session_ms);
                if let Some(address) = connection.peer_address() {
                    attempt.address = address.to_string().into();
                }
                session.attempts.push(attempt);
                return Some(connection);
            }
            Err(failure) => failure,
        };
        member.fail();
        complain(session, &attempt.address, &failure);
        session.attempts.push(attempt);
        tried.push(member.number);
        let further = session.attempts.len().saturating_sub(1);
        let has_more = tried.len() < upstream.members.len()
            && upstream.attempts_max.is_none_or(|max| further < max)
            && (server.tries_max == 0 || (session.attempts.len() as u64) < server.tries_max)
            && until.is_none_or(|until| Instant::now() < until);
        if !server.retries || !has_more {
            return None;
        }
    }
}

/// Passes bytes on until the session is over.
async fn relay(
    context: &StreamContext,
    session: &mut Session,
    client: &mut dyn Tunnel,
    (member, ahead): (StreamConnection, Vec<u8>),
) {
    let server = Arc::clone(&session.server);
    let limit = IdleLimit::new(&context.deadlines, server.idle_timeout_ms);
    let now_ms = clock::monotonic_ms();
    let mut client = End {
        inner: client,
        limit: &limit,
        pace: Pace::new(server.upload_rate, now_ms),
        first_byte_ms: None,
    };
    let mut member = End {
        inner: Box::new(member),
        limit: &limit,
        pace: Pace::new(server.download_rate, now_ms),
        first_byte_ms: None,
    };
    let mut relay = match server.half_closes {
        true => Relay::default(),
        false => Relay::until_first_end(),
    };
    relay.begin_with(ahead);
    // Those that the client's deadline cut are counted, too.
    let mut guard = Progress {
        session,
        bytes: (0, 0),
        first_byte_ms: None,
        began_ms: now_ms,
    };
    let end = poll_fn(|cx| {
        let polled = {
            let mut scratch = context.scratch.borrow_mut();
            scratch.resize(READ_BYTES_MAX, 0);
            relay.poll(cx, &mut client, &mut member, &mut scratch)
        };
        guard.bytes = (relay.bytes_in(), relay.bytes_out());
        guard.first_byte_ms = member.first_byte_ms;
        polled
    })
    .await;
    guard.session.status = match end {
        RelayEnd::Whole | RelayEnd::Idle | RelayEnd::ClientGone => status::OK,
        RelayEnd::Cut => context.rules.status_of_cut(),
    };
    let is_of_upstream = end == RelayEnd::Cut || relay.was_down_last();
    drop(guard);
    complain_of_end(session, end, relay.failure());
    if end != RelayEnd::Idle && steps::are_wanted(session) {
        let side = match is_of_upstream {
            true => "upstream",
            false => "client",
        };
        let bytes = session.bytes_text().unwrap_or_default();
        steps::log(session, format_args!("{side} disconnected, {bytes}"));
    }
}

/// Notes how far a session has come, when it ends in whatever way.
struct Progress<'s> {
    session: &'s mut Session,
    bytes: (u64, u64),
    first_byte_ms: Option<u64>,
    began_ms: u64,
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        let (from_client, to_client) = self.bytes;
        self.session.bytes_sent += to_client;
        self.session.bytes_received += from_client;
        if let Some(attempt) = self.session.attempts.last_mut() {
            let before_ms = attempt.connect_ms.unwrap_or_default();
            let first_byte_ms = self
                .first_byte_ms
                .map(|at_ms| at_ms.saturating_sub(self.began_ms));
            let passed_ms = clock::monotonic_ms().saturating_sub(self.began_ms);
            attempt.session_ms = before_ms + passed_ms;
            attempt.first_byte_ms = first_byte_ms.map(|ms| before_ms + ms);
            attempt.bytes_sent = from_client;
            attempt.bytes_received = to_client;
        }
    }
}

/// An end of a session, whose reads have a pace, and whose bytes move the idle limit.
struct End<'l, T> {
    inner: T,
    limit: &'l IdleLimit,
    pace: Pace,
    first_byte_ms: Option<u64>,
}

impl<T: AsTunnel> Tunnel for End<'_, T> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let room = ready!(self.pace.poll_room(cx)).min(buf.len());
        let place = buf.get_mut(..room).unwrap_or_default();
        let read = ready!(self.inner.tunnel().poll_read(cx, place))?;
        self.pace.take(read);
        self.limit.push();
        if self.first_byte_ms.is_none() {
            self.first_byte_ms = Some(clock::monotonic_ms());
        }
        Poll::Ready(Ok(read))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let sent = ready!(self.inner.tunnel().poll_write(cx, buf))?;
        self.limit.push();
        Poll::Ready(Ok(sent))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.tunnel().poll_flush(cx)
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.inner.tunnel().shutdown()
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.limit.poll(cx)
    }
}

/// Something that a tunnel can be borrowed from.
trait AsTunnel {
    fn tunnel(&mut self) -> &mut dyn Tunnel;
}

impl AsTunnel for &mut dyn Tunnel {
    fn tunnel(&mut self) -> &mut dyn Tunnel {
        *self
    }
}

impl AsTunnel for Box<StreamConnection> {
    fn tunnel(&mut self) -> &mut dyn Tunnel {
        &mut **self
    }
}
