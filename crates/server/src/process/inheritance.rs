//! Things that a server has from the one that it takes over from while that one runs: sockets, the lock of
//! the state directory, the control socket, the PidFile.
//!
//! Called by: the start, for a server that `saker upgrade` has started; `listeners`.
//! Caveat: all of it is the other server's until this one has said that it listens. Until then
//! nothing is renamed, removed, or written; if this server ends, the other one goes on.
//! Out of scope: the conversation (`saker_control::upgrade`); a server that is stopping
//! (`succession`).

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use saker_config::model::Address;
use saker_control::{
    ClientError, LEFT, LISTENING, Lock, READY, RELEASED, SERVES, StateDir,
    upgrade::{self, CHECK, TAKE_OVER, VARIABLE},
};
use saker_net::{BoundUdp, steering::Share};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    ffi::OsString,
    io::{self, Read, Write},
    os::{
        fd::OwnedFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    time::Duration,
};

/// A process's descriptors are closed before it has ended: the longest time between both.
const END_WAIT: Duration = Duration::from_secs(5);
/// Time for that server to leave its queues.
const LEFT_WAIT: Duration = Duration::from_secs(2);

/// Task of a process that `saker upgrade` has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Check,
    TakeOver,
}

/// `None`: the process is a server like any other.
pub fn task() -> Option<Task> {
    let value: OsString = std::env::var_os(VARIABLE)?;
    match value.to_str() {
        Some(CHECK) => Some(Task::Check),
        Some(TAKE_OVER) => Some(Task::TakeOver),
        _ => None,
    }
}

/// Reason why the running server is not taken over from.
#[derive(Debug)]
pub struct Refusal {
    pub text: String,
    /// It hands over to another process.
    pub is_under_way: bool,
}

impl<T: Into<String>> From<T> for Refusal {
    fn from(text: T) -> Refusal {
        Refusal {
            text: text.into(),
            is_under_way: false,
        }
    }
}

/// A running server's things.
#[derive(Debug)]
pub struct Inherited {
    stream: UnixStream,
    pub pid: u64,
    /// Its end; `None`: it could not be opened.
    process: Option<OwnedFd>,
    lock: Option<(OwnedFd, bool)>,
    control: Option<OwnedFd>,
    pid_file: Option<(PathBuf, OwnedFd)>,
    /// Standard output and standard error.
    streams: [OwnedFd; 2],
    listeners: HashMap<String, Vec<OwnedFd>>,
    activated: Vec<OwnedFd>,
    pub quic: Vec<InheritedQuic>,
    /// UDP sockets of streams, which both servers receive from until the other one leaves them.
    datagrams: HashMap<String, Vec<BoundUdp>>,
    /// Sessions of its console.
    pub console: Value,
    /// It says when it has left its queues.
    leaves: bool,
    /// The mark in connection ids of that server; `None`: it has none.
    pub tag: Option<u16>,
    /// File with the state of that server, once it has let go; `None`: it is of a version that hands
    /// none on.
    state: Option<OwnedFd>,
}

/// UDP sockets that the other server goes on to receive from.
#[derive(Debug)]
pub struct InheritedQuic {
    pub address: String,
    pub sockets: Vec<BoundUdp>,
    pub share: Share,
}

impl Inherited {
    /// # Errors
    /// No server runs in the directory, or it has nothing to give now.
    pub fn ask(state_dir: &Path) -> Result<Inherited, Refusal> {
        let (stream, answer, descriptors) = upgrade::ask(state_dir).map_err(|error| Refusal {
            text: format!("cannot take over from the running server: {error}"),
            is_under_way: matches!(error, ClientError::UpgradeUnderWay(_)),
        })?;
        Inherited::sort(stream, &answer, descriptors)
            .ok_or_else(|| "cannot take over from the running server: it offers something else than this version expects".into())
    }

