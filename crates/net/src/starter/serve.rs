//! The starter's own loop: orders in, programs out, until the server goes.
//!
//! One thread that waits for all at once: the server's socket, each program's tether and end. Difficulty: a process's number is somebody else's
//! once it has been waited for, and signals of root's reach anybody. So a program is signalled through its group only, while members of that
//! group are known to be there: the starter is the reaper of all that descends from it, and reaps before it looks.

use super::{
    RELEASE, Role, again,
    grants::{Grant, Grants},
    order::{Order, OrderKind},
    spawn,
    wire::{self, Writer},
};
use crate::child::ChildSignal;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, WaitOptions, kill_process, kill_process_group, pidfd_open, test_kill_process_group, wait},
};
use std::{
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::Stdio,
    time::{Duration, Instant},
};

/// How often groups are looked at whose leader has ended, and processes where the kernel has no descriptors for them.
const LOOK: Duration = Duration::from_millis(50);
/// For the server to say what it has announced.
const ORDER_TIME_MAX: Duration = Duration::from_secs(5);
/// Between telling what is left to end and ending it, when the server has gone.
const END_TIME: Duration = Duration::from_secs(2);

/// Starts what the server at the other end of this socket orders, until it goes; then ends all that is left.
pub fn serve(socket: OwnedFd) -> io::Result<()> {
    let _ = crate::process::set_process_name("saker-starter");
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    spawn::ignore_signals();
    let mut starter = Serving { grants: Grants::default(), is_granted: false, charges: Vec::new() };
    loop {
        if starter.wait(Some(&socket))? {
            match wire::receive_packet(&socket) {
                Ok(Some((what, descriptors))) => starter.obey(what, descriptors),
                Ok(None) => break,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                Err(_) => break,
            }
        }
    }
    starter.end()
}

struct Serving {
    grants: Grants,
    is_granted: bool,
    charges: Vec<Charge>,
}

/// A program that was started, and its group.
struct Charge {
    leader: Pid,
    tether: UnixStream,
    end: Option<OwnedFd>,
    has_ended: bool,
    /// The server does not care any more.
    is_abandoned: bool,
    /// What is left of its group may stay.
    is_released: bool,
}

impl Serving {
    /// Waits until something is to be done, and does what is about programs. Says whether the server said something.
    fn wait(&mut self, socket: Option<&OwnedFd>) -> io::Result<bool> {
        let needs_looks = self.charges.iter().any(|charge| charge.has_ended || charge.is_abandoned || charge.end.is_none());
        let timeout = needs_looks.then_some(Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 });
        let mut waited: Vec<PollFd<'_>> = socket.iter().map(|socket| PollFd::new(*socket, PollFlags::IN)).collect();
        for charge in &self.charges {
            if !charge.is_abandoned {
                waited.push(PollFd::new(&charge.tether, PollFlags::IN));
            }
            waited.extend(charge.end.as_ref().filter(|_| !charge.has_ended).map(|end| PollFd::new(end, PollFlags::IN)));
        }
        match poll(&mut waited, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_asked = socket.is_some() && waited.first().is_some_and(|one| !one.revents().is_empty());
        self.charges.iter_mut().for_each(Charge::hear);
        self.reap();
        Ok(is_asked)
    }

    fn obey(&mut self, what: u8, mut descriptors: Vec<OwnedFd>) {
        if descriptors.is_empty() {
            return;
        }
        let mut tether = UnixStream::from(descriptors.remove(0));
        let _ = tether.set_read_timeout(Some(ORDER_TIME_MAX));
        let _ = tether.set_write_timeout(Some(ORDER_TIME_MAX));
        let outcome = match what {
            b'S' => self.start(&mut tether, descriptors),
            b'G' => self.first_grants(&mut tether),
            b'R' => self.read_again(),
            _ => Err(io::ErrorKind::InvalidData.into()),
        };
        let is_told = answer(&mut tether, outcome.as_ref().map(|leader| leader.map_or(0, |pid| pid.as_raw_nonzero().get()))).is_ok();
        if let Ok(Some(leader)) = outcome {
            let end = pidfd_open(leader, PidfdFlags::empty()).ok();
            let is_deaf = tether.set_nonblocking(true).is_err() || !is_told;
            let mut charge = Charge { leader, tether, end, has_ended: false, is_abandoned: false, is_released: false };
            if is_deaf {
                charge.abandon();
            }
            self.charges.push(charge);
        }
    }

