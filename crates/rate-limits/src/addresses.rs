//! Client addresses: what each has open and has used.
//!
//! Called by: the listener, once per connection; requests touch only the [`AddressState`]. Caveat:
//! an attacker may have any number of addresses, so the table has a bound and IPv6 addresses count
//! by /64, which is what one client is given. Addresses that come when the table is full share one
//! state, and with it one set of limits, until a sweep made room. Out of scope: a time of last use.
//! A state whose accounts are all at rest is as good as a new one: forgetting it then forgives
//! nothing, and forgetting it earlier would. Each limit of the configuration has a usage of its own
//! (`usage`); connections, bad requests and refused requests are counted for the whole server.

use crate::{
    Account, Usage,
    usage::{Room, Usages},
};
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use saker_config::model::LimitName;
use std::{
    cell::OnceCell,
    hash::BuildHasher,
    net::{IpAddr, Ipv6Addr},
    ops::Deref,
    rc::Rc,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

/// Locks are held for one look-up, so few shards are enough for the cores of one machine.
const SHARDS: usize = 16;
/// Default prefix length of one client.
pub(crate) const IPV6_PREFIX: u8 = 64;

/// Limits of which a client holds its usage: those that its requests met first.
const HELD_MAX: usize = 4;
/// Usages for each address that a table has room for.
const USAGES_PER_ENTRY: usize = 2;

/// Accounts in [`Debts`].
pub const ACCOUNTS: usize = 6;

/// Debts of one address to the whole server, in nanoseconds by account. A format between processes:
/// accounts that limits share in earlier versions are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debts {
    /// The address, or the network that stands for it, IPv4 as mapped into IPv6.
    pub key: u128,
    pub ns: [u64; ACCOUNTS],
}

/// Debt of one address to one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitDebt {
    /// As in [`Debts`].
    pub key: u128,
    pub limit: LimitName,
    pub ns: u64,
}

/// Open connections and usage of one client address, or of one IPv6 /64.
#[derive(Debug, Default)]
pub struct AddressState {
    /// Requests that were no HTTP.
    pub bad_requests: Account,
    /// Requests that were refused for being too many.
    pub refused_requests: Account,
    usages: Usages,
    connections: AtomicU32,
    /// Time at which it exceeded the soft limit of connections; 0: it has not.
    over_soft_since_ms: AtomicU64,
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

    /// The usage of a limit by this address.
    pub fn usage(&self, limit: LimitName) -> Arc<Usage> {
        self.usages.of(limit)
    }

    pub fn connections(&self) -> u32 {
        self.connections.load(Relaxed)
    }

    /// Nothing to pay off to the whole server.
    fn owes_nothing(&self, now_ns: u64) -> bool {
        self.bad_requests.is_at_rest(now_ns) && self.refused_requests.is_at_rest(now_ns)
    }
}

/// The state of a client's address, with the usages that its requests need at hand: a limit that does
/// not bite costs a comparison more.
#[derive(Clone, Debug)]
pub struct ClientAccount {
    state: Arc<AddressState>,
    held: OnceCell<Rc<HeldUsages>>,
}

type HeldUsages = [OnceCell<(LimitName, Arc<Usage>)>; HELD_MAX];

impl ClientAccount {
    pub fn new(state: Arc<AddressState>) -> ClientAccount {
        ClientAccount {
            state,
            held: OnceCell::new(),
        }
    }

    /// Calls `charge` with the usage of a limit by this client.
    #[inline]
    pub fn with_usage<T>(&self, limit: LimitName, charge: impl FnOnce(&Arc<Usage>) -> T) -> T {
        for held in self.held.get_or_init(Rc::default).iter() {
            let (name, usage) = held.get_or_init(|| (limit, self.state.usage(limit)));
            if *name == limit {
                return charge(usage);
            }
        }
        charge(&self.state.usage(limit))
    }
}

impl Deref for ClientAccount {
    type Target = AddressState;

    fn deref(&self) -> &AddressState {
        &self.state
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
    /// For the usages of all addresses.
    room: Arc<Room>,
    ipv6_prefix: AtomicU8,
}

impl AddressTable {
    /// An entry takes some 250 bytes, and a usage some 100.
    pub fn new(entries_max: usize) -> AddressTable {
        AddressTable {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::default(),
            entries: AtomicUsize::new(0),
            entries_max,
            overflow: Arc::default(),
            room: Arc::new(Room::new(entries_max.saturating_mul(USAGES_PER_ENTRY))),
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

    /// Returns what addresses have to pay off to the whole server, for the process that takes over.
    pub fn debts(&self, now_ns: u64) -> Vec<Debts> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = lock(shard);
            let owing = shard
                .iter()
                .filter(|(_, state)| !state.owes_nothing(now_ns));
            all.extend(owing.map(|(key, state)| {
                let [bad, refused] = [&state.bad_requests, &state.refused_requests]
                    .map(|account| account.debt_ns(now_ns));
                Debts {
                    key: *key,
                    ns: [0, 0, bad, refused, 0, 0],
                }
            }));
        }
        all
    }

    /// Returns what addresses have to pay off to limits, for the process that takes over.
    pub fn limit_debts(&self, now_ns: u64) -> Vec<LimitDebt> {
        let mut all = Vec::new();
        for shard in &self.shards {
            for (key, state) in lock(shard).iter() {
                let debts = state.usages.debts_ns(now_ns).into_iter();
                all.extend(debts.map(|(limit, ns)| LimitDebt {
                    key: *key,
                    limit,
                    ns,
                }));
            }
        }
        all
    }

    /// Charges what an address had to pay off in the process before. Debts that limits shared there
    /// are forgiven.
    pub fn continue_debts(&self, debts: &Debts, now_ns: u64) {
        let state = self.state_of(debts.key);
        let [_, _, bad, refused, _, _] = debts.ns;
        for (account, debt_ns) in [
            (&state.bad_requests, bad),
            (&state.refused_requests, refused),
        ] {
            account.charge(now_ns, debt_ns, |_| (debt_ns > 0, ()));
        }
    }

    /// Charges what an address had to pay off to a limit in the process before.
    pub fn continue_limit_debt(&self, debt: &LimitDebt, now_ns: u64) {
        let usage = self.state_of(debt.key).usage(debt.limit);
        usage.account.charge(now_ns, debt.ns, |_| (debt.ns > 0, ()));
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
        let new = || {
            Arc::new(AddressState {
                usages: Usages::within(&self.room),
                ..AddressState::default()
            })
        };
        Arc::clone(shard.entry(key).or_insert_with(new))
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
        shard.retain(|_, state| {
            let is_idle = state.usages.sweep(now_ns);
            Arc::get_mut(state).is_none_or(|state| !(is_idle && state.owes_nothing(now_ns)))
        });
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
