//! The broker's loop: requests in, programs and descriptors out, until the server ends.
//!
//! Called by: the broker process, as its only thread. It waits for everything at once: the server's
//! socket, each program's liveness channel, and each program's end.
//! Caveat: a process id may be reused after wait(2), and root's signals reach any process. So a
//! program is signaled through its group only, while members of that group are known to exist: the
//! broker is the subreaper of all its descendants, and reaps before it looks.

use crate::{
    RELEASE, Role, again, control,
    file_grants::Permit,
    files,
    grant::{Grant, refuse},
    grants::Grants,
    open,
    request::{Descriptor, Request},
    spawn,
    spawn_request::{SpawnKind, SpawnRequest},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::fchown,
    io::Errno,
    net::{
        AddressFamily, SocketType, bind,
        sockopt::{socket_domain, socket_peercred, socket_protocol, socket_type},
    },
    process::{
        Pid, PidfdFlags, WaitOptions, geteuid, kill_process, kill_process_group, pidfd_open,
        test_kill_process_group, wait,
    },
};
use saker_net::{
    child::ChildSignal,
    spawn_as,
    wire::{self, Writer},
};
use std::{
    collections::HashSet,
    io::{self, Read, Write},
    net::SocketAddr,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

/// Number of times groups are looked at whose leader has ended, and processes where the kernel has
/// no descriptors for them.
const LOOK: Duration = Duration::from_millis(50);
/// Timeout for the message that the server has announced.
const MESSAGE_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum length of a report about a faulty configuration.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Time between SIGTERM and SIGKILL for remaining programs, after the server has ended.
const END_TIME: Duration = Duration::from_secs(2);

/// Carries out the granted requests of the server at the other end of this socket until it ends;
/// then terminates and removes what is left.
pub fn serve(socket: OwnedFd) -> io::Result<()> {
    let _ = saker_net::process::set_process_name("saker-broker");
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    spawn_as::ignore_signals();
    // Made by the server.
    let server = socket_peercred(&socket)?
        .pid
        .as_raw_nonzero()
        .get()
        .unsigned_abs();
    let process = Pid::from_raw(server.cast_signed())
        .and_then(|server| pidfd_open(server, PidfdFlags::empty()).ok());
    let mut broker = Serving {
        server,
        ..Serving::default()
    };
    loop {
        if broker.wait(Some(&socket))? {
            match wire::receive_packet(&socket) {
                Ok(Some((_, descriptors))) => broker.obey(descriptors),
                Ok(None) => break,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                Err(_) => break,
            }
        }
    }
    broker.end(process)
}

#[derive(Default)]
struct Serving {
    grants: Grants,
    /// Grants of a configuration that is being loaded. They are valid in addition to those in force
    /// until they are committed or discarded.
    pending: Option<Grants>,
    is_granted: bool,
    /// The process that the broker is for.
    server: u32,
    removable: Removable,
    charges: Vec<Charge>,
}

/// Files of all configurations so far, which the server leaves behind.
#[derive(Default)]
struct Removable {
    sockets: HashSet<PathBuf>,
    pid_files: HashSet<PathBuf>,
    /// The state directory of the start; a reload does not change it.
    state_dir: Option<PathBuf>,
}

impl Removable {
    fn add(&mut self, grants: &Grants) {
        if let (None, Some((state_dir, _))) = (&self.state_dir, &grants.files.control) {
            self.state_dir = Some(state_dir.clone());
        }
        self.sockets.extend(grants.files.sockets.keys().cloned());
        self.pid_files
            .extend(grants.files.pid_files.iter().cloned());
    }

    fn clean_up(&self, server: u32) {
        files::clean_up(server, self.pid_files.iter(), self.sockets.iter());
        // A server that has ended as it should has done so itself.
        let _ = self.state_dir.as_deref().map(control::clean_up);
    }
}

/// The outcome of a request that was carried out.
enum Done {
    Nothing,
    Started(Pid),
    Opened(OwnedFd),
}

/// A program that was started, and its group.
struct Charge {
    leader: Pid,
    channel: UnixStream,
    end: Option<OwnedFd>,
    has_ended: bool,
    /// The server has no more interest in it.
    is_abandoned: bool,
    /// The rest of its process group may keep running.
    is_released: bool,
}

impl Serving {
    /// Waits for events, and handles those of programs. Returns true if the server has sent
    /// something.
    fn wait(&mut self, socket: Option<&OwnedFd>) -> io::Result<bool> {
        let needs_looks = self
            .charges
            .iter()
            .any(|charge| charge.has_ended || charge.is_abandoned || charge.end.is_none());
        let timeout = needs_looks.then_some(Timespec {
            tv_sec: 0,
            tv_nsec: LOOK.as_nanos() as i64,
        });
        let mut waited: Vec<PollFd<'_>> = socket
            .iter()
            .map(|socket| PollFd::new(*socket, PollFlags::IN))
            .collect();
        for charge in &self.charges {
            if !charge.is_abandoned {
                waited.push(PollFd::new(&charge.channel, PollFlags::IN));
            }
            waited.extend(
                charge
                    .end
                    .as_ref()
                    .filter(|_| !charge.has_ended)
                    .map(|end| PollFd::new(end, PollFlags::IN)),
            );
        }
        match poll(&mut waited, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_asked =
            socket.is_some() && waited.first().is_some_and(|one| !one.revents().is_empty());
        self.charges.iter_mut().for_each(Charge::hear);
        self.reap();
        Ok(is_asked)
    }

    fn obey(&mut self, mut descriptors: Vec<OwnedFd>) {
        if descriptors.is_empty() {
            return;
        }
        let channel = descriptors.remove(0);
        // Created by the server itself, and not a connection to another process, which would take
        // the answer for root's word (unix(7), SO_PASSCRED).
        let is_servers = socket_peercred(&channel)
            .is_ok_and(|peer| peer.pid.as_raw_nonzero().get().unsigned_abs() == self.server);
        if !is_servers || kind(&channel) != Descriptor::UnixStream {
            return;
        }
        let mut channel = UnixStream::from(channel);
        let _ = channel.set_read_timeout(Some(MESSAGE_TIME_MAX));
        let _ = channel.set_write_timeout(Some(MESSAGE_TIME_MAX));
        let bytes_max = if self.is_granted {
            wire::MESSAGE_BYTES_MAX
        } else {
            wire::GRANTS_BYTES_MAX
        };
        let request = wire::read_message(&mut channel, bytes_max)
            .and_then(|message| Request::decode(&message));
        let outcome = request.and_then(|request| self.carry_out(request, descriptors, &channel));
        let is_told = answer(&mut channel, &outcome).is_ok();
        if let Ok(Done::Started(leader)) = outcome {
            let end = pidfd_open(leader, PidfdFlags::empty()).ok();
            let is_deaf = channel.set_nonblocking(true).is_err() || !is_told;
            let mut charge = Charge {
                leader,
                channel,
                end,
                has_ended: false,
                is_abandoned: false,
                is_released: false,
            };
            if is_deaf {
                charge.abandon();
            }
            self.charges.push(charge);
        }
    }

    fn carry_out(
        &mut self,
        request: Request,
        descriptors: Vec<OwnedFd>,
        channel: &UnixStream,
    ) -> io::Result<Done> {
        match request {
            Request::Spawn(request) => return self.spawn(&request, descriptors, channel),
            Request::FirstGrants(grants) => self.first_grants(grants)?,
            Request::PrepareGrants => self.prepare()?,
            Request::CommitGrants => self.commit()?,
            Request::DiscardGrants => self.pending = None,
            request => return self.files(&request, &descriptors),
        }
        Ok(Done::Nothing)
    }

    fn files(&self, request: &Request, descriptors: &[OwnedFd]) -> io::Result<Done> {
        let kinds: Vec<Descriptor> = descriptors.iter().map(kind).collect();
        let permit = self
            .grants
            .files
            .permit(request, &kinds)
            .or_else(|refused| match &self.pending {
                Some(pending) => pending.files.permit(request, &kinds),
                None => Err(refused),
            });
        let permit = permit.or_else(|refused| match request {
            // A socket of a listener that was removed.
            Request::RemoveFile { path } if self.removable.sockets.contains(path) => {
                Ok(Permit::RemoveSocket(path))
            }
            _ => Err(refused),
        })?;
        match (permit, descriptors.first()) {
            (Permit::Open(path, how), _) => return open::open(path, how).map(Done::Opened),
            (Permit::Bind(address), Some(socket)) => bind_as_ours(socket, &address)?,
            (Permit::BindUnix(path, mode), Some(socket)) => {
                files::bind_unix(socket.as_fd(), path, mode)?
            }
            (Permit::RemoveSocket(path), _) => files::remove_socket(path)?,
            (Permit::RemovePidFile(path), _) => files::remove_pid_file(path, self.server)?,
            (Permit::PlacePidFile(path), _) => files::place_pid_file(path, self.server)?,
            (Permit::Bind(_) | Permit::BindUnix(..), None) => {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(Done::Nothing)
    }

    fn spawn(
        &self,
        request: &SpawnRequest,
        descriptors: Vec<OwnedFd>,
        channel: &UnixStream,
    ) -> io::Result<Done> {
        let allowed = self
            .grants
            .allow(request)
            .or_else(|refused| match &self.pending {
                Some(pending) => pending.allow(request),
                None => Err(refused),
            })?;
        let server = socket_peercred(channel)?.uid.as_raw();
        let leader = spawn::spawn(request, allowed, descriptors, server)?;
        Ok(if request.kind == SpawnKind::LogProgram {
            Done::Nothing
        } else {
            Done::Started(leader)
        })
    }

    /// Takes the first message, sent by the server while it is still root.
    fn first_grants(&mut self, grants: Vec<Grant>) -> io::Result<()> {
        if self.is_granted {
            return refuse("grants are read from the configuration".into());
        }
        self.is_granted = true;
        self.grants = Grants::new(grants);
        self.removable.add(&self.grants);
        Ok(())
    }

    /// Reads the configuration's grants in a process of its own.
    fn prepare(&mut self) -> io::Result<()> {
        self.pending = None;
        let mut child = again(Role::Grants)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut said = Vec::new();
        let heard = child
            .stdout
            .take()
            .map_or(Err(io::ErrorKind::BrokenPipe.into()), |mut stdout| {
                stdout.read_to_end(&mut said)
            });
        let status = child.wait()?;
        heard?;
        if !status.success() {
            let text = String::from_utf8_lossy(said.get(..TEXT_BYTES_MAX).unwrap_or(&said));
            return refuse(if said.is_empty() {
                "the broker cannot read the configuration".into()
            } else {
                text.into_owned()
            });
        }
        self.pending = Some(Grants::new(Grant::decode(&said)?));
        Ok(())
    }

    fn commit(&mut self) -> io::Result<()> {
        self.grants = self
            .pending
            .take()
            .ok_or_else(|| io::Error::other("no grants were prepared"))?;
        self.removable.add(&self.grants);
        match (&self.removable.state_dir, &self.grants.files.control) {
            (Some(state_dir), Some((_, users))) => {
                let failed = |error| {
                    io::Error::other(format!(
                        "users of `control_users` can't be let through to control.sock: {error}"
                    ))
                };
                control::admit_at(state_dir, users).map_err(failed)
            }
            _ => Ok(()),
        }
    }

    /// Waits for all that has ended, and forgets groups that have.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if let Some(charge) = self.charges.iter_mut().find(|charge| charge.leader == pid) {
                charge.has_ended = true;
                let said = [&b"X"[..], &status.as_raw().to_le_bytes()].concat();
                let _ = charge.channel.write_all(&said);
            }
        }
        self.charges.retain(|charge| {
            let is_gone = charge.has_ended && (charge.is_released || !charge.is_there());
            if is_gone {
                let _ = (&charge.channel).write_all(b"E");
            }
            !is_gone
        });
    }

    /// `server`: its process, whose descriptors are closed one after the other.
    fn end(mut self, server: Option<OwnedFd>) -> io::Result<()> {
        for charge in &self.charges {
            charge.signal_all(ChildSignal::Term);
        }
        let until = Instant::now() + END_TIME;
        self.charges
            .iter_mut()
            .for_each(|charge| charge.is_abandoned = true);
        while !self.charges.is_empty() && Instant::now() < until {
            self.wait(None)?;
        }
        self.charges
            .iter()
            .for_each(|charge| charge.signal_all(ChildSignal::Kill));
        if let Some(server) = server {
            let time = Timespec {
                tv_sec: END_TIME.as_secs() as i64,
                tv_nsec: 0,
            };
            poll(&mut [PollFd::new(&server, PollFlags::IN)], Some(&time))?;
        }
        self.removable.clean_up(self.server);
        Ok(())
    }
}

impl Charge {
    /// Signals from the server; the end of them is its end.
    fn hear(&mut self) {
        let mut letters = [0; 16];
        while !self.is_abandoned {
            match self.channel.read(&mut letters) {
                Ok(0) => self.abandon(),
                Ok(count) => letters
                    .iter()
                    .take(count)
                    .for_each(|letter| self.signal(*letter)),
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
        !matches!(
            test_kill_process_group(self.leader),
            Err(rustix::io::Errno::SRCH)
        )
    }
}

/// If the server itself has a part of the address, from before it gave up its rights, the kernel
/// wants all of its sockets to be of one user (SO_REUSEPORT): this one becomes root's.
fn bind_as_ours(socket: &OwnedFd, address: &SocketAddr) -> io::Result<()> {
    match bind(socket, address) {
        Err(Errno::ADDRINUSE) => {
            fchown(socket, Some(geteuid()), None)?;
            Ok(bind(socket, address)?)
        }
        bound => Ok(bound?),
    }
}

fn kind(descriptor: &OwnedFd) -> Descriptor {
    let is_internet = || {
        matches!(
            socket_domain(descriptor),
            Ok(AddressFamily::INET | AddressFamily::INET6)
        )
    };
    let speaks =
        |wanted| matches!(socket_protocol(descriptor), Ok(Some(protocol)) if protocol == wanted);
    match socket_type(descriptor) {
        Ok(SocketType::STREAM) if is_internet() && speaks(rustix::net::ipproto::TCP) => {
            Descriptor::Tcp
        }
        Ok(SocketType::DGRAM) if is_internet() && speaks(rustix::net::ipproto::UDP) => {
            Descriptor::Udp
        }
        Ok(SocketType::STREAM) if socket_domain(descriptor) == Ok(AddressFamily::UNIX) => {
            Descriptor::UnixStream
        }
        _ => Descriptor::Other,
    }
}

/// Sends a number, or the reason for a refusal; then a descriptor, if the number announces one.
fn answer(channel: &mut UnixStream, outcome: &io::Result<Done>) -> io::Result<()> {
    let mut writer = Writer::default();
    let (number, reason) = match outcome {
        Ok(Done::Nothing) => (0, None),
        Ok(Done::Started(leader)) => (leader.as_raw_nonzero().get(), None),
        Ok(Done::Opened(_)) => (1, None),
        Err(error) => (
            error.raw_os_error().unwrap_or_default(),
            Some(error.to_string()),
        ),
    };
    writer.number(u64::from(number.unsigned_abs()));
    writer.optional(reason.as_deref().map(str::as_bytes));
    wire::write_message(&mut *channel, &writer.0)?;
    match outcome {
        Ok(Done::Opened(opened)) => wire::send_packet(&*channel, b'D', &[opened.as_fd()]),
        _ => Ok(()),
    }
}
