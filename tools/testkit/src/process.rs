//! Server processes: started, awaited, stopped, and never left behind.
//!
//! The one difficulty is who else runs: a server has workers, which its death alone does not end.
//! The tree is read from /proc before it is killed. Absent on purpose: process groups, since Ctrl-C
//! in a terminal has to reach the servers of a bench.

use crate::{
    process_figures::{ProcessTree, pid_of},
    readiness::Sign,
    standard_error::StandardError,
    wait::poll,
};
pub use rustix::process::Signal;
use rustix::process::{Resource, Rlimit, getrlimit, kill_process, setrlimit};
use std::{
    fs::{self, File, TryLockError},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    ops::Range,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

/// A debug build on a busy machine takes a while.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// On drop, a server does not get its full shutdown time.
const DROP_TIMEOUT: Duration = Duration::from_millis(500);
/// Another program may take the port between `free_port` and the server's bind.
const PORT_ATTEMPTS: usize = 3;

/// A running server. Dropping it kills it with everything that it started.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    address: SocketAddr,
    stderr: Option<StandardError>,
}

/// Stops a process, and returns when none of its threads runs any more: the signal is for one of
/// them, and until that one gets a turn the others answer on.
pub fn pause_process(pid: u32) -> io::Result<()> {
    kill_process(pid_of(pid)?, Signal::STOP)?;
    poll(STOP_TIMEOUT, || all_threads_stand_still(pid).then_some(()))
        .ok_or_else(|| io::Error::other(format!("process {pid} still runs")))
}

fn all_threads_stand_still(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name, which may have parentheses of its own. An empty text: the
        // thread has ended.
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
        matches!(state, None | Some(b'T' | b't' | b'Z' | b'X'))
    })
}

/// Below the ports that the kernel gives to clients: between our look and the server's start one of
/// those would take it.
const PORTS: Range<u16> = 12_000..32_000;

/// A loopback port that was free a moment ago, over TCP and UDP.
pub fn free_port() -> io::Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes that run side by side begin at different ones.
    let first = std::process::id().wrapping_mul(197);
    let ports = PORTS.map(|_| {
        let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        PORTS.start + (first.wrapping_add(step) % u32::from(PORTS.end - PORTS.start)) as u16
    });
    free_port_among(ports).ok_or_else(|| io::ErrorKind::AddrInUse.into())
}

/// The first of some loopback ports that is free over TCP and UDP, and that no other test process
/// has reserved.
pub fn free_port_among(mut ports: impl Iterator<Item = u16>) -> Option<u16> {
    ports.find(|port| {
        let address = (Ipv4Addr::LOCALHOST, *port);
        reserve(*port) && TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
    })
}

/// A folder of locks of all test processes of the machine: each run has a temporary folder of its own.
pub(crate) fn for_all_runs(name: &str) -> PathBuf {
    let all = Path::new("/tmp");
    let folder = if all.is_dir() {
        all.to_path_buf()
    } else {
        std::env::temp_dir()
    };
    folder.join(name)
}

/// Reserves the port against other test processes for as long as this one runs, also between two of
/// its servers. If reservations can't be made, the port counts as free.
fn reserve(port: u16) -> bool {
    static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let folder = for_all_runs("saker-test-ports");
    let _ = fs::create_dir(&folder);
    let Ok(file) = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join(port.to_string()))
    else {
        return true;
    };
    match file.try_lock() {
        Ok(()) => HELD
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(file),
        Err(TryLockError::WouldBlock) => return false,
        Err(TryLockError::Error(_)) => {}
    }
    true
}

/// Lifts the limits on descriptors to `wanted`, for this process and what it starts; where that
/// needs rights that we do not have, the soft limit to the hard one. Says what holds then.
pub fn raise_descriptor_limit(wanted: u64) -> io::Result<u64> {
    let now = getrlimit(Resource::Nofile);
    let hard = now.maximum.unwrap_or(u64::MAX);
    // Other tests of this process may need more.
    if let Some(current) = now.current.filter(|current| *current >= wanted) {
        return Ok(current);
    }
    let set = |limit: u64| {
        setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(limit),
                maximum: Some(limit.max(hard)),
            },
        )
    };
    if set(wanted).is_ok() {
        return Ok(wanted);
    }
    set(hard)?;
    Ok(hard)
}

impl ServerProcess {
    /// Starts `command`, which has to listen on `address`, and waits until it accepts.
    pub fn start_accepting(
        command: &mut Command,
        address: SocketAddr,
    ) -> io::Result<ServerProcess> {
        let server = ServerProcess::spawn(command, address)?;
        server.wait_until_accepting(READY_TIMEOUT)
    }

