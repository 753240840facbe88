//! Directives of `stream`, and of `mail`, which are known so that the rest of a configuration is
//! checked; that block itself is reported once.

use crate::row::{
    Body, MANY, Row,
    Support::{self, Accepted, Honored, Internal, Refused, Unsupported},
    block,
    contexts::{self, MAIL_SERVER, STREAM_SERVER, STREAM_UPSTREAM},
    plain,
};

const STREAM_ONLY: u32 = contexts::STREAM;
const MAIL_ONLY: u32 = contexts::MAIL;
const SS: u32 = STREAM_ONLY | STREAM_SERVER;
const MS: u32 = MAIL_ONLY | MAIL_SERVER;
const WITH_BLOCK: Support = Accepted("the block that it stands in is reported");
const HASHES: Support = Internal("tables grow as needed");
const SESSIONS: Support = Accepted("sessions are resumed by tickets");
const NO_GEOIP: Support = Unsupported("the variables are unknown; use `geo`");

const fn one(name: &'static str, contexts: u32) -> Row {
    plain(name, contexts, 1, MANY, WITH_BLOCK)
}

/// A directive of `stream` and its servers, with one argument.
const fn both(name: &'static str, support: Support) -> Row {
    plain(name, SS, 1, 1, support)
}

/// The same with one argument or more.
const fn list(name: &'static str, support: Support) -> Row {
    plain(name, SS, 1, MANY, support)
}

pub const STREAM: &[Row] = &[
    block("server", STREAM_ONLY, 0, 0, Body::Block, Honored),
    block("upstream", STREAM_ONLY, 1, 1, Body::Block, Honored),
    plain("server", STREAM_UPSTREAM, 1, MANY, Honored),
    plain("least_conn", STREAM_UPSTREAM, 0, 0, Honored),
    plain("random", STREAM_UPSTREAM, 0, 2, Honored),
    plain("hash", STREAM_UPSTREAM, 1, 2, Honored),
    plain(
        "zone",
        STREAM_UPSTREAM,
        1,
        2,
        Accepted("each worker has its view of the members"),
    ),
    plain(
        "state",
        STREAM_UPSTREAM,
        1,
        1,
        Unsupported("the members are those of the configuration"),
    ),
    plain("resolver", SS | STREAM_UPSTREAM, 1, MANY, Honored),
    plain("resolver_timeout", SS | STREAM_UPSTREAM, 1, 1, Honored),
    plain(
        "least_time",
        STREAM_UPSTREAM,
        1,
        2,
        Accepted("the member with the fewest connections is chosen"),
    ),
    plain("listen", STREAM_SERVER, 1, MANY, Honored),
    plain("server_name", STREAM_SERVER, 1, MANY, Honored),
    list("access_log", Honored),
    plain("log_format", STREAM_ONLY, 2, MANY, Honored),
    list("open_log_file_cache", Internal("log files stay open")),
    both("allow", Honored),
    both("deny", Honored),
    block("map", STREAM_ONLY, 2, 2, Body::Free, Honored),
    plain("map_hash_bucket_size", STREAM_ONLY, 1, 1, HASHES),
    plain("map_hash_max_size", STREAM_ONLY, 1, 1, HASHES),
    block("geo", STREAM_ONLY, 1, 2, Body::Free, Honored),
    plain("geoip_city", STREAM_ONLY, 1, 2, NO_GEOIP),
    plain("geoip_country", STREAM_ONLY, 1, 2, Honored),
    plain("geoip_org", STREAM_ONLY, 1, 2, Honored),
    block("split_clients", STREAM_ONLY, 2, 2, Body::Free, Honored),
    plain("limit_conn", SS, 2, 2, Honored),
    both("limit_conn_dry_run", Honored),
    both("limit_conn_log_level", Honored),
    plain("limit_conn_zone", STREAM_ONLY, 2, 2, Honored),
    plain("pass", STREAM_SERVER, 1, 1, Honored),
    both("preread_buffer_size", Honored),
    both("preread_timeout", Honored),
    plain("proxy_bind", SS, 1, 2, Honored),
    both(
        "proxy_buffer_size",
        Internal("the sessions of a worker share one buffer, and keep what an end does not take"),
    ),
    both("proxy_connect_timeout", Honored),
    both("proxy_download_rate", Honored),
    both("proxy_half_close", Honored),
    both("proxy_next_upstream", Honored),
    both("proxy_next_upstream_timeout", Honored),
    both("proxy_next_upstream_tries", Honored),
    plain("proxy_pass", STREAM_SERVER, 1, 1, Honored),
    both("proxy_protocol", Honored),
    both("proxy_protocol_timeout", Honored),
    both("proxy_requests", Honored),
    both("proxy_responses", Honored),
    both(
        "proxy_session_drop",
        Unsupported("sessions stay with their member until they end"),
    ),
    both("proxy_socket_keepalive", Honored),
    both("proxy_ssl", Honored),
    both("proxy_ssl_certificate", Honored),
    list(
        "proxy_ssl_certificate_cache",
        Internal("certificates are read when the configuration is"),
    ),
    both("proxy_ssl_certificate_key", Honored),
    both("proxy_ssl_ciphers", Honored),
    plain("proxy_ssl_conf_command", SS, 2, 2, Honored),
    both("proxy_ssl_crl", Honored),
    both(
        "proxy_ssl_key_log",
        Unsupported("keys of sessions are not logged"),
    ),
    both("proxy_ssl_name", Honored),
    both("proxy_ssl_password_file", Honored),
    list("proxy_ssl_protocols", Honored),
    both("proxy_ssl_server_name", Honored),
    both("proxy_ssl_session_reuse", Honored),
    both("proxy_ssl_trusted_certificate", Honored),
    both("proxy_ssl_verify", Honored),
    both("proxy_ssl_verify_depth", Honored),
    both("proxy_timeout", Honored),
    both("proxy_upload_rate", Honored),
    plain("return", STREAM_SERVER, 1, 1, Honored),
    plain("server_names_hash_bucket_size", STREAM_ONLY, 1, 1, HASHES),
    plain("server_names_hash_max_size", STREAM_ONLY, 1, 1, HASHES),
    plain("set", STREAM_SERVER, 2, 2, Honored),
    both("set_real_ip_from", Honored),
    list("ssl_alpn", Honored),
    both("ssl_certificate", Honored),
    list(
        "ssl_certificate_cache",
        Internal("certificates are read when the configuration is"),
    ),
    both(
        "ssl_certificate_compression",
        Accepted("certificates are sent as they are"),
    ),
    both("ssl_certificate_key", Honored),
    both("ssl_ciphers", Honored),
    both("ssl_client_certificate", Honored),
    plain("ssl_conf_command", SS, 2, 2, Honored),
    both("ssl_crl", Honored),
    both("ssl_dhparam", Accepted("key exchange uses elliptic curves")),
    both(
        "ssl_ech_file",
        Unsupported("client hellos are not encrypted"),
    ),
    both("ssl_ecdh_curve", Honored),
    both("ssl_handshake_timeout", Honored),
    both(
        "ssl_key_log",
        Unsupported("keys of sessions are not logged"),
    ),
    both(
        "ssl_ocsp",
        Refused("certificates of clients are not checked by OCSP"),
    ),
    list(
        "ssl_ocsp_cache",
        Accepted("it has no effect without `ssl_ocsp`"),
    ),
    both(
        "ssl_ocsp_responder",
        Accepted("it has no effect without `ssl_ocsp`"),
    ),
    both("ssl_password_file", Honored),
    both("ssl_prefer_server_ciphers", Honored),
    both("ssl_preread", Honored),
    list("ssl_protocols", Honored),
    both("ssl_reject_handshake", Honored),
    list("ssl_session_cache", SESSIONS),
    both("ssl_session_ticket_key", Honored),
    both("ssl_session_tickets", Honored),
    both("ssl_session_timeout", Honored),
    both("ssl_stapling", Honored),
    both("ssl_stapling_file", Honored),
    both("ssl_stapling_responder", Honored),
    both(
        "ssl_stapling_verify",
        Accepted("responses are always verified"),
    ),
    both("ssl_trusted_certificate", Honored),
    both("ssl_verify_client", Honored),
    both("ssl_verify_depth", Honored),
    both("tcp_nodelay", Accepted("nothing is held back")),
    plain("variables_hash_bucket_size", STREAM_ONLY, 1, 1, HASHES),
    plain("variables_hash_max_size", STREAM_ONLY, 1, 1, HASHES),
];

