//! `[limits]`: named bounds on what clients may cost. 0 stands for "no limit" where the field says
//! so.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// In all workers together; accepting pauses at the limit.
    pub connections_max: u64,
    /// 0: no limit. Further ones are closed at once.
    pub connections_per_address_max: u64,
    /// Requests that are worked on at a time, in all workers together; others wait. 0: no limit.
    /// Only Apache's configuration has such.
    pub requests_at_a_time_max: u64,
    /// 0: no limit. The last response says `Connection: close`.
    pub requests_per_connection_max: u64,
    /// Request line and fields together. 431 (414 where the request line alone is too long).
    pub head_bytes_max: u64,
    /// 431.
    pub header_count_max: u64,
    /// Request line. 414. 0: a quarter of the head.
    pub request_line_bytes_max: u64,
    /// One field line, of HTTP/1. 431. 0: as much as fits into the head.
    pub field_bytes_max: u64,
    /// 0: no limit. 413.
    pub body_bytes_max: u64,
    /// On disk for clients that are slower than programs, of all of them; and of responses for one
    /// client address.
    pub buffer_file_bytes_max: u64,
    pub buffer_file_bytes_per_address_max: u64,
    /// From the first byte of a request to the end of its head. 408.
    pub head_timeout_ms: u64,
    /// Between two reads of a body. 408.
    pub body_timeout_ms: u64,
    /// A whole body; with each piece it is put off by as long as that would take at the least rate.
    /// 408. 0: no limit.
    pub body_time_ms: u64,
    /// 0: nothing puts it off.
    pub body_bytes_per_s_min: u64,
    /// Between two requests (and before the first).
    pub keep_alive_timeout_ms: u64,
    /// Between two successful writes of a response.
    pub write_timeout_ms: u64,
    /// From the first byte of a TLS connection to the end of its handshake.
    pub tls_handshake_timeout_ms: u64,
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    pub http2_streams_max: u64,
    /// Content that a client may send ahead on one stream. 0: our own choice. Only Apache's
    /// configuration has such.
    pub http2_window_bytes: u64,
    /// Streams that a client resets, in [`Limits::HTTP2_WINDOW_MS`]. Beyond: ENHANCE_YOUR_CALM, as
    /// for the next two.
    pub http2_resets_max: u64,
    pub http2_pings_max: u64,
    pub http2_settings_max: u64,
    /// CONTINUATION frames of one header block.
    pub http2_continuations_max: u64,
}

impl Limits {
    /// The time in which resets, pings and settings are counted.
    pub const HTTP2_WINDOW_MS: u64 = 10_000;
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 65_536,
            connections_per_address_max: 0,
            requests_at_a_time_max: 0,
            requests_per_connection_max: 0,
            head_bytes_max: 32 << 10,
            header_count_max: 100,
            request_line_bytes_max: 0,
            field_bytes_max: 0,
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
