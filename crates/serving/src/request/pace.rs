//! Bandwidth limits of one body: the number of bytes that may be sent now, and the sleep until
//! there are more.
//!
//! Called by: drivers, for each piece of a body. A body is under up to four limits at once (those
//! of its connection, its client address, its site, and its own); the smallest piece and the
//! longest wait decide. Without limits no pace is created, and there is no cost. A body that has to
//! wait pays for its next piece at once, so that later ones wait longer: bodies that share a limit
//! take turns, and a short one is not delayed by a long one.
//! Caveat: a thousand slow bodies must not keep a core busy. So the more of them a worker has, the
//! longer the pieces are, and their timers expire together ([`TOGETHER_NS`]): the cost is per piece
//! and turn, hardly per byte.

use super::by_seconds::BySeconds;
use saker_config::model::{HostAccounts, LimitKind, LimitName, Rate, Throttle};
use saker_rate_limits::{Account, ClientAccount, Paced, Usage, bandwidth};
use std::{
    cell::Cell,
    future::Future,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep};

/// Sleeps end at multiples of that where many bodies are paced: well within what [`bandwidth`] lets
/// a late timer catch up with.
const TOGETHER_NS: u64 = 10_000_000;

thread_local! {
    /// Bodies of this worker that have had to wait for their pace.
    static HELD: Cell<u64> = const { Cell::new(0) };
}

/// Direction of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Out,
    In,
}

/// The accounts that a connection's bytes are charged to.
#[derive(Clone)]
pub struct Accounts {
    pub connection: Rc<ConnectionAccounts>,
    pub address: Option<ClientAccount>,
    pub sites: Arc<[SiteAccounts]>,
}

#[derive(Default)]
pub struct ConnectionAccounts {
    out_bytes: Account,
    in_bytes: Account,
}

pub use saker_rate_limits::SiteAccounts;

enum Payer {
    Connection(Rc<ConnectionAccounts>),
    Address(Arc<Usage>),
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
            (Payer::Address(usage), _) => &usage.account,
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
    limits: Vec<Limit>,
    /// Rest of the last piece.
    granted: u64,
    /// Size of the current piece, which was charged before it was sent.
    prepaid: u64,
    sleep: Option<HeldSleep>,
    by_seconds: Option<BySeconds>,
}

struct Limit {
    paced: Paced,
    payer: Payer,
    /// Amount charged to the account for the last piece that was waited for.
    prepaid: u64,
}

impl Limit {
    fn new(rate: Rate, payer: Payer) -> Limit {
        Limit {
            paced: Paced::new(rate),
            payer,
            prepaid: 0,
        }
    }

    fn charge(&mut self, direction: Direction, bytes: u64, now_ns: u64) -> u64 {
        self.paced
            .passed(self.payer.account(direction), bytes, now_ns)
    }
}

/// A sleep that is set again for each wait, and its body's place among those that are held.
struct HeldSleep {
    sleep: Pin<Box<Sleep>>,
    is_set: bool,
}

impl HeldSleep {
    fn until(due: Instant) -> HeldSleep {
        HELD.set(HELD.get() + 1);
        HeldSleep {
            sleep: Box::pin(tokio::time::sleep_until(due)),
            is_set: true,
        }
    }

    fn set(&mut self, due: Instant) {
        self.sleep.as_mut().reset(due);
        self.is_set = true;
    }
}

impl Drop for HeldSleep {
    fn drop(&mut self) {
        HELD.set(HELD.get().saturating_sub(1));
    }
}

