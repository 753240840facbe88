//! Which rows, how many rounds of them, how long: what fits into the time there is.
//!
//! Every kind of trial has a cost that is known well enough beforehand. Rounds are bought before
//! seconds, since a median of one is none, and the published sizes over links before either. What
//! is planned may still take longer on a slow machine; then later rows get fewer rounds
//! (`progress`), and their report says so. `--plan` prints what comes of it here.

use super::{arguments::Setting, groups};
use crate::{
    conditions::Protocol,
    row::{Kind, Row},
    rows, stage,
    tool::Tool,
    trial::RowPlan,
};
use std::time::Duration;

/// A row with what it will take.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub plan: RowPlan,
    pub expected: Duration,
}

/// Prefix of the names of noise rows.
pub const NOISE: &str = "noise";
const VISITORS: [&str; 3] = ["b1-browse-10", "b1-category-10", "b1-cached-10"];

/// Rows of a quick run: some of each comparison.
const QUICK: [&str; 10] = [
    "b1-category-10",
    "b1-cached-10",
    "b2-x10-10ms",
    "b3-close-10",
    "b3-keep-10",
    "b3-php-keep",
    "b4-page",
    "b5-siege-1",
    "noise",
    "h2-100x10",
];

/// In a whole run besides the comparisons, which have rows of their own for small files, images,
/// films, PHP and kept pages.
#[rustfmt::skip]
const FURTHER: [&str; 20] = [
    "log", "rewrite", "permalinks", "proxy-1k", "proxy-1m", "cached-gzip", "idle", "h2-100x10", "h2-page40",
    "tls-handshake", "tls-resumed", "idle-tls", "idle-h2", "h3-100x10", "h3-large", "idle-h3", "nginx-conf-php",
    "nginx-conf-proxy", "apache-conf-php", "apache-conf-proxy",
];

/// Rows over links that take half an hour by themselves, or were not published: in runs that have
/// the time, or when they are named.
const LONG: [&str; 9] = [
    "b2-100k-100ms",
    "b2-100k-20ms",
    "b2-100k-10ms",
    "b2-loss1-reno",
    "b2-loss3-reno",
    "b2-reorder-reno",
    "b2-loss1-bbr",
    "b2-loss3-bbr",
    "b2-reorder-bbr",
];
const LONG_FROM: Duration = Duration::from_secs(100 * 60);

/// Rounds and lengths that fit the time of a run.
#[derive(Clone, Copy)]
struct Step {
    rounds: usize,
    seconds: u64,
    link_rounds: usize,
    /// Rounds of trials that the link alone makes long: they hardly differ.
    slow_link_rounds: usize,
    /// So small a part of the requests of rows that have more of them than `REQUESTS_WHOLE`.
    divisor: u64,
}

/// From the best down.
const STEPS: [Step; 14] = [
    step((5, 20), (3, 3), 1),
    step((5, 10), (3, 3), 1),
    step((5, 5), (3, 3), 1),
    step((3, 10), (3, 3), 2),
    step((3, 5), (3, 3), 2),
    step((3, 3), (3, 2), 5),
    step((3, 2), (3, 1), 5),
    step((3, 1), (3, 1), 5),
    step((3, 1), (3, 1), 10),
    step((3, 1), (2, 1), 10),
    step((2, 1), (2, 1), 10),
    step((2, 1), (1, 1), 10),
    step((1, 1), (1, 1), 10),
    step((1, 1), (1, 1), 50),
];
/// Rounds of the noise row, which all others are judged by; it has a median in every run.
const NOISE_ROUNDS: usize = 3;
const REQUESTS_WHOLE: u64 = 10_000;
/// Longer than that over the link, and at that by its rate alone.
const SLOW_LINK: Duration = Duration::from_secs(6);
const SLOW_MBIT_PER_S: u64 = 50;

