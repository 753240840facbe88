//! Downloads over paths that are slow, far, short of queue, lossy or out of order: how long they take, in the path's own time.
//!
//! Every figure is against what the path can carry, so that a controller which loses its way shows; no clock of the machine is read.

use super::pair::{Pair, Path};
use crate::{Congestion, Settings};
use std::time::Duration;

struct Download {
    seconds: f64,
    sent: u64,
    lost: u64,
}

/// `shape` is what the server's packets go through; the client's go the same way, unharmed.
fn download(congestion: Congestion, bytes: usize, shape: impl Fn() -> Path) -> Download {
    let (mut pair, id) = Pair::established(Settings { congestion, ..Settings::default() });
    let latency = shape().latency;
    pair.server_card.path = shape();
    pair.client_card.path = Path { latency, ..Path::default() };
    pair.server().1.echoes = false;
    let stream = pair.send(id, "please");
    let begin = pair.now;
    pair.run(latency);
    pair.server().1.send(stream, vec![0; bytes]);
    let server = pair.server.ids().next().unwrap();
    pair.server.wake(server);
    let step = Duration::from_millis(10);
    while !pair.client(id).1.ended.contains(&stream) && pair.now < begin + Duration::from_secs(600) {
        pair.run(step);
    }
    assert_eq!(pair.client(id).1.received[&stream].len(), bytes);
    let figures = pair.server().0.figures();
    Download { seconds: (pair.now - begin).as_secs_f64(), sent: figures.packets_sent, lost: figures.packets_lost }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// What the path itself needs for so many bytes, with headers.
fn at_best(bytes: usize, mbit_per_s: f64) -> f64 {
    bytes as f64 * 8.0 / (mbit_per_s * 1e6)
}

#[test]
fn a_far_and_fast_path_is_filled_and_its_queue_not_flooded() {
    let done = download(Congestion::Cubic, 100_000_000, || Path::new(100.0, ms(50), 1000));
    assert!(done.seconds < at_best(100_000_000, 100.0) + 1.5, "{:.2} s", done.seconds);
    // Slow start without HyStart++ loses twice as much as the queue holds.
    assert!(done.lost < 1000, "{} of {}", done.lost, done.sent);
}

#[test]
fn a_slow_path_with_a_long_queue_loses_nothing() {
    let done = download(Congestion::Cubic, 10_000_000, || Path::new(10.0, ms(10), 1000));
    assert!(done.seconds < at_best(10_000_000, 10.0) * 1.06, "{:.2} s", done.seconds);
    assert_eq!(done.lost, 0, "of {}", done.sent);
}

#[test]
fn a_queue_of_seven_packets_is_enough() {
    let done = download(Congestion::Cubic, 5_000_000, || Path::new(5.0, ms(10), 7));
    assert!(done.seconds < at_best(5_000_000, 5.0) * 1.15, "{:.2} s, {} lost", done.seconds, done.lost);
}

/// Reno's formula (RFC 3649 section 2) gives 0.95 MB/s at 1 %, and CUBIC is to be no worse on so short a path.
#[test]
fn random_loss_costs_what_the_formula_says() {
    let done = download(Congestion::Cubic, 5_000_000, || Path { lost: 10, ..Path::new(100.0, ms(10), 1000) });
    assert!(done.seconds < 5.0 / 0.95 * 1.3, "{:.2} s, {} of {} lost", done.seconds, done.lost, done.sent);
}

/// One of fifty packets comes after 25 that were sent after it.
#[test]
fn packets_out_of_order_are_not_taken_for_lost() {
    let done = download(Congestion::Cubic, 10_000_000, || Path { late: 20, ..Path::new(100.0, ms(10), 1000) });
    assert!(done.seconds < at_best(10_000_000, 100.0) * 1.4, "{:.2} s, {} of {} lost", done.seconds, done.lost, done.sent);
}

/// How long an upload takes over 100 mbit/s and 100 ms, and the window at its end.
fn upload(settings: Settings) -> (f64, u64) {
    const BYTES: usize = 20_000_000;
    let (mut pair, id) = Pair::established(settings);
    pair.server_card.path = Path { latency: ms(50), ..Path::default() };
    pair.client_card.path = Path::new(100.0, ms(50), 1000);
    pair.server().1.echoes = false;
    let begin = pair.now;
    let stream = pair.send(id, vec![0; BYTES]);
    while !pair.server().1.ended.contains(&stream) && pair.now < begin + Duration::from_secs(60) {
        pair.run(ms(10));
    }
    assert_eq!(pair.server().1.received[&stream].len(), BYTES);
    ((pair.now - begin).as_secs_f64(), pair.server().0.figures().receive_window_bytes)
}

#[test]
fn a_receive_window_grows_with_the_path() {
    let first = Settings::default().connection_window_bytes;
    let (fixed_seconds, window) = upload(Settings { connection_window_bytes_max: first, ..Settings::default() });
    assert_eq!(window, u64::from(first));
    assert!(fixed_seconds > 3.5, "half a megabyte for each 100 ms: {fixed_seconds:.2} s");
    let (seconds, window) = upload(Settings::default());
    assert!(seconds < 2.9, "{seconds:.2} s");
    assert!((2 << 20..=16 << 20).contains(&window), "{window}");
    let (_, window) = upload(Settings { promised_bytes_max: 100_000, ..Settings::default() });
    assert_eq!(window, u64::from(first) + 100_000);
}