    /// As [`start_accepting`](Self::start_accepting), and waits until its other listeners are open,
    /// as far as it shows that ([`Sign`]).
    pub fn start(command: &mut Command, address: SocketAddr) -> io::Result<ServerProcess> {
        let server = ServerProcess::start_accepting(command, address)?;
        if let Some(sign) = Sign::of(command) {
            server.wait_for_sign(&sign)?;
        }
        Ok(server)
    }

    /// As [`start`](Self::start), on a free loopback port that `command` is told.
    pub fn start_on_free_port(command: impl FnMut(u16) -> Command) -> io::Result<ServerProcess> {
        ServerProcess::on_free_port(command, ServerProcess::start)
    }

    /// Starts a command by `start` on a free loopback port that it is told.
    pub(crate) fn on_free_port(
        mut command: impl FnMut(u16) -> Command,
        start: fn(&mut Command, SocketAddr) -> io::Result<ServerProcess>,
    ) -> io::Result<ServerProcess> {
        let mut attempt = 1;
        loop {
            let port = free_port()?;
            match start(
                &mut command(port),
                SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            ) {
                Err(error)
                    if attempt < PORT_ATTEMPTS && error.kind() != io::ErrorKind::NotFound =>
                {
                    attempt += 1
                }
                outcome => return outcome,
            }
        }
    }

    /// Starts without waiting: for servers that are expected to refuse their configuration.
    pub fn spawn(command: &mut Command, address: SocketAddr) -> io::Result<ServerProcess> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = child.stderr.take().map(StandardError::of).transpose()?;
        Ok(ServerProcess {
            child,
            address,
            stderr,
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns what it has written to standard error so far.
    pub fn stderr(&self) -> String {
        let text = |stderr: &StandardError| stderr.text(self.pid());
        self.stderr.as_ref().map(text).unwrap_or_default()
    }

    /// Waits until standard error contains `text`.
    pub fn wait_for_stderr(&self, text: &str, timeout: Duration) -> io::Result<()> {
        match poll(timeout, || self.stderr().contains(text).then_some(())) {
            Some(()) => Ok(()),
            None => Err(self.complaint(&format!("standard error did not say `{text}`"))),
        }
    }

    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(pid_of(self.pid())?, signal)?)
    }

    /// Stands still with its connections until `go_on`.
    pub fn pause(&self) -> io::Result<()> {
        pause_process(self.pid())
    }

    pub fn go_on(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// The process with all that it started.
    pub fn tree(&self) -> ProcessTree {
        ProcessTree::of(self.pid())
    }

    /// `None` where it still runs after `timeout`.
    pub fn wait_for_exit(&mut self, timeout: Duration) -> io::Result<Option<ExitStatus>> {
        poll(timeout, || self.child.try_wait().transpose()).transpose()
    }

    /// TERM, then KILL where that takes too long.
    pub fn stop(mut self) -> io::Result<ExitStatus> {
        self.stop_within(STOP_TIMEOUT)
    }

    /// KILL to the process alone: what a crash is like.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    fn stop_within(&mut self, timeout: Duration) -> io::Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        let tree = self.tree();
        self.signal(Signal::TERM)?;
        let status = match self.wait_for_exit(timeout)? {
            Some(status) => status,
            None => self.kill()?,
        };
        tree.kill_survivors();
        Ok(status)
    }

    fn wait_until_accepting(mut self, timeout: Duration) -> io::Result<ServerProcess> {
        let address = self.address;
        let end = poll(timeout, || match self.child.try_wait() {
            Ok(None) => TcpStream::connect_timeout(&address, Duration::from_secs(1))
                .ok()
                .map(|_| None),
            Ok(Some(status)) => Some(Some(status.to_string())),
            Err(error) => Some(Some(error.to_string())),
        });
        match end {
            Some(None) => Ok(self),
            Some(Some(status)) => {
                // Its last words may still be in the pipe.
                poll(STOP_TIMEOUT, || self.is_stderr_closed().then_some(()));
                Err(self.complaint(&format!("ended ({status}) before it accepted on {address}")))
            }
            None => Err(self.complaint(&format!("did not accept on {address} within {timeout:?}"))),
        }
    }

    /// Waits until the workers run: sockets accept before that. `state_dir` holds the control socket.
    ///
    /// # Errors
    /// If the server ends before, or takes too long.
    pub fn wait_until_ready(&self, state_dir: &Path) -> io::Result<()> {
        self.wait_for_sign(&Sign::Control(state_dir.to_owned()))
    }

