//! Client addresses: what each has open and has used.
//!
//! Called by: the listener, once per connection; requests touch only the [`AddressState`]. Caveat:
//! an attacker may have any number of addresses, so the table has a bound and IPv6 addresses count
//! by /64, which is what one client is given. Addresses that come when the table is full share one
//! state, and with it one set of limits, until a sweep made room. Out of scope: a time of last use.
//! A state whose accounts are all at rest is as good as a new one: forgetting it then forgives
//! nothing, and forgetting it earlier would.

use crate::{Account, Places};
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use std::{
    hash::BuildHasher,
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

/// Locks are held for one look-up, so few shards are enough for the cores of one machine.
const SHARDS: usize = 16;
/// Default prefix length of one client.
pub(crate) const IPV6_PREFIX: u8 = 64;

/// Accounts of an address.
pub const ACCOUNTS: usize = 6;

/// Debts of one address, in nanoseconds by account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debts {
    /// The address, or the network that stands for it, IPv4 as mapped into IPv6.
    pub key: u128,
    pub ns: [u64; ACCOUNTS],
}

/// Open connections and usage of one client address, or of one IPv6 /64.
#[derive(Debug, Default)]
pub struct AddressState {
    /// Bandwidth of responses.
    pub out_bytes: Account,
    /// Bandwidth of request bodies.
    pub in_bytes: Account,
    pub static_requests: Account,
    pub dynamic_requests: Account,
    /// Requests that were no HTTP.
    pub bad_requests: Account,
    /// Requests that were refused for being too many.
    pub refused_requests: Account,
    /// Requests that are being answered.
    at_a_time: AtomicU32,
    connections: AtomicU32,
    /// Time at which it exceeded the soft limit of connections; 0: it has not.
    over_soft_since_ms: AtomicU64,
    /// Slots for programs, created once a limit needs them.
    dynamic: OnceLock<Arc<Places>>,
}

impl AddressState {
    /// Counts a connection, unless `connections_max` are open already. The count falls when the
    /// guard is dropped.
    pub fn connect(self: &Arc<Self>, connections_max: u32) -> Option<ConnectionGuard> {
        let below = |count| (count < connections_max).then_some(count + 1);
        self.connections
            .fetch_update(Relaxed, Relaxed, below)
            .ok()?;
        Some(ConnectionGuard {
            state: Arc::clone(self),
        })
    }

    /// Time since it has exceeded `soft_max` connections; `None`: it has not.
    pub fn over_soft_ms(&self, soft_max: u64, now_ms: u64) -> Option<u64> {
        if u64::from(self.connections()) <= soft_max {
            self.over_soft_since_ms.store(0, Relaxed);
            return None;
        }
        match self
            .over_soft_since_ms
            .compare_exchange(0, now_ms.max(1), Relaxed, Relaxed)
        {
            Ok(_) => Some(0),
            Err(since_ms) => Some(now_ms.saturating_sub(since_ms)),
        }
    }

    /// Places at programs.
    pub fn dynamic(&self) -> &Arc<Places> {
        self.dynamic.get_or_init(Arc::default)
    }

    /// Counts a request that is being answered, unless `max` are.
    pub fn begin_request(self: &Arc<Self>, max: u64) -> Option<Counted> {
        let below = |count| (u64::from(count) < max).then_some(count + 1);
        self.at_a_time.fetch_update(Relaxed, Relaxed, below).ok()?;
        let state = Arc::clone(self);
        Some(Counted::new(move || {
            state.at_a_time.fetch_sub(1, Relaxed);
        }))
    }

    pub fn connections(&self) -> u32 {
        self.connections.load(Relaxed)
    }

    fn accounts(&self) -> [&Account; ACCOUNTS] {
        [
            &self.static_requests,
            &self.dynamic_requests,
            &self.bad_requests,
            &self.refused_requests,
            &self.out_bytes,
            &self.in_bytes,
        ]
    }

    /// Nothing to pay off, on any account.
    fn is_at_rest(&self, now_ns: u64) -> bool {
        let accounts = self.accounts();
        accounts.iter().all(|account| account.is_at_rest(now_ns))
    }
}

/// A count that goes down again when this is dropped.
pub struct Counted(Option<Box<dyn FnOnce()>>);

impl Counted {
    pub fn new(leave: impl FnOnce() + 'static) -> Counted {
        Counted(Some(Box::new(leave)))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(leave) = self.0.take() {
            leave();
        }
    }
}

/// One counted connection of an address.
#[derive(Debug)]
pub struct ConnectionGuard {
    state: Arc<AddressState>,
}

impl ConnectionGuard {
    pub fn state(&self) -> &Arc<AddressState> {
        &self.state
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.state.connections.fetch_sub(1, Relaxed);
    }
}

