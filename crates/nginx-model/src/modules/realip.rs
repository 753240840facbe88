//! ngx_http_realip_module.
//!
//! Called by: `load`.
//! Caveat: where all servers have the same settings, the engine settles the client's address before a
//! server is chosen. Otherwise `saker-nginx` does when the server is known, or the location.

use crate::{
    reading::Setters,
    values::{flag, network},
};
use saker_net::Network;
use std::net::ToSocketAddrs;

/// Settings of the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RealIp {
    pub from: Vec<String>,
    /// Those of `from` that are addresses.
    pub networks: Vec<Network>,
    pub header: Option<Box<str>>,
    pub is_recursive: Option<bool>,
}

impl RealIp {
    /// Returns true if the client is named by the PROXY header instead of a field.
    pub fn is_proxy_protocol(&self) -> bool {
        self.header.as_deref() == Some("proxy_protocol")
    }

    /// Returns true if both believe the same proxies the same.
    pub fn is_same(&self, other: &RealIp) -> bool {
        let networks = |real_ip: &RealIp| {
            let mut from = real_ip.from.clone();
            from.sort_unstable();
            from
        };
        networks(self) == networks(other)
            && self.header == other.header
            && (self.is_recursive == Some(true)) == (other.is_recursive == Some(true))
    }

    /// Settings of a level inside of one with the settings `outer`.
    pub fn inherit(&mut self, outer: &RealIp) {
        if self.from.is_empty() {
            self.from.clone_from(&outer.from);
            self.networks.clone_from(&outer.networks);
        }
        self.header = self.header.take().or_else(|| outer.header.clone());
        self.is_recursive = self.is_recursive.or(outer.is_recursive);
    }

    /// Returns true if the level has a directive of its own.
    pub fn is_set(&self) -> bool {
        *self != RealIp::default()
    }

    /// Adds a network, an address, `unix:`, or the addresses of a name.
    fn trust(&mut self, text: &str) -> Result<(), String> {
        let found: Vec<String> = match text == "unix:" || network(text).is_some() {
            true => vec![text.to_owned()],
            false => (text, 0)
                .to_socket_addrs()
                .map_err(|_| format!("host not found in set_real_ip_from \"{text}\""))?
                .map(|address| address.ip().to_string())
                .collect(),
        };
        for text in found {
            if !self.from.contains(&text) {
                self.networks.extend(text.parse::<Network>());
                self.from.push(text);
            }
        }
        Ok(())
    }
}

pub const SETTERS: Setters<RealIp> = &[
    ("set_real_ip_from", |d, conf, _| conf.trust(d.argument(0))),
    ("real_ip_header", |d, conf, _| {
        conf.header = Some(d.argument(0).into());
        Ok(())
    }),
    ("real_ip_recursive", |d, conf, _| {
        conf.is_recursive = Some(flag(d)?);
        Ok(())
    }),
];
