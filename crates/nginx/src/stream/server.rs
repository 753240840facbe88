//! The server of a session whose address several servers have.
//!
//! Called by: the rules, when a handshake stands, or a hello has been read.
//! Caveat: limits, and the addresses that may connect, are first those of the address's default
//! server, because no name is known before; the addresses of the chosen one count, too.

use super::{NginxStreamRules, log_refusal, lookup};
use saker_stream_proxy::{Session, StreamRules as _, status};
use saker_telemetry::message::Level;
use saker_tls::ClientVerification;
use std::sync::Arc;

impl NginxStreamRules {
    /// Gives the session the server that has the name of its handshake.
    pub(super) fn choose(&self, session: &mut Session) -> Result<(), u16> {
        let streams = &self.0.streams;
        let mut addresses = streams.addresses.iter();
        let Some(address) = addresses.find(|one| one.address == *session.listener) else {
            return Ok(());
        };
        let Some(name) = session.server_name().map(|name| name.into_owned()) else {
            return Ok(());
        };
        let name = name.trim_end_matches('.');
        let mut evaluation = self.evaluation(session);
        let found = lookup(&address.names.names, name.as_bytes(), &mut |regex| {
            evaluation.regex(regex, name.as_bytes())
        });
        let number = found.copied().unwrap_or(address.names.default);
        let Some(server) = address.server(number) else {
            return Err(status::INTERNAL_ERROR);
        };
        if number == session.server.number {
            return Ok(());
        }
        session.server = Arc::clone(server);
        session.preface = server.sends_preface;
        let rules = self.of(session);
        session.error_log = rules.and_then(|rules| rules.error_log.clone());
        match self.is_allowed(session) {
            true => Ok(()),
            false => Err(status::FORBIDDEN),
        }
    }

    /// Checks what a server demands of handshakes.
    pub(super) fn admit(&self, session: &Session) -> Result<(), u16> {
        let rules = self.of(session).ok_or(status::INTERNAL_ERROR)?;
        let Some(tls) = &session.tls else {
            return Ok(());
        };
        let refuse = |text: &str| {
            log_refusal(session, Level::Info, text);
            Err(status::INTERNAL_ERROR)
        };
        if rules.rejects {
            return refuse("handshake rejected while SSL handshaking");
        }
        let Some(is_required) = rules.demands_certificate else {
            return Ok(());
        };
        if let Some(fault) = &tls.client_refusal {
            return refuse(&format!(
                "client SSL certificate verify error: ({fault}) while SSL handshaking"
            ));
        }
        if is_required && tls.client_verification != ClientVerification::Success {
            return refuse("client sent no required SSL certificate while SSL handshaking");
        }
        Ok(())
    }
}
