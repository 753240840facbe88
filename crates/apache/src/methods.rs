//! Answers of files to other methods than GET, and paths of hosts with their own rules for slashes.
//!
//! Apache's handler for files takes POST as GET, tells OPTIONS what it takes, and refuses the rest,
//! whether the file is there or not.

use crate::state::peek;
use saker_apache_model::host::Host;
use saker_files::Kind;
use saker_http::{Method, Status, path, target};
use saker_pipeline::{Exchange, Response};
use saker_telemetry::{error_log, httpd_message};

/// Methods that Apache has a number for; others are none to it.
const KNOWN: &[&[u8]] = &[
    b"PROPFIND",
    b"PROPPATCH",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"LOCK",
    b"UNLOCK",
    b"VERSION-CONTROL",
    b"CHECKOUT",
    b"UNCHECKOUT",
    b"CHECKIN",
    b"UPDATE",
    b"LABEL",
    b"REPORT",
    b"MKWORKSPACE",
    b"MKACTIVITY",
    b"BASELINE-CONTROL",
    b"MERGE",
];

/// Returns whether Apache would have a number for it, RegisterHttpMethod considered.
fn is_registered(exchange: &Exchange, host: &Host) -> bool {
    let view = exchange.head.view();
    let token = view.method_token();
    view.method() != Method::Extension
        || KNOWN.contains(&token)
        || host
            .process
            .methods
            .iter()
            .any(|own| own.as_bytes() == token)
}

/// HttpProtocolOptions RegisteredMethods: others are refused before any rule runs.
pub fn refusal(exchange: &Exchange, host: &Host) -> Option<Status> {
    let is_refused = host.registered_methods_only && !is_registered(exchange, host);
    is_refused.then_some(Status::NOT_IMPLEMENTED)
}

/// The answer to methods that read no file. `None`: the file answers.
pub fn answer(exchange: &mut Exchange, host: &Host) -> Option<Response> {
    let view = exchange.head.view();
    let status = match view.method() {
        Method::Get | Method::Head => return None,
        Method::Post => {
            // What is found out for a POST is no answer to a GET: rules tell them apart.
            exchange.depends_on_request();
            return None;
        }
        Method::Options => Status::OK,
        Method::Extension if !is_registered(exchange, host) => {
            let text = format_args!(
                "Invalid method in request {}",
                String::from_utf8_lossy(view.start_line())
            );
            error_log::log_httpd(&httpd_message::INVALID_METHOD, None, exchange, text);
            Status::NOT_IMPLEMENTED
        }
        _ => Status::METHOD_NOT_ALLOWED,
    };
    let mut response = with_methods(status, host);
    let is_folder = peek(exchange).is_some_and(|state| state.kind == Some(Kind::Directory));
    let content_type = if is_folder {
        Some("httpd/unix-directory")
    } else {
        exchange.routing.settings.files.whole_type.as_deref()
    };
    if let Some(content_type) = content_type.filter(|text| status == Status::OK && !text.is_empty())
    {
        response
            .fields_mut()
            .set("Content-Type", content_type.as_bytes().to_vec());
    }
    Some(response)
}

/// The methods that files take.
pub fn with_methods(status: Status, host: &Host) -> Response {
    let mut response = Response::new(status);
    let methods: &[u8] = if host.trace_enabled {
        b"GET,POST,OPTIONS,HEAD,TRACE"
    } else {
        b"GET,POST,OPTIONS,HEAD"
    };
    response.fields_mut().set("Allow", methods);
    response
}

/// Reads the path of the request again, where AllowEncodedSlashes or MergeSlashes make another one
/// of it.
///
/// # Errors
/// Why it can't be read.
pub fn read_path(exchange: &mut Exchange, host: &Host) -> Result<(), path::PathError> {
    let is_usual = host.slashes.merge && !exchange.routing.encoded_slash;
    if is_usual || !exchange.is_as_received() {
        return Ok(());
    }
    let view = exchange.head.view();
    let raw = match target::split(view.method(), view.target()) {
        Ok(target::Target::Origin { path, .. }) => target::from_last_leading_slash(path),
        Ok(target::Target::Absolute { path, .. }) => path,
        _ => return Ok(()),
    };
    let mut read = Vec::with_capacity(raw.len());
    path::normalize_with(raw, host.slashes, &mut read)?;
    (exchange.path, exchange.routing.encoded_slash) = (read, false);
    Ok(())
}

/// The status for a path that cannot be read.
pub fn status_of(error: path::PathError) -> Status {
    match error {
        path::PathError::EncodedSlash | path::PathError::Nul => Status::NOT_FOUND,
        _ => Status::BAD_REQUEST,
    }
}
