//! Rates of requests: pass, wait or refuse.
//!
//! Called by: `abuse` and drivers, once per request after the site is known; static and dynamic
//! requests have accounts of their own.
//! Caveat: a refused request is not charged, or a client that keeps trying would never be admitted
//! again.
//! Out of scope: the response (`abuse`), waiting (the phases).

use crate::{
    Account,
    scale::{NS_PER_S, scale},
};
use saker_config::model::{Excess, RequestRate};

const NS_PER_MS: u64 = 1_000_000;

/// Largest charge by another server at once: a day.
const CHARGE_NS_MAX: u64 = 86_400 * NS_PER_S;

/// The decision about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Pass,
    /// Go on after so many nanoseconds; the place is taken already.
    Delay(u64),
    /// 429 (RFC 6585 section 4) with Retry-After, at least 1.
    Refuse {
        retry_after_s: u64,
    },
}

/// Charges one request, unless it is refused. `burst` requests may come at once beyond the one that
/// is always let in at rest.
#[inline]
pub fn admit(account: &Account, rate: &RequestRate, now_ns: u64) -> Admission {
    let interval_ns = cost_ns(rate);
    let burst_ns = interval_ns.saturating_mul(rate.burst);
    account.charge(now_ns, interval_ns, |debt_ns| {
        let admission = decide(debt_ns.saturating_sub(burst_ns), rate.excess);
        (!matches!(admission, Admission::Refuse { .. }), admission)
    })
}

/// Cost of one request.
#[inline]
pub fn cost_ns(rate: &RequestRate) -> u64 {
    scale(1000, NS_PER_S, rate.per_1000_s)
}

/// Charges requests that another server has admitted, at the time at which it did.
pub fn charge_at(account: &Account, at_ns: u64, cost_ns: u64) {
    account.charge(at_ns, cost_ns.min(CHARGE_NS_MAX), |_| (true, ()));
}

/// `early_ns`: how long after now the request would fit.
#[inline]
fn decide(early_ns: u64, excess: Excess) -> Admission {
    let patience_ns = match excess {
        Excess::Refuse => 0,
        Excess::Delay { at_most_ms } => at_most_ms.saturating_mul(NS_PER_MS),
    };
    match early_ns.checked_sub(patience_ns) {
        Some(0) | None if early_ns == 0 => Admission::Pass,
        Some(0) | None => Admission::Delay(early_ns),
        Some(too_early_ns) => Admission::Refuse {
            retry_after_s: too_early_ns.div_ceil(NS_PER_S),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Admission::{Delay, Pass, Refuse};

    const SECOND: u64 = NS_PER_S;
    const START: u64 = 77 * SECOND;

    fn rate(per_1000_s: u64, burst: u64, excess: Excess) -> RequestRate {
        RequestRate {
            per_1000_s,
            burst,
            excess,
        }
    }

    #[test]
    fn thirty_per_minute_are_exact() {
        let (account, rate) = (Account::new(), rate(500, 0, Excess::Refuse));
        let times = [
            (0, Pass),
            (1, Refuse { retry_after_s: 2 }),
            (SECOND, Refuse { retry_after_s: 1 }),
            (2 * SECOND - 1, Refuse { retry_after_s: 1 }),
        ];
        for (at, want) in times {
            assert_eq!(admit(&account, &rate, START + at), want, "{at}");
        }
        let passed = (0..600)
            .filter(|tenth| {
                admit(&account, &rate, START + 2 * SECOND + tenth * SECOND / 10) == Pass
            })
            .count();
        assert_eq!(passed, 30);
    }

    #[test]
    fn a_burst_passes_and_comes_back_with_time() {
        let (account, rate) = (Account::new(), rate(1_000_000, 9, Excess::Refuse));
        let burst = |now| {
            (0..100)
                .filter(|_| admit(&account, &rate, now) == Pass)
                .count()
        };
        assert_eq!(burst(START), 10);
        assert_eq!(burst(START + 5_000_000), 5);
        assert_eq!(burst(START + SECOND), 10);
    }

    #[test]
    fn refused_requests_are_not_charged() {
        let (account, rate) = (Account::new(), rate(1000, 0, Excess::Refuse));
        assert_eq!(admit(&account, &rate, START), Pass);
        for _ in 0..10_000 {
            assert_eq!(
                admit(&account, &rate, START + 1),
                Refuse { retry_after_s: 1 }
            );
        }
        assert_eq!(admit(&account, &rate, START + SECOND), Pass);
    }

    #[test]
    fn delayed_requests_queue_up_to_the_limit() {
        let (account, rate) = (
            Account::new(),
            rate(2000, 1, Excess::Delay { at_most_ms: 1200 }),
        );
        let want = [
            Pass,
            Pass,
            Delay(SECOND / 2),
            Delay(SECOND),
            Refuse { retry_after_s: 1 },
            Refuse { retry_after_s: 1 },
        ];
        for want in want {
            assert_eq!(admit(&account, &rate, START), want);
        }
        // 300 ms later the next place is within the limit again.
        assert_eq!(
            admit(&account, &rate, START + 300_000_000),
            Delay(1_200_000_000)
        );
    }

    #[test]
    fn the_delay_limit_counts_to_the_nanosecond() {
        for (at_most_ms, want) in [(1000, Delay(SECOND)), (999, Refuse { retry_after_s: 1 })] {
            let (account, rate) = (Account::new(), rate(1000, 0, Excess::Delay { at_most_ms }));
            assert_eq!(admit(&account, &rate, START), Pass);
            assert_eq!(admit(&account, &rate, START), want);
        }
    }

    #[test]
    fn retry_after_is_when_it_would_pass() {
        let (account, rate) = (Account::new(), rate(10, 2, Excess::Refuse));
        (0..3).for_each(|_| assert_eq!(admit(&account, &rate, START), Pass));
        assert_eq!(admit(&account, &rate, START), Refuse { retry_after_s: 100 });
        assert_eq!(
            admit(&account, &rate, START + 99 * SECOND),
            Refuse { retry_after_s: 1 }
        );
        assert_eq!(admit(&account, &rate, START + 100 * SECOND), Pass);
    }

    #[test]
    fn nothing_overflows() {
        for per_1000_s in [0, 1, u64::MAX] {
            for excess in [
                Excess::Refuse,
                Excess::Delay {
                    at_most_ms: u64::MAX,
                },
            ] {
                let rate = rate(per_1000_s, u64::MAX, excess);
                let account = Account::new();
                for now in [u64::MAX, 0, START] {
                    admit(&account, &rate, now);
                }
            }
        }
    }
}
