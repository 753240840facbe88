//! `[abuse]`: connection limits per client address, and bans.
//!
//! Called by: the accept path and the ban list.
//! Out of scope: the keys (`directives/abuse`) and counting.

use super::{AccessRules, Addresses};
use saker_ipset::AddressSet;
use std::sync::Arc;

/// Apache's mod_evasive, with its defaults.
#[derive(Clone, Debug)]
pub struct Evasive {
    pub page_count_max: u32,
    pub page_interval_s: u32,
    pub site_count_max: u32,
    pub site_interval_s: u32,
    pub blocking_s: u32,
    pub whitelist: Arc<AddressSet>,
}

impl Default for Evasive {
    fn default() -> Evasive {
        Evasive {
            page_count_max: 2,
            page_interval_s: 1,
            site_count_max: 50,
            site_interval_s: 1,
            blocking_s: 10,
            whitelist: Arc::default(),
        }
    }
}

/// `[abuse]`: connection limits and bans of the whole server.
#[derive(Clone, Debug)]
pub struct ServerGuard {
    /// Checked when a connection is accepted; a denied client gets no response.
    pub admittance: AccessRules,
    /// Exempt from limits and automatic bans.
    pub exempt: Addresses,
    /// Connections beyond this are tolerated for `grace_ms`, without keep-alive; then the address
    /// is banned. 0: no limit.
    pub connections_soft_max: u64,
    pub grace_ms: u64,
    /// Duration of automatic bans.
    pub ban_ms: u64,
    /// Malformed requests within `grace_ms`; more ban the address. 0: no limit.
    pub bad_requests_max: u64,
    /// Requests refused by limits within `grace_ms`; more ban the address. 0: no limit.
    pub refused_requests_max: u64,
    /// Prefix length of an IPv6 address that counts as one client.
    pub ipv6_prefix: u8,
    /// Set by Apache's configuration only.
    pub evasive: Option<Evasive>,
}

impl Default for ServerGuard {
    fn default() -> ServerGuard {
        ServerGuard {
            admittance: AccessRules::default(),
            exempt: Addresses::default(),
            connections_soft_max: 0,
            grace_ms: 15_000,
            ban_ms: 300_000,
            bad_requests_max: 0,
            refused_requests_max: 0,
            ipv6_prefix: 64,
            evasive: None,
        }
    }
}

impl ServerGuard {
    /// Returns whether connections have to be counted by address.
    pub fn counts(&self) -> bool {
        self.connections_soft_max != 0
            || self.bad_requests_max != 0
            || self.refused_requests_max != 0
    }
}