pub const MAIL: &[Row] = &[
    block("server", MAIL_ONLY, 0, 0, Body::Block, WITH_BLOCK),
    one("auth_http", MS),
    one("auth_http_header", MS),
    one("auth_http_pass_client_cert", MS),
    one("auth_http_timeout", MS),
    one("imap_auth", MS),
    one("imap_capabilities", MS),
    one("imap_client_buffer", MS),
    one("listen", MAIL_SERVER),
    one("max_errors", MS),
    one("pop3_auth", MS),
    one("pop3_capabilities", MS),
    one("protocol", MAIL_SERVER),
    one("proxy", MAIL_SERVER),
    one("proxy_buffer", MS),
    one("proxy_pass_error_message", MS),
    one("proxy_protocol", MS),
    one("proxy_smtp_auth", MS),
    one("proxy_timeout", MS),
    one("resolver", MS),
    one("resolver_timeout", MS),
    one("server_name", MS),
    one("set_real_ip_from", MS),
    one("smtp_auth", MS),
    one("smtp_capabilities", MS),
    one("smtp_client_buffer", MS),
    one("smtp_greeting_delay", MS),
    one("ssl", MS),
    one("ssl_certificate", MS),
    one("ssl_certificate_key", MS),
    one("ssl_ciphers", MS),
    one("ssl_client_certificate", MS),
    one("ssl_conf_command", MS),
    one("ssl_crl", MS),
    one("ssl_dhparam", MS),
    one("ssl_ecdh_curve", MS),
    one("ssl_password_file", MS),
    one("ssl_prefer_server_ciphers", MS),
    one("ssl_protocols", MS),
    one("ssl_session_cache", MS),
    one("ssl_session_ticket_key", MS),
    one("ssl_session_tickets", MS),
    one("ssl_session_timeout", MS),
    one("ssl_trusted_certificate", MS),
    one("ssl_verify_client", MS),
    one("ssl_verify_depth", MS),
    one("starttls", MS),
    one("timeout", MS),
    one("xclient", MS),
];
