//! The start of an HTTP/2 connection, from the socket to its first turn, and its end.
//!
//! Called by: `accept` and the HTTP/1 driver.

use super::connection::{Connection, LINGER, LINGER_BYTES_MAX};
use crate::{
    io::Io,
    mux::{Exchanges, StreamId},
    request::{Cause, Session, multiplexed_limits, request_limits},
};
use saker_config::model;
use saker_http::RequestHead;
use saker_http2::Limits;
use std::{future::poll_fn, rc::Rc};

/// The way a connection became HTTP/2.
pub enum Beginning {
    /// ALPN, or prior knowledge: its preface comes (or has come).
    Preface,
    /// RFC 7540 section 3.2: a request over HTTP/1.1, which has become stream 1. The settings are
    /// still in base64url.
    Upgrade {
        request: Box<RequestHead>,
        settings: Vec<u8>,
    },
}

/// Runs a connection to its end.
pub async fn run(mut session: Session, io: Io, beginning: Beginning) {
    let services = session.worker.services();
    session.take_limits_of_name();
    let limits = limits(session.limits(&services.generation));
    let extended_connect = session.http2.extended_connect;
    let mut connection = Connection::new(
        session,
        io,
        saker_http2::Connection::server(limits, extended_connect),
    );
    match beginning {
        Beginning::Preface => connection.machine.begin(&mut connection.backlog),
        Beginning::Upgrade { request, settings } => {
            let Ok(machine) = saker_http2::Connection::server_upgraded(limits, &settings) else {
                return;
            };
            connection.machine = machine;
            connection.machine.begin(&mut connection.backlog);
            connection.awaits_preface = true;
            connection.first(&request);
        }
    }
    connection.run().await;
}

impl Connection {
    fn new(session: Session, io: Io, machine: saker_http2::Connection) -> Connection {
        let unseen_input = !io.input.is_empty();
        if unseen_input {
            session.worker.freshness.look();
        }
        let (backlog, awaits_preface, ending) = (Vec::new(), false, None);
        Connection {
            exchanges: Exchanges::new(session),
            io,
            machine,
            backlog,
            unseen_input,
            awaits_preface,
            ending,
        }
    }

    /// The request that came before the change of protocols.
    fn first(&mut self, request: &RequestHead) {
        let mut out = Vec::new();
        let (exchanges, mut wire) = self.with_wire(&mut out);
        exchanges.request(StreamId(1), true, request.view(), &mut wire);
        self.backlog.extend_from_slice(&out);
    }

    async fn run(mut self) {
        let cause = poll_fn(|cx| self.poll_turn(cx)).await;
        self.exchanges
            .session
            .worker
            .counters
            .increment(cause.metric());
        match cause {
            Cause::WriteTimeout => {}
            Cause::Gone => self.io.transport.answer_close_notify(),
            // After an orderly GOAWAY, too: bytes that the client has sent meanwhile must not
            // destroy it, because it tells the client which requests may be retried (RFC 9113
            // section 6.8).
            _ => {
                let worker = Rc::clone(&self.exchanges.session.worker);
                Box::pin(self.io.linger(&worker, LINGER, LINGER_BYTES_MAX)).await;
            }
        }
    }
}

fn limits(limits: &model::Limits) -> Limits {
    let number = |limit: u64| u32::try_from(limit).unwrap_or(u32::MAX);
    let per_second = |limit: u64| number((limit * 1000 / model::Limits::HTTP2_WINDOW_MS).max(1));
    let (target_bytes_max, header_count_max) = multiplexed_limits(limits);
    Limits {
        concurrent_streams_max: number(limits.http2_streams_max),
        header_list_bytes_max: number(limits.head_bytes_max),
        header_count_max,
        target_bytes_max,
        field_bytes_max: u32::try_from(request_limits(limits).field_bytes_max).unwrap_or(u32::MAX),
        authority_replaces_host: limits.authority_replaces_host,
        answers_malformed: limits.refusals_have_pages,
        ends_large_heads: limits.refusals_have_pages,
        continuation_frames_max: number(limits.http2_continuations_max),
        resets_max: number(limits.http2_resets_max),
        resets_per_second: per_second(limits.http2_resets_max),
        pings_max: number(limits.http2_pings_max),
        pings_per_second: per_second(limits.http2_pings_max),
        settings_max: number(limits.http2_settings_max),
        settings_per_second: per_second(limits.http2_settings_max),
        stream_window_bytes: if limits.http2_window_bytes == 0 {
            Limits::default().stream_window_bytes
        } else {
            number(limits.http2_window_bytes)
        },
        ..Limits::default()
    }
}
