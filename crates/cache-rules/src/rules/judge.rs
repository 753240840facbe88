//! Judges whether a response may be stored, and computes its lifetime. RFC 9111 section 3 for a
//! shared cache, and stricter where that is safer.
//!
//! Called by: the page cache, when a response's head has arrived.
//! Caveat: the standard trusts origins more than many applications deserve: personal pages come
//! without Cache-Control. So if a session cookie, Set-Cookie or Authorization took part, the
//! response is shared only if it is explicitly public.
//! Out of scope: fields ([`super::fields`]) and LSCache's control, which comes first.

use super::{
    control::{RequestControl, ResponseControl, Seconds},
    fields::is_cookie,
    freshness::{Lifetime, Times, is_heuristically_cacheable, lifetime, ms},
    life::Life,
    pass::Pass,
    personal::is_personal,
    settings::{RuleSettings, is_query},
    targeted::{Policy, policy},
    vary::Vary,
};
use saker_http::{Fields, HeadView, KnownField, Method, Status};

/// Judges a response by its head. `request_ms`: when the request was sent; `response_ms`: when the
/// head arrived.
pub fn judge_response(
    request: HeadView<'_>,
    status: Status,
    fields: &Fields,
    settings: &RuleSettings,
    request_ms: i64,
    response_ms: i64,
) -> Result<Life, Pass> {
    let policy = policy(fields, settings);
    by_request(request, settings)?;
    by_status(status, &policy.control, settings)?;
    by_control(&policy, settings)?;
    let vary = Vary::of(fields)
        .and_then(|vary| vary.and(&settings.key_fields))
        .ok_or(Pass::VaryAll)?;
    let audience = Audience::of(request, fields, &policy, settings, &vary)?;
    let times = Times::of(fields, request_ms, response_ms);
    let lifetime = match lifetime(&policy, fields, status, settings, times) {
        // The page may be this client's, and nothing says that it is for all.
        Lifetime::Heuristic(_) if is_for_one(request, settings) => Lifetime::Unknown,
        lifetime => lifetime,
    };
    by_lifetime(status, &policy, lifetime)?;
    // RFC 9110 section 9.3.3: only with explicit freshness of the response.
    if request.method() == Method::Post && !is_stated(lifetime, settings) {
        return Err(Pass::Method);
    }
    if settings.query_needs_expiry
        && !matches!(lifetime, Lifetime::Explicit(_))
        && request.target().contains(&b'?')
    {
        return Err(Pass::Query);
    }
    let mut life = life(&policy, fields, settings, times, lifetime, audience);
    life.without_cookies =
        matches!(lifetime, Lifetime::Heuristic(_)) && !settings.heuristic_with_cookies;
    worth_storing(life, fields, &policy, settings)
}

fn by_request(request: HeadView<'_>, settings: &RuleSettings) -> Result<(), Pass> {
    // Section 3 and RFC 9110 section 9.2.3: responses to other methods could be stored, but would
    // never be used.
    let is_storable = match request.method() {
        Method::Get => true,
        Method::Post => settings.store_post,
        _ => settings.store_query && is_query(request),
    };
    if !is_storable {
        return Err(Pass::Method);
    }
    // Section 5.2.1.5.
    let is_kept_all_the_same = settings.store_no_store && !settings.no_store_bypasses;
    match settings.honors_client() && RequestControl::of(request).no_store && !is_kept_all_the_same
    {
        true => Err(Pass::RequestNoStore),
        false => Ok(()),
    }
}

fn by_status(
    status: Status,
    control: &ResponseControl,
    settings: &RuleSettings,
) -> Result<(), Pass> {
    match status.0 {
        206 if !settings.store_parts => Err(Pass::Partial),
        // Interim, no representation, or no valid status.
        ..200 | 304 | 600.. => Err(Pass::Status(status.0)),
        code if is_about_request(status) => Err(Pass::Status(code)),
        // Section 5.2.2.3.
        code if control.must_understand && !is_understood(status) => Err(Pass::Status(code)),
        _ => Ok(()),
    }
}

/// Stricter than the standard, which lets an origin make them cacheable: statuses by which the
/// origin judges one request, by fields that are not part of any key. All clients would get them.
pub fn is_about_request(status: Status) -> bool {
    matches!(
        status.0,
        400 | 401
            | 407
            | 408
            | 411
            | 412
            | 413
            | 415
            | 416
            | 417
            | 421
            | 425
            | 426
            | 428
            | 429
            | 431
            | 505
            | 511
    )
}

