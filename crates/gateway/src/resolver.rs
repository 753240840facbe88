//! Addresses of names: known for a while, asked for again in the background, used in turn.
//!
//! A connection waits for a name only the first time: what is old goes on being used while it is
//! asked for again, and where that fails. Difficulty: the system's resolver tells no lifetimes, so
//! how long an answer holds is the configuration's business.
//!
//! Absent on purpose: asking name servers ourselves; hosts files, search lists and caches of the
//! system would be passed over.

use saker_net::clock;
use std::{cell::RefCell, collections::HashMap, io, net::IpAddr, rc::Rc};
use tokio::net::lookup_host;

/// Names that a worker knows; beyond that all are forgotten.
const NAMES_MAX: usize = 1024;

struct Known {
    addresses: Rc<[IpAddr]>,
    since_ms: u64,
    is_asking: bool,
    /// Index of the address to use first next time.
    next: usize,
}

thread_local! {
    static KNOWN: RefCell<HashMap<Box<str>, Known>> = RefCell::default();
}

/// All addresses of a name, another one first each time. Never empty.
pub async fn addresses(host: &str, ttl_ms: u64) -> io::Result<Vec<IpAddr>> {
    if let Some((addresses, is_old)) = known(host, ttl_ms) {
        if is_old {
            let host: Box<str> = host.into();
            tokio::task::spawn_local(async move { drop(ask(&host).await) });
        }
        return Ok(addresses);
    }
    ask(host).await
}

/// None of a name's addresses takes connections: the next one to need it has it asked for again.
pub fn doubt(host: &str) {
    KNOWN.with_borrow_mut(|all| {
        if let Some(known) = all.get_mut(host) {
            known.since_ms = 0;
        }
    });
}

/// Returns the cached addresses, and true if the caller must look them up again.
fn known(host: &str, ttl_ms: u64) -> Option<(Vec<IpAddr>, bool)> {
    KNOWN.with_borrow_mut(|all| {
        let known = all.get_mut(host)?;
        let mut addresses = known.addresses.to_vec();
        addresses.rotate_left(known.next % known.addresses.len().max(1));
        known.next = known.next.wrapping_add(1);
        let is_old =
            !known.is_asking && clock::monotonic_ms().saturating_sub(known.since_ms) >= ttl_ms;
        known.is_asking |= is_old;
        Some((addresses, is_old))
    })
}

async fn ask(host: &str) -> io::Result<Vec<IpAddr>> {
    let answer = lookup_host((host, 0)).await.map(|found| {
        let mut addresses: Vec<IpAddr> = Vec::new();
        // One for each kind of socket.
        found.for_each(|address| {
            if !addresses.contains(&address.ip()) {
                addresses.push(address.ip())
            }
        });
        addresses
    });
    match answer {
        Ok(addresses) if !addresses.is_empty() => {
            note(host, &addresses);
            Ok(addresses)
        }
        failed => {
            keep(host);
            failed.and(Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the name has no address",
            )))
        }
    }
}

fn note(host: &str, addresses: &[IpAddr]) {
    KNOWN.with_borrow_mut(|all| {
        if all.len() >= NAMES_MAX && !all.contains_key(host) {
            all.clear();
        }
        let next = all.get(host).map_or(1, |known| known.next);
        let known = Known {
            addresses: addresses.into(),
            since_ms: clock::monotonic_ms(),
            is_asking: false,
            next,
        };
        all.insert(host.into(), known);
    });
}

/// Extends the lifetime of the cached addresses.
fn keep(host: &str) {
    KNOWN.with_borrow_mut(|all| {
        if let Some(known) = all.get_mut(host) {
            (known.is_asking, known.since_ms) = (false, clock::monotonic_ms());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn known_names_are_used_in_turn_and_asked_for_again_by_one() {
        note("turns.test", &[address(1), address(2), address(3)]);
        let firsts: Vec<IpAddr> = (0..4)
            .map(|_| known("turns.test", 60_000).unwrap().0[0])
            .collect();
        assert_eq!(firsts, [address(2), address(3), address(1), address(2)]);
        assert!(known("turns.test", 0).unwrap().1, "it is old");
        assert!(!known("turns.test", 0).unwrap().1, "somebody asks already");
        keep("turns.test");
        assert_eq!(
            known("turns.test", 60_000).map(|(all, is_old)| (all.len(), is_old)),
            Some((3, false))
        );
        doubt("turns.test");
        assert!(known("turns.test", 1).unwrap().1);
        assert!(known("other.test", 0).is_none());
    }

    #[test]
    fn names_are_bounded() {
        (0..NAMES_MAX + 1).for_each(|number| note(&format!("{number}.test"), &[address(1)]));
        assert!(KNOWN.with_borrow(|all| all.len() <= NAMES_MAX));
    }
}
