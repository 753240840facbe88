//! May this request be answered: who asks, how often and how many at a time; the size of its body.
//!
//! Limits are asked once for a request of a client. What it leads to inside of the server (error
//! documents, paths that programs hand over) is part of it and not counted again; who may come at
//! all is asked each time, because another path may have other rules.

use crate::{
    Client, Exchange, Response, Services, guard, held_policy,
    throttle::{Admission, Over, ProgramGate, requests},
};
use saker_config::model::{Consequence, Throttle};
use saker_http::Status;
use saker_ipset::place_of;
use std::{rc::Rc, sync::Arc};

pub(super) fn access(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    // `select_host` has asked the same, but not for what a request leads to inside of the server.
    if let Some(refused) = held_policy::refusal(exchange, services)
        .or_else(|| asker(exchange, services))
        .or_else(|| evade(exchange, services))
        .or_else(|| throttle(exchange, services))
    {
        return Some(refused);
    }
    let limit = body_bytes_max(exchange, services);
    // For content whose length nobody has told, and for who reads more of it than was told.
    exchange.body.limit(limit);
    match exchange.body.length() {
        Some(length) if limit != 0 && length > limit => {
            exchange.trace("access", None, || {
                format!("a body of {length} bytes is over the limit of {limit}")
            });
            Some(Response::new(Status::CONTENT_TOO_LARGE))
        }
        _ => None,
    }
}

/// Who asks. Connections have been asked about bans already; a client whom a proxy names has not.
fn asker(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    if exchange.stands_in_for.is_some() {
        // The page that says no.
        return None;
    }
    let address = exchange.client.ip();
    let bans = &services.neighbours.bans;
    let is_named = address != exchange.client.peer.ip().to_canonical();
    let banned = (is_named && bans.contains(address, exchange.now))
        .then_some(("ban", Consequence::FORBIDDEN));
    let denied = || {
        let guard = exchange.settings.guard.as_ref()?;
        (!guard.admittance.admits(address)).then_some(("deny", guard.denied))
    };
    // Work opens what a list closes, where that is wanted.
    let refused = banned.or_else(denied).filter(|(_, consequence)| {
        *consequence != Consequence::Challenge || !guard::has_worked(exchange, services)
    });
    let Some((rule, consequence)) = refused else {
        locate(exchange);
        return None;
    };
    Some(refuse(
        exchange,
        services,
        Over {
            rule,
            consequence,
            retry_after_s: 0,
            is_offence: false,
        },
    ))
}

/// mod_evasive, which looks at what clients ask for, never at what that leads to.
fn evade(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    let evasive = services.generation.model.guard.evasive.as_ref()?;
    exchange.depends_on_request();
    if exchange.is_admitted
        || exchange.redirects > 0
        || exchange.stands_in_for.is_some()
        || exchange.trace.is_some()
    {
        return None;
    }
    let is_admitted = services.neighbours.repeats.admit(
        evasive,
        exchange.client.ip(),
        &exchange.path,
        exchange.now,
    );
    let over = Over {
        rule: "evasive",
        consequence: Consequence::FORBIDDEN,
        retry_after_s: 0,
        is_offence: true,
    };
    (!is_admitted).then(|| refuse(exchange, services, over))
}

