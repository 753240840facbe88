//! `[limits]`: limits on clients.
//!
//! Called by: `file`.
//! Out of scope: limits per client address that lead to bans (`abuse`), and rates (`throttle`).

use crate::{
    context::LIMITS,
    kind::Kind,
    model::Limits,
    row::{Draft, Row, Rows},
};

const DAY_MS: u64 = 86_400_000;

impl Draft for Limits {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }
}

pub const ROWS: &[Row<Limits>] = &[
    Row {
        name: "connections",
        contexts: LIMITS,
        kind: Kind::Integer {
            min: 1,
            max: 100_000_000,
        },
        default: Some("65536"),
        summary: "Maximum number of connections of all workers together. At the limit the server \
                  stops accepting until a connection closes.",
        apache: Some("MaxRequestWorkers, ServerLimit"),
        aliases: &["worker_connections", "max_clients"],
        set: |limits, given| limits.connections_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "connections_per_address",
        contexts: LIMITS,
        kind: Kind::Integer {
            min: 0,
            max: 100_000_000,
        },
        default: Some("0"),
        summary: "Maximum number of connections per client address; further ones are closed at \
                  once. 0: no limit.",
        aliases: &["limit_conn"],
        set: |limits, given| limits.connections_per_address_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "requests_per_connection",
        contexts: LIMITS,
        kind: Kind::Integer {
            min: 0,
            max: 1_000_000_000,
        },
        default: Some("0"),
        summary: "Maximum number of requests per connection; the last response closes it. 0: no \
                  limit.",
        apache: Some("MaxKeepAliveRequests"),
        aliases: &["keepalive_requests"],
        set: |limits, given| limits.requests_per_connection_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "head_size",
        contexts: LIMITS,
        kind: Kind::Bytes {
            min: 1024,
            max: 1 << 20,
        },
        default: Some("\"32KiB\""),
        unit: Some("bytes"),
        summary: "Maximum size of the request line and header fields together; larger requests get \
                  431, a longer request line 414.",
        apache: Some("LimitRequestLine, LimitRequestFieldSize"),
        aliases: &[
            "large_client_header_buffers",
            "client_header_buffer_size",
            "header_size",
        ],
        set: |limits, given| limits.head_bytes_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "header_count",
        contexts: LIMITS,
        kind: Kind::Integer { min: 1, max: 1000 },
        default: Some("100"),
        summary: "Maximum number of header fields in a request; more get 431.",
        apache: Some("LimitRequestFields"),
        set: |limits, given| limits.header_count_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "body_size",
        contexts: LIMITS,
        kind: Kind::Bytes {
            min: 0,
            max: 1 << 50,
        },
        default: Some("\"1GiB\""),
        unit: Some("bytes"),
        summary: "Maximum size of a request body; larger ones get 413. 0: no limit. Sites and \
                  routes may override it.",
        apache: Some("LimitRequestBody"),
        aliases: &["client_max_body_size", "max_body_size"],
        set: |limits, given| limits.body_bytes_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "buffer_files",
        contexts: LIMITS,
        kind: Kind::Bytes {
            min: 0,
            max: 1 << 50,
        },
        default: Some("\"2GiB\""),
        unit: Some("bytes"),
        summary: "Disk space (unnamed files in the directory for temporary files) for buffering \
                  between slow clients and backends: responses beyond `buffer` of an upstream, and \
                  request bodies that are read in advance. At the limit, or when the disk is \
                  nearly full, backends wait for their clients, and a request body of unknown \
                  length that a program needs as a whole gets 503. Request bodies may use half of \
                  the space; one of unknown length that exceeds this gets 411. 0: none.",
        since: "0.2",
        set: |limits, given| limits.buffer_file_bytes_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "buffer_files_per_address",
        contexts: LIMITS,
        kind: Kind::Bytes {
            min: 0,
            max: 1 << 50,
        },
        default: Some("\"64MiB\""),
        unit: Some("bytes"),
        summary: "Limit of `buffer_files` for the responses to one client address (IPv6: /64).",
        since: "0.2",
        set: |limits, given| limits.buffer_file_bytes_per_address_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "head_timeout",
        contexts: LIMITS,
        kind: Kind::Duration {
            min_ms: 100,
            max_ms: DAY_MS,
        },
        default: Some("\"15s\""),
        summary: "Maximum time from the first byte of a request to the end of its header; then \
                  408.",
        apache: Some("RequestReadTimeout"),
        aliases: &["client_header_timeout"],
        set: |limits, given| limits.head_timeout_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "body_timeout",
        contexts: LIMITS,
        kind: Kind::Duration {
            min_ms: 100,
            max_ms: DAY_MS,
        },
        default: Some("\"1m\""),
        summary: "Maximum time between two reads of a request body; then 408.",
        apache: Some("Timeout"),
        aliases: &["client_body_timeout"],
        set: |limits, given| limits.body_timeout_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "keep_alive_timeout",
        contexts: LIMITS,
        kind: Kind::Duration {
            min_ms: 100,
            max_ms: DAY_MS,
        },
        default: Some("\"30s\""),
        summary: "Maximum idle time between two requests on a connection, and before the first.",
        apache: Some("KeepAliveTimeout"),
        set: |limits, given| limits.keep_alive_timeout_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "write_timeout",
        contexts: LIMITS,
        kind: Kind::Duration {
            min_ms: 100,
            max_ms: DAY_MS,
        },
        default: Some("\"1m\""),
        summary: "Maximum time between two successful writes to the client.",
        apache: Some("Timeout"),
        aliases: &["send_timeout"],
        set: |limits, given| limits.write_timeout_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "tls_handshake_timeout",
        contexts: LIMITS,
        kind: Kind::Duration {
            min_ms: 100,
            max_ms: DAY_MS,
        },
        default: Some("\"10s\""),
        summary: "Maximum time from the first byte of a TLS connection to the end of the \
                  handshake; then the connection is closed.",
        apache: Some("RequestReadTimeout"),
        aliases: &["handshake_timeout", "ssl_handshake_timeout"],
        set: |limits, given| limits.tls_handshake_timeout_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "http2_streams",
        contexts: LIMITS,
        kind: Kind::Integer {
            min: 1,
            max: 10_000,
        },
        default: Some("100"),
        summary: "Maximum number of concurrent streams on an HTTP/2 or HTTP/3 connection; further \
                  requests are refused (the client may retry) or wait.",
        apache: Some("H2MaxSessionStreams"),
        aliases: &[
            "http2_max_concurrent_streams",
            "max_concurrent_streams",
            "http2_streams_max",
        ],
        set: |limits, given| limits.http2_streams_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "http2_resets",
        contexts: LIMITS,
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000,
        },
        default: Some("1000"),
        summary: "Maximum number of streams that a client may reset within ten seconds on an \
                  HTTP/2 connection; more close the connection.",
        aliases: &["http2_resets_max", "http2_max_resets"],
        set: |limits, given| limits.http2_resets_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "http2_pings",
        contexts: LIMITS,
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000,
        },
        default: Some("100"),
        summary: "Maximum number of PING frames from a client within ten seconds on a connection; \
                  more close the connection.",
        aliases: &["http2_pings_max", "http2_max_pings"],
        set: |limits, given| limits.http2_pings_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "http2_settings",
        contexts: LIMITS,
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000,
        },
        default: Some("20"),
        summary: "Maximum number of SETTINGS frames from a client within ten seconds on a \
                  connection; more close the connection.",
        aliases: &["http2_settings_max", "http2_max_settings"],
        set: |limits, given| limits.http2_settings_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "http2_continuations",
        contexts: LIMITS,
        kind: Kind::Integer {
            min: 0,
            max: 10_000,
        },
        default: Some("16"),
        summary: "Maximum number of CONTINUATION frames per request; more close the connection. \
                  The header fields themselves are limited by `head_size` and `header_count`.",
        aliases: &["http2_continuations_max"],
        set: |limits, given| limits.http2_continuations_max = given.number(),
        ..Row::BASE
    },
];
