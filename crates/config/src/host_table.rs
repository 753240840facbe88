//! Site lookup by listener and host, in time independent of the number of sites.
//!
//! Called by: routing, with the host of a request, and TLS, with the server name of a handshake, so
//! that both choose the same site. Order: exact name, longest wildcard, catch-all, first site of
//! the listener.

use crate::model::{Address, Model, Site, SiteName};
use hashbrown::HashMap;
use saker_http::host::canonical_host;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::{IpAddr, SocketAddr},
    path::Path,
};

type Names = HashMap<Box<[u8]>, usize, foldhash::fast::RandomState>;

/// The names of one listener.
#[derive(Debug, Default)]
struct Hosts {
    exact: Names,
    /// By the part after `*.`.
    wildcard: Names,
    /// Names with other forms of wildcards.
    patterns: Vec<(Box<[u8]>, usize)>,
    catch_all: Option<usize>,
    first: Option<usize>,
    /// Sites that serve requests without a host, by path.
    legacy: Vec<(Box<[u8]>, usize)>,
    /// The first site with a name that matches, however specific.
    in_order: bool,
}

/// The rule that chose a site, for `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Exact,
    Wildcard,
    CatchAll,
    FirstSite,
    Path,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Choice::Exact => "is a name of this site",
            Choice::Wildcard => "is covered by a wildcard name of this site",
            Choice::CatchAll => "matches no other site, and this one takes every name (`*`)",
            Choice::Path => "matches no name, but the path is this site's (ServerPath)",
            Choice::FirstSite => "matches no site; this is the first site of the listener",
        })
    }
}

#[derive(Debug)]
pub struct HostTable {
    by_listener: Vec<(Address, Listening)>,
}

/// The sites of one listener.
#[derive(Debug)]
struct Listening {
    /// Sites for certain local addresses, by address: connections to one of them reach no other
    /// sites.
    by_local: HashMap<IpAddr, Hosts, foldhash::fast::RandomState>,
    any: Hosts,
}

impl Listening {
    fn new(model: &Model, address: &Address) -> Listening {
        let in_order = model.server.sites_in_order;
        let empty = || Hosts {
            in_order,
            ..Hosts::default()
        };
        let mut listening = Listening {
            by_local: HashMap::default(),
            any: empty(),
        };
        let port = port(address);
        for (index, site) in model
            .sites
            .iter()
            .enumerate()
            .filter(|(_, site)| listens(site, address))
        {
            if site.local_addresses.is_empty() {
                listening.any.add(index, site);
            }
            for local in site
                .local_addresses
                .iter()
                .filter(|local| local.port() == 0 || local.port() == port)
            {
                match local.ip().is_unspecified() {
                    true => listening.any.add(index, site),
                    false => listening
                        .by_local
                        .entry(local.ip())
                        .or_insert_with(empty)
                        .add(index, site),
                }
            }
        }
        listening
    }
}

/// Addresses and sockets with a port, in order, by which a site is reached.
type Places<'m> = BTreeMap<u16, Vec<(Option<IpAddr>, Option<&'m Path>)>>;

fn places<'m>(model: &'m Model, site: &'m Site) -> Places<'m> {
    let mut places = Places::new();
    let mut add = |port, ip, path| places.entry(port).or_default().push((ip, path));
    for listener in &model.listeners {
        match &listener.address {
            address if !listens(site, address) => {}
            Address::Unix(path) => add(0, None, Some(path.as_path())),
            Address::Tcp(address) => {
                let at_port =
                    |local: &&SocketAddr| local.port() == 0 || local.port() == address.port();
                match site.local_addresses.is_empty() {
                    true => add(address.port(), Some(address.ip()), None),
                    false => (site.local_addresses.iter().filter(at_port))
                        .for_each(|local| add(address.port(), Some(local.ip()), None)),
                }
            }
        }
    }
    for all in places.values_mut() {
        all.sort_unstable();
        all.dedup();
    }
    places
}

/// Notes for each site whether its ports lead to other sites at other addresses.
fn note_addresses(model: &Model) {
    let all: Vec<Places<'_>> = model.sites.iter().map(|site| places(model, site)).collect();
    let mut first = BTreeMap::new();
    let mut mixed = BTreeSet::new();
    for (port, addresses) in all.iter().flatten() {
        if *first.entry(*port).or_insert(addresses) != addresses {
            mixed.insert(*port);
        }
    }
    for (site, places) in model.sites.iter().zip(&all) {
        let is_so = places.keys().any(|port| mixed.contains(port));
        site.is_by_address.set(is_so);
    }
}

impl HostTable {
    pub fn new(model: &Model) -> HostTable {
        note_addresses(model);
        HostTable {
            by_listener: model
                .listeners
                .iter()
                .map(|listener| {
                    (
                        listener.address.clone(),
                        Listening::new(model, &listener.address),
                    )
                })
                .collect(),
        }
    }

