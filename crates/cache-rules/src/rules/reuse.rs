//! Judges whether an entry may answer a request now. RFC 9111 section 4, and RFC 5861.
//!
//! Called by: the page cache, once key and Vary have selected an entry.
//! Caveat: on the hot path. Allocates nothing, unless a client's Cache-Control is present and
//! honored.
//! Out of scope: purges and bans (the store), and the client's conditions ([`super::validation`]).

use super::{
    cache_status::Forward,
    control::{DELTA_SECONDS_MAX, MaxStale, RequestControl, Seconds},
    freshness::ms,
    judge,
    life::Life,
    personal::is_personal,
    settings::RuleSettings,
};
use saker_http::{HeadView, KnownField, Status};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Fresh,
    /// Serve it, and refresh it in the background.
    Stale,
    /// Validate it first, conditionally if it has a validator.
    Validate(Why),
    /// Not for this request.
    NotUsable(Why),
    /// Nothing usable, and the client accepts nothing else (section 5.2.1.7): respond 504.
    OnlyIfCached504,
}

/// Why an entry can't be used as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Method,
    SessionCookie,
    Personal,
    Authorization,
    ResponseNoCache,
    RequestNoCache,
    RequestNoStore,
    RequestMaxAge,
    RequestMinFresh,
    Expired,
    Gone,
}

impl Why {
    /// The reason in Cache-Status.
    pub fn forward(self) -> Forward {
        match self {
            Why::Method => Forward::Method,
            Why::SessionCookie | Why::Personal | Why::Authorization => Forward::Bypass,
            Why::RequestNoCache
            | Why::RequestNoStore
            | Why::RequestMaxAge
            | Why::RequestMinFresh => Forward::Request,
            Why::ResponseNoCache | Why::Expired => Forward::Stale,
            Why::Gone => Forward::Miss,
        }
    }

    pub fn sentence(self) -> &'static str {
        match self {
            Why::Method => {
                "only GET and HEAD are answered from the cache, and QUERY where `methods` has it"
            }
            Why::SessionCookie => {
                "the request has a session cookie, and the entry does not say that it is for all"
            }
            Why::Personal => {
                "the request has cookies or a field like X-Api-Key, and only Last-Modified makes the entry fresh"
            }
            Why::Authorization => {
                "the request has Authorization, and the entry does not say that it is for all"
            }
            Why::ResponseNoCache => "the response said no-cache: it is validated before each use",
            Why::RequestNoCache => "the request says no-cache",
            Why::RequestNoStore => "the request says no-store",
            Why::RequestMaxAge => "the entry is older than the max-age of the request",
            Why::RequestMinFresh => {
                "the entry is not fresh for as long as min-fresh of the request asks"
            }
            Why::Expired => "the entry is stale",
            Why::Gone => "the entry is past all its stale windows",
        }
    }
}

pub fn judge_use(request: HeadView<'_>, life: &Life, settings: &RuleSettings, now_ms: i64) -> Use {
    let found = unless_only_cached(request, life, settings, now_ms);
    match found {
        Use::Validate(_) | Use::NotUsable(_) if only_if_cached(request) => Use::OnlyIfCached504,
        found => found,
    }
}

/// The Age field's value (section 4.2.3).
pub fn age_s(life: &Life, now_ms: i64) -> u64 {
    let age_ms = now_ms.saturating_sub(life.born_ms);
    (u64::try_from(age_ms).unwrap_or(0) / 1000).min(DELTA_SECONDS_MAX)
}

/// True if the entry may replace a response that failed or was an error by [`is_error`] (RFC 5861
/// section 4).
pub fn may_serve_after_error(
    request: HeadView<'_>,
    life: &Life,
    settings: &RuleSettings,
    now_ms: i64,
) -> bool {
    if for_whom(request, life, settings).is_some() || life.always_validates {
        return false;
    }
    if now_ms < life.fresh_until_ms.max(life.stale_if_error_until_ms) {
        return true;
    }
    let asked = settings
        .honors_client()
        .then(|| RequestControl::of(request).stale_if_error);
    match asked {
        Some(Seconds::Given(seconds)) => {
            !life.must_revalidate && now_ms < life.fresh_until_ms.saturating_add(ms(seconds))
        }
        _ => false,
    }
}

