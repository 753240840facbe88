//! The launcher: a process outside of the sandbox that starts a successor of the server when a
//! signal or a changed file asks for a configuration that the sandbox does not allow.
//!
//! Called by: the start, before the process is confined; the reload; `take_part`, in the launcher.
//! Caveat: the server that asks may be an attacker's by then. It sends a byte and nothing else: the
//! successor is this program, with the arguments and the environment of the first start, and reads
//! the configuration itself. One is started at a time.
//! Out of scope: taking over, which the successor does (`upgrade`); the command line's way, which
//! needs no launcher (`saker_cli`).

use super::systemd::OF_ONE_PROCESS;
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use saker_broker::Role;
use saker_cli::apache::detach;
use saker_control::upgrade::{TAKE_OVER, VARIABLE};
use saker_telemetry::{error_log, message};
use std::{
    env,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::Path,
    process::{Child, Command, Stdio},
};

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
    pub fn launch(&self) {
        match (&self.0).write_all(b"s") {
            Ok(()) => error_log::log(&message::SUCCESSOR_LAUNCHED, format_args!("")),
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
    let mut orders = io::stdin();
    // Orders that came meanwhile are for the same configuration.
    let mut order = [0; 64];
    while orders.read(&mut order)? > 0 {
        match successor(&program).spawn() {
            Ok(mut child) if has_ended(&child, &orders) => drop(child.wait()),
            Ok(_) => return Ok(()),
            Err(error) => eprintln!("saker: cannot start {}: {error}", program.display()),
        }
    }
    Ok(())
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
    command.env_remove(saker_broker::ROLE);
    for name in OF_ONE_PROCESS {
        command.env_remove(name);
    }
    command
        .env(VARIABLE, TAKE_OVER)
        .process_group(0)
        .stdin(Stdio::null());
    command
}
