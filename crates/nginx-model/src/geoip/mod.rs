//! GeoIP's databases of the old format: countries, and names of organizations, by address.
//!
//! Called by: `geoip_country` and `geoip_org`, which read a file each, and `saker-nginx`, for the
//! variables.
//! Caveat: a file is a tree of bits in one array. It comes from outside, so each step stays within
//! the array, and a tree is never deeper than an address has bits.
//! Out of scope: cities, whose regions have names that the files do not have; `locate` of saker.toml
//! reads the newer format.

mod countries;

use countries::COUNTRIES;
use std::{fmt, net::IpAddr};

/// Number of the first country, where a file does not say where its tree ends.
const COUNTRY_BEGIN: usize = 16_776_960;
/// Bytes at the end of a file among which its description is.
const DESCRIPTION_BYTES_MAX: usize = 20;
/// Longer names are cut.
const NAME_BYTES_MAX: usize = 300;

/// Kinds of databases, by the numbers in their descriptions.
mod kinds {
    pub const COUNTRY: u8 = 1;
    pub const ISP: u8 = 4;
    pub const ORGANIZATION: u8 = 5;
    pub const NUMBER: u8 = 9;
    pub const DOMAIN: u8 = 11;
    pub const COUNTRY_V6: u8 = 12;
    pub const NUMBER_V6: u8 = 21;
    pub const ISP_V6: u8 = 22;
    pub const ORGANIZATION_V6: u8 = 23;
    pub const DOMAIN_V6: u8 = 24;
}

/// Value that a variable shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeoIpPart {
    CountryCode,
    CountryCode3,
    CountryName,
    Organization,
}

/// A database.
pub struct GeoIp {
    bytes: Vec<u8>,
    kind: u8,
    /// Numbers from here on are no nodes of the tree.
    end: usize,
    /// Bytes of a number in the tree.
    width: usize,
    /// Names are converted from ISO 8859-1.
    pub is_utf8: bool,
}

impl fmt::Debug for GeoIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GeoIp(kind {}, {} bytes)", self.kind, self.bytes.len())
    }
}

impl GeoIp {
    /// Reads a file. `None`: it is no database of countries, or of names.
    pub fn new(bytes: Vec<u8>) -> Option<GeoIp> {
        let (mut kind, mut end) = (kinds::COUNTRY, COUNTRY_BEGIN);
        for back in 0..DESCRIPTION_BYTES_MAX {
            let at = bytes.len().checked_sub(3 + back)?;
            if bytes.get(at..at + 3)? != [0xff; 3] {
                continue;
            }
            let Some(number) = bytes.get(at + 3) else {
                break;
            };
            kind = match *number {
                older @ 106.. => older - 105,
                number => number,
            };
            if !matches!(kind, kinds::COUNTRY | kinds::COUNTRY_V6) {
                end = little_endian(bytes.get(at + 4..at + 7)?);
            }
            break;
        }
        let width = match kind {
            kinds::COUNTRY | kinds::COUNTRY_V6 | kinds::NUMBER | kinds::NUMBER_V6 => 3,
            kinds::ISP | kinds::ORGANIZATION | kinds::DOMAIN => 4,
            kinds::ISP_V6 | kinds::ORGANIZATION_V6 | kinds::DOMAIN_V6 => 4,
            _ => return None,
        };
        Some(GeoIp {
            bytes,
            kind,
            end,
            width,
            is_utf8: false,
        })
    }

    /// Returns true if it has countries.
    pub fn has_countries(&self) -> bool {
        matches!(self.kind, kinds::COUNTRY | kinds::COUNTRY_V6)
    }

    /// Returns what is known about an address. `None`: nothing.
    pub fn value(&self, address: IpAddr, part: GeoIpPart) -> Option<Vec<u8>> {
        let found = self.search(address)?;
        let country = || {
            let number = found
                .checked_sub(COUNTRY_BEGIN)
                .filter(|number| *number > 0)?;
            COUNTRIES.get(number)
        };
        let text = match part {
            GeoIpPart::CountryCode => country()?.0,
            GeoIpPart::CountryCode3 => country()?.1,
            GeoIpPart::CountryName => country()?.2,
            GeoIpPart::Organization => return self.name(found),
        };
        Some(text.as_bytes().to_vec())
    }

    /// Goes down the tree by the bits of an address.
    fn search(&self, address: IpAddr) -> Option<usize> {
        let is_v6 = matches!(
            self.kind,
            kinds::COUNTRY_V6
                | kinds::NUMBER_V6
                | kinds::ISP_V6
                | kinds::ORGANIZATION_V6
                | kinds::DOMAIN_V6
        );
        let (bits, depth) = match (address.to_canonical(), is_v6) {
            (IpAddr::V4(ip), false) => (u128::from(ip.to_bits()), 32),
            (IpAddr::V4(ip), true) => (ip.to_ipv6_mapped().to_bits(), 128),
            (IpAddr::V6(ip), true) => (ip.to_bits(), 128),
            (IpAddr::V6(_), false) => return None,
        };
        let mut node: usize = 0;
        for bit in (0..depth).rev() {
            let side = usize::from(bits >> bit & 1 == 1);
            let at = node
                .checked_mul(2)?
                .checked_add(side)?
                .checked_mul(self.width)?;
            let next = little_endian(self.bytes.get(at..at.checked_add(self.width)?)?);
            if next >= self.end {
                return Some(next);
            }
            node = next;
        }
        None
    }

