//! Bans, denied addresses, request rates, and concurrent requests.
//!
//! Called by: the phases `limits` and `user_limits`.
//! Caveat: a limit counts a client's request once, including its error documents and internal
//! redirects; where these lead to a route with limits of its own, those count it, too. Addresses are
//! compared each time, because another path may have other rules.
//! Out of scope: the size of bodies (the phase itself) and their speed (drivers).

use crate::{
    Abuse, Violation, challenge, context,
    keyed::{self, longer, site_number},
    together,
    upstream_limits::UpstreamLimits,
};
use saker_config::model::{Consequence, LimitKind, LimitName, Throttle};
use saker_ipset::place_of;
use saker_pipeline::{Client, Exchange, Forwarding, Response, UpstreamGate};
use saker_rate_limits::{Account, Admission, ClientAccount, Limit, requests};
use std::{rc::Rc, sync::Arc};

/// `Some`: the answer of a request that is refused.
pub fn admit(exchange: &mut Exchange, abuse: &Abuse) -> Option<Response> {
    refuse_address(exchange, abuse)
        .or_else(|| evade(exchange, abuse))
        .or_else(|| rate_limits(exchange, abuse))
}

/// Limits by what is known about the user, who is known now. `Some`: the answer of a request that is
/// refused.
pub fn admit_user(exchange: &mut Exchange, abuse: &Abuse) -> Option<Response> {
    if exchange.limits.is_counted {
        return None;
    }
    let settings = Arc::clone(&exchange.routing.settings);
    let throttle = &settings.throttle;
    let is_exempt = is_exempt(exchange, abuse);
    let (rule, retry_after_s) = keyed::admit(exchange, throttle, abuse, (is_exempt, true))?;
    let violation = Violation {
        rule,
        consequence: throttle.over.unwrap_or(Consequence::Refuse(429)),
        retry_after_s,
        is_offense: true,
    };
    Some(abuse.enforce(exchange, violation))
}

fn is_exempt(exchange: &mut Exchange, abuse: &Abuse) -> bool {
    context::is_bot(exchange) || abuse.generation.is_exempt(exchange.client.ip())
}

/// Bans and denied addresses. Bans of the connection's own address were enforced when it opened; a
/// client that a proxy names has not been compared yet.
fn refuse_address(exchange: &mut Exchange, abuse: &Abuse) -> Option<Response> {
    if exchange.is_page_for_all() {
        // The error page of a refusal.
        return None;
    }
    let address = exchange.client.ip();
    let bans = &abuse.clients.bans;
    let is_proxied = exchange.client.forwarding == Forwarding::Proxied;
    let is_named = is_proxied || address != exchange.client.peer.ip().to_canonical();
    let banned = (is_named && bans.contains(address, exchange.now))
        .then_some(("ban", Consequence::FORBIDDEN));
    let server = &abuse.generation.model.guard;
    let denied_by_server = || {
        (is_proxied && !server.admittance.admits(address))
            .then_some(("deny", Consequence::FORBIDDEN))
    };
    let denied = || {
        let guard = exchange.routing.settings.guard.as_ref()?;
        (!guard.admittance.admits(address)).then_some(("deny", guard.denied))
    };
    // If the consequence of a list is a challenge, a clearance lets the client pass.
    let refused = banned
        .or_else(denied_by_server)
        .or_else(denied)
        .filter(|(_, consequence)| {
            *consequence != Consequence::Challenge || !has_clearance(exchange, abuse)
        });
    let Some((rule, consequence)) = refused else {
        locate(exchange);
        return None;
    };
    let violation = Violation {
        rule,
        consequence,
        retry_after_s: 0,
        is_offense: false,
    };
    Some(abuse.enforce(exchange, violation))
}

/// mod_evasive: counts requests of clients, not subrequests and redirects.
fn evade(exchange: &mut Exchange, abuse: &Abuse) -> Option<Response> {
    let evasive = abuse.generation.model.guard.evasive.as_ref()?;
    exchange.depends_on_request();
    if exchange.limits.is_admitted
        || exchange.routing.redirects > 0
        || exchange.log.stands_in_for.is_some()
        || exchange.log.trace.is_some()
    {
        return None;
    }
    let is_admitted =
        abuse
            .clients
            .repeats
            .admit(evasive, exchange.client.ip(), &exchange.path, exchange.now);
    let violation = Violation {
        rule: "evasive",
        consequence: Consequence::FORBIDDEN,
        retry_after_s: 0,
        is_offense: true,
    };
    (!is_admitted).then(|| abuse.enforce(exchange, violation))
}

/// Sets variables for programs and logs with the client's location.
fn locate(exchange: &mut Exchange) {
    let Some(guard) = exchange
        .routing
        .settings
        .guard
        .clone()
        .filter(|guard| guard.locates)
    else {
        return;
    };
    exchange.depends_on_request();
    let place = place_of(&guard.admittance.databases, exchange.client.ip());
    place
        .variables()
        .for_each(|(name, value)| exchange.environment.set(name.as_bytes(), value.as_bytes()));
    if let Some(number) = place.network {
        exchange
            .environment
            .set(b"GEOIP_ASN", number.to_string().as_bytes());
    }
}

