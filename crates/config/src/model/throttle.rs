//! Throttling: bandwidth and request rates. Absent means no limit and no cost.

/// Bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub bytes_per_s: u64,
    /// May be sent at once after a pause.
    pub burst_bytes: u64,
    /// Of each response (or request body), this much is not counted.
    pub after_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// 429 with Retry-After.
    Refuse,
    /// Wait until it fits; at most this long, else refuse.
    Delay { at_most_ms: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRate {
    /// Requests in 1000 seconds, so that "30 per minute" is exact: 500.
    pub per_1000_s: u64,
    pub burst: u64,
    pub excess: Excess,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Throttle {
    pub out_connection: Option<Rate>,
    pub out_address: Option<Rate>,
    pub out_site: Option<Rate>,
    pub in_connection: Option<Rate>,
    pub in_address: Option<Rate>,
    pub in_site: Option<Rate>,
    /// Per client address, answered from files or by fixed rules.
    pub static_requests: Option<RequestRate>,
    /// Per client address, answered by a program behind us.
    pub dynamic_requests: Option<RequestRate>,
}

impl Throttle {
    /// No limit at all.
    pub fn is_idle(&self) -> bool {
        *self == Throttle::default()
    }

    /// Any limit on bytes that go out.
    pub fn limits_out(&self) -> bool {
        self.out_connection.is_some() || self.out_address.is_some() || self.out_site.is_some()
    }
}
