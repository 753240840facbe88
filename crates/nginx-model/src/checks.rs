//! Arguments of directives that need no setter, or whose setter takes more than nginx does.
//!
//! Called by: `read_http`, before a directive is applied.
//! Caveat: what changes nothing here is checked as nginx checks it, so that a configuration that one
//! of the two refuses is refused by the other.
//! Out of scope: the number of arguments, which the row of a directive has.

use crate::values::{flag, number_argument, size, size_argument, time_argument, time_ms};
use saker_nginx_syntax::{Directive, IGNORED_FIELDS};

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
    /// A number of buffers, and their size.
    Buffers,
    /// The size of a pool of memory.
    Pool,
    /// A number within bounds.
    Within(u64, u64),
    /// Words of `ssl_session_cache`.
    Sessions,
    /// Parameters of `access_log`.
    Log,
    /// Whatever it is, it stands once.
    Any,
}

/// Eight pages.
const SESSIONS_BYTES_MIN: u64 = 32 << 10;
const PROTOCOLS: &[&str] = &["SSLv2", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];
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
    ("access_log", Kind::Log),
    ("aio_write", Kind::Flag),
    ("client_body_in_single_buffer", Kind::Flag),
    ("client_header_buffer_size", Kind::Size),
    ("connection_pool_size", Kind::Pool),
    ("directio", Kind::SizeOrOff),
    ("directio_alignment", Kind::SizeOrOff),
    ("gzip_comp_level", Kind::Within(1, 9)),
    ("gzip_hash", Kind::Size),
    ("gzip_no_buffer", Kind::Flag),
    ("gzip_window", Kind::Size),
    ("http2_chunk_size", Kind::Size),
    ("http2_recv_buffer_size", Kind::Size),
    ("large_client_header_buffers", Kind::Buffers),
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
    ("output_buffers", Kind::Buffers),
    ("postpone_output", Kind::Size),
    ("proxy_headers_hash_bucket_size", Kind::Number),
    ("proxy_headers_hash_max_size", Kind::Number),
    ("read_ahead", Kind::Size),
    ("referer_hash_bucket_size", Kind::Number),
    ("referer_hash_max_size", Kind::Number),
    ("request_pool_size", Kind::Pool),
    ("reset_timedout_connection", Kind::Flag),
    ("sendfile", Kind::Flag),
    ("sendfile_max_chunk", Kind::Size),
    ("server_names_hash_bucket_size", Kind::Number),
    ("server_names_hash_max_size", Kind::Number),
    ("ssi_min_file_chunk", Kind::Size),
    ("ssl_buffer_size", Kind::Size),
    ("ssl_early_data", Kind::Flag),
    ("ssl_protocols", Kind::Words(PROTOCOLS)),
    ("ssl_session_cache", Kind::Sessions),
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
    ("buffers", Kind::Buffers),
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
    let is_repeated = |kind| matches!(kind, Kind::Log | Kind::Sessions);
    let is_bits = name.ends_with("ignore_headers") || name == "ssl_protocols";
    kind(name).is_some_and(|kind| !is_repeated(kind)) && !is_bits
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
        Some(Kind::Buffers) => buffers(directive),
        Some(Kind::Pool) => match size_argument(directive)? {
            ..112 => Err("the pool size must be no less than 112".to_owned()),
            bytes if bytes % 16 != 0 => Err("the pool size must be a multiple of 16".to_owned()),
            _ => Ok(()),
        },
        Some(Kind::Within(least, most)) => {
            let number = number_argument(directive)?;
            match (least..=most).contains(&number) {
                true => Ok(()),
                false => Err(format!("value must be between {least} and {most}")),
            }
        }
        Some(Kind::Sessions) => directive.texts().try_for_each(session_cache),
        Some(Kind::Log) => directive.texts().skip(2).try_for_each(log_parameter),
        Some(Kind::Words(known)) => {
            let is_known = |word: &&str| known.iter().any(|one| one.eq_ignore_ascii_case(word));
            match directive.texts().find(|word| !is_known(word)) {
                None => Ok(()),
                Some(word) => Err(format!("invalid value \"{word}\"")),
            }
        }
    }
}

/// A number, of which there is one at least, and a size.
fn buffers(directive: &Directive) -> Result<(), String> {
    let number = directive.argument(0).parse::<u64>();
    let size = size(directive.argument(1));
    match (number, size) {
        (Ok(1..), Some(1..)) => Ok(()),
        _ => Err(format!("\"{}\" directive invalid value", directive.name())),
    }
}

/// `off`, `none`, `builtin[:SESSIONS]`, or `shared:NAME:SIZE`.
fn session_cache(word: &str) -> Result<(), String> {
    let invalid = || Err(format!("invalid session cache \"{word}\""));
    if matches!(word, "off" | "none" | "builtin") {
        return Ok(());
    }
    if let Some(number) = word.strip_prefix("builtin:") {
        return match number.parse::<u32>() {
            Ok(_) => Ok(()),
            Err(_) => invalid(),
        };
    }
    let shared = word.strip_prefix("shared:");
    let Some((name, bytes)) = shared.and_then(|shared| shared.split_once(':')) else {
        return invalid();
    };
    match size(bytes) {
        Some(bytes) if bytes < SESSIONS_BYTES_MIN && !name.is_empty() => {
            Err(format!("session cache \"{word}\" is too small"))
        }
        Some(_) if !name.is_empty() => Ok(()),
        _ => invalid(),
    }
}

fn log_parameter(word: &str) -> Result<(), String> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let is_bad = |is_good: bool, text: &str| match is_good {
        true => Ok(()),
        false => Err(format!("invalid {text} \"{value}\"")),
    };
    match name {
        "buffer" => is_bad(size(value).is_some_and(|bytes| bytes > 0), "buffer size"),
        "flush" => is_bad(time_ms(value).is_some_and(|ms| ms > 0), "flush time"),
        "gzip" if word != "gzip" => {
            let level = value.parse::<u32>();
            is_bad(
                level.is_ok_and(|level| (1..=9).contains(&level)),
                "compression level",
            )
        }
        _ => Ok(()),
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
