//! Usage of a rate limit as one number. Charging and waiting are up to the pipeline (`throttle`).
//!
//! Called by: `throttle` of the pipeline, on every charged write or request.
//! Caveat: one relaxed atomic, shared by all workers.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Usage of one limit by a connection, address or site: the monotonic time, in nanoseconds, at
/// which the account is balanced; in the past for an idle account. Relaxed ordering is enough,
/// because it guards no other memory.
#[derive(Debug, Default)]
pub struct Account(AtomicU64);

impl Account {
    pub const fn new() -> Account {
        Account(AtomicU64::new(0))
    }

    /// Returns whether nothing is owed, so that the account equals a new one.
    pub fn is_at_rest(&self, now_ns: u64) -> bool {
        self.0.load(Relaxed) <= now_ns
    }

    /// Returns how far the account is ahead of `now_ns`. The clock is coarse and read on several
    /// cores, so it may seem to step back.
    #[inline]
    pub fn debt_ns(&self, now_ns: u64) -> u64 {
        self.0.load(Relaxed).saturating_sub(now_ns)
    }

    /// Adds to the debt if `accept`, called with the current debt, agrees. Returns its result.
    #[inline]
    pub fn charge<T>(
        &self,
        now_ns: u64,
        cost_ns: u64,
        mut accept: impl FnMut(u64) -> (bool, T),
    ) -> T {
        let mut even_ns = self.0.load(Relaxed);
        loop {
            let (accepted, answer) = accept(even_ns.saturating_sub(now_ns));
            if !accepted {
                return answer;
            }
            let next_ns = even_ns.max(now_ns).saturating_add(cost_ns);
            match self
                .0
                .compare_exchange_weak(even_ns, next_ns, Relaxed, Relaxed)
            {
                Ok(_) => return answer,
                Err(other) => even_ns = other,
            }
        }
    }

    /// Gives back what was charged and not used.
    pub fn discharge(&self, cost_ns: u64) {
        let _ = self.0.fetch_update(Relaxed, Relaxed, |even_ns| {
            Some(even_ns.saturating_sub(cost_ns))
        });
    }
}

/// Usage of each host of a site with many hosts.
#[derive(Clone, Debug, Default)]
pub struct HostAccounts(Arc<(Account, Account)>);

impl HostAccounts {
    pub fn out_bytes(&self) -> &Account {
        &self.0.0
    }

    pub fn in_bytes(&self) -> &Account {
        &self.0.1
    }
}

/// Compares by identity.
impl PartialEq for HostAccounts {
    fn eq(&self, other: &HostAccounts) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for HostAccounts {}
