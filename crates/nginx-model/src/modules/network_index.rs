//! An index of networks by their prefixes.
//!
//! Called by: `geo`, which makes it, and look-ups of a request's address.

use saker_ap_expr::Subnet;
use std::{collections::HashMap, net::IpAddr};

/// Family, network, and bits of a prefix.
pub type Key = (bool, u128, u32);

pub fn key_of(network: &Subnet) -> Key {
    match network {
        Subnet::V4 { network, mask } => (false, u128::from(*network), mask.count_ones()),
        Subnet::V6 { network, mask } => (true, *network, mask.count_ones()),
    }
}

/// Positions of networks, for tables of countries with hundreds of thousands.
#[derive(Clone, Debug, Default)]
pub struct NetworkIndex {
    /// IPv6 or not, and the mask: each once, longest prefix first.
    masks: Vec<(bool, u128)>,
    places: HashMap<Key, usize, foldhash::fast::RandomState>,
}

impl NetworkIndex {
    /// `networks`: longest prefix last.
    pub fn of(networks: &[(Subnet, Box<[u8]>)]) -> NetworkIndex {
        let mut index = NetworkIndex::default();
        for (place, (network, _)) in networks.iter().enumerate().rev() {
            let mask = match network {
                Subnet::V4 { mask, .. } => (false, u128::from(*mask)),
                Subnet::V6 { mask, .. } => (true, *mask),
            };
            if !index.masks.contains(&mask) {
                index.masks.push(mask);
            }
            index.places.entry(key_of(network)).or_insert(place);
        }
        index
    }

    /// Returns the position of the network with the longest prefix that an address is in.
    pub fn find(&self, address: IpAddr) -> Option<usize> {
        let (is_v6, bits) = match address.to_canonical() {
            IpAddr::V4(address) => (false, u128::from(address.to_bits())),
            IpAddr::V6(address) => (true, address.to_bits()),
        };
        let masks = self.masks.iter().filter(|(of_v6, _)| *of_v6 == is_v6);
        masks
            .map(|(_, mask)| (is_v6, bits & mask, mask.count_ones()))
            .find_map(|key| self.places.get(&key).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_is_found() {
        let mut networks: Vec<(Subnet, Box<[u8]>)> = [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.1.0.0/16",
            "10.1.2.3",
            "2001:db8::/32",
        ]
        .iter()
        .map(|text| (Subnet::parse_block(text).unwrap(), text.as_bytes().into()))
        .collect();
        networks.sort_by_key(|(network, _)| key_of(network).2);
        let index = NetworkIndex::of(&networks);
        let find = |text: &str| {
            let place = index.find(text.parse().unwrap())?;
            Some(String::from_utf8(networks[place].1.to_vec()).unwrap())
        };
        for (address, network) in [
            ("10.1.2.3", Some("10.1.2.3")),
            ("::ffff:10.1.2.3", Some("10.1.2.3")),
            ("10.1.2.4", Some("10.1.0.0/16")),
            ("10.2.0.1", Some("10.0.0.0/8")),
            ("192.0.2.1", Some("0.0.0.0/0")),
            ("2001:db8::1", Some("2001:db8::/32")),
            ("2001:db9::1", None),
        ] {
            assert_eq!(find(address).as_deref(), network, "{address}");
        }
    }
}
