//! The server's end of the broker: sends requests, and holds programs that the broker has started.
//!
//! Called by: the server, from any thread; each request has a channel of its own, so requests wait
//! for each other only in the broker.
//! Caveat: an answer takes as long as the kernel needs, and reading a large configuration takes
//! seconds: not for threads that serve.
//! Out of scope: decisions.

use saker_broker::{Grant, RELEASE, Request, Role, STATUS_BYTES, SpawnKind, SpawnRequest, again};
use saker_net::{
    child::ChildSignal,
    privileged::{Broker, Open},
    program::{ProgramPlan, ProgramUser, Spawned, Spawner},
    wire,
};
use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{
            net::UnixStream,
            process::{CommandExt, ExitStatusExt},
        },
    },
    path::Path,
    process::{Child, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// A start takes a millisecond or two; reading a large configuration some seconds.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
const READ_TIME_MAX: Duration = Duration::from_secs(60);

/// The server's end. Clones are the same broker's.
#[derive(Clone, Debug)]
pub struct BrokerClient {
    socket: Arc<Socket>,
    /// The user that the server becomes.
    own: Option<ProgramUser>,
    has_ended: Arc<AtomicBool>,
}

/// Closed by the server itself, it ends the broker as it should.
#[derive(Debug)]
struct Socket {
    descriptor: OwnedFd,
    is_closed: Arc<AtomicBool>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Release);
    }
}

/// The broker as a child of this process.
#[derive(Debug)]
pub struct BrokerProcess {
    child: Child,
    has_ended: Arc<AtomicBool>,
    is_closed: Arc<AtomicBool>,
}

impl BrokerProcess {
    /// Waits for its end on a thread of its own, which a sandbox confines if it is there first.
    /// `at_end` is called if the broker ends before the server does.
    pub fn watch(mut self, at_end: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let wait = move || {
            let _ = self.child.wait();
            self.has_ended.store(true, Ordering::Release);
            if !self.is_closed.load(Ordering::Acquire) {
                at_end();
            }
        };
        std::thread::Builder::new()
            .name("broker".into())
            .spawn(wait)
            .map(drop)
    }
}

impl BrokerClient {
    /// Starts a broker. To be called as root, and followed by [`BrokerProcess::watch`].
    pub fn start(grants: Vec<Grant>) -> io::Result<(BrokerClient, BrokerProcess)> {
        let (ours, theirs) = packets()?;
        // Descriptors that the server was started with are not for the broker, nor for its
        // programs.
        saker_net::process::close_at_exec();
        // A process group of its own: a terminal's signals are for the server.
        let child = again(Role::Broker)
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let socket = Socket {
            descriptor: ours,
            is_closed: Arc::default(),
        };
        let process = BrokerProcess {
            child,
            has_ended: Arc::clone(&has_ended),
            is_closed: Arc::clone(&socket.is_closed),
        };
        let own = grants.iter().find_map(|grant| match grant {
            Grant::Own { user, group } => Some(ProgramUser {
                user: user.clone(),
                group: group.clone(),
            }),
            _ => None,
        });
        let broker = BrokerClient {
            socket: Arc::new(socket),
            own,
            has_ended,
        };
        broker.ask(&Request::FirstGrants(grants), &[], READ_TIME_MAX)?;
        Ok((broker, process))
    }

    /// Has the broker read the configuration again: its grants count beside those in force, until
    /// one of the two below. Waits for it.
    pub fn prepare_grants(&self) -> io::Result<()> {
        self.ask(&Request::PrepareGrants, &[], READ_TIME_MAX)
            .map(drop)
    }

    /// Puts prepared grants in the place of those in force.
    pub fn commit_grants(&self) -> io::Result<()> {
        self.ask(&Request::CommitGrants, &[], ANSWER_TIME_MAX)
            .map(drop)
    }

    /// Forgets prepared grants.
    pub fn discard_grants(&self) -> io::Result<()> {
        self.ask(&Request::DiscardGrants, &[], ANSWER_TIME_MAX)
            .map(drop)
    }

