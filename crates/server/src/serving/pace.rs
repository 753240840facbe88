//! Bandwidth limits of one body: how much may go now, and the sleep until more may.
//!
//! A body is under up to four limits at once (its connection's, its client address's, its site's, its own); the smallest piece and the longest
//! wait decide. Where no limit is set, no pace is made and nothing is paid.

use saker_config::model::{HostAccounts, Rate, Throttle};
use saker_pipeline::throttle::{Account, AddressState, Paced, bandwidth};
use std::{
    future::Future,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::Sleep;

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Out,
    In,
}

/// The accounts that a connection's bytes are charged to.
#[derive(Clone)]
pub struct Accounts {
    pub connection: Rc<ConnectionAccounts>,
    pub address: Option<Arc<AddressState>>,
    pub sites: Arc<[SiteAccounts]>,
}

#[derive(Default)]
pub struct ConnectionAccounts {
    out_bytes: Account,
    in_bytes: Account,
}

pub use saker_pipeline::generation::SiteAccounts;

enum Payer {
    Connection(Rc<ConnectionAccounts>),
    Address(Arc<AddressState>),
    Site(Arc<[SiteAccounts]>, usize),
    Host(HostAccounts),
    /// This body alone.
    Response(Account),
}

impl Payer {
    fn account(&self, direction: Direction) -> &Account {
        match (self, direction) {
            (Payer::Connection(accounts), Direction::Out) => &accounts.out_bytes,
            (Payer::Connection(accounts), Direction::In) => &accounts.in_bytes,
            (Payer::Address(state), Direction::Out) => &state.out_bytes,
            (Payer::Address(state), Direction::In) => &state.in_bytes,
            (Payer::Host(accounts), Direction::Out) => accounts.out_bytes(),
            (Payer::Host(accounts), Direction::In) => accounts.in_bytes(),
            (Payer::Response(account), _) => account,
            (Payer::Site(sites, at), Direction::Out) => &sites[*at].out_bytes,
            (Payer::Site(sites, at), Direction::In) => &sites[*at].in_bytes,
        }
    }
}

pub struct Pace {
    direction: Direction,
    limits: Vec<(Paced, Payer)>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    /// `None` where no limit is set.
    pub fn new(direction: Direction, throttle: &Throttle, accounts: &Accounts, site: usize) -> Option<Pace> {
        let (connection, address, of_site) = rates(direction, throttle);
        let mut limits = Vec::new();
        if let Some(rate) = connection {
            limits.push((Paced::new(rate), Payer::Connection(Rc::clone(&accounts.connection))));
        }
        if let (Some(rate), Some(state)) = (address, &accounts.address) {
            limits.push((Paced::new(rate), Payer::Address(Arc::clone(state))));
        }
        if let (Some(rate), Some(host)) = (of_site, &throttle.host) {
            limits.push((Paced::new(rate), Payer::Host(host.clone())));
        } else if let Some(rate) = of_site.filter(|_| site < accounts.sites.len()) {
            limits.push((Paced::new(rate), Payer::Site(Arc::clone(&accounts.sites), site)));
        }
        if let Some(rate) = throttle.out_response.filter(|_| direction == Direction::Out) {
            limits.push((Paced::new(rate), Payer::Response(Account::new())));
        }
        (!limits.is_empty()).then_some(Pace { direction, limits, sleep: None })
    }

    /// How much may go now; waits until that is something.
    pub fn poll_allowance(&mut self, cx: &mut Context<'_>) -> Poll<u64> {
        loop {
            if let Some(sleep) = &mut self.sleep {
                ready!(sleep.as_mut().poll(cx));
                self.sleep = None;
            }
            let now_ns = saker_net::clock::monotonic_precise_ns();
            match self.wait_ns(now_ns) {
                Some(wait_ns) => self.sleep = Some(Box::pin(tokio::time::sleep(Duration::from_nanos(wait_ns)))),
                None => return Poll::Ready(self.piece(now_ns)),
            }
        }
    }

    /// Charges what went.
    pub fn charge(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let now_ns = saker_net::clock::monotonic_precise_ns();
        for (paced, payer) in &mut self.limits {
            paced.passed(payer.account(self.direction), bytes, now_ns);
        }
    }

    fn wait_ns(&self, now_ns: u64) -> Option<u64> {
        self.limits.iter().filter_map(|(paced, payer)| paced.wait_ns(payer.account(self.direction), now_ns)).max()
    }

    fn piece(&self, now_ns: u64) -> u64 {
        self.limits.iter().map(|(paced, payer)| paced.piece(payer.account(self.direction), now_ns)).min().unwrap_or(u64::MAX).max(1)
    }
}

fn rates(direction: Direction, throttle: &Throttle) -> (Option<Rate>, Option<Rate>, Option<Rate>) {
    match direction {
        Direction::Out => (throttle.out_connection, throttle.out_address, throttle.out_site),
        Direction::In => (throttle.in_connection, throttle.in_address, throttle.in_site),
    }
}

/// Charges a small body that goes out whole, if no limit bites now. `false`: it has to be paced.
pub fn charge_at_once(throttle: &Throttle, accounts: &Accounts, site: usize, bytes: u64, now_ns: u64) -> bool {
    let address = accounts.address.as_deref().map(|state| &state.out_bytes);
    let of_all = || accounts.sites.get(site).map(|accounts| &accounts.out_bytes);
    let of_site = throttle.host.as_ref().map(HostAccounts::out_bytes).or_else(of_all);
    let of_response = Account::new();
    let pairs = [
        (&throttle.out_connection, Some(&accounts.connection.out_bytes)),
        (&throttle.out_address, address),
        (&throttle.out_site, of_site),
        (&throttle.out_response, Some(&of_response)),
    ];
    let limits = || pairs.iter().filter_map(|(rate, account)| rate.as_ref().zip(*account));
    let fits = limits().all(|(rate, account)| bandwidth::takes_whole(account, rate, bytes, now_ns));
    if fits {
        limits().for_each(|(rate, account)| bandwidth::charge_whole(account, rate, bytes, now_ns));
    }
    fits
}
