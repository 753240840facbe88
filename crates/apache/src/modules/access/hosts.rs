//! Names of clients, and addresses of names, for rules that are written with names.
//!
//! Difficulty: a name server may take its time, so both are looked up on threads of their own and
//! kept for a while. A client has a name only if that name leads back to its address.

use super::{decide::Inquiry, requirement::Decision};
use crate::modules::core::Lookups;
use saker_ap_expr::Dependency;
use saker_net::blocking::{Answer, Answers, Pause, Pool};
use saker_pipeline::Exchange;
use std::{
    net::{IpAddr, ToSocketAddrs},
    time::Duration,
};

const KEPT_MAX: usize = 10_000;
const KEPT_FOR: Duration = Duration::from_secs(60);

/// Threads that wait for name servers.
static POOL: Pool = Pool::new("names");
/// Names that were not asked for their addresses.
static CLAIMED: Answers<IpAddr, Option<String>> = Answers::new(&POOL, KEPT_MAX, KEPT_FOR);
static NAMES: Answers<IpAddr, Option<String>> = Answers::new(&POOL, KEPT_MAX, KEPT_FOR);
static ADDRESSES: Answers<String, Vec<IpAddr>> = Answers::new(&POOL, KEPT_MAX, KEPT_FOR);

/// HostnameLookups: gives the client its name. What has to be waited for; without an answer it goes
/// by its address.
pub fn look_up(exchange: &mut Exchange, lookups: Option<Lookups>) -> Option<Pause> {
    let checked = match lookups {
        None | Some(Lookups::Off) => return None,
        Some(lookups) => lookups == Lookups::Double,
    };
    // Logs name the client, so no answer goes out without its walk.
    exchange.depends_on_request();
    let (address, owner) = (exchange.client.ip(), exchange.site_index as u64);
    let answer = match (exchange.client.name(), checked) {
        (Some(_), _) => return None,
        (None, true) => NAMES.ask(owner, &address, None, move || name_of(address)),
        (None, false) => CLAIMED.ask(owner, &address, None, move || claimed_name(address)),
    };
    match answer {
        Answer::Known(name) => name.iter().for_each(|name| exchange.client.call_it(name)),
        Answer::Wait(pause) => return Some(pause),
        Answer::Busy => {}
    }
    None
}

impl Inquiry<'_> {
    /// In small letters. The error is what the rule comes to for now.
    pub fn client_name(&mut self) -> Result<Option<String>, Decision> {
        self.asked(Dependency::Client);
        let address = self.exchange.client.ip();
        let answer = NAMES.ask(self.exchange.site_index as u64, &address, None, move || {
            name_of(address)
        });
        let name = self.answered(answer)?;
        name.iter()
            .for_each(|name| self.exchange.client.call_it(name));
        Ok(name)
    }

    pub fn addresses_of(&mut self, name: &str) -> Result<Vec<IpAddr>, Decision> {
        let owned = name.to_owned();
        let answer = ADDRESSES.ask(
            self.exchange.site_index as u64,
            &owned.clone(),
            Vec::new(),
            move || addresses(&owned),
        );
        self.answered(answer)
    }

    fn answered<V>(&mut self, answer: Answer<V>) -> Result<V, Decision> {
        match answer {
            Answer::Known(value) => Ok(value),
            Answer::Wait(pause) => {
                self.pause = Some(pause);
                Err(Decision::Pending)
            }
            Answer::Busy => Err(Decision::Pending),
        }
    }
}

fn name_of(address: IpAddr) -> Option<String> {
    claimed_name(address).filter(|name| addresses(name).contains(&address))
}

fn claimed_name(address: IpAddr) -> Option<String> {
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

/// Whether `name` is `domain` or below it. `.example.com` is what is below it, and letters count
/// the same.
pub fn in_domain(domain: &[u8], name: &[u8]) -> bool {
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
