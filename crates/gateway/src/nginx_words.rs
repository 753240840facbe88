//! Failures of upstreams in the words of nginx's error log, which tools that watch it look for.
//!
//! Called by: `retry`, for each member that failed; `spool`, for responses that broke off.
//! Caveat: only where the configuration is nginx's. The form of lines is the error log's.
//! Out of scope: what the client sees ([`Failure::status`]).

use crate::{balancer::Group, failure::Failure};
use saker_cgi::{Broken, Fault};
use saker_config::model::{BackendAddress, Member, Protocol};
use saker_net::clock;
use saker_pipeline::{Exchange, UpstreamRequest};
use saker_telemetry::{
    error_log::{self, LogContext, WithUpstream},
    message::{self, Level, Message},
};
use std::{borrow::Cow, fmt::Write as _};

/// Logs that a member did not answer; `None`: no member of the group could be asked.
pub fn log_failed(
    exchange: &Exchange,
    call: &UpstreamRequest,
    (group, member): (&Group, Option<&Member>),
    failure: &Failure,
) {
    let name = &group.upstream.name;
    let upstream = match (member, group.upstream.members.first()) {
        (Some(member), _) => url(member, &call.target),
        (None, Some(first)) => url_of(first, name, &call.target),
        (None, None) => name.to_string(),
    };
    let is_fastcgi = member.is_some_and(|member| member.backend.protocol == Protocol::FastCgi);
    let mut text = before_answer(failure, is_fastcgi);
    if let (Failure::Unreachable(_), Some(member)) = (failure, member)
        && let BackendAddress::Unix(path) = &member.backend.address
    {
        let to = format!("connect() to unix:{} failed", path.display());
        text = text.replacen("connect() failed", &to, 1);
    }
    // Members that refuse are common; other errors of the system are of another kind.
    let is_critical = matches!(failure, Failure::Unreachable(error)
        if !is_refusal(error) && error.raw_os_error().is_some());
    let message = &message::PROGRAM_FAILED;
    let context = WithUpstream {
        context: exchange,
        upstream: Some(&upstream),
    };
    match is_critical {
        true => error_log::log_nginx_critical(message, &context, format_args!("{text}")),
        false => log(message, exchange, &upstream, &text),
    }
}

/// True for errors that nginx logs at `error`, not at `crit`.
fn is_refusal(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::TimedOut
    )
}

/// Logs that a member of several is left alone for a time.
pub fn log_disabled(exchange: &Exchange, call: &UpstreamRequest, group: &Group, member: &Member) {
    let is_one_of_several = group.upstream.members.len() > 1;
    if !error_log::speaks_nginx()
        || !is_one_of_several
        || !member.state.is_failed(clock::monotonic_ms())
    {
        return;
    }
    let upstream = url(member, &call.target);
    let context = WithUpstream {
        context: exchange,
        upstream: Some(&upstream),
    };
    error_log::log_nginx(
        &message::PROGRAM_FAILED,
        Level::Warn,
        &context,
        format_args!("upstream server temporarily disabled while connecting to upstream"),
    );
}

/// The name of a pool in nginx's words.
pub fn address(name: &str) -> String {
    match name.strip_prefix("fcgi://") {
        Some(address) => format!("fastcgi://{address}"),
        None => name.to_owned(),
    }
}

/// The URL that was asked, from the name of a pool.
pub fn asked(name: &str, call: &UpstreamRequest) -> String {
    match name.split_once("://") {
        Some(("http" | "https", _)) => format!("{name}{}", String::from_utf8_lossy(&call.target)),
        _ => address(name),
    }
}

/// Logs that the client left in the middle of a response.
pub fn log_left(context: &dyn LogContext, upstream: &str) {
    let context = WithUpstream {
        context,
        upstream: Some(upstream),
    };
    error_log::log_nginx(
        &message::CLIENT_LEFT,
        Level::Info,
        &context,
        format_args!(
            "epoll_wait() reported that client prematurely closed connection, so upstream \
             connection is closed too while reading upstream"
        ),
    );
}

/// Logs that a response broke off.
pub fn log_cut(context: &dyn LogContext, upstream: &str, failure: &Failure) {
    let text = behind_head(failure);
    log(&message::PROGRAM_CUT, context, upstream, &text);
}

fn log(message: &'static Message, context: &dyn LogContext, upstream: &str, text: &str) {
    let context = WithUpstream {
        context,
        upstream: Some(upstream),
    };
    error_log::log_nginx(message, Level::Error, &context, format_args!("{text}"));
}

/// The member's URL as nginx names it.
fn url(member: &Member, target: &[u8]) -> String {
    let backend = &member.backend;
    let address = match &backend.address {
        BackendAddress::Unix(path) if backend.protocol == Protocol::Http1 => {
            format!("unix:{}:", path.display())
        }
        BackendAddress::Unix(path) => format!("unix:{}", path.display()),
        BackendAddress::Tcp { host, port } => format!("{host}:{port}"),
    };
    url_of(member, &address, target)
}

/// The URL of a member, or of its group as a whole.
fn url_of(member: &Member, address: &str, target: &[u8]) -> String {
    let backend = &member.backend;
    let scheme = match (backend.protocol, backend.tls.is_some()) {
        (Protocol::Http1, false) => "http",
        (Protocol::Http1, true) => "https",
        (Protocol::Http2, false) => "grpc",
        (Protocol::Http2, true) => "grpcs",
        (Protocol::FastCgi, _) => "fastcgi",
        (Protocol::Scgi, _) => "scgi",
        (Protocol::Uwsgi, false) => "uwsgi",
        (Protocol::Uwsgi, true) => "suwsgi",
        _ => "memcached",
    };
    let mut url = format!("{scheme}://{address}");
    if backend.protocol == Protocol::Http1 {
        url.push_str(&String::from_utf8_lossy(target));
    }
    url
}