    fn start(&mut self, tether: &mut UnixStream, descriptors: Vec<OwnedFd>) -> io::Result<Option<Pid>> {
        let order = Order::decode(&wire::read_message(tether)?)?;
        let allowed = self.grants.allow(&order)?;
        let is_charge = order.kind != OrderKind::LogProgram;
        Ok(Some(spawn::spawn(&order, allowed, descriptors)?).filter(|_| is_charge))
    }

    /// From the server before it gave root up; nobody else comes first.
    fn first_grants(&mut self, tether: &mut UnixStream) -> io::Result<Option<Pid>> {
        let message = wire::read_message(tether)?;
        if self.is_granted {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.is_granted = true;
        self.grants = Grants::new(Grant::decode(&message)?);
        Ok(None)
    }

    /// From the configuration itself, by a process that reads it and ends.
    fn read_again(&mut self) -> io::Result<Option<Pid>> {
        let mut child = again(Role::Grants).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut said = Vec::new();
        let heard = child.stdout.take().map_or(Err(io::ErrorKind::BrokenPipe.into()), |mut stdout| stdout.read_to_end(&mut said));
        let status = child.wait()?;
        heard?;
        if !status.success() {
            return Err(io::Error::other("the configuration could not be read again: who may be started as whom stays as it was"));
        }
        self.grants = Grants::new(Grant::decode(&said)?);
        Ok(None)
    }

    /// Waits for all that has ended, and forgets groups that have.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if let Some(charge) = self.charges.iter_mut().find(|charge| charge.leader == pid) {
                charge.has_ended = true;
                let said = [&b"X"[..], &status.as_raw().to_le_bytes()].concat();
                let _ = charge.tether.write_all(&said);
            }
        }
        self.charges.retain(|charge| {
            let is_gone = charge.has_ended && (charge.is_released || !charge.is_there());
            if is_gone {
                let _ = (&charge.tether).write_all(b"E");
            }
            !is_gone
        });
    }

    fn end(mut self) -> io::Result<()> {
        for charge in &self.charges {
            charge.signal_all(ChildSignal::Term);
        }
        let until = Instant::now() + END_TIME;
        self.charges.iter_mut().for_each(|charge| charge.is_abandoned = true);
        while !self.charges.is_empty() && Instant::now() < until {
            self.wait(None)?;
        }
        self.charges.iter().for_each(|charge| charge.signal_all(ChildSignal::Kill));
        Ok(())
    }
}

impl Charge {
    /// Signals from the server; the end of them is its end.
    fn hear(&mut self) {
        let mut letters = [0; 16];
        while !self.is_abandoned {
            match self.tether.read(&mut letters) {
                Ok(0) => self.abandon(),
                Ok(count) => letters.iter().take(count).for_each(|letter| self.signal(*letter)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.abandon(),
            }
        }
    }

    fn abandon(&mut self) {
        self.is_abandoned = true;
        if !self.is_released {
            self.signal_all(ChildSignal::Kill);
        }
    }

    fn signal(&mut self, letter: u8) {
        if letter == RELEASE {
            // Its number is free once its leader has been waited for.
            self.is_released = self.has_ended;
            return;
        }
        match ChildSignal::of_letter(letter.to_ascii_lowercase()) {
            Some(signal) if letter.is_ascii_uppercase() => self.signal_all(signal),
            Some(signal) if !self.has_ended => drop(kill_process(self.leader, signal.raw())),
            _ => {}
        }
    }

    fn signal_all(&self, signal: ChildSignal) {
        let _ = kill_process_group(self.leader, signal.raw());
    }

    fn is_there(&self) -> bool {
        !matches!(test_kill_process_group(self.leader), Err(rustix::io::Errno::SRCH))
    }
}

/// A number, or why there is none.
fn answer(tether: &mut UnixStream, outcome: Result<i32, &io::Error>) -> io::Result<()> {
    let mut writer = Writer::default();
    match outcome {
        Ok(number) => {
            writer.number(u64::from(number.unsigned_abs()));
            writer.optional(None);
        }
        Err(error) => {
            writer.number(u64::from(error.raw_os_error().unwrap_or_default().unsigned_abs()));
            writer.optional(Some(error.to_string().as_bytes()));
        }
    }
    wire::write_message(tether, &writer.0)
}
