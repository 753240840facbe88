//! Client addresses: what each has open and has used.
//!
//! Place in the walk: the listener looks an address up once per connection and keeps the [`AddressState`]; requests touch only that.
//! Difficulty: an attacker may have any number of addresses, so the table has a bound and IPv6 addresses count by /64, which is what
//! one client is given. What comes when the table is full shares one state, and with it one set of limits, until a sweep made room.
//! Absent on purpose: a time of last use. A state whose accounts are all at rest is as good as a new one, so forgetting it then
//! forgives nothing, and forgetting it earlier would.

use super::Account;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use std::{
    hash::BuildHasher,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
    },
};

/// Locks are held for one look-up, so few shards are enough for the cores of one machine.
const SHARDS: usize = 16;

/// What one client address, or one IPv6 /64, has open and has used.
#[derive(Debug, Default)]
pub struct AddressState {
    /// Bandwidth of responses.
    pub out_bytes: Account,
    /// Bandwidth of request bodies.
    pub in_bytes: Account,
    pub static_requests: Account,
    pub dynamic_requests: Account,
    connections: AtomicU32,
}

impl AddressState {
    /// Counts a connection, unless `connections_max` are open already. The count falls when the guard is dropped.
    pub fn connect(self: &Arc<Self>, connections_max: u32) -> Option<ConnectionGuard> {
        let below = |count| (count < connections_max).then_some(count + 1);
        self.connections.fetch_update(Relaxed, Relaxed, below).ok()?;
        Some(ConnectionGuard { state: Arc::clone(self) })
    }

    pub fn connections(&self) -> u32 {
        self.connections.load(Relaxed)
    }

    /// Nothing to pay off, on any account.
    fn is_at_rest(&self, now_ns: u64) -> bool {
        let accounts = [&self.out_bytes, &self.in_bytes, &self.static_requests, &self.dynamic_requests];
        accounts.iter().all(|account| account.is_at_rest(now_ns))
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

/// The part of an address that stands for one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    V4(u32),
    /// The upper 64 bits.
    V6(u64),
}

impl Key {
    fn of(address: IpAddr) -> Key {
        match address.to_canonical() {
            IpAddr::V4(address) => Key::V4(address.to_bits()),
            IpAddr::V6(address) => Key::V6((address.to_bits() >> 64) as u64),
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
}

impl AddressTable {
    /// An entry takes some 150 bytes.
    pub fn new(entries_max: usize) -> AddressTable {
        AddressTable {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::default(),
            entries: AtomicUsize::new(0),
            entries_max,
            overflow: Arc::default(),
        }
    }

    /// The state of an address; made if there is none, the shared one if the table is full.
    pub fn state(&self, address: IpAddr) -> Arc<AddressState> {
        let key = Key::of(address);
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

    /// Forgets the addresses that have nothing open and nothing to pay off, and returns how many. To be called every few seconds;
    /// looks at every entry, one shard at a time.
    pub fn sweep(&self, now_ns: u64) -> usize {
        self.shards.iter().map(|shard| self.sweep_shard(&mut lock(shard), now_ns)).sum()
    }

    /// Number of addresses known.
    pub fn len(&self) -> usize {
        self.entries.load(Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether new addresses share one state at the moment.
    pub fn is_full(&self) -> bool {
        self.len() >= self.entries_max
    }

    fn shard(&self, key: Key) -> MutexGuard<'_, Shard> {
        // The map itself goes by the lowest and the highest bits of its own hash.
        let at = (self.hasher.hash_one(key) >> 32) as usize % SHARDS;
        lock(&self.shards[at])
    }

    fn sweep_shard(&self, shard: &mut Shard, now_ns: u64) -> usize {
        let before = shard.len();
        // A counted connection holds its state. Where nobody else holds one, nobody gets it while the lock is held, and all that
        // was charged to it is seen here.
        shard.retain(|_, state| Arc::get_mut(state).is_none_or(|state| !state.is_at_rest(now_ns)));
        let gone = before - shard.len();
        self.entries.fetch_sub(gone, Relaxed);
        if shard.len() < shard.capacity() / 4 {
            shard.shrink_to(shard.len() * 2);
        }
        gone
    }
}

/// Nothing that holds the lock can leave a map half changed, so a panic elsewhere does not spoil it.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
