//! Limits on attempts to log in.
//!
//! Called by: log-in, before a password is looked at.
//! Caveat: an address that fails waits longer each time, and all addresses together have a few
//! attempts per second, so that many of them gain nothing. No client can lock a user out: limits are
//! by address, ranges with many failures have an account of their own, so that they use up nothing
//! of the others', and the link of `saker console` has no limit.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// Failures of an address before it has to wait.
pub const FAILURES_FREE: u32 = 5;
/// First wait; it doubles with each further failure.
pub const WAIT_S: i64 = 30;
pub const WAIT_MAX_S: i64 = 3_600;
/// Failures of a range of addresses before its attempts are counted apart from those of the others.
pub const RANGE_FAILURES_FREE: u32 = 10;
/// Attempts of all addresses together, of ranges with many failures and of the others.
pub const ATTEMPTS_PER_SECOND: i64 = 2;
pub const ATTEMPTS_AT_ONCE: i64 = 20;
/// Time after which failures are forgotten.
const FORGET_S: i64 = 24 * 3_600;
const ADDRESSES_MAX: usize = 4096;

#[derive(Debug, Default)]
pub struct LogInLimits {
    by_address: HashMap<IpAddr, Failures>,
    by_range: HashMap<IpAddr, Failures>,
    /// Time, in seconds, at which all attempts so far are paid off, times the rate.
    paid_off: i64,
    /// Likewise for ranges with many failures.
    paid_off_of_failing: i64,
}

#[derive(Debug, Default)]
struct Failures {
    count: u32,
    until_s: i64,
    last_s: i64,
}

impl LogInLimits {
    /// Admits an attempt, or returns the seconds to wait.
    pub fn admit(&mut self, client: IpAddr, now_s: i64) -> Result<(), i64> {
        if let Some(failures) = self.by_address.get(&network(client))
            && failures.until_s > now_s
        {
            return Err(failures.until_s - now_s);
        }
        let of_range = self.by_range.get(&range(client));
        let is_failing = of_range.is_some_and(|failures| {
            failures.count >= RANGE_FAILURES_FREE && now_s - failures.last_s < FORGET_S
        });
        let account = match is_failing {
            true => &mut self.paid_off_of_failing,
            false => &mut self.paid_off,
        };
        let now = now_s * ATTEMPTS_PER_SECOND;
        let paid_off = (*account).max(now);
        if paid_off - now >= ATTEMPTS_AT_ONCE {
            return Err(1);
        }
        *account = paid_off + 1;
        Ok(())
    }

    pub fn failed(&mut self, client: IpAddr, now_s: i64) {
        note(&mut self.by_range, range(client), now_s);
        let failures = note(&mut self.by_address, network(client), now_s);
        if let Some(beyond) = failures.count.checked_sub(FAILURES_FREE) {
            let wait_s = WAIT_S.saturating_mul(1 << beyond.min(20));
            failures.until_s = now_s + wait_s.min(WAIT_MAX_S);
        }
    }

    pub fn succeeded(&mut self, client: IpAddr) {
        self.by_address.remove(&network(client));
        self.by_range.remove(&range(client));
    }
}

/// Counts a failure.
fn note(all: &mut HashMap<IpAddr, Failures>, of: IpAddr, now_s: i64) -> &mut Failures {
    all.retain(|_, failures| now_s - failures.last_s < FORGET_S);
    if all.len() >= ADDRESSES_MAX && !all.contains_key(&of) {
        let oldest = all.iter().min_by_key(|(_, failures)| failures.last_s);
        let oldest = oldest.map(|(address, _)| *address);
        oldest.map(|address| all.remove(&address));
    }
    let failures = all.entry(of).or_default();
    failures.count = failures.count.saturating_add(1);
    failures.last_s = now_s;
    failures
}

/// Seconds of a clock that is never set back: limits must not last longer for it.
pub fn monotonic_s() -> i64 {
    i64::try_from(saker_net::clock::monotonic_ms() / 1000).unwrap_or(i64::MAX)
}