    /// A name behind the tree.
    fn name(&self, found: usize) -> Option<Vec<u8>> {
        if found == self.end {
            return None;
        }
        let behind = (2 * self.width - 1).checked_mul(self.end)?;
        let rest = self.bytes.get(found.checked_add(behind)?..)?;
        let rest = rest.get(..NAME_BYTES_MAX).unwrap_or(rest);
        let name = rest.split(|byte| *byte == 0).next()?;
        Some(match self.is_utf8 {
            true => name
                .iter()
                .map(|byte| char::from(*byte))
                .collect::<String>()
                .into_bytes(),
            false => name.to_vec(),
        })
    }
}

fn little_endian(bytes: &[u8]) -> usize {
    let digits = bytes.iter().rev();
    digits.fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of one node: the first bit of the address decides.
    fn database(kind: u8, width: usize, end: usize, leaves: [usize; 2], behind: &[u8]) -> GeoIp {
        let mut bytes = Vec::new();
        for leaf in leaves {
            bytes.extend_from_slice(&leaf.to_le_bytes()[..width]);
        }
        bytes.extend_from_slice(behind);
        bytes.extend_from_slice(&[0xff, 0xff, 0xff, kind]);
        bytes.extend_from_slice(&end.to_le_bytes()[..3]);
        GeoIp::new(bytes).unwrap()
    }

    fn value(database: &GeoIp, address: &str, part: GeoIpPart) -> Option<String> {
        let value = database.value(address.parse().unwrap(), part);
        value.map(|value| String::from_utf8(value).unwrap())
    }

    #[test]
    fn countries_and_names() {
        let of = |code: &str| COUNTRIES.iter().position(|one| one.0 == code).unwrap();
        let leaves = [COUNTRY_BEGIN + of("DE"), COUNTRY_BEGIN];
        let countries = database(kinds::COUNTRY, 3, 0, leaves, b"");
        let shown = |part| value(&countries, "10.0.0.1", part);
        assert_eq!(shown(GeoIpPart::CountryCode).as_deref(), Some("DE"));
        assert_eq!(shown(GeoIpPart::CountryCode3).as_deref(), Some("DEU"));
        assert_eq!(shown(GeoIpPart::CountryName).as_deref(), Some("Germany"));
        assert_eq!(value(&countries, "200.0.0.1", GeoIpPart::CountryCode), None);
        assert_eq!(
            value(&countries, "2001:db8::1", GeoIpPart::CountryCode),
            None
        );
        let mapped = value(&countries, "::ffff:10.0.0.1", GeoIpPart::CountryCode);
        assert_eq!(mapped.as_deref(), Some("DE"));
        // A tree of one node: a name is one number's width less than a node behind its number.
        let mut names = database(kinds::ORGANIZATION, 4, 1, [2, 1], b"\0M\xfcller\0");
        names.is_utf8 = true;
        let name = value(&names, "10.0.0.1", GeoIpPart::Organization);
        assert_eq!(name.as_deref(), Some("Müller"));
        assert_eq!(value(&names, "200.0.0.1", GeoIpPart::Organization), None);
        names.is_utf8 = false;
        let raw = names.value("10.0.0.1".parse().unwrap(), GeoIpPart::Organization);
        assert_eq!(raw.as_deref(), Some(&b"M\xfcller"[..]));
    }

    #[test]
    fn broken_files_have_no_values() {
        // Nodes that lead to each other, and beyond the file.
        for leaves in [[0, 0], [5, 5], [COUNTRY_BEGIN - 1, COUNTRY_BEGIN + 100_000]] {
            let broken = database(kinds::COUNTRY, 3, 0, leaves, b"");
            for address in ["10.0.0.1", "200.0.0.1"] {
                assert_eq!(value(&broken, address, GeoIpPart::CountryCode), None);
            }
        }
        let beyond = database(kinds::ISP, 4, 1, [usize::MAX >> 8, 1 << 20], b"");
        assert_eq!(value(&beyond, "10.0.0.1", GeoIpPart::Organization), None);
        assert_eq!(value(&beyond, "200.0.0.1", GeoIpPart::Organization), None);
        assert!(GeoIp::new(Vec::new()).is_none());
        assert!(GeoIp::new(vec![0xff, 0xff, 0xff, 200]).is_none());
        assert!(GeoIp::new(vec![0xff, 0xff, 0xff, 5]).is_none());
    }
}
