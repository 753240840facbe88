use super::*;

const SECOND: u64 = NS_PER_S;
const MS: u64 = SECOND / 1000;
/// Virtual clocks do not start at 0 in life either.
const START: u64 = 77 * SECOND;

fn rate(bytes_per_s: u64) -> Rate {
    Rate {
        bytes_per_s,
        burst_bytes: 0,
        after_bytes: 0,
    }
}

/// Sends as a driver does until `span_ns` is over, with timers that fire at the next multiple of
/// `tick_ns`; returns the bytes sent.
fn send(account: &Account, paced: Paced, span_ns: u64, tick_ns: u64) -> u64 {
    send_in_pieces(account, paced, PIECES_PER_S_MAX, span_ns, tick_ns)
}

fn send_in_pieces(
    account: &Account,
    mut paced: Paced,
    pieces_per_s: u64,
    span_ns: u64,
    tick_ns: u64,
) -> u64 {
    let (mut now, mut sent) = (START, 0);
    while now < START + span_ns {
        let piece = paced.piece(account, pieces_per_s, now);
        let wait = match piece {
            0 => paced.wait_ns(account, now),
            piece => {
                sent += piece;
                paced.passed(account, piece, now);
                paced.wait_ns(account, now)
            }
        };
        now = (now + wait.unwrap_or(0)).next_multiple_of(tick_ns);
    }
    sent
}

#[track_caller]
fn assert_within(got: u64, want: u64, per_mille: u64) {
    assert!(
        got.abs_diff(want) * 1000 <= want * per_mille,
        "{got} is not within {per_mille} per mille of {want}"
    );
}

#[test]
fn ten_seconds_at_a_megabyte_are_exact() {
    let sent = send(&Account::new(), Paced::new(rate(1_000_000)), 10 * SECOND, 1);
    assert_within(sent, 10_000_000, 10);
}

#[test]
fn late_timers_do_not_lower_the_rate() {
    for bytes_per_s in [
        50_000,
        100_000,
        1_000_000,
        12_345_678,
        125_000_000,
        1_250_000_000,
    ] {
        for tick_ns in [MS, 4 * MS] {
            let sent = send(
                &Account::new(),
                Paced::new(rate(bytes_per_s)),
                10 * SECOND,
                tick_ns,
            );
            assert_within(sent, 10 * bytes_per_s, 20);
        }
    }
}

#[test]
fn few_bodies_flow_evenly_and_many_cost_little() {
    let rows = [
        (0, 20),
        (1, 20),
        (50, 20),
        (100, 10),
        (250, 4),
        (500, 2),
        (1_000, 2),
        (u64::MAX, 2),
    ];
    for (bodies, want) in rows {
        assert_eq!(pieces_per_s(bodies), want, "{bodies}");
    }
    let rate = rate(100_000);
    assert_eq!(
        piece(&Account::new(), rate, pieces_per_s(1_000), START),
        50_000
    );
    // However late the timers of a worker with many are, the rate is kept: what is ahead is one
    // piece.
    for bytes_per_s in [1_000, 10_000, 50_000, 100_000, 1_000_000] {
        let rate = Rate {
            bytes_per_s,
            ..rate
        };
        let sent = send_in_pieces(
            &Account::new(),
            Paced::new(rate),
            pieces_per_s(1_000),
            60 * SECOND,
            16 * MS,
        );
        let ahead = (bytes_per_s / 2).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX) + bytes_per_s / 50;
        assert!(
            (60 * bytes_per_s..=60 * bytes_per_s + ahead).contains(&sent),
            "{sent} at {bytes_per_s}"
        );
    }
}

#[test]
fn a_burst_goes_at_once_and_again_after_a_pause() {
    let account = Account::new();
    let rate = Rate {
        burst_bytes: 500_000,
        ..rate(100_000)
    };
    for start in [START, START + 60 * SECOND] {
        assert_eq!(take(&account, rate, 400_000, start), None);
        assert_eq!(piece(&account, rate, PIECES_PER_S_MAX, start), 100_000);
        assert_eq!(take(&account, rate, 100_000, start), None);
        // Even with the burst used up one piece goes, on credit.
        assert_eq!(piece(&account, rate, PIECES_PER_S_MAX, start), 5_000);
        assert_eq!(take(&account, rate, 5_000, start), Some(50 * MS));
        assert_eq!(piece(&account, rate, PIECES_PER_S_MAX, start), 0);
        assert_eq!(wait_ns(&account, rate, start), Some(50 * MS));
        assert_eq!(wait_ns(&account, rate, start + 50 * MS), None);
        assert_eq!(
            piece(&account, rate, PIECES_PER_S_MAX, start + 50 * MS),
            5_000
        );
    }
    // Half a pause gives back half.
    assert_eq!(
        piece(
            &account,
            rate,
            PIECES_PER_S_MAX,
            START + 62 * SECOND + 550 * MS
        ),
        250_000
    );
}

#[test]
fn with_a_burst_the_total_is_rate_and_burst() {
    let sent = send(
        &Account::new(),
        Paced::new(Rate {
            burst_bytes: 3_000_000,
            ..rate(1_000_000)
        }),
        10 * SECOND,
        MS,
    );
    assert_within(sent, 13_000_000, 10);
}

