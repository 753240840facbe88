//! Lines of the error log about upstreams that failed a session.
//!
//! Called by: `tcp` and `datagrams`.
//! Caveat: where the configuration is nginx's, they are in the words that its tools look for.

use crate::{relay::RelayEnd, session::Session};
use saker_gateway::Failure;
use saker_telemetry::{
    error_log::{self, ContextItem, LogContext, SiteLog},
    message::{self, Level},
};
use std::{borrow::Cow, io};

/// Logs that a member took no connection, or that there is none.
pub fn complain(session: &Session, name: &str, failure: &Failure) {
    let message = &message::STREAM_UNREACHABLE;
    if !error_log::speaks_nginx() {
        return error_log::log_about(message, session, format_args!("{name}: {failure}"));
    }
    let context = OfUpstream {
        session,
        upstream: name,
    };
    let text = words(failure, name);
    let text = format_args!("{text}");
    match is_critical(failure) {
        true => error_log::log_nginx_critical(message, &context, text),
        false => error_log::log_nginx(message, Level::Error, &context, text),
    }
}

fn words(failure: &Failure, name: &str) -> String {
    const CONNECTING: &str = "while connecting to upstream";
    match failure {
        Failure::Unreachable(error) => {
            let call = match name.starts_with("unix:") {
                true => format!("connect() to {name} failed"),
                false => "connect() failed".to_owned(),
            };
            format!("{call} ({}) {CONNECTING}", system(error))
        }
        Failure::ConnectTimeout => {
            format!("upstream timed out (110: Connection timed out) {CONNECTING}")
        }
        Failure::Tls(fault) => {
            format!("SSL_do_handshake() failed ({fault}) while SSL handshaking to upstream")
        }
        Failure::NoMember | Failure::MemberGone => format!("no live upstreams {CONNECTING}"),
        Failure::Io(error) => format!(
            "recv() failed ({}) while proxying and reading from upstream",
            system(error)
        ),
        Failure::Timeout => {
            "upstream timed out (110: Connection timed out) while proxying connection".to_owned()
        }
        other => format!("upstream failed ({other}) {CONNECTING}"),
    }
}

/// Logs that a connection has broken, or that nothing has moved for too long, which is common: at
/// `info`, unless the upstream broke it.
pub fn complain_of_end(session: &Session, end: RelayEnd, failure: Option<&io::Error>) {
    if !error_log::speaks_nginx() {
        return;
    }
    let (level, text) = match (end, failure) {
        (RelayEnd::Cut, Some(error)) => {
            let text = format!("recv() failed ({})", system(error));
            (
                Level::Error,
                format!("{text} while proxying and reading from upstream"),
            )
        }
        (RelayEnd::ClientGone, Some(error)) => {
            let text = format!("recv() failed ({})", system(error));
            (
                Level::Info,
                format!("{text} while proxying and reading from client"),
            )
        }
        (RelayEnd::Idle, _) => {
            let text = "connection timed out (110: Connection timed out)";
            (Level::Info, format!("{text} while proxying connection"))
        }
        _ => return,
    };
    let context = OfUpstream {
        session,
        upstream: session.attempts.last().map_or("", |one| &one.address),
    };
    let message = match level {
        Level::Error => &message::STREAM_UNREACHABLE,
        _ => &message::STREAM_STEP,
    };
    error_log::log_nginx(message, level, &context, format_args!("{text}"));
}

/// Members that refuse are common; other errors of the system are of another kind.
fn is_critical(failure: &Failure) -> bool {
    use io::ErrorKind as Kind;
    let Failure::Unreachable(error) = failure else {
        return false;
    };
    let is_refusal = matches!(
        error.kind(),
        Kind::ConnectionRefused
            | Kind::ConnectionReset
            | Kind::HostUnreachable
            | Kind::NetworkUnreachable
            | Kind::NetworkDown
            | Kind::TimedOut
    );
    !is_refusal && error.raw_os_error().is_some()
}

/// An error of the system with its number before its words.
fn system(error: &io::Error) -> String {
    let said = error.to_string();
    let words = said.split(" (os error").next().unwrap_or_default();
    match error.raw_os_error() {
        Some(number) => format!("{number}: {words}"),
        None => words.to_owned(),
    }
}

/// A session with the upstream that a line is about.
struct OfUpstream<'a> {
    session: &'a Session,
    upstream: &'a str,
}

impl LogContext for OfUpstream<'_> {
    fn context_item(&self, asked: ContextItem<'_>) -> Option<Cow<'_, [u8]>> {
        match asked {
            ContextItem::Upstream => Some(Cow::Borrowed(self.upstream.as_bytes())),
            asked => self.session.context_item(asked),
        }
    }

    fn site(&self) -> Option<&SiteLog> {
        self.session.site()
    }
}