/// Start and stop of a server, and the pause after it.
const STAND: Duration = Duration::from_millis(500);
const LINK_TRIAL: Duration = Duration::from_millis(1500);
/// Strace, where a feature is switched.
const SYSTEM_CALLS: Duration = Duration::from_secs(2);
/// Before and after a first round, for the time lines: of visitors to the shop and of long runs as
/// psrecord draws them, else as little as is seen.
const IDLE: Duration = Duration::from_secs(1);
const SHORT_IDLE: Duration = Duration::from_millis(200);
/// Requests per second that our own client makes over a link.
const REQUESTS_PER_S: f64 = 15_000.0;

const fn step(
    (rounds, seconds): (usize, u64),
    (link_rounds, slow_link_rounds): (usize, usize),
    divisor: u64,
) -> Step {
    Step {
        rounds,
        seconds,
        link_rounds,
        slow_link_rounds,
        divisor,
    }
}

pub fn rows(setting: &Setting) -> Vec<&'static Row> {
    let mut rows: Vec<&'static Row> = if setting.bench.only.is_empty() {
        rows::all()
            .filter(|row| {
                if setting.is_quick() {
                    is_quick(row)
                } else {
                    is_published(row) || FURTHER.contains(&row.name)
                }
            })
            .filter(|row| setting.budget() >= LONG_FROM || !LONG.contains(&row.name))
            .collect()
    } else {
        rows::chosen(&setting.bench.only).collect()
    };
    if !rustix::process::geteuid().is_root() {
        // A link needs networks of its own.
        rows.retain(|row| !matches!(row.kind, Kind::Link { .. }));
    }
    if setting.stage.is_some() {
        rows.retain(|row| stage::can_be_apart(row));
    }
    // A page is read in the order of the comparisons; the machine's noise comes first in time.
    rows.sort_by_key(|row| {
        (
            !row.name.starts_with(NOISE),
            groups::ALL
                .iter()
                .position(|group| *group == groups::of(row)),
        )
    });
    rows
}

fn is_published(row: &Row) -> bool {
    !groups::of(row).prefix.is_empty()
}

/// The first row that a beginning fits.
fn is_quick(row: &Row) -> bool {
    QUICK.iter().any(|name| {
        rows::all()
            .find(|candidate| candidate.name.starts_with(name))
            .is_some_and(|first| first.name == row.name)
    })
}

/// `subjects` says how many take part in a row. The best step that fits.
pub fn plan(
    rows: &[&'static Row],
    setting: &Setting,
    subjects: impl Fn(&Row) -> usize,
) -> Vec<Entry> {
    let all = |step: Step| -> Vec<Entry> {
        let entry = |row: &&'static Row| {
            let plan = row_plan(row, step, setting.is_quick());
            Entry {
                plan,
                expected: expected(&plan, subjects(row)),
            }
        };
        rows.iter().map(entry).collect()
    };
    let fits = |entries: &Vec<Entry>| {
        entries.iter().map(|entry| entry.expected).sum::<Duration>() <= setting.budget()
    };
    STEPS
        .into_iter()
        .map(all)
        .find(fits)
        .unwrap_or_else(|| all(STEPS[STEPS.len() - 1]))
}

/// A line for each row, and the sum.
pub fn listed(entries: &[Entry]) -> String {
    let line = |entry: &Entry| {
        let RowPlan {
            row,
            rounds,
            seconds,
            requests_divisor,
            ..
        } = entry.plan;
        let part = if requests_divisor > 1 {
            format!(", 1/{requests_divisor} of the requests")
        } else {
            String::new()
        };
        format!(
            "{:<16} {:>6}  {rounds} x {seconds} s{part}\n",
            row.name,
            clock(entry.expected)
        )
    };
    let total = entries.iter().map(|entry| entry.expected).sum();
    entries.iter().map(line).collect::<String>()
        + &format!(
            "{:<16} {:>6}\n",
            format!("{} rows", entries.len()),
            clock(total)
        )
}