/// Statuses with known caching semantics: those of RFC 9110, and registered ones.
fn is_understood(status: Status) -> bool {
    status.0 != 206 && status.reason() != "Unknown"
}

fn by_control(policy: &Policy, settings: &RuleSettings) -> Result<(), Pass> {
    let control = &policy.control;
    // Section 5.2.2.3: must-understand overrides no-store for caches that understand; by_status has
    // checked that.
    if control.no_store && !control.must_understand && !settings.store_no_store {
        return Err(Pass::NoStore(policy.field.clone()));
    }
    if control.private.is_whole() && !settings.store_private {
        return Err(Pass::Private(policy.field.clone()));
    }
    match settings.shared_words_only && !says_for_all(policy, settings) {
        true => Err(Pass::NotForAll),
        false => Ok(()),
    }
}

/// The clients that may share the entry.
#[derive(Clone, Copy)]
struct Audience {
    sessions: bool,
    authorized: bool,
}

impl Audience {
    fn of(
        request: HeadView<'_>,
        fields: &Fields,
        policy: &Policy,
        settings: &RuleSettings,
        vary: &Vary,
    ) -> Result<Audience, Pass> {
        let control = &policy.control;
        let for_all = says_for_all(policy, settings);
        let audience = Audience {
            sessions: for_all || vary.names("cookie"),
            // Section 3.5.
            authorized: for_all || control.must_revalidate || vary.names("authorization"),
        };
        if request.has(KnownField::Authorization) && !audience.authorized {
            return Err(Pass::Authorization);
        }
        // Section 7.3 warns of storing Set-Cookie: such a response is personal unless it is
        // explicitly public.
        if !settings.store_with_set_cookie && fields.iter().any(|(name, _)| is_cookie(name)) {
            return Err(Pass::SetCookie);
        }
        let is_set_aside = |name: &str| control.no_cache.names(name) || control.private.names(name);
        let is_personal = fields
            .iter()
            .any(|(name, _)| is_cookie(name) && !is_set_aside(name));
        if is_personal && !for_all && !settings.store_cookies {
            return Err(Pass::SetCookie);
        }
        match session_cookie(request, settings).filter(|_| !audience.sessions) {
            Some(name) => Err(Pass::SessionCookie(name)),
            None => Ok(audience),
        }
    }
}

/// True for a request that may be one client's own, where that forbids heuristic freshness.
fn is_for_one(request: HeadView<'_>, settings: &RuleSettings) -> bool {
    !settings.heuristic_with_cookies && is_personal(request)
}

/// True if the response (or the operator) explicitly makes it public.
fn says_for_all(policy: &Policy, settings: &RuleSettings) -> bool {
    let control = &policy.control;
    control.public
        || control.s_maxage.given().is_some()
        || (policy.targeted && control.max_age.given().is_some())
        || settings.ttl_override_s.is_some()
}

/// The name of the first session cookie among the request's.
pub(super) fn session_cookie(request: HeadView<'_>, settings: &RuleSettings) -> Option<String> {
    request
        .cookies()
        .map(|cookie| cookie.name)
        .find(|name| settings.is_session_cookie(name))
        .map(|name| String::from_utf8_lossy(name).into_owned())
}

/// The last condition of section 3: something must allow storing the response.
fn by_lifetime(status: Status, policy: &Policy, lifetime: Lifetime) -> Result<(), Pass> {
    let said =
        matches!(lifetime, Lifetime::Explicit(_)) || policy.control.public || policy.targeted;
    // An operator may give a lifetime to any status.
    let is_guessed = matches!(lifetime, Lifetime::Guessed(_) | Lifetime::Heuristic(_));
    match said || is_guessed || is_heuristically_cacheable(status) {
        true => Ok(()),
        false => Err(Pass::NoLifetime),
    }
}

