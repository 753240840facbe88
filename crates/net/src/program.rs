//! Programs started for one request: their pipes, their limits, their end.
//!
//! Starting takes as long as the kernel needs to create a process, so it runs on a thread that may
//! block; everything else runs on the event loop, including the end of a process (pidfd). A program
//! that runs as another user is started by the broker ([`Spawner`]), which signals it and waits for
//! it.
//!
//! Called by: the gateway.
//! Caveat: a process id may be reused once the process has been waited for, so the group is only
//! signaled before ([`Program::reap`] comes last). Dropping a program ends its group.
//! Out of scope: the data sent to a program and its response.
#![allow(unsafe_code)]

mod commands;

pub use commands::{Errors, start_command, start_commands_by};

use crate::{child::ChildSignal, process};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, kill_process_group, pidfd_open, setrlimit,
};
use std::{
    ffi::OsString,
    fmt, io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};
use tokio::io::{Interest, unix::AsyncFd};

/// Number of times a process is looked at where the kernel has no descriptors for processes (before
/// Linux 5.3).
const LOOK: Duration = Duration::from_millis(50);

/// Resource limits of a process; soft and hard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramLimits {
    pub cpu_s: Option<(u64, u64)>,
    pub memory_bytes: Option<(u64, u64)>,
    /// Limit per user, not per program.
    pub processes: Option<(u64, u64)>,
}

/// A program to be started.
#[derive(Debug)]
pub struct ProgramPlan {
    /// Absolute.
    pub file: PathBuf,
    /// The program's own name, as passed to it.
    pub name: OsString,
    pub arguments: Vec<OsString>,
    /// All of it: nothing of the server's own environment goes along.
    pub environment: Vec<(OsString, OsString)>,
    pub folder: PathBuf,
    pub limits: ProgramLimits,
    /// Without any, standard input is empty.
    pub has_input: bool,
    /// Whom it runs as, and by which group; `None`: the server's own user.
    pub user: Option<ProgramUser>,
}

/// Names or numbers, as the configuration has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramUser {
    pub user: String,
    /// `None`: the user's own.
    pub group: Option<String>,
}

/// A program that was started, and its pipes.
#[derive(Debug)]
pub struct Started {
    pub program: Program,
    pub input: Option<OwnedFd>,
    pub output: Option<OwnedFd>,
    pub errors: Option<OwnedFd>,
}