/// RFC 5861 section 4 names these.
pub fn is_error(status: Status) -> bool {
    matches!(status.0, 500 | 502 | 503 | 504)
}

/// Section 5.2.1.7. Always honored: it costs the origin nothing.
pub fn only_if_cached(request: HeadView<'_>) -> bool {
    request.has(KnownField::CacheControl) && RequestControl::of(request).only_if_cached
}

fn unless_only_cached(
    request: HeadView<'_>,
    life: &Life,
    settings: &RuleSettings,
    now_ms: i64,
) -> Use {
    if !settings.answers_method(request) {
        return Use::NotUsable(Why::Method);
    }
    if let Some(why) = for_whom(request, life, settings) {
        return Use::NotUsable(why);
    }
    let control = if settings.honors_client() {
        RequestControl::of(request)
    } else {
        RequestControl::default()
    };
    if settings.no_store_bypasses && control.no_store {
        return Use::NotUsable(Why::RequestNoStore);
    }
    if life.always_validates {
        return Use::Validate(Why::ResponseNoCache);
    }
    if let Some(why) = client_objects(&control, life, now_ms) {
        return Use::Validate(why);
    }
    by_age(&control, life, now_ms)
}

/// Section 4.2: fresh while the lifetime is greater than the age.
fn by_age(control: &RequestControl, life: &Life, now_ms: i64) -> Use {
    if now_ms < life.fresh_until_ms {
        return Use::Fresh;
    }
    if now_ms < life.stale_while_revalidate_until_ms || client_takes_stale(control, life, now_ms) {
        return Use::Stale;
    }
    match now_ms < life.keep_until_ms {
        true => Use::Validate(Why::Expired),
        false => Use::NotUsable(Why::Gone),
    }
}

/// Stricter than the standard: requests with a session cookie or credentials get shared entries
/// only if those are explicitly public.
fn for_whom(request: HeadView<'_>, life: &Life, settings: &RuleSettings) -> Option<Why> {
    if request.has(KnownField::Authorization) && !life.for_authorized {
        return Some(Why::Authorization);
    }
    if life.without_cookies && is_personal(request) {
        return Some(Why::Personal);
    }
    let own = !life.for_sessions
        && request.has(KnownField::Cookie)
        && judge::session_cookie(request, settings).is_some();
    own.then_some(Why::SessionCookie)
}

/// Section 5.2.1.
fn client_objects(control: &RequestControl, life: &Life, now_ms: i64) -> Option<Why> {
    if control.no_cache {
        return Some(Why::RequestNoCache);
    }
    let fresh = now_ms < life.fresh_until_ms;
    // RFC 8246 section 2: a reload does not invalidate a fresh immutable entry.
    let too_old = match control.max_age {
        Seconds::Absent => false,
        Seconds::Given(_) if fresh && life.immutable => false,
        // A malformed number counts as max-age=0.
        Seconds::Given(0) | Seconds::Invalid => true,
        Seconds::Given(seconds) => now_ms.saturating_sub(life.born_ms) > ms(seconds),
    };
    // Section 5.2.1.1: unless max-stale is also present.
    if too_old && control.max_stale == MaxStale::Absent {
        return Some(Why::RequestMaxAge);
    }
    let wanted_until_ms = control
        .min_fresh
        .given()
        .map(|seconds| now_ms.saturating_add(ms(seconds)));
    wanted_until_ms
        .filter(|until_ms| *until_ms >= life.fresh_until_ms)
        .map(|_| Why::RequestMinFresh)
}

/// Section 5.2.1.2, unless the response forbids (section 4.2.4).
fn client_takes_stale(control: &RequestControl, life: &Life, now_ms: i64) -> bool {
    let within = match control.max_stale {
        MaxStale::Absent => false,
        MaxStale::Any => true,
        MaxStale::Seconds(seconds) => now_ms <= life.fresh_until_ms.saturating_add(ms(seconds)),
    };
    within && !life.must_revalidate && now_ms < life.keep_until_ms
}