impl Pace {
    /// `None` where no limit is set.
    pub fn new(
        direction: Direction,
        throttle: &Throttle,
        accounts: &Accounts,
        site: usize,
    ) -> Option<Box<Pace>> {
        let (connection, address, of_site) = rates(direction, throttle);
        let mut limits = Vec::new();
        if let Some(rate) = connection {
            limits.push(Limit::new(
                rate,
                Payer::Connection(Rc::clone(&accounts.connection)),
            ));
        }
        if let (Some(rate), Some(client)) = (address, &accounts.address) {
            let limit = address_limit(direction, throttle, accounts, site);
            let usage = client.with_usage(limit, Arc::clone);
            limits.push(Limit::new(rate, Payer::Address(usage)));
        }
        if let (Some(rate), Some(host)) = (of_site, &throttle.host) {
            limits.push(Limit::new(rate, Payer::Host(host.clone())));
        } else if let Some(rate) = of_site.filter(|_| site < accounts.sites.len()) {
            limits.push(Limit::new(
                rate,
                Payer::Site(Arc::clone(&accounts.sites), site),
            ));
        }
        if let Some(rate) = throttle
            .out_response
            .filter(|_| direction == Direction::Out)
        {
            limits.push(Limit::new(rate, Payer::Response(Account::new())));
        }
        let by_seconds = throttle
            .out_by_seconds
            .filter(|_| direction == Direction::Out)
            .map(BySeconds::new);
        if limits.is_empty() && by_seconds.is_none() {
            return None;
        }
        Some(Box::new(Pace {
            direction,
            limits,
            granted: 0,
            prepaid: 0,
            sleep: None,
            by_seconds,
        }))
    }

    /// Waits until bytes may be sent, and returns how many. A partly sent piece continues without a
    /// wait.
    pub fn poll_allowance(&mut self, cx: &mut Context<'_>) -> Poll<u64> {
        ready!(self.poll_second(cx));
        while self.granted == 0 {
            if let Some(held) = self.sleep.as_mut().filter(|held| held.is_set) {
                ready!(held.sleep.as_mut().poll(cx));
                held.is_set = false;
                self.granted = self.prepaid;
                continue;
            }
            let now_ns = saker_net::clock::monotonic_precise_ns();
            match self.wait_ns(now_ns) {
                Some(wait_ns) => {
                    self.prepay(now_ns);
                    self.sleep_for(rounded(wait_ns, now_ns, pieces_per_s()));
                }
                None => self.granted = self.piece(now_ns),
            }
        }
        let of_seconds = self.by_seconds.as_ref().map(|limit| limit.granted);
        Poll::Ready(self.granted.min(of_seconds.unwrap_or(u64::MAX)))
    }

    /// Waits until the limit by seconds grants something.
    fn poll_second(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.by_seconds {
            Some(limit) => limit.poll(cx),
            None => Poll::Ready(()),
        }
    }

    /// Takes a place in the line of each account.
    fn prepay(&mut self, now_ns: u64) {
        let pieces_per_s = pieces_per_s();
        let bytes = self
            .limits
            .iter()
            .map(|limit| limit.paced.share(pieces_per_s))
            .min()
            .unwrap_or(u64::MAX)
            .max(1);
        for limit in &mut self.limits {
            limit.prepaid = limit.charge(self.direction, bytes, now_ns);
        }
        self.prepaid = bytes;
    }

    fn sleep_for(&mut self, wait_ns: u64) {
        let due = Instant::now() + Duration::from_nanos(wait_ns);
        match &mut self.sleep {
            Some(held) => held.set(due),
            None => self.sleep = Some(HeldSleep::until(due)),
        }
    }

    /// Charges sent bytes.
    pub fn charge(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        if let Some(limit) = &mut self.by_seconds {
            limit.charge(bytes);
        }
        self.granted = self.granted.saturating_sub(bytes);
        let unpaid = bytes.saturating_sub(self.prepaid);
        self.prepaid = self.prepaid.saturating_sub(bytes);
        if unpaid > 0 {
            let now_ns = saker_net::clock::monotonic_precise_ns();
            for limit in &mut self.limits {
                limit.charge(self.direction, unpaid, now_ns);
            }
        }
    }

    fn wait_ns(&self, now_ns: u64) -> Option<u64> {
        self.limits
            .iter()
            .filter_map(|limit| {
                limit
                    .paced
                    .wait_ns(limit.payer.account(self.direction), now_ns)
            })
            .max()
    }

