//! Streams of acknowledgements made by hand: what the window does, in figures of RFC 9438.

use super::*;

const DATAGRAM: f64 = 1200.0;

/// A sender that uses its window, and a path that takes the same time for everything.
struct Flow {
    cubic: Cubic,
    now: Instant,
    rtt: Duration,
}

impl Flow {
    fn new(rtt_ms: u64, window_datagrams: u64) -> Flow {
        let now = Instant::now();
        Flow {
            cubic: Cubic::new(window_datagrams * 1200, 1200, now),
            now,
            rtt: Duration::from_millis(rtt_ms),
        }
    }

    fn window(&self) -> f64 {
        self.cubic.window / DATAGRAM
    }

    /// A window is sent and acknowledged in pairs of packets, evenly over the round trip.
    fn round(&mut self) {
        self.round_where(self.window() as u32, false);
    }

    /// So much, and nothing is left to send.
    fn round_of(&mut self, datagrams: u32) {
        self.round_where(datagrams, true);
    }

    fn round_where(&mut self, datagrams: u32, app_limited: bool) {
        let sent = self.now;
        for at in (0..datagrams).step_by(2) {
            let offset = self.rtt * at / datagrams;
            let now = sent + self.rtt + offset;
            self.cubic.acknowledged(sent + offset, 1200, self.rtt);
            self.cubic.acknowledged(sent + offset, 1200, self.rtt);
            let in_flight = u64::from(datagrams.saturating_sub(2)) * 1200;
            self.cubic
                .end_of_acknowledgement(now, in_flight, app_limited);
        }
        self.now += self.rtt;
    }

    fn rounds(&mut self, rounds: u32) {
        (0..rounds).for_each(|_| self.round());
    }

    fn lose(&mut self) {
        self.now += Duration::from_millis(1);
        self.cubic.congestion(self.now, self.now);
        self.now += Duration::from_millis(1);
    }

    fn is_avoiding(&self) -> bool {
        matches!(self.cubic.stage, Stage::Avoidance(_))
    }
}

/// `W_cubic(t)` of RFC 9438 section 4.2 in segments.
fn w_cubic(t: f64, w_max: f64, w_epoch: f64) -> f64 {
    let k = ((w_max - w_epoch) / 0.4).cbrt();
    0.4 * (t - k).powi(3) + w_max
}

fn near(found: f64, wanted: f64, share: f64) -> bool {
    (found - wanted).abs() <= wanted * share
}

#[test]
fn a_window_doubles_each_round_at_first() {
    let mut flow = Flow::new(100, 10);
    for wanted in [20.0, 40.0, 80.0, 160.0] {
        flow.round();
        assert_eq!(flow.window(), wanted);
    }
    assert_eq!(flow.cubic.threshold_bytes(), None);
}

/// 8600 packets a second, and a queue that grows by what is sent beyond that: round trips grow,
/// nothing is lost.
#[test]
fn growing_round_trips_end_slow_start_before_anything_is_lost() {
    let mut flow = Flow::new(100, 10);
    for _ in 0..30 {
        let queued = (flow.window() - 860.0).max(0.0);
        flow.rtt = Duration::from_secs_f64(0.1 + queued / 8600.0);
        flow.round();
        if flow.is_avoiding() {
            break;
        }
    }
    assert!(flow.is_avoiding());
    assert!(
        (1000.0..4500.0).contains(&flow.window()),
        "{}",
        flow.window()
    );
    assert!(near(
        flow.cubic.threshold_bytes().unwrap() as f64 / DATAGRAM,
        flow.window(),
        0.01
    ));
    let before = flow.window();
    flow.round();
    assert!(
        flow.window() < before * 1.01,
        "{} after {before}",
        flow.window()
    );
}

#[test]
fn a_loss_takes_three_tenths_once_in_a_round_trip() {
    let mut flow = Flow::new(100, 1000);
    let sent = flow.now;
    flow.now += flow.rtt;
    flow.cubic.congestion(flow.now, sent);
    assert_eq!(flow.window(), 700.0);
    flow.cubic
        .congestion(flow.now, sent + Duration::from_millis(50));
    assert_eq!(flow.window(), 700.0, "sent before the reduction");
    flow.cubic.acknowledged(sent, 1200, flow.rtt);
    flow.cubic.end_of_acknowledgement(flow.now, 840_000, false);
    assert_eq!(flow.window(), 700.0, "no growth within recovery");
    flow.cubic
        .congestion(flow.now + flow.rtt, flow.now + Duration::from_millis(1));
    assert_eq!(flow.window(), 490.0);
}

#[test]
fn growth_follows_the_formula_through_plateau_and_beyond() {
    let mut flow = Flow::new(100, 1000);
    flow.lose();
    // K is (300 / 0.4)^(1/3) = 9.09 s.
    for seconds in 1..=14 {
        flow.rounds(10);
        // The curve is looked at one round trip ahead, and reached one later.
        let wanted = w_cubic(f64::from(seconds), 1000.0, 700.0);
        assert!(
            near(flow.window(), wanted, 0.01),
            "{} instead of {wanted} after {seconds} s",
            flow.window()
        );
    }
    assert!(flow.window() > 1040.0);
}

