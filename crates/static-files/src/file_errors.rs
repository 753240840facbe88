//! Log messages about files that can't be served, in Saker's or Apache's words.
//!
//! Called by: the handler, `locate` and `script`.
//! Caveat: missing files are logged at a level that is usually off.
//! Out of scope: the response.

use crate::{document_root::root, index::index_names};
use saker_files::ResolveError;
use saker_pipeline::Exchange;
use saker_telemetry::{Level, error_log, httpd_message, message};
use std::path::Path;

/// errno for missing permissions.
const EACCES: i32 = 13;

/// Logs why a path below the document root can't be served, for a response that tells the client.
pub fn log_unavailable(exchange: &Exchange, relative: &[u8], error: ResolveError) {
    // Missing files are logged at a level that is usually off: format nothing then.
    let area = if error_log::speaks_httpd() {
        httpd_message::FILE_DOES_NOT_EXIST.module
    } else {
        message::FILE_MISSING.area
    };
    if error == ResolveError::NotFound && !error_log::is_wanted(area, Level::Info, exchange) {
        return;
    }
    let (root, relative) = (
        root(exchange).unwrap_or(Path::new("")),
        String::from_utf8_lossy(relative),
    );
    let shown = format!(
        "{}/{relative}",
        root.display().to_string().trim_end_matches('/')
    );
    if error_log::speaks_httpd() {
        return log_as_httpd(exchange, &shown, error);
    }
    let line = match error {
        ResolveError::NotFound => {
            return error_log::log_about(&message::FILE_MISSING, exchange, format_args!("{shown}"));
        }
        // As good as missing, unless the link policy is the reason.
        ResolveError::LinkDangling => &message::FILE_MISSING,
        _ if is_link_error(error) => &message::SYMLINK_REFUSED,
        ResolveError::Denied if saker_sandbox::denies_reading(Path::new(&shown)) => {
            &message::SANDBOX_REFUSED
        }
        ResolveError::Io(_) | ResolveError::Descriptors => &message::FILE_READ_FAILED,
        _ => &message::ACCESS_DENIED,
    };
    error_log::log_about(line, exchange, format_args!("{shown}: {error}"));
}

fn is_link_error(error: ResolveError) -> bool {
    matches!(
        error,
        ResolveError::LinkDenied | ResolveError::LinkLoop | ResolveError::LinkDangling
    )
}

/// The same in the words of Apache's error log.
fn log_as_httpd(exchange: &Exchange, shown: &str, error: ResolveError) {
    match error {
        ResolveError::NotFound => {
            error_log::log_httpd(
                &httpd_message::FILE_DOES_NOT_EXIST,
                None,
                exchange,
                format_args!("File does not exist: {shown}"),
            );
        }
        _ if is_link_error(error) => {
            let text =
                format_args!("Symbolic link not allowed or link target not accessible: {shown}");
            error_log::log_httpd(&httpd_message::LINK_REFUSED, None, exchange, text);
        }
        ResolveError::Io(errno) => {
            error_log::log_httpd(
                &httpd_message::FILE_PERMISSIONS,
                Some(errno),
                exchange,
                format_args!("file cannot be read: {shown}"),
            );
        }
        _ => {
            let text = format_args!("file permissions deny server access: {shown}");
            error_log::log_httpd(
                &httpd_message::FILE_PERMISSIONS,
                Some(EACCES),
                exchange,
                text,
            );
        }
    }
}

/// Logs that a directory has neither an index file nor a listing. Apache's rules log that
/// themselves.
pub fn log_no_index(exchange: &Exchange, relative: &[u8]) {
    if error_log::speaks_httpd() {
        return;
    }
    let (root, relative) = (
        root(exchange).unwrap_or(Path::new("")),
        String::from_utf8_lossy(relative),
    );
    let names = index_names(&exchange.routing.settings)
        .collect::<Vec<_>>()
        .join(", ");
    let facts = format_args!(
        "{}/{relative}: no index file ({names}), and listings are off (`listing`)",
        root.display()
    );
    error_log::log_about(&message::ACCESS_DENIED, exchange, facts);
}

/// Logs that the path is a FIFO, a socket or a device.
pub fn log_not_a_file(exchange: &Exchange, relative: &[u8]) {
    let root = root(exchange).map(Path::to_path_buf).unwrap_or_default();
    error_log::log_about(
        &message::NOT_A_FILE,
        exchange,
        format_args!("{}/{}", root.display(), String::from_utf8_lossy(relative)),
    );
}
