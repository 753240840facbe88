//! CIDR blocks.

use std::{fmt, net::IpAddr, str::FromStr};

/// An address block such as `10.0.0.0/8`, `2001:db8::/32` or a single address. IPv4-mapped IPv6
/// addresses compare as IPv4, those in the block among them (`::ffff:10.0.0.0/104`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(other)) => leading_equal(
                u128::from(net.to_bits()) << 96,
                u128::from(other.to_bits()) << 96,
                self.prefix,
            ),
            (IpAddr::V6(net), IpAddr::V6(other)) => {
                leading_equal(net.to_bits(), other.to_bits(), self.prefix)
            }
            _ => false,
        }
    }
}

fn leading_equal(a: u128, b: u128, bits: u8) -> bool {
    bits == 0 || (a ^ b) >> (128 - u32::from(bits)) == 0
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| ())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix: u8 = match prefix {
            Some(text) => text
                .parse()
                .ok()
                .filter(|prefix| *prefix <= bits)
                .ok_or(())?,
            None => bits,
        };
        let canonical = address.to_canonical();
        let prefix_of_mapped = prefix.checked_sub(96).filter(|_| address != canonical);
        Ok(match prefix_of_mapped {
            Some(prefix) => Network {
                address: canonical,
                prefix,
            },
            None => Network { address, prefix },
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contains_on_both_sides_of_the_edge() {
        for (block, inside, outside) in [
            ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"),
            ("192.0.2.128/25", "192.0.2.128", "192.0.2.127"),
            ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "2001:db8::1", "192.0.2.1"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
            ("::1", "::1", "::2"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::ffff:11.1.2.3"),
        ] {
            let network: Network = block.parse().unwrap();
            assert!(
                network.contains(inside.parse().unwrap()),
                "{block} {inside}"
            );
            assert!(
                !network.contains(outside.parse().unwrap()),
                "{block} {outside}"
            );
        }
    }

    #[test]
    fn host_bits_do_not_matter() {
        let network: Network = "10.1.2.3/8".parse().unwrap();
        assert!(network.contains("10.9.9.9".parse().unwrap()));
    }

    #[test]
    fn mapped_blocks_are_ipv4() {
        for (text, shown) in [
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:10.1.2.3", "10.1.2.3/32"),
            ("::ffff:0.0.0.0/95", "::ffff:0.0.0.0/95"),
        ] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), shown);
        }
        let network: Network = "::ffff:10.0.0.0/104".parse().unwrap();
        assert!(network.contains("10.9.9.9".parse().unwrap()));
        assert!(!network.contains("11.9.9.9".parse().unwrap()));
    }

    #[test]
    fn what_is_no_block_is_refused() {
        for text in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0/8",
            "10.0.0.0/",
            "10.0.0.0/-1",
            "10.0.0.0/8/8",
            "example.com",
            " 10.0.0.0/8",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn shown_as_it_is_written() {
        for text in ["10.0.0.0/8", "2001:db8::/32"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        assert_eq!(
            "192.0.2.1".parse::<Network>().unwrap().to_string(),
            "192.0.2.1/32"
        );
    }
}