/// The part of an address that stands for one client, IPv4 as mapped into IPv6.
type Key = u128;

pub(crate) fn key_of(address: IpAddr, ipv6_prefix: u8) -> Key {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => {
            address.to_bits() & !u128::MAX.checked_shr(ipv6_prefix.into()).unwrap_or(0)
        }
    }
}

type Shard = HashMap<Key, Arc<AddressState>, RandomState>;

/// States by address, shared by all cores.
#[derive(Debug)]
pub struct AddressTable {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    entries: AtomicUsize,
    entries_max: usize,
    overflow: Arc<AddressState>,
    ipv6_prefix: AtomicU8,
}

impl AddressTable {
    /// An entry takes some 250 bytes.
    pub fn new(entries_max: usize) -> AddressTable {
        AddressTable {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::default(),
            entries: AtomicUsize::new(0),
            entries_max,
            overflow: Arc::default(),
            ipv6_prefix: AtomicU8::new(IPV6_PREFIX),
        }
    }

    /// Sets the number of bits of an IPv6 address that stand for one client.
    pub fn set_ipv6_prefix(&self, bits: u8) {
        self.ipv6_prefix.store(bits, Relaxed);
    }

    /// Bits that stand for the address, on all servers with the same prefix length.
    pub fn bits(&self, address: IpAddr) -> u128 {
        key_of(address, self.ipv6_prefix.load(Relaxed))
    }

    /// The state of the address with these bits.
    pub fn state_of_bits(&self, bits: u128) -> Arc<AddressState> {
        self.state(IpAddr::V6(Ipv6Addr::from_bits(bits)))
    }

    /// Returns the state of an address; creates it if necessary, and returns the shared one if the
    /// table is full.
    pub fn state(&self, address: IpAddr) -> Arc<AddressState> {
        self.state_of(key_of(address, self.ipv6_prefix.load(Relaxed)))
    }

    /// Returns what addresses have to pay off, for the process that takes over.
    pub fn debts(&self, now_ns: u64) -> Vec<Debts> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = lock(shard);
            let owing = shard.iter().filter(|(_, state)| !state.is_at_rest(now_ns));
            all.extend(owing.map(|(key, state)| Debts {
                key: *key,
                ns: state.accounts().map(|account| account.debt_ns(now_ns)),
            }));
        }
        all
    }

    /// Charges what an address had to pay off in the process before.
    pub fn continue_debts(&self, debts: &Debts, now_ns: u64) {
        let state = self.state_of(debts.key);
        for (account, debt_ns) in state.accounts().into_iter().zip(debts.ns) {
            account.charge(now_ns, debt_ns, |_| (debt_ns > 0, ()));
        }
    }

    fn state_of(&self, key: Key) -> Arc<AddressState> {
        let mut shard = self.shard(key);
        if let Some(state) = shard.get(&key) {
            return Arc::clone(state);
        }
        let below = |count| (count < self.entries_max).then_some(count + 1);
        if self.entries.fetch_update(Relaxed, Relaxed, below).is_err() {
            return Arc::clone(&self.overflow);
        }
        Arc::clone(shard.entry(key).or_default())
    }

    /// Forgets the addresses that have nothing open and nothing to pay off, and returns how many.
    /// To be called every few seconds; looks at every entry, one shard at a time.
    pub fn sweep(&self, now_ns: u64) -> usize {
        self.shards
            .iter()
            .map(|shard| self.sweep_shard(&mut lock(shard), now_ns))
            .sum()
    }

    /// Number of addresses known.
    pub fn len(&self) -> usize {
        self.entries.load(Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if new addresses currently share one state.
    pub fn is_full(&self) -> bool {
        self.len() >= self.entries_max
    }

    fn shard(&self, key: Key) -> MutexGuard<'_, Shard> {
        // The map itself uses the lowest and the highest bits of its own hash.
        let at = (self.hasher.hash_one(key) >> 32) as usize % SHARDS;
        lock(&self.shards[at])
    }

    fn sweep_shard(&self, shard: &mut Shard, now_ns: u64) -> usize {
        let before = shard.len();
        // A counted connection holds its state. If this is the only reference, no other one can be
        // taken while the lock is held, and all charges to it are visible here.
        shard.retain(|_, state| Arc::get_mut(state).is_none_or(|state| !state.is_at_rest(now_ns)));
        let gone = before - shard.len();
        self.entries.fetch_sub(gone, Relaxed);
        if shard.len() < shard.capacity() / 4 {
            shard.shrink_to(shard.len() * 2);
        }
        gone
    }
}

/// Nothing that holds the lock can leave a map half changed, so a panic elsewhere does not spoil
/// it.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
