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
    os::unix::{fs::chown, process::CommandExt},
    process::{Command, Output},
    time::Duration,
};

/// Requests that are counted together, where two hosts are compared, and how often.
const COUNTED: usize = 100;
const ROUNDS: usize = 5;
/// For valgrind to have the server up.
const PATIENCE: Duration = Duration::from_secs(300);

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
    /// User of the server and of those who ask valgrind about it; `None`: the tests' own.
    user: Option<u32>,
}

const NOBODY: u32 = 65_534;

impl Callgrind {
    pub fn new() -> Callgrind {
        Callgrind {
            dumps: TempDir::new("callgrind").unwrap(),
            user: None,
        }
    }

    /// Counts of a server that owns its folder and has no privileges: it needs no broker, which
    /// valgrind could not start.
    pub fn without_privileges(dir: &TempDir) -> Callgrind {
        let mut callgrind = Callgrind::new();
        if rustix::process::geteuid().is_root() {
            callgrind.user = Some(NOBODY);
            for folder in [dir, &callgrind.dumps] {
                chown(folder, callgrind.user, callgrind.user).unwrap();
            }
        }
        callgrind
    }

    /// The server under valgrind, which counts nothing yet.
    pub fn of(&self, builder: Builder) -> Builder {
        let arguments = self.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let builder = builder.under_valgrind(&arguments);
        match self.user {
            Some(user) => builder.prepared(move |command| {
                command.uid(user).gid(user);
            }),
            None => builder,
        }
    }

    /// Arguments of valgrind.
    pub fn arguments(&self) -> Vec<String> {
        let fixed = [
            "--tool=callgrind",
            "--instr-atstart=no",
            "--separate-threads=yes",
            "--fair-sched=yes",
        ];
        let out = self.dumps.join("count");
        let own = [
            self.pipes(),
            format!("--callgrind-out-file={}", out.display()),
        ];
        fixed.map(str::to_owned).into_iter().chain(own).collect()
    }

    /// Folder in which valgrind is asked for dumps. Its own choice is below `TMPDIR`, where the server's
    /// is another one than `callgrind_control`'s.
    fn pipes(&self) -> String {
        format!("--vgdb-prefix={}", self.dumps.join("pipes").display())
    }

    /// From now on instructions are counted.
    pub fn begin(&self, saker: &Saker) {
        self.begin_in(saker.server.pid());
    }

    /// The same for a process.
    pub fn begin_in(&self, pid: u32) {
        self.control(pid, &["-i", "on"]);
    }

    /// Instructions and allocations of all threads while `work` runs.
    pub fn of_process(&self, saker: &Saker, work: impl FnOnce()) -> Counts {
        self.of_pid(saker.server.pid(), work)
    }

    /// The same for any process.
    pub fn of_pid(&self, pid: u32, work: impl FnOnce()) -> Counts {
        let mut sum = Counts::default();
        for counts in self.by_thread(pid, work).values() {
            sum.instructions += counts.instructions;
            sum.allocations += counts.allocations;
        }
        sum
    }

    /// Instructions of the thread that has most of them while `work` runs: the worker's.
    pub fn of_worker(&self, saker: &Saker, work: impl FnOnce()) -> u64 {
        let counts = self.by_thread(saker.server.pid(), work);
        let instructions = counts.values().map(|counts| counts.instructions);
        instructions.max().expect("a thread")
    }

    /// Instructions of a request for `path` to each of two hosts of one server, which are asked in
    /// turns.
    pub fn of_hosts(
        &self,
        saker: &Saker,
        hosts: [&str; 2],
        path: &str,
        fields: &[(&str, &str)],
    ) -> [u64; 2] {
        let mut client = saker.connect().unwrap();
        client.set_timeout(PATIENCE).unwrap();
        let mut ask = |host: &str| {
            let fields = [&[("Host", host)], fields].concat();
            for _ in 0..COUNTED {
                let response = client.request("GET", path, &fields).unwrap();
                assert_eq!(response.status, 200);
            }
        };
        // Everything is kept that will be.
        ask(hosts[0]);
        self.begin(saker);
        let mut fewest = [u64::MAX; 2];
        for _ in 0..ROUNDS {
            for (host, fewest) in hosts.into_iter().zip(&mut fewest) {
                ask(host);
                let count = self.of_worker(saker, || ask(host));
                *fewest = (*fewest).min(count / COUNTED as u64);
            }
        }
        fewest
    }

    fn by_thread(&self, pid: u32, work: impl FnOnce()) -> BTreeMap<u32, Counts> {
        // What was counted so far goes into one dump, what comes now into the next.
        self.control(pid, &["-d"]);
        work();
        self.control(pid, &["-d"]);
        let dumps = fs::read_dir(&self.dumps).unwrap();
        let dumps: Vec<_> = dumps
            .filter_map(|entry| part_and_thread(&entry.unwrap().file_name().to_string_lossy()))
            .collect();
        let last = dumps.iter().map(|(part, _)| *part).max();
        let last = last.unwrap_or_else(|| panic!("no dump in {}", self.dumps.display()));
        let of_last = dumps.into_iter().filter(|(part, _)| *part == last);
        of_last
            .map(|(part, thread)| {
                let path = self.dumps.join(format!("count.{part}-{thread:02}"));
                let dump = fs::read_to_string(path).unwrap();
                let counts = Counts {
                    instructions: total(&dump),
                    allocations: allocations(&dump),
                };
                (thread, counts)
            })
            .collect()
    }

    fn control(&self, pid: u32, words: &[&str]) {
        let mut command = Command::new(require("callgrind_control").unwrap());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let output: Output = command
            .arg(self.pipes())
            .args(words)
            .arg(pid.to_string())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("OK"), "{output:?}");
    }
}

/// Numbers in a dump's name, `count.PART-THREAD`.
fn part_and_thread(name: &str) -> Option<(u32, u32)> {
    let (part, thread) = name.strip_prefix("count.")?.split_once('-')?;
    Some((part.parse().ok()?, thread.parse().ok()?))
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
