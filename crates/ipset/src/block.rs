//! A block of addresses in its usual notation: `192.0.2.7`, `192.0.2.0/24`, `2001:db8::/32`.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// Host bits are cleared, so that blocks that are the same are equal. IPv4-mapped IPv6 addresses
/// are IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block {
    address: IpAddr,
    prefix: u8,
}

impl Block {
    /// `None`: there are no so long prefixes.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Block> {
        let plain = address.to_canonical();
        // A mapped address with a prefix length of its own was meant as IPv6.
        let prefix = match (address, plain) {
            (IpAddr::V6(_), IpAddr::V4(_)) => prefix.checked_sub(96)?,
            _ => prefix,
        };
        (prefix <= bits(plain)).then(|| Block {
            address: mask(plain, prefix),
            prefix,
        })
    }

    /// The block of that length that an address is in.
    pub fn around(address: IpAddr, prefix: u8) -> Block {
        let address = address.to_canonical();
        let prefix = prefix.min(bits(address));
        Block {
            address: mask(address, prefix),
            prefix,
        }
    }

    pub fn single(address: IpAddr) -> Block {
        Block::around(address, u8::MAX)
    }

    pub fn address(&self) -> IpAddr {
        self.address
    }

    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    pub fn is_single(&self) -> bool {
        self.prefix == bits(self.address)
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && mask(address, self.prefix) == self.address
    }

    /// First and last address, as numbers.
    pub(crate) fn range(&self) -> Range {
        match self.address {
            IpAddr::V4(first) => {
                let first = first.to_bits();
                Range::V4(
                    first,
                    first | u32::MAX.checked_shr(self.prefix.into()).unwrap_or(0),
                )
            }
            IpAddr::V6(first) => {
                let first = first.to_bits();
                Range::V6(
                    first,
                    first | u128::MAX.checked_shr(self.prefix.into()).unwrap_or(0),
                )
            }
        }
    }
}

/// Both ends are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    V4(u32, u32),
    V6(u128, u128),
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn mask(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let host = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & !host).into()
        }
        IpAddr::V6(address) => {
            let host = u128::MAX.checked_shr(prefix.into()).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & !host).into()
        }
    }
}

impl FromStr for Block {
    type Err = ();

    fn from_str(text: &str) -> Result<Block, ()> {
        match text.split_once('/') {
            None => text.parse().map(Block::single).map_err(|_| ()),
            Some((address, prefix)) => {
                let digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
                let prefix = prefix.parse().ok().filter(|_| digits).ok_or(())?;
                Block::new(address.parse().map_err(|_| ())?, prefix).ok_or(())
            }
        }
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_single() {
            true => self.address.fmt(f),
            false => write!(f, "{}/{}", self.address, self.prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_and_read() {
        for (text, shown) in [
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7/32", "192.0.2.7"),
            ("192.0.2.7/24", "192.0.2.0/24"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:db8::1/32", "2001:db8::/32"),
            ("::/0", "::/0"),
            ("::ffff:10.1.2.3", "10.1.2.3"),
            ("::ffff:10.1.2.3/104", "10.0.0.0/8"),
        ] {
            assert_eq!(
                text.parse::<Block>()
                    .map(|block| block.to_string())
                    .as_deref(),
                Ok(shown),
                "{text}"
            );
        }
        for text in [
            "",
            "192.0.2",
            "192.0.2.7/33",
            "::/129",
            "192.0.2.7/",
            "192.0.2.7/+8",
            "a/8",
            "10.0.0.0/8/8",
            "::ffff:10.0.0.0/8",
        ] {
            assert!(text.parse::<Block>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_in_it() {
        let block: Block = "10.1.0.0/16".parse().unwrap();
        for (address, expected) in [
            ("10.1.255.255", true),
            ("10.2.0.0", false),
            ("::ffff:10.1.2.3", true),
            ("::1", false),
        ] {
            assert_eq!(
                block.contains(address.parse().unwrap()),
                expected,
                "{address}"
            );
        }
        assert_eq!(block.range(), Range::V4(0x0a01_0000, 0x0a01_ffff));
        assert_eq!(
            "::/0".parse::<Block>().unwrap().range(),
            Range::V6(0, u128::MAX)
        );
        assert_eq!(
            "255.255.255.255".parse::<Block>().unwrap().range(),
            Range::V4(u32::MAX, u32::MAX)
        );
    }
}
