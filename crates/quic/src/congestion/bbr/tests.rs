//! A sender and a path made by hand: what is sent waits for the path, and is acknowledged a round
//! trip after it went through.

use super::*;

const DATAGRAM: u64 = 1200;
/// 10 Mbit/s.
const RATE: f64 = 1_250_000.0;
const RTT: Duration = Duration::from_millis(40);
/// Bytes that fit into that path.
const FITS: f64 = 50_000.0;

struct Flow {
    bbr: Bbr,
    now: Instant,
    rate: f64,
    rtt: Duration,
    /// Time at which the path is free again.
    free: Instant,
    /// Sent, acknowledged, and true if lost.
    in_flight: VecDeque<(Instant, Instant, bool)>,
    sent: u64,
    /// Each so many-th is lost.
    lose_each: u64,
    /// So much there is to say at a time, and then nothing for a round trip.
    says: Option<u64>,
}

impl Flow {
    fn new() -> Flow {
        let now = Instant::now();
        let bbr = Bbr::new(10 * DATAGRAM, 1200);
        Flow {
            bbr,
            now,
            rate: RATE,
            rtt: RTT,
            free: now,
            in_flight: VecDeque::new(),
            sent: 0,
            lose_each: 0,
            says: None,
        }
    }

    fn send(&mut self) {
        let most = self.says.map_or(self.bbr.window_bytes(), |says| {
            says.min(self.bbr.window_bytes())
        });
        while (self.in_flight.len() as u64 + 1) * DATAGRAM <= most {
            self.sent += 1;
            self.bbr.sent(self.now);
            self.free =
                self.free.max(self.now) + Duration::from_secs_f64(DATAGRAM as f64 / self.rate);
            let is_lost = self.lose_each > 0 && self.sent.is_multiple_of(self.lose_each);
            self.in_flight
                .push_back((self.now, self.free + self.rtt, is_lost));
        }
    }

    fn receive(&mut self) {
        let Some((sent, acknowledged, is_lost)) = self.in_flight.pop_front() else {
            return;
        };
        self.now = self.now.max(acknowledged);
        match is_lost {
            true => self.bbr.lost(DATAGRAM),
            false => self.bbr.acknowledged(sent, DATAGRAM),
        }
        self.bbr.end_of_acknowledgement(
            self.now,
            self.in_flight.len() as u64 * DATAGRAM,
            self.says.is_some(),
        );
    }

    /// The smallest and the largest window of so long.
    fn run(&mut self, duration: Duration) -> (f64, f64) {
        let end = self.now + duration;
        let (mut least, mut most) = (f64::MAX, 0.0_f64);
        while self.now < end {
            if self.says.is_none() || self.in_flight.is_empty() {
                self.send();
            }
            self.receive();
            (least, most) = (least.min(self.bbr.window), most.max(self.bbr.window));
        }
        (least, most)
    }

    fn seconds(&mut self, seconds: u64) -> (f64, f64) {
        self.run(Duration::from_secs(seconds))
    }
}

fn is_about(value: f64, wanted: f64) -> bool {
    (value - wanted).abs() < wanted * 0.1
}

#[test]
fn a_path_is_filled_and_its_queue_is_short() {
    let mut flow = Flow::new();
    flow.seconds(2);
    assert!(
        is_about(flow.bbr.bytes_per_s() as f64, RATE),
        "{}",
        flow.bbr.bytes_per_s()
    );
    let (least, most) = flow.seconds(5);
    assert!(
        (0.85 * FITS..1.05 * FITS).contains(&least) && (1.4 * FITS..1.65 * FITS).contains(&most),
        "{least} to {most}"
    );
}

#[test]
fn what_is_lost_by_chance_changes_nothing() {
    let (mut clean, mut lossy) = (Flow::new(), Flow::new());
    lossy.lose_each = 25;
    clean.seconds(2);
    lossy.seconds(2);
    let ((_, most), (least_of_lossy, most_of_lossy)) = (clean.seconds(5), lossy.seconds(5));
    assert!(
        is_about(most_of_lossy, most) && least_of_lossy > 0.8 * FITS,
        "{least_of_lossy} to {most_of_lossy}"
    );
}