/// Limits of the client's address and of the site, and the pace of the body. A delay is left in the
/// exchange and waited for before the content.
fn rate_limits(exchange: &mut Exchange, abuse: &Abuse) -> Option<Response> {
    let settings = Arc::clone(&exchange.routing.settings);
    let throttle = &settings.throttle;
    if throttle.is_idle() {
        note_earlier_limits(exchange, throttle, abuse);
        return None;
    }
    exchange
        .body
        .throttle(throttle, exchange.routing.site_index);
    if exchange.limits.is_counted {
        return None;
    }
    let is_first = !std::mem::replace(&mut exchange.limits.is_admitted, true);
    open_account(exchange, abuse);
    let is_bot = context::is_bot(exchange);
    if is_bot {
        exchange.limits.admission = None;
    }
    let is_exempt = is_bot || abuse.generation.is_exempt(exchange.client.ip());
    rate(exchange, throttle, abuse, (is_exempt, is_first));
    note_earlier_limits(exchange, throttle, abuse);
    let own = |status| throttle.over.unwrap_or(Consequence::Refuse(status));
    if let Some(Admission::Refuse { retry_after_s }) = exchange.limits.admission {
        let violation = Violation {
            rule: "requests_static",
            consequence: own(429),
            retry_after_s,
            is_offense: true,
        };
        match over_rate(exchange, abuse, violation) {
            Some(Ok(admission)) => exchange.limits.admission = Some(admission),
            Some(Err(page)) => {
                exchange.limits.is_counted = true;
                return Some(page);
            }
            None => return Some(refuse(exchange, abuse, violation)),
        }
    }
    // The client's own limit first: a request refused by it uses up nothing of the site's.
    let over = (!count(exchange, throttle, abuse, is_exempt)).then_some((
        "at_a_time_per_address",
        429,
        1,
        true,
    ));
    let over = over.or_else(|| {
        let (rule, retry_after_s) = keyed::admit(exchange, throttle, abuse, (is_exempt, false))?;
        Some((rule, 429, retry_after_s, true))
    });
    let over = over.or_else(|| {
        of_site(exchange, throttle, abuse)
            .map(|(rule, retry_after_s)| (rule, 503, retry_after_s, false))
    });
    if let Some((rule, status, retry_after_s, is_offense)) = over {
        let violation = Violation {
            rule,
            consequence: own(status),
            retry_after_s,
            is_offense,
        };
        return Some(refuse(exchange, abuse, violation));
    }
    if let Some(gate) = upstream_gate(exchange, throttle, abuse, is_exempt) {
        exchange.set_upstream_gate(gate);
    }
    None
}

/// Opens an account of the client's own: for a client named by a proxy, and for every client if
/// only the rules of another front end know what is counted.
fn open_account(exchange: &mut Exchange, abuse: &Abuse) {
    if exchange.client.account.is_none() {
        let mut client = Client::clone(&exchange.client);
        let state = abuse.clients.addresses.state(client.ip());
        client.account = Some(ClientAccount::new(state));
        exchange.client = Rc::new(client);
    }
}

/// Refuses a request. Its error document counts for nothing.
fn refuse(exchange: &mut Exchange, abuse: &Abuse, violation: Violation) -> Response {
    exchange.limits.is_counted = true;
    abuse.enforce(exchange, violation)
}

fn limit_name(
    exchange: &Exchange,
    throttle: &Throttle,
    abuse: &Abuse,
    kind: LimitKind,
) -> LimitName {
    throttle.limit_name(kind, site_number(exchange, abuse))
}

/// The limits of earlier routes are not those of the last one, which alone would count requests that
/// are answered without phases.
fn note_earlier_limits(exchange: &mut Exchange, throttle: &Throttle, abuse: &Abuse) {
    let number = site_number(exchange, abuse);
    let is_earlier = |name: &LimitName| {
        let is_static = throttle.static_requests.is_some()
            && *name == throttle.limit_name(LimitKind::StaticRequests, number);
        !is_static
    };
    if exchange.limits.charged.iter().any(is_earlier) {
        exchange.depends_on_request();
    }
}

/// Charges the request rate, unless this limit has been (`is_first`: perhaps before dispatch). What
/// the client has to expect is left in the exchange.
fn rate(
    exchange: &mut Exchange,
    throttle: &Throttle,
    abuse: &Abuse,
    (is_exempt, is_first): (bool, bool),
) {
    let Some(rate) = &throttle.static_requests else {
        return;
    };
    let name = limit_name(exchange, throttle, abuse, LimitKind::StaticRequests);
    let is_due = exchange.limits.charge(name) && !is_exempt;
    let is_charged = is_first && exchange.limits.admission.is_some();
    let (true, false, Some(account)) = (is_due, is_charged, &exchange.client.account) else {
        return;
    };
    let now_ns = (abuse.now_ns)();
    let admission = account.with_usage(name, |usage| requests::admit(&usage.account, rate, now_ns));
    together::of_address(
        &abuse.shared,
        &abuse.clients,
        (Limit::Static, name, exchange.client.ip()),
        rate,
        admission,
    );
    let before = exchange.limits.admission;
    exchange.limits.admission = Some(match (admission, before) {
        (Admission::Delay(wait_ns), _) => longer(before, wait_ns),
        (Admission::Pass, Some(before)) => before,
        (admission, _) => admission,
    });
}