    /// Returns the index of the site in `model.sites`; `None` if the listener has no site. `host`
    /// is normalized (lowercase, no port).
    pub fn select(
        &self,
        listener: &Address,
        local: IpAddr,
        host: &[u8],
    ) -> Option<(usize, Choice)> {
        let listening = self.on(listener, local)?;
        listening
            .by_local
            .get(&local.to_canonical())
            .unwrap_or(&listening.any)
            .select(host)
    }

    /// The same by the server name of a TLS handshake, normalized like a host. Without a name: as
    /// for a request without a host.
    pub fn select_by_server_name(
        &self,
        listener: &Address,
        local: IpAddr,
        name: Option<&str>,
    ) -> Option<(usize, Choice)> {
        self.select(
            listener,
            local,
            &canonical_host(name.unwrap_or_default().as_bytes()),
        )
    }

    /// Returns whether the site can be reached through the listener, by any name.
    pub fn leads_to(listener: &Address, site: &Site) -> bool {
        let at_port = |local: &SocketAddr| port(listener) == local.port() || local.port() == 0;
        listens(site, listener)
            && (site.local_addresses.is_empty() || site.local_addresses.iter().any(at_port))
    }

    /// The same for a request without a host (httpd 2.4, core, `ServerPath`).
    pub fn select_by_path(
        &self,
        listener: &Address,
        local: IpAddr,
        path: &[u8],
    ) -> Option<(usize, Choice)> {
        let listening = self.on(listener, local)?;
        let hosts = listening
            .by_local
            .get(&local.to_canonical())
            .unwrap_or(&listening.any);
        let is_below = |legacy: &[u8]| {
            path.strip_prefix(legacy)
                .is_some_and(|rest| rest.is_empty() || rest.first() == Some(&b'/'))
        };
        let legacy = hosts
            .legacy
            .iter()
            .find(|(legacy, _)| is_below(legacy))
            .map(|(_, index)| (*index, Choice::Path));
        legacy.or_else(|| hosts.select(b""))
    }

    /// Returns whether the choice depends on the local address of the connection, not only on the
    /// listener.
    pub fn depends_on_local(&self, listener: &Address) -> bool {
        self.by_listener
            .iter()
            .find(|row| row.0 == *listener)
            .map(|row| &row.1)
            .is_some_and(|listening| !listening.by_local.is_empty())
    }

    fn on(&self, listener: &Address, local: IpAddr) -> Option<&Listening> {
        let rows = || self.by_listener.iter();
        let local = || Address::Tcp(SocketAddr::new(local.to_canonical(), port(listener)));
        rows()
            .find(|row| row.0 == *listener)
            // A connection from before a reload that has moved the listener.
            .or_else(|| rows().find(|row| row.0 == local()))
            .or_else(|| rows().find(|row| row.0.covers(&local())))
            .map(|row| &row.1)
    }
}

fn port(listener: &Address) -> u16 {
    if let Address::Tcp(address) = listener {
        address.port()
    } else {
        0
    }
}

fn listens(site: &Site, address: &Address) -> bool {
    site.listeners.is_empty() || site.listeners.contains(address)
}

impl Hosts {
    fn add(&mut self, index: usize, site: &Site) {
        self.first.get_or_insert(index);
        for name in &site.names {
            match name {
                SiteName::Exact(text) => {
                    self.exact.entry(text.as_bytes().into()).or_insert(index);
                }
                SiteName::Wildcard(text) => {
                    self.wildcard.entry(text.as_bytes().into()).or_insert(index);
                }
                SiteName::Any => drop(self.catch_all.get_or_insert(index)),
            }
        }
        self.legacy.extend(
            site.legacy_path
                .iter()
                .map(|path| (path.as_bytes().into(), index)),
        );
        self.patterns.extend(
            site.patterns
                .iter()
                .map(|pattern| (pattern.as_bytes().into(), index)),
        );
    }

    fn select(&self, host: &[u8]) -> Option<(usize, Choice)> {
        if self.in_order {
            return self
                .first_of_all(host)
                .or(self.first.map(|index| (index, Choice::FirstSite)));
        }
        if let Some(index) = self.exact.get(host) {
            return Some((*index, Choice::Exact));
        }
        if let Some(index) = self.wildcard_of(host) {
            return Some((index, Choice::Wildcard));
        }
        self.catch_all
            .map(|index| (index, Choice::CatchAll))
            .or(self.first.map(|index| (index, Choice::FirstSite)))
    }

    /// One lookup per label, longest suffix first.
    fn wildcard_of(&self, host: &[u8]) -> Option<usize> {
        self.wildcards_of(host).next()
    }

