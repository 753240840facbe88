//! Starts a program as another user, for the broker (`saker-broker`), which decides what may be
//! started as whom.
//!
//! Called by: the broker, which is root and has one thread. Caveat: groups come before the group,
//! and the group before the user; limits come before that, and the death signal after it, because a
//! change of user takes it away (prctl(2)). A program inherits the descriptors of its list: all
//! others are closed when it starts. One that runs as the server's own user has a process namespace
//! of its own where the kernel allows that, so that it can't signal the server.
#![allow(unsafe_code)]

use crate::{
    process::{Identity, close_at_exec},
    program::{ProgramLimits, lower_limits},
};
use rustix::{
    io::{FdFlags, fcntl_setfd},
    process::{Pid, Signal},
};
use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::PathBuf,
    process::{Child, Command},
};

/// The identity and the surroundings of a program.
#[derive(Debug)]
pub struct SpawnAs {
    pub identity: Identity,
    /// Working directory, entered before the change of user.
    pub opened_folder: Option<OwnedFd>,
    /// Working directory, entered as the user.
    pub own_folder: Option<PathBuf>,
    pub limits: ProgramLimits,
    /// Descriptors that stay open, under their numbers.
    pub inherited: Vec<OwnedFd>,
    /// Is killed when this process ends.
    pub ends_with_parent: bool,
    /// Begins a process namespace.
    pub is_apart: bool,
}

/// Starts the program. The caller waits for it by its number.
///
/// # Errors
/// The kernel's, of any of the steps.
pub fn spawn_as(mut command: Command, manner: SpawnAs) -> io::Result<Pid> {
    let SpawnAs {
        identity,
        opened_folder,
        own_folder,
        limits,
        inherited,
        ends_with_parent,
        is_apart,
    } = manner;
    let become_it = move || {
        lower_limits(limits)?;
        if let Some(folder) = &opened_folder {
            rustix::process::fchdir(folder)?;
        }
        identity.take()?;
        if let Some(folder) = &own_folder {
            rustix::process::chdir(folder)?;
        }
        for signal in IGNORED {
            // SAFETY: signal(2) with SIG_DFL takes numbers and touches no memory of ours. Test:
            // a_program_is_started_and_its_end_is_heard.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        rustix::process::set_parent_process_death_signal(
            Some(Signal::KILL).filter(|_| ends_with_parent),
        )?;
        close_at_exec();
        inherited
            .iter()
            .try_for_each(|descriptor| Ok(fcntl_setfd(descriptor.as_fd(), FdFlags::empty())?))
    };
    // SAFETY: assumes that this process has one thread, so that between fork and exec everything
    // may be called that may be called before (fork(2)); the broker's loop makes no other. Test:
    // a_program_is_started_and_its_end_is_heard.
    unsafe { command.pre_exec(become_it) };
    let child = if is_apart {
        spawn_apart(&mut command)?
    } else {
        command.spawn()?
    };
    Pid::from_raw(child.id().cast_signed()).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Starts it as the first process of a namespace (pid_namespaces(7)), or as an ordinary one where
/// the kernel does not allow that.
fn spawn_apart(command: &mut Command) -> io::Result<Child> {
    let Ok(own) = File::open("/proc/self/ns/pid") else {
        return command.spawn();
    };
    // SAFETY: unshare(2) with CLONE_NEWPID takes a number, touches no memory of ours, and changes
    // where children of this one thread begin. Test: a_program_of_the_servers_user_is_apart.
    if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
        return command.spawn();
    }
    let spawned = command.spawn();
    // SAFETY: setns(2) takes the number of a descriptor that `own` keeps open, and a flag. Children
    // begin in our own namespace again. Test: a_program_of_the_servers_user_is_apart.
    if unsafe { libc::setns(own.as_raw_fd(), libc::CLONE_NEWPID) } != 0 {
        let error = io::Error::last_os_error();
        if let Ok(mut child) = spawned {
            let _ = child.kill();
        }
        return Err(error);
    }
    spawned
}

/// Signals for the server, which its broker must outlive: it ends when the server does.
const IGNORED: [i32; 6] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

pub fn ignore_signals() {
    for signal in IGNORED {
        // SAFETY: signal(2) with SIG_IGN takes numbers and touches no memory of ours. Test:
        // a_program_is_started_and_its_end_is_heard.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}
