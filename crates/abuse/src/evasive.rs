//! mod_evasive's rules: a client that requests one page, or anything, too often in too short a time
//! is refused for a while.
//!
//! Called by: `limits`, for sites of Apache's configuration. Caveat: an attacker may request any
//! number of pages from any number of addresses, so the table has one size. Slots are found by the
//! hash of address and page; where all slots of a group are taken, the least recently used one is
//! replaced. Out of scope: a table per process as in Apache, which grants an attacker the limit
//! once for each.

use foldhash::fast::RandomState;
use saker_config::model::Evasive;
use std::{
    hash::{BuildHasher, Hash},
    net::IpAddr,
    sync::{Mutex, PoisonError},
};

/// Together some 2 MB, once one is used.
const GROUPS: usize = 1 << 14;
const PLACES: usize = 8;
const SHARDS: usize = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    key: u64,
    stamp_s: u32,
    count: u32,
}

type Group = [Slot; PLACES];

/// Counts of repeated requests.
#[derive(Debug)]
pub struct Repeats {
    hasher: RandomState,
    /// Empty until something is put in.
    shards: [Mutex<Vec<Group>>; SHARDS],
}

impl Default for Repeats {
    fn default() -> Repeats {
        Repeats {
            hasher: RandomState::default(),
            shards: std::array::from_fn(|_| Mutex::default()),
        }
    }
}

impl Repeats {
    /// Counts a request; `false`: it is refused (mod_evasive 1.10, access_checker).
    pub fn admit(&self, evasive: &Evasive, address: IpAddr, path: &[u8], now_s: i64) -> bool {
        let now_s = u32::try_from(now_s).unwrap_or(u32::MAX);
        let address = address.to_canonical();
        if evasive.whitelist.contains(address) {
            return true;
        }
        let blocked = (address, 0u8);
        // A client that continues while it is blocked stays blocked.
        let is_blocked = self.with(blocked, |slot| {
            match slot.stamp_s != 0 && now_s.saturating_sub(slot.stamp_s) < evasive.blocking_s {
                true => {
                    slot.stamp_s = now_s;
                    true
                }
                false => false,
            }
        });
        if is_blocked {
            return false;
        }
        let page = self.is_too_often(
            (address, 1u8, path),
            evasive.page_count_max,
            evasive.page_interval_s,
            now_s,
        );
        let site = self.is_too_often(
            (address, 2u8),
            evasive.site_count_max,
            evasive.site_interval_s,
            now_s,
        );
        if page || site {
            self.with(blocked, |slot| slot.stamp_s = now_s);
        }
        !page && !site
    }

    fn is_too_often(&self, key: impl Hash, max: u32, interval_s: u32, now_s: u32) -> bool {
        self.with(key, |slot| {
            let is_new = slot.stamp_s == 0;
            let is_recent = now_s.saturating_sub(slot.stamp_s) < interval_s;
            let is_too_often = !is_new && is_recent && slot.count >= max;
            if is_new || !is_recent {
                slot.count = 0;
            }
            slot.count = slot.count.saturating_add(u32::from(!is_new));
            slot.stamp_s = now_s.max(1);
            is_too_often
        })
    }

    /// The slot of a key; a fresh one (without a time) where it has none.
    fn with<T>(&self, key: impl Hash, use_slot: impl FnOnce(&mut Slot) -> T) -> T {
        let key = self.hasher.hash_one(key);
        let mut groups = self.shards[key as usize % SHARDS]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if groups.is_empty() {
            groups.resize(GROUPS / SHARDS, Group::default());
        }
        let at = (key >> 32) as usize % groups.len();
        let group = &mut groups[at];
        let found = group
            .iter()
            .position(|slot| slot.key == key && slot.stamp_s != 0);
        let oldest = || {
            group
                .iter()
                .enumerate()
                .min_by_key(|(_, slot)| slot.stamp_s)
                .map_or(0, |(at, _)| at)
        };
        let at = found.unwrap_or_else(oldest);
        if found.is_none() {
            // A look-up alone evicts nothing: the slot is written only if something was noted.
            let mut fresh = Slot {
                key,
                ..Slot::default()
            };
            let answer = use_slot(&mut fresh);
            if fresh.stamp_s != 0 {
                group[at] = fresh;
            }
            return answer;
        }
        use_slot(&mut group[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u32) -> IpAddr {
        IpAddr::from((0xc000_0200 + last).to_be_bytes())
    }

    #[test]
    fn as_the_module_counts() {
        let (repeats, evasive) = (
            Repeats::default(),
            Evasive {
                page_count_max: 2,
                ..Evasive::default()
            },
        );
        let ask = |path: &[u8], now_s| repeats.admit(&evasive, ip(1), path, now_s);
        // The first is noted, two more are counted, the fourth is too many.
        assert_eq!(
            [
                ask(b"/", 100),
                ask(b"/", 100),
                ask(b"/", 100),
                ask(b"/", 100)
            ],
            [true, true, true, false]
        );
        assert!(
            !ask(b"/other", 109),
            "blocked for everything, and for ten seconds more"
        );
        assert!(!ask(b"/", 118) && ask(b"/", 128));
        assert!(repeats.admit(&evasive, ip(2), b"/", 100), "others are not");
    }

    #[test]
    fn slow_clients_and_whitelisted_ones_are_let_in() {
        let whitelist = ["192.0.2.9".parse::<saker_ipset::Block>().unwrap()]
            .into_iter()
            .collect();
        let evasive = Evasive {
            page_count_max: 2,
            whitelist: std::sync::Arc::new(whitelist),
            ..Evasive::default()
        };
        let repeats = Repeats::default();
        assert!((0..50).all(|at| repeats.admit(&evasive, ip(1), b"/", 100 + at)));
        assert!((0..50).all(|_| repeats.admit(&evasive, ip(9), b"/", 100)));
    }

    #[test]
    fn the_site_has_a_count_of_its_own() {
        let (repeats, evasive) = (
            Repeats::default(),
            Evasive {
                site_count_max: 5,
                ..Evasive::default()
            },
        );
        let passed = (0..20)
            .filter(|page| repeats.admit(&evasive, ip(1), format!("/{page}").as_bytes(), 100))
            .count();
        assert_eq!(passed, 6);
    }

    #[test]
    fn any_number_of_addresses_takes_no_more_memory() {
        let (repeats, evasive) = (Repeats::default(), Evasive::default());
        (0..200_000).for_each(|at| assert!(repeats.admit(&evasive, ip(at), b"/", 100)));
        let groups: usize = repeats
            .shards
            .iter()
            .map(|shard| shard.lock().unwrap().len())
            .sum();
        assert_eq!(groups, GROUPS);
    }
}
