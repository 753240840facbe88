//! The bans of a cluster as this server knows them: for each block the newest change.
//!
//! Called by: `exchange`.
//! Caveat: changes may come twice, late, and in any order, from any server; the newest stamp of a
//! block wins, so that all servers end with the same table. The number of blocks is bounded.
//! Out of scope: the bans in force (`saker_ipset::Bans`).

use super::ban_record::{BanChange, BanRecord};
use saker_ipset::{BANS_MAX, Ban, Block};
use std::collections::HashMap;

/// Blocks that are remembered, with those whose bans were lifted.
const BLOCKS_MAX: usize = 2 * BANS_MAX;

#[derive(Debug, Default)]
pub struct BanTable {
    rows: HashMap<Block, BanRecord>,
}

/// A record of another server, compared with the known one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// To be carried out here.
    News,
    Known,
    /// This server knows a newer change.
    Outdated(BanRecord),
}

impl BanTable {
    /// The bans that are in force here at the start.
    pub fn new(bans: impl IntoIterator<Item = Ban>) -> BanTable {
        let mut table = BanTable::default();
        for ban in bans {
            let stamp = u64::try_from(ban.since_s).unwrap_or_default() * 1000;
            table.insert(BanRecord::banned(ban, stamp));
        }
        table
    }

    /// Records a change made here. `None`: it is the end of a ban.
    pub fn change(&mut self, block: Block, ban: Option<Ban>, now_ms: u64) -> BanRecord {
        let known = self.rows.get(&block);
        let stamp = known.map_or(now_ms, |known| now_ms.max(known.stamp.saturating_add(1)));
        let before = known.and_then(|known| match &known.change {
            BanChange::Banned(ban) => Some(ban),
            BanChange::Lifted { .. } => None,
        });
        let record = match ban {
            Some(ban) => BanRecord::banned(ban, stamp),
            None => BanRecord::lifted(block, stamp, before),
        };
        self.insert(record.clone());
        record
    }

    /// Takes a change of another server over.
    pub fn merge(&mut self, record: BanRecord) -> Merged {
        match self.rows.get(&record.block) {
            Some(known) if *known == record => Merged::Known,
            Some(known) if !record.is_newer_than(known) => Merged::Outdated(known.clone()),
            _ => match self.insert(record) {
                true => Merged::News,
                false => Merged::Known,
            },
        }
    }

    pub fn get(&self, block: &Block) -> Option<&BanRecord> {
        self.rows.get(block)
    }

    pub fn rows(&self) -> impl Iterator<Item = &BanRecord> {
        self.rows.values()
    }

    /// Forgets what says nothing any more.
    pub fn sweep(&mut self, now_ms: u64) {
        self.rows.retain(|_, record| !record.is_over(now_ms));
    }

    /// `false`: there are as many as there may be.
    fn insert(&mut self, record: BanRecord) -> bool {
        let has_room = self.rows.len() < BLOCKS_MAX || self.rows.contains_key(&record.block);
        if has_room {
            self.rows.insert(record.block, record);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: u64 = 1_800_000_000_000;

    fn block(number: u8) -> Block {
        Block::single([192, 0, 2, number].into())
    }

    fn ban(number: u8, reason: &str) -> Ban {
        Ban::new(block(number), (NOW / 1000) as i64, None, reason)
    }

    #[test]
    fn a_change_is_newer_than_what_was_known_whatever_the_clock() {
        let mut table = BanTable::new([ban(1, "x")]);
        let lifted = table.change(block(1), None, NOW - 5000);
        assert_eq!(lifted.stamp, NOW + 1, "the clock was set back");
        let again = table.change(block(1), Some(ban(1, "y")), NOW - 4000);
        assert!(again.is_newer_than(&lifted));
        assert_eq!(table.merge(lifted), Merged::Outdated(again.clone()));
        assert_eq!(table.merge(again.clone()), Merged::Known);
        let mut other = BanTable::default();
        assert_eq!(other.merge(again), Merged::News);
        table.sweep(NOW);
        assert_eq!(table.rows().count(), 1);
    }

    #[test]
    fn blocks_are_bounded() {
        let mut table = BanTable::default();
        let at = |number: u32| {
            BanRecord::banned(
                Ban::new(
                    Block::single(std::net::Ipv4Addr::from_bits(number).into()),
                    0,
                    None,
                    "",
                ),
                NOW,
            )
        };
        for number in 0..BLOCKS_MAX as u32 {
            assert_eq!(table.merge(at(number)), Merged::News);
        }
        assert_eq!(table.merge(at(u32::MAX)), Merged::Known, "not in force");
        assert!(table.get(&at(u32::MAX).block).is_none());
    }

    proptest! {
        /// Servers that hear of the same changes in any order, some of them twice, agree.
        #[test]
        fn all_servers_end_with_the_same_bans(
            changes in proptest::collection::vec((0..3_u8, 0..4_u64, any::<bool>()), 1..12),
            order in any::<proptest::sample::Index>(),
        ) {
            let records: Vec<BanRecord> = changes
                .iter()
                .map(|(number, at, is_banned)| match is_banned {
                    true => BanRecord::banned(ban(*number, "x"), NOW + at),
                    false => BanRecord::lifted(block(*number), NOW + at, None),
                })
                .collect();
            let (mut one, mut other) = (BanTable::default(), BanTable::default());
            records.iter().for_each(|record| drop(one.merge(record.clone())));
            let start = order.index(records.len());
            let turned = records.iter().rev().cycle().skip(start).take(2 * records.len());
            turned.for_each(|record| drop(other.merge(record.clone())));
            let sorted = |table: &BanTable| {
                let mut rows: Vec<BanRecord> = table.rows().cloned().collect();
                rows.sort_by_key(|record| record.block);
                rows
            };
            prop_assert_eq!(sorted(&one), sorted(&other));
        }
    }
}