fn life(
    policy: &Policy,
    fields: &Fields,
    settings: &RuleSettings,
    times: Times,
    lifetime: Lifetime,
    audience: Audience,
) -> Life {
    let control = &policy.control;
    let born_ms = times
        .response_ms
        .saturating_sub(times.initial_age_ms(fields));
    let always_validates = control.no_cache.is_whole() && settings.ttl_override_s.is_none();
    let fresh_s = if always_validates {
        0
    } else {
        lifetime.seconds()
    };
    let fresh_until_ms = born_ms.saturating_add(ms(fresh_s));
    // Section 4.2.4. s-maxage forbids a client's max-stale and the settings' stale-if-error as well
    // (section 5.2.2.10), but neither what the response itself allows (RFC 5861), nor the
    // settings' grace: Varnish's also applies to pages with s-maxage.
    let forbidden = always_validates || control.must_revalidate || control.proxy_revalidate;
    let has_s_maxage = control.s_maxage != Seconds::Absent;
    let until = |said: Seconds, default_s: u64| {
        // A response that was never fresh gets no grace: it would be served to all without having
        // been made public.
        let of_settings = if fresh_s > 0 { default_s } else { 0 };
        let seconds = if forbidden {
            0
        } else {
            said_or(said, of_settings)
        };
        fresh_until_ms.saturating_add(ms(seconds))
    };
    let stale_while_revalidate_until_ms =
        until(control.stale_while_revalidate, grace_s(lifetime, settings));
    let of_errors_s = if has_s_maxage {
        0
    } else {
        settings.stale_if_error_s
    };
    let stale_if_error_until_ms = until(control.stale_if_error, of_errors_s);
    let kept_ms = if has_validator(fields) {
        ms(settings.keep_s)
    } else {
        0
    };
    let last_ms = stale_while_revalidate_until_ms
        .max(stale_if_error_until_ms)
        .max(times.response_ms);
    Life {
        stored_ms: times.response_ms,
        born_ms,
        fresh_until_ms,
        stale_while_revalidate_until_ms,
        stale_if_error_until_ms,
        keep_until_ms: last_ms.saturating_add(kept_ms),
        must_revalidate: forbidden || has_s_maxage,
        always_validates,
        immutable: control.immutable,
        guessed: matches!(lifetime, Lifetime::Guessed(_) | Lifetime::Heuristic(_)),
        for_sessions: audience.sessions,
        for_authorized: audience.authorized,
        without_cookies: false,
        hidden_fields: [control.no_cache.fields(), control.private.fields()].concat(),
    }
}

/// The settings' grace for a response with that lifetime.
fn grace_s(lifetime: Lifetime, settings: &RuleSettings) -> u64 {
    let is_unasked = matches!(lifetime, Lifetime::Heuristic(_)) && !settings.heuristic_with_cookies;
    match is_unasked || is_stated(lifetime, settings) {
        true => settings.stated_stale_while_revalidate_s,
        false => settings.stale_while_revalidate_s,
    }
}

/// True if the response's own fields state the lifetime.
fn is_stated(lifetime: Lifetime, settings: &RuleSettings) -> bool {
    matches!(lifetime, Lifetime::Explicit(_)) && settings.ttl_override_s.is_none()
}

/// A window that is set but invalid is zero.
fn said_or(said: Seconds, default_s: u64) -> u64 {
    match said {
        Seconds::Given(seconds) => seconds,
        Seconds::Invalid => 0,
        Seconds::Absent => default_s,
    }
}

fn worth_storing(
    life: Life,
    fields: &Fields,
    policy: &Policy,
    settings: &RuleSettings,
) -> Result<Life, Pass> {
    if life.hides_too_much() {
        return Err(Pass::HidesTooMuch);
    }
    let useful_ms = life
        .stale_while_revalidate_until_ms
        .max(life.stale_if_error_until_ms);
    let validates = has_validator(fields) && settings.keep_for_validation && settings.keep_s > 0;
    if useful_ms > life.stored_ms || validates {
        return Ok(life);
    }
    let control = &policy.control;
    let aged = control.max_age != Seconds::Absent
        || control.s_maxage != Seconds::Absent
        || control.no_cache.is_whole();
    match (aged || policy.targeted, fields.has("expires")) {
        (true, _) => Err(Pass::Stale(policy.field.clone())),
        (false, true) => Err(Pass::Stale("Expires".into())),
        (false, false) if life.guessed => Err(Pass::Stale("Last-Modified".into())),
        (false, false) => Err(Pass::NoLifetime),
    }
}

/// True if a later request to the origin could be conditional (section 4.3.1).
pub(super) fn has_validator(fields: &Fields) -> bool {
    fields.has("etag") || fields.has("last-modified")
}
