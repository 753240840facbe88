//! Environment of a run: machine, kernel, versions, the time. A figure without these is worth
//! nothing.

use super::arguments::Setting;
use saker_testkit::{Peer, require};
use std::{
    fs,
    process::Command,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub when: String,
    pub took: Duration,
    pub is_quick: bool,
    pub machine: Vec<(String, String)>,
    pub versions: Vec<(String, String)>,
    pub absent: Vec<String>,
    /// To have it once more.
    pub command: String,
}

/// Load tools and the flag that makes them say who they are.
const TOOLS: [(&str, &str); 6] = [
    ("ab", "-V"),
    ("siege", "-V"),
    ("httperf", "--version"),
    ("wrk", "-v"),
    ("h2load", "--version"),
    ("php", "-v"),
];

pub fn facts(setting: &Setting, took: Duration) -> Facts {
    let words: Vec<String> = std::env::args().skip(1).collect();
    Facts {
        when: now(),
        took,
        is_quick: setting.is_quick(),
        machine: machine(setting.stage.is_some()),
        versions: versions(setting),
        absent: setting.absent.clone(),
        command: format!("saker-bench {}", words.join(" ")),
    }
}

fn machine(is_apart: bool) -> Vec<(String, String)> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let memory = field("/proc/meminfo", "MemTotal")
        .and_then(|text| text.trim_end_matches(" kB").parse::<f64>().ok());
    let place = if is_apart {
        "load here, servers on another machine"
    } else if cores > 1 {
        "server on core 0, load on core 1"
    } else {
        "one core for all"
    };
    let all = [
        (
            "Processor",
            field("/proc/cpuinfo", "model name").or_else(|| field("/proc/cpuinfo", "Model")),
        ),
        ("Cores", Some(format!("{cores}; {place}"))),
        (
            "Memory",
            memory.map(|kilobytes| format!("{:.1} GB", kilobytes / 1e6)),
        ),
        (
            "Kernel",
            fs::read_to_string("/proc/sys/kernel/osrelease")
                .ok()
                .map(|text| text.trim().to_owned()),
        ),
        (
            "System",
            field("/etc/os-release", "PRETTY_NAME").map(|name| name.trim_matches('"').to_owned()),
        ),
        (
            "Clock governor",
            fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
                .ok()
                .map(|text| text.trim().to_owned()),
        ),
    ];
    all.into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// `name : value` or `name=value`.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| {
        line.strip_prefix(name)?
            .trim_start()
            .strip_prefix([':', '='])
    })?;
    Some(value.trim().to_owned())
}

fn versions(setting: &Setting) -> Vec<(String, String)> {
    let own = said(Command::new(&setting.bench.saker).arg("--version"))
        .unwrap_or_else(|| "not measured".to_owned());
    let peers = Peer::ALL.iter().take(4).chain(&Peer::SPECIAL);
    let peers = peers.filter_map(|peer| Some((peer.name().to_owned(), peer.version().ok()?)));
    let tools = TOOLS.iter().filter_map(|(tool, flag)| {
        Some((
            (*tool).to_owned(),
            said(Command::new(require(tool).ok()?).arg(flag))?,
        ))
    });
    let others = setting
        .bench
        .outside
        .iter()
        .map(|peer| (peer.to_string(), "as its user brought it".to_owned()));
    std::iter::once(("saker".to_owned(), own))
        .chain(peers)
        .chain(others)
        .chain(tools)
        .collect()
}

/// Its first line that says something.
fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    text.lines()
        .map(str::trim)
        .find(|line| line.contains(|c: char| c.is_ascii_digit()))
        .map(str::to_owned)
}

fn now() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    written(seconds)
}

/// UTC, by the civil calendar (400 years have 146,097 days; a year begins in March, so that leap
/// days come last).
fn written(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) = (
        day_of_year - (153 * shifted + 2) / 5 + 1,
        if shifted < 10 {
            shifted + 3
        } else {
            shifted - 9
        },
    );
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02} UTC",
        rest / 3600,
        rest / 60 % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(written(0), "1970-01-01 00:00 UTC");
        assert_eq!(written(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(written(1_795_331_096), "2026-11-22 07:04 UTC");
    }

    #[test]
    fn this_machine_says_what_it_is() {
        let names: Vec<String> = machine(false).into_iter().map(|(name, _)| name).collect();
        assert!(
            ["Cores", "Memory", "Kernel"]
                .iter()
                .all(|wanted| names.iter().any(|name| name == wanted)),
            "{names:?}"
        );
    }
}
