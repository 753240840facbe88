//! The launcher: a process outside of the sandbox that starts a successor of the server when a
//! signal or a changed file asks for a configuration that the sandbox does not allow.
//!
//! Called by: the start, before the process is confined; the reload; `take_part`, in the launcher.
//! Caveat: the server that asks may be an attacker's by then. It sends a byte and nothing else: the
//! successor is this program, with the arguments and the environment of the first start, and reads
//! the configuration itself. One is started at a time.
//! nginx's USR2 makes it the master of the old program: it stands in `nginx.pid.oldbin` until QUIT or
//! TERM, and HUP brings the old program back, in a process that takes over from the new one. After
//! the next USR2 another one stands there, and the first ends. It is started once the server that it was the
//! launcher of has finished its requests: until then the running one would refuse to give way.
//! Out of scope: taking over, which the successor does (`upgrade`); the command line's way, which
//! needs no launcher (`saker_cli`).

use super::systemd::OF_ONE_PROCESS;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::OFlags,
    process::{Pid, PidfdFlags, getppid, pidfd_open},
};
use saker_broker::Role;
use saker_cli::apache::detach;
use saker_control::upgrade::{FROM, TAKE_OVER, VARIABLE};
use saker_telemetry::{error_log, message};
use std::{
    env,
    fs::{self, File},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            fs::{MetadataExt, OpenOptionsExt},
            net::UnixStream,
            process::CommandExt,
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};
use tokio::{
    runtime::{self, Runtime},
    signal::unix::{Signal, SignalKind, signal},
};

/// Interval of checks for another process in the place of the old program.
const FILE_POLL: Duration = Duration::from_secs(1);
/// Interval of checks for the end of the old server, and for the old program to serve again.
const SERVES_POLL: Duration = Duration::from_millis(50);
/// The running server may learn a moment later that the one before it has ended: pauses before the
/// old program is started once more, each twice the last.
const RETRY_MIN: Duration = Duration::from_millis(100);
const STARTS_MAX: u32 = 6;
/// Bytes that a file with the number of a process may have.
const PID_BYTES_MAX: u64 = 32;

/// Why a successor is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The sandbox allows too little.
    Outgrown,
    /// nginx's USR2.
    Upgrade,
}

/// The server's end.
pub struct Launcher(UnixStream);

impl Launcher {
    /// `streams`: standard output and errors of the server that this one takes over from; those of
    /// this process are still the command's that upgrades.
    ///
    /// # Errors
    /// There is no process to be had.
    pub fn start(streams: Option<&[OwnedFd; 2]>) -> io::Result<Launcher> {
        let (ours, theirs) = UnixStream::pair()?;
        // Descriptors that the server was started with are not for successors, which get them from
        // the server.
        saker_net::process::close_at_exec();
        let mut command = saker_broker::again(Role::Launcher);
        if let Some([out, error]) = streams {
            command.stdout(out.try_clone()?).stderr(error.try_clone()?);
        } else if detach::is_detached() {
            // The command that started the server reads its errors to their end, which must not
            // wait for this process.
            command.stderr(Stdio::null());
        }
        command
            .stdin(OwnedFd::from(theirs))
            .process_group(0)
            .spawn()?;
        ours.set_nonblocking(true)?;
        Ok(Launcher(ours))
    }

    /// Asks for a successor. Whatever it lacks is in the error log.
    pub fn launch(&self, cause: Cause) {
        let (order, why) = match cause {
            Cause::Outgrown => (
                b"s",
                "the sandbox of this one allows too little for the configuration",
            ),
            Cause::Upgrade => (b"u", "signal USR2"),
        };
        match (&self.0).write_all(order) {
            Ok(()) => error_log::log(&message::SUCCESSOR_LAUNCHED, format_args!("{why}")),
            // So many were asked for already.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => error_log::log(&message::UPGRADE_FAILED, format_args!("{error}")),
        }
    }
}

