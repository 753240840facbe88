//! Violations of limits and lists: the one place where they are logged, counted towards a ban and
//! answered.
//!
//! Called by: `limits`, the gate before upstreams, and login attempts. A further consequence is one
//! more variant of [`Consequence`] and one more arm in [`enforce`]. Caveat: a client that keeps
//! violating limits may be banned, and a ban is for the address that the request is from: behind a
//! trusted proxy that is the client, never the proxy. Out of scope: refusing connections of banned
//! clients (`server`).

use crate::{ClientLimits, SharedAbuseState, challenge, context::is_for_bots};
use saker_config::model::{Consequence, Excess, RequestRate, ServerGuard};
use saker_http::Status;
use saker_ipset::{Ban, Bans, Block};
use saker_pipeline::{Exchange, Generation, Response};
use saker_rate_limits::{Account, AddressState, Admission, requests};
use saker_telemetry::{error_log, message};
use std::net::IpAddr;

/// As nginx's 444: for logs only, no response is sent.
const NO_RESPONSE: Status = Status(444);

/// A limit that a client is over, or a list that it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Name in the log and the documentation.
    pub rule: &'static str,
    pub consequence: Consequence,
    /// 0: unknown.
    pub retry_after_s: u64,
    /// The client's own doing, which counts towards a ban.
    pub is_offense: bool,
}

/// Logs the violation, counts the offense, and returns the answer.
pub fn enforce(
    exchange: &mut Exchange,
    generation: &Generation,
    clients: &ClientLimits,
    shared: &SharedAbuseState,
    now_ns: u64,
    violation: Violation,
) -> Response {
    exchange.trace("access", None, || {
        format!("the client is refused: {}", violation.rule)
    });
    if exchange.log.trace.is_none() {
        log_violation(exchange, &violation);
        if violation.is_offense {
            count_offense(exchange, &generation.model.guard, clients, now_ns);
        }
    }
    // A refused request holds no place among concurrent ones.
    exchange.limits.counted.clear();
    match violation.consequence {
        Consequence::Refuse(status) => refused(status, violation.retry_after_s),
        Consequence::Challenge => {
            let rule = challenge::rule(exchange);
            match is_for_bots(&exchange.path) || challenge::has_clearance(exchange, shared, &rule) {
                // A clearance does not raise this limit, or the path is for bots that solve
                // nothing.
                true => refused(
                    if violation.is_offense { 429 } else { 503 },
                    violation.retry_after_s,
                ),
                false => challenge::page(exchange, shared, &rule, violation.retry_after_s),
            }
        }
        Consequence::Drop => {
            exchange.limits.drops_connection = true;
            Response::new(NO_RESPONSE)
        }
    }
}

fn refused(status: u16, retry_after_s: u64) -> Response {
    let mut response = Response::new(Status(status));
    if retry_after_s > 0 && status != Status::FORBIDDEN.0 {
        response
            .fields_mut()
            .set("Retry-After", retry_after_s.to_string().into_bytes());
    }
    response
}

/// A line of stable form for fail2ban and its like: `address=… rule=… site=…`.
fn log_violation(exchange: &Exchange, violation: &Violation) {
    let site = String::from_utf8_lossy(&exchange.host)
        .replace(|letter: char| letter.is_control() || letter == ' ', "?");
    let site = if site.is_empty() { "-" } else { &site };
    error_log::log_about(
        &message::CLIENT_REFUSED,
        exchange,
        format_args!(
            "address={} rule={} site={site}",
            exchange.client.ip(),
            violation.rule
        ),
    );
}

fn count_offense(exchange: &Exchange, guard: &ServerGuard, clients: &ClientLimits, now_ns: u64) {
    if guard.refused_requests_max == 0 {
        return;
    }
    let Some(state) = &exchange.client.account else {
        return;
    };
    if is_one_too_many(
        &state.refused_requests,
        guard.refused_requests_max,
        guard.grace_ms,
        now_ns,
    ) {
        ban(
            &clients.bans,
            guard,
            exchange.client.ip(),
            exchange.now,
            "refused_requests",
        );
    }
}

/// Counts a request that is not HTTP. `true`: the address is banned now.
pub fn bad_request(
    state: &AddressState,
    guard: &ServerGuard,
    bans: &Bans,
    address: IpAddr,
    now_ns: u64,
    now_s: i64,
) -> bool {
    guard.bad_requests_max != 0
        && is_one_too_many(
            &state.bad_requests,
            guard.bad_requests_max,
            guard.grace_ms,
            now_ns,
        )
        && ban(bans, guard, address, now_s, "bad_requests")
}

/// Bans an address and logs that. `false`: the table of bans is full.
pub fn ban(bans: &Bans, guard: &ServerGuard, address: IpAddr, now_s: i64, rule: &str) -> bool {
    let block = match address.to_canonical() {
        IpAddr::V4(_) => Block::single(address),
        IpAddr::V6(_) => Block::around(address, guard.ipv6_prefix),
    };
    let seconds = i64::try_from(guard.ban_ms.div_ceil(1000)).unwrap_or(i64::MAX);
    let done = bans
        .insert(
            Ban::new(block, now_s, Some(now_s.saturating_add(seconds)), rule),
            now_s,
        )
        .is_ok();
    if done {
        error_log::log(
            &message::CLIENT_BANNED,
            format_args!("address={block} rule={rule} seconds={seconds}"),
        );
    }
    done
}

fn is_one_too_many(account: &Account, max: u64, in_ms: u64, now_ns: u64) -> bool {
    let per_1000_s = max.saturating_mul(1_000_000).div_ceil(in_ms.max(1)).max(1);
    let rate = RequestRate {
        per_1000_s,
        burst: max - 1,
        excess: Excess::Refuse,
    };
    requests::admit(account, &rate, now_ns) != Admission::Pass
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn one_more_than_there_may_be_is_banned() {
        let guard = ServerGuard {
            bad_requests_max: 3,
            ..ServerGuard::default()
        };
        let (state, bans) = (AddressState::default(), Bans::default());
        let address: IpAddr = "2001:db8::7".parse().unwrap();
        let bad = |now_ns| bad_request(&state, &guard, &bans, address, now_ns, 1000);
        assert_eq!(
            [bad(SECOND), bad(SECOND), bad(SECOND), bad(SECOND)],
            [false, false, false, true]
        );
        assert!(
            bans.contains("2001:db8::8".parse().unwrap(), 1299),
            "its /64"
        );
        assert!(
            !bans.contains("2001:db8:0:1::".parse().unwrap(), 1299)
                && !bans.contains(address, 1300)
        );
        assert!(
            !bad_request(&state, &ServerGuard::default(), &bans, address, SECOND, 0),
            "off by default"
        );
    }

    #[test]
    fn with_time_it_is_forgiven() {
        let account = Account::new();
        // Three in 15 seconds: one comes back every five.
        let too_many = |at_s: u64| is_one_too_many(&account, 3, 15_000, (100 + at_s) * SECOND);
        assert_eq!(
            [
                too_many(0),
                too_many(0),
                too_many(0),
                too_many(5),
                too_many(6)
            ],
            [false, false, false, false, true]
        );
        assert!(!too_many(30));
    }
}
