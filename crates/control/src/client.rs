//! The client side of the control socket. Blocking.
//!
//! Called by: commands; the start, to take over from a stopping server.
//! Caveat: "stopped" means that the process has exited. A pidfd tells; where there is none (the
//! server lives in another pid namespace), the lock in the state directory does.

use crate::{
    bans::BanVerb,
    cache::CacheVerb,
    hosts::HostsVerb,
    peers::NOT_ALLOWED,
    start_record,
    state_dir::{self, SocketPath},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    net::sockopt::socket_peercred,
    process::{Pid, PidfdFlags, pidfd_open},
};
use serde_json::{Value, json};
use std::{
    fmt,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Timeout for answers from memory.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Reading a large configuration, or a large cache, may take a while.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(120);
/// Time added to the server's own shutdown timeout.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// Maximum length of an answer; that of a server that hands over contains its addresses.
const ANSWER_BYTES_MAX: usize = 1 << 20;
const STOP_POLL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub enum ClientError {
    NotRunning(PathBuf),
    /// The server said no, and why.
    Refused(String),
    /// Asked to hand over, it says that it does so to another process already.
    UpgradeUnderWay(String),
    /// Asked to reload, it did not take the configuration: rendered diagnostics.
    Configuration(String),
    Io(PathBuf, io::Error),
    /// The response cannot be parsed.
    Garbled(String),
    /// Root has not noted the start of this process.
    NoRecord(u64),
    /// The socket is another user's, neither root's nor the caller's.
    Stranger(PathBuf, u32),
    /// Asked to stop, the process lives on.
    StillRunning {
        pid: Option<u32>,
        after: Duration,
    },
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::NotRunning(state_dir) => write!(
                f,
                "no server is running (state directory {})",
                state_dir.display()
            ),
            ClientError::Refused(reason) => write!(f, "the server refused: {reason}"),
            ClientError::UpgradeUnderWay(reason) => f.write_str(reason),
            ClientError::Configuration(diagnostics) => f.write_str(diagnostics),
            ClientError::Io(socket, error) => write!(f, "{}: {error}", socket.display()),
            ClientError::Garbled(what) => write!(f, "invalid response from the server: {what}"),
            ClientError::NoRecord(pid) => write!(
                f,
                "{} has no record of the start of pid {pid}, and root runs nothing else: restart the server instead (systemctl restart)",
                start_record::folder().display()
            ),
            ClientError::Stranger(socket, uid) => write!(
                f,
                "{}: user {uid} listens there, whose server is not to be taken over by this one",
                socket.display()
            ),
            ClientError::StillRunning { pid, after } => {
                let pid = pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
                write!(
                    f,
                    "the server{pid} is still running after {} s; `saker stop --now` aborts open requests",
                    after.as_secs()
                )
            }
        }
    }
}

impl std::error::Error for ClientError {}

/// Way to a server: the control socket in a state directory, or another one.
pub trait Channel {
    /// Sends a verb of the control socket, and returns an answer that says `"ok": true`.
    ///
    /// # Errors
    ///
    /// Why there is no such answer.
    fn ask(&self, request: &Value, patience: Duration) -> Result<Value, ClientError>;
}

impl Channel for Path {
    fn ask(&self, request: &Value, patience: Duration) -> Result<Value, ClientError> {
        ask(self, request, patience)
    }
}

impl Channel for PathBuf {
    fn ask(&self, request: &Value, patience: Duration) -> Result<Value, ClientError> {
        ask(self, request, patience)
    }
}

/// The status report as JSON.
pub fn status(server: &(impl Channel + ?Sized)) -> Result<Value, ClientError> {
    server.ask(&json!({ "verb": "status" }), ANSWER_TIMEOUT)
}

/// Figures of the last seconds, in columns.
pub fn live(server: &(impl Channel + ?Sized), seconds: u64) -> Result<Value, ClientError> {
    let request = json!({ "verb": "live", "seconds": seconds });
    server.ask(&request, ANSWER_TIMEOUT)
}

/// Prometheus text.
pub fn metrics(state_dir: &Path) -> Result<String, ClientError> {
    let answer = ask(state_dir, &json!({ "verb": "metrics" }), ANSWER_TIMEOUT)?;
    let text = answer.get("text").and_then(Value::as_str);
    text.map(str::to_owned)
        .ok_or_else(|| ClientError::Garbled("metrics without text".into()))
}

/// The reload report as JSON.
pub fn reload(server: &(impl Channel + ?Sized)) -> Result<Value, ClientError> {
    server.ask(&json!({ "verb": "reload" }), RELOAD_TIMEOUT)
}