/// Runs the launcher until the server has ended.
///
/// # Errors
/// The program file is unknown.
pub fn run() -> io::Result<()> {
    let program = env::current_exe()?;
    let server = getppid().and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let mut orders = io::stdin();
    // Orders that came meanwhile are for the same configuration.
    let mut order = [0; 64];
    loop {
        let count = orders.read(&mut order)?;
        if count == 0 {
            return Ok(());
        }
        let is_upgrade = order.iter().take(count).any(|byte| *byte == b'u');
        let old = is_upgrade.then(OldProgram::announce).flatten();
        match successor(&program).spawn() {
            Ok(mut child) if has_ended(&child, &orders) => drop(child.wait()),
            Ok(_) => {
                if let Some(old) = old {
                    old.stand_in(server.as_ref());
                }
                return Ok(());
            }
            Err(error) => eprintln!("saker: cannot start {}: {error}", program.display()),
        }
    }
}

/// Waits for the end of the successor, or of the server, which has handed over then.
fn has_ended(child: &Child, server: &io::Stdin) -> bool {
    let number = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let Some(process) = number.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return false;
    };
    loop {
        let mut ends = [
            PollFd::new(&process, PollFlags::IN),
            PollFd::from_borrowed_fd(server.as_fd(), PollFlags::empty()),
        ];
        if poll(&mut ends, None).is_ok() && ends.iter().any(|end| !end.revents().is_empty()) {
            return !ends[0].revents().is_empty();
        }
    }
}

fn successor(program: &Path) -> Command {
    let mut command = saker_broker::with_own_arguments(program);
    command.env_remove(saker_broker::ROLE).env_remove(FROM);
    for name in OF_ONE_PROCESS {
        command.env_remove(name);
    }
    command
        .env(VARIABLE, TAKE_OVER)
        .process_group(0)
        .stdin(Stdio::null());
    command
}

/// The master of the old program after nginx's USR2: this process, in `nginx.pid.oldbin`. The file
/// goes with it.
struct OldProgram {
    file: PathBuf,
    /// Kept open, so that no other file gets its number.
    created: File,
    runtime: Runtime,
    ends: [Signal; 3],
    hangup: Signal,
    /// They mean nothing here, and would end the process.
    _ignored: [Signal; 2],
}

impl OldProgram {
    /// `None`: there is no file to be had, as the error output says.
    fn announce() -> Option<OldProgram> {
        let words: Vec<String> = env::args().collect();
        let mut file = saker_cli::nginx::pid_file(&words)?.into_os_string();
        file.push(".oldbin");
        let file = PathBuf::from(file);
        match OldProgram::write(file.clone()) {
            Ok(old) => Some(old),
            Err(error) => {
                eprintln!("saker: cannot create {}: {error}", file.display());
                None
            }
        }
    }

