//! What somebody meets who is over a limit or on a list: the one place where that is decided,
//! counted, and told to the log.
//!
//! Place in the walk: the access phase and the gate before programs come here. A further
//! consequence is one more variant of [`Consequence`] and one more arm in [`meet`]. Difficulty:
//! whoever keeps coming though he is refused may be banned, and a ban is for the address that the
//! request is from: behind a trusted proxy that is the client, never the proxy.

use super::{AddressState, AddressTable, evasive::Repeats, requests};
use crate::{
    Exchange, Generation, GuardState, Response,
    guard::{challenge, is_for_robots},
    throttle::Admission,
};
use saker_config::model::{Consequence, Excess, RequestRate, ServerGuard};
use saker_http::Status;
use saker_ipset::{Ban, Bans, Block};
use saker_telemetry::{error_log, message};
use std::{net::IpAddr, sync::Arc};

/// The number is nginx's: for logs only, nobody hears it.
const NO_RESPONSE: Status = Status(444);

/// What all workers know of clients.
#[derive(Debug)]
pub struct Neighbours {
    pub addresses: Arc<AddressTable>,
    pub bans: Arc<Bans>,
    pub repeats: Repeats,
}

impl Default for Neighbours {
    fn default() -> Neighbours {
        Neighbours {
            addresses: Arc::new(AddressTable::new(0)),
            bans: Arc::default(),
            repeats: Repeats::default(),
        }
    }
}

/// What somebody is over, or on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over {
    /// As the log and the documentation call it.
    pub rule: &'static str,
    pub consequence: Consequence,
    /// 0: nobody knows when.
    pub retry_after_s: u64,
    /// It is the client's own doing, which counts towards a ban.
    pub is_offence: bool,
}

/// Tells the log, counts the offence, and answers.
pub fn meet(
    exchange: &mut Exchange,
    generation: &Generation,
    neighbours: &Neighbours,
    guard: &GuardState,
    now_ns: u64,
    over: Over,
) -> Response {
    exchange.trace("access", None, || {
        format!("the client is refused: {}", over.rule)
    });
    if exchange.trace.is_none() {
        tell(exchange, &over);
        if over.is_offence {
            count_offence(exchange, &generation.model.guard, neighbours, now_ns);
        }
    }
    // Saying no takes no place.
    exchange.counted.clear();
    match over.consequence {
        Consequence::Refuse(status) => refused(status, over.retry_after_s),
        Consequence::Challenge => {
            let rule = challenge::rule(exchange);
            match is_for_robots(&exchange.path) || challenge::has_passed(exchange, guard, &rule) {
                // More than work can buy, or asked for by who can't work.
                true => refused(if over.is_offence { 429 } else { 503 }, over.retry_after_s),
                false => challenge::page(exchange, guard, &rule, over.retry_after_s),
            }
        }
        Consequence::Drop => {
            exchange.drops_connection = true;
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

/// A line whose form stays: `address=… rule=… site=…`, for fail2ban and its like.
fn tell(exchange: &Exchange, over: &Over) {
    let site = String::from_utf8_lossy(&exchange.host)
        .replace(|letter: char| letter.is_control() || letter == ' ', "?");
    let site = if site.is_empty() { "-" } else { &site };
    error_log::log_about(
        &message::CLIENT_REFUSED,
        exchange,
        format_args!(
            "address={} rule={} site={site}",
            exchange.client.ip(),
            over.rule
        ),
    );
}

fn count_offence(exchange: &Exchange, guard: &ServerGuard, neighbours: &Neighbours, now_ns: u64) {
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
            &neighbours.bans,
            guard,
            exchange.client.ip(),
            exchange.now,
            "refused_requests",
        );
    }
}

/// A request that is no HTTP. `true`: the address is banned now.
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

/// Bans by the server's own making, and says so. `false`: there are as many bans as there may be.
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

fn is_one_too_many(account: &super::Account, max: u64, in_ms: u64, now_ns: u64) -> bool {
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
        let account = crate::throttle::Account::new();
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