/// Starts programs as other users than the server's: the broker.
pub trait Spawner: Send + Sync + fmt::Debug {
    /// The server's user, whose programs are started so, too, because they are not to have what the
    /// server keeps from that user.
    fn own_user(&self) -> Option<&ProgramUser>;
    /// Starts it with these for its standard input, output and errors. `is_own`: for
    /// [`Spawner::own_user`].
    fn spawn(
        &self,
        plan: &ProgramPlan,
        user: &ProgramUser,
        is_own: bool,
        standard: [BorrowedFd<'_>; 3],
    ) -> io::Result<Box<dyn Spawned>>;
}

/// A program of a [`Spawner`]'s, and everything in its group. Dropped, all of it is ended.
pub trait Spawned: Send + fmt::Debug {
    fn id(&self) -> u32;
    /// Becomes readable when the program has ended.
    fn channel(&self) -> io::Result<OwnedFd>;
    /// The status of one that has ended.
    fn status(&mut self) -> Option<ExitStatus>;
    fn signal_all(&self, signal: ChildSignal);
    /// Lets the remaining processes of its group continue without it.
    fn release(self: Box<Self>);
}

/// Starts a program; one that runs as another user by the broker. Waits for the kernel: not for
/// threads that serve.
pub fn start(plan: &ProgramPlan, spawner: Option<&dyn Spawner>) -> io::Result<Started> {
    match (&plan.user, spawner) {
        (None, spawner) => match spawner.and_then(|spawner| Some((spawner, spawner.own_user()?))) {
            Some((spawner, own)) => start_as(plan, own, true, spawner),
            None => start_own(plan),
        },
        (Some(user), Some(spawner)) => start_as(plan, user, false, spawner),
        (Some(user), None) => {
            let reason = format!(
                "the server can't start programs as user {}: it has to be started as root",
                user.user
            );
            Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
        }
    }
}

fn start_as(
    plan: &ProgramPlan,
    user: &ProgramUser,
    is_own: bool,
    spawner: &dyn Spawner,
) -> io::Result<Started> {
    start_with(plan, user, is_own, spawner, Errors::Piped)
}

fn start_with(
    plan: &ProgramPlan,
    user: &ProgramUser,
    is_own: bool,
    spawner: &dyn Spawner,
    errors: Errors,
) -> io::Result<Started> {
    let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
    let (output, to_output) = pipe()?;
    let (errors, to_errors) = match errors {
        Errors::Piped => pipe().map(|(ours, its)| (Some(ours), its))?,
        Errors::Dropped => {
            let nowhere = std::fs::File::options().write(true).open("/dev/null")?;
            (None, nowhere.into())
        }
        Errors::Shared => (None, io::stderr().as_fd().try_clone_to_owned()?),
    };
    let (its_input, input) = match plan.has_input {
        true => pipe().map(|(its, ours)| (its, Some(ours)))?,
        false => (std::fs::File::open("/dev/null")?.into(), None),
    };
    let child = spawner.spawn(
        plan,
        user,
        is_own,
        [its_input.as_fd(), to_output.as_fd(), to_errors.as_fd()],
    )?;
    let end = child.channel()?;
    let program = Program {
        id: child.id(),
        child: Some(Handle::Spawned(child)),
        pidfd: Some(end),
        watched: None,
    };
    Ok(Started {
        program,
        input,
        output: Some(output),
        errors,
    })
}

fn start_own(plan: &ProgramPlan) -> io::Result<Started> {
    // Workers and threads that came of them are bound to a core each.
    process::unpin();
    // Ours are made so; libraries' and those that the server was started with are not.
    process::close_at_exec();
    let mut command = Command::new(&plan.file);
    command
        .arg0(&plan.name)
        .args(&plan.arguments)
        .env_clear()
        .current_dir(&plan.folder)
        .process_group(0);
    command.envs(plan.environment.iter().map(|(name, value)| (name, value)));
    command
        .stdin(if plan.has_input {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    limit(&mut command, plan.limits);
    Ok(started(command.spawn()?))
}

/// A child of this process, with the ends of its pipes.
fn started(mut child: Child) -> Started {
    let pidfd = Pid::from_raw(child.id().cast_signed())
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let program = Program {
        id: child.id(),
        child: Some(Handle::Own(child)),
        pidfd,
        watched: None,
    };
    Started {
        program,
        input: input.map(Into::into),
        output: output.map(Into::into),
        errors: errors.map(Into::into),
    }
}

/// Without limits the process is made by posix_spawn, which copies no page tables.
fn limit(command: &mut Command, limits: ProgramLimits) {
    if limits == ProgramLimits::default() {
        return;
    }
    // SAFETY: assumes that the closure does only what may be done between fork and exec of a
    // process with threads (signal-safety(7)): it makes three system calls on numbers that it owns,
    // allocates nothing and takes no lock. Test: limits_hold.
    unsafe { command.pre_exec(move || lower_limits(limits)) };
}

/// Lowers the limits of this process.
pub(crate) fn lower_limits(limits: ProgramLimits) -> io::Result<()> {
    let all = [
        (Resource::Cpu, limits.cpu_s),
        (Resource::As, limits.memory_bytes),
        (Resource::Nproc, limits.processes),
    ];
    all.iter()
        .try_for_each(|(resource, limit)| limit.map_or(Ok(()), |limit| lower(*resource, limit)))
}

/// Values above the server's own limit are capped at that limit.
fn lower(resource: Resource, (soft, hard): (u64, u64)) -> io::Result<()> {
    let own = rustix::process::getrlimit(resource)
        .maximum
        .unwrap_or(u64::MAX);
    let hard = hard.min(own);
    let told = |limit: u64| (limit != u64::MAX).then_some(limit);
    Ok(setrlimit(
        resource,
        Rlimit {
            current: told(soft.min(hard)),
            maximum: told(hard),
        },
    )?)
}

/// Whose child it is.
#[derive(Debug)]
enum Handle {
    Own(Child),
    Spawned(Box<dyn Spawned>),
}

/// A process of a group of its own that runs, or has ended and was not waited for. Dropped, its
/// group is ended.
#[derive(Debug)]
pub struct Program {
    id: u32,
    /// `None`: it has been waited for, and its process id may have been reused.
    child: Option<Handle>,
    pidfd: Option<OwnedFd>,
    watched: Option<AsyncFd<OwnedFd>>,
}

impl Program {
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Puts the process on the event loop of this thread. Must be called inside a tokio runtime.
    pub fn watch(&mut self) -> io::Result<()> {
        if let Some(pidfd) = self.pidfd.take() {
            // SAFETY: assumes that the descriptor stays open and the same until it is deregistered.
            // `AsyncFd` owns the `OwnedFd`, lends it by shared reference only, and deregisters
            // before it drops it. Test: an_end_is_seen.
            self.watched =
                Some(unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE)? });
        }
        Ok(())
    }

    /// Waits until the process has ended. Where that is seen by its descriptor, its group can still
    /// be signalled after that.
    pub async fn ended(&mut self) {
        match &self.watched {
            // Never cleared: an ended process stays ended.
            Some(pidfd) => drop(pidfd.readable().await),
            None => {
                while self.child.is_some() {
                    self.reap();
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
    }

    /// Asks the whole group to end.
    pub fn terminate(&self) {
        self.signal(ChildSignal::Term);
    }

    /// Ends the whole group.
    pub fn kill(&self) {
        self.signal(ChildSignal::Kill);
    }

    /// Returns the exit status of an ended process; `None`: it is running, or the status was
    /// already taken. Its process id is free after this.
    pub fn reap(&mut self) -> Option<ExitStatus> {
        let said = match self.child.as_mut()? {
            Handle::Own(child) => child.try_wait(),
            Handle::Spawned(child) => Ok(child.status()),
        };
        match said {
            Ok(None) => None,
            Ok(Some(status)) => {
                if let Some(Handle::Spawned(child)) = self.child.take() {
                    child.release();
                }
                Some(status)
            }
            // It has already been waited for elsewhere.
            Err(_) => {
                self.child = None;
                None
            }
        }
    }

    /// Returns true if the process has ended, which it is waited for by this.
    pub fn is_over(&mut self) -> bool {
        self.reap();
        self.child.is_none()
    }

    fn signal(&self, signal: ChildSignal) {
        match (&self.child, Pid::from_raw(self.id.cast_signed())) {
            // All of it may have gone already.
            (Some(Handle::Own(_)), Some(group)) => drop(kill_process_group(group, signal.raw())),
            (Some(Handle::Spawned(child)), _) => child.signal_all(signal),
            _ => {}
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
        self.reap();
        if let Some(Handle::Own(mut child)) = self.child.take() {
            // The kernel needs a moment, or a disk's time; this thread must not block on it.
            std::thread::spawn(move || child.wait());
        }
    }
}

#[cfg(test)]
mod tests;