fn row_plan(row: &'static Row, step: Step, is_quick: bool) -> RowPlan {
    let Step {
        rounds, seconds, ..
    } = step;
    let plan = RowPlan {
        row,
        rounds,
        seconds,
        requests_divisor: 1,
        idle: SHORT_IDLE,
    };
    match row.kind {
        Kind::Link { link, requests, .. } => {
            let requests_divisor = if requests > REQUESTS_WHOLE {
                step.divisor
            } else {
                1
            };
            let plan = RowPlan {
                seconds: 0,
                requests_divisor,
                idle: Duration::ZERO,
                ..plan
            };
            let is_slow = link.mbit_per_s < SLOW_MBIT_PER_S && link_time(&plan) > SLOW_LINK;
            RowPlan {
                rounds: if is_slow {
                    step.slow_link_rounds
                } else {
                    step.link_rounds
                },
                ..plan
            }
        }
        Kind::Idle { .. } => RowPlan {
            rounds: 1,
            seconds: 0,
            idle: Duration::ZERO,
            ..plan
        },
        Kind::Own(_) if row.name.starts_with(NOISE) => RowPlan {
            rounds: rounds.max(NOISE_ROUNDS),
            ..plan
        },
        Kind::Own(workload) => {
            let least = workload.seconds_at_least(is_quick);
            let idle = if !is_quick && (least > 0 || VISITORS.contains(&row.name)) {
                IDLE
            } else {
                SHORT_IDLE
            };
            // So long a trial is its own median.
            let rounds = if least > seconds.max(10) { 1 } else { rounds };
            RowPlan {
                rounds,
                seconds: seconds.max(least),
                idle,
                ..plan
            }
        }
        _ => plan,
    }
}

fn expected(plan: &RowPlan, subjects: usize) -> Duration {
    let count = u32::try_from(subjects).unwrap_or(u32::MAX);
    let rounds = u32::try_from(plan.rounds).unwrap_or(u32::MAX);
    let counted = Duration::from_secs(plan.seconds);
    let trial = match plan.row.kind {
        Kind::Idle { protocol, .. } => idle_time(protocol),
        Kind::Link { .. } => LINK_TRIAL + link_time(plan),
        Kind::Compare {
            tool, connections, ..
        } => STAND + warm_up(tool, connections) + counted,
        Kind::Switch { connections, .. } => STAND + warm_up(Tool::Wrk, connections) + counted,
        Kind::Own(workload) => {
            STAND + warm_up(workload.load().tool, workload.load().connections) + counted
        }
    };
    let once = match plan.row.kind {
        // What the answers are compared by takes a start each.
        Kind::Own(_) => STAND,
        Kind::Switch { .. } => STAND + SYSTEM_CALLS,
        _ => Duration::ZERO,
    };
    (trial * rounds + plan.idle * 2 + once) * count
}

/// Time that a tool takes beside what it counts: its warm-up, start, and end.
fn warm_up(tool: Tool, connections: usize) -> Duration {
    let milliseconds = match tool {
        Tool::Ab(_) => 300,
        Tool::Siege { .. } => 2500,
        Tool::Wrk | Tool::WrkGzip | Tool::WrkLoggedIn { .. } | Tool::Httperf => 1100,
        Tool::H2load { .. } | Tool::H1load | Tool::H3load { .. } => 1100 + 2 * connections as u64,
        Tool::Handshakes { resumed } => {
            if resumed {
                3000
            } else {
                1200
            }
        }
    };
    Duration::from_millis(milliseconds)
}

/// Ten thousand connections are opened one after the other.
fn idle_time(protocol: Protocol) -> Duration {
    Duration::from_secs(if protocol == Protocol::Http1 { 6 } else { 13 })
}

