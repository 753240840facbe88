//! `[limits]`.

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
        summary: "Connections of all workers together. At the limit accepting pauses.",
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
        summary: "Connections of one client address; further ones are closed at once. 0: no limit.",
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
        summary: "Requests on one connection; the last answer closes it. 0: no limit.",
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
        summary: "Request line and header fields together; more is answered with 431, a longer request line with 414.",
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
        summary: "Header fields of a request; more are answered with 431.",
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
        summary: "Body of a request; more is answered with 413. 0: no limit. A site or route may set its own.",
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
        summary: "On disk (in files without a name in the folder for temporary files) for clients that are slower than programs: responses \
                  beyond `buffer` of an upstream, requests that are read ahead. At the limit, or where the disk is nearly full, programs \
                  wait for their clients, and content of unknown length that a program needs whole is answered with 503. Requests get half of it; \
                  one of unknown length that is longer is answered with 411. 0: nothing.",
        since: "0.9",
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
        summary: "The same of responses for one client address (IPv6: /64).",
        since: "0.9",
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
        summary: "From the first byte of a request to the end of its head; then 408.",
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
        summary: "Between two pieces of a request body; then 408.",
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
        summary: "Between two requests of a connection, and before its first.",
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
        summary: "Between two moments at which the client takes part of a response.",
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
        summary: "From the first byte of a TLS connection to the end of its handshake; then it is closed.",
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
        summary: "Requests that run at the same time on one HTTP/2 or HTTP/3 connection; further ones are refused, to be tried again, or wait.",
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
        summary: "Requests that a client may take back in ten seconds on one HTTP/2 connection; with more the connection ends.",
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
        summary: "PING frames from a client in ten seconds on one connection; with more the connection ends.",
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
        summary: "SETTINGS frames from a client in ten seconds on one connection; with more the connection ends.",
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
        summary: "CONTINUATION frames of one request's header fields; with more the connection ends. The fields themselves are bounded by \
                  `head_size` and `header_count`.",
        aliases: &["http2_continuations_max"],
        set: |limits, given| limits.http2_continuations_max = given.number(),
        ..Row::BASE
    },
];
