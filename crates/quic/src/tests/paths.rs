//! Downloads over paths that are slow, far, short of queue, lossy or out of order: how long they
//! take, in the path's own time.
//!
//! Every figure is against what the path can carry, so that a controller which loses its way shows;
//! no clock of the machine is read.

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
    download_by(congestion, Duration::ZERO, bytes, shape)
}

/// From a server that has no turn for so long after each.
fn download_by(
    congestion: Congestion,
    server_sleeps: Duration,
    bytes: usize,
    shape: impl Fn() -> Path,
) -> Download {
    let latency = shape().latency;
    let (mut pair, id) = Pair::established_over(
        Settings {
            congestion,
            ..Settings::default()
        },
        latency,
    );
    pair.server_sleeps = server_sleeps;
    pair.server_card.path = shape();
    pair.client_card.path = Path {
        latency,
        ..Path::default()
    };
    pair.server().1.echoes = false;
    let stream = pair.send(id, "please");
    let begin = pair.now;
    pair.run(latency);
    pair.server().1.send(stream, vec![0; bytes]);
    let server = pair.server.ids().next().unwrap();
    pair.server.wake(server);
    let step = Duration::from_millis(10);
    while !pair.client(id).1.ended.contains(&stream) && pair.now < begin + Duration::from_secs(600)
    {
        pair.run(step);
    }
    assert_eq!(pair.client(id).1.received[&stream].len(), bytes);
    let figures = pair.server().0.figures();
    Download {
        seconds: (pair.now - begin).as_secs_f64(),
        sent: figures.packets_sent,
        lost: figures.packets_lost,
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Seconds that the path itself needs for so many bytes with headers.
fn at_best(bytes: usize, mbit_per_s: f64) -> f64 {
    bytes as f64 * 8.0 / (mbit_per_s * 1e6)
}

#[test]
fn a_far_and_fast_path_is_filled_and_its_queue_not_flooded() {
    let done = download(Congestion::Cubic, 100_000_000, || {
        Path::new(100.0, ms(50), 1000)
    });
    assert!(
        done.seconds < at_best(100_000_000, 100.0) + 1.5,
        "{:.2} s",
        done.seconds
    );
    // Slow start without HyStart++ loses twice as much as the queue holds.
    assert!(done.lost < 1000, "{} of {}", done.lost, done.sent);
}

/// quinn-proto's pacing keeps what may be sent for two milliseconds, and what was not sent by then
/// would be lost.
#[test]
fn whoever_wakes_late_catches_up() {
    let done = download_by(Congestion::Cubic, ms(6), 50_000_000, || {
        Path::new(100.0, ms(50), 1000)
    });
    assert!(
        done.seconds < at_best(50_000_000, 100.0) + 1.5,
        "{:.2} s, {} of {} lost",
        done.seconds,
        done.lost,
        done.sent
    );
    // As much as is due, and not at once what a short queue can't take.
    let done = download_by(Congestion::Cubic, ms(6), 5_000_000, || {
        Path::new(5.0, ms(10), 7)
    });
    assert!(
        done.seconds < at_best(5_000_000, 5.0) * 1.15,
        "{:.2} s, {} of {} lost",
        done.seconds,
        done.lost,
        done.sent
    );
}

#[test]
fn a_slow_path_with_a_long_queue_loses_nothing() {
    let done = download(Congestion::Cubic, 10_000_000, || {
        Path::new(10.0, ms(10), 1000)
    });
    assert!(
        done.seconds < at_best(10_000_000, 10.0) * 1.06,
        "{:.2} s",
        done.seconds
    );
    assert_eq!(done.lost, 0, "of {}", done.sent);
}

#[test]
fn a_queue_of_seven_packets_is_enough() {
    let done = download(Congestion::Cubic, 5_000_000, || Path::new(5.0, ms(10), 7));
    assert!(
        done.seconds < at_best(5_000_000, 5.0) * 1.15,
        "{:.2} s, {} lost",
        done.seconds,
        done.lost
    );
}

/// Reno's formula (RFC 3649 section 2) gives 0.95 MB/s at 1 %, and CUBIC is to be no worse on so
/// short a path.
#[test]
fn random_loss_costs_what_the_formula_says() {
    let done = download(Congestion::Cubic, 5_000_000, || Path {
        lost: 10,
        ..Path::new(100.0, ms(10), 1000)
    });
    assert!(
        done.seconds < 5.0 / 0.95 * 1.3,
        "{:.2} s, {} of {} lost",
        done.seconds,
        done.lost,
        done.sent
    );
}

/// One of fifty packets comes after 25, or 65, that were sent after it.
#[test]
fn packets_out_of_order_are_not_taken_for_lost() {
    for held_back in [ms(3), ms(8)] {
        let done = download(Congestion::Cubic, 10_000_000, || Path {
            late: 20,
            held_back,
            ..Path::new(100.0, ms(10), 1000)
        });
        assert!(
            done.seconds < at_best(10_000_000, 100.0) * 1.4,
            "{:.2} s, {} of {} lost",
            done.seconds,
            done.lost,
            done.sent
        );
    }
}

/// Duration of an upload over 100 Mbit/s and 100 ms, and the window at its end.
fn upload(settings: Settings) -> (f64, u64) {
    const BYTES: usize = 20_000_000;
    let (mut pair, id) = Pair::established(settings);
    pair.server_card.path = Path {
        latency: ms(50),
        ..Path::default()
    };
    pair.client_card.path = Path::new(100.0, ms(50), 1000);
    pair.server().1.echoes = false;
    let begin = pair.now;
    let stream = pair.send(id, vec![0; BYTES]);
    while !pair.server().1.ended.contains(&stream) && pair.now < begin + Duration::from_secs(60) {
        pair.run(ms(10));
    }
    assert_eq!(pair.server().1.received[&stream].len(), BYTES);
    (
        (pair.now - begin).as_secs_f64(),
        pair.server().0.figures().receive_window_bytes,
    )
}

#[test]
fn a_receive_window_grows_with_the_path() {
    let first = Settings::default().connection_window_bytes;
    let (fixed_seconds, window) = upload(Settings {
        connection_window_bytes_max: first,
        ..Settings::default()
    });
    assert_eq!(window, u64::from(first));
    assert!(
        fixed_seconds > 3.5,
        "half a megabyte for each 100 ms: {fixed_seconds:.2} s"
    );
    let (seconds, window) = upload(Settings::default());
    assert!(seconds < 2.9, "{seconds:.2} s");
    assert!((2 << 20..=16 << 20).contains(&window), "{window}");
    let (_, window) = upload(Settings {
        promised_bytes_max: 100_000,
        ..Settings::default()
    });
    assert_eq!(window, u64::from(first) + 100_000);
}

/// By bandwidth and delay: losses by chance cost what is lost and little more, and a far path is
/// filled as fast as by loss.
#[test]
fn bbr_fills_paths_that_lose_packets() {
    for lost in [10, 30] {
        let done = download(Congestion::Bbr, 10_000_000, || Path {
            lost,
            ..Path::new(100.0, ms(10), 1000)
        });
        assert!(
            done.seconds < at_best(10_000_000, 100.0) * 1.45,
            "{:.2} s, {} of {} lost",
            done.seconds,
            done.lost,
            done.sent
        );
    }
    let done = download(Congestion::Bbr, 20_000_000, || Path {
        lost: 10,
        ..Path::new(100.0, ms(50), 1000)
    });
    assert!(
        done.seconds < at_best(20_000_000, 100.0) + 1.5,
        "{:.2} s, {} of {} lost",
        done.seconds,
        done.lost,
        done.sent
    );
}

#[test]
fn bbr_takes_nothing_for_lost_that_is_late_and_needs_little_queue() {
    let done = download(Congestion::Bbr, 10_000_000, || Path {
        late: 20,
        held_back: ms(8),
        ..Path::new(100.0, ms(10), 1000)
    });
    assert!(
        done.seconds < at_best(10_000_000, 100.0) * 1.3 && done.lost < 50,
        "{:.2} s, {} of {} lost",
        done.seconds,
        done.lost,
        done.sent
    );
    let done = download(Congestion::Bbr, 5_000_000, || Path::new(5.0, ms(10), 7));
    assert!(
        done.seconds < at_best(5_000_000, 5.0) * 1.15 && done.lost < 100,
        "{:.2} s, {} of {} lost",
        done.seconds,
        done.lost,
        done.sent
    );
}

/// A path that has become longer holds more, which a window by its old length would never show.
#[test]
fn bbr_follows_a_path_that_changes() {
    const BYTES: usize = 20_000_000;
    let (mut pair, id) = Pair::established(Settings {
        congestion: Congestion::Bbr,
        ..Settings::default()
    });
    pair.server().1.echoes = false;
    for latency in [ms(10), ms(50), ms(10)] {
        pair.server_card.path = Path::new(100.0, latency, 1000);
        pair.client_card.path = Path {
            latency,
            ..Path::default()
        };
        let stream = pair.send(id, "please");
        let begin = pair.now;
        pair.run(latency);
        pair.server().1.send(stream, vec![0; BYTES]);
        let server = pair.server.ids().next().unwrap();
        pair.server.wake(server);
        while !pair.client(id).1.ended.contains(&stream)
            && pair.now < begin + Duration::from_secs(60)
        {
            pair.run(ms(10));
        }
        let seconds = (pair.now - begin).as_secs_f64();
        assert!(
            seconds < at_best(BYTES, 100.0) + 1.8,
            "{latency:?}: {seconds:.2} s"
        );
    }
}
