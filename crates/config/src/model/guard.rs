//! Who is let in, and what those meet who are not: lists of addresses, and bounds on what one address may keep open.

use saker_addresses::{AddressList, AddressSet};
use saker_net::Network;
use std::{net::IpAddr, sync::Arc};

/// What a client meets that is over a limit or on a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// An answer with this status (403, 429, 503). With `Retry-After` where the time is known.
    Refuse(u16),
    /// The connection ends without an answer.
    Drop,
}

impl Consequence {
    pub const FORBIDDEN: Consequence = Consequence::Refuse(403);
    pub const TOO_MANY_REQUESTS: Consequence = Consequence::Refuse(429);
}

/// Addresses written in the configuration, and those of files.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    pub networks: Vec<Network>,
    pub lists: Vec<Arc<AddressList>>,
    /// What `networks` come to.
    pub set: Arc<AddressSet>,
}

impl Addresses {
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.lists.is_empty()
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        (!self.set.is_empty() && self.set.contains(address)) || self.lists.iter().any(|list| list.contains(address))
    }
}

impl PartialEq for Addresses {
    fn eq(&self, other: &Addresses) -> bool {
        self.networks == other.networks && self.lists == other.lists
    }
}

impl Eq for Addresses {}

/// Who may come: whoever is allowed; nobody who is denied; where some are allowed and nobody is denied, nobody else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admittance {
    pub allow: Addresses,
    pub deny: Addresses,
}

impl Admittance {
    pub fn is_idle(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }

    pub fn admits(&self, address: IpAddr) -> bool {
        if self.is_idle() || self.allow.contains(address) {
            return true;
        }
        if self.deny.is_empty() { self.allow.is_empty() } else { !self.deny.contains(address) }
    }

    pub fn lists(&self) -> impl Iterator<Item = &Arc<AddressList>> {
        self.allow.lists.iter().chain(&self.deny.lists)
    }
}

/// Of a site, or a path of it: who is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    pub admittance: Admittance,
    pub denied: Consequence,
}

impl Default for Guard {
    fn default() -> Guard {
        Guard { admittance: Admittance::default(), denied: Consequence::FORBIDDEN }
    }
}

impl Guard {
    pub fn is_idle(&self) -> bool {
        self.admittance.is_idle()
    }
}

/// Of the whole server: who may connect, and what one address may keep open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerGuard {
    /// Asked when a connection comes in; who is denied is not answered at all.
    pub admittance: Admittance,
    /// Neither limits nor bans of the server's own making are for them.
    pub exempt: Addresses,
    /// More of them are borne for `grace_ms`, without keep-alive; then the address is banned. 0: no limit.
    pub connections_soft_max: u64,
    pub grace_ms: u64,
    /// How long the server itself bans.
    pub ban_ms: u64,
    /// Requests that make no sense, in `grace_ms`; with more the address is banned. 0: no limit.
    pub bad_requests_max: u64,
    /// Requests refused for being too many, in `grace_ms`; with more the address is banned. 0: no limit.
    pub refused_requests_max: u64,
    /// Of an IPv6 address, what stands for one client.
    pub ipv6_prefix: u8,
}

impl Default for ServerGuard {
    fn default() -> ServerGuard {
        ServerGuard {
            admittance: Admittance::default(),
            exempt: Addresses::default(),
            connections_soft_max: 0,
            grace_ms: 15_000,
            ban_ms: 300_000,
            bad_requests_max: 0,
            refused_requests_max: 0,
            ipv6_prefix: 64,
        }
    }
}

impl ServerGuard {
    /// Whether connections have to be counted by address.
    pub fn counts(&self) -> bool {
        self.connections_soft_max != 0 || self.bad_requests_max != 0 || self.refused_requests_max != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(blocks: &[&str]) -> Addresses {
        let networks: Vec<Network> = blocks.iter().map(|block| block.parse().unwrap()).collect();
        Addresses {
            set: Arc::new(networks.iter().filter_map(|network| network.to_string().parse().ok()).collect()),
            networks,
            lists: Vec::new(),
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
            let admittance = Admittance { allow: addresses(allow), deny: addresses(deny) };
            assert_eq!(admittance.admits(address.parse().unwrap()), *expected, "{allow:?} {deny:?} {address}");
        }
    }
}
