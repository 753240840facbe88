//! Limits and log-in attempts counted together with the other servers of a cluster.
//!
//! Called by: the rules that charge an account, after they have; the server's cluster, which sends
//! batches and brings those of the others.
//! Caveat: nothing waits for the other servers. Without a cluster that shares limits there is no
//! [`SharedCounts`], and a charge costs one look more. Accounts are named by what all servers have
//! in common: addresses, first names of sites, and keyed hashes of values, which tell nothing to
//! those who read the engine.
//! Out of scope: requests at a time, bandwidth, and offenses that lead to a ban, which count on
//! each server (a ban is shared).

use crate::{ClientLimits, SharedAbuseState, login::Attempts, mac, state::KeyHash};
use saker_config::model::{RequestRate, Site, SiteName};
use saker_ipset::ClientNetwork;
use saker_pipeline::Generation;
use saker_rate_limits::{AccountName, Admission, Limit, Unsent, deltas, requests};
use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
};
use xxhash_rust::xxh3::xxh3_64;

const NS_PER_S: u64 = 1_000_000_000;

/// The part of a rule about log-ins that other servers need.
#[derive(Clone, Copy, Debug)]
pub struct LoginTerms {
    pub attempts: u32,
    pub within_s: u64,
}

/// Sites by the hashes of their first names, in one configuration.
#[derive(Default)]
struct Sites {
    generation: Option<Arc<Generation>>,
    by_hash: HashMap<u64, usize>,
}

/// What this server has charged, and where charges of the others go.
pub struct SharedCounts {
    unsent: Unsent,
    /// Key of the hashes of values.
    key: [u8; 32],
    sites: RwLock<Sites>,
}

impl fmt::Debug for SharedCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCounts").finish_non_exhaustive()
    }
}

impl SharedCounts {
    pub fn new(key: [u8; 32]) -> SharedCounts {
        SharedCounts {
            unsent: Unsent::default(),
            key,
            sites: RwLock::default(),
        }
    }

    /// Charges of the others go to the sites of this configuration from now on.
    pub fn set_generation(&self, generation: &Arc<Generation>) {
        let sites = generation.model.sites.iter().enumerate();
        let by_hash = sites.map(|(at, site)| (site_hash(site), at)).collect();
        *self.sites.write().unwrap_or_else(PoisonError::into_inner) = Sites {
            generation: Some(Arc::clone(generation)),
            by_hash,
        };
    }

    /// Charges of this server that have not been sent, as one batch.
    pub fn take(&self) -> Option<Vec<u8>> {
        self.unsent.take()
    }

    /// Forgets what has not been sent: it is of the past when the engine answers again.
    pub fn clear(&self) {
        self.unsent.clear();
    }

    /// Name of the account of a key's value.
    pub fn key_hash(&self, site: &Site, said: &str, value: &[u8]) -> KeyHash {
        let length = (said.len() as u64).to_le_bytes();
        let message = [
            &site_hash(site).to_le_bytes(),
            &length[..],
            said.as_bytes(),
            value,
        ]
        .concat();
        let code = mac::hmac_sha256(&self.key, &message);
        let word = |at: usize| {
            u64::from_le_bytes(std::array::from_fn(|byte| {
                code.get(8 * at + byte).copied().unwrap_or_default()
            }))
        };
        [word(0), word(1)]
    }

    /// Charges what another server has, `age_ns` ago.
    pub fn receive(
        &self,
        batch: &[u8],
        age_ns: u64,
        (clients, shared): (&ClientLimits, &SharedAbuseState),
        (now_ns, now_s): (u64, i64),
    ) {
        let at_ns = now_ns.saturating_sub(age_ns);
        let at_s = now_s.saturating_sub_unsigned(age_ns / NS_PER_S);
        for (account, amount) in deltas::charges(batch) {
            let is_login = matches!(account.limit, Limit::Login | Limit::LoginRefund);
            // Paid off meanwhile.
            if !is_login && at_ns.saturating_add(amount) <= now_ns {
                continue;
            }
            match account.limit {
                Limit::Static => {
                    let state = clients.addresses.state_of_bits(account.client);
                    requests::charge_at(&state.static_requests, at_ns, amount);
                }
                Limit::Dynamic => {
                    let state = clients.addresses.state_of_bits(account.client);
                    requests::charge_at(&state.dynamic_requests, at_ns, amount);
                }
                Limit::Site => self.with_site(account.site, |generation, at| {
                    if let Some(site) = generation.site_accounts.get(at) {
                        requests::charge_at(&site.requests, at_ns, amount);
                    }
                }),
                Limit::Key => {
                    let key = [account.client as u64, (account.client >> 64) as u64];
                    let accounts = shared
                        .keyed
                        .change(key, Arc::default, |known| Arc::clone(known));
                    requests::charge_at(&accounts.requests, at_ns, amount);
                }
                Limit::Login | Limit::LoginRefund => self.with_site(account.site, |_, at| {
                    receive_login(shared, (account, at), amount, at_s);
                }),
            }
        }
    }