    fn piece(&self, now_ns: u64) -> u64 {
        let pieces_per_s = pieces_per_s();
        let pieces = self.limits.iter().map(|limit| {
            limit
                .paced
                .piece(limit.payer.account(self.direction), pieces_per_s, now_ns)
        });
        pieces.min().unwrap_or(u64::MAX).max(1)
    }
}

impl Drop for Pace {
    /// A body that was shorter than its piece, or was cut, is not to cost others more than it was.
    fn drop(&mut self) {
        for limit in &self.limits {
            limit.paced.give_back(
                limit.payer.account(self.direction),
                limit.prepaid.min(self.prepaid),
            );
        }
    }
}

fn pieces_per_s() -> u64 {
    bandwidth::pieces_per_s(HELD.get())
}

/// A wait that ends together with others', where there are many.
fn rounded(wait_ns: u64, now_ns: u64, pieces_per_s: u64) -> u64 {
    if pieces_per_s == bandwidth::PIECES_PER_S_MAX {
        return wait_ns;
    }
    let due_ns = now_ns.saturating_add(wait_ns);
    due_ns
        .checked_next_multiple_of(TOGETHER_NS)
        .unwrap_or(due_ns)
        - now_ns
}

fn rates(direction: Direction, throttle: &Throttle) -> (Option<Rate>, Option<Rate>, Option<Rate>) {
    match direction {
        Direction::Out => (
            throttle.out_connection,
            throttle.out_address,
            throttle.out_site,
        ),
        Direction::In => (
            throttle.in_connection,
            throttle.in_address,
            throttle.in_site,
        ),
    }
}

/// The limit on the bytes of a client's address.
fn address_limit(
    direction: Direction,
    throttle: &Throttle,
    accounts: &Accounts,
    site: usize,
) -> LimitName {
    let kind = match direction {
        Direction::Out => LimitKind::OutAddress,
        Direction::In => LimitKind::InAddress,
    };
    let number = accounts.sites.get(site).map_or(0, |site| site.number);
    throttle.limit_name(kind, number)
}

/// Charges a small body that goes out whole, if no limit bites now. `false`: it has to be paced.
pub fn charge_at_once(
    throttle: &Throttle,
    accounts: &Accounts,
    site: usize,
    bytes: u64,
    now_ns: u64,
) -> bool {
    if let Some(rate) = &throttle.out_by_seconds
        && bytes > rate.bytes_per_s.saturating_add(rate.after_bytes)
    {
        return false;
    }
    // The account of the response alone begins and ends with it.
    if let Some(rate) = &throttle.out_response
        && !bandwidth::takes_whole(&Account::new(), rate, bytes, now_ns)
    {
        return false;
    }
    let connection =
        (throttle.out_connection.as_ref()).map(|rate| (rate, &accounts.connection.out_bytes));
    let of_site = throttle.out_site.as_ref().and_then(|rate| {
        let account = match &throttle.host {
            Some(host) => host.out_bytes(),
            None => &accounts.sites.get(site)?.out_bytes,
        };
        Some((rate, account))
    });
    let (Some(rate), Some(client)) = (&throttle.out_address, &accounts.address) else {
        return charge_all([connection, None, of_site], bytes, now_ns);
    };
    let limit = address_limit(Direction::Out, throttle, accounts, site);
    client.with_usage(limit, |usage| {
        charge_all(
            [connection, Some((rate, &usage.account)), of_site],
            bytes,
            now_ns,
        )
    })
}

