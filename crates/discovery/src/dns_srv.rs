//! SRV records (RFC 2782).
//!
//! Called by: `discoveries`.
//! Caveat: records are asked for again when their lifetime is over, at most once a second. A name
//! that does not exist, or whose records name no host with an address, has no servers.
//! Out of scope: search lists, and `/etc/hosts`.

use crate::{feed::Feed, servers::Named};
use saker_dns::{Lookup, LookupError, NAME_ERROR, NameServers, Resolver, servers_of};
use std::{net::SocketAddr, rc::Rc, sync::Arc, time::Duration};
use tokio::{fs, time};

const RESOLV_CONF: &str = "/etc/resolv.conf";
const DNS_PORT: u16 = 53;
/// Time for a lookup.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(20);
const PAUSE_MS_MIN: u64 = 1_000;
/// Pause after an answer without records.
const PAUSE_OF_NONE_MS: u64 = 5_000;

/// Asks until it fails. Returns the reason.
pub async fn follow(
    feed: &Feed,
    (name, resolvers): (&str, &[SocketAddr]),
    resolver: &Rc<Resolver>,
) -> String {
    let lookup = Lookup::Service(name.into());
    let refresh_ms = feed.discovery.terms.refresh_ms;
    loop {
        let servers = match name_servers(resolvers).await {
            Ok(servers) => Arc::new(servers),
            Err(error) => return error,
        };
        let mut fresh_ms = PAUSE_OF_NONE_MS;
        match resolver.look_up(&servers, &lookup, LOOKUP_TIMEOUT).await {
            Ok(found) => {
                let server = |one: &saker_dns::Resolved| Named {
                    address: one.ip.to_string(),
                    port: u64::from(one.port.unwrap_or(0)),
                    weight: u64::from(one.weight),
                    priority: u32::from(one.priority),
                    fault: None,
                };
                feed.publish(&found.iter().map(server).collect::<Vec<_>>());
                fresh_ms = resolver.fresh_for_ms(&servers, &lookup).unwrap_or(0);
            }
            Err(LookupError::Code(NAME_ERROR)) => feed.publish(&[]),
            Err(error) => return error.to_string(),
        }
        let pause_ms = fresh_ms.clamp(PAUSE_MS_MIN, refresh_ms.max(PAUSE_MS_MIN));
        time::sleep(Duration::from_millis(pause_ms)).await;
        resolver.forget(&servers, &lookup);
    }
}

async fn name_servers(configured: &[SocketAddr]) -> Result<NameServers, String> {
    let servers = match configured.is_empty() {
        false => configured.to_vec(),
        true => {
            let text = fs::read_to_string(RESOLV_CONF).await;
            let text = text.map_err(|error| format!("{RESOLV_CONF}: {error}"))?;
            let servers = servers_of(&text).map(|ip| SocketAddr::new(ip, DNS_PORT));
            servers.collect()
        }
    };
    if servers.is_empty() {
        return Err(format!("{RESOLV_CONF} names no DNS server"));
    }
    Ok(NameServers {
        servers,
        valid_ms: None,
        ipv4: true,
        ipv6: true,
    })
}