/// Sends a page cache command. Its answer may take reading many files.
pub fn cache(server: &(impl Channel + ?Sized), verb: &CacheVerb) -> Result<Value, ClientError> {
    server.ask(&verb.to_json(), RELOAD_TIMEOUT)
}

/// Sends a ban command.
pub fn bans(server: &(impl Channel + ?Sized), verb: &BanVerb) -> Result<Value, ClientError> {
    server.ask(&verb.to_json(), ANSWER_TIMEOUT)
}

/// Sends a dynamic virtual host command.
pub fn hosts(state_dir: &Path, verb: &HostsVerb) -> Result<Value, ClientError> {
    ask(state_dir, &verb.to_json(), ANSWER_TIMEOUT)
}

/// State of the server in its cluster.
pub fn cluster_status(state_dir: &Path) -> Result<Value, ClientError> {
    ask(
        state_dir,
        &json!({ "verb": "cluster-status" }),
        ANSWER_TIMEOUT,
    )
}

/// Asks for a link for logging in to the console.
pub fn console_link(state_dir: &Path) -> Result<Value, ClientError> {
    ask(state_dir, &json!({ "verb": "console" }), ANSWER_TIMEOUT)
}

pub fn reopen_logs(state_dir: &Path) -> Result<(), ClientError> {
    ask(state_dir, &json!({ "verb": "reopen-logs" }), ANSWER_TIMEOUT).map(drop)
}

/// Asks a server that is stopping for its state directory. The connection stays, and its answer
/// comes with it.
pub fn take_over(state_dir: &Path) -> Result<(UnixStream, Value), ClientError> {
    begin(state_dir, "hand-over")
}

/// The command line and the environment that the server was started with, and `listening_uid`: the
/// user that opened the socket, by the kernel's word. Root has them from its own record: what
/// answers on a socket that root has opened need not be root's by now.
pub fn origin(state_dir: &Path) -> Result<Value, ClientError> {
    let mut stream = connect(state_dir)?;
    let uid = listening_uid(&stream)
        .map_err(|error| ClientError::Io(state_dir.join(state_dir::SOCKET), error))?;
    let mut said = match uid == 0 && rustix::process::geteuid().is_root() {
        true => recorded_origin(&mut stream, state_dir)?,
        false => {
            let request = json!({ "verb": "origin" });
            answer(&converse(&mut stream, state_dir, &request, ANSWER_TIMEOUT)?)?
        }
    };
    said["listening_uid"] = json!(uid);
    Ok(said)
}

fn recorded_origin(stream: &mut UnixStream, state_dir: &Path) -> Result<Value, ClientError> {
    let request = json!({ "verb": "status" });
    let status = answer(&converse(stream, state_dir, &request, ANSWER_TIMEOUT)?)?;
    let pid = status["pid"]
        .as_u64()
        .ok_or_else(|| ClientError::Garbled("no pid in it".into()))?;
    let folder = start_record::folder();
    start_record::read(&folder, state_dir, pid)
        .map_err(|error| ClientError::Io(folder, error))?
        .ok_or(ClientError::NoRecord(pid))
}

/// The user that opened the socket at the other end.
pub(crate) fn listening_uid(stream: &UnixStream) -> io::Result<u32> {
    Ok(socket_peercred(stream)?.uid.as_raw())
}