    fn wildcards_of<'h>(&'h self, host: &'h [u8]) -> impl Iterator<Item = usize> + 'h {
        let host = if self.wildcard.is_empty() {
            &[][..]
        } else {
            host
        };
        let dots = host.iter().enumerate().filter(|(_, byte)| **byte == b'.');
        dots.map(|(at, _)| &host[at + 1..])
            .filter_map(|suffix| self.wildcard.get(suffix).copied())
    }

    /// Only names with other forms of wildcards are compared one by one.
    fn first_of_all(&self, host: &[u8]) -> Option<(usize, Choice)> {
        let exact = self.exact.get(host).map(|index| (*index, Choice::Exact));
        let wildcard = self
            .wildcards_of(host)
            .min()
            .map(|index| (index, Choice::Wildcard));
        let pattern = self
            .patterns
            .iter()
            .find(|(pattern, _)| matches(pattern, host))
            .map(|(_, index)| (*index, Choice::Wildcard));
        let any = self.catch_all.map(|index| (index, Choice::CatchAll));
        [exact, wildcard, pattern, any]
            .into_iter()
            .flatten()
            .min_by_key(|(index, _)| *index)
    }
}

/// Matches `*` (any number of bytes) and `?` (one byte). Backtracks to the last star only, so that
/// time stays bounded.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from, mut star) = (0, 0, None);
    while at < text.len() {
        match pattern.get(from) {
            Some(b'*') => {
                star = Some((from, at));
                from += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[at] => (at, from) = (at + 1, from + 1),
            _ => match star {
                Some((star_at, taken)) => {
                    star = Some((star_at, taken + 1));
                    (at, from) = (taken + 1, star_at + 1);
                }
                None => return false,
            },
        }
    }
    pattern[from..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Origin;
    use std::sync::Arc;

    fn site(names: &[SiteName]) -> Arc<Site> {
        Arc::new(Site {
            names: names.to_vec(),
            ..Site::new(Origin::built_in())
        })
    }

    const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn sites_of_an_address_are_alone_there() {
        let address = Address::Tcp(([0, 0, 0, 0], 80).into());
        let listener = crate::model::Listener::new(address.clone(), Origin::built_in());
        let local = |name: &str, locals: &[&str]| {
            let local_addresses = locals.iter().map(|text| text.parse().unwrap()).collect();
            Arc::new(Site {
                names: vec![SiteName::Exact(name.into())],
                local_addresses,
                ..Site::new(Origin::built_in())
            })
        };
        let sites = vec![
            local("a", &["127.0.0.1:80"]),
            local("b", &["127.0.0.1:0", "0.0.0.0:0"]),
            local("c", &["127.0.0.2:81"]),
            local("d", &[]),
        ];
        let mut model = Model {
            listeners: vec![listener],
            sites,
            ..Model::default()
        };
        model.server.sites_in_order = true;
        let table = HostTable::new(&model);
        for (ip, host, index) in [
            ("127.0.0.1", "d", 0),
            ("127.0.0.1", "b", 1),
            ("127.0.0.2", "a", 1),
            ("127.0.0.2", "d", 3),
            ("::ffff:127.0.0.1", "d", 0),
        ] {
            assert_eq!(
                table
                    .select(&address, ip.parse().unwrap(), host.as_bytes())
                    .map(|chosen| chosen.0),
                Some(index),
                "{ip} {host}"
            );
        }
        assert!(table.depends_on_local(&address));
    }

    #[test]
    fn sites_that_share_a_port_with_other_addresses_are_noted() {
        let tcp = |ip: [u8; 4], port| Address::Tcp((ip, port).into());
        let (one, two) = (tcp([127, 0, 0, 1], 80), tcp([127, 0, 0, 2], 80));
        let (tls, socket) = (tcp([127, 0, 0, 1], 443), Address::Unix("/run/a".into()));
        let noted = |all: &[&[&Address]]| {
            let site = |listeners: &&[&Address]| {
                Arc::new(Site {
                    listeners: listeners.iter().copied().cloned().collect(),
                    ..Site::new(Origin::built_in())
                })
            };
            let listener = |address: &Address| {
                crate::model::Listener::new(address.clone(), Origin::built_in())
            };
            let model = Model {
                listeners: [&one, &two, &tls, &socket].map(listener).into(),
                sites: all.iter().map(site).collect(),
                ..Model::default()
            };
            HostTable::new(&model);
            let sites = model.sites.iter();
            sites
                .map(|site| site.is_by_address.get())
                .collect::<Vec<_>>()
        };
        assert_eq!(noted(&[&[&one], &[&two], &[&tls]]), [true, true, false]);
        assert_eq!(noted(&[&[&one, &tls], &[&tls], &[&socket]]), [false; 3]);
        assert_eq!(noted(&[&[], &[]]), [false; 2]);
        assert_eq!(noted(&[&[], &[&two]]), [true; 2]);
    }

    #[test]
    fn a_server_name_means_the_site_that_the_same_host_means() {
        let (one, other) = (
            Address::Tcp(([127, 0, 0, 1], 443).into()),
            Address::Tcp(([127, 0, 0, 1], 8443).into()),
        );
        let listener =
            |address: &Address| crate::model::Listener::new(address.clone(), Origin::built_in());
        let on = |name: &str, listener: &Address| {
            let names = vec![SiteName::Exact(name.into())];
            Arc::new(Site {
                names,
                listeners: vec![listener.clone()],
                ..Site::new(Origin::built_in())
            })
        };
        let sites = vec![
            on("first.example", &one),
            on("a.example", &one),
            on("a.example", &other),
        ];
        let model = Model {
            listeners: vec![listener(&one), listener(&other)],
            sites,
            ..Model::default()
        };
        let table = HostTable::new(&model);
        for (listener, name, index) in [
            (&one, Some("a.example"), 1),
            (&one, Some("A.Example."), 1),
            (&one, Some("b.example"), 0),
            (&one, None, 0),
            (&other, Some("a.example"), 2),
            (&other, Some("first.example"), 2),
            (&other, None, 2),
        ] {
            assert_eq!(
                table
                    .select_by_server_name(listener, LOCAL, name)
                    .map(|chosen| chosen.0),
                Some(index),
                "{listener} {name:?}"
            );
        }
        let led_to = |listener: &Address| {
            model
                .sites
                .iter()
                .map(|site| HostTable::leads_to(listener, site))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (led_to(&one), led_to(&other)),
            (vec![true, true, false], vec![false, false, true])
        );
    }

    #[test]
    fn patterns() {
        let rows = [
            ("w?.test", "w1.test", true),
            ("w?.test", "w12.test", false),
            ("pre-*.test", "pre-x.y.test", true),
            ("*a*b", "xaxbxb", true),
        ];
        for (pattern, text, expected) in rows {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn in_order_the_first_name_counts() {
        let address = Address::Tcp(([127, 0, 0, 1], 80).into());
        let listener = crate::model::Listener::new(address.clone(), Origin::built_in());
        let wild = site(&[
            SiteName::Exact("x.example".into()),
            SiteName::Wildcard("late.example".into()),
        ]);
        let odd = Arc::new(Site {
            patterns: vec!["w*.example".into()],
            ..Site::new(Origin::built_in())
        });
        let sites = vec![
            site(&[SiteName::Exact("first.example".into())]),
            wild,
            site(&[SiteName::Exact("a.late.example".into())]),
            odd,
        ];
        let mut model = Model {
            listeners: vec![listener],
            sites,
            ..Model::default()
        };
        model.server.sites_in_order = true;
        let table = HostTable::new(&model);
        for (host, index) in [
            ("a.late.example", 1),
            ("www.example", 3),
            ("nobody.example", 0),
        ] {
            assert_eq!(
                table
                    .select(&address, LOCAL, host.as_bytes())
                    .map(|chosen| chosen.0),
                Some(index),
                "{host}"
            );
        }
    }

    #[test]
    fn exact_beats_longest_wildcard_beats_catch_all() {
        let address = Address::Tcp(([127, 0, 0, 1], 80).into());
        let exact = |text: &str| SiteName::Exact(text.into());
        let wildcard = |text: &str| SiteName::Wildcard(text.into());
        let listener = crate::model::Listener::new(address.clone(), Origin::built_in());
        let sites = vec![
            site(&[exact("a.example")]),
            site(&[wildcard("example")]),
            site(&[wildcard("b.example"), SiteName::Any]),
        ];
        let model = Model {
            listeners: vec![listener],
            sites,
            ..Model::default()
        };
        let table = HostTable::new(&model);
        let rows: [(&[u8], usize, Choice); 6] = [
            (b"a.example", 0, Choice::Exact),
            (b"x.a.example", 1, Choice::Wildcard),
            (b"c.b.example", 2, Choice::Wildcard),
            (b"b.example", 1, Choice::Wildcard),
            (b"example", 2, Choice::CatchAll),
            (b"", 2, Choice::CatchAll),
        ];
        for (host, index, choice) in rows {
            assert_eq!(
                table.select(&address, LOCAL, host),
                Some((index, choice)),
                "{}",
                String::from_utf8_lossy(host)
            );
        }
        assert_eq!(
            table.select(
                &Address::Tcp(([127, 0, 0, 1], 81).into()),
                LOCAL,
                b"example"
            ),
            None
        );
    }
}
