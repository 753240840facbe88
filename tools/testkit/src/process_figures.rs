//! Costs of a server: CPU time, memory and descriptors of a process and all that it started, from
//! /proc.
//!
//! The one difficulty is resolution: `stat` counts in ticks of 10 ms, so running threads are read
//! from `schedstat` (nanoseconds), and `stat` fills in what only it knows: threads that ended and
//! children that were waited for.

use rustix::process::{Pid, Signal, kill_process};
use std::{collections::HashMap, fs, io, time::Duration};

/// Linux shows times to user space in hundredths of a second on every architecture that we build
/// for.
const NANOSECONDS_PER_TICK: u64 = 10_000_000;

/// A process and its descendants, as they were when this was made. A process is known by its id and
/// start time, so that an id that was given away again is not mistaken for it.
#[derive(Clone, Debug)]
pub struct ProcessTree {
    members: Vec<(u32, u64)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident, shared pages counted in each process.
    pub rss_bytes: u64,
    /// Proportional: a page shared by n processes counts 1/n in each.
    pub pss_bytes: u64,
    /// The highest resident size so far, summed over the processes.
    pub peak_rss_bytes: u64,
    /// Resident memory that is no file's: what the processes hold, without their code.
    pub anonymous_bytes: u64,
}

impl ProcessTree {
    pub fn of(root: u32) -> ProcessTree {
        ProcessTree::of_all(&[root])
    }

    /// Processes below several roots, none of which has started another.
    pub fn of_all(roots: &[u32]) -> ProcessTree {
        let table = process_table();
        let mut members = Vec::new();
        let mut next = roots.to_vec();
        while let Some(pid) = next.pop() {
            let Some(stat) = table.get(&pid) else {
                continue;
            };
            members.push((pid, stat.start_ticks));
            next.extend(
                table
                    .iter()
                    .filter(|(_, child)| child.parent == pid)
                    .map(|(pid, _)| *pid),
            );
        }
        ProcessTree { members }
    }

    pub fn pids(&self) -> Vec<u32> {
        self.members.iter().map(|(pid, _)| *pid).collect()
    }

    /// Those that still run.
    pub fn alive(&self) -> Vec<u32> {
        let still = |(pid, start): &&(u32, u64)| {
            stat_of(*pid).is_some_and(|stat| stat.start_ticks == *start && stat.state != 'Z')
        };
        self.members
            .iter()
            .filter(still)
            .map(|(pid, _)| *pid)
            .collect()
    }

    pub fn kill_survivors(&self) {
        for pid in self.alive() {
            // It may have ended in between, which is what we want.
            let _ = pid_of(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
    }

    /// User and system time of all, with the children that they have waited for. May step back by a
    /// tick when a thread ends.
    pub fn cpu_time(&self) -> Duration {
        Duration::from_nanos(
            self.members
                .iter()
                .map(|(pid, _)| cpu_nanoseconds(*pid))
                .sum(),
        )
    }

    pub fn memory(&self) -> Memory {
        self.members
            .iter()
            .fold(Memory::default(), |sum, (pid, _)| {
                let rollup =
                    fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
                let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
                Memory {
                    rss_bytes: sum.rss_bytes + kilobytes(&rollup, "Rss:"),
                    pss_bytes: sum.pss_bytes + kilobytes(&rollup, "Pss:"),
                    anonymous_bytes: sum.anonymous_bytes + kilobytes(&rollup, "Anonymous:"),
                    peak_rss_bytes: sum.peak_rss_bytes + kilobytes(&status, "VmHWM:"),
                }
            })
    }

    pub fn open_descriptors(&self) -> usize {
        let count = |pid: u32| fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        self.members.iter().map(|(pid, _)| count(*pid)).sum()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: u32,
    own_ticks: u64,
    reaped_ticks: u64,
    start_ticks: u64,
}

fn process_table() -> HashMap<u32, Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, stat_of(pid)?))).collect()
}

fn stat_of(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// proc(5). The program's name, in brackets, may itself contain blanks and brackets: the last one
/// ends it.
fn parse_stat(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text[text.rfind(')')? + 1..]
        .split_ascii_whitespace()
        .collect();
    // Field 3 (state) of the manual is the first here.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: u32::try_from(number(4)?).ok()?,
        own_ticks: number(14)? + number(15)?,
        reaped_ticks: number(16)? + number(17)?,
        start_ticks: number(22)?,
    })
}

fn cpu_nanoseconds(pid: u32) -> u64 {
    let Some(stat) = stat_of(pid) else { return 0 };
    let running = running_threads_nanoseconds(pid);
    running.max(stat.own_ticks * NANOSECONDS_PER_TICK) + stat.reaped_ticks * NANOSECONDS_PER_TICK
}

fn running_threads_nanoseconds(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    tasks
        .filter_map(|task| first_number(&fs::read_to_string(task.path().join("schedstat")).ok()?))
        .sum()
}

fn first_number(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

fn kilobytes(text: &str, label: &str) -> u64 {
    text.lines()
        .find_map(|line| first_number(line.strip_prefix(label)?))
        .unwrap_or(0)
        * 1024
}

pub(crate) fn pid_of(pid: u32) -> io::Result<Pid> {
    i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other("not a process id"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{process, time::Instant};

    #[test]
    fn stat_with_a_nasty_name() {
        let line = "42 (a) b (c) S 7 1 1 0 -1 0 0 0 0 0 100 20 3 4 20 0 1 0 555 0";
        let stat = parse_stat(line).expect("parsed");
        assert_eq!(
            stat,
            Stat {
                state: 'S',
                parent: 7,
                own_ticks: 120,
                reaped_ticks: 7,
                start_ticks: 555
            }
        );
        assert_eq!(parse_stat("42 (short) S 7"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn work_shows_up_as_cpu_time() {
        let me = ProcessTree::of(process::id());
        let before = me.cpu_time();
        let start = Instant::now();
        let mut sum = 0u64;
        while me.cpu_time().saturating_sub(before) < Duration::from_millis(30) {
            sum = std::hint::black_box(sum.wrapping_add(1));
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "30 ms of work are not seen"
            );
        }
    }

    #[test]
    fn memory_and_descriptors_of_this_process() {
        let me = ProcessTree::of(process::id());
        let memory = me.memory();
        assert!(
            memory.rss_bytes > 100 << 10 && memory.pss_bytes <= memory.rss_bytes,
            "{memory:?}"
        );
        assert!(memory.peak_rss_bytes >= 100 << 10, "{memory:?}");
        let before = me.open_descriptors();
        let files: Vec<_> = (0..50)
            .map(|_| fs::File::open("/dev/null").expect("opened"))
            .collect();
        assert!(
            me.open_descriptors() >= before + 40,
            "other tests may close a few at the same time"
        );
        drop(files);
    }

    #[test]
    fn nothing_is_known_of_a_process_that_is_not_there() {
        let nobody = ProcessTree::of(u32::MAX);
        assert!(nobody.pids().is_empty() && nobody.cpu_time().is_zero());
    }
}
