//! Error log lines of requests that are refused before they are dispatched, whatever the protocol.
//!
//! Called by: the drivers.

use super::session::Session;
use saker_http1::RejectReason;
use saker_telemetry::{error_log, httpd_message, message};

/// `request_line`: as far as it is known.
pub fn log(session: &Session, reason: RejectReason, request_line: &[u8]) {
    let client = &*session.connection;
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