/// Bytes on the wire, round trips one after the other, and work, whichever is longest.
fn link_time(plan: &RowPlan) -> Duration {
    let Kind::Link {
        link,
        requests,
        connections,
        streams,
        path,
        ..
    } = plan.row.kind
    else {
        return Duration::ZERO;
    };
    let requests = (requests / plan.requests_divisor.max(1)).max(1) as f64;
    let bytes = requests * saker_testkit::bench_files::bytes_of(path).max(300) as f64;
    let on_the_wire = bytes * 8.0 / (link.mbit_per_s as f64 * 1e6);
    let turns = requests / (connections * streams) as f64 * link.round_trip_ms as f64 / 1e3;
    // Lost packets are sent again, and slow down a sender that takes them for a full queue.
    let losses = if link.loss + link.reordering > 0.0 {
        6.0
    } else {
        1.0
    };
    let longest = (on_the_wire * losses)
        .max(turns)
        .max(requests / REQUESTS_PER_S);
    Duration::from_secs_f64(1.15 * longest + 4.0 * link.round_trip_ms as f64 / 1e3)
}

/// Minutes and seconds.
pub fn clock(duration: Duration) -> String {
    format!("{}:{:02}", duration.as_secs() / 60, duration.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::super::arguments;
    use super::*;

    fn entries(line: &str) -> (Vec<Entry>, Duration) {
        let setting = arguments::parse(line.split_whitespace().map(str::to_owned)).expect("parsed");
        (plan(&rows(&setting), &setting, |_| 5), setting.budget())
    }

    #[test]
    fn both_runs_end_in_time_and_have_every_comparison() {
        for line in ["", "--quick"] {
            let (entries, budget) = entries(line);
            let total: Duration = entries.iter().map(|entry| entry.expected).sum();
            assert!(total <= budget, "{line}: {total:?}");
            for group in groups::ALL
                .iter()
                .filter(|group| rows::all().any(|row| groups::of(row) == **group))
            {
                let needs_root = group.prefix == "b2-";
                let has = entries
                    .iter()
                    .any(|entry| groups::of(entry.plan.row) == *group);
                assert!(
                    has || needs_root && !rustix::process::geteuid().is_root(),
                    "{line}: {}",
                    group.title
                );
            }
            assert_eq!(entries.first().expect("rows").plan.row.name, "noise");
        }
    }

    #[test]
    fn links_have_the_published_sizes_and_noise_its_rounds() {
        if rustix::process::geteuid().is_root() {
            let (whole, _) = entries("");
            let plan = |name: &str| {
                whole
                    .iter()
                    .find(|entry| entry.plan.row.name == name)
                    .map(|entry| entry.plan)
            };
            assert!(
                ["b2-10k-100ms", "b2-100mb-10ms"]
                    .iter()
                    .all(|name| plan(name).is_some_and(|plan| plan.requests_divisor == 1))
            );
            assert!(plan("b2-100k-100ms").is_none());
            let (long, _) = entries("--minutes 240");
            assert!(
                long.iter()
                    .any(|entry| entry.plan.row.name == "b2-100k-100ms")
            );
        }
        for line in ["", "--quick", "--minutes 1"] {
            let (entries, _) = entries(line);
            assert!(
                entries
                    .iter()
                    .filter(|entry| entry.plan.row.name.starts_with(NOISE))
                    .all(|entry| entry.plan.rounds >= 3),
                "{line}"
            );
        }
    }

    #[test]
    fn more_minutes_buy_more() {
        let (few, _) = entries("--only small-10 --minutes 1");
        let (many, _) = entries("--only small-10 --minutes 20");
        assert!(
            many[0].plan.seconds > few[0].plan.seconds && many[0].plan.rounds >= few[0].plan.rounds
        );
    }

    #[test]
    fn names_in_the_lists_are_rows() {
        assert!(
            FURTHER
                .iter()
                .chain(&LONG)
                .all(|name| rows::all().any(|row| row.name == *name))
        );
    }

    #[test]
    fn minutes_and_seconds() {
        assert_eq!(
            [0, 61, 3600].map(|seconds| clock(Duration::from_secs(seconds))),
            ["0:00", "1:01", "60:00"]
        );
    }
}
