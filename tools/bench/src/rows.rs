//! The rows: what is measured, and what Saker has to reach.

use saker_testkit::bench_files;

#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub name: &'static str,
    pub title: &'static str,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Saker beside the peers.
    Compare { tool: Tool, paths: &'static [&'static str], connections: usize, targets: Targets },
    /// Saker with something on beside itself with it off.
    Switch { feature: Feature, connections: usize, at_most: f64 },
    /// Memory of connections that wait for their next request.
    Idle { connections: usize, bytes_at_most: f64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Keep-alive.
    Wrk,
    /// A connection per request.
    Ab,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    AccessLog,
    Throttle,
}

/// Ratios of CPU per request; `floor` says too whether the floor takes part.
#[derive(Clone, Copy, Debug, Default)]
pub struct Targets {
    pub best: Option<f64>,
    pub nginx: Option<f64>,
    pub floor: Option<f64>,
}

const SMALL: &[&str] = &[bench_files::SMALL];
const MEDIUM: &[&str] = &[bench_files::MEDIUM];
const LARGE: &[&str] = &[bench_files::LARGE];
const IMAGES: &[&str] =
    &[bench_files::IMAGES[0].0, bench_files::IMAGES[1].0, bench_files::IMAGES[2].0, bench_files::IMAGES[3].0, bench_files::IMAGES[4].0];

const SMALL_TARGETS: Targets = Targets { best: Some(0.80), nginx: Some(0.60), floor: Some(1.15) };

pub const ALL: &[Row] = &[
    Row { name: "small-10", title: "285 bytes, keep-alive, 10 connections", kind: keep_alive(SMALL, 10, SMALL_TARGETS) },
    Row { name: "small-100", title: "285 bytes, keep-alive, 100 connections", kind: keep_alive(SMALL, 100, SMALL_TARGETS) },
    Row { name: "small-1000", title: "285 bytes, keep-alive, 1000 connections", kind: keep_alive(SMALL, 1000, SMALL_TARGETS) },
    Row {
        name: "close-10",
        title: "285 bytes, a connection per request, 10 at a time",
        kind: Kind::Compare { tool: Tool::Ab, paths: SMALL, connections: 10, targets: best(0.90) },
    },
    Row { name: "medium-50", title: "6.3 kB, keep-alive, 50 connections", kind: keep_alive(MEDIUM, 50, best(0.85)) },
    Row { name: "images-10", title: "5 images of 20 to 200 kB, 10 connections", kind: keep_alive(IMAGES, 10, best(0.90)) },
    Row { name: "large-10", title: "21 MB file, 10 connections", kind: keep_alive(LARGE, 10, best(1.0)) },
    Row {
        name: "log",
        title: "access log on against off, 100 connections",
        kind: Kind::Switch { feature: Feature::AccessLog, connections: 100, at_most: 1.03 },
    },
    Row {
        name: "throttle",
        title: "throttling that does not bite against none, 100 connections",
        kind: Kind::Switch { feature: Feature::Throttle, connections: 100, at_most: 1.005 },
    },
    Row { name: "idle", title: "10,000 idle keep-alive connections", kind: Kind::Idle { connections: 10_000, bytes_at_most: 4096.0 } },
];

/// The rows that `--only` names.
pub fn chosen(only: &[String]) -> impl Iterator<Item = &'static Row> {
    ALL.iter().filter(move |row| only.is_empty() || only.iter().any(|name| row.name == name || starts(row.name, name)))
}

/// A beginning counts only where it is not the whole name of a row (`small-10` does not mean `small-100`).
fn starts(row: &str, name: &str) -> bool {
    row.starts_with(name) && !ALL.iter().any(|other| other.name == name)
}

const fn keep_alive(paths: &'static [&'static str], connections: usize, targets: Targets) -> Kind {
    Kind::Compare { tool: Tool::Wrk, paths, connections, targets }
}

const fn best(ratio: f64) -> Targets {
    Targets { best: Some(ratio), nginx: None, floor: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: &[&str]) -> Vec<&'static str> {
        let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
        chosen(&only).map(|row| row.name).collect()
    }

    #[test]
    fn choosing() {
        assert_eq!(names(&[]).len(), ALL.len());
        assert_eq!(names(&["small-10"]), ["small-10"]);
        assert_eq!(names(&["small", "idle"]), ["small-10", "small-100", "small-1000", "idle"]);
    }
}
