use super::*;
use crate::{Admission, requests::admit};
use saker_config::model::{Excess, LimitKind, LimitPlace, RequestRate};

const START: u64 = 77_000_000_000;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn limit(kind: LimitKind) -> LimitName {
    LimitName::new(kind, 1, LimitPlace(1 << 8))
}

const STATIC: LimitKind = LimitKind::StaticRequests;

fn v4(number: u32) -> IpAddr {
    IpAddr::V4(number.into())
}

#[test]
fn one_state_for_what_one_client_has() {
    let table = AddressTable::new(100);
    let rows = [
        ("192.0.2.1", "192.0.2.1", true),
        ("192.0.2.1", "192.0.2.2", false),
        ("192.0.2.1", "::ffff:192.0.2.1", true),
        ("2001:db8::1", "2001:db8::ffff:1", true),
        ("2001:db8::1", "2001:db8:0:0:ffff:ffff:ffff:ffff", true),
        ("2001:db8::1", "2001:db8:0:1::1", false),
        ("::192.0.2.1", "192.0.2.1", false),
    ];
    for (one, two, same) in rows {
        assert_eq!(
            Arc::ptr_eq(&table.state(ip(one)), &table.state(ip(two))),
            same,
            "{one} {two}"
        );
    }
}

#[test]
fn connections_are_counted_to_the_maximum_and_back() {
    let state = AddressTable::new(1).state(ip("192.0.2.1"));
    let guards: Vec<_> = (0..3).map(|_| state.connect(3).unwrap()).collect();
    assert!(state.connect(3).is_none() && state.connect(0).is_none());
    assert_eq!(state.connections(), 3);
    assert!(state.connect(4).is_some());
    drop(guards);
    assert_eq!(state.connections(), 0);
    assert!(
        state
            .connect(1)
            .is_some_and(|guard| guard.state().connections() == 1)
    );
}

#[test]
fn a_full_table_shares_one_state_and_grows_no_more() {
    let table = AddressTable::new(10);
    let held: Vec<_> = (0..10).map(|number| table.state(v4(number))).collect();
    assert!(table.is_full());
    let (one, two) = (table.state(v4(10)), table.state(v4(11)));
    assert!(Arc::ptr_eq(&one, &two));
    assert!(held.iter().all(|state| !Arc::ptr_eq(state, &one)));
    // Known addresses keep theirs.
    assert!(Arc::ptr_eq(&table.state(v4(3)), &held[3]));
    (0..100_000).for_each(|number| drop(table.state(v4(number))));
    assert_eq!(table.len(), 10);
    let none = AddressTable::new(0);
    assert!(Arc::ptr_eq(&none.state(v4(1)), &none.overflow));
}

#[test]
fn a_sweep_forgets_only_what_is_at_rest() {
    let table = AddressTable::new(100);
    let rate = RequestRate {
        per_1000_s: 1000,
        burst: 0,
        excess: Excess::Refuse,
    };
    (0..10).for_each(|number| drop(table.state(v4(number))));
    let connection = table.state(v4(0)).connect(1).unwrap();
    let held = table.state(v4(1));
    assert_eq!(
        admit(
            &table.state(v4(2)).usage(limit(STATIC)).account,
            &rate,
            START
        ),
        Admission::Pass
    );
    assert_eq!(table.sweep(START), 7);
    assert_eq!(table.len(), 3);
    // Forgetting the third would have forgiven this.
    assert_ne!(
        admit(
            &table.state(v4(2)).usage(limit(STATIC)).account,
            &rate,
            START + 1
        ),
        Admission::Pass
    );
    drop((connection, held));
    assert_eq!(table.sweep(START + 1), 2);
    assert_eq!(table.sweep(START + 1_000_000_000), 1);
    assert!(table.is_empty());
    assert_eq!(
        admit(
            &table.state(v4(2)).usage(limit(STATIC)).account,
            &rate,
            START + 1_000_000_000
        ),
        Admission::Pass
    );
}

#[test]
fn room_made_by_a_sweep_is_used_and_memory_given_back() {
    let table = AddressTable::new(10_000);
    (0..20_000).for_each(|number| drop(table.state(v4(number))));
    assert!(table.is_full());
    assert_eq!(table.sweep(START), 10_000);
    assert!(
        table
            .shards
            .iter()
            .all(|shard| lock(shard).capacity() < 100)
    );
    assert!(!Arc::ptr_eq(&table.state(v4(20_001)), &table.overflow));
}

#[test]
fn all_cores_at_once_never_go_over_a_bound() {
    let table = AddressTable::new(50);
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let table = &table;
            scope.spawn(move || {
                for number in 0..5_000u32 {
                    let state = table.state(v4(number.wrapping_mul(thread + 1) % 200));
                    let guard = state.connect(2);
                    // The shared state of a full table is bound by the same number.
                    assert!(state.connections() <= 2 && table.len() <= 50);
                    if number % 64 == 0 {
                        table.sweep(START);
                    }
                    drop(guard);
                }
            });
        }
    });
    table.sweep(START);
    assert_eq!(table.len(), 0);
    assert_eq!(table.overflow.connections(), 0);
}

#[test]
fn what_is_owed_goes_on_in_another_process() {
    let (before, after) = (AddressTable::new(10), AddressTable::new(1));
    let rate = RequestRate {
        per_1000_s: 1000,
        burst: 0,
        excess: Excess::Refuse,
    };
    for address in ["192.0.2.1", "2001:db8::1"] {
        let state = before.state(ip(address));
        admit(&state.usage(limit(STATIC)).account, &rate, START);
        admit(&state.bad_requests, &rate, START);
    }
    before.state(ip("192.0.2.2"));
    // Another clock.
    let (debts, later) = (before.debts(START), 5);
    let of_limits = before.limit_debts(START);
    assert_eq!(
        (debts.len(), of_limits.len()),
        (2, 2),
        "who owes nothing is forgotten"
    );
    debts
        .iter()
        .for_each(|debts| after.continue_debts(debts, later));
    of_limits
        .iter()
        .for_each(|debt| after.continue_limit_debt(debt, later));
    for address in ["192.0.2.1", "2001:db8::ffff"] {
        let state = after.state(ip(address));
        assert!(matches!(
            admit(&state.usage(limit(STATIC)).account, &rate, later),
            Admission::Refuse { .. }
        ));
        let dynamic = state.usage(limit(LimitKind::DynamicRequests));
        assert!(dynamic.account.is_at_rest(later));
        assert!(!state.bad_requests.is_at_rest(later) && state.refused_requests.is_at_rest(later));
    }
    assert_eq!(after.len(), 1, "more share one state");
}

#[test]
fn a_client_has_the_usages_of_its_address() {
    let table = AddressTable::new(10);
    let accounts = [0, 1].map(|_| ClientAccount::new(table.state(v4(1))));
    let names = (0..2 * HELD_MAX as u32).map(|at| LimitName::new(STATIC, at, LimitPlace(1 << 8)));
    for name in names.clone() {
        accounts[0].with_usage(name, |usage| usage.account.charge(START, 7, |_| (true, ())));
    }
    for name in names {
        let debt_ns = accounts[1].with_usage(name, |usage| usage.account.debt_ns(START));
        assert_eq!(debt_ns, 7);
    }
}
