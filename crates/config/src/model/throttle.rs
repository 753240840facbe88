//! Bandwidth limits, request rate limits and concurrency limits. `None` means no limit and no cost.
//!
//! Called by: `throttle` of the pipeline.
//! Out of scope: the keys (`directives/throttle`) and accounts (`account`).

use super::{Consequence, HostAccounts, Origin, Template};

/// A bandwidth limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub bytes_per_s: u64,
    /// Bytes that may be sent at once after a pause.
    pub burst_bytes: u64,
    /// Bytes at the start of each response or request body that are not counted.
    pub after_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// 429 with Retry-After.
    Refuse,
    /// Waits, at most this long; otherwise refused.
    Delay { at_most_ms: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRate {
    /// Requests per 1000 seconds, so that "30 per minute" is exact: 500.
    pub per_1000_s: u64,
    pub burst: u64,
    pub excess: Excess,
}

/// Limits of the requests that have the same value of a key. Requests without a value are not
/// limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLimit {
    /// As written.
    pub said: Box<str>,
    pub key: Template,
    pub origin: Origin,
    pub requests: Option<RequestRate>,
    /// Concurrent requests; 0: no limit.
    pub at_a_time: u64,
}

impl KeyLimit {
    /// Returns true if the key is unknown before access has been decided.
    pub fn is_of_user(&self) -> bool {
        self.key.uses_user()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Throttle {
    pub out_connection: Option<Rate>,
    pub out_address: Option<Rate>,
    pub out_site: Option<Rate>,
    /// Rate of one response, set by its content and never by the configuration.
    pub out_response: Option<Rate>,
    /// Rate of each response by itself, a second's worth for each second that has begun, as nginx
    /// grants it.
    pub out_by_seconds: Option<Rate>,
    pub in_connection: Option<Rate>,
    pub in_address: Option<Rate>,
    pub in_site: Option<Rate>,
    /// Per client address, answered from files or by fixed rules.
    pub static_requests: Option<RequestRate>,
    /// Per client address, answered by a program or upstream.
    pub dynamic_requests: Option<RequestRate>,
    /// Request rate of all clients of the site together.
    pub site_requests: Option<RequestRate>,
    /// Limits by a part of the request, such as an API key.
    pub by_key: Vec<KeyLimit>,
    /// Concurrent requests; 0: no limit, as for all of these.
    pub at_a_time_address: u64,
    pub at_a_time_site: u64,
    /// Concurrent requests that programs answer.
    pub dynamic_at_a_time_address: u64,
    pub dynamic_at_a_time_site: u64,
    /// Further requests that wait, of the whole site.
    pub dynamic_queue_max: u64,
    /// Maximum time in the queue; 0: [`Throttle::QUEUE_MS`].
    pub dynamic_queue_ms: u64,
    /// Action on requests that exceed a limit; `None`: 429, or 503 if it is the site's limit.
    pub over: Option<Consequence>,
    /// Accounts charged instead of the site's, for one of its many hosts.
    pub host: Option<HostAccounts>,
}

impl Throttle {
    /// Default of the maximum time in the queue.
    pub const QUEUE_MS: u64 = 10_000;

    /// No limits. Asked for each request that is dispatched.
    pub fn is_idle(&self) -> bool {
        let limits_requests = self.static_requests.is_some()
            || self.dynamic_requests.is_some()
            || self.site_requests.is_some()
            || !self.by_key.is_empty();
        !limits_requests
            && !self.limits_out()
            && !self.limits_in()
            && !self.counts()
            && !self.counts_dynamic()
    }

    /// Returns whether concurrent requests are limited.
    #[inline]
    pub fn counts(&self) -> bool {
        self.at_a_time_address != 0 || self.at_a_time_site != 0
    }

    /// Returns whether concurrent requests to programs are limited.
    pub fn counts_dynamic(&self) -> bool {
        self.dynamic_at_a_time_address != 0 || self.dynamic_at_a_time_site != 0
    }

    /// Returns whether any limit on sent bytes is set.
    #[inline]
    pub fn limits_out(&self) -> bool {
        self.out_connection.is_some()
            || self.out_address.is_some()
            || self.out_site.is_some()
            || self.out_response.is_some()
            || self.out_by_seconds.is_some()
    }

    /// Returns whether any limit on received bytes is set.
    pub fn limits_in(&self) -> bool {
        self.in_connection.is_some() || self.in_address.is_some() || self.in_site.is_some()
    }
}
