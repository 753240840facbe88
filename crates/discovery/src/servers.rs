//! Entries of a source, which become servers or are refused.
//!
//! Called by: `feed`.
//! Caveat: texts of a source are shortened before they are logged.

use saker_config::model::{DiscoveredServer, DiscoveryTerms};
use std::{collections::BTreeSet, net::IpAddr};

/// Servers of one upstream.
pub const SERVERS_MAX: usize = 1_000;
/// Largest weight: that of an SRV record.
const WEIGHT_MAX: u32 = 65_535;
/// Bytes of a source's text in a log line.
const TEXT_BYTES_MAX: usize = 100;

/// A server as a source names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// An IP address, if the source is honest.
    pub address: String,
    pub port: u64,
    pub weight: u64,
    /// Those of the lowest number with an available server are used.
    pub priority: u32,
    /// The reason why the source's entry makes no server.
    pub fault: Option<String>,
}

impl Named {
    /// An entry that makes no server. `entry`: its name in the source.
    pub fn faulty(entry: &str, fault: &str) -> Named {
        Named {
            address: entry.to_owned(),
            fault: Some(fault.to_owned()),
            ..Named::default()
        }
    }
}

/// Returns the servers in order, each address once, and the reasons why others are not used.
pub fn accept(
    terms: &DiscoveryTerms,
    named: &[Named],
) -> (Vec<DiscoveredServer>, BTreeSet<String>) {
    let mut refused = BTreeSet::new();
    let mut servers: Vec<DiscoveredServer> = Vec::new();
    for one in named {
        match accept_one(terms, one) {
            Ok(server) => servers.push(server),
            Err(_) if refused.len() >= SERVERS_MAX => {}
            Err(fault) => {
                refused.insert(format!("{}: {fault}", shortened(&one.address)));
            }
        }
    }
    // The best set first, so that what is beyond the limit is what is needed least.
    servers.sort();
    let mut known = BTreeSet::new();
    servers.retain(|one| known.insert((one.ip, one.port)));
    if servers.len() > SERVERS_MAX {
        let more = servers.len() - SERVERS_MAX;
        refused.insert(format!("{more} more than {SERVERS_MAX} servers"));
        servers.truncate(SERVERS_MAX);
    }
    // Those of the configuration are of set 0: the best ones that were found join them.
    let sets: BTreeSet<u32> = servers.iter().map(|one| one.set).collect();
    for server in &mut servers {
        let rank = sets.range(..server.set).count();
        server.set = u32::try_from(rank).unwrap_or(u32::MAX);
    }
    (servers, refused)
}

fn accept_one(terms: &DiscoveryTerms, one: &Named) -> Result<DiscoveredServer, String> {
    if let Some(fault) = &one.fault {
        return Err(shortened(fault));
    }
    let ip: IpAddr = one
        .address
        .parse()
        .map_err(|_| "not an IP address".to_owned())?;
    let port = u16::try_from(one.port).ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| format!("invalid port {}", one.port))?;
    if !terms.permits(ip) {
        return Err(match terms.networks.is_empty() {
            true => "an address of this machine, or link-local (allow it with `networks`)".into(),
            false => "not in `networks`".to_owned(),
        });
    }
    let weight = u32::try_from(one.weight).unwrap_or(WEIGHT_MAX);
    Ok(DiscoveredServer {
        set: one.priority,
        ip: ip.to_canonical(),
        port,
        weight: weight.clamp(1, WEIGHT_MAX),
    })
}

/// A source's text for a log line.
pub fn shortened(text: &str) -> String {
    let plain: String = text
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .take(TEXT_BYTES_MAX)
        .collect();
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::model::{DiscoverySource, DiscoveryState};

    fn terms() -> DiscoveryTerms {
        DiscoveryTerms {
            source: DiscoverySource::DnsSrv {
                name: "_http._tcp.app.test".into(),
                resolvers: Vec::new(),
            },
            token_file: None,
            networks: Vec::new(),
            refresh_ms: 1,
            state: DiscoveryState::default(),
        }
    }

    fn named(address: &str, port: u64, weight: u64, priority: u32) -> Named {
        Named {
            address: address.to_owned(),
            port,
            weight,
            priority,
            fault: None,
        }
    }

    #[test]
    fn servers_are_in_order_and_once_each() {
        let all = [
            named("10.0.0.2", 80, 0, 20),
            named("10.0.0.1", 80, 7, 10),
            named("::ffff:10.0.0.1", 80, 7, 10),
            named("10.0.0.1", 80, 9, 20),
            named("2001:db8::1", 443, 99_999_999_999, 65_535),
        ];
        let (servers, refused) = accept(&terms(), &all);
        let shown: Vec<_> = servers
            .iter()
            .map(|one| (one.ip.to_string(), one.port, one.weight, one.set))
            .collect();
        let expected = [
            ("10.0.0.1".to_owned(), 80, 7, 0),
            ("10.0.0.2".to_owned(), 80, 1, 1),
            ("2001:db8::1".to_owned(), 443, WEIGHT_MAX, 2),
        ];
        assert_eq!((shown.as_slice(), refused.len()), (&expected[..], 0));
    }

    #[test]
    fn what_is_no_server_is_refused_with_a_reason() {
        let long = "x".repeat(10_000);
        for (address, port, reason) in [
            ("/run/app.sock", 80, "not an IP address"),
            ("unix:/run/app.sock", 80, "not an IP address"),
            ("http+unix:/run/app.sock", 80, "not an IP address"),
            ("localhost", 80, "not an IP address"),
            ("10.0.0.1:22", 80, "not an IP address"),
            ("10.0.0.1/32", 80, "not an IP address"),
            ("fe80::1%eth0", 80, "not an IP address"),
            ("", 80, "not an IP address"),
            (&*long, 80, "not an IP address"),
            ("10.0.0.1\r\nx", 80, "not an IP address"),
            ("10.0.0.1", 0, "invalid port 0"),
            ("10.0.0.1", 65_536, "invalid port 65536"),
            ("127.0.0.1", 80, "`networks`"),
            ("169.254.169.254", 80, "`networks`"),
        ] {
            let (servers, refused) = accept(&terms(), &[named(address, port, 1, 0)]);
            assert!(servers.is_empty(), "{address}");
            let reasons: Vec<_> = refused.into_iter().collect();
            assert!(reasons[0].contains(reason), "{reasons:?}");
            assert!(reasons[0].len() < 300 && !reasons[0].contains('\n'));
        }
    }

    #[test]
    fn servers_are_bounded() {
        let all: Vec<_> = (0..SERVERS_MAX as u32 + 5)
            .map(|at| {
                let ip = std::net::Ipv4Addr::from(0x0a00_0000 + at);
                named(&ip.to_string(), 80, 1, at)
            })
            .collect();
        let (servers, refused) = accept(&terms(), &all);
        assert_eq!(servers.len(), SERVERS_MAX);
        assert_eq!(servers[SERVERS_MAX - 1].set, SERVERS_MAX as u32 - 1);
        assert_eq!(
            refused.first().map(String::as_str),
            Some("5 more than 1000 servers")
        );
        let (servers, refused) = accept(&terms(), &all[..SERVERS_MAX]);
        assert_eq!((servers.len(), refused.len()), (SERVERS_MAX, 0));
    }
}
