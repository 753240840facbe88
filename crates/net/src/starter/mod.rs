//! Programs as other users: a process that stays root when the server gives root up, and starts what the configuration allows, as whom it says.
//!
//! The server splits it off before it becomes its user ([`Starter::split`]); it is the same program once more, which calls [`serve`] and does
//! nothing else. Both ends share a socket. For each program there is a tether, a stream of its own: the order goes in by it, what became of it
//! and at last its exit status come out, signals go in. When the server's end closes, by whatever cause, the program is ended, and when the
//! server goes, all are. Standard descriptors go along with the order, so that a program's output is the server's to read.
//! Difficulty: the starter is root, and whoever has taken over the server talks to it. So it knows from the configuration who may be started as
//! whom (`grants`), reads that again by itself when the server reloads, and looks at scripts as suEXEC does.
//! Log programs of Apache's configuration are started by it too, as root and for good: they are to read what is in their pipe when the server
//! goes, and end by themselves.
//! Absent on purpose: threads, and anything that does not start or end a program.

mod grants;
mod order;
mod serve;
mod spawn;
mod wire;

pub use grants::{Allowed, Grant, Grants};
pub use order::{Order, OrderKind, descriptor};
pub use serve::serve;

use crate::child::ChildSignal;
use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{
            net::UnixStream,
            process::{CommandExt, ExitStatusExt},
        },
    },
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

/// Says to a process of this program what it is for.
const ROLE: &str = "SAKER_STARTER";
/// A start takes a millisecond or two; reading a large configuration some seconds.
const START_TIME_MAX: Duration = Duration::from_secs(10);
const READ_TIME_MAX: Duration = Duration::from_secs(60);
/// Beside the letters of signals.
const RELEASE: u8 = b'r';
const STATUS_BYTES: usize = 5;

/// What this process was started to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// To call [`serve`].
    Starter,
    /// To write all grants of the configuration, encoded, to standard output.
    Grants,
}

/// `None`: a process like any other.
pub fn role() -> Option<Role> {
    let word = std::env::var_os(ROLE)?;
    match word.to_str()? {
        "serve" => Some(Role::Starter),
        "grants" => Some(Role::Grants),
        _ => None,
    }
}

/// This program once more, with the same arguments.
fn again(role: Role) -> Command {
    let mut words = std::env::args_os();
    let mut command = Command::new("/proc/self/exe");
    command.arg0(words.next().unwrap_or_else(|| "saker".into())).args(words);
    command.env(ROLE, if role == Role::Starter { "serve" } else { "grants" });
    command
}

/// The server's end. It can be asked from any thread.
#[derive(Debug)]
pub struct Starter {
    socket: OwnedFd,
}

impl Starter {
    /// Splits a starter off. To be called as root.
    pub fn split(grants: &[Grant]) -> io::Result<Starter> {
        let (ours, theirs) = packets()?;
        // A group of its own: what is typed at a terminal is for the server.
        let mut child = again(Role::Starter).stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn()?;
        // It ends when we do, and nobody waits for it but whoever comes after us; while we are there a thread does.
        std::thread::Builder::new().name("starter".into()).spawn(move || child.wait())?;
        let starter = Starter { socket: ours };
        let mut tether = starter.tether(b'G', &[])?;
        wire::write_message(&mut tether, &Grant::encode(grants))?;
        reply(&mut tether)?;
        Ok(starter)
    }

    /// Has the starter read the configuration again. Waits for it.
    pub fn read_again(&self) -> io::Result<()> {
        let mut tether = self.tether(b'R', &[])?;
        tether.set_read_timeout(Some(READ_TIME_MAX))?;
        reply(&mut tether).map(drop)
    }

    /// Starts a program with these for its standard input, output and errors. Waits for the kernel: not for threads that serve.
    pub fn start(&self, order: &Order, standard: [BorrowedFd<'_>; 3], inherited: &[BorrowedFd<'_>]) -> io::Result<Lent> {
        let mut tether = self.tether(b'S', &[&standard, inherited].concat())?;
        wire::write_message(&mut tether, &order.encode())?;
        let id = reply(&mut tether)?;
        tether.set_nonblocking(true)?;
        Ok(Lent { id, tether, status: None })
    }

    /// Starts a log program, which nobody ends but the end of its input. To be ordered as [`OrderKind::LogProgram`].
    pub fn start_log_program(&self, order: &Order, standard: [BorrowedFd<'_>; 3]) -> io::Result<()> {
        let mut tether = self.tether(b'S', &standard)?;
        wire::write_message(&mut tether, &order.encode())?;
        reply(&mut tether).map(drop)
    }

    fn tether(&self, what: u8, descriptors: &[BorrowedFd<'_>]) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(START_TIME_MAX))?;
        ours.set_write_timeout(Some(START_TIME_MAX))?;
        let gone = |error: io::Error| io::Error::new(error.kind(), format!("the starter of programs does not answer: {error}"));
        wire::send_packet(&self.socket, what, &[&[theirs.as_fd()], descriptors].concat()).map_err(gone)?;
        Ok(ours)
    }
}

/// Both ends of a socket that keeps packets apart.
fn packets() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// A number, or why there is none.
fn reply(tether: &mut UnixStream) -> io::Result<u32> {
    let message = wire::read_message(tether)?;
    let mut reader = wire::Reader(&message);
    let number = reader.number()?;
    match reader.optional()? {
        None => Ok(u32::try_from(number).unwrap_or_default()),
        Some(text) => {
            let code = i32::try_from(number).ok().filter(|code| *code != 0);
            let refused = || io::Error::new(io::ErrorKind::PermissionDenied, String::from_utf8_lossy(text).into_owned());
            Err(code.map_or_else(refused, io::Error::from_raw_os_error))
        }
    }
}

/// A program that the starter started, and everything in its group. Dropped, all of it is ended.
#[derive(Debug)]
pub struct Lent {
    id: u32,
    tether: UnixStream,
    status: Option<ExitStatus>,
}

impl Lent {
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Becomes readable when the program has ended, and again when its group has.
    pub fn tether(&self) -> io::Result<OwnedFd> {
        Ok(self.tether.try_clone()?.into())
    }

    /// What it said at its end; `None`: it runs. One whose starter has gone has ended.
    pub fn status(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            let mut said = [0; STATUS_BYTES];
            self.status = match self.tether.read_exact(&mut said) {
                Ok(()) => Some(ExitStatus::from_raw(i32::from_le_bytes([said[1], said[2], said[3], said[4]]))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                Err(_) => Some(ExitStatus::from_raw(9)),
            };
        }
        self.status
    }

    /// Whether its group has ended, too. To be asked after [`Lent::status`].
    pub fn is_gone(&mut self) -> bool {
        let mut said = [0; 1];
        self.status().is_some() && !matches!(self.tether.read(&mut said), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    pub fn signal_leader(&self, signal: ChildSignal) {
        self.tell(signal.letter());
    }

    pub fn signal_all(&self, signal: ChildSignal) {
        self.tell(signal.letter().to_ascii_uppercase());
    }

    /// What is left of its group may go on without it.
    pub fn release(self) {
        self.tell(RELEASE);
    }

    fn tell(&self, letter: u8) {
        // Who can't be told any more has gone.
        let _ = (&self.tether).write(&[letter]);
    }
}

#[cfg(test)]
mod tests;
