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
    Ok(Subnet::V6 {
        network: address.to_bits() & mask,
        mask,
    })
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
        let cases: [(&str, &str, bool); 18] = [
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
