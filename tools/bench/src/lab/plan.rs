//! Which rows, how many rounds of them, how long: what fits into the time there is.
//!
//! Every kind of trial has a cost that is known well enough beforehand. Rounds are bought before seconds, since a median of one is none.
//! What is planned may still take longer on a slow machine; then later rows get fewer rounds (`progress`), and their report says so.

use super::{arguments::Setting, groups};
use crate::{
    rows::{self, Kind, Row},
    runner::RowPlan,
    stage,
};
use std::time::Duration;

/// A row with what it will take.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub plan: RowPlan,
    pub expected: Duration,
}

/// Of a quick run: some rows of each comparison.
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

/// In a whole run besides the comparisons, which have rows of their own for small files, images, films, PHP and kept pages.
#[rustfmt::skip]
const FURTHER: [&str; 16] = [
    "log", "rewrite", "permalinks", "proxy-1k", "proxy-1m", "cached-gzip", "idle", "h2-100x10", "h2-page40",
    "tls-handshake", "tls-resumed", "idle-tls", "idle-h2", "h3-100x10", "h3-large", "idle-h3",
];

/// Rounds and seconds, from the best down.
const LADDER: [(usize, u64); 9] = [(5, 20), (5, 10), (3, 10), (3, 5), (3, 3), (3, 2), (3, 1), (2, 1), (1, 1)];
/// Rounds, and the part of the requests, of rows over links.
const LINK_LADDER: [(usize, u64); 6] = [(3, 1), (2, 1), (3, 10), (2, 10), (1, 10), (1, 50)];
/// Of the time that may go to rows over links.
const LINK_SHARE: f64 = 0.35;
/// Warm-up, start, stop and a pause.
const TRIAL: Duration = Duration::from_millis(1900);
const IDLE_TRIAL: Duration = Duration::from_secs(7);
const LINK_TRIAL: Duration = Duration::from_millis(1500);
/// Of a first round, either side, where there is time for it.
const IDLE: Duration = Duration::from_secs(1);
const QUICK_IDLE: Duration = Duration::from_millis(400);
/// Of requests that a client of ours makes over a link.
const REQUESTS_PER_S: f64 = 15_000.0;

pub fn rows(setting: &Setting) -> Vec<&'static Row> {
    let mut rows: Vec<&'static Row> = if setting.bench.only.is_empty() {
        rows::all()
            .filter(|row| if setting.is_quick() { is_quick(row) } else { is_published(row) || FURTHER.contains(&row.name) })
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
    rows.sort_by_key(|row| (!row.name.starts_with("noise"), groups::ALL.iter().position(|group| *group == groups::of(row))));
    rows
}

fn is_published(row: &Row) -> bool {
    !groups::of(row).prefix.is_empty()
}

/// The first row that a beginning fits.
fn is_quick(row: &Row) -> bool {
    QUICK.iter().any(|name| rows::all().find(|candidate| candidate.name.starts_with(name)).is_some_and(|first| first.name == row.name))
}

/// `contenders` says how many take part in a row.
pub fn plan(rows: &[&'static Row], setting: &Setting, contenders: impl Fn(&Row) -> usize) -> Vec<Entry> {
    let budget = setting.budget();
    let idle = if setting.is_quick() { QUICK_IDLE } else { IDLE };
    let with = |(rounds, seconds): (usize, u64), (link_rounds, divisor): (usize, u64)| -> Vec<Entry> {
        let entry = |row: &&'static Row| {
            let plan = match row.kind {
                Kind::Link { .. } => RowPlan { row, rounds: link_rounds, seconds: 0, requests_divisor: divisor, idle },
                Kind::Idle { .. } => RowPlan { row, rounds: 1, seconds: 0, requests_divisor: 1, idle },
                Kind::Own(workload) => {
                    RowPlan { row, rounds, seconds: seconds.max(workload.seconds_at_least(setting.is_quick())), requests_divisor: 1, idle }
                }
                _ => RowPlan { row, rounds, seconds, requests_divisor: 1, idle },
            };
            // So long a trial is its own median.
            let plan = if plan.seconds > seconds.max(10) { RowPlan { rounds: 1, ..plan } } else { plan };
            Entry { plan, expected: expected(&plan, contenders(row)) }
        };
        rows.iter().map(entry).collect()
    };
    let total = |entries: &[Entry], links: bool| -> Duration {
        entries.iter().filter(|entry| matches!(entry.plan.row.kind, Kind::Link { .. }) == links).map(|entry| entry.expected).sum()
    };
    let links = LINK_LADDER.into_iter().find(|step| total(&with(LADDER[LADDER.len() - 1], *step), true) <= budget.mul_f64(LINK_SHARE));
    let links = links.unwrap_or(LINK_LADDER[LINK_LADDER.len() - 1]);
    let fits = |entries: &Vec<Entry>| total(entries, true) + total(entries, false) <= budget;
    LADDER.into_iter().map(|step| with(step, links)).find(fits).unwrap_or_else(|| with(LADDER[LADDER.len() - 1], links))
}

fn expected(plan: &RowPlan, contenders: usize) -> Duration {
    let count = u32::try_from(contenders).unwrap_or(u32::MAX);
    let rounds = u32::try_from(plan.rounds).unwrap_or(u32::MAX);
    let trial = match plan.row.kind {
        Kind::Idle { .. } => IDLE_TRIAL,
        Kind::Link { .. } => LINK_TRIAL + link_time(plan),
        _ => TRIAL + Duration::from_secs(plan.seconds),
    };
    // What the answers are compared by takes a start each.
    let check = if matches!(plan.row.kind, Kind::Own(_)) { Duration::from_millis(300) } else { Duration::ZERO };
    (trial * rounds + plan.idle * 2 + check) * count
}

/// Bytes on the wire, round trips one after the other, and work, whichever is longest.
fn link_time(plan: &RowPlan) -> Duration {
    let Kind::Link { link, requests, connections, streams, path, .. } = plan.row.kind else { return Duration::ZERO };
    let requests = (requests / plan.requests_divisor.max(1)).max(1) as f64;
    let bytes = requests * saker_testkit::bench_files::bytes_of(path).max(300) as f64;
    let on_the_wire = bytes * 8.0 / (link.mbit_per_s as f64 * 1e6);
    let turns = requests / (connections * streams) as f64 * link.round_trip_ms as f64 / 1e3;
    Duration::from_secs_f64(1.15 * on_the_wire.max(turns).max(requests / REQUESTS_PER_S) + 4.0 * link.round_trip_ms as f64 / 1e3)
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
            for group in groups::ALL.iter().filter(|group| rows::all().any(|row| groups::of(row) == **group)) {
                let needs_root = group.prefix == "b2-";
                let has = entries.iter().any(|entry| groups::of(entry.plan.row) == *group);
                assert!(has || needs_root && !rustix::process::geteuid().is_root(), "{line}: {}", group.title);
            }
            assert_eq!(entries.first().expect("rows").plan.row.name, "noise");
        }
    }

    #[test]
    fn more_minutes_buy_more() {
        let (few, _) = entries("--only small-10 --minutes 1");
        let (many, _) = entries("--only small-10 --minutes 20");
        assert!(many[0].plan.seconds > few[0].plan.seconds && many[0].plan.rounds >= few[0].plan.rounds);
    }

    #[test]
    fn names_in_the_lists_are_rows() {
        assert!(FURTHER.iter().all(|name| rows::all().any(|row| row.name == *name)));
    }
}
