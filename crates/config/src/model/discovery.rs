//! Sources of an upstream's servers, and what they said last.
//!
//! Called by: `[upstream.discover]`, which makes them; `saker_discovery`, which asks the source;
//! status reports and metrics.
//! Caveat: what was found is shared by all copies of an upstream, and is no part of what makes two
//! of them equal.
//! Out of scope: asking (`saker_discovery`), making members of servers (`resolve/upstreams`).

use saker_net::Network;
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A source, and what is taken from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryTerms {
    pub source: DiscoverySource,
    /// A file with a token for the API, read for each request.
    pub token_file: Option<PathBuf>,
    /// Networks that servers have to be in. Empty: all but those of [`DiscoveryTerms::permits`].
    pub networks: Vec<Network>,
    /// Longest time that a watch stays open, and that records of DNS are used.
    pub refresh_ms: u64,
    pub state: DiscoveryState,
}

/// A source of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoverySource {
    /// SRV records (RFC 2782). `resolvers`: empty for those of the system.
    DnsSrv {
        name: Box<str>,
        resolvers: Vec<SocketAddr>,
    },
    Consul {
        service: Box<str>,
        tag: Option<Box<str>>,
        datacenter: Option<Box<str>>,
    },
    /// EndpointSlices of a service.
    Kubernetes {
        namespace: Box<str>,
        service: Box<str>,
        port: Option<DiscoveryPort>,
    },
    /// Containers with a label, `key=value` or `key`.
    Docker {
        label: Box<str>,
        network: Option<Box<str>>,
        port: Option<u16>,
    },
}

/// A port of a service of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryPort {
    Name(Box<str>),
    Number(u16),
}

/// A server that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiscoveredServer {
    /// The lowest set with an available server is used.
    pub set: u32,
    pub ip: IpAddr,
    pub port: u16,
    /// From 1.
    pub weight: u32,
}

/// Outcome of a source's last answers. Shared by all copies.
#[derive(Clone, Debug, Default)]
pub struct DiscoveryState(Arc<Mutex<Discovered>>);

/// Answers of a source so far.
#[derive(Clone, Debug, Default)]
pub struct Discovered {
    /// In order, each address once.
    pub servers: Vec<DiscoveredServer>,
    /// Time of the last answer, on the monotonic clock.
    pub answered_ms: Option<u64>,
    /// The reason why it has not answered since.
    pub error: Option<String>,
}

impl DiscoveryState {
    /// Locks it for a moment.
    pub fn lock(&self) -> MutexGuard<'_, Discovered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for DiscoveryState {
    fn eq(&self, _: &DiscoveryState) -> bool {
        true
    }
}

impl Eq for DiscoveryState {}

impl DiscoveryTerms {
    /// Returns true if a server may have the address. An answer could lead requests to services
    /// that are meant for this machine alone, or to the metadata service of a cloud, so loopback
    /// and link-local addresses need a network that names them. Addresses that are no host's are
    /// never permitted.
    pub fn permits(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        let is_host = match ip {
            IpAddr::V4(ip) => !ip.is_unspecified() && !ip.is_multicast() && !ip.is_broadcast(),
            IpAddr::V6(ip) => !ip.is_unspecified() && !ip.is_multicast(),
        };
        let is_near = match ip {
            // RFC 1122 section 3.2.1.3: all of 0/8 is this host.
            IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local() || ip.octets()[0] == 0,
            IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local(),
        };
        let is_named = self.networks.iter().any(|network| network.contains(ip));
        is_host && (is_named || self.networks.is_empty() && !is_near)
    }
}

/// For logs and status reports.
impl fmt::Display for DiscoverySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiscoverySource::DnsSrv { name, .. } => write!(f, "DNS SRV {name}"),
            DiscoverySource::Consul { service, .. } => write!(f, "Consul service {service}"),
            DiscoverySource::Kubernetes {
                namespace, service, ..
            } => write!(f, "Kubernetes service {namespace}/{service}"),
            DiscoverySource::Docker { label, .. } => write!(f, "Docker label {label}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn addresses_that_are_not_named_lead_to_no_service_of_this_machine() {
        let terms = |networks: &[&str]| DiscoveryTerms {
            source: DiscoverySource::DnsSrv {
                name: "_http._tcp.app.test".into(),
                resolvers: Vec::new(),
            },
            token_file: None,
            networks: networks.iter().map(|one| one.parse().unwrap()).collect(),
            refresh_ms: 1,
            state: DiscoveryState::default(),
        };
        let all = ["0.0.0.0/0", "::/0"];
        for (ip, is_permitted, is_permitted_by_name) in [
            ("10.0.0.1", true, true),
            ("192.0.2.1", true, true),
            ("2001:db8::1", true, true),
            ("fd00::1", true, true),
            ("::ffff:10.0.0.1", true, true),
            ("127.0.0.1", false, true),
            ("::ffff:127.0.0.1", false, true),
            ("::1", false, true),
            ("0.1.2.3", false, true),
            ("169.254.169.254", false, true),
            ("::ffff:169.254.169.254", false, true),
            ("fe80::1", false, true),
            ("0.0.0.0", false, false),
            ("::", false, false),
            ("::ffff:0.0.0.0", false, false),
            ("224.0.0.1", false, false),
            ("255.255.255.255", false, false),
            ("ff02::1", false, false),
        ] {
            let ip: IpAddr = ip.parse().unwrap();
            assert_eq!(terms(&[]).permits(ip), is_permitted, "{ip}");
            assert_eq!(terms(&all).permits(ip), is_permitted_by_name, "{ip}");
            assert!(!terms(&["198.51.100.0/24"]).permits(ip), "{ip}");
        }
    }
}