    /// Starts a program with these for its standard input, output and errors.
    pub fn start_program(
        &self,
        request: &SpawnRequest,
        standard: [BorrowedFd<'_>; 3],
        inherited: &[BorrowedFd<'_>],
    ) -> io::Result<SpawnedChild> {
        let request = Request::Spawn(Box::new(request.clone()));
        let (channel, id) =
            self.ask(&request, &[&standard, inherited].concat(), ANSWER_TIME_MAX)?;
        channel.set_nonblocking(true)?;
        Ok(SpawnedChild {
            id,
            channel,
            status: None,
        })
    }

    /// Starts a log program, which ends with its input. Requested as [`SpawnKind::LogProgram`].
    pub fn start_log_program(
        &self,
        request: &SpawnRequest,
        standard: [BorrowedFd<'_>; 3],
    ) -> io::Result<()> {
        self.ask(
            &Request::Spawn(Box::new(request.clone())),
            &standard,
            ANSWER_TIME_MAX,
        )
        .map(drop)
    }

    fn ask(
        &self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
        time_max: Duration,
    ) -> io::Result<(UnixStream, u32)> {
        let (mut ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(time_max))?;
        ours.set_write_timeout(Some(time_max))?;
        let gone = |error: io::Error| {
            let kind = if error.kind() == io::ErrorKind::BrokenPipe {
                io::ErrorKind::ConnectionReset
            } else {
                error.kind()
            };
            io::Error::new(
                kind,
                format!("the privileged broker does not answer: {error}"),
            )
        };
        wire::send_packet(
            &self.socket.descriptor,
            b'Q',
            &[&[theirs.as_fd()], descriptors].concat(),
        )
        .map_err(gone)?;
        drop(theirs);
        wire::write_message(&mut ours, &request.encode()).map_err(gone)?;
        let message = wire::read_message(&mut ours, wire::MESSAGE_BYTES_MAX).map_err(gone)?;
        let mut reader = wire::Reader(&message);
        let number = reader.number()?;
        match reader.optional()? {
            None => Ok((ours, u32::try_from(number).unwrap_or_default())),
            Some(text) => {
                let code = i32::try_from(number).ok().filter(|code| *code != 0);
                let refused = || {
                    io::Error::new(
                        io::ErrorKind::PermissionDenied,
                        String::from_utf8_lossy(text).into_owned(),
                    )
                };
                Err(code.map_or_else(refused, io::Error::from_raw_os_error))
            }
        }
    }
}

impl Broker for BrokerClient {
    fn open(&self, path: &Path, how: Open) -> io::Result<OwnedFd> {
        let path = std::path::absolute(path)?;
        let (channel, _) = self.ask(&Request::Open { path, how }, &[], ANSWER_TIME_MAX)?;
        let received = wire::receive_packet(&channel)?;
        received
            .and_then(|(_, mut descriptors)| descriptors.pop())
            .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn bind(&self, socket: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
        self.ask(&Request::Bind { address }, &[socket], ANSWER_TIME_MAX)
            .map(drop)
    }

    fn bind_unix(&self, socket: BorrowedFd<'_>, path: &Path, mode: u32) -> io::Result<()> {
        let path = std::path::absolute(path)?;
        self.ask(
            &Request::BindUnix { path, mode },
            &[socket],
            ANSWER_TIME_MAX,
        )
        .map(drop)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let path = std::path::absolute(path)?;
        self.ask(&Request::RemoveFile { path }, &[], ANSWER_TIME_MAX)
            .map(drop)
    }

    fn place_file(&self, path: &Path) -> io::Result<()> {
        let path = std::path::absolute(path)?;
        self.ask(&Request::PlaceFile { path }, &[], ANSWER_TIME_MAX)
            .map(drop)
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }
}

impl Spawner for BrokerClient {
    fn own_user(&self) -> Option<&ProgramUser> {
        self.own.as_ref()
    }

    fn spawn(
        &self,
        plan: &ProgramPlan,
        user: &ProgramUser,
        is_own: bool,
        standard: [BorrowedFd<'_>; 3],
    ) -> io::Result<Box<dyn Spawned>> {
        let request = SpawnRequest {
            kind: if is_own {
                SpawnKind::Own
            } else {
                SpawnKind::Script
            },
            user: user.user.clone(),
            group: user.group.clone(),
            file: plan.file.clone(),
            name: plan.name.clone(),
            arguments: plan.arguments.clone(),
            environment: plan.environment.clone(),
            folder: plan.folder.clone(),
            limits: plan.limits,
        };
        Ok(Box::new(self.start_program(&request, standard, &[])?))
    }
}

/// Both ends of a socket that keeps packets apart.
fn packets() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    Ok(socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// A program that the broker has started, and everything in its group. Dropped, all of it is ended.
#[derive(Debug)]
pub struct SpawnedChild {
    id: u32,
    channel: UnixStream,
    status: Option<ExitStatus>,
}

impl SpawnedChild {
    /// Returns true if its process group has ended, too. Call [`Spawned::status`] first.
    pub fn is_gone(&mut self) -> bool {
        let mut said = [0; 1];
        self.status().is_some()
            && !matches!(self.channel.read(&mut said), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    pub fn signal_leader(&self, signal: ChildSignal) {
        self.tell(signal.letter());
    }

    fn tell(&self, letter: u8) {
        // A program whose channel is closed has ended.
        let _ = (&self.channel).write(&[letter]);
    }
}

impl Spawned for SpawnedChild {
    fn id(&self) -> u32 {
        self.id
    }

    /// Becomes readable once more when its group has ended.
    fn channel(&self) -> io::Result<OwnedFd> {
        Ok(self.channel.try_clone()?.into())
    }

    /// A program whose broker is gone has ended.
    fn status(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            let mut said = [0; STATUS_BYTES];
            self.status = match self.channel.read_exact(&mut said) {
                Ok(()) => Some(ExitStatus::from_raw(i32::from_le_bytes([
                    said[1], said[2], said[3], said[4],
                ]))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                Err(_) => Some(ExitStatus::from_raw(9)),
            };
        }
        self.status
    }

    fn signal_all(&self, signal: ChildSignal) {
        self.tell(signal.letter().to_ascii_uppercase());
    }

    fn release(self: Box<Self>) {
        self.tell(RELEASE);
    }
}
