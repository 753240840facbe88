//! What has been used of a limit, as one number; who charges it and who pays is the pipeline's
//! affair (`throttle`).

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// What one connection, address or site has used of one limit: the monotonic time, in nanoseconds,
/// at which it is even. In the past for an account at rest. Relaxed order is enough, because it
/// guards no other memory.
#[derive(Debug, Default)]
pub struct Account(AtomicU64);

impl Account {
    pub const fn new() -> Account {
        Account(AtomicU64::new(0))
    }

    /// Whether everything is paid off, so that this account is as good as a new one.
    pub fn is_at_rest(&self, now_ns: u64) -> bool {
        self.0.load(Relaxed) <= now_ns
    }

    /// How far the account is ahead of `now_ns`. The clock is coarse and cores read it apart, so it
    /// may seem to step back.
    pub fn debt_ns(&self, now_ns: u64) -> u64 {
        self.0.load(Relaxed).saturating_sub(now_ns)
    }

    /// Adds to the debt if `accept` agrees, which is told the debt as it is; returns what `accept`
    /// said.
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

    /// Takes back what was charged and not used.
    pub fn discharge(&self, cost_ns: u64) {
        let _ = self.0.fetch_update(Relaxed, Relaxed, |even_ns| {
            Some(even_ns.saturating_sub(cost_ns))
        });
    }
}

/// What all connections to one of many hosts have used, where a site stands for them all.
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

/// By identity.
impl PartialEq for HostAccounts {
    fn eq(&self, other: &HostAccounts) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for HostAccounts {}
