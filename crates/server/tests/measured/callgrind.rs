//! Instructions and allocations of a running server, counted by callgrind between two dumps: starts,
//! stops, and connections fall out.
//!
//! Called by: the modules of costs.
//! Caveat: what a thread does by time (tickers) falls into whatever is counted, so callers take the
//! fewest of several counts, which stand one after the other for what is compared.
//! Out of scope: what the counts mean.

use saker_testkit::{Saker, TempDir, require, saker::Builder};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::{Command, Output},
};

/// Counts between two dumps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub instructions: u64,
    /// Calls for memory, new or longer.
    pub allocations: u64,
}

/// Counts of one server.
pub struct Callgrind {
    dumps: TempDir,
}

impl Callgrind {
    pub fn new() -> Callgrind {
        Callgrind {
            dumps: TempDir::new("callgrind").unwrap(),
        }
    }

    /// The server under valgrind, which counts nothing yet.
    pub fn of(&self, builder: Builder) -> Builder {
        let out = format!(
            "--callgrind-out-file={}",
            self.dumps.join("count").display()
        );
        builder.under_valgrind(&[
            "--tool=callgrind",
            "--instr-atstart=no",
            "--separate-threads=yes",
            "--fair-sched=yes",
            &self.pipes(),
            &out,
        ])
    }

    /// Folder in which valgrind is asked for dumps. Its own choice is below `TMPDIR`, where the server's
    /// is another one than `callgrind_control`'s.
    fn pipes(&self) -> String {
        format!("--vgdb-prefix={}", self.dumps.join("pipes").display())
    }

    /// From now on instructions are counted.
    pub fn begin(&self, saker: &Saker) {
        self.control(saker, &["-i", "on"]);
    }

    /// Instructions and allocations of all threads while `work` runs.
    pub fn of_process(&self, saker: &Saker, work: impl FnOnce()) -> Counts {
        let mut sum = Counts::default();
        for counts in self.by_thread(saker, work).values() {
            sum.instructions += counts.instructions;
            sum.allocations += counts.allocations;
        }
        sum
    }

    /// Instructions of the thread that has most of them while `work` runs: the worker's.
    pub fn of_worker(&self, saker: &Saker, work: impl FnOnce()) -> u64 {
        let counts = self.by_thread(saker, work);
        let instructions = counts.values().map(|counts| counts.instructions);
        instructions.max().expect("a thread")
    }

    fn by_thread(&self, saker: &Saker, work: impl FnOnce()) -> BTreeMap<u32, Counts> {
        // What was counted so far goes into one dump, what comes now into the next.
        self.control(saker, &["-d"]);
        work();
        self.control(saker, &["-d"]);
        // `count.PART-THREAD`
        let mut last: (u32, BTreeMap<u32, Counts>) = (0, BTreeMap::new());
        for entry in fs::read_dir(&self.dumps).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let numbers = name.strip_prefix("count.").and_then(|numbers| {
                let (part, thread) = numbers.split_once('-')?;
                Some((part.parse::<u32>().ok()?, thread.parse::<u32>().ok()?))
            });
            let Some((part, thread)) = numbers.filter(|(part, _)| *part >= last.0) else {
                continue;
            };
            if part > last.0 {
                last = (part, BTreeMap::new());
            }
            let dump = fs::read_to_string(&path).unwrap();
            let counts = Counts {
                instructions: total(&dump),
                allocations: allocations(&dump),
            };
            last.1.insert(thread, counts);
        }
        assert!(!last.1.is_empty(), "no dump in {}", self.dumps.display());
        last.1
    }

    fn control(&self, saker: &Saker, words: &[&str]) {
        let output: Output = Command::new(require("callgrind_control").unwrap())
            .arg(self.pipes())
            .args(words)
            .arg(saker.server.pid().to_string())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("OK"), "{output:?}");
    }
}

fn total(dump: &str) -> u64 {
    let line = dump.lines().find_map(|line| line.strip_prefix("totals: "));
    line.and_then(|sum| sum.trim().parse().ok()).unwrap_or(0)
}

/// A name is written where it is first mentioned, and its number from then on.
fn allocations(dump: &str) -> u64 {
    const NAMES: [&str; 5] = [
        "malloc",
        "calloc",
        "realloc",
        "posix_memalign",
        "aligned_alloc",
    ];
    let (mut numbers, mut is_called, mut sum) = (BTreeSet::new(), false, 0);
    for (key, value) in dump.lines().filter_map(|line| line.split_once('=')) {
        match key {
            "fn" | "cfn" => {
                let (number, name) = value.split_once(' ').unwrap_or((value, ""));
                if NAMES.contains(&name) {
                    numbers.insert(number);
                }
                is_called = key == "cfn" && numbers.contains(number);
            }
            "calls" if is_called => {
                let count = value.split(' ').next().and_then(|count| count.parse().ok());
                sum += count.unwrap_or(0);
            }
            _ => {}
        }
    }
    sum
}
