//! A set of addresses, IPv4 and IPv6.

use crate::{Block, block::Range, ranges::Ranges};
use std::net::IpAddr;

#[derive(Debug, Default)]
pub struct AddressSet {
    v4: Ranges<u32>,
    /// Whole /64 networks, by their upper halves: half the memory, and half the search.
    v6_networks: Ranges<u64>,
    v6: Ranges<u128>,
    entries: usize,
}

impl AddressSet {
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => self.v4.contains(address.to_bits()),
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                self.v6_networks.contains((bits >> 64) as u64) || self.v6.contains(bits)
            }
        }
    }

    /// Number of blocks added; overlapping ones are stored as one.
    pub fn len(&self) -> usize {
        self.entries
    }

    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Distinct ranges.
    pub fn ranges(&self) -> usize {
        self.v4.len() + self.v6_networks.len() + self.v6.len()
    }

    pub fn memory_bytes(&self) -> usize {
        self.v4.memory_bytes() + self.v6_networks.memory_bytes() + self.v6.memory_bytes()
    }
}

impl FromIterator<Block> for AddressSet {
    fn from_iter<I: IntoIterator<Item = Block>>(blocks: I) -> AddressSet {
        let mut builder = SetBuilder::default();
        blocks.into_iter().for_each(|block| builder.add(block));
        builder.finish()
    }
}

/// A set in the making.
#[derive(Debug, Default)]
pub struct SetBuilder {
    v4: Vec<(u32, u32)>,
    v6_networks: Vec<(u64, u64)>,
    v6: Vec<(u128, u128)>,
}

impl SetBuilder {
    pub fn add(&mut self, block: Block) {
        match block.range() {
            Range::V4(first, last) => self.v4.push((first, last)),
            Range::V6(first, last) => self.add_v6(first, last),
        }
    }

    /// Everything from one address to another. `false`: they are of two kinds, or in the wrong
    /// order.
    pub fn add_range(&mut self, first: IpAddr, last: IpAddr) -> bool {
        match (first.to_canonical(), last.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(last)) if first <= last => {
                self.v4.push((first.to_bits(), last.to_bits()))
            }
            (IpAddr::V6(first), IpAddr::V6(last)) if first <= last => {
                self.add_v6(first.to_bits(), last.to_bits())
            }
            _ => return false,
        }
        true
    }

    fn add_v6(&mut self, first: u128, last: u128) {
        match first as u64 == 0 && last as u64 == u64::MAX {
            true => self
                .v6_networks
                .push(((first >> 64) as u64, (last >> 64) as u64)),
            false => self.v6.push((first, last)),
        }
    }

    pub fn finish(self) -> AddressSet {
        let entries = self.v4.len() + self.v6_networks.len() + self.v6.len();
        AddressSet {
            v4: Ranges::new(self.v4),
            v6_networks: Ranges::new(self.v6_networks),
            v6: Ranges::new(self.v6),
            entries,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds() {
        let set: AddressSet = [
            "192.0.2.0/24",
            "198.51.100.7",
            "2001:db8::/32",
            "192.0.2.128/25",
        ]
        .map(|text| text.parse().unwrap())
        .into_iter()
        .collect();
        for (address, expected) in [
            ("192.0.2.255", true),
            ("192.0.3.0", false),
            ("198.51.100.7", true),
            ("::ffff:198.51.100.7", true),
            ("2001:db8:ffff::1", true),
            ("2001:db9::", false),
            ("::c000:2ff", false),
        ] {
            assert_eq!(
                set.contains(address.parse().unwrap()),
                expected,
                "{address}"
            );
        }
        assert_eq!((set.len(), set.ranges()), (4, 3));
    }

    /// Single addresses of IPv6, the dearest kind.
    #[test]
    fn a_million_entries_stay_below_64_mb() {
        let single = |at: u128| {
            Block::single(IpAddr::from(
                ((0x2001_0db8 << 96) | (at << 40)).to_be_bytes(),
            ))
        };
        let set: AddressSet = (0..1_000_000u128).map(single).collect();
        assert_eq!(set.ranges(), 1_000_000);
        assert!(set.memory_bytes() < 64_000_000, "{}", set.memory_bytes());
        assert!(
            set.contains(single(77).address()) && !set.contains("2001:db8::1:0:0".parse().unwrap())
        );
    }
}
