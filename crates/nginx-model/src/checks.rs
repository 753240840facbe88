//! Arguments of directives that need no setter, or whose setter takes more than nginx does.
//!
//! Called by: `read_http`, before a directive is applied.
//! Caveat: what changes nothing here is checked as nginx checks it, so that a configuration that one
//! of the two refuses is refused by the other.
//! Out of scope: the number of arguments, which the row of a directive has.

use crate::values::{flag, number_argument, size_argument, time_argument};
use saker_nginx_syntax::Directive;

/// The kind of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Flag,
    Size,
    /// A size, or a text with variables.
    Rate,
    /// A size, or `off`.
    SizeOrOff,
    Number,
    Time,
    /// Words of a set, one or many.
    Words(&'static [&'static str]),
    /// Whatever it is, it stands once.
    Any,
}

const PROTOCOLS: &[&str] = &["SSLv2", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];
const IGNORED_FIELDS: &[&str] = &[
    "X-Accel-Redirect",
    "X-Accel-Expires",
    "X-Accel-Limit-Rate",
    "X-Accel-Buffering",
    "X-Accel-Charset",
    "Expires",
    "Cache-Control",
    "Set-Cookie",
    "Vary",
];
const FAILURES: &[&str] = &[
    "error",
    "timeout",
    "invalid_header",
    "non_idempotent",
    "http_500",
    "http_502",
    "http_503",
    "http_504",
    "http_403",
    "http_404",
    "http_429",
    "updating",
    "off",
];
const FAILURES_OF_MEMCACHED: &[&str] =
    &["error", "timeout", "invalid_response", "not_found", "off"];

/// Directives, in the order of their names.
const KINDS: &[(&str, Kind)] = &[
    ("aio_write", Kind::Flag),
    ("client_body_in_single_buffer", Kind::Flag),
    ("client_header_buffer_size", Kind::Size),
    ("connection_pool_size", Kind::Size),
    ("directio", Kind::SizeOrOff),
    ("directio_alignment", Kind::SizeOrOff),
    ("gzip_hash", Kind::Size),
    ("gzip_no_buffer", Kind::Flag),
    ("gzip_window", Kind::Size),
    ("http2_chunk_size", Kind::Size),
    ("lingering_close", Kind::Words(&["off", "on", "always"])),
    ("lingering_time", Kind::Time),
    ("lingering_timeout", Kind::Time),
    ("log_subrequest", Kind::Flag),
    ("map_hash_bucket_size", Kind::Number),
    ("map_hash_max_size", Kind::Number),
    ("mp4_buffer_size", Kind::Size),
    ("mp4_max_buffer_size", Kind::Size),
    ("open_file_cache_errors", Kind::Flag),
    ("open_file_cache_min_uses", Kind::Number),
    ("open_file_cache_valid", Kind::Time),
    ("postpone_output", Kind::Size),
    ("proxy_headers_hash_bucket_size", Kind::Number),
    ("proxy_headers_hash_max_size", Kind::Number),
    ("read_ahead", Kind::Size),
    ("referer_hash_bucket_size", Kind::Number),
    ("referer_hash_max_size", Kind::Number),
    ("request_pool_size", Kind::Size),
    ("reset_timedout_connection", Kind::Flag),
    ("sendfile", Kind::Flag),
    ("sendfile_max_chunk", Kind::Size),
    ("server_names_hash_bucket_size", Kind::Number),
    ("server_names_hash_max_size", Kind::Number),
    ("ssi_min_file_chunk", Kind::Size),
    ("tcp_nodelay", Kind::Flag),
    ("tcp_nopush", Kind::Flag),
    ("types_hash_bucket_size", Kind::Number),
    ("types_hash_max_size", Kind::Number),
    ("uwsgi_string", Kind::Any),
    ("variables_hash_bucket_size", Kind::Number),
    ("variables_hash_max_size", Kind::Number),
];

/// Directives of each protocol of upstreams, behind its name.
const OF_UPSTREAMS: &[(&str, Kind)] = &[
    ("busy_buffers_size", Kind::Size),
    ("ignore_headers", Kind::Words(IGNORED_FIELDS)),
    ("limit_rate", Kind::Rate),
    ("next_upstream", Kind::Words(FAILURES)),
    ("send_lowat", Kind::Size),
    ("ssl_protocols", Kind::Words(PROTOCOLS)),
    ("temp_file_write_size", Kind::Size),
    ("temp_path", Kind::Any),
];

fn kind(name: &str) -> Option<Kind> {
    if let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == name) {
        return Some(*kind);
    }
    let (protocol, rest) = name.split_once('_')?;
    match protocol {
        "memcached" if rest == "next_upstream" => return Some(Kind::Words(FAILURES_OF_MEMCACHED)),
        "proxy" | "fastcgi" | "uwsgi" | "scgi" | "grpc" | "memcached" => {}
        _ => return None,
    }
    let found = OF_UPSTREAMS.iter().find(|(known, _)| *known == rest);
    found.map(|(_, kind)| *kind)
}

/// Returns true for a directive that a level may have once, and that has no setter.
pub fn is_single(name: &str) -> bool {
    kind(name).is_some() && !name.ends_with("ignore_headers")
}

/// Checks the arguments of a directive.
///
/// # Errors
/// nginx's message.
pub fn check(directive: &Directive) -> Result<(), String> {
    let text = directive.argument(0);
    match kind(directive.name()) {
        None | Some(Kind::Any) => Ok(()),
        Some(Kind::Flag) => flag(directive).map(drop),
        Some(Kind::SizeOrOff) if text == "off" => Ok(()),
        Some(Kind::Rate) if text.contains('$') => Ok(()),
        Some(Kind::Size | Kind::SizeOrOff | Kind::Rate) => size_argument(directive).map(drop),
        Some(Kind::Number) => number_argument(directive).map(drop),
        Some(Kind::Time) => time_argument(directive).map(drop),
        Some(Kind::Words(known)) => {
            let is_known = |word: &&str| known.iter().any(|one| one.eq_ignore_ascii_case(word));
            match directive.texts().find(|word| !is_known(word)) {
                None => Ok(()),
                Some(word) => Err(format!("invalid value \"{word}\"")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_directives() {
        assert!(KINDS.is_sorted_by_key(|(name, _)| *name));
        assert_eq!(kind("fastcgi_next_upstream"), Some(Kind::Words(FAILURES)));
        let memcached = Some(Kind::Words(FAILURES_OF_MEMCACHED));
        assert_eq!(kind("memcached_next_upstream"), memcached);
        assert_eq!(kind("other_next_upstream"), None);
        assert_eq!(kind("sendfile"), Some(Kind::Flag));
        assert!(is_single("proxy_temp_path") && !is_single("proxy_ignore_headers"));
    }
}
