//! Schedule of orders: retries, renewals, and a limit per hour. Time and chance are arguments.
//!
//! Authorities count (Let's Encrypt: 5 failed validations of a name per hour, 300 orders in 3
//! hours), so the waits grow, are spread, and are kept on disk.

use std::collections::VecDeque;

/// Half of what Let's Encrypt allows an account.
pub const ORDERS_PER_HOUR_MAX: usize = 50;

const HOUR_S: u64 = 3600;
const DAY_S: u64 = 24 * HOUR_S;
const FIRST_RETRY_S: u64 = 60;
const RETRY_S: u64 = 900;
const RETRY_S_MAX: u64 = DAY_S;

/// Seconds until the next attempt after so many failures in a row. The first are close together,
/// one for each of the `ways` to prove a name, since the next attempt takes the next way. `chance`
/// is from 0 to 1 and moves it by a quarter.
pub fn retry_delay_s(failures: u32, ways: u32, chance: f64) -> u64 {
    let base = match failures.checked_sub(ways.max(1)) {
        None => FIRST_RETRY_S,
        Some(doublings) => RETRY_S
            .saturating_mul(1 << doublings.min(16))
            .min(RETRY_S_MAX),
    };
    (base as f64 * (0.75 + chance / 2.0)) as u64
}

/// Returns the time to renew a certificate: a random moment of the authority's window (RFC 9773
/// section 4.2), or else after two thirds of its lifetime, slightly earlier at random. In any case
/// while a tenth of it is left.
pub fn renew_at(not_before: u64, not_after: u64, window: Option<(u64, u64)>, chance: f64) -> u64 {
    let life = not_after.saturating_sub(not_before);
    let latest = not_after.saturating_sub(life / 10);
    let at = match window {
        Some((start, end)) => {
            start.saturating_add((end.saturating_sub(start) as f64 * chance) as u64)
        }
        None => (not_before + life / 3 * 2).saturating_sub(((life / 20) as f64 * chance) as u64),
    };
    at.min(latest)
}

/// Returns how long a renewal window stays valid, from the authority's `Retry-After`.
pub fn check_after_s(suggested_s: u64) -> u64 {
    suggested_s.clamp(HOUR_S, DAY_S)
}

/// The orders of the last hour.
#[derive(Debug, Default)]
pub struct Pace(pub VecDeque<u64>);

impl Pace {
    /// Notes an order at `now`; or when one is possible.
    pub fn order(&mut self, now: u64) -> Result<(), u64> {
        self.0
            .retain(|at| at.saturating_add(HOUR_S) > now && *at <= now);
        match self.0.front() {
            Some(first) if self.0.len() >= ORDERS_PER_HOUR_MAX => Err(first + HOUR_S),
            _ => {
                self.0.push_back(now);
                Ok(())
            }
        }
    }
}

/// A random number from 0 to 1.
pub fn chance() -> f64 {
    let mut bytes = [0; 4];
    match aws_lc_rs::rand::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 0.5,
    }
}

pub fn now() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    pub year: u64,
    pub month: u64,
    pub day: u64,
    pub hour: u64,
    pub minute: u64,
}

/// UTC of seconds since 1970; years are counted from March, so that a leap day comes last.
pub fn civil(seconds: u64) -> Civil {
    let days = seconds / DAY_S + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    Civil {
        year,
        month,
        day,
        hour: seconds % DAY_S / HOUR_S,
        minute: seconds % HOUR_S / 60,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_grow_and_end_at_a_day() {
        let delays: Vec<u64> = (1..12)
            .map(|failures| retry_delay_s(failures, 2, 0.5))
            .collect();
        assert_eq!(
            delays,
            [
                60, 900, 1800, 3600, 7200, 14_400, 28_800, 57_600, 86_400, 86_400, 86_400
            ]
        );
        assert_eq!(retry_delay_s(u32::MAX, 1, 0.0), DAY_S * 3 / 4);
        assert_eq!(retry_delay_s(1, 1, 1.0), 1125);
    }

    /// Let's Encrypt allows five failed validations of a name in an hour.
    #[test]
    fn no_five_failures_in_an_hour() {
        for ways in 1..=3 {
            let (mut at, mut failed) = (0, vec![0]);
            for failures in 1..20 {
                at += retry_delay_s(failures, ways, 0.0);
                failed.push(at);
            }
            assert!(
                failed.windows(6).all(|six| six[5] - six[0] >= HOUR_S),
                "{ways}: {failed:?}"
            );
        }
    }

    #[test]
    fn renewal_without_a_window_is_after_two_thirds() {
        let (from, to) = (1_000_000, 1_000_000 + 90 * DAY_S);
        assert_eq!(renew_at(from, to, None, 0.0), from + 60 * DAY_S);
        assert_eq!(
            renew_at(from, to, None, 1.0),
            from + 60 * DAY_S - 90 * DAY_S / 20
        );
        assert_eq!(renew_at(10, 5, None, 0.5), 5);
    }

    #[test]
    fn renewal_is_in_the_window_and_before_the_end() {
        let (from, to) = (0, 100 * DAY_S);
        assert_eq!(renew_at(from, to, Some((10, 20)), 0.0), 10);
        assert_eq!(renew_at(from, to, Some((10, 20)), 1.0), 20);
        assert_eq!(
            renew_at(from, to, Some((99 * DAY_S, 200 * DAY_S)), 0.5),
            90 * DAY_S
        );
        assert_eq!(renew_at(from, to, Some((20, 10)), 0.5), 20);
    }

    #[test]
    fn so_many_orders_an_hour_and_no_more() {
        let mut pace = Pace::default();
        for second in 0..ORDERS_PER_HOUR_MAX as u64 {
            assert_eq!(pace.order(1000 + second), Ok(()));
        }
        assert_eq!(pace.order(2000), Err(1000 + HOUR_S));
        assert_eq!(pace.order(1000 + HOUR_S), Ok(()));
        assert_eq!(pace.order(1000 + HOUR_S), Err(1001 + HOUR_S));
        assert_eq!(pace.order(500), Ok(()), "a clock that was set back forgets");
    }

    #[test]
    fn calendar() {
        let at = |seconds| {
            let time = civil(seconds);
            (time.year, time.month, time.day, time.hour, time.minute)
        };
        assert_eq!(at(0), (1970, 1, 1, 0, 0));
        assert_eq!(at(951_827_696), (2000, 2, 29, 12, 34));
        assert_eq!(at(4_102_444_799), (2099, 12, 31, 23, 59));
    }
}
