//! Access control by client address, and limits that lead to bans.
//!
//! Called by: the accept path and the access phase.
//! Out of scope: the keys (`directives/access`) and reading the files (`resolve/addresses`).

use saker_ipset::{AddressList, AddressSet, GeoDatabase, Place, place_of};
use saker_net::Network;
use std::{net::IpAddr, sync::Arc};

/// Action on a client that exceeds a limit or is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// Responds with this status (403, 429, 503), with `Retry-After` if the time is known.
    Refuse(u16),
    /// Closes the connection without a response.
    Drop,
    /// Sends the challenge page. Solving it grants access to a denied client; a client that exceeds
    /// a limit is then refused with a status.
    Challenge,
}

impl Consequence {
    pub const FORBIDDEN: Consequence = Consequence::Refuse(403);
    pub const TOO_MANY_REQUESTS: Consequence = Consequence::Refuse(429);
}

/// Addresses from the configuration and from files.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    pub networks: Vec<Network>,
    pub lists: Vec<Arc<AddressList>>,
    /// Made from `networks`.
    pub set: Arc<AddressSet>,
    /// Two-letter codes (ISO 3166-1).
    pub countries: Vec<String>,
    /// Autonomous system numbers.
    pub autonomous_systems: Vec<u64>,
}

impl Addresses {
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.lists.is_empty() && !self.is_by_place()
    }

    /// Returns whether addresses have to be located.
    pub fn is_by_place(&self) -> bool {
        !self.countries.is_empty() || !self.autonomous_systems.is_empty()
    }

    fn contains_place(&self, place: &Place) -> bool {
        let is_country = |known: &&str| {
            self.countries
                .iter()
                .any(|country| country.eq_ignore_ascii_case(known))
        };
        place.country.as_deref().as_ref().is_some_and(is_country)
            || place
                .network
                .is_some_and(|known| self.autonomous_systems.contains(&u64::from(known)))
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        (!self.set.is_empty() && self.set.contains(address))
            || self.lists.iter().any(|list| list.contains(address))
    }
}

impl PartialEq for Addresses {
    fn eq(&self, other: &Addresses) -> bool {
        (&self.networks, &self.lists) == (&other.networks, &other.lists)
            && (&self.countries, &self.autonomous_systems)
                == (&other.countries, &other.autonomous_systems)
    }
}

impl Eq for Addresses {}

/// Access rules: `allow` overrides `deny`; if nothing is denied, only allowed addresses have
/// access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRules {
    pub allow: Addresses,
    pub deny: Addresses,
    /// Only allowed addresses have access, although something is denied.
    pub refuses_others: bool,
    /// `deny` overrides `allow`.
    pub denies_first: bool,
    /// Databases that locate addresses.
    pub databases: Vec<Arc<GeoDatabase>>,
}

impl AccessRules {
    pub fn is_idle(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty() && !self.refuses_others
    }

    /// Returns true if only allowed addresses have access.
    pub fn is_closed(&self) -> bool {
        self.refuses_others || !self.allow.is_empty() && self.deny.is_empty()
    }

    pub fn admits(&self, address: IpAddr) -> bool {
        if self.is_idle() || !self.denies_first && self.allow.contains(address) {
            return true;
        }
        let is_by_place = self.allow.is_by_place() || self.deny.is_by_place();
        let place = if is_by_place {
            place_of(&self.databases, address)
        } else {
            Place::default()
        };
        let is_denied = || self.deny.contains(address) || self.deny.contains_place(&place);
        if self.denies_first && is_denied() {
            return false;
        }
        if self.allow.contains(address) || self.allow.contains_place(&place) {
            return true;
        }
        !self.is_closed() && !is_denied()
    }

    pub fn lists(&self) -> impl Iterator<Item = &Arc<AddressList>> {
        self.allow.lists.iter().chain(&self.deny.lists)
    }
}

/// `[site.access]` of a site or route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessControl {
    pub admittance: AccessRules,
    /// Provides the client's location in variables to rules, programs and logs.
    pub locates: bool,
    pub denied: Consequence,
}

impl Default for AccessControl {
    fn default() -> AccessControl {
        AccessControl {
            admittance: AccessRules::default(),
            locates: false,
            denied: Consequence::FORBIDDEN,
        }
    }
}

impl AccessControl {
    pub fn is_idle(&self) -> bool {
        self.admittance.is_idle() && !self.locates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(blocks: &[&str]) -> Addresses {
        let networks: Vec<Network> = blocks.iter().map(|block| block.parse().unwrap()).collect();
        Addresses {
            set: Arc::new(
                networks
                    .iter()
                    .filter_map(|network| network.to_string().parse().ok())
                    .collect(),
            ),
            networks,
            ..Addresses::default()
        }
    }

    #[test]
    fn closed_and_denied_first() {
        let rows = [
            (false, false, [true, true, false, true]),
            (true, false, [true, true, false, false]),
            (false, true, [true, false, false, true]),
            (true, true, [true, false, false, false]),
        ];
        for (refuses_others, denies_first, expected) in rows {
            let rules = AccessRules {
                allow: addresses(&["192.0.2.0/25"]),
                deny: addresses(&["192.0.2.9", "192.0.2.128/25"]),
                refuses_others,
                denies_first,
                ..AccessRules::default()
            };
            let clients = ["192.0.2.1", "192.0.2.9", "192.0.2.200", "198.51.100.1"];
            assert_eq!(
                clients.map(|client| rules.admits(client.parse().unwrap())),
                expected
            );
        }
    }

    #[test]
    fn allowed_and_denied() {
        let rows: &[(&[&str], &[&str], &str, bool)] = &[
            (&[], &[], "192.0.2.1", true),
            (&[], &["192.0.2.0/24"], "192.0.2.1", false),
            (&[], &["192.0.2.0/24"], "192.0.3.1", true),
            (&["192.0.2.1"], &["192.0.2.0/24"], "192.0.2.1", true),
            (&["192.0.2.1"], &["192.0.2.0/24"], "192.0.2.2", false),
            (&["192.0.2.1"], &["192.0.2.0/24"], "198.51.100.1", true),
            (&["192.0.2.1"], &[], "192.0.2.2", false),
            (&["192.0.2.1"], &["0.0.0.0/0", "::/0"], "::1", false),
        ];
        for (allow, deny, address, expected) in rows {
            let admittance = AccessRules {
                allow: addresses(allow),
                deny: addresses(deny),
                ..AccessRules::default()
            };
            assert_eq!(
                admittance.admits(address.parse().unwrap()),
                *expected,
                "{allow:?} {deny:?} {address}"
            );
        }
    }
}
