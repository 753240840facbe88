//! Invented results, for the tests of the report.

use crate::{
    rows,
    sampling::{Sample, TimeLine},
    sheets::Sheet,
    subject::Subject,
    trial::{RowPlan, RowResult, Series, Trial},
};
use saker_testkit::Peer;
use std::time::Duration;

pub fn series(subject: Subject, costs: &[f64]) -> Series {
    let trial = |cost: &f64| Trial {
        cost: *cost,
        requests: 200_000.0 / cost,
        seconds: *cost / 2.0,
        requests_per_s: 100_000.0 / cost,
        bytes_per_s: 5e7 / cost,
        p50_us: cost * 20.0,
        p99_us: cost * 90.0,
        longest_us: cost * 400.0,
        peak_rss_bytes: 2e7 + cost * 1e6,
        pss_bytes: 1e7 + cost * 1e6,
        line: line(*cost),
        ..Trial::default()
    };
    Series {
        trials: costs.iter().map(trial).collect(),
        ..Series::new(subject)
    }
}

/// Idle, busy, idle.
fn line(cost: f64) -> TimeLine {
    let samples = (1..=30u64).map(|tick| {
        let busy = (8..24).contains(&tick);
        let wave = (tick as f64).sin() * 4.0;
        let cpu_percent = if busy {
            (30.0 + cost * 5.0 + wave).min(100.0)
        } else {
            0.5
        };
        let memory = 8_000_000 + (cost * 1e6) as u64 + if tick >= 8 { 2_000_000 } else { 0 };
        Sample {
            at_ms: tick * 200,
            cpu_percent,
            rss_bytes: memory + 3_000_000,
            pss_bytes: memory,
        }
    });
    TimeLine {
        samples: samples.collect(),
        load_from_ms: 1600,
        load_to_ms: 4800,
    }
}

pub fn row_result(name: &str, series: Vec<Series>) -> RowResult {
    let row = rows::all().find(|row| row.name == name).expect("a row");
    let plan = RowPlan {
        row,
        rounds: 3,
        seconds: 3,
        requests_divisor: 1,
        idle: Duration::from_secs(2),
    };
    RowResult {
        plan,
        load_command: "taskset -c 1 wrk -t1 -c10 -d3s http://127.0.0.1:12345/small.html".to_owned(),
        series,
    }
}

/// One row of every kind and outcome.
pub fn results() -> Vec<RowResult> {
    let with_sheet = |mut series: Series| {
        let files = vec![(
            "nginx.conf".to_owned(),
            "worker_processes 1;\nhttp { server { listen {port}; } } # <b>&\n".to_owned(),
        )];
        series.sheets = vec![Sheet {
            command: "nginx -p {work} -c {work}/nginx.conf".to_owned(),
            files,
        }];
        series
    };
    let peer = |peer, costs: &[f64]| with_sheet(series(Subject::Peer(peer), costs));
    let own = |costs: &[f64]| series(Subject::Saker, costs);
    let mut bad = peer(Peer::Lighttpd, &[9.0, 9.0, 9.0]);
    bad.trials[1].errors = 12.0;
    let mut broken = own(&[]);
    broken
        .complaints
        .push("saker: would not start\n<script>alert(1)</script>".to_owned());
    vec![
        row_result(
            "noise",
            vec![
                own(&[6.0, 6.1, 6.05]),
                series(Subject::SakerAgain, &[6.05, 6.0, 6.1]),
            ],
        ),
        row_result(
            "small-10",
            vec![
                own(&[6.0, 6.2, 6.1]),
                peer(Peer::Nginx, &[12.8, 13.1, 12.6]),
                peer(Peer::H2o, &[7.9, 8.0, 8.4]),
                bad,
                peer(Peer::Apache, &[31.0, 30.0, 32.5]),
                series(Subject::Floor, &[5.1, 5.2, 5.0]),
            ],
        ),
        row_result(
            "h2-page40",
            vec![
                own(&[2.0, 2.1, 2.0]),
                peer(Peer::Nginx, &[12.0, 12.5, 12.1]),
                peer(Peer::H2o, &[4.7, 4.8, 4.6]),
            ],
        ),
        row_result(
            "large-10",
            vec![
                own(&[990.0, 970.0, 1000.0]),
                peer(Peer::Nginx, &[985.0, 990.0, 980.0]),
            ],
        ),
        row_result(
            "proxy-1k",
            vec![
                own(&[26.0, 27.0, 26.0]),
                peer(Peer::Nginx, &[17.0, 18.0, 17.5]),
                peer(Peer::Haproxy, &[16.0, 15.0, 15.5]),
            ],
        ),
        row_result(
            "idle",
            vec![
                own(&[1161.0]),
                peer(Peer::Nginx, &[640.0]),
                peer(Peer::Apache, &[5200.0]),
            ],
        ),
        row_result(
            "b2-10k-20ms",
            vec![
                own(&[3.1, 3.0, 3.2]),
                series(Subject::SakerHttp2, &[3.3, 3.4, 3.2]),
                peer(Peer::Nginx, &[3.5, 3.6, 3.4]),
            ],
        ),
        row_result(
            "tls-10",
            vec![broken, peer(Peer::Nginx, &[15.0, 15.0, 15.2])],
        ),
    ]
}
