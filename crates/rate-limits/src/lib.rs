//! Rates, bandwidth and concurrency as a pure machine: bytes and the time go in, a decision comes
//! out; the caller waits.
//!
//! Floor 3. Called by: the listener, which looks up an address's [`AddressState`] once per
//! connection; `abuse`, which asks [`requests::admit`]; drivers, which ask [`Paced`] before and
//! after each piece of a body. Caveat: a limit must cost nothing where it does not bite, and is
//! shared by all cores. So an [`Account`] is one number, the time at which all that was charged
//! will have been paid off (the theoretical arrival time of the generic cell rate algorithm):
//! nothing is refilled, nothing runs in the background, and an unused account needs no attention.
//! Out of scope: clocks, timers, sockets; fairness among those who share an account (first come,
//! first served).

pub mod addresses;
pub mod bandwidth;
pub mod deltas;
pub mod places;
pub mod requests;
mod scale;
mod sessions;
mod sites;
pub mod usage;

pub use addresses::{
    ACCOUNTS, AddressState, AddressTable, ClientAccount, ConnectionGuard, Debts, LimitDebt,
};
pub use bandwidth::Paced;
pub use deltas::{AccountName, Limit, Unsent};
pub use places::{Place, Places};
pub use requests::Admission;
pub use saker_config::model::Account;
pub use sessions::SessionCounts;
pub use sites::SiteAccounts;
pub use usage::{Counted, Usage};

#[cfg(test)]
mod tests {
    use super::*;

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