    /// In the order of [`super::upgrade`].
    fn sort(stream: UnixStream, answer: &Value, descriptors: Vec<OwnedFd>) -> Option<Inherited> {
        let mut descriptors = descriptors.into_iter();
        let control = descriptors.next()?;
        let lock = descriptors.next()?;
        let streams = [descriptors.next()?, descriptors.next()?];
        let pid_file = match answer["pid_file"].as_str() {
            Some(path) => Some((PathBuf::from(path), descriptors.next()?)),
            None => None,
        };
        let mut take = |count: &Value| {
            let count = usize::try_from(count.as_u64()?).ok()?;
            let taken: Vec<OwnedFd> = descriptors.by_ref().take(count).collect();
            (taken.len() == count).then_some(taken)
        };
        let mut listeners = HashMap::new();
        for listener in answer["listeners"].as_array()? {
            let address = listener["address"].as_str()?.to_owned();
            listeners.insert(address, take(&listener["sockets"])?);
        }
        let activated = take(&answer["activated"])?;
        let mut quic = Vec::new();
        for one in answer["quic"].as_array()? {
            let sockets = adopt_all(take(&one["sockets"])?)?;
            quic.push(InheritedQuic {
                address: one["address"].as_str()?.to_owned(),
                share: Share {
                    sockets: sockets.len(),
                    turned: usize::try_from(one["turned"].as_u64()?).ok()?,
                },
                sockets,
            });
        }
        let pid = answer["pid"].as_u64()?;
        let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let mut datagrams = HashMap::new();
        // A server without streams does not speak of them.
        for one in answer["datagrams"].as_array().into_iter().flatten() {
            let sockets = adopt_all(take(&one["sockets"])?)?;
            datagrams.insert(one["address"].as_str()?.to_owned(), sockets);
        }
        let state = match answer["state"].as_u64() {
            Some(_) => take(&answer["state"])?.pop(),
            None => None,
        };
        Some(Inherited {
            stream,
            pid,
            process: process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()),
            lock: Some((lock, answer["created"].as_bool()?)),
            control: Some(control),
            pid_file,
            streams,
            listeners,
            activated,
            quic,
            datagrams,
            console: answer["console"].clone(),
            leaves: answer["leaves"].as_bool() == Some(true),
            tag: answer["tag"]
                .as_u64()
                .and_then(|tag| u16::try_from(tag).ok()),
            state,
        })
    }

    pub fn take_lock(&mut self, directory: StateDir) -> Option<Lock> {
        let (file, created) = self.lock.take()?;
        Some(directory.share_lock(file, created))
    }

    pub fn take_control(&mut self) -> Option<UnixListener> {
        self.control.take().map(UnixListener::from)
    }

    /// `None`: that server has no such file.
    pub fn take_pid_file(&mut self, path: &Path) -> Option<OwnedFd> {
        self.pid_file
            .take_if(|(other, _)| other == path)
            .map(|(_, file)| file)
    }

    /// Listening sockets of an address; empty: that server does not listen there.
    pub fn take_sockets(&mut self, address: &Address) -> Vec<OwnedFd> {
        self.listeners
            .remove(&address.to_string())
            .unwrap_or_default()
    }

    /// UDP sockets of a stream's address. `None`: that server has none there.
    pub fn take_datagrams(&mut self, address: &Address) -> Option<Vec<BoundUdp>> {
        self.datagrams.remove(&address.to_string())
    }

    /// Sockets that systemd passed to that server.
    pub fn take_activated(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.activated)
    }

    pub fn quic_of(&self, address: &Address) -> Option<&InheritedQuic> {
        let address = address.to_string();
        self.quic.iter().find(|one| one.address == address)
    }

    /// Everything that can fail is done: returns once that server has let go of the page cache and
    /// the bans.
    ///
    /// # Errors
    /// It is stopping, or has ended.
    pub fn request_release(&self) -> Result<(), String> {
        let mut said = [0; RELEASED.len()];
        let heard = (&self.stream)
            .write_all(READY.as_bytes())
            .and_then(|()| (&self.stream).read_exact(&mut said));
        match heard {
            Ok(()) if said == *RELEASED.as_bytes() => Ok(()),
            _ => Err("the running server has broken off the upgrade".into()),
        }
    }

    /// State of that server, after it has let go.
    pub fn take_state(&mut self) -> Option<OwnedFd> {
        self.state.take()
    }

    /// From here on that server finishes its requests, and ends. Returns once it has left the queues
    /// of these addresses and the page cache, so that each connection from now on, and what it purges,
    /// comes here; or after a moment.
    ///
    /// # Errors
    /// It waited for too long, and goes on.
    pub fn say_listening(&self, addresses: &[String]) -> Result<(), String> {
        let mut said = LISTENING.to_owned();
        if self.leaves {
            said.push_str(&format!("{SERVES}{}\n", json!(addresses)));
        }
        match (&self.stream).write_all(said.as_bytes()) {
            // One that has ended in between needs no telling.
            Err(_) if !self.has_ended_within(END_WAIT) => {
                Err("the running server has broken off the upgrade: this one was too slow".into())
            }
            Ok(()) if self.leaves => {
                let _ = self.wait_until_left();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// # Errors
    /// It has ended, or takes too long: some connections go to it for a moment more.
    fn wait_until_left(&self) -> io::Result<()> {
        self.stream.set_read_timeout(Some(LEFT_WAIT))?;
        let heard = (&self.stream).read_exact(&mut [0; LEFT.len()]);
        self.stream.set_read_timeout(None)?;
        heard
    }

    /// Standard output and standard error of that server.
    pub fn streams(&self) -> &[OwnedFd; 2] {
        &self.streams
    }

    /// Messages go from here on where those of the other server went.
    pub fn adopt_streams(&self) {
        let [out, error] = &self.streams;
        // Where it fails they go on as they did.
        let _ = rustix::stdio::dup2_stdout(out);
        let _ = rustix::stdio::dup2_stderr(error);
    }

    /// Returns true once the process has closed everything that it had open, which is later than the
    /// end of the connection.
    pub fn has_ended(&self) -> bool {
        self.has_ended_within(Duration::ZERO)
    }

    fn has_ended_within(&self, wait: Duration) -> bool {
        let wait = Timespec::try_from(wait).ok();
        self.process.as_ref().is_none_or(|process| {
            poll(&mut [PollFd::new(process, PollFlags::IN)], wait.as_ref())
                .is_ok_and(|ready| ready > 0)
        })
    }

    /// The other end says what it learns about the page cache, and closes when that server ends.
    pub fn stream(&self) -> io::Result<tokio::net::UnixStream> {
        let stream = self.stream.try_clone()?;
        stream.set_nonblocking(true)?;
        tokio::net::UnixStream::from_std(stream)
    }
}

/// `None`: one of them is no UDP socket.
fn adopt_all(sockets: Vec<OwnedFd>) -> Option<Vec<BoundUdp>> {
    let sockets = sockets.into_iter();
    sockets.map(|socket| BoundUdp::adopt(socket).ok()).collect()
}
