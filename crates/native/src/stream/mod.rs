//! `[[stream]]` at request time: rules about sessions, for one worker.
//!
//! Called by: the engine's streams (`saker-stream-proxy`), through [`StreamRules`].
//! Caveat: the order is limits of connections, then addresses, then TLS, then routes.
//! Out of scope: connections and datagrams; reading the configuration (`saker-config`).

mod log;

use saker_config::model::{AccessLogTarget, Stream};
use saker_pipeline::Generation;
use saker_rate_limits::{Counted, SessionCounts};
use saker_stream_proxy::{Action, NextAction, Session, StreamRules, status};
use saker_telemetry::{error_log, message};
use std::sync::Arc;

/// The rules of the streams of a configuration.
#[derive(Debug)]
pub struct NativeStreamRules {
    generation: Arc<Generation>,
    /// Targets of logs, by number.
    targets: Vec<AccessLogTarget>,
}

impl NativeStreamRules {
    pub fn new(generation: Arc<Generation>) -> NativeStreamRules {
        let logs = generation.model.stream_logs.iter();
        NativeStreamRules {
            targets: logs.map(|log| log.target.clone()).collect(),
            generation,
        }
    }

    fn of(&self, session: &Session) -> Option<&Stream> {
        self.generation.model.streams.get(session.server.number)
    }

    fn counts(&self, session: &Session) -> Option<&Arc<SessionCounts>> {
        self.generation.session_counts.get(session.server.number)
    }
}

impl StreamRules for NativeStreamRules {
    fn log_targets(&self) -> &[AccessLogTarget] {
        &self.targets
    }

    /// A header was read because its sender is trusted.
    fn settle_client(&self, session: &mut Session) {
        if let Some((source, _)) = session.proxied {
            session.client = source;
        }
    }

    fn limit(&self, session: &mut Session) -> Result<Vec<Counted>, u16> {
        let (Some(stream), Some(counts)) = (self.of(session), self.counts(session)) else {
            return Err(status::INTERNAL_ERROR);
        };
        let mut places = Vec::new();
        if stream.sessions_max > 0 {
            let place = counts.enter(stream.sessions_max);
            places.push(place.ok_or(status::UNAVAILABLE)?);
        }
        // Clients of a Unix socket have no address.
        if stream.sessions_per_client_max > 0 && !session.is_unix() {
            let client = session.client.ip();
            let place = counts.enter_client(client, stream.sessions_per_client_max);
            places.push(place.ok_or(status::UNAVAILABLE)?);
        }
        Ok(places)
    }

    /// A client without an address is let in where no rule asks for one.
    fn is_allowed(&self, session: &mut Session) -> bool {
        self.of(session).is_some_and(|stream| {
            let client = session.client.ip().to_canonical();
            match session.is_unix() {
                true => stream.access.is_idle(),
                false => stream.access.admits(client),
            }
        })
    }

    fn prepare(&self, _: &mut Session) {}

    fn action<'a>(&'a self, session: &'a mut Session) -> NextAction<'a> {
        let Some(stream) = self.of(session) else {
            return Action::End(status::INTERNAL_ERROR).into();
        };
        let client = session.client.ip().to_canonical();
        let is_unix = session.is_unix();
        let name = session.server_name();
        let offered = || {
            let hello = session.hello.iter().flat_map(|hello| &hello.protocols);
            let negotiated = session.tls.iter().filter_map(|tls| tls.alpn.as_ref());
            hello.chain(negotiated).map(Vec::as_slice)
        };
        let route = stream.routes.iter().find(|route| {
            (route.clients.is_empty() || !is_unix)
                && route.matches(name.as_deref(), offered(), client)
        });
        match route.map(|route| &route.target).or(stream.default.as_ref()) {
            Some(target) => {
                let upstream = Arc::clone(&target.upstream);
                let preface = target.preface;
                session.preface = preface;
                Action::Proxy(upstream, Vec::new()).into()
            }
            None => {
                let name = name.as_deref().unwrap_or("-");
                let facts = format_args!("no route of {} takes {name:?}", stream.origin);
                error_log::log_client(&message::STREAM_REFUSED, session.client, facts);
                Action::End(status::FORBIDDEN).into()
            }
        }
    }

    fn log(&self, session: &mut Session, write: &mut dyn FnMut(usize, &[u8])) {
        let Some(stream) = self.of(session) else {
            return;
        };
        for log in &stream.logs {
            write(log.target, &log::line(stream, session, &log.format));
        }
    }
}
