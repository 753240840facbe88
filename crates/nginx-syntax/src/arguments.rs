//! Words that directives take as arguments, for completion.
//!
//! Called by: `completion`.
//! Caveat: only words of a fixed set are here; paths, hosts, numbers, and variables are not offered.
//! Directives of FastCGI, uwsgi, SCGI, and gRPC have the words of their `proxy_` kin.
//! Out of scope: whether an argument is right, which the model says.

use crate::row::Row;

const ON_OFF: &[&str] = &["on", "off"];
const VERSIONS: &[&str] = &["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];
const FAILURES: &[&str] = &[
    "error",
    "timeout",
    "invalid_header",
    "http_500",
    "http_502",
    "http_503",
    "http_504",
    "http_403",
    "http_404",
    "http_429",
    "off",
];

/// Fields of upstreams that can be ignored.
pub const IGNORED_FIELDS: &[&str] = &[
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

/// Directives whose one argument is `on` or `off`.
const FLAGS: &[&str] = &[
    "absolute_redirect",
    "accept_mutex",
    "autoindex",
    "autoindex_exact_size",
    "autoindex_localtime",
    "brotli",
    "chunked_transfer_encoding",
    "daemon",
    "etag",
    "gunzip",
    "gzip",
    "gzip_vary",
    "http2",
    "http3",
    "ignore_invalid_headers",
    "log_not_found",
    "log_subrequest",
    "master_process",
    "merge_slashes",
    "multi_accept",
    "pcre_jit",
    "port_in_redirect",
    "proxy_buffering",
    "proxy_cache_background_update",
    "proxy_cache_lock",
    "proxy_cache_revalidate",
    "proxy_ignore_client_abort",
    "proxy_intercept_errors",
    "proxy_pass_request_body",
    "proxy_pass_request_headers",
    "proxy_pass_trailers",
    "proxy_request_buffering",
    "proxy_socket_keepalive",
    "proxy_ssl_server_name",
    "proxy_ssl_session_reuse",
    "proxy_ssl_verify",
    "real_ip_recursive",
    "recursive_error_pages",
    "reset_timedout_connection",
    "sendfile",
    "server_name_in_redirect",
    "ssi",
    "ssl_prefer_server_ciphers",
    "ssl_reject_handshake",
    "ssl_session_tickets",
    "ssl_stapling",
    "ssl_stapling_verify",
    "sub_filter_last_modified",
    "sub_filter_once",
    "tcp_nodelay",
    "tcp_nopush",
    "underscores_in_headers",
];

/// Position of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Any,
    /// Counted from 0.
    Only(usize),
    /// This one and those behind it.
    From(usize),
}

use At::{Any, From, Only};

/// Directives, positions, and words.
const WORDS: &[(&str, At, &[&str])] = &[
    ("access_log", Only(0), &["off"]),
    ("add_header", Only(2), &["always"]),
    ("allow", Only(0), &["all", "unix:"]),
    ("auth_basic", Only(0), &["off"]),
    (
        "autoindex_format",
        Only(0),
        &["html", "xml", "json", "jsonp"],
    ),
    ("brotli_static", Only(0), &["on", "off", "always"]),
    ("client_body_in_file_only", Only(0), &["on", "clean", "off"]),
    (
        "dav_methods",
        Any,
        &["off", "PUT", "DELETE", "MKCOL", "COPY", "MOVE"],
    ),
    ("deny", Only(0), &["all", "unix:"]),
    ("disable_symlinks", Only(0), &["on", "off", "if_not_owner"]),
    (
        "error_log",
        Only(1),
        &[
            "debug", "info", "notice", "warn", "error", "crit", "alert", "emerg",
        ],
    ),
    ("expires", Only(0), &["modified", "epoch", "max", "off"]),
    (
        "gzip_proxied",
        Any,
        &[
            "off",
            "expired",
            "no-cache",
            "no-store",
            "private",
            "no_last_modified",
            "no_etag",
            "auth",
            "any",
        ],
    ),
    ("gzip_static", Only(0), &["on", "off", "always"]),
    ("hash", Only(1), &["consistent"]),
    ("if_modified_since", Only(0), &["off", "exact", "before"]),
    ("keepalive_disable", Any, &["none", "msie6", "safari"]),
    (
        "limit_except",
        Any,
        &[
            "GET",
            "HEAD",
            "POST",
            "PUT",
            "DELETE",
            "MKCOL",
            "COPY",
            "MOVE",
            "OPTIONS",
            "PROPFIND",
            "PROPPATCH",
            "LOCK",
            "UNLOCK",
            "PATCH",
        ],
    ),
    (
        "limit_req_log_level",
        Only(0),
        &["info", "notice", "warn", "error"],
    ),
    ("lingering_close", Only(0), &["on", "off", "always"]),
    (
        "listen",
        From(1),
        &[
            "default_server",
            "ssl",
            "http2",
            "quic",
            "proxy_protocol",
            "reuseport",
            "deferred",
            "bind",
            "backlog=",
            "ipv6only=on",
            "ipv6only=off",
        ],
    ),
    ("location", Only(0), &["=", "~", "~*", "^~"]),
    ("proxy_cache", Only(0), &["off"]),
    ("proxy_cache_methods", Any, &["GET", "HEAD", "POST"]),
    ("proxy_cache_use_stale", Any, FAILURES),
    ("proxy_cache_use_stale", Any, &["updating"]),
    ("proxy_http_version", Only(0), &["1.0", "1.1"]),
    ("proxy_ignore_headers", Any, IGNORED_FIELDS),
    ("proxy_next_upstream", Any, FAILURES),
    ("proxy_next_upstream", Any, &["non_idempotent"]),
    ("proxy_redirect", Only(0), &["default", "off"]),
    ("proxy_ssl_protocols", Any, VERSIONS),
    (
        "return",
        Only(0),
        &[
            "200", "204", "301", "302", "303", "307", "308", "400", "401", "403", "404", "405",
            "410", "429", "444", "500", "503",
        ],
    ),
    (
        "rewrite",
        Only(2),
        &["last", "break", "redirect", "permanent"],
    ),
    ("satisfy", Only(0), &["all", "any"]),
    (
        "server",
        From(1),
        &[
            "weight=",
            "max_fails=",
            "fail_timeout=",
            "max_conns=",
            "backup",
            "down",
        ],
    ),
    ("server_tokens", Only(0), &["on", "off", "build"]),
    ("ssl_protocols", Any, VERSIONS),
    (
        "ssl_verify_client",
        Only(0),
        &["on", "off", "optional", "optional_no_ca"],
    ),
    ("valid_referers", Any, &["none", "blocked", "server_names"]),
    ("worker_processes", Only(0), &["auto"]),
];

/// Prefixes of directives that are like those of `proxy_`.
const KIN: &[&str] = &["fastcgi_", "uwsgi_", "scgi_", "grpc_"];

/// Returns true if the one argument of a directive is `on` or `off`.
pub fn is_flag(name: &str) -> bool {
    FLAGS.contains(&name)
}

/// Words that may stand behind these arguments of a directive.
pub fn words(row: &Row, given: &[String]) -> Vec<&'static str> {
    if given.len() >= usize::from(row.arguments_max) {
        return Vec::new();
    }
    let rest = KIN.iter().find_map(|prefix| row.name.strip_prefix(prefix));
    let name = match rest {
        Some(rest) => format!("proxy_{rest}"),
        None => row.name.to_owned(),
    };
    let fits = |at: At| match at {
        Any => true,
        Only(position) => position == given.len(),
        From(position) => position <= given.len(),
    };
    let flags = FLAGS.contains(&name.as_str()).then_some(ON_OFF);
    let others = WORDS
        .iter()
        .filter(|(own, at, _)| *own == name && fits(*at))
        .map(|(_, _, words)| *words);
    flags
        .into_iter()
        .chain(others)
        .flatten()
        .copied()
        .filter(|word| given.iter().all(|have| have != word))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::all;

    #[test]
    fn directives_are_known_and_take_as_many_arguments() {
        for name in FLAGS {
            assert!(all(name).next().is_some(), "{name}");
            assert!(all(name).all(|row| row.takes(1)), "{name}");
            assert!(WORDS.iter().all(|(own, ..)| own != name), "{name}");
        }
        for (name, at, _) in WORDS {
            let position = match at {
                Any => 0,
                Only(position) | From(position) => *position,
            };
            let takes = |row: &Row| usize::from(row.arguments_max) > position;
            assert!(all(name).any(takes), "{name}");
        }
    }
}
