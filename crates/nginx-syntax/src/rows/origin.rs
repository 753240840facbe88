//! Directives that are not in nginx's own open-source http and stream modules.
//!
//! Called by: the reference page, which counts them apart.
//! Caveat: by nginx's documentation; a name stands for all of its rows.

/// Names of the commercial subscription.
pub const COMMERCIAL: &[&str] = &[
    "auth_jwt",
    "fastcgi_allow_upstream",
    "fastcgi_cache_purge",
    "fastcgi_request_dynamic",
    "grpc_allow_upstream",
    "grpc_ssl_key_log",
    "hls",
    "least_time",
    "ntlm",
    "proxy_allow_upstream",
    "proxy_cache_purge",
    "proxy_request_dynamic",
    "proxy_session_drop",
    "proxy_ssl_key_log",
    "queue",
    "scgi_allow_upstream",
    "scgi_cache_purge",
    "scgi_request_dynamic",
    "ssl_key_log",
    "state",
    "sticky_cookie_insert",
    "uwsgi_allow_upstream",
    "uwsgi_cache_purge",
    "uwsgi_request_dynamic",
    "uwsgi_ssl_key_log",
];

/// Names of modules that are released apart from nginx.
pub const APART: &[&str] = &[
    "acme_certificate",
    "acme_issuer",
    "acme_shared_zone",
    "brotli",
    "brotli_buffers",
    "brotli_comp_level",
    "brotli_min_length",
    "brotli_static",
    "brotli_types",
    "brotli_window",
    "more_clear_headers",
    "more_clear_input_headers",
    "more_set_headers",
    "more_set_input_headers",
    "otel_exporter",
    "zstd",
    "zstd_buffers",
    "zstd_comp_level",
    "zstd_min_length",
    "zstd_static",
    "zstd_types",
];

/// Names of nginx before 1.31.
pub const REMOVED: &[&str] = &["limit_zone", "ssl"];

/// The module with the directives of `mail`.
pub const MAIL: &str = "mail";
