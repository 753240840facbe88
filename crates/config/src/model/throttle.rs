//! Bandwidth limits, request rate limits and concurrency limits. `None` means no limit and no cost.
//!
//! Called by: `throttle` of the pipeline.
//! Out of scope: the keys (`directives/throttle`) and accounts (`account`).

use super::{Consequence, HostAccounts, Origin, Template};
use std::fmt;

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

/// Limits whose usage is counted by the place that sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LimitKind {
    StaticRequests,
    DynamicRequests,
    OutAddress,
    InAddress,
    AtATimeAddress,
    ProgramsAddress,
    SiteRequests,
    AtATimeSite,
    ProgramsSite,
    Key,
}

impl LimitKind {
    /// Fits in the bits that [`LimitName`] has for it.
    pub const COUNT: usize = 10;
}

/// Hash of texts that stays the same over restarts, and on all servers.
pub fn limit_number(parts: &[&[u8]]) -> u32 {
    // FNV-1a.
    let bytes = parts.iter().copied().flatten();
    bytes.fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// Name of a limit: its kind, its site, and the place that sets it. Requests that are under the same
/// limit share accounts; those under different ones do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LimitName(u64);

impl LimitName {
    const KIND_BITS: u64 = 0xf;

    #[inline]
    pub fn new(kind: LimitKind, site: u32, place: LimitPlace) -> LimitName {
        let low = u64::from(place.0) & !LimitName::KIND_BITS | kind as u64;
        LimitName(u64::from(site) << 32 | low)
    }

    /// The name as another process or server knows it.
    pub fn number(self) -> u64 {
        self.0
    }

    pub fn from_number(number: u64) -> LimitName {
        LimitName(number)
    }

    /// Index of the kind; of one that other versions have, any.
    pub fn kind_index(self) -> usize {
        (self.0 & LimitName::KIND_BITS) as usize % LimitKind::COUNT
    }
}

/// Number of a place that sets limits; 0: none in particular, which is the same for all sites.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct LimitPlace(pub u32);

/// Says nothing, because models of the same meaning have other places.
impl fmt::Debug for LimitPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// Places that set limits, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitPlaces([LimitPlace; LimitKind::COUNT]);

impl LimitPlaces {
    pub fn set(&mut self, kind: LimitKind, place: LimitPlace) {
        self.0[kind as usize] = place;
    }
}

/// Number of a place in the configuration. The folder of its file does not matter, which may differ
/// between the servers of a cluster.
pub fn limit_place(origin: &Origin) -> LimitPlace {
    let file = origin.file.rsplit('/').next().unwrap_or_default();
    let (line, column) = (origin.line.to_le_bytes(), origin.column.to_le_bytes());
    LimitPlace(limit_number(&[file.as_bytes(), &line, &column]))
}

/// Limits of the requests that have the same value of a key. Requests without a value are not
/// limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLimit {
    /// As written.
    pub said: Box<str>,
    pub key: Template,
    pub origin: Origin,
    /// As of [`limit_place`].
    pub place: LimitPlace,
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
    /// Per client address, whatever answers.
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
    /// Places that set the limits above.
    pub places: LimitPlaces,
}

impl Throttle {
    /// Default of the maximum time in the queue.
    pub const QUEUE_MS: u64 = 10_000;

    /// Name of the limit of a kind, for a site with this number.
    #[inline]
    pub fn limit_name(&self, kind: LimitKind, site: u32) -> LimitName {
        match self.places.0[kind as usize] {
            LimitPlace(0) => LimitName::new(kind, 0, LimitPlace(0)),
            place => LimitName::new(kind, site, place),
        }
    }

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
