//! Lines of the error log about the steps of sessions that go well: nginx's, at the level `info`.
//!
//! Called by: the listeners, when a session begins, and `tcp` and `datagrams`, when it has an upstream
//! and when it is over.
//! Caveat: where the configuration is not nginx's, there are none: access logs tell the same.

use crate::session::{Session, SessionProtocol};
use saker_telemetry::{
    error_log::{self, ContextItem, LogContext, SiteLog},
    message::{self, Level},
};
use std::{borrow::Cow, fmt, net::SocketAddr};

/// A session whose lines end with the text.
struct Step<'s>(&'s Session);

impl LogContext for Step<'_> {
    fn context_item(&self, asked: ContextItem<'_>) -> Option<Cow<'_, [u8]>> {
        match asked {
            ContextItem::ConnectionNumber => self.0.context_item(asked),
            _ => None,
        }
    }

    fn site(&self) -> Option<&SiteLog> {
        self.0.site()
    }
}

/// Returns true if such lines are written.
pub fn are_wanted(session: &Session) -> bool {
    error_log::speaks_nginx()
        && error_log::is_wanted(message::STREAM_STEP.area, Level::Info, &Step(session))
}

/// Logs a step.
pub fn log(session: &Session, text: fmt::Arguments<'_>) {
    if are_wanted(session) {
        error_log::log_nginx(&message::STREAM_STEP, Level::Info, &Step(session), text);
    }
}

fn kind(session: &Session) -> &'static str {
    match session.protocol {
        SessionProtocol::Tcp => "",
        SessionProtocol::Udp => "udp ",
    }
}

/// Logs that a session has begun.
pub fn log_beginning(session: &Session) {
    let kind = kind(session);
    match session.is_unix() {
        true => log(
            session,
            format_args!("{kind}client unix: connected to {}", session.listener),
        ),
        false => log(
            session,
            format_args!(
                "{kind}client {} connected to {}",
                session.peer, session.listener
            ),
        ),
    }
}

/// Logs that a session has an upstream, which it is connected to from a local address.
pub fn log_connected(session: &Session, local: Option<SocketAddr>) {
    if !are_wanted(session) {
        return;
    }
    let (kind, local) = (kind(session), local.map(|local| local.to_string()));
    let local = local.as_deref().unwrap_or("unix:");
    let upstream = session.attempts.last().map(|attempt| &*attempt.address);
    let upstream = upstream.unwrap_or_default();
    log(
        session,
        format_args!("{kind}proxy {local} connected to {upstream}"),
    );
}
