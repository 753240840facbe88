//! The part of an address that stands for one client: a whole IPv4 address or an IPv6 /64.
//!
//! Called by: everything that counts or remembers by client (rate limits, login attempts, space for
//! buffered content).
//! Caveat: a provider may give one client more than a /64; the table of rate limits has a
//! configurable prefix of its own.
//! Out of scope: sets of addresses (`set`), bans (`bans`).

use std::net::IpAddr;

/// One client, identified by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientNetwork(u64, bool);

impl ClientNetwork {
    /// The IPv4 address, or the /64 of the IPv6 address.
    pub fn of(address: IpAddr) -> ClientNetwork {
        match address.to_canonical() {
            IpAddr::V4(address) => ClientNetwork(u64::from(address.to_bits()), false),
            IpAddr::V6(address) => ClientNetwork((address.to_bits() >> 64) as u64, true),
        }
    }

    /// The /24 or /56 around the address: a client may roam within it and still count as the same
    /// (mobile networks, privacy addresses).
    pub fn roaming_range(address: IpAddr) -> ClientNetwork {
        let ClientNetwork(bits, is_ipv6) = ClientNetwork::of(address);
        ClientNetwork(bits & !0xff, is_ipv6)
    }

    /// A fixed-length key: the family, then the bits in network order.
    pub fn bytes(self) -> [u8; 9] {
        let mut bytes = [u8::from(self.1); 9];
        bytes[1..].copy_from_slice(&self.0.to_be_bytes());
        bytes
    }

    /// A number for each client. Those of IPv4 are where IPv6 has no addresses (8000::/5).
    pub fn number(self) -> u64 {
        self.0 | u64::from(!self.1) << 63
    }

    /// The client with this key. `None`: no client has it.
    pub fn from_bytes([family, bits @ ..]: [u8; 9]) -> Option<ClientNetwork> {
        let bits = u64::from_be_bytes(bits);
        match family {
            0 if bits <= u64::from(u32::MAX) => Some(ClientNetwork(bits, false)),
            1 => Some(ClientNetwork(bits, true)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_and_their_roaming_ranges() {
        let client = |text: &str| ClientNetwork::of(text.parse().unwrap());
        let range = |text: &str| ClientNetwork::roaming_range(text.parse().unwrap());
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
        assert_eq!(client("2001:db8::1"), client("2001:db8::2"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_ne!(client("0.0.0.1"), client("0:0:0:1::"));
        for known in [client("192.0.2.1"), client("2001:db8::1")] {
            assert_eq!(ClientNetwork::from_bytes(known.bytes()), Some(known));
        }
        for bytes in [[2; 9], [0, 1, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(ClientNetwork::from_bytes(bytes), None);
        }
        assert_eq!(range("192.0.2.1"), range("192.0.2.254"));
        assert_ne!(range("192.0.2.1"), range("192.0.3.1"));
        assert_eq!(range("2001:db8:0:ff::1"), range("2001:db8:0:0::1"));
        assert_ne!(range("2001:db8:0:100::1"), range("2001:db8:0:0::1"));
    }
}
