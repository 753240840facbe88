//! Each part of the state is read as it was written, and cut or longer ones are refused.

use super::*;
use saker_tls::{EarlySessions, Tickets};

/// Decodes what was encoded, and nothing shorter or longer.
fn there_and_back<T>(bytes: &[u8], decode: impl Fn(&mut Reader<'_>) -> io::Result<T>) -> T {
    for end in 0..bytes.len() {
        assert!(whole(&bytes[..end], &decode).is_err(), "cut at {end}");
    }
    assert!(whole(&[bytes, b"x"].concat(), &decode).is_err());
    whole(bytes, decode).unwrap()
}

#[test]
fn keys_sessions_and_tokens() {
    let tickets = Tickets::own(Duration::from_secs(60));
    tickets.rotate();
    let keys = tickets.own_keys().unwrap();
    let read = there_and_back(&encode_keys(&keys), decode_keys);
    assert_eq!(read.secrets, keys.secrets);
    assert!(read.rotate_in <= keys.rotate_in && !read.rotate_in.is_zero());
    let sessions = EarlySessions::default();
    let all = vec![
        (b"one".to_vec(), b"session".to_vec()),
        (Vec::new(), vec![0; 300]),
    ];
    sessions.continue_with(all.clone());
    let written = encode_sessions(&sessions.take_all());
    assert_eq!(there_and_back(&written, decode_sessions), all);
    for turned_s in [0, 1_700_000_000] {
        let at = UNIX_EPOCH + Duration::from_secs(turned_s);
        let tokens = TokenState {
            secret: [7; 32],
            used: vec![1, u128::MAX],
            used_before: vec![2],
            turned_at: (turned_s > 0).then_some(at),
        };
        assert_eq!(
            there_and_back(&encode_tokens(&tokens), decode_tokens),
            tokens
        );
    }
}

#[test]
fn debts_of_addresses() {
    let addresses = AddressTable::new(10);
    let state = addresses.state("192.0.2.1".parse().unwrap());
    let now_ns = clock::monotonic_ns();
    let limit = LimitName::from_number(7 << 32);
    for account in [&state.bad_requests, &state.usage(limit).account] {
        account.charge(now_ns, 3_600_000_000_000, |_| (true, ()));
    }
    let debts = there_and_back(&encode_debts(&addresses), decode_debts);
    assert_eq!(debts.len(), 1);
    assert!(debts[0].ns[2] > 3_000_000_000_000 && debts[0].ns[3..] == [0; ACCOUNTS - 3]);
    let debts = there_and_back(&encode_limit_debts(&addresses), decode_limit_debts);
    let [debt] = &debts[..] else {
        panic!("{debts:?}");
    };
    assert!(debt.limit == limit && debt.ns > 3_000_000_000_000);
}

#[test]
fn figures_are_counted_once() {
    let named = |name: &str| (name.to_owned(), "x=\"y\"".to_owned());
    let figures = |count, buckets: &[u64]| Figures {
        counters: [(named("requests_total"), count)].into(),
        latencies: [(named("site"), buckets.to_vec())].into(),
    };
    let (before, after) = (figures(7, &[1, 2]), figures(9, &[1, 5]));
    let read = there_and_back(&before.encode(), Figures::decode);
    assert_eq!(read, before);
    assert_eq!(after.clone().since(&before), figures(2, &[0, 3]));
    assert_eq!(after.clone().since(&Figures::default()), after);
}

#[test]
fn a_part_that_does_not_decode_is_left_out() {
    let parts = Parts(vec![
        (TICKET_KEYS.into(), vec![1, 2, 3]),
        (DEBTS.into(), 0u64.to_le_bytes().to_vec()),
    ]);
    assert!(parts.decode(TICKET_KEYS, decode_keys).is_none());
    assert!(parts.decode(MEMBERS, decode_members).is_none());
    assert_eq!(parts.decode(DEBTS, decode_debts), Some(Vec::new()));
}