    fn with_site(&self, hash: u64, charge: impl FnOnce(&Generation, usize)) {
        let sites = self.sites.read().unwrap_or_else(PoisonError::into_inner);
        if let (Some(generation), Some(at)) = (&sites.generation, sites.by_hash.get(&hash)) {
            charge(generation, *at);
        }
    }
}

fn receive_login(
    shared: &SharedAbuseState,
    (account, site_index): (AccountName, usize),
    thousandths: u64,
    at_s: i64,
) {
    let Some(network) = ClientNetwork::from_bytes(last_nine(account.client)) else {
        return;
    };
    let (attempts, within_s) = ((account.rule >> 32) as u32, account.rule & 0xffff_ffff);
    let count = u32::try_from(thousandths / 1000).unwrap_or(u32::MAX);
    shared.logins.change(
        (network, site_index),
        Attempts::default,
        |known| match account.limit {
            Limit::LoginRefund => known.give_back(thousandths),
            _ => drop(known.add(count, attempts, within_s, at_s)),
        },
    );
}

/// Tells the other servers of a request that the account of an address has admitted.
pub fn of_address(
    shared: &SharedAbuseState,
    clients: &ClientLimits,
    (limit, address): (Limit, IpAddr),
    rate: &RequestRate,
    admission: Admission,
) {
    if let Some(counts) = shared.counts.get() {
        let name = AccountName::of_address(limit, clients.addresses.bits(address));
        counts.add(name, rate, admission);
    }
}

/// The same for the account of a site.
pub fn of_site(shared: &SharedAbuseState, site: &Site, rate: &RequestRate, admission: Admission) {
    if let Some(counts) = shared.counts.get() {
        counts.add(AccountName::of_site(site_hash(site)), rate, admission);
    }
}

/// The same for the account of a key's value.
pub fn of_key(
    shared: &SharedAbuseState,
    [low, high]: KeyHash,
    rate: &RequestRate,
    admission: Admission,
) {
    if let Some(counts) = shared.counts.get() {
        let client = u128::from(low) | u128::from(high) << 64;
        counts.add(AccountName::of_address(Limit::Key, client), rate, admission);
    }
}

/// The same for attempts to log in, in thousandths.
pub fn of_login(
    shared: &SharedAbuseState,
    (limit, network): (Limit, ClientNetwork),
    site: u64,
    terms: LoginTerms,
    thousandths: u64,
) {
    if let Some(counts) = shared.counts.get() {
        let mut client = [0; 16];
        client[7..].copy_from_slice(&network.bytes());
        let within_s = terms.within_s.min(u64::from(u32::MAX));
        let name = AccountName {
            limit,
            site,
            client: u128::from_be_bytes(client),
            rule: u64::from(terms.attempts) << 32 | within_s,
        };
        counts.unsent.add(name, thousandths);
    }
}

impl SharedCounts {
    fn add(&self, name: AccountName, rate: &RequestRate, admission: Admission) {
        if !matches!(admission, Admission::Refuse { .. }) {
            self.unsent.add(name, requests::cost_ns(rate));
        }
    }
}

/// Name of a site between servers.
pub fn site_hash(site: &Site) -> u64 {
    match site.names.first() {
        Some(SiteName::Exact(name)) => xxh3_64(name.as_bytes()),
        // No host name begins with a dot.
        Some(SiteName::Wildcard(name)) => xxh3_64(format!(".{name}").as_bytes()),
        Some(SiteName::Any) | None => 0,
    }
}

fn last_nine(bits: u128) -> [u8; 9] {
    let bytes = bits.to_be_bytes();
    std::array::from_fn(|at| bytes.get(at + 7).copied().unwrap_or_default())
}
