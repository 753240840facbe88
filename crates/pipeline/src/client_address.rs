//! Clients behind trusted proxies: who a proxy says the client is, and fields that only proxies may
//! send.
//!
//! Called by: sessions, when a request begins, before anything looks at the client; `post_read`.
//! Caveat: only called where trusted proxies are configured.
//! Out of scope: reading lists of hops (`saker_ipset::forwarded`); mod_remoteip of Apache
//! configurations, which reads them by its own settings.

use crate::{Client, Exchange, Forwarding};
use saker_config::model::TrustedProxies;
use saker_http::{
    HeadView,
    field_name::{is_alike, is_alike_any},
};
use saker_ipset::forwarded::{self, Trust};
use std::net::SocketAddr;

/// Fields by which proxies describe the client and its request, beside those whose names begin with
/// `X-Forwarded-`.
const PROXY_FIELDS: &[&str] = &[
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "client-ip",
    "fastly-client-ip",
    "fly-client-ip",
    "forwarded",
    "forwarded-for",
    "front-end-https",
    "incap-client-ip",
    "true-client-ip",
    "wl-proxy-client-ip",
    "x-azure-clientip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-forwarded",
    "x-original-forwarded-for",
    "x-real-ip",
];
const PROXY_PREFIX: &[u8] = b"x-forwarded-";

/// The client of a request that came over the connection of a trusted proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedClient {
    /// The proxy's own address if its request names no client.
    pub address: SocketAddr,
    /// The client uses HTTPS.
    pub secure: bool,
}

/// Reads the client from the fields of a request. `connection`: the client of the connection, which
/// is a trusted proxy.
pub fn named(trusted: &TrustedProxies, connection: &Client, view: HeadView<'_>) -> NamedClient {
    let trust = |address| match trusted.trusts(address) {
        true => Trust::Inside,
        false => Trust::No,
    };
    let list = joined(view, &trusted.field);
    let most = if trusted.is_recursive { usize::MAX } else { 1 };
    let is_forwarded = trusted.field.eq_ignore_ascii_case("forwarded");
    if is_forwarded {
        let elements = forwarded::forwarded_from_end(&list);
        let hops = elements
            .iter()
            .take(most)
            .map(|element| element.client.and_then(forwarded::parse_hop));
        let found = forwarded::follow(connection.address, hops, trust);
        let last = found
            .believed
            .checked_sub(1)
            .and_then(|at| elements.get(at));
        return NamedClient {
            address: found.client,
            secure: secure(connection, last.and_then(|element| element.scheme)),
        };
    }
    let found = match trusted.is_loose {
        true => {
            let hops = forwarded::loose_hops_from_end(&list).take(most);
            forwarded::follow(connection.address, hops, trust)
        }
        false => {
            let hops = forwarded::elements_from_end(&list).take(most);
            let hops = hops.map(forwarded::parse_hop);
            forwarded::follow(connection.address, hops, trust)
        }
    };
    let schemes = joined(view, "x-forwarded-proto");
    let mut schemes = forwarded::elements_from_end(&schemes);
    let nearest = schemes.next();
    // Proxies that append to the one list append to the other.
    let of_client = schemes.take(found.believed.saturating_sub(1)).last();
    NamedClient {
        address: found.client,
        secure: secure(connection, of_client.or(nearest)),
    }
}

/// Over TLS, the connection decides: cached routes rely on it.
fn secure(connection: &Client, scheme: Option<&str>) -> bool {
    match scheme {
        _ if connection.tls => connection.secure,
        Some(scheme) if scheme.eq_ignore_ascii_case("https") => true,
        Some(scheme) if scheme.eq_ignore_ascii_case("http") => false,
        _ => connection.secure,
    }
}

fn joined(view: HeadView<'_>, name: &str) -> String {
    let lines: Vec<&[u8]> = view
        .fields()
        .filter(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))
        .map(|(_, value)| value)
        .collect();
    String::from_utf8_lossy(&lines.join(&b", "[..])).into_owned()
}

/// Returns true for the name, in any spelling, of a field by which proxies describe a client and its
/// request. (One of another name may be configured, which is an address.)
pub fn is_of_proxies(name: &[u8]) -> bool {
    let start = name.get(..PROXY_PREFIX.len());
    start.is_some_and(|start| is_alike(start, PROXY_PREFIX)) || is_alike_any(name, PROXY_FIELDS)
}

/// Removes fields that only trusted proxies may send: all of them from the request of a client that
/// connected itself, and other spellings of them, which programs cannot tell apart, from any.
pub fn drop_made_up_fields(exchange: &mut Exchange, trusted: &TrustedProxies) {
    let forwarding = exchange.client.forwarding;
    if forwarding == Forwarding::Unknown {
        return;
    }
    let is_made_up = |name: &[u8]| {
        let is_known = is_of_proxies(name) || is_alike(name, trusted.field.as_bytes());
        let is_plain = || {
            !name
                .iter()
                .any(|byte| *byte != b'-' && !byte.is_ascii_alphanumeric())
        };
        is_known && (forwarding == Forwarding::Direct || !is_plain())
    };
    let view = exchange.head.view();
    if view.fields().any(|(name, _)| is_made_up(name)) {
        let kept = view.fields().filter(|(name, _)| !is_made_up(name));
        exchange.head = exchange.head.with_fields(kept);
    }
}

#[cfg(test)]
mod tests;