/// Returns true for a user whose server the caller may do as it says: root, and the caller itself.
/// Others may be able to write to a state directory, and to put a socket of their own there.
pub fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Reads once; again where the process was stopped meanwhile and went on, or its machine did: a socket
/// with a time limit tells that instead of waiting on (signal(7)).
pub fn read_some(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// Begins a conversation that goes on behind its first answer.
pub(crate) fn begin(state_dir: &Path, verb: &str) -> Result<(UnixStream, Value), ClientError> {
    let failed = |error| ClientError::Io(state_dir.join(state_dir::SOCKET), error);
    let mut stream = connect(state_dir)?;
    stream
        .set_read_timeout(Some(ANSWER_TIMEOUT))
        .map_err(failed)?;
    stream
        .set_write_timeout(Some(ANSWER_TIMEOUT))
        .map_err(failed)?;
    stream
        .write_all(format!("{}\n", json!({ "verb": verb })).as_bytes())
        .map_err(failed)?;
    // No byte beyond the line: the rest of the conversation is another's.
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.last() != Some(&b'\n')
        && line.len() < ANSWER_BYTES_MAX
        && read_some(&mut stream, &mut byte).map_err(failed)? > 0
    {
        line.push(byte[0]);
    }
    answer(&String::from_utf8_lossy(&line)).map(|answer| (stream, answer))
}

/// Returns once the process is gone, with the pid that it had.
pub fn stop(state_dir: &Path, graceful: bool) -> Result<Option<u32>, ClientError> {
    let before = status(state_dir)?;
    let pid = before
        .get("pid")
        .and_then(Value::as_u64)
        .and_then(|pid| u32::try_from(pid).ok());
    let allowed = before
        .get("shutdown_timeout_ms")
        .and_then(Value::as_u64)
        .unwrap_or(0);
    let patience = STOP_GRACE
        + if graceful {
            Duration::from_millis(allowed)
        } else {
            Duration::ZERO
        };
    // Opened while the server surely lives, so that it can't stand for a later process with the
    // same pid.
    let process = pid.and_then(open_process);
    ask(
        state_dir,
        &json!({ "verb": "stop", "graceful": graceful }),
        ANSWER_TIMEOUT,
    )?;
    let gone = match process {
        Some(process) => wait_for_exit(&process, patience),
        None => wait_for_lock(state_dir, patience),
    };
    if gone {
        Ok(pid)
    } else {
        Err(ClientError::StillRunning {
            pid,
            after: patience,
        })
    }
}

/// The answer where it says `"ok": true`.
fn ask(state_dir: &Path, request: &Value, patience: Duration) -> Result<Value, ClientError> {
    answer(&exchange(state_dir, request, patience)?)
}

fn answer(line: &str) -> Result<Value, ClientError> {
    let answer: Value =
        serde_json::from_str(line).map_err(|error| ClientError::Garbled(error.to_string()))?;
    let says = |name: &str| answer.get(name) == Some(&Value::Bool(true));
    match (
        answer.get("ok").and_then(Value::as_bool),
        answer.get("error").and_then(Value::as_str),
    ) {
        (Some(true), _) => Ok(answer),
        (Some(false), Some(reason)) if says("configuration") => {
            Err(ClientError::Configuration(reason.to_owned()))
        }
        (Some(false), Some(reason)) if says("is_under_way") => {
            Err(ClientError::UpgradeUnderWay(reason.to_owned()))
        }
        (Some(false), Some(reason)) => Err(ClientError::Refused(reason.to_owned())),
        _ => Err(ClientError::Garbled("neither ok nor an error".into())),
    }
}

fn exchange(state_dir: &Path, request: &Value, patience: Duration) -> Result<String, ClientError> {
    converse(&mut connect(state_dir)?, state_dir, request, patience)
}

fn converse(
    stream: &mut UnixStream,
    state_dir: &Path,
    request: &Value,
    patience: Duration,
) -> Result<String, ClientError> {
    let failed = |error| ClientError::Io(state_dir.join(state_dir::SOCKET), error);
    stream.set_read_timeout(Some(patience)).map_err(failed)?;
    stream.set_write_timeout(Some(patience)).map_err(failed)?;
    stream
        .write_all(format!("{request}\n").as_bytes())
        .map_err(failed)?;
    let mut line = String::new();
    stream
        .read_to_string(&mut line)
        .map_err(|error| failed(plain_timeout(error, patience)))?;
    Ok(line)
}

fn connect(state_dir: &Path) -> Result<UnixStream, ClientError> {
    let connected = SocketPath::new(state_dir).and_then(|path| UnixStream::connect(path.as_path()));
    connected.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::ConnectionRefused
        | io::ErrorKind::NotADirectory => ClientError::NotRunning(state_dir.to_owned()),
        io::ErrorKind::PermissionDenied => ClientError::Refused(NOT_ALLOWED.into()),
        _ => ClientError::Io(state_dir.join(state_dir::SOCKET), error),
    })
}

/// A socket's time-out is `EAGAIN`, which tells a reader nothing.
fn plain_timeout(error: io::Error, patience: Duration) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within {} s", patience.as_secs()),
        ),
        _ => error,
    }
}

fn open_process(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// A pidfd is readable once its process has ended, even before it is reaped.
fn wait_for_exit(process: &OwnedFd, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

fn wait_for_lock(state_dir: &Path, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    while state_dir::running(state_dir).is_some() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(STOP_POLL);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_that_was_stopped_reads_on() {
        struct Stopped(u8);
        impl Read for Stopped {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0 += 1;
                match self.0 {
                    3 => "read".as_bytes().read(buffer),
                    _ => Err(io::ErrorKind::Interrupted.into()),
                }
            }
        }
        let mut buffer = [0; 8];
        assert_eq!(read_some(&mut Stopped(0), &mut buffer).unwrap(), 4);
        assert!(buffer.starts_with(b"read"));
    }

    #[test]
    fn a_process_that_has_ended_is_gone_before_anybody_reaps_it() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = open_process(child.id()).unwrap();
        assert!(!wait_for_exit(&process, Duration::from_millis(20)));
        child.kill().unwrap();
        assert!(wait_for_exit(&process, Duration::from_secs(10)));
        child.wait().unwrap();
        assert!(open_process(0).is_none());
    }
}