/// Charges a body to all of its limits, if none bites now.
#[inline]
fn charge_all(limits: [Option<(&Rate, &Account)>; 3], bytes: u64, now_ns: u64) -> bool {
    let mut given = limits.iter().flatten();
    let is_free = given.all(|(rate, account)| bandwidth::takes_whole(account, rate, bytes, now_ns));
    if is_free {
        let given = limits.iter().flatten();
        given.for_each(|(rate, account)| bandwidth::charge_whole(account, rate, bytes, now_ns));
    }
    is_free
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn many_wake_together_and_few_on_time() {
        assert_eq!(
            rounded(3 * MS, 44 * MS, bandwidth::PIECES_PER_S_MAX),
            3 * MS
        );
        for (wait_ns, want_ns) in [
            (1, 6 * MS),
            (6 * MS, 6 * MS),
            (7 * MS, 16 * MS),
            (u64::MAX, u64::MAX - 44 * MS),
        ] {
            assert_eq!(rounded(wait_ns, 44 * MS, 2), want_ns, "{wait_ns}");
        }
    }

    #[tokio::test]
    async fn those_that_wait_are_counted_until_they_go() {
        let throttle = Throttle {
            out_connection: Some(Rate {
                bytes_per_s: 1_000,
                burst_bytes: 0,
                after_bytes: 0,
            }),
            ..Throttle::default()
        };
        let accounts = Accounts {
            connection: Rc::default(),
            address: None,
            sites: Arc::new([]),
        };
        let mut pace = Pace::new(Direction::Out, &throttle, &accounts, 0).expect("a limit");
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert_eq!(
            (pace.poll_allowance(&mut cx), HELD.get()),
            (Poll::Ready(4096), 0)
        );
        pace.charge(96);
        assert_eq!(
            pace.poll_allowance(&mut cx),
            Poll::Ready(4000),
            "the rest of the piece"
        );
        pace.charge(4000);
        for _ in 0..2 {
            assert_eq!(
                (pace.poll_allowance(&mut cx), HELD.get()),
                (Poll::Pending, 1)
            );
        }
        drop(pace);
        assert_eq!(HELD.get(), 0);
    }

    fn shared(bytes_per_s: u64) -> (Throttle, Accounts) {
        let throttle = Throttle {
            out_site: Some(Rate {
                bytes_per_s,
                burst_bytes: 0,
                after_bytes: 0,
            }),
            ..Throttle::default()
        };
        (
            throttle,
            Accounts {
                connection: Rc::default(),
                address: None,
                sites: Arc::new([SiteAccounts::default()]),
            },
        )
    }

    #[tokio::test]
    async fn a_short_body_has_its_turn_beside_a_long_one() {
        let (throttle, accounts) = shared(200_000);
        let new = || Pace::new(Direction::Out, &throttle, &accounts, 0).expect("a limit");
        let pieces = Cell::new(0);
        let long = async {
            let mut pace = new();
            while pieces.get() < 30 {
                let allowance = std::future::poll_fn(|cx| pace.poll_allowance(cx)).await;
                pace.charge(allowance);
                pieces.set(pieces.get() + 1);
            }
        };
        let short = async {
            // The long one is in progress.
            while pieces.get() < 3 {
                tokio::task::yield_now().await;
            }
            let mut pace = new();
            std::future::poll_fn(|cx| pace.poll_allowance(cx)).await;
            pace.charge(2);
        };
        tokio::select! { biased; () = long => {} () = short => {} }
        assert!(
            pieces.get() <= 6,
            "{} pieces went before the short body",
            pieces.get()
        );
    }

    #[tokio::test]
    async fn what_was_paid_for_and_did_not_go_is_given_back() {
        let (throttle, accounts) = shared(10_000);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let debt_ns = || {
            accounts.sites[0]
                .out_bytes
                .debt_ns(saker_net::clock::monotonic_precise_ns())
        };
        let mut first = Pace::new(Direction::Out, &throttle, &accounts, 0).expect("a limit");
        assert!(first.poll_allowance(&mut cx).is_ready());
        first.charge(4096);
        let before_ns = debt_ns();
        for _ in 0..10 {
            let mut cut = Pace::new(Direction::Out, &throttle, &accounts, 0).expect("a limit");
            assert!(cut.poll_allowance(&mut cx).is_pending());
        }
        assert!(debt_ns() <= before_ns);
    }
}
