//! Error log lines of requests that are refused before they are dispatched, or that don't come in
//! time, whatever the protocol.
//!
//! Called by: the drivers.

use super::{
    log::{default_site, request_line as first_line},
    session::Session,
};
use saker_config::model::Site;
use saker_http1::RejectReason;
use saker_pipeline::Client;
use saker_telemetry::{
    error_log::{self, ContextItem, LogContext, LogId, SiteLog},
    httpd_message,
    message::{self, Level, Message},
};
use std::{borrow::Cow, sync::Arc};

/// `request_line`: as far as it is known.
pub fn log(session: &Session, reason: RejectReason, request_line: &[u8]) {
    let client = &*session.connection;
    if error_log::speaks_nginx()
        && let Some(words) = nginx_words(reason)
    {
        return log_nginx(session, &message::REQUEST_REJECTED, request_line, words);
    }
    if !error_log::speaks_httpd() {
        return error_log::log_about(
            &message::REQUEST_REJECTED,
            client,
            format_args!("{}", reason.as_str()),
        );
    }
    let line = String::from_utf8_lossy(request_line);
    match reason {
        RejectReason::TargetTooLong | RejectReason::RequestLineTooLong => {
            let limit = line_bytes_max(session);
            let text = format_args!("request failed: URI too long (longer than {limit})");
            error_log::log_httpd(&httpd_message::URI_TOO_LONG, None, client, text);
        }
        RejectReason::BadTarget => {
            let text = format_args!("request failed: invalid characters in URI {line}");
            error_log::log_httpd(&httpd_message::URI_CHARACTERS, None, client, text);
        }
        RejectReason::TooManyFields => {
            let text = format_args!("Number of request headers exceeds LimitRequestFields");
            error_log::log_httpd(&httpd_message::TOO_MANY_FIELDS, None, client, text);
        }
        RejectReason::FieldTooLong | RejectReason::HeadTooLarge => {
            let text = format_args!("Request header exceeds LimitRequestFieldSize");
            error_log::log_httpd(&httpd_message::FIELD_TOO_LONG, None, client, text);
        }
        reason => error_log::log_about(
            &message::REQUEST_REJECTED,
            client,
            format_args!("{}", reason.as_str()),
        ),
    }
}

/// The limit on the request line, or a quarter of the limit on the head where none is set.
fn line_bytes_max(session: &Session) -> u64 {
    let services = session.worker.services.borrow();
    let limits = session.limits(&services.generation);
    match limits.request_line_bytes_max {
        0 => limits.head_bytes_max / 4,
        line => line,
    }
}

/// Logs that a client was too slow. `head`: the part that came of a head, if any did.
pub fn log_timeout(session: &Session, head: Option<&[u8]>) {
    let message = match head {
        Some(_) => &message::HEAD_TIMEOUT,
        None => &message::IDLE_TIMEOUT,
    };
    if !error_log::speaks_nginx() {
        return error_log::log_about(message, &*session.client, format_args!(""));
    }
    let place = match head {
        None if session.requests == 0 => "waiting for request",
        // The end of a connection that was kept has no line.
        None => return,
        Some(head) if memchr::memchr(b'\n', head.trim_ascii_start()).is_none() => {
            "reading client request line"
        }
        Some(_) => "reading client request headers",
    };
    let words = format!("client timed out (110: Connection timed out) while {place}");
    log_nginx(
        session,
        message,
        first_line(head.unwrap_or_default()),
        &words,
    );
}

/// Writes a line in nginx's form, at the level that nginx has for faults of clients.
fn log_nginx(session: &Session, message: &'static Message, request_line: &[u8], words: &str) {
    let context = RefusedContext {
        client: &session.connection,
        request_line,
        site: default_site(session),
    };
    error_log::log_nginx(message, Level::Info, &context, format_args!("{words}"));
}

/// nginx's words for a fault. `None`: it has none.
fn nginx_words(reason: RejectReason) -> Option<&'static str> {
    use RejectReason::*;
    Some(match reason {
        BadMethod | MethodTooLong | TlsClientHello => {
            "client sent invalid method while reading client request line"
        }
        BadVersion | UnsupportedVersion => {
            "client sent invalid version while reading client request line"
        }
        BadRequestLine | BadTarget | Http2Preface | Http09 => {
            "client sent invalid request while reading client request line"
        }
        TargetTooLong | RequestLineTooLong => {
            "client sent too long URI while reading client request line"
        }
        FieldTooLong | HeadTooLarge => {
            "client sent too long header line while reading client request headers"
        }
        TooManyFields => "client sent too many header lines while reading client request headers",
        FoldedLine | EmptyFieldName | BadFieldName | SpaceBeforeColon | MissingColon
        | BadFieldValue => "client sent invalid header line while reading client request headers",
        MissingHost => {
            "client sent HTTP/1.1 request without \"Host\" header while reading client request headers"
        }
        SeveralHosts => "client sent duplicate host header while reading client request headers",
        BadHost => "client sent invalid host header while reading client request headers",
        LengthAndTransferEncoding => {
            "client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time \
             while reading client request headers"
        }
        BadLength => {
            "client sent invalid \"Content-Length\" header while reading client request headers"
        }
        BadTransferEncoding | UnknownTransferCoding => {
            "client sent unknown \"Transfer-Encoding\" while reading client request headers"
        }
        _ => return None,
    })
}

/// A client with what is known of a request that never became one.
struct RefusedContext<'a> {
    client: &'a Client,
    request_line: &'a [u8],
    site: Option<Arc<Site>>,
}

impl LogContext for RefusedContext<'_> {
    fn context_item(&self, asked: ContextItem<'_>) -> Option<Cow<'_, [u8]>> {
        match asked {
            ContextItem::RequestLine if !self.request_line.is_empty() => {
                Some(Cow::Borrowed(self.request_line))
            }
            ContextItem::SiteName => {
                let name = self.site.as_ref()?.canonical_name.as_deref()?;
                Some(Cow::Borrowed(name.as_bytes()))
            }
            other => self.client.context_item(other),
        }
    }

    fn connection(&self) -> Option<&LogId> {
        self.client.connection()
    }

    fn site(&self) -> Option<&SiteLog> {
        self.site.as_ref()?.error_log.as_deref()
    }
}
