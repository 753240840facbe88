//! Networks as in `Require ip`, `-R`, and `-ipmatch`: an address, a part of one, or one with a
//! mask.
//!
//! Caveat: `10.1` is 10.1.0.0/16, and IPv4 clients of IPv6 sockets have to match IPv4 networks.
//! Out of scope: host names, which would require the DNS.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// A network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subnet {
    V4 { network: u32, mask: u32 },
    V6 { network: u128, mask: u128 },
}

/// Error in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubnetError;

impl Subnet {
    /// The network of one address.
    pub fn of_address(address: IpAddr) -> Subnet {
        match address.to_canonical() {
            IpAddr::V4(address) => Subnet::V4 {
                network: address.to_bits(),
                mask: u32::MAX,
            },
            IpAddr::V6(address) => Subnet::V6 {
                network: address.to_bits(),
                mask: u128::MAX,
            },
        }
    }

    /// The IPv4 network, if it is one that is written as IPv6 (`::ffff:10.0.0.0/104`), which no client
    /// would ever be in otherwise.
    pub fn canonical(self) -> Subnet {
        const MAPPED: u128 = 0xffff;
        match self {
            Subnet::V6 { network, mask }
                if network >> 32 == MAPPED && mask >> 32 == u128::MAX >> 32 =>
            {
                Subnet::V4 {
                    network: network as u32,
                    mask: mask as u32,
                }
            }
            subnet => subnet,
        }
    }

    /// Parses an address or a block of addresses (`10.0.0.0/8`, and `0.0.0.0/0` for all). Bits behind
    /// the prefix mean nothing.
    pub fn parse_block(text: &str) -> Option<Subnet> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u32>().ok()?)),
            None => (text, None),
        };
        Some(match address.parse::<IpAddr>().ok()? {
            IpAddr::V4(address) => {
                let bits = 32_u32.checked_sub(prefix.unwrap_or(32))?;
                let mask = u32::MAX.checked_shl(bits).unwrap_or(0);
                let network = address.to_bits() & mask;
                Subnet::V4 { network, mask }
            }
            IpAddr::V6(address) => {
                let bits = 128_u32.checked_sub(prefix.unwrap_or(128))?;
                let mask = u128::MAX.checked_shl(bits).unwrap_or(0);
                let network = address.to_bits() & mask;
                Subnet::V6 { network, mask }.canonical()
            }
        })
    }

    /// Parses a network as Apache's directives have it.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &[u8]) -> Result<Subnet, SubnetError> {
        let text = std::str::from_utf8(text).map_err(|_| SubnetError)?;
        let (address, mask) = text
            .split_once('/')
            .map_or((text, None), |(address, mask)| (address, Some(mask)));
        if address.contains(':') {
            return v6(address.parse().map_err(|_| SubnetError)?, mask);
        }
        match mask {
            None => partial_v4(address),
            Some(mask) => v4(address.parse().map_err(|_| SubnetError)?, mask),
        }
    }

    /// IPv4 addresses inside IPv6 are IPv4 addresses.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self, address.to_canonical()) {
            (Subnet::V4 { network, mask }, IpAddr::V4(address)) => {
                address.to_bits() & mask == *network
            }
            (Subnet::V6 { network, mask }, IpAddr::V6(address)) => {
                address.to_bits() & mask == *network
            }
            _ => false,
        }
    }
}

impl fmt::Display for SubnetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("parsing of subnet/netmask failed")
    }
}

impl std::error::Error for SubnetError {}

/// Parses one to four numbers; missing ones match anything.
fn partial_v4(text: &str) -> Result<Subnet, SubnetError> {
    let parts = text.strip_suffix('.').unwrap_or(text).split('.');
    let (mut network, mut bits) = (0, 0);
    for part in parts {
        let number: u8 = part.parse().map_err(|_| SubnetError)?;
        if bits == 32 || !part.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(SubnetError);
        }
        bits += 8;
        network |= u32::from(number) << (32 - bits);
    }
    Ok(Subnet::V4 {
        network,
        mask: prefix(bits, 32) as u32,
    })
}