/// Tells programs and logs where the client is.
fn locate(exchange: &mut Exchange) {
    let Some(guard) = exchange
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
fn throttle(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    let settings = Arc::clone(&exchange.settings);
    let throttle = &settings.throttle;
    if throttle.is_idle() {
        return None;
    }
    exchange.body.throttle(throttle, exchange.site_index);
    if std::mem::replace(&mut exchange.is_admitted, true) {
        return None;
    }
    open_account(exchange, services);
    let is_robot = guard::is_robot(exchange);
    if is_robot {
        exchange.admission = None;
    }
    let is_exempt = is_robot || services.generation.is_exempt(exchange.client.ip());
    if exchange.admission.is_none() && !is_exempt {
        exchange.admission = rate(exchange, throttle, services);
    }
    let own = |status| throttle.over.unwrap_or(Consequence::Refuse(status));
    if let Some(Admission::Refuse { retry_after_s }) = exchange.admission {
        let over = Over {
            rule: "requests_static",
            consequence: own(429),
            retry_after_s,
            is_offence: true,
        };
        match guard::over_rate(exchange, services, over) {
            Some(Ok(admission)) => exchange.admission = Some(admission),
            Some(Err(page)) => return Some(page),
            None => return Some(refuse(exchange, services, over)),
        }
    }
    // His own first: who is refused for that uses nothing up of what the site has for others.
    let over = (!is_exempt && !count(exchange, throttle)).then_some((
        "at_a_time_per_address",
        429,
        1,
        true,
    ));
    let over = over.or_else(|| {
        of_site(exchange, throttle, services)
            .map(|(rule, retry_after_s)| (rule, 503, retry_after_s, false))
    });
    if let Some((rule, status, retry_after_s, is_offence)) = over {
        return Some(refuse(
            exchange,
            services,
            Over {
                rule,
                consequence: own(status),
                retry_after_s,
                is_offence,
            },
        ));
    }
    exchange.program_gate = program_gate(exchange, throttle, services, is_exempt).map(Rc::new);
    None
}

fn refuse(exchange: &mut Exchange, services: &Services, over: Over) -> Response {
    guard::meet(exchange, services, over)
}

/// Whom a proxy names has an account of his own, and so has everybody where only rules of another
/// front-end know that something is counted.
fn open_account(exchange: &mut Exchange, services: &Services) {
    if exchange.client.account.is_none() {
        let mut client = Client::clone(&exchange.client);
        client.account = Some(services.neighbours.addresses.state(client.ip()));
        exchange.client = Rc::new(client);
    }
}

fn rate(exchange: &Exchange, throttle: &Throttle, services: &Services) -> Option<Admission> {
    let (rate, account) = (
        throttle.static_requests.as_ref()?,
        exchange.client.account.as_ref()?,
    );
    Some(requests::admit(
        &account.static_requests,
        rate,
        (services.now_ns)(),
    ))
}

/// The site's own limits, which all its clients share: the rule, and when to come again.
fn of_site(
    exchange: &mut Exchange,
    throttle: &Throttle,
    services: &Services,
) -> Option<(&'static str, u64)> {
    let site = services.generation.site_accounts.get(exchange.site_index)?;
    if let Some(rate) = &throttle.site_requests {
        match requests::admit(&site.requests, rate, (services.now_ns)()) {
            Admission::Refuse { retry_after_s } => {
                return Some(("requests_per_site", retry_after_s));
            }
            Admission::Delay(wait_ns) => {
                exchange.admission = Some(longer(exchange.admission, wait_ns))
            }
            Admission::Pass => {}
        }
    }
    match throttle.at_a_time_site {
        0 => None,
        max => match site.begin_request(max) {
            Some(counted) => {
                exchange.counted.push(counted);
                None
            }
            None => Some(("at_a_time_per_site", 1)),
        },
    }
}

fn longer(admission: Option<Admission>, wait_ns: u64) -> Admission {
    match admission {
        Some(Admission::Delay(other_ns)) => Admission::Delay(wait_ns.max(other_ns)),
        _ => Admission::Delay(wait_ns),
    }
}

/// Counts the request among its client's; `false`: they are too many.
fn count(exchange: &mut Exchange, throttle: &Throttle) -> bool {
    let (max, account) = match (throttle.at_a_time_address, &exchange.client.account) {
        (0, _) | (_, None) => return true,
        (max, Some(account)) => (max, account),
    };
    match account.begin_request(max) {
        Some(counted) => {
            exchange.counted.push(counted);
            true
        }
        None => false,
    }
}

fn program_gate(
    exchange: &Exchange,
    throttle: &Throttle,
    services: &Services,
    is_exempt: bool,
) -> Option<ProgramGate> {
    (throttle.counts_dynamic() || throttle.dynamic_requests.is_some()).then(|| ProgramGate {
        generation: Arc::clone(&services.generation),
        neighbours: Arc::clone(&services.neighbours),
        guard: Arc::clone(&services.guard),
        address: exchange.client.account.clone().filter(|_| !is_exempt),
        site_index: exchange.site_index,
        sleep: services.sleep,
        now_ns: services.now_ns,
    })
}

/// 0: no limit.
pub fn body_bytes_max(exchange: &Exchange, services: &Services) -> u64 {
    exchange
        .settings
        .body_bytes_max
        .unwrap_or(services.generation.model.limits.body_bytes_max)
}
