//! Banned addresses, with reason and end.
//!
//! Called by: connections, when they are accepted and at each of their requests; the control socket
//! and rate limits add and remove bans.
//! Caveat: a look-up must cost next to nothing while there are no bans: then it is one load. A
//! connection that has been looked up is looked up again only after the table has changed
//! ([`Bans::changes`]).
//! Out of scope: a clock and files. Callers provide the time, and persist bans if they want to.

use crate::Block;
use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{
        Arc, OnceLock, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Maximum number of bans; each takes some 200 bytes. Larger numbers belong into a list.
pub const BANS_MAX: usize = 1 << 17;
const REASON_CHARS_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    pub block: Block,
    /// Seconds since the epoch.
    pub since_s: i64,
    /// `None`: for good.
    pub until_s: Option<i64>,
    pub reason: Box<str>,
}

impl Ban {
    pub fn new(block: Block, since_s: i64, until_s: Option<i64>, reason: &str) -> Ban {
        let reason: String = reason
            .chars()
            .filter(|letter| !letter.is_control())
            .take(REASON_CHARS_MAX)
            .collect();
        Ban {
            block,
            since_s,
            until_s,
            reason: reason.into(),
        }
    }

    fn is_over(&self, now_s: i64) -> bool {
        self.until_s.is_some_and(|until_s| until_s <= now_s)
    }
}

/// There are as many bans as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

#[derive(Debug, Default)]
struct Table {
    bans: HashMap<Block, Ban>,
    /// Lengths of prefixes in use, with how many blocks have them.
    lengths: Vec<(bool, u8, usize)>,
}

/// Takes changes of the table that are made on this server, for the others of its cluster.
pub trait BanObserver: Send + Sync {
    /// `None`: the block is not banned any more, by a command.
    fn changed(&self, block: Block, ban: Option<&Ban>);
}

pub struct Bans {
    table: RwLock<Table>,
    observer: OnceLock<Arc<dyn BanObserver>>,
    /// Incremented with each change; an expiring ban counts as one.
    changes: AtomicU64,
    /// Number of bans, for callers that need not look into the table.
    count: AtomicU64,
    max: usize,
}

impl fmt::Debug for Bans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bans")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

impl Default for Bans {
    fn default() -> Bans {
        Bans::new(BANS_MAX)
    }
}

impl Bans {
    pub fn new(max: usize) -> Bans {
        Bans {
            table: RwLock::default(),
            observer: OnceLock::new(),
            changes: AtomicU64::new(0),
            count: AtomicU64::new(0),
            max,
        }
    }

    /// Number of the table's last change.
    pub fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    pub fn contains(&self, address: IpAddr, now_s: i64) -> bool {
        !self.is_empty() && self.read().find(address).any(|ban| !ban.is_over(now_s))
    }

    /// Has changes made here observed from now on; once.
    pub fn observe(&self, observer: Arc<dyn BanObserver>) {
        let _ = self.observer.set(observer);
    }

    /// Puts one in, in place of the one that this block has.
    pub fn insert(&self, ban: Ban, now_s: i64) -> Result<(), Full> {
        self.insert_received(ban.clone(), now_s)?;
        if let Some(observer) = self.observer.get() {
            observer.changed(ban.block, Some(&ban));
        }
        Ok(())
    }

    /// The same for a ban that another server has made.
    pub fn insert_received(&self, ban: Ban, now_s: i64) -> Result<(), Full> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if table.bans.len() >= self.max && !table.bans.contains_key(&ban.block) {
            table.forget_over(now_s);
        }
        if table.bans.len() >= self.max && !table.bans.contains_key(&ban.block) {
            return Err(Full);
        }
        table.insert(ban);
        self.changed(&table);
        Ok(())
    }

    /// Takes out the ban of exactly that block. Returns true if there was one.
    pub fn remove(&self, block: Block) -> bool {
        let is_there = self.remove_received(block);
        if let Some(observer) = self.observer.get().filter(|_| is_there) {
            observer.changed(block, None);
        }
        is_there
    }

    /// The same for a ban that was lifted on another server.
    pub fn remove_received(&self, block: Block) -> bool {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let is_there = table.bans.contains_key(&block);
        if is_there {
            table.remove(&block);
            self.changed(&table);
        }
        is_there
    }

    /// Whose bans an address is under, the widest first.
    pub fn holding(&self, address: IpAddr, now_s: i64) -> Vec<Block> {
        let mut blocks: Vec<Block> = self
            .read()
            .find(address)
            .filter(|ban| !ban.is_over(now_s))
            .map(|ban| ban.block)
            .collect();
        blocks.sort_unstable_by_key(Block::prefix);
        blocks
    }

    /// Removes expired bans. Returns true if there were any.
    pub fn sweep(&self, now_s: i64) -> bool {
        if self.is_empty() || !self.read().bans.values().any(|ban| ban.is_over(now_s)) {
            return false;
        }
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.forget_over(now_s);
        self.changed(&table);
        true
    }

    /// Bans in force, in the order of their addresses.
    pub fn all(&self, now_s: i64) -> Vec<Ban> {
        let mut all: Vec<Ban> = self
            .read()
            .bans
            .values()
            .filter(|ban| !ban.is_over(now_s))
            .cloned()
            .collect();
        all.sort_unstable_by_key(|ban| ban.block);
        all
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, table: &Table) {
        self.count.store(table.bans.len() as u64, Relaxed);
        self.changes.fetch_add(1, Relaxed);
    }
}

