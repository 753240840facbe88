//! Names of clients, and addresses of names, from the name servers.
//!
//! Called by: `Require host`, `Require forward-dns`, Allow and Deny; HostnameLookups of a front
//! end. Caveat: name servers may be slow, so look-ups run on threads of their own and results are
//! kept for a minute. A verified name is one that resolves back to the client's address.

use crate::context::{AuthContext, Decision};
use saker_ap_expr::Dependency;
use saker_net::blocking::{Answer, Answers, Pool};
use std::{
    net::{IpAddr, ToSocketAddrs},
    time::Duration,
};

const KEPT_MAX: usize = 10_000;
const KEPT_FOR: Duration = Duration::from_secs(60);

/// Threads that wait for name servers.
static POOL: Pool = Pool::new("names");
/// Unverified names.
static CLAIMED: Answers<IpAddr, Option<String>> = Answers::new(&POOL, KEPT_MAX, KEPT_FOR);
static NAMES: Answers<IpAddr, Option<String>> = Answers::new(&POOL, KEPT_MAX, KEPT_FOR);
static ADDRESSES: Answers<String, Vec<IpAddr>> = Answers::new(&POOL, KEPT_MAX, KEPT_FOR);

/// Returns the name that the client's address has, unverified (HostnameLookups On).
pub fn claimed_name(site_index: usize, address: IpAddr) -> Answer<Option<String>> {
    CLAIMED.ask(site_index as u64, &address, None, move || {
        resolve_claimed(address)
    })
}

/// Returns the name of the client that resolves back to its address (HostnameLookups Double).
pub fn double_checked_name(site_index: usize, address: IpAddr) -> Answer<Option<String>> {
    NAMES.ask(site_index as u64, &address, None, move || {
        resolve_verified(address)
    })
}

/// Returns the client's verified name in lower case. The error is the decision until it is known.
pub(crate) fn verified_name(context: &mut AuthContext<'_>) -> Result<Option<String>, Decision> {
    context.request.depends_on(Dependency::Client);
    let answer = double_checked_name(
        context.request.site_index(),
        context.request.client_address(),
    );
    let name = context.answered(answer)?;
    if let Some(name) = &name {
        context.request.set_client_name(name);
    }
    Ok(name)
}

/// Returns the addresses of a name. The error is the decision until they are known.
pub(crate) fn addresses_of(
    context: &mut AuthContext<'_>,
    name: &str,
) -> Result<Vec<IpAddr>, Decision> {
    let (owner, owned) = (context.request.site_index() as u64, name.to_owned());
    let answer = ADDRESSES.ask(owner, &name.to_owned(), Vec::new(), move || {
        addresses(&owned)
    });
    context.answered(answer)
}

fn resolve_verified(address: IpAddr) -> Option<String> {
    resolve_claimed(address).filter(|name| addresses(name).contains(&address))
}

fn resolve_claimed(address: IpAddr) -> Option<String> {
    let name = dns_lookup::lookup_addr(&address)
        .ok()?
        .trim_end_matches('.')
        .to_ascii_lowercase();
    name.parse::<IpAddr>().is_err().then_some(name)
}

fn addresses(name: &str) -> Vec<IpAddr> {
    (name, 0)
        .to_socket_addrs()
        .into_iter()
        .flatten()
        .map(|address| address.ip().to_canonical())
        .collect()
}

/// Returns whether `name` is `domain` or below it, ignoring case. `.example.com` matches only what
/// is below it.
pub(crate) fn in_domain(domain: &[u8], name: &[u8]) -> bool {
    let Some(start) = name.len().checked_sub(domain.len()) else {
        return false;
    };
    let (before, end) = name.split_at(start);
    end.eq_ignore_ascii_case(domain)
        && (before.is_empty() || domain.starts_with(b".") || before.ends_with(b"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains() {
        for (domain, name, expected) in [
            ("example.com", "example.com", true),
            ("Example.com", "www.example.COM", true),
            (".example.com", "www.example.com", true),
            (".example.com", "example.com", false),
            ("example.com", "badexample.com", false),
            ("example.com", "com", false),
            ("com", "example.com", true),
        ] {
            assert_eq!(
                in_domain(domain.as_bytes(), name.as_bytes()),
                expected,
                "{domain} {name}"
            );
        }
    }

    #[test]
    fn this_machine_has_a_name() {
        assert!(addresses("localhost").iter().any(IpAddr::is_loopback));
        assert!(addresses("no such name").is_empty());
    }
}