#[test]
fn after_bytes_go_uncounted_once_in_each_body() {
    let account = Account::new();
    let rate = Rate {
        after_bytes: 1_000_000,
        ..rate(100_000)
    };
    for _ in 0..2 {
        let mut paced = Paced::new(rate);
        assert_eq!(paced.piece(&account, PIECES_PER_S_MAX, START), 1_000_000);
        assert_eq!(paced.passed(&account, 600_000, START), 0);
        assert_eq!(paced.piece(&account, PIECES_PER_S_MAX, START), 400_000);
        assert_eq!(paced.passed(&account, 400_000, START), 0);
        assert!(account.is_at_rest(START));
    }
    // What crosses the line is counted from the line on; a body that follows starts free whatever
    // the account owes.
    let mut paced = Paced::new(rate);
    assert_eq!(
        (
            paced.passed(&account, 1_100_000, START),
            paced.wait_ns(&account, START)
        ),
        (100_000, Some(SECOND - TOLERANCE_NS))
    );
    assert_eq!(
        (
            paced.piece(&account, PIECES_PER_S_MAX, START),
            Paced::new(rate).piece(&account, PIECES_PER_S_MAX, START)
        ),
        (0, 1_000_000)
    );
    assert_eq!(Paced::new(rate).wait_ns(&account, START), None);
    assert_within(
        send(&Account::new(), Paced::new(rate), 10 * SECOND, MS),
        2_000_000,
        10,
    );
}

#[test]
fn pieces_have_bounds() {
    let rows = [
        (0, PIECE_BYTES_MIN),
        (1_000, PIECE_BYTES_MIN),
        (200_000, 10_000),
        (1_000_000, 50_000),
        (u64::MAX, PIECE_BYTES_MAX),
    ];
    for (bytes_per_s, want) in rows {
        assert_eq!(
            piece(&Account::new(), rate(bytes_per_s), PIECES_PER_S_MAX, START),
            want,
            "{bytes_per_s}"
        );
    }
}

#[test]
fn many_connections_share_one_rate() {
    let (account, rate) = (Account::new(), rate(1_000_000));
    let mut clocks = [START; 50];
    let mut sent = [0u64; 50];
    // Always the connection whose timer is next.
    while let Some(at) = (0..50)
        .min_by_key(|at| clocks[*at])
        .filter(|at| clocks[*at] < START + 10 * SECOND)
    {
        let now = clocks[at];
        let piece = piece(&account, rate, PIECES_PER_S_MAX, now);
        sent[at] += piece;
        let wait = if piece > 0 {
            take(&account, rate, piece, now)
        } else {
            wait_ns(&account, rate, now)
        };
        clocks[at] = now + wait.unwrap_or(1);
    }
    assert_within(sent.iter().sum(), 10_000_000, 10);
}

#[test]
fn nothing_overflows() {
    let account = Account::new();
    for bytes_per_s in [0, 1, u64::MAX] {
        for burst_bytes in [0, u64::MAX] {
            let rate = Rate {
                bytes_per_s,
                burst_bytes,
                after_bytes: u64::MAX,
            };
            for now in [0, START, u64::MAX] {
                take(&account, rate, u64::MAX, now);
                piece(&account, rate, PIECES_PER_S_MAX, now);
                Paced::new(rate).passed(&account, u64::MAX, now);
            }
        }
    }
}

#[test]
fn a_whole_body_goes_by_the_same_rule_as_a_piece() {
    let debts = [0, MS, 10 * MS, 10 * MS + 1, 50 * MS, SECOND, SECOND + 1];
    let sizes = [
        0,
        1,
        285,
        PIECE_BYTES_MIN,
        PIECE_BYTES_MIN + 1,
        50_000,
        PIECE_BYTES_MAX,
        PIECE_BYTES_MAX + 1,
    ];
    for (per_s, burst_bytes, after_bytes) in [
        (1_000, 0, 0),
        (1_000_000, 0, 0),
        (1_000_000, 1_000_000, 0),
        (1_000_000, 0, 300),
    ] {
        let rate = Rate {
            bytes_per_s: per_s,
            burst_bytes,
            after_bytes,
        };
        for (debt_ns, bytes) in debts
            .into_iter()
            .flat_map(|debt| sizes.map(|size| (debt, size)))
        {
            let account = Account::new();
            account.charge(START, debt_ns, |_| (true, ()));
            let mut paced = Paced::new(rate);
            let fits = paced.wait_ns(&account, START).is_none()
                && paced.piece(&account, PIECES_PER_S_MAX, START) >= bytes;
            assert_eq!(
                takes_whole(&account, &rate, bytes, START),
                fits,
                "{rate:?}, {debt_ns} ns, {bytes} bytes"
            );
            charge_whole(&account, &rate, bytes, START);
            let other = Account::new();
            other.charge(START, debt_ns, |_| (true, ()));
            paced.passed(&other, bytes, START);
            assert_eq!(account.debt_ns(START), other.debt_ns(START));
        }
    }
}