    fn wait_for_sign(&self, sign: &Sign) -> io::Result<()> {
        let is_shown = || sign.is_shown_by(self.pid());
        let ready = poll(READY_TIMEOUT, || {
            (is_shown() || self.has_ended()).then(is_shown)
        });
        match ready {
            Some(true) => Ok(()),
            Some(false) => Err(self.complaint("ended before it was ready")),
            None => Err(self.complaint(&format!(
                "was not ready within {READY_TIMEOUT:?}: {sign:?} is awaited"
            ))),
        }
    }

    /// True for a process that has ended, also if it has not been waited for.
    fn has_ended(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        !matches!(stat.rsplit_once(") "), Some((_, state)) if !state.starts_with('Z'))
    }

    fn is_stderr_closed(&self) -> bool {
        self.stderr.as_ref().is_none_or(StandardError::is_finished)
    }

    fn complaint(&self, what: &str) -> io::Error {
        io::Error::other(format!(
            "server {}: {what}; its standard error:\n{}",
            self.pid(),
            self.stderr()
        ))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Nothing sensible is left to do with an error here.
        let _ = self.stop_within(DROP_TIMEOUT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TempDir;
    use std::thread;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn nowhere() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 9))
    }

    #[test]
    fn a_server_that_ends_at_once_is_reported_with_its_last_words() {
        let error = ServerProcess::start(
            &mut shell("echo broken configuration >&2; exit 3"),
            nowhere(),
        )
        .expect_err("it ended");
        let text = error.to_string();
        assert!(
            text.contains("broken configuration") && text.contains("exit status: 3"),
            "{text}"
        );
    }

    #[test]
    fn accepting_ends_the_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("address");
        let server = ServerProcess::start(&mut shell("exec sleep 30"), address).expect("accepted");
        let status = server.stop().expect("stopped");
        assert!(!status.success());
    }

    #[test]
    fn a_server_with_a_pid_file_is_awaited_until_it_is_written() {
        let dir = TempDir::new("late-pid").expect("made");
        let (pid, accepted) = (dir.join("pid"), dir.join("accepted"));
        let configuration = dir
            .write("nginx.conf", format!("pid {};\n", pid.display()))
            .expect("written");
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("address");
        // It opens its last listener after the first has been connected to.
        let script = format!(
            "while [ ! -e {accepted} ]; do sleep 0.02; done; echo $$ >{pid}; exec sleep 30",
            accepted = accepted.display(),
            pid = pid.display()
        );
        let mut command = shell(&script);
        command.arg("nginx").arg("-c").arg(configuration);
        let knocked = thread::spawn(move || {
            listener.accept().expect("connected");
            fs::write(accepted, "").expect("written");
        });
        let server = ServerProcess::start(&mut command, address).expect("ready");
        let text = fs::read_to_string(pid).expect("the file is there");
        assert_eq!(text.trim(), server.pid().to_string());
        knocked.join().expect("accepted");
    }

    #[test]
    fn term_is_enough_for_the_polite_and_its_words_are_kept() {
        let script =
            "trap 'echo bye >&2; exit 0' TERM; echo ready >&2; while :; do sleep 0.02; done";
        let mut server = ServerProcess::spawn(&mut shell(script), nowhere()).expect("started");
        server
            .wait_for_stderr("ready", Duration::from_secs(5))
            .expect("ready");
        server.signal(Signal::TERM).expect("sent");
        let status = server
            .wait_for_exit(Duration::from_secs(5))
            .expect("waited")
            .expect("ended");
        assert!(status.success());
        server
            .wait_for_stderr("bye", Duration::from_secs(5))
            .expect("last words");
    }

    #[test]
    fn dropping_kills_the_deaf_and_their_children() {
        let script = "trap '' TERM; sh -c 'trap \"\" TERM; echo child $$ >&2; while :; do sleep 0.02; done' & wait; wait";
        let server = ServerProcess::spawn(&mut shell(script), nowhere()).expect("started");
        server
            .wait_for_stderr("child", Duration::from_secs(5))
            .expect("child runs");
        let tree = server.tree();
        assert!(tree.pids().len() >= 2, "{tree:?}");
        drop(server);
        let gone = poll(Duration::from_secs(5), || {
            tree.alive().is_empty().then_some(())
        });
        assert!(gone.is_some(), "{:?} survived", tree.alive());
    }
}
