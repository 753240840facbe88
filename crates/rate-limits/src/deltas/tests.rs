//! Batches, their bounds, and limits over several servers with a clock of the test's own.

use super::*;
use crate::{Account, Admission, requests};
use saker_config::model::{Excess, RequestRate};

const MS: u64 = 1_000_000;

fn name(client: u128) -> AccountName {
    AccountName::of_address(Limit::Static, client)
}

#[test]
fn charges_come_back() {
    let unsent = Unsent::default();
    assert_eq!(unsent.take(), None);
    let all = LIMITS.map(|limit| AccountName {
        limit,
        site: 3,
        client: u128::MAX - 1,
        rule: 5,
    });
    for (account, amount) in all.into_iter().zip(1..) {
        unsent.add(account, amount);
        unsent.add(account, 10);
    }
    let batch = unsent.take().unwrap();
    let mut read: Vec<_> = charges(&batch).collect();
    read.sort_by_key(|(_, amount)| *amount);
    let expected: Vec<_> = all.into_iter().zip(11..).collect();
    assert_eq!(read, expected);
    assert_eq!(unsent.take(), None, "nothing is sent twice");
}

#[test]
fn what_is_damaged_or_later_is_left_out() {
    let unsent = Unsent::default();
    unsent.add(name(1), 7);
    let batch = unsent.take().unwrap();
    let charge = &batch[..CHARGE_BYTES];
    for cut in 0..CHARGE_BYTES {
        assert_eq!(charges(&batch[..cut]).count(), 0);
    }
    let mut two = [charge, &batch].concat();
    two[0] = 200;
    assert_eq!(charges(&two).collect::<Vec<_>>(), [(name(1), 7)]);
    for odd in [&[2][..], &[1, 1], &charge[..40]] {
        assert_eq!(charges(&[charge, odd].concat()).count(), 0, "{odd:?}");
    }
}

/// Servers from before there was a version send and read whole charges.
#[test]
fn batches_of_servers_before_versions_are_read_and_read_by_them() {
    let unsent = Unsent::default();
    unsent.add(name(1), 7);
    unsent.add(name(2), 8);
    let batch = unsent.take().unwrap();
    let before = &batch[..2 * CHARGE_BYTES];
    let mut read: Vec<_> = charges(before).collect();
    read.sort_by_key(|(_, amount)| *amount);
    assert_eq!(read, [(name(1), 7), (name(2), 8)]);
    assert_eq!(
        batch.len(),
        before.len() + 1,
        "less than a charge of theirs"
    );
}

#[test]
fn what_waits_and_a_batch_are_bounded() {
    let unsent = Unsent::default();
    for client in 0..2 * WAITING_MAX as u128 {
        unsent.add(name(client), 1);
    }
    let mut batches = 0;
    let mut count = 0;
    while let Some(batch) = unsent.take() {
        batches += 1;
        assert!(batch.len() <= BATCH_CHARGES_MAX * CHARGE_BYTES + 1);
        count += charges(&batch).count();
    }
    assert_eq!(
        (batches, count),
        (WAITING_MAX / BATCH_CHARGES_MAX, WAITING_MAX)
    );
    unsent.add(name(1), 1);
    unsent.clear();
    assert_eq!(unsent.take(), None);
}

/// Servers that charge one account each, and exchange what they have charged.
struct Servers {
    servers: Vec<(Account, Unsent)>,
    rate: RequestRate,
    admitted: u64,
}

impl Servers {
    fn new(count: usize, per_s: u64, burst: u64) -> Servers {
        Servers {
            servers: (0..count).map(|_| Default::default()).collect(),
            rate: RequestRate {
                per_1000_s: per_s * 1000,
                burst,
                excess: Excess::Refuse,
            },
            admitted: 0,
        }
    }

    fn request(&mut self, at: usize, now_ns: u64) {
        let (account, unsent) = &self.servers[at];
        if requests::admit(account, &self.rate, now_ns) == Admission::Pass {
            self.admitted += 1;
            unsent.add(name(1), requests::cost_ns(&self.rate));
        }
    }

    /// The batch of one server arrives at the others.
    fn exchange(&self, from: usize, now_ns: u64, age_ns: u64) {
        let Some(batch) = self.servers[from].1.take() else {
            return;
        };
        for (at, (account, _)) in self.servers.iter().enumerate() {
            let charged = charges(&batch).filter(|_| at != from);
            charged.for_each(|(_, cost_ns)| requests::charge_at(account, now_ns - age_ns, cost_ns));
        }
    }
}

/// 100 a second over five servers, for a minute, exchanged every 100 ms: within 5 % of 6,000.
#[test]
fn a_limit_holds_over_five_servers() {
    // Requests per millisecond at each server: a flood, and what just fills the limit.
    for (flood, wanted) in [
        ([2, 2, 2, 2, 2], 6000),
        ([2, 0, 0, 0, 0], 6000),
        ([9, 1, 1, 0, 3], 6000),
    ] {
        for burst in [0, 20] {
            let mut servers = Servers::new(5, 100, burst);
            let start = 1_000_000 * MS;
            for ms in 0..60_000_u64 {
                let now = start + ms * MS;
                for (at, count) in flood.iter().enumerate() {
                    (0..*count).for_each(|_| servers.request(at, now));
                    // Each at a moment of its own.
                    if ms % 100 == 20 * at as u64 {
                        servers.exchange(at, now, 0);
                    }
                }
            }
            let most = wanted * 105 / 100;
            assert!(
                (wanted * 95 / 100..=most).contains(&servers.admitted),
                "{flood:?} burst {burst}: {}",
                servers.admitted
            );
        }
    }
}

/// A server that was paused is told late, and pays only for what is not paid off yet.
#[test]
fn late_charges_are_of_their_time() {
    let mut servers = Servers::new(2, 10, 0);
    let start = 1_000_000 * MS;
    for tenth in 0..50 {
        servers.request(0, start + tenth * 100 * MS);
    }
    assert_eq!(servers.admitted, 50);
    let later = start + 60_000 * MS;
    servers.exchange(0, later, 55_000 * MS);
    servers.request(1, later);
    assert_eq!(servers.admitted, 51, "paid off long ago");
}
