//! Throttling: bandwidth and rates of requests, as a pure machine. Bytes and the time go in, a
//! decision comes out; the drivers wait.
//!
//! Place in the walk: the listener asks [`AddressTable`] for a connection's [`AddressState`]; a
//! phase asks [`requests::admit`]; the drivers ask [`Paced`] before and after each piece of a body.
//! Difficulty: it must cost nothing when it does not bite, and be shared by all cores. So an
//! [`Account`] is one number, the time at which all that was charged will have been paid off (the
//! generic cell rate algorithm's theoretical arrival time): nothing is refilled, nothing runs in
//! the background, and an account nobody uses needs no attention. Absent on purpose: clocks,
//! timers, sockets; fairness among those who share an account (who asks first, goes first).

pub mod addresses;
pub mod bandwidth;
pub mod consequence;
pub mod evasive;
pub mod gate;
pub mod places;
pub mod requests;

pub use addresses::{AddressState, AddressTable, ConnectionGuard, Counted};
pub use bandwidth::Paced;
pub use consequence::{Neighbours, Over, meet};
pub use gate::ProgramGate;
pub use places::{Place, Places};
pub use requests::Admission;
pub use saker_config::model::Account;

const NS_PER_S: u64 = 1_000_000_000;

/// `amount * factor / divisor`, rounded to the nearest, saturating; no 128-bit division where 64
/// bits do. A divisor of 0 is taken as 1.
fn scale(amount: u64, factor: u64, divisor: u64) -> u64 {
    let divisor = divisor.max(1);
    match amount
        .checked_mul(factor)
        .and_then(|product| product.checked_add(divisor / 2))
    {
        Some(product) => product / divisor,
        None => {
            let product = u128::from(amount) * u128::from(factor) + u128::from(divisor / 2);
            u64::try_from(product / u128::from(divisor)).unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling() {
        let rows = [
            ((1, NS_PER_S, 3), 333_333_333),
            ((2, NS_PER_S, 3), 666_666_667),
            ((0, NS_PER_S, 3), 0),
            ((7, 1, 0), 7),
            ((u64::MAX, NS_PER_S, NS_PER_S), u64::MAX),
            ((u64::MAX, 2, 1), u64::MAX),
            ((40_000_000_000, NS_PER_S, 1_000_000), 40_000_000_000_000),
        ];
        for ((amount, factor, divisor), want) in rows {
            assert_eq!(
                scale(amount, factor, divisor),
                want,
                "{amount} {factor} {divisor}"
            );
        }
    }

    #[test]
    fn all_cores_charge_one_account_without_loss() {
        let account = Account::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| account.charge(5, 3, |_| (true, ()))));
            }
        });
        assert_eq!(account.debt_ns(5), 4 * 10_000 * 3);
        assert!(!account.is_at_rest(120_004) && account.is_at_rest(120_005));
    }

    #[test]
    fn a_clock_that_steps_back_neither_wraps_nor_forgives() {
        let account = Account::new();
        account.charge(1_000, 500, |_| (true, ()));
        account.charge(900, 500, |_| (true, ()));
        assert_eq!(account.debt_ns(1_000), 1_000);
        account.charge(u64::MAX, 500, |_| (true, ()));
        assert_eq!(account.debt_ns(0), u64::MAX);
    }
}