fn before_answer(failure: &Failure, is_fastcgi: bool) -> String {
    const READING: &str = "while reading response header from upstream";
    const CONNECTING: &str = "while connecting to upstream";
    match failure {
        Failure::Unreachable(error) => {
            format!("connect() failed ({}) {CONNECTING}", system(error))
        }
        Failure::ConnectTimeout => {
            format!("upstream timed out (110: Connection timed out) {CONNECTING}")
        }
        Failure::Tls(fault) => {
            format!("SSL_do_handshake() failed ({fault}) while SSL handshaking to upstream")
        }
        Failure::NoMember | Failure::MemberGone => format!("no live upstreams {CONNECTING}"),
        Failure::Timeout => format!("upstream timed out (110: Connection timed out) {READING}"),
        Failure::Io(error) => format!("recv() failed ({}) {READING}", system(error)),
        Failure::Reset(code) => {
            format!(
                "upstream rejected request with error {} {READING}",
                u32::from(*code)
            )
        }
        Failure::Broken(broken) if broken.fault == Fault::Premature && is_fastcgi => {
            format!("upstream prematurely closed FastCGI stdout {READING}")
        }
        Failure::Broken(broken) => format!("{} {READING}", head_fault(broken)),
        other => format!("upstream failed ({other}) {READING}"),
    }
}

/// A head that can't be understood. The excerpt says what is wrong with heads of HTTP/1.
fn head_fault(broken: &Broken) -> Cow<'static, str> {
    let is = |start: &str| broken.excerpt.starts_with(start.as_bytes());
    Cow::Borrowed(match broken.fault {
        Fault::Premature | Fault::Cut | Fault::Leaving => "upstream prematurely closed connection",
        Fault::HeadTooLarge | Fault::TooManyFields => "upstream sent too big header",
        Fault::Malformed if is("malformed status") => "upstream sent no valid HTTP/1.0 header",
        Fault::Malformed if is("invalid status") => "upstream sent invalid status",
        Fault::Malformed if is("response head too") || is("too many field") => {
            "upstream sent too big header"
        }
        Fault::Malformed if is("malformed Content-L") => {
            "upstream sent invalid \"Content-Length\" header"
        }
        Fault::Malformed if is("several Content-L") => {
            "upstream sent duplicate header line: \"Content-Length\""
        }
        Fault::Malformed if is("unknown or misplaced") => {
            "upstream sent unknown \"Transfer-Encoding\""
        }
        Fault::Malformed if is("both Content-Length") => {
            "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time"
        }
        Fault::Malformed if is("malformed field") => "upstream sent invalid header",
        Fault::Malformed if !broken.excerpt.is_empty() => {
            let shown = broken.excerpt.escape_ascii();
            return Cow::Owned(format!("upstream sent invalid header: \"{shown}...\""));
        }
        Fault::Malformed => "upstream sent invalid header",
        Fault::WrongVersion => "upstream sent unsupported FastCGI protocol version",
        Fault::WrongRequest => "upstream sent unexpected FastCGI request id",
        Fault::Misplaced => "upstream sent invalid FastCGI record type",
        other => {
            return Cow::Owned(format!(
                "upstream sent invalid response ({})",
                other.as_str()
            ));
        }
    })
}

fn behind_head(failure: &Failure) -> String {
    let what = match failure {
        Failure::Timeout => "upstream timed out (110: Connection timed out)".to_owned(),
        Failure::Io(error) => format!("recv() failed ({})", system(error)),
        Failure::Reset(code) => {
            format!("upstream rejected request with error {}", u32::from(*code))
        }
        Failure::Broken(broken) if broken.fault == Fault::BadRecord => {
            "upstream sent invalid chunked response".to_owned()
        }
        Failure::Broken(_) | Failure::Length => "upstream prematurely closed connection".to_owned(),
        other => format!("upstream failed ({other})"),
    };
    format!("{what} while reading upstream")
}

/// An error of the system with its number before its words.
fn system(error: &std::io::Error) -> String {
    let mut text = String::new();
    match error.raw_os_error() {
        Some(number) => {
            let said = error.to_string();
            let words = said.split(" (os error").next().unwrap_or_default();
            let _ = write!(text, "{number}: {words}");
        }
        None => _ = write!(text, "{error}"),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_contents_break_in_words_of_their_own() {
        let refused = std::io::Error::from_raw_os_error(111);
        let rows = [
            (
                Failure::Unreachable(refused),
                "connect() failed (111: Connection refused) while connecting to upstream",
            ),
            (
                Failure::NoMember,
                "no live upstreams while connecting to upstream",
            ),
            (
                Failure::Broken(Broken::at(Fault::Malformed, b"malformed status line")),
                "upstream sent no valid HTTP/1.0 header while reading response header from upstream",
            ),
            (
                Failure::Broken(Fault::Premature.into()),
                "upstream prematurely closed connection while reading response header from upstream",
            ),
        ];
        for (failure, text) in rows {
            assert_eq!(before_answer(&failure, false), text);
        }
        assert_eq!(
            behind_head(&Failure::Length),
            "upstream prematurely closed connection while reading upstream"
        );
    }
}
