//! `[limits]`: limits on clients. 0 means "no limit" where the field says so.
//!
//! Called by: the protocol drivers and the accept path.
//! Caveat: each limit names the status that clients get beyond it.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of all workers together; accepting pauses at the limit.
    pub connections_max: u64,
    /// 0: no limit. Further connections are closed at once.
    pub connections_per_address_max: u64,
    /// Concurrent requests of all workers together; others wait. 0: no limit. Set by Apache's
    /// configuration only.
    pub requests_at_a_time_max: u64,
    /// 0: no limit. The last response has `Connection: close`.
    pub requests_per_connection_max: u64,
    /// Age from which a connection serves no request but the one that finds it out; 0: no limit.
    pub connection_age_ms_max: u64,
    /// Request line and fields together. 431 (414 if the request line alone is too long).
    pub head_bytes_max: u64,
    /// 431.
    pub header_count_max: u64,
    /// Request line. 414. 0: a quarter of the header.
    pub request_line_bytes_max: u64,
    /// One field line of HTTP/1. 431. 0: limited by the header size only.
    pub field_bytes_max: u64,
    /// Fields beyond the limits are a bad request over HTTP/1 (400 in place of 431), as in Apache.
    pub fields_are_bad_requests: bool,
    /// Requests that are refused by their heads or their content get the page of the rules, as in
    /// nginx. Set by nginx's configuration only.
    pub refusals_have_pages: bool,
    /// A client that is too slow with a head or its content gets no 408: its connection is closed, and
    /// the head's time is that for the first request, too, as in nginx. Set by nginx's configuration
    /// only.
    pub timeouts_are_silent: bool,
    /// Expectations other than `100-continue` are ignored in place of 417, as in nginx.
    pub ignores_expectations: bool,
    /// `100 Continue` is sent even if content has come by then (RFC 9110 section 10.1.1 allows to omit
    /// it). Set by nginx's configuration only.
    pub always_continues: bool,
    /// Limits of HTTP/2 and HTTP/3 are counted as by Apache's mod_http2: the number of requests per
    /// connection is HTTP/1's alone, Host is no field, and the request line is the path.
    pub counts_as_mod_http2: bool,
    /// A Host over HTTP/2 that differs from `:authority` is dropped, as in Apache; the request is
    /// malformed otherwise.
    pub authority_replaces_host: bool,
    /// Responses say that the connection stays in HTTP/1.1, too, as nginx does.
    pub says_keep_alive: bool,
    /// Heads over HTTP/1 that are not strict, but may be rewritten as strict ones.
    pub repaired_heads: RepairedHeads,
    /// 0: no limit. 413.
    pub body_bytes_max: u64,
    /// Disk space for buffering between slow clients and backends, in total, and of the responses
    /// to one client address.
    pub buffer_file_bytes_max: u64,
    pub buffer_file_bytes_per_address_max: u64,
    /// From the first byte of a request to the end of its header. 408.
    pub head_timeout_ms: u64,
    /// Between two reads of a body. 408.
    pub body_timeout_ms: u64,
    /// Time for a whole body, extended by each read according to the minimum rate. 408. 0: no
    /// limit.
    pub body_time_ms: u64,
    /// Minimum rate; 0: the time is not extended.
    pub body_bytes_per_s_min: u64,
    /// Between two requests (and before the first).
    pub keep_alive_timeout_ms: u64,
    /// Between two successful writes of a response.
    pub write_timeout_ms: u64,
    /// From the first byte of a TLS connection to the end of its handshake.
    pub tls_handshake_timeout_ms: u64,
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    pub http2_streams_max: u64,
    /// Flow control window of a stream. 0: the default. Set by Apache's configuration only.
    pub http2_window_bytes: u64,
    /// Streams reset by the client within [`Limits::HTTP2_WINDOW_MS`]. Beyond: ENHANCE_YOUR_CALM,
    /// as for the next two.
    pub http2_resets_max: u64,
    pub http2_pings_max: u64,
    pub http2_settings_max: u64,
    /// CONTINUATION frames per header block.
    pub http2_continuations_max: u64,
}

impl Limits {
    /// Window in which resets, pings and settings are counted.
    pub const HTTP2_WINDOW_MS: u64 = 10_000;
}

/// Request heads that are rewritten instead of refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RepairedHeads {
    #[default]
    None,
    /// Those with folded lines (RFC 9112 section 5.2), as in Apache.
    Folded,
    /// Others, too (Apache's `HttpProtocolOptions Unsafe`).
    Unsafe,
    /// Those with lines that end with a bare LF, as in nginx.
    LineFeeds,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 65_536,
            connections_per_address_max: 0,
            requests_at_a_time_max: 0,
            requests_per_connection_max: 0,
            connection_age_ms_max: 0,
            head_bytes_max: 32 << 10,
            header_count_max: 100,
            request_line_bytes_max: 0,
            field_bytes_max: 0,
            fields_are_bad_requests: false,
            refusals_have_pages: false,
            timeouts_are_silent: false,
            ignores_expectations: false,
            always_continues: false,
            counts_as_mod_http2: false,
            authority_replaces_host: false,
            says_keep_alive: false,
            repaired_heads: RepairedHeads::None,
            body_bytes_max: 1 << 30,
            buffer_file_bytes_max: 2 << 30,
            buffer_file_bytes_per_address_max: 64 << 20,
            head_timeout_ms: 15_000,
            body_timeout_ms: 60_000,
            body_time_ms: 0,
            body_bytes_per_s_min: 0,
            keep_alive_timeout_ms: 30_000,
            write_timeout_ms: 60_000,
            tls_handshake_timeout_ms: 10_000,
            http2_streams_max: 100,
            http2_window_bytes: 0,
            http2_resets_max: 1000,
            http2_pings_max: 100,
            http2_settings_max: 20,
            http2_continuations_max: 16,
        }
    }
}
