//! Throttling: bandwidth, rates of requests, and how many are worked on at a time. Absent means no
//! limit and no cost.

use super::{Consequence, HostAccounts};

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
    /// One response; by what it is, never by what is configured.
    pub out_response: Option<Rate>,
    pub in_connection: Option<Rate>,
    pub in_address: Option<Rate>,
    pub in_site: Option<Rate>,
    /// Per client address, answered from files or by fixed rules.
    pub static_requests: Option<RequestRate>,
    /// Per client address, answered by a program behind us.
    pub dynamic_requests: Option<RequestRate>,
    /// Of all clients of the site together.
    pub site_requests: Option<RequestRate>,
    /// Requests that are being answered; 0: no limit, as for all of these.
    pub at_a_time_address: u64,
    pub at_a_time_site: u64,
    /// Those that a program answers.
    pub dynamic_at_a_time_address: u64,
    pub dynamic_at_a_time_site: u64,
    /// Further ones of those that wait, of the whole site.
    pub dynamic_queue_max: u64,
    /// How long one waits at most; 0: [`Throttle::QUEUE_MS`].
    pub dynamic_queue_ms: u64,
    /// What those meet that are over a limit; `None`: 429, or 503 where it is the site's.
    pub over: Option<Consequence>,
    /// What is charged in the place of the site, for one of its many hosts.
    pub host: Option<HostAccounts>,
}

impl Throttle {
    /// How long a request waits for its turn where nothing is said.
    pub const QUEUE_MS: u64 = 10_000;

    /// No limit at all.
    pub fn is_idle(&self) -> bool {
        *self == Throttle::default()
    }

    /// Whether requests are counted while they are answered.
    pub fn counts(&self) -> bool {
        self.at_a_time_address != 0 || self.at_a_time_site != 0
    }

    /// Whether those are that programs answer.
    pub fn counts_dynamic(&self) -> bool {
        self.dynamic_at_a_time_address != 0 || self.dynamic_at_a_time_site != 0
    }

    /// Any limit on bytes that go out.
    pub fn limits_out(&self) -> bool {
        self.out_connection.is_some()
            || self.out_address.is_some()
            || self.out_site.is_some()
            || self.out_response.is_some()
    }
}