/// A client of IPv6 has a network of addresses, and one on this machine has 127.0.0.0/8.
pub fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(address) if address.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(
            address.to_bits() & !u128::from(u64::MAX),
        )),
        address => address,
    }
}

/// The range of addresses that one customer of a provider may have: an IPv6 /48, an IPv4 /24.
fn range(client: IpAddr) -> IpAddr {
    match network(client) {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & !0xff).into(),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 80 << 80)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_waits_longer_each_time() {
        let mut limits = LogInLimits::default();
        let (client, other) = (address("192.0.2.1"), address("192.0.2.2"));
        for attempt in 0..FAILURES_FREE {
            assert_eq!(
                limits.admit(client, i64::from(attempt)),
                Ok(()),
                "{attempt}"
            );
            limits.failed(client, 10);
        }
        assert_eq!(limits.admit(client, 10), Err(WAIT_S));
        assert_eq!(limits.admit(other, 10), Ok(()));
        assert_eq!(limits.admit(client, 10 + WAIT_S), Ok(()));
        limits.failed(client, 10 + WAIT_S);
        assert_eq!(limits.admit(client, 10 + WAIT_S), Err(2 * WAIT_S));
        for _ in 0..100 {
            limits.failed(client, 100);
        }
        assert_eq!(limits.admit(client, 100), Err(WAIT_MAX_S));
        limits.succeeded(client);
        assert_eq!(limits.admit(client, 100), Ok(()));
    }

    #[test]
    fn addresses_of_one_network_wait_together() {
        let mut limits = LogInLimits::default();
        for last in 0..FAILURES_FREE {
            limits.failed(address(&format!("2001:db8::{last}")), 0);
        }
        assert!(limits.admit(address("2001:db8::ffff"), 0).is_err());
        assert!(limits.admit(address("2001:db8:0:1::1"), 0).is_ok());
    }

    #[test]
    fn all_addresses_together_have_a_rate() {
        let mut limits = LogInLimits::default();
        let mut admitted = |now_s| {
            (0..100u8)
                .filter(|last| {
                    limits
                        .admit(address(&format!("192.0.2.{last}")), now_s)
                        .is_ok()
                })
                .count()
        };
        assert_eq!(admitted(100), ATTEMPTS_AT_ONCE as usize);
        assert_eq!(admitted(101), ATTEMPTS_PER_SECOND as usize);
    }

    /// A client that has a /48, and with it 65,536 networks, uses up its own attempts.
    #[test]
    fn ranges_with_many_failures_leave_others_their_attempts() {
        for range in [
            |number: i64| address(&format!("2001:db8:1:{number:x}::1")),
            |number: i64| address(&format!("198.51.100.{}", number % 256)),
        ] {
            let mut limits = LogInLimits::default();
            for now_s in 0..60 {
                for number in 0..40 {
                    let client = range(now_s * 40 + number);
                    if limits.admit(client, now_s).is_ok() {
                        limits.failed(client, now_s);
                    }
                }
            }
            assert!(limits.admit(range(99), 59).is_err());
            for other in ["192.0.2.1", "2001:db8:2::1", "127.0.0.1"] {
                assert_eq!(limits.admit(address(other), 59), Ok(()), "{other}");
            }
            // And those among them whose log-in is right.
            limits.succeeded(range(99));
            assert_eq!(limits.admit(range(99), 59), Ok(()));
        }
    }

    #[test]
    fn addresses_are_bounded() {
        let mut limits = LogInLimits::default();
        for number in 0..ADDRESSES_MAX as u32 + 10 {
            limits.failed(IpAddr::V4((number << 8).into()), i64::from(number));
        }
        assert_eq!(limits.by_address.len(), ADDRESSES_MAX);
        assert_eq!(limits.by_range.len(), ADDRESSES_MAX);
    }
}
