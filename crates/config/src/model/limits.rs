//! `[limits]`: named bounds on what clients may cost. 0 stands for "no limit" where the field says so.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// In all workers together; accepting pauses at the limit.
    pub connections_max: u64,
    /// 0: no limit. Further ones are closed at once.
    pub connections_per_address_max: u64,
    /// 0: no limit. The last response says `Connection: close`.
    pub requests_per_connection_max: u64,
    /// Request line and fields together. 431 (414 where the request line alone is too long).
    pub head_bytes_max: u64,
    /// 431.
    pub header_count_max: u64,
    /// 0: no limit. 413.
    pub body_bytes_max: u64,
    /// From the first byte of a request to the end of its head. 408.
    pub head_timeout_ms: u64,
    /// Between two reads of a body. 408.
    pub body_timeout_ms: u64,
    /// Between two requests (and before the first).
    pub keep_alive_timeout_ms: u64,
    /// Between two successful writes of a response.
    pub write_timeout_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 65_536,
            connections_per_address_max: 0,
            requests_per_connection_max: 0,
            head_bytes_max: 32 << 10,
            header_count_max: 100,
            body_bytes_max: 1 << 30,
            head_timeout_ms: 15_000,
            body_timeout_ms: 60_000,
            keep_alive_timeout_ms: 30_000,
            write_timeout_ms: 60_000,
        }
    }
}