/// The site's own limits, which all its clients share: the rule, and when to come again.
fn of_site(
    exchange: &mut Exchange,
    throttle: &Throttle,
    abuse: &Abuse,
) -> Option<(&'static str, u64)> {
    let site = abuse
        .generation
        .site_accounts
        .get(exchange.routing.site_index)?;
    let name = |kind| throttle.limit_name(kind, site.number);
    if let Some(rate) = &throttle.site_requests
        && exchange.limits.charge(name(LimitKind::SiteRequests))
    {
        let name = name(LimitKind::SiteRequests);
        let admission = requests::admit(&site.usage(name).account, rate, (abuse.now_ns)());
        let of_site = (&*exchange.routing.site, name);
        together::of_site(&abuse.shared, of_site, rate, admission);
        match admission {
            Admission::Refuse { retry_after_s } => {
                return Some(("requests_per_site", retry_after_s));
            }
            Admission::Delay(wait_ns) => {
                exchange.limits.admission = Some(longer(exchange.limits.admission, wait_ns))
            }
            Admission::Pass => {}
        }
    }
    let (max, name) = (throttle.at_a_time_site, name(LimitKind::AtATimeSite));
    if max == 0 || !exchange.limits.charge(name) {
        return None;
    }
    match site.usage(name).begin_request(max) {
        Some(counted) => {
            exchange.limits.counted.push(counted);
            None
        }
        None => Some(("at_a_time_per_site", 1)),
    }
}

/// Counts the request among its client's concurrent ones; `false`: they are too many.
fn count(exchange: &mut Exchange, throttle: &Throttle, abuse: &Abuse, is_exempt: bool) -> bool {
    let max = throttle.at_a_time_address;
    if max == 0 {
        return true;
    }
    let name = limit_name(exchange, throttle, abuse, LimitKind::AtATimeAddress);
    let is_due = exchange.limits.charge(name) && !is_exempt;
    let (true, Some(account)) = (is_due, &exchange.client.account) else {
        return true;
    };
    match account.with_usage(name, |usage| usage.begin_request(max)) {
        Some(counted) => {
            exchange.limits.counted.push(counted);
            true
        }
        None => false,
    }
}

fn upstream_gate(
    exchange: &Exchange,
    throttle: &Throttle,
    abuse: &Abuse,
    is_exempt: bool,
) -> Option<Rc<dyn UpstreamGate>> {
    let is_limited = throttle.counts_dynamic() || throttle.dynamic_requests.is_some();
    is_limited.then(|| {
        Rc::new(UpstreamLimits {
            generation: Arc::clone(&abuse.generation),
            clients: Arc::clone(&abuse.clients),
            shared: Arc::clone(&abuse.shared),
            client: exchange.client.ip(),
            address: exchange.client.account.clone().filter(|_| !is_exempt),
            site_index: exchange.routing.site_index,
            sleep: abuse.sleep,
            now_ns: abuse.now_ns,
        }) as Rc<dyn UpstreamGate>
    })
}

/// Returns the remedy for a client over its request rate: solving a challenge. `None`: none.
fn over_rate(
    exchange: &mut Exchange,
    abuse: &Abuse,
    violation: Violation,
) -> Option<Result<Admission, Response>> {
    let is_challenged = violation.consequence == Consequence::Challenge;
    if !is_challenged && exchange.routing.settings.visitors.challenge.is_none() {
        return None;
    }
    if !has_clearance(exchange, abuse) {
        let violation = Violation {
            consequence: Consequence::Challenge,
            ..violation
        };
        return Some(Err(abuse.enforce(exchange, violation)));
    }
    let throttle = &exchange.routing.settings.throttle;
    let rate = throttle.static_requests?;
    let name = limit_name(exchange, throttle, abuse, LimitKind::StaticRequests);
    // Each clearance is worth the rate once more, so that clients behind one address don't share
    // it.
    let mut key = challenge::clearance_of(exchange);
    key.extend_from_slice(&name.number().to_le_bytes());
    let account = abuse
        .shared
        .clearances
        .change(key, Arc::<Account>::default, |account| Arc::clone(account));
    match requests::admit(&account, &rate, (abuse.now_ns)()) {
        Admission::Refuse { .. } => None,
        admitted => Some(Ok(admitted)),
    }
}

fn has_clearance(exchange: &mut Exchange, abuse: &Abuse) -> bool {
    let rule = challenge::rule(exchange);
    challenge::has_clearance(exchange, &abuse.shared, &rule)
}
