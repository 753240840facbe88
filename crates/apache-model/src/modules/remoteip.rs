//! Settings of mod_remoteip: fields that name the client, and proxies that are trusted.
//!
//! Called by: `dir_config`, whose table names the setters.
//! Caveat: names of proxies are resolved when they are read.
//! Out of scope: the PROXY protocol, which is the listener's business (`connections`).

use crate::{
    arguments::texts,
    reading::{Reading, Set, said},
};
use saker_ap_expr::Subnet;
use saker_apache_syntax::Node;
use std::{
    net::{IpAddr, ToSocketAddrs},
    sync::Arc,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proxy {
    pub network: Subnet,
    /// A proxy of our own: it may name private addresses, and is not listed among the proxies.
    pub is_internal: bool,
}

#[derive(Clone, Debug, Default)]
pub struct RemoteIp {
    pub header: Option<Box<str>>,
    pub proxies_header: Option<Box<str>>,
    /// `None`: everybody is trusted, as a proxy outside.
    pub proxies: Option<Arc<Vec<Proxy>>>,
}

impl RemoteIp {
    pub const DIRECTIVES: &'static [(&'static str, Set<RemoteIp>)] = &[
        ("RemoteIPHeader", |node, remoteip, _| {
            set_name(node, &mut remoteip.header)
        }),
        ("RemoteIPProxiesHeader", |node, remoteip, _| {
            set_name(node, &mut remoteip.proxies_header)
        }),
        ("RemoteIPInternalProxy", |node, remoteip, _| {
            add(node, remoteip, &texts(node), true)
        }),
        ("RemoteIPTrustedProxy", |node, remoteip, _| {
            add(node, remoteip, &texts(node), false)
        }),
        ("RemoteIPInternalProxyList", |node, remoteip, reading| {
            add_list(node, remoteip, reading, true)
        }),
        ("RemoteIPTrustedProxyList", |node, remoteip, reading| {
            add_list(node, remoteip, reading, false)
        }),
    ];

    pub fn merge(&self, over: &RemoteIp) -> RemoteIp {
        RemoteIp {
            header: said(&self.header, &over.header),
            proxies_header: said(&self.proxies_header, &over.proxies_header),
            proxies: said(&self.proxies, &over.proxies),
        }
    }

    /// `None`: not trusted.
    pub fn is_internal(&self, address: IpAddr) -> Option<bool> {
        match &self.proxies {
            None => Some(false),
            Some(proxies) => proxies
                .iter()
                .find(|proxy| proxy.network.contains(address))
                .map(|proxy| proxy.is_internal),
        }
    }
}

fn set_name(node: &Node, slot: &mut Option<Box<str>>) -> Result<(), String> {
    *slot = texts(node).into_iter().next().map(Into::into);
    Ok(())
}

fn add(
    node: &Node,
    remoteip: &mut RemoteIp,
    words: &[String],
    is_internal: bool,
) -> Result<(), String> {
    let proxies = Arc::make_mut(remoteip.proxies.get_or_insert_default());
    for word in words {
        let networks = networks(word).map_err(|error| {
            format!(
                "RemoteIP: Error parsing IP {word} ({error} error) for {}",
                node.canonical_name()
            )
        })?;
        proxies.extend(networks.into_iter().map(|network| Proxy {
            network,
            is_internal,
        }));
    }
    Ok(())
}

/// A name stands for the addresses that it has when the configuration is read.
fn networks(word: &str) -> Result<Vec<Subnet>, String> {
    if let Ok(network) = Subnet::parse(word.as_bytes()) {
        return Ok(vec![network]);
    }
    if word.contains('/') || word.starts_with(|first: char| first.is_ascii_digit()) {
        return Err("The specified IP address or network mask is invalid.".into());
    }
    let addresses = (word, 0)
        .to_socket_addrs()
        .map_err(|error| error.to_string())?;
    Ok(addresses
        .filter_map(|address| Subnet::parse(address.ip().to_string().as_bytes()).ok())
        .collect())
}

fn add_list(
    node: &Node,
    remoteip: &mut RemoteIp,
    reading: &mut Reading<'_>,
    is_internal: bool,
) -> Result<(), String> {
    let name = texts(node).into_iter().next().unwrap_or_default();
    let path = reading.server_path(name.as_bytes());
    let text = saker_net::privileged::read_to_string(&path).map_err(|error| {
        format!(
            "{}: Could not open file {name}: {error}",
            node.canonical_name()
        )
    })?;
    let words = text
        .lines()
        .filter_map(|line| line.split('#').next())
        .flat_map(str::split_whitespace);
    add(
        node,
        remoteip,
        &words.map(str::to_owned).collect::<Vec<_>>(),
        is_internal,
    )
}
