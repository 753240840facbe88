//! System calls of a server per keep-alive request, counted by strace.

use saker_testkit::{Client, ServerProcess, Signal, require};
use std::{
    fs, io,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const REQUESTS: usize = 2000;
const ATTACH_TIMEOUT: Duration = Duration::from_secs(5);

/// One connection, one request after the other: what a request costs when nothing can be gathered.
pub fn per_request(server: &ServerProcess, path: &str, work: &Path) -> io::Result<f64> {
    let target = format!("/{path}");
    let mut client = Client::connect(server.address())?;
    client.get(&target)?;
    let summary = work.join("strace.txt");
    let strace = attach(server, &summary)?;
    for _ in 0..REQUESTS {
        client.get(&target)?;
    }
    detach(strace)?;
    let calls = total(&fs::read_to_string(&summary)?).ok_or_else(|| io::Error::other("strace gave no summary"))?;
    Ok(calls as f64 / REQUESTS as f64)
}

fn attach(server: &ServerProcess, summary: &Path) -> io::Result<Child> {
    let program = require("strace").map_err(io::Error::other)?;
    let mut command = Command::new(program);
    command.args(["-f", "-c", "-q", "-o"]).arg(summary);
    for pid in server.tree().pids() {
        command.arg("-p").arg(pid.to_string());
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let deadline = Instant::now() + ATTACH_TIMEOUT;
    while !is_traced(server.pid()) {
        if Instant::now() > deadline {
            return Err(io::Error::other("strace could not attach"));
        }
        thread::sleep(Duration::from_millis(10));
    }
    // The other threads and processes of the tree follow at once.
    thread::sleep(Duration::from_millis(200));
    Ok(child)
}

/// INT makes strace let go and write its summary.
fn detach(mut strace: Child) -> io::Result<()> {
    let pid = i32::try_from(strace.id()).ok().and_then(rustix::process::Pid::from_raw).ok_or_else(|| io::Error::other("no such id"))?;
    rustix::process::kill_process(pid, Signal::INT)?;
    strace.wait().map(drop)
}

fn is_traced(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().filter_map(|line| line.strip_prefix("TracerPid:")).any(|tracer| tracer.trim() != "0")
}

/// The `calls` column of the closing line: `100.00    0.028   6   4001      3 total`, with or without errors.
fn total(summary: &str) -> Option<u64> {
    let line = summary.lines().find(|line| line.trim_end().ends_with(" total"))?;
    line.split_ascii_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_line() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n------ ----------- ----------- --------- --------- ----------------\n \
             50.00    0.010000           2      4000           sendto\n------ ----------- ----------- --------- --------- ----------------\n\
             100.00    0.020000           2      8001         3 total\n";
        assert_eq!(total(text), Some(8001));
        assert_eq!(total("strace: attach: ptrace(PTRACE_SEIZE, 1): Operation not permitted"), None);
    }
}
