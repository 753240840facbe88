//! Members by the hash of a key: by shares of weight, on a ring, and by the network of an address.
//!
//! Called by: `balancer`.
//! Caveat: the figures are those that nginx's manual names as compatible with the clients of
//! memcached, so that both servers find a key at the same member.
//! Out of scope: which members may be asked; the caller says so for each.

use crc32fast::Hasher;
use std::net::IpAddr;

/// Hashes of a key that are tried before the methods give up, and turns are taken.
const TRIES_MAX: u64 = 20;
/// Points of a member on the ring, per unit of its weight.
const POINTS: u64 = 160;

/// Returns the member whose share of all weights a key falls into.
pub fn by_share(key: &[u8], weights: &[u64], may_be: &dyn Fn(usize) -> bool) -> Option<usize> {
    let mut sum = 0;
    (0..=TRIES_MAX).find_map(|round| {
        let mut hasher = Hasher::new();
        if round > 0 {
            hasher.update(round.to_string().as_bytes());
        }
        hasher.update(key);
        sum += u64::from(hasher.finalize() >> 16 & 0x7fff);
        at(sum, weights).filter(|member| may_be(*member))
    })
}

/// Returns the member for the network of a client: 24 bits of IPv4, all of IPv6.
pub fn by_address(
    address: IpAddr,
    weights: &[u64],
    may_be: &dyn Fn(usize) -> bool,
) -> Option<usize> {
    let (v4, v6);
    let bytes: &[u8] = match address.to_canonical() {
        IpAddr::V4(address) => {
            v4 = address.octets();
            v4.get(..3).unwrap_or_default()
        }
        IpAddr::V6(address) => {
            v6 = address.octets();
            &v6
        }
    };
    let mut hash = 89;
    (0..=TRIES_MAX).find_map(|_| {
        for byte in bytes {
            hash = (hash * 113 + u64::from(*byte)) % 6271;
        }
        at(hash, weights).filter(|member| may_be(*member))
    })
}

/// The member at a place in the row of all weights.
fn at(place: u64, weights: &[u64]) -> Option<usize> {
    let mut left = place.checked_rem(weights.iter().sum())?;
    weights.iter().position(|weight| {
        let is_here = left < *weight;
        left = left.saturating_sub(*weight);
        is_here
    })
}

/// Points of members, in order.
#[derive(Debug, Default)]
pub struct Ring(Vec<(u32, usize)>);

impl Ring {
    /// `members`: host, port, and weight of each.
    pub fn new<'m>(members: impl Iterator<Item = (&'m str, String, u64)>) -> Ring {
        let mut points = Vec::new();
        for (member, (host, port, weight)) in members.enumerate() {
            let mut last: u32 = 0;
            for _ in 0..weight.saturating_mul(POINTS) {
                let mut hasher = Hasher::new();
                hasher.update(host.as_bytes());
                hasher.update(&[0]);
                hasher.update(port.as_bytes());
                hasher.update(&last.to_le_bytes());
                last = hasher.finalize();
                points.push((last, member));
            }
        }
        points.sort_by_key(|(point, _)| *point);
        points.dedup_by_key(|(point, _)| *point);
        Ring(points)
    }

    /// Returns the member at the next point behind a key.
    pub fn member(&self, key: &[u8], may_be: &dyn Fn(usize) -> bool) -> Option<usize> {
        let mut hasher = Hasher::new();
        hasher.update(key);
        let hash = hasher.finalize();
        let first = self.0.partition_point(|(point, _)| *point < hash);
        let behind = self.0.iter().cycle().skip(first).take(self.0.len());
        behind
            .map(|(_, member)| *member)
            .find(|member| may_be(*member))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_stays_where_it_is() {
        let (weights, all) = ([1, 1, 2], |_: usize| true);
        let mut counts = [0; 3];
        for key in 0..4000 {
            let key = format!("key{key}");
            let member = by_share(key.as_bytes(), &weights, &all).unwrap();
            counts[member] += 1;
            assert_eq!(by_share(key.as_bytes(), &weights, &all), Some(member));
            // Another one stands in for it; the rest stays.
            let other = by_share(key.as_bytes(), &weights, &|at| at != member);
            assert!(other.is_some_and(|other| other != member));
        }
        assert!(
            counts[2] > 1700 && counts[0] > 800 && counts[1] > 800,
            "{counts:?}"
        );
        assert_eq!(by_share(b"k", &[], &all), None);
        assert_eq!(by_share(b"k", &weights, &|_| false), None);
    }

    #[test]
    fn a_ring_moves_few_keys() {
        let hosts = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
        let ring = |count: usize| {
            let members = hosts.iter().take(count);
            Ring::new(members.map(|host| (*host, "80".to_owned(), 1)))
        };
        let (two, three) = (ring(2), ring(3));
        let moved = (0..3000).filter(|key: &u32| {
            let key = key.to_string();
            let before = two.member(key.as_bytes(), &|_| true).unwrap();
            let after = three.member(key.as_bytes(), &|_| true).unwrap();
            assert!(after == 2 || after == before);
            after != before
        });
        let moved = moved.count();
        assert!((700..1300).contains(&moved), "{moved}");
        assert_eq!(Ring::default().member(b"k", &|_| true), None);
    }

    #[test]
    fn clients_of_a_network_share_a_member() {
        let member = |text: &str| by_address(text.parse().unwrap(), &[1, 1, 1, 1], &|_| true);
        assert_eq!(member("192.0.2.1"), member("192.0.2.200"));
        let all: std::collections::BTreeSet<_> = (0..64)
            .map(|net| member(&format!("10.0.{net}.1")))
            .collect();
        assert_eq!(all.len(), 4);
    }
}
