//! Proxies whose statements about clients are believed.
//!
//! Called by: sessions, when a request begins.
//! Out of scope: the keys (`directives/trusted_proxies`), the PROXY protocol (`listener`), and
//! mod_remoteip of Apache configurations, which has settings of its own.

use super::Addresses;
use std::net::IpAddr;

/// `trusted_proxies` and the field in which they name the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedProxies {
    pub addresses: Addresses,
    /// Peers that connect to Unix sockets are trusted.
    pub unix: bool,
    /// The field that names the client.
    pub field: Box<str>,
    /// Proxies that the field names are believed, too, until one is not trusted; otherwise only the
    /// last address counts.
    pub is_recursive: bool,
    /// Lists of addresses are read as nginx reads them, which is not strict about their form.
    pub is_loose: bool,
}

impl Default for TrustedProxies {
    fn default() -> TrustedProxies {
        TrustedProxies {
            addresses: Addresses::default(),
            unix: false,
            field: "X-Forwarded-For".into(),
            is_recursive: true,
            is_loose: false,
        }
    }
}

impl TrustedProxies {
    /// Returns true if none are configured: then fields about clients have no effect.
    pub fn is_idle(&self) -> bool {
        self.addresses.is_empty() && !self.unix
    }

    /// Returns true if the peer is a trusted proxy. Peers of Unix sockets have the unspecified
    /// address.
    pub fn trusts(&self, address: IpAddr) -> bool {
        match address.is_unspecified() {
            true => self.unix,
            false => self.addresses.contains(address),
        }
    }
}
