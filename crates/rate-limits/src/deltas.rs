//! Charges that the servers of a cluster tell each other, so that a limit holds for all of them
//! together.
//!
//! Called by: `abuse`, which adds what it has charged here; the server's cluster, which sends what
//! has been added several times a second, and charges what the others send.
//! Caveat: between two exchanges a server does not know the charges of the others, so that a limit
//! may be exceeded once by what each server admits in that time. It is paid off afterwards: the
//! theoretical arrival time moves by every charge, wherever it was made. What waits is bounded; if
//! a server has more clients than fit, the rest counts on that server alone.
//! A batch is a format between servers of different versions.
//! Out of scope: how batches travel and who may send them (`saker-cluster`).

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use std::{
    hash::BuildHasher,
    sync::{Mutex, MutexGuard, PoisonError},
};

const SHARDS: usize = 16;

/// Charges in one batch. A batch is sent several times a second.
pub const BATCH_CHARGES_MAX: usize = 2048;

/// Charges that wait on one server.
const WAITING_MAX: usize = 1 << 16;

/// The last byte of a batch. Servers before it read whole charges only, and so pass it over; batches
/// of theirs have none. A version with other charges has another byte.
const VERSION: u8 = 1;

/// Size of one charge in a batch.
const CHARGE_BYTES: usize = 1 + 8 + 16 + 8 + 8;

/// The limit whose account is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Requests of an address that files answer.
    Static,
    /// Requests of an address that upstreams answer.
    Dynamic,
    /// Requests of all clients of a site.
    Site,
    /// Requests with the value of a key.
    Key,
    /// Attempts to log in.
    Login,
    /// Attempts that turned out to be successful.
    LoginRefund,
}

const LIMITS: [Limit; 6] = [
    Limit::Static,
    Limit::Dynamic,
    Limit::Site,
    Limit::Key,
    Limit::Login,
    Limit::LoginRefund,
];

/// An account, by names that all servers have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccountName {
    pub limit: Limit,
    /// Hash of the site's first name; 0: none.
    pub site: u64,
    /// Bits of the address, or the hash of a key's value; 0: none.
    pub client: u128,
    /// The number of the limit's name; of a rule about log-ins, attempts and their time in seconds.
    /// 0: none.
    pub rule: u64,
}

impl AccountName {
    /// The account of an address.
    pub fn of_address(limit: Limit, client: u128) -> AccountName {
        AccountName {
            limit,
            site: 0,
            client,
            rule: 0,
        }
    }

    /// The account of a site.
    pub fn of_site(site: u64) -> AccountName {
        AccountName {
            limit: Limit::Site,
            site,
            client: 0,
            rule: 0,
        }
    }
}

type Shard = HashMap<AccountName, u64, RandomState>;

/// Charges of this server that the others do not know yet.
#[derive(Debug)]
pub struct Unsent {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
}

impl Default for Unsent {
    fn default() -> Unsent {
        Unsent {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::default(),
        }
    }
}

impl Unsent {
    /// Adds a charge: nanoseconds, or thousandths of attempts.
    pub fn add(&self, account: AccountName, amount: u64) {
        // The map itself uses the lowest and the highest bits of its own hash.
        let at = (self.hasher.hash_one(account) >> 32) as usize % SHARDS;
        let mut shard = self.shards.get(at).map(lock);
        let Some(shard) = &mut shard else {
            return;
        };
        let has_room = shard.len() < WAITING_MAX / SHARDS;
        match shard.get_mut(&account) {
            Some(waiting) => *waiting = waiting.saturating_add(amount),
            None if has_room => drop(shard.insert(account, amount)),
            None => {}
        }
    }

    /// Takes charges out, as one batch. `None`: there are none.
    pub fn take(&self) -> Option<Vec<u8>> {
        let mut batch = Vec::new();
        let mut room = BATCH_CHARGES_MAX;
        for shard in &self.shards {
            let mut shard = lock(shard);
            let count = shard.len().min(room);
            room -= count;
            match count == shard.len() {
                true => shard.drain().for_each(|charge| encode(charge, &mut batch)),
                false => {
                    let some: Vec<AccountName> = shard.keys().take(count).copied().collect();
                    for account in some {
                        let charge = shard.remove_entry(&account);
                        charge
                            .into_iter()
                            .for_each(|charge| encode(charge, &mut batch));
                    }
                }
            }
        }
        if batch.is_empty() {
            return None;
        }
        batch.push(VERSION);
        Some(batch)
    }

    /// Forgets everything that waits.
    pub fn clear(&self) {
        self.shards.iter().for_each(|shard| lock(shard).clear());
    }
}

fn encode((account, amount): (AccountName, u64), batch: &mut Vec<u8>) {
    batch.push(account.limit as u8);
    batch.extend_from_slice(&account.site.to_le_bytes());
    batch.extend_from_slice(&account.client.to_le_bytes());
    batch.extend_from_slice(&account.rule.to_le_bytes());
    batch.extend_from_slice(&amount.to_le_bytes());
}

/// The charges of a batch. Limits of later versions are left out, and so are batches of later
/// versions, or of another length.
pub fn charges(batch: &[u8]) -> impl Iterator<Item = (AccountName, u64)> {
    let whole = batch.chunks_exact(CHARGE_BYTES);
    let is_known = matches!(whole.remainder(), [] | [VERSION]);
    let charges = whole.take(BATCH_CHARGES_MAX).filter(move |_| is_known);
    charges.filter_map(|bytes| {
        let (limit, rest) = bytes.split_first()?;
        let (site, rest) = rest.split_first_chunk()?;
        let (client, rest) = rest.split_first_chunk()?;
        let (rule, rest) = rest.split_first_chunk()?;
        let (amount, _) = rest.split_first_chunk()?;
        let account = AccountName {
            limit: *LIMITS.get(usize::from(*limit))?,
            site: u64::from_le_bytes(*site),
            client: u128::from_le_bytes(*client),
            rule: u64::from_le_bytes(*rule),
        };
        Some((account, u64::from_le_bytes(*amount)))
    })
}

/// Nothing that holds the lock can leave a map half changed.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
