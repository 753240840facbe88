//! The age of a response on arrival (RFC 9111 section 4.2.3) and its freshness lifetime (sections
//! 4.2.1 and 4.2.2).
//!
//! Called by: [`super::judge`].
//! Caveat: dates, ages and delays come from other clocks, so every sum is bounded and every
//! contradiction makes a response older.
//! Out of scope: what is stored.

use super::{
    control::{DELTA_SECONDS_MAX, Seconds, delta_seconds},
    settings::RuleSettings,
    targeted::{Policy, lines},
};
use saker_http::{Fields, Status, date::parse_date};

/// A freshness lifetime and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    Explicit(u64),
    /// From the operator's default.
    Guessed(u64),
    /// From Last-Modified (section 4.2.2).
    Heuristic(u64),
    Unknown,
}

impl Lifetime {
    pub fn seconds(self) -> u64 {
        match self {
            Lifetime::Explicit(seconds)
            | Lifetime::Guessed(seconds)
            | Lifetime::Heuristic(seconds) => seconds,
            Lifetime::Unknown => 0,
        }
    }
}

/// Begin and end of the exchange with the origin, and the origin's Date.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub request_ms: i64,
    pub response_ms: i64,
    pub date_s: i64,
}

impl Times {
    /// RFC 9110 section 6.6.1: without a valid Date, the time of receipt is used.
    pub fn of(fields: &Fields, request_ms: i64, response_ms: i64) -> Times {
        let response_s = response_ms.div_euclid(1000);
        let date_s = fields
            .first("date")
            .and_then(|text| parse_date(text, response_s))
            .unwrap_or(response_s);
        Times {
            request_ms,
            response_ms,
            date_s,
        }
    }

    /// `corrected_initial_age` of section 4.2.3.
    pub fn initial_age_ms(self, fields: &Fields) -> i64 {
        // A Date has no milliseconds: a response of this second must not look older by fractions of
        // it.
        let apparent_ms = self
            .response_ms
            .div_euclid(1000)
            .saturating_sub(self.date_s)
            .max(0)
            .saturating_mul(1000);
        let delay_ms = self.response_ms.saturating_sub(self.request_ms).max(0);
        let age_ms = ms(age_value(fields)).saturating_add(delay_ms);
        apparent_ms.max(age_ms).min(ms(DELTA_SECONDS_MAX))
    }
}

/// Section 5.1: the first member of a list; invalid values are ignored.
fn age_value(fields: &Fields) -> u64 {
    let first = fields
        .first("age")
        .and_then(|value| value.split(|byte| *byte == b',').next());
    first
        .map(saker_http::chars::trim_ows)
        .and_then(delta_seconds)
        .unwrap_or(0)
}

/// Section 4.2.1, with the operator's bounds.
pub fn lifetime(
    policy: &Policy,
    fields: &Fields,
    status: Status,
    settings: &RuleSettings,
    times: Times,
) -> Lifetime {
    let found = match settings.ttl_override_s {
        Some(seconds) => Lifetime::Explicit(seconds),
        None => explicit(policy, fields, times).map_or_else(
            || guessed(policy, fields, status, settings, times),
            Lifetime::Explicit,
        ),
    };
    let bounded = |seconds: u64| seconds.max(settings.ttl_min_s).min(settings.ttl_max_s);
    match found {
        Lifetime::Explicit(seconds) => Lifetime::Explicit(seconds.min(settings.ttl_max_s)),
        Lifetime::Guessed(seconds) => Lifetime::Guessed(bounded(seconds)),
        Lifetime::Heuristic(seconds) => Lifetime::Heuristic(bounded(seconds)),
        Lifetime::Unknown => Lifetime::Unknown,
    }
}

/// The first one present decides, even if it is invalid: then the response is stale.
fn explicit(policy: &Policy, fields: &Fields, times: Times) -> Option<u64> {
    for seconds in [policy.control.s_maxage, policy.control.max_age] {
        match seconds {
            Seconds::Given(seconds) => return Some(seconds),
            Seconds::Invalid => return Some(0),
            Seconds::Absent => {}
        }
    }
    // RFC 9213 section 2.2: a targeted field makes Expires count for nothing.
    if policy.targeted {
        None
    } else {
        expires(fields, times)
    }
}

/// Section 5.3: invalid dates, above all `0`, are in the past; so are contradicting ones (section
/// 4.2.1).
fn expires(fields: &Fields, times: Times) -> Option<u64> {
    let response_s = times.response_ms.div_euclid(1000);
    let mut dates = lines(fields, "expires").map(|text| parse_date(text, response_s));
    let first = dates.next()?;
    let agreed = dates.all(|date| date == first);
    let left_s = first
        .filter(|_| agreed)
        .map_or(0, |date| date.saturating_sub(times.date_s));
    Some(u64::try_from(left_s).unwrap_or(0).min(DELTA_SECONDS_MAX))
}

fn guessed(
    policy: &Policy,
    fields: &Fields,
    status: Status,
    settings: &RuleSettings,
    times: Times,
) -> Lifetime {
    let of_status = settings
        .status_ttls_s
        .iter()
        .find(|(of, _)| *of == status.0);
    match of_status {
        Some((_, 0)) => return Lifetime::Unknown,
        Some((_, seconds)) => return Lifetime::Guessed(*seconds),
        None => {}
    }
    // Section 4.2.2: only for these, or if the response is explicitly cacheable.
    if !is_heuristically_cacheable(status) && !policy.control.public {
        return Lifetime::Unknown;
    }
    let modified_s = fields
        .first("last-modified")
        .and_then(|text| parse_date(text, times.date_s));
    let since_s =
        modified_s.and_then(|modified| u64::try_from(times.date_s.saturating_sub(modified)).ok());
    if let Some(since_s) = since_s.filter(|_| settings.heuristic_percent > 0) {
        return Lifetime::Heuristic(
            (since_s.saturating_mul(settings.heuristic_percent) / 100)
                .min(settings.heuristic_max_s),
        );
    }
    let has_validator = fields.has("etag") || fields.has("last-modified");
    match settings.default_ttl_s {
        Some(seconds) if has_validator || !settings.default_ttl_needs_validator => {
            Lifetime::Guessed(seconds)
        }
        _ => Lifetime::Unknown,
    }
}

/// RFC 9110 section 15.1.
pub fn is_heuristically_cacheable(status: Status) -> bool {
    matches!(
        status.0,
        200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    )
}

/// Seconds as milliseconds, at most 68 years of them.
pub fn ms(seconds: u64) -> i64 {
    seconds.min(DELTA_SECONDS_MAX) as i64 * 1000
}
