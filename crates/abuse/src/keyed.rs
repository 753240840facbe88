//! Limits by a part of the request: an API key, a session cookie, a query parameter.
//!
//! Called by: `limits`, once per client request, and once more for keys of the user.
//! Caveat: clients choose their keys. What is kept per key has a fixed size, and there is a bound
//! on keys; beyond it the least recently used ones begin anew. A made-up key escapes a limit, so
//! the rule belongs beside limits by address. Where a request has a parameter, a cookie, or a field twice,
//! the first and the last value are charged, too: one of them is what the application takes.
//! Out of scope: whether a key is valid, which the application knows.

use crate::{Abuse, state::KeyHash, together};
use saker_config::model::{KeyLimit, LimitKind, LimitName, Throttle};
use saker_matchers::MatchError;
use saker_pipeline::{Exchange, texts};
use saker_rate_limits::{Admission, Usage, requests};
use saker_telemetry::{error_log, message};
use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    sync::{Arc, LazyLock},
};

/// Secret, so that no client can make up a key with the account of another's.
static HASHERS: LazyLock<[RandomState; 2]> =
    LazyLock::new(|| [RandomState::new(), RandomState::new()]);

/// Counts the request under each of its keys: those of the user (`of_user`), or all others. Returns
/// the limit that refuses it, and when to come again; a delay is left in the exchange.
pub fn admit(
    exchange: &mut Exchange,
    throttle: &Throttle,
    abuse: &Abuse,
    (is_exempt, of_user): (bool, bool),
) -> Option<(&'static str, u64)> {
    if throttle.by_key.is_empty() {
        return None;
    }
    // Another request for the same path has another key.
    exchange.depends_on_request();
    if is_exempt {
        return None;
    }
    let limits = throttle.by_key.iter();
    let mut due = limits.filter(|limit| limit.is_of_user() == of_user);
    due.find_map(|limit| {
        let name = LimitName::new(LimitKind::Key, site_number(exchange, abuse), limit.place);
        if !exchange.limits.charge(name) {
            return None;
        }
        let keys = match keys(exchange, limit, abuse) {
            Ok(keys) => keys,
            Err(error) => {
                error_log::log_about(
                    &message::REQUEST_GIVEN_UP,
                    &*exchange,
                    format_args!("`{}`: {error}", limit.said),
                );
                return Some(("requests_by_key", 1));
            }
        };
        let mut each = keys.into_iter().flatten();
        each.find_map(|key| {
            let known = &abuse.shared.keyed;
            let usage = known.change(key, Arc::<Usage>::default, |usage| Arc::clone(usage));
            count(exchange, limit, (key, &usage), abuse)
        })
    })
}

/// The keys of a request, by all values of what it has twice, by the first, and by the last; `None`:
/// it has no value, or one of the others.
fn keys(
    exchange: &Exchange,
    limit: &KeyLimit,
    abuse: &Abuse,
) -> Result<[Option<KeyHash>; 3], MatchError> {
    let (usual, others) = texts::text_and_repeated(&limit.key, exchange)?;
    let hash = |value: &[u8], is_new: bool| {
        (is_new && !value.is_empty()).then(|| hash(exchange, limit, abuse, value))
    };
    let Some([first, last]) = others else {
        return Ok([hash(&usual, true), None, None]);
    };
    Ok([
        hash(&usual, true),
        hash(&first, first != usual),
        hash(&last, last != usual && last != first),
    ])
}

fn hash(exchange: &Exchange, limit: &KeyLimit, abuse: &Abuse, value: &[u8]) -> KeyHash {
    if let Some(counts) = abuse.shared.counts.get() {
        return counts.key_hash(&exchange.routing.site, limit, value);
    }
    let key = (
        abuse.generation.number,
        exchange.routing.site_index,
        (&*limit.said, limit.place),
        value,
    );
    let [one, other] = &*HASHERS;
    [one.hash_one(key), other.hash_one(key)]
}

fn count(
    exchange: &mut Exchange,
    limit: &KeyLimit,
    (key, usage): (KeyHash, &Arc<Usage>),
    abuse: &Abuse,
) -> Option<(&'static str, u64)> {
    if let Some(rate) = &limit.requests {
        let admission = requests::admit(&usage.account, rate, (abuse.now_ns)());
        together::of_key(&abuse.shared, key, rate, admission);
        match admission {
            Admission::Refuse { retry_after_s } => return Some(("requests_by_key", retry_after_s)),
            Admission::Delay(wait_ns) => {
                exchange.limits.admission = Some(longer(exchange.limits.admission, wait_ns));
            }
            Admission::Pass => {}
        }
    }
    if limit.at_a_time == 0 {
        return None;
    }
    match usage.begin_request(limit.at_a_time) {
        Some(counted) => {
            exchange.limits.counted.push(counted);
            None
        }
        None => Some(("concurrent_by_key", 1)),
    }
}

/// The site of a request in names of limits.
pub fn site_number(exchange: &Exchange, abuse: &Abuse) -> u32 {
    let accounts = abuse
        .generation
        .site_accounts
        .get(exchange.routing.site_index);
    accounts.map_or(0, |site| site.number)
}

/// Returns the longer of two delays.
pub fn longer(admission: Option<Admission>, wait_ns: u64) -> Admission {
    match admission {
        Some(Admission::Delay(other_ns)) => Admission::Delay(wait_ns.max(other_ns)),
        _ => Admission::Delay(wait_ns),
    }
}
