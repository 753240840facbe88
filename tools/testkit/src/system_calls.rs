//! System calls of a running server, counted by strace.
//!
//! The difficulty is the beginning: strace takes a moment to hold all threads of a process, and
//! what it misses is not counted.

use crate::{ServerProcess, process_figures::pid_of, require, wait::poll};
use rustix::process::{Signal, kill_process};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

const ATTACH_TIMEOUT: Duration = Duration::from_secs(30);
const REST_TIMEOUT: Duration = Duration::from_secs(1);
/// States of a thread (proc_pid_stat(5)).
const TRACING_STOP: char = 't';
const ASLEEP: char = 'S';

/// A count that is under way.
pub struct SystemCalls {
    strace: Child,
    summary: PathBuf,
    threads: Vec<u32>,
}

/// Number of times a call was made, and how often of these it failed (`EAGAIN` is a failure).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    pub made: u64,
    pub failed: u64,
}

impl SystemCalls {
    /// Begins to count all threads and processes of the server. `work` is a folder for strace's
    /// summary.
    pub fn attach(server: &ServerProcess, work: &Path) -> io::Result<SystemCalls> {
        let threads = server
            .tree()
            .pids()
            .into_iter()
            .flat_map(threads)
            .map(|(id, _)| id)
            .collect();
        SystemCalls::attach_to(threads, work)
    }

    /// Only those threads whose name begins so.
    pub fn attach_to_threads(
        server: &ServerProcess,
        name: &str,
        work: &Path,
    ) -> io::Result<SystemCalls> {
        let named = threads(server.pid())
            .into_iter()
            .filter(|(_, thread)| thread.starts_with(name));
        SystemCalls::attach_to(named.map(|(id, _)| id).collect(), work)
    }

    fn attach_to(threads: Vec<u32>, work: &Path) -> io::Result<SystemCalls> {
        let program = require("strace").map_err(io::Error::other)?;
        let summary = work.join("strace.txt");
        let mut command = Command::new(program);
        command.args(["-c", "-q", "-o"]).arg(&summary);
        for id in &threads {
            command.arg("-p").arg(id.to_string());
        }
        let strace = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let counting = SystemCalls {
            strace,
            summary,
            threads: threads.clone(),
        };
        // strace stops each thread, then lets them go on one after the other.
        let is_attached =
            |id: &u32| is_traced(*id) && state(*id).is_some_and(|state| state != TRACING_STOP);
        let attached = poll(ATTACH_TIMEOUT, || {
            (!threads.is_empty() && threads.iter().all(is_attached)).then_some(())
        });
        attached.ok_or_else(|| {
            io::Error::other("strace could not attach (kernel.yama.ptrace_scope?)")
        })?;
        Ok(counting)
    }

    /// Ends the count: calls by name.
    pub fn finish(mut self) -> io::Result<BTreeMap<String, Calls>> {
        // The peer sees what a call did before strace sees it return. Threads that wait for work
        // have returned from it; those of a server that never rests are not waited for.
        let is_asleep = |id: &u32| state(*id).is_none_or(|state| state == ASLEEP);
        let _ = poll(REST_TIMEOUT, || {
            self.threads.iter().all(is_asleep).then_some(())
        });
        // INT makes strace let go and write its summary.
        kill_process(pid_of(self.strace.id())?, Signal::INT)?;
        self.strace.wait()?;
        parse(&fs::read_to_string(&self.summary)?)
            .ok_or_else(|| io::Error::other("strace gave no summary"))
    }
}

impl Drop for SystemCalls {
    fn drop(&mut self) {
        // After `finish` it has ended.
        if let (Ok(None), Ok(pid)) = (self.strace.try_wait(), pid_of(self.strace.id())) {
            let _ = kill_process(pid, Signal::INT);
            let _ = self.strace.wait();
        }
    }
}

/// State of a thread; `None` if it has ended.
fn state(id: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Ids and names.
fn threads(pid: u32) -> Vec<(u32, String)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    tasks
        .filter_map(|task| {
            Some((
                task.file_name().to_str()?.parse().ok()?,
                fs::read_to_string(task.path().join("comm")).ok()?,
            ))
        })
        .collect()
}

/// A thread that has ended counts: nothing of it will be missed.
fn is_traced(id: u32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{id}/status")) else {
        return true;
    };
    status
        .lines()
        .filter_map(|line| line.strip_prefix("TracerPid:"))
        .any(|tracer| tracer.trim() != "0")
}

/// Rows of `% time, seconds, usecs/call, calls, errors, syscall`, where errors are left out when
/// there are none.
fn parse(summary: &str) -> Option<BTreeMap<String, Calls>> {
    let mut lines = summary
        .lines()
        .skip_while(|line| !line.starts_with("------"));
    lines.next()?;
    let mut calls = BTreeMap::new();
    for line in lines.take_while(|line| !line.starts_with("------")) {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let name = *columns.last()?;
        let made = columns.get(3)?.parse().ok()?;
        let failed = if columns.len() > 5 {
            columns[4].parse().ok()?
        } else {
            0
        };
        calls.insert(name.to_owned(), Calls { made, failed });
    }
    Some(calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_this_process() {
        let name = std::thread::Builder::new()
            .name("counted".into())
            .spawn(|| {
                let all = threads(std::process::id());
                all.iter()
                    .filter(|(_, name)| name.starts_with("counted"))
                    .count()
            });
        assert_eq!(name.expect("started").join().expect("ended"), 1);
    }

    #[test]
    fn summary() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n------ ----------- ----------- --------- --------- ----------------\n \
             50.00    0.010000           2      4000           sendto\n 50.00    0.010000           2      4001         3 accept4\n\
             ------ ----------- ----------- --------- --------- ----------------\n100.00    0.020000           2      8001         3 total\n";
        let calls = parse(text).expect("parsed");
        assert_eq!(calls.len(), 2);
        assert_eq!(
            (calls["sendto"], calls["accept4"]),
            (
                Calls {
                    made: 4000,
                    failed: 0
                },
                Calls {
                    made: 4001,
                    failed: 3
                }
            )
        );
        assert_eq!(
            parse("strace: attach: ptrace(PTRACE_SEIZE, 1): Operation not permitted"),
            None
        );
    }
}