#[test]
fn where_much_is_lost_less_is_sent() {
    let mut flow = Flow::new();
    flow.seconds(2);
    flow.lose_each = 5;
    flow.seconds(2);
    let (_, most) = flow.seconds(1);
    assert!(most < 0.5 * FITS, "{most}");
    flow.lose_each = 0;
    flow.seconds(4);
    let (_, most) = flow.seconds(2);
    assert!(most > 1.3 * FITS, "{most}: it goes on when the losses end");
}

#[test]
fn bandwidth_that_changes_is_followed() {
    let mut flow = Flow::new();
    flow.seconds(2);
    for times in [4.0, 0.5] {
        flow.rate = RATE * times;
        // Ten rounds through a queue that has become long.
        flow.seconds(8);
        assert!(
            is_about(flow.bbr.bytes_per_s() as f64, flow.rate),
            "{times} times: {}",
            flow.bbr.bytes_per_s()
        );
    }
}

/// Nothing was left in the queue for ten seconds, so a shorter round trip would have been seen; it
/// is looked for all the same.
#[test]
fn a_path_is_looked_at_anew() {
    let mut flow = Flow::new();
    flow.seconds(2);
    flow.rtt += Duration::from_millis(4);
    let (least, _) = flow.seconds(12);
    assert!(least < 0.7 * FITS, "{least}");
    assert!(flow.bbr.rtt.unwrap().0 > RTT + Duration::from_millis(3));
    // One that has become much longer is not waited for so long.
    flow.rtt = RTT * 4;
    flow.seconds(4);
    assert!(flow.bbr.rtt.unwrap().0 > RTT * 3, "{:?}", flow.bbr.rtt);
    assert!(
        is_about(flow.bbr.bytes_per_s() as f64, RATE),
        "{}",
        flow.bbr.bytes_per_s()
    );
}

#[test]
fn after_persistent_congestion_it_begins_anew() {
    let mut flow = Flow::new();
    flow.seconds(2);
    flow.bbr.persistent_congestion();
    assert_eq!(flow.bbr.window_bytes(), 4 * DATAGRAM);
    flow.seconds(2);
    assert!(flow.bbr.window > 0.85 * FITS, "{}", flow.bbr.window);
}

#[test]
fn who_says_little_gets_no_large_window() {
    let mut flow = Flow::new();
    flow.says = Some(4 * DATAGRAM);
    let (_, most) = flow.seconds(10);
    assert!(most <= 24.0 * 1200.0, "{most}");
    // And finds out what there is when there is more to say.
    flow.says = None;
    flow.seconds(2);
    assert!(
        is_about(flow.bbr.bytes_per_s() as f64, RATE),
        "{}",
        flow.bbr.bytes_per_s()
    );
}

#[test]
fn a_window_is_never_under_four_datagrams() {
    let mut flow = Flow::new();
    flow.rate = 1000.0;
    let (least, _) = flow.seconds(200);
    assert!(least >= 4.0 * 1200.0, "{least}");
    flow.bbr.datagram_bytes_are(1400);
    assert!(flow.bbr.window >= 4.0 * 1400.0);
}

#[test]
fn the_largest_bandwidth_of_ten_rounds() {
    let mut bandwidth = Bandwidth::default();
    for (round, rate, largest) in [
        (1, 5.0, 5.0),
        (2, 3.0, 5.0),
        (3, 4.0, 5.0),
        (10, 1.0, 5.0),
        (11, 1.0, 4.0),
        (13, 2.0, 2.0),
        (40, 1.0, 1.0),
    ] {
        bandwidth.note(round, rate);
        assert_eq!(bandwidth.bytes_per_s(), largest, "round {round}");
    }
    assert_eq!(bandwidth.0.len(), 1);
}