fn v4(address: Ipv4Addr, mask: &str) -> Result<Subnet, SubnetError> {
    let mask = match mask.parse::<Ipv4Addr>() {
        Ok(mask) => mask.to_bits(),
        Err(_) => prefix(bits(mask, 32)?, 32) as u32,
    };
    Ok(Subnet::V4 {
        network: address.to_bits() & mask,
        mask,
    })
}

fn v6(address: Ipv6Addr, mask: Option<&str>) -> Result<Subnet, SubnetError> {
    let mask = prefix(mask.map_or(Ok(128), |mask| bits(mask, 128))?, 128);
    let subnet = Subnet::V6 {
        network: address.to_bits() & mask,
        mask,
    };
    Ok(subnet.canonical())
}

fn bits(text: &str, max: u32) -> Result<u32, SubnetError> {
    let bits = text.parse().map_err(|_| SubnetError)?;
    if bits == 0 || bits > max {
        Err(SubnetError)
    } else {
        Ok(bits)
    }
}

fn prefix(bits: u32, width: u32) -> u128 {
    let all = if width == 32 {
        u128::from(u32::MAX)
    } else {
        u128::MAX
    };
    all & all.checked_shl(width - bits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases() {
        let cases: [(&str, &str, bool); 23] = [
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("10.1", "10.1.200.4", true),
            ("10.1.", "10.1.200.4", true),
            ("10.1", "10.2.0.1", false),
            ("10", "10.255.255.255", true),
            ("10.1.2.3/8", "10.9.9.9", true),
            ("10.0.0.0/255.255.0.0", "10.0.9.9", true),
            ("10.0.0.0/255.255.0.0", "10.1.9.9", false),
            ("192.0.2.0/31", "192.0.2.1", true),
            ("192.0.2.0/31", "192.0.2.2", false),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::1", "::1", true),
            ("::1", "::2", false),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("10.0.0.0/8", "::1", false),
            ("::ffff:10.1.1.1", "10.1.1.1", true),
            ("::ffff:10.1.1.1", "10.1.1.2", false),
            ("::ffff:10.0.0.0/104", "10.1.1.1", true),
            ("::ffff:10.0.0.0/104", "11.1.1.1", false),
            ("::ffff:a00:1/96", "192.0.2.1", true),
            ("2001:db8::/32", "10.0.0.1", false),
        ];
        for (network, address, contains) in cases {
            let network = Subnet::parse(network.as_bytes()).expect(network);
            assert_eq!(
                network.contains(address.parse().expect(address)),
                contains,
                "{network:?} {address}"
            );
        }
    }

    #[test]
    fn blocks() {
        for (block, inside, outside) in [
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("10.9.9.9/8", "10.1.1.1", "11.1.1.1"),
            ("::ffff:10.0.0.0/104", "10.1.1.1", "11.1.1.1"),
            ("2001:db8::1", "2001:db8::1", "2001:db8::2"),
        ] {
            let network = Subnet::parse_block(block).expect(block);
            assert!(network.contains(inside.parse().unwrap()), "{block}");
            assert!(!network.contains(outside.parse().unwrap()), "{block}");
        }
        for text in ["10.1", "10.0.0.0/33", "::/129", "x", "10.0.0.0/"] {
            assert_eq!(Subnet::parse_block(text), None, "{text}");
        }
    }

    #[test]
    fn errors() {
        for text in [
            "",
            "x",
            "10.1.2.3.4",
            "256.1",
            "10.0.0.0/33",
            "10.0.0.0/0",
            "10.0/8",
            "::/129",
            ":::",
            "10.0.0.0/",
            "+1.2",
            "1..2",
        ] {
            assert_eq!(Subnet::parse(text.as_bytes()), Err(SubnetError), "{text}");
        }
        assert_eq!(Subnet::parse(b"\xff"), Err(SubnetError));
    }
}
