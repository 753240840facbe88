//! A PHP that runs: our own child, or one that the broker has started as another user.
//!
//! Both are asked the same things. Difficulty: PHP's workers are not ours to wait for, so that a
//! whole group has to be signalled and looked at.

use rustix::fd::AsFd;
use saker_broker::SpawnRequest;
use saker_broker_client::{BrokerClient, SpawnedChild};
use saker_net::{ChildSignal, Group, program::Spawned};
use std::{
    fs::File,
    io::{self, PipeReader},
    os::fd::{BorrowedFd, OwnedFd},
    process::ExitStatus,
};
use tokio::{
    io::Interest,
    net::UnixStream,
    process::{Child, Command},
};

#[derive(Debug)]
pub enum Process {
    Own {
        child: Child,
        group: Group,
    },
    Spawned {
        spawned: SpawnedChild,
        /// Our end of the same socket.
        end: UnixStream,
    },
}

/// Standard error of a process.
pub type Errors = tokio::net::unix::pipe::Receiver;

impl Process {
    pub fn start(mut command: Command) -> io::Result<(Process, Option<Errors>)> {
        let mut child = command.kill_on_drop(true).spawn()?;
        let group = child
            .id()
            .and_then(Group::of)
            .ok_or(io::ErrorKind::NotFound)?;
        let errors = child
            .stderr
            .take()
            .map(|errors| errors.into_owned_fd().and_then(Errors::from_owned_fd))
            .transpose()?;
        Ok((Process::Own { child, group }, errors))
    }

    /// `input`: its standard input, if it has any.
    pub fn borrow(
        broker: &BrokerClient,
        request: &SpawnRequest,
        input: Option<BorrowedFd<'_>>,
        inherited: &[BorrowedFd<'_>],
    ) -> io::Result<(Process, Option<Errors>)> {
        let (reader, writer): (PipeReader, _) = io::pipe()?;
        let nothing = File::options().read(true).write(true).open("/dev/null")?;
        let spawned = broker.start_program(
            request,
            [
                input.unwrap_or(nothing.as_fd()),
                nothing.as_fd(),
                writer.as_fd(),
            ],
            inherited,
        )?;
        let end = UnixStream::from_std(std::os::unix::net::UnixStream::from(spawned.channel()?))?;
        Ok((
            Process::Spawned { spawned, end },
            Some(Errors::from_owned_fd(OwnedFd::from(reader))?),
        ))
    }

    pub fn id(&self) -> u32 {
        match self {
            Process::Own { group, .. } => group.id().unsigned_abs(),
            Process::Spawned { spawned, .. } => spawned.id(),
        }
    }

    /// Until its leader has ended.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            Process::Own { child, .. } => child.wait().await,
            Process::Spawned { spawned, end } => {
                end.async_io(Interest::READABLE, || {
                    spawned
                        .status()
                        .ok_or_else(|| io::ErrorKind::WouldBlock.into())
                })
                .await
            }
        }
    }

    /// Must not have been waited for yet.
    pub fn signal_leader(&self, signal: ChildSignal) {
        match self {
            Process::Own { group, .. } => group.signal_leader(signal),
            Process::Spawned { spawned, .. } => spawned.signal_leader(signal),
        }
    }

    pub fn signal_all(&self, signal: ChildSignal) {
        match self {
            Process::Own { group, .. } => group.signal_all(signal),
            Process::Spawned { spawned, .. } => spawned.signal_all(signal),
        }
    }

    /// True if any of it is still there.
    pub fn is_there(&mut self) -> bool {
        match self {
            Process::Own { group, .. } => group.is_there(),
            Process::Spawned { spawned, .. } => !spawned.is_gone(),
        }
    }
}