    fn write(file: PathBuf) -> io::Result<OldProgram> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let inside = runtime.enter();
        let (quit, terminate) = (
            signal(SignalKind::quit())?,
            signal(SignalKind::terminate())?,
        );
        let ends = [quit, terminate, signal(SignalKind::interrupt())?];
        let hangup = signal(SignalKind::hangup())?;
        let user1 = signal(SignalKind::user_defined1())?;
        let _ignored = [user1, signal(SignalKind::user_defined2())?];
        drop(inside);
        // A name in a folder of the server's user may be a link; it is not followed.
        let _ = fs::remove_file(&file);
        let mut created = File::options().write(true).create_new(true).open(&file)?;
        writeln!(created, "{}", std::process::id())?;
        Ok(OldProgram {
            file,
            created,
            runtime,
            ends,
            hangup,
            _ignored,
        })
    }

    /// Waits for the signal that ends the old program, or brings it back; or for another in its
    /// place.
    fn stand_in(mut self, server: Option<&OwnedFd>) {
        if !self.is_called_back() {
            return;
        }
        // Its requests may be downloads.
        while server.is_some_and(is_running) {
            if self.ends_within(SERVES_POLL) {
                return;
            }
        }
        for number in 0..STARTS_MAX {
            // The file of the program may be the new one's by now, but not the program of this process.
            let started = successor(Path::new("/proc/self/exe")).spawn();
            match started.map(|child| self.serves(child)) {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    eprintln!("saker: cannot start the old program: {error}");
                    return;
                }
            }
            if self.ends_within(RETRY_MIN * 2_u32.pow(number)) {
                return;
            }
        }
    }

    /// Waits for HUP; false if the old program ends instead.
    fn is_called_back(&mut self) -> bool {
        let (ends, hangup) = (&mut self.ends, &mut self.hangup);
        let (file, created) = (&self.file, &self.created);
        self.runtime.block_on(async {
            loop {
                tokio::select! {
                    () = one_of(ends) => return false,
                    _ = hangup.recv() => return true,
                    () = tokio::time::sleep(FILE_POLL) => {
                        if !names(file, created) {
                            return false;
                        }
                    }
                }
            }
        })
    }

    /// Waits until the program that was started is the server, whose process the file names, or has
    /// ended without becoming it: false.
    fn serves(&mut self, mut child: Child) -> bool {
        let (pid_file, number) = (self.file.with_extension(""), child.id());
        let is_named = |pid: u32| {
            let text = read_pid_file(&pid_file).unwrap_or_default();
            text.trim().parse() == Ok(pid)
        };
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return status.success(),
                Ok(None) if is_named(number) || self.ends_within(SERVES_POLL) => return true,
                Ok(None) => {}
                Err(_) => return true,
            }
        }
    }

    /// Returns true if the old program ends within that time: by a signal, or because another one has
    /// its place.
    fn ends_within(&mut self, time: Duration) -> bool {
        let ends = &mut self.ends;
        let is_over = self.runtime.block_on(async {
            tokio::select! {
                () = one_of(ends) => true,
                () = tokio::time::sleep(time) => false,
            }
        });
        is_over || !names(&self.file, &self.created)
    }
}

/// The text of a file that may be in a folder of the server's user: no link is followed, no pipe waited
/// for, and no endless file read to its end.
fn read_pid_file(path: &Path) -> io::Result<String> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    let mut text = String::new();
    file.take(PID_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// False once the process has ended.
fn is_running(process: &OwnedFd) -> bool {
    let mut ends = [PollFd::new(process, PollFlags::IN)];
    poll(&mut ends, Some(&Timespec::default())) == Ok(0)
}

/// Waits for any of the signals.
async fn one_of([first, second, third]: &mut [Signal; 3]) {
    tokio::select! {
        _ = first.recv() => {}
        _ = second.recv() => {}
        _ = third.recv() => {}
    }
}

/// Returns true if the name leads to the open file.
fn names(path: &Path, opened: &File) -> bool {
    let number = |found: fs::Metadata| (found.dev(), found.ino());
    let named = fs::symlink_metadata(path).map(number);
    matches!((named, opened.metadata().map(number)), (Ok(named), Ok(opened)) if named == opened)
}

impl Drop for OldProgram {
    fn drop(&mut self) {
        if names(&self.file, &self.created) {
            let _ = fs::remove_file(&self.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;
    use std::os::unix::fs::symlink;

    /// A folder of the server's user is an attacker's if the server is.
    #[test]
    fn files_of_process_numbers_are_read_without_waiting() {
        let dir = TempDir::private("launcher").unwrap();
        let file = dir.write("pid", "123\n").unwrap();
        assert_eq!(read_pid_file(&file).unwrap(), "123\n");
        let long = dir.write("long", "1".repeat(100_000)).unwrap();
        assert_eq!(read_pid_file(&long).unwrap().len(), 32);
        symlink("/dev/zero", dir.join("link")).unwrap();
        assert!(read_pid_file(&dir.join("link")).is_err());
        let pipe = dir.join("pipe");
        assert!(
            Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        assert!(read_pid_file(&pipe).unwrap_or_default().is_empty());
    }

    #[test]
    fn a_process_runs_until_its_end() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
        let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        assert!(is_running(&process));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_running(&process));
    }
}