impl Table {
    /// Every ban that an address is under.
    fn find(&self, address: IpAddr) -> impl Iterator<Item = &Ban> {
        let address = address.to_canonical();
        let fitting = self
            .lengths
            .iter()
            .filter(move |(is_v4, ..)| *is_v4 == address.is_ipv4());
        fitting.filter_map(move |(_, prefix, _)| self.bans.get(&Block::around(address, *prefix)))
    }

    fn insert(&mut self, ban: Ban) {
        let block = ban.block;
        if self.bans.insert(block, ban).is_none() {
            match self.length_of(&block) {
                Some((.., count)) => *count += 1,
                None => self
                    .lengths
                    .push((block.address().is_ipv4(), block.prefix(), 1)),
            }
        }
    }

    fn remove(&mut self, block: &Block) {
        if self.bans.remove(block).is_some() {
            if let Some((.., count)) = self.length_of(block) {
                *count -= 1;
            }
            self.lengths.retain(|(.., count)| *count > 0);
        }
    }

    fn length_of(&mut self, block: &Block) -> Option<&mut (bool, u8, usize)> {
        let wanted = (block.address().is_ipv4(), block.prefix());
        self.lengths
            .iter_mut()
            .find(|(is_v4, prefix, _)| (*is_v4, *prefix) == wanted)
    }

    fn forget_over(&mut self, now_s: i64) {
        let over: Vec<Block> = self
            .bans
            .values()
            .filter(|ban| ban.is_over(now_s))
            .map(|ban| ban.block)
            .collect();
        over.iter().for_each(|block| self.remove(block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ban(block: &str, until_s: Option<i64>) -> Ban {
        Ban::new(block.parse().unwrap(), 100, until_s, "test\n")
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn until_its_end_and_not_longer() {
        let bans = Bans::default();
        assert!(bans.is_empty() && !bans.contains(ip("192.0.2.1"), 100));
        bans.insert(ban("192.0.2.1", Some(200)), 100).unwrap();
        assert!(bans.contains(ip("192.0.2.1"), 199) && !bans.contains(ip("192.0.2.1"), 200));
        assert!(!bans.contains(ip("192.0.2.2"), 199));
        assert!(!bans.sweep(199) && bans.sweep(200) && bans.is_empty());
        assert_eq!(&*ban("::1", None).reason, "test");
    }

    #[test]
    fn blocks_of_any_length() {
        let bans = Bans::default();
        for block in ["10.0.0.0/8", "10.1.2.0/24", "2001:db8::/64", "0.0.0.0/1"] {
            bans.insert(ban(block, None), 0).unwrap();
        }
        for (address, expected) in [
            ("10.1.2.3", true),
            ("127.0.0.1", true),
            ("128.0.0.1", false),
            ("2001:db8::9", true),
            ("2001:db8:0:1::", false),
        ] {
            assert_eq!(bans.contains(ip(address), 0), expected, "{address}");
        }
        for other in ["10.1.0.0/16", "10.1.2.3"] {
            assert!(
                !bans.remove(other.parse().unwrap()),
                "{other} is not what was banned"
            );
        }
        let holding = |address: &str| {
            bans.holding(ip(address), 0)
                .iter()
                .map(Block::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            holding("10.1.2.3"),
            ["0.0.0.0/1", "10.0.0.0/8", "10.1.2.0/24"]
        );
        assert!(bans.remove("10.0.0.0/8".parse().unwrap()));
        assert_eq!(holding("10.1.2.3"), ["0.0.0.0/1", "10.1.2.0/24"]);
        assert_eq!((holding("128.0.0.1").len(), bans.all(0).len()), (0, 3));
    }

    #[test]
    fn every_change_is_seen() {
        let bans = Bans::default();
        let before = bans.changes();
        bans.insert(ban("::1", None), 0).unwrap();
        let between = bans.changes();
        assert!(!bans.remove("::2".parse().unwrap()));
        assert!(before != between && between == bans.changes());
        assert!(bans.remove("::1".parse().unwrap()) && bans.changes() != between);
    }

    #[test]
    fn the_table_has_an_end() {
        let bans = Bans::new(1000);
        for at in 0..100_000u32 {
            let block = Block::single(IpAddr::from(at.to_be_bytes()));
            assert_eq!(
                bans.insert(Ban::new(block, 0, Some(60), ""), 0),
                if at < 1000 { Ok(()) } else { Err(Full) }
            );
        }
        assert_eq!(bans.all(0).len(), 1000);
        assert_eq!(
            bans.insert(ban("0.0.0.5", Some(90)), 0),
            Ok(()),
            "one that is there may be made longer"
        );
        assert_eq!(
            bans.insert(ban("9.9.9.9", None), 61),
            Ok(()),
            "what has run out makes room"
        );
        assert_eq!(bans.all(61).len(), 2);
    }
}