#[test]
fn on_short_paths_it_grows_as_reno_would() {
    let mut flow = Flow::new(10, 40);
    flow.lose();
    assert_eq!(flow.window(), 28.0);
    flow.rounds(20);
    // 9/17 of a segment per round trip, where the curve has hardly moved in a fifth of a second.
    let wanted = 28.0 + 20.0 * 9.0 / 17.0;
    assert!(
        near(flow.window(), wanted, 0.03),
        "{} instead of {wanted}",
        flow.window()
    );
    assert!(flow.window() > w_cubic(0.2, 40.0, 28.0) + 2.0);
    flow.rounds(30);
    assert!(
        flow.window() > 40.0 + 20.0,
        "beyond the last loss one segment each: {}",
        flow.window()
    );
}

#[test]
fn whoever_gets_less_than_before_gives_way() {
    let mut flow = Flow::new(100, 1000);
    flow.lose();
    assert_eq!(flow.cubic.plateau / DATAGRAM, 1000.0);
    flow.lose();
    assert_eq!(
        (flow.cubic.plateau / DATAGRAM).round(),
        595.0,
        "700 * 1.7 / 2"
    );
    assert_eq!(flow.window(), 490.0);
    flow.rounds(200);
    let before = flow.window();
    flow.lose();
    assert_eq!(
        flow.cubic.plateau / DATAGRAM,
        before,
        "more than before: no giving way"
    );
}

#[test]
fn after_persistent_congestion_it_begins_anew_up_to_the_threshold() {
    let mut flow = Flow::new(100, 1000);
    flow.cubic.persistent_congestion();
    assert_eq!(
        (flow.window(), flow.cubic.threshold_bytes()),
        (2.0, Some(840_000))
    );
    flow.rounds(8);
    assert_eq!(flow.window(), 512.0);
    flow.rounds(1);
    assert!(flow.is_avoiding() && flow.window() >= 700.0);
    let at = flow.window();
    flow.rounds(10);
    assert!(
        flow.window() < at * 1.05,
        "K is 0: flat at first: {}",
        flow.window()
    );
}

#[test]
fn a_window_is_never_under_two_datagrams() {
    let mut flow = Flow::new(10, 3);
    (0..5).for_each(|_| flow.lose());
    assert_eq!(flow.window(), 2.0);
    flow.cubic.datagram_bytes_are(1452);
    assert_eq!(flow.cubic.window_bytes(), 2904);
    flow.round();
    assert!(flow.cubic.window_bytes() > 2904);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut flow = Flow::new(100, 100);
    (0..20).for_each(|_| flow.round_of(20));
    assert_eq!(flow.window(), 100.0);
    // An answer of just a window is its use, though nothing is left to send.
    flow.round_of(100);
    assert_eq!(flow.window(), 200.0);
    flow.lose();
    // What was in flight before counts for a round trip or two.
    (0..3).for_each(|_| flow.round_of(50));
    let before = flow.window();
    assert!(before < 75.0, "{before}");
    (0..20).for_each(|_| flow.round_of(50));
    assert_eq!(flow.window(), before);
}

/// There is more to send, but pacing or a busy processor holds it back.
#[test]
fn a_sender_that_is_held_back_by_pacing_is_not_limited_by_what_it_has_to_say() {
    let mut flow = Flow::new(100, 100);
    (0..4).for_each(|_| flow.round_where(50, false));
    assert_eq!(flow.window(), 300.0);
    flow.lose();
    assert_eq!(flow.window(), 35.0, "of what was in flight");
}

#[test]
fn a_window_grows_to_twice_of_what_is_ever_in_flight_and_no_further() {
    let mut flow = Flow::new(100, 10);
    (0..20).for_each(|_| flow.round_of((flow.window() as u32).min(100)));
    assert!(
        (200.0..=210.0).contains(&flow.window()),
        "{}",
        flow.window()
    );
}

/// RFC 9438 section 4.6: `flight_size`, where the window was not used in full.
#[test]
fn a_reduction_is_of_what_was_in_flight() {
    let mut flow = Flow::new(100, 10);
    (0..20).for_each(|_| flow.round_of((flow.window() as u32).min(100)));
    flow.lose();
    assert_eq!(flow.window(), 70.0);
    assert_eq!(flow.cubic.plateau / DATAGRAM, 100.0);
}

/// Many acknowledgements are taken in before anything is sent: what was in flight before the first
/// of them counts for all.
#[test]
fn acknowledgements_in_heaps_count_in_full() {
    let mut flow = Flow::new(100, 100);
    flow.lose();
    let before = flow.window();
    flow.now += flow.rtt;
    for left in (0..70).rev() {
        flow.cubic.acknowledged(
            flow.now - flow.rtt + Duration::from_millis(1),
            1200,
            flow.rtt,
        );
        flow.cubic
            .end_of_acknowledgement(flow.now, left * 1200, true);
    }
    assert!(
        flow.window() > before + 0.4,
        "{} after {before}",
        flow.window()
    );
}

#[test]
fn time_without_use_does_not_count() {
    let mut flow = Flow::new(100, 1000);
    flow.lose();
    flow.rounds(20);
    (0..300).for_each(|_| flow.round_of(10));
    // And a silence without any acknowledgement.
    flow.now += Duration::from_secs(60);
    flow.rounds(20);
    let wanted = w_cubic(4.0, 1000.0, 700.0);
    assert!(
        near(flow.window(), wanted, 0.01),
        "{} instead of {wanted}",
        flow.window()
    );
}

/// Section 4.2: half a window more in a round trip at most, however long ago the last loss was.
#[test]
fn growth_within_a_round_trip_has_an_end() {
    let mut flow = Flow::new(500, 1000);
    flow.lose();
    for _ in 0..200 {
        let before = flow.window();
        flow.round();
        assert!(
            flow.window() <= before * 1.66,
            "{} after {before}",
            flow.window()
        );
    }
}
