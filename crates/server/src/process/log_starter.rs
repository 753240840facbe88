//! Log programs of Apache's configuration are started by whoever started the server, as apache2 does it: before privileges are dropped, and
//! again when they end. A process of its own keeps the privileges for that, and does nothing else.
//!
//! Difficulty: it must not be a way back to root for somebody who has taken over the server. It is told all commands before privileges are
//! dropped; after that it takes a number of one of them and the pipe that it is to read, and answers with an error's number. So a program that
//! a reload brings anew is started by the server's user, until the server is started again. It ends when the server does.
//!
//! Absent on purpose: such a process without log programs, without a change of user, and under `saker.toml`, where log programs have been the
//! server's user's from the start.

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType, recvmsg, send, sendmsg, socketpair,
    sockopt::{Timeout, set_socket_timeout},
};
use saker_config::{Model, model::AccessLogTarget};
use saker_telemetry::{
    access_log::{log_program, start_programs_with},
    error_log::{self, ErrorLogTarget},
    message,
};
use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Command, ExitCode, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

/// Of the hidden command that this process runs as.
pub const COMMAND: &str = "start-log-programs";
/// Longer than a fork and an exec take on a machine that swaps.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longer commands are started by the server's user.
const COMMAND_BYTES_MAX: usize = 16 << 10;

/// Begins it, where the configuration has log programs and a user to change to. Before privileges are dropped.
pub fn begin(model: &Model) {
    let commands = commands(model);
    let changes_user = rustix::process::geteuid().is_root() && model.server.user.is_some();
    if !changes_user || commands.is_empty() {
        return;
    }
    match spawn(&commands) {
        Ok(socket) => start_programs_with(starter(commands, socket)),
        Err(error) => error_log::log(&message::LOG_PROGRAM_FAILED, format_args!("as root: {error}")),
    }
}

/// Each once.
fn commands(model: &Model) -> Vec<String> {
    let of_sites = model.sites.iter().flat_map(|site| &site.access_logs).filter_map(|log| match &log.target {
        AccessLogTarget::Program(command) => Some(command),
        _ => None,
    });
    let of_server = match &model.server.error_log.target {
        ErrorLogTarget::Program(command) => Some(command),
        _ => None,
    };
    let mut all: Vec<String> = of_sites.chain(of_server).filter(|command| command.len() <= COMMAND_BYTES_MAX).cloned().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// This program once more, with one end of a pair of sockets as its standard input.
fn spawn(commands: &[String]) -> io::Result<OwnedFd> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("saker").arg(COMMAND).stdin(theirs).stdout(Stdio::null());
    let mut child = command.spawn()?;
    thread::spawn(move || child.wait());
    set_socket_timeout(&ours, Timeout::Recv, Some(PATIENCE))?;
    set_socket_timeout(&ours, Timeout::Send, Some(PATIENCE))?;
    let count = u32::try_from(commands.len()).map_err(io::Error::other)?;
    tell(&ours, &count.to_le_bytes())?;
    commands.iter().try_for_each(|command| tell(&ours, command.as_bytes()))?;
    Ok(ours)
}

fn tell(socket: impl AsFd, packet: &[u8]) -> io::Result<()> {
    Ok(send(socket, packet, SendFlags::NOSIGNAL).map(drop)?)
}

/// What starts programs from here on: the end of a pipe to a program that reads its other end.
fn starter(commands: Vec<String>, socket: OwnedFd) -> impl Fn(&str) -> Option<io::Result<OwnedFd>> + Send + Sync {
    let socket = Mutex::new(Some(socket));
    move |command| {
        let number = u32::try_from(commands.iter().position(|known| known == command)?).ok()?;
        let mut socket = socket.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = ask(socket.as_ref()?, number);
        if outcome.is_err() {
            // It has gone, or what it says is no longer the answer to what was asked.
            *socket = None;
        }
        outcome.ok()
    }
}

/// The outer error: it can't be asked. The inner one: the program can't be started.
fn ask(socket: &OwnedFd, number: u32) -> io::Result<io::Result<OwnedFd>> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [reader.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(socket, &[IoSlice::new(&number.to_le_bytes())], &mut control, SendFlags::NOSIGNAL)?;
    let mut answer = [0; 4];
    if rustix::net::recv(socket, &mut answer, RecvFlags::empty())?.0 != answer.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(match i32::from_le_bytes(answer) {
        0 => Ok(writer),
        error => Err(io::Error::from_raw_os_error(error)),
    })
}

/// The process that keeps the privileges. Its standard input is the socket to the server.
pub fn main() -> ExitCode {
    // For `ps`; at worst it has another name.
    let _ = saker_net::process::set_process_name("saker-logs");
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve() -> io::Result<()> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let mut packet = vec![0; COMMAND_BYTES_MAX];
    let count = match rustix::net::recv(&socket, &mut packet[..], RecvFlags::empty())?.0 {
        4 => packet.first_chunk().map_or(0, |count| u32::from_le_bytes(*count)),
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    let mut commands = Vec::new();
    for _ in 0..count {
        let (bytes, _) = rustix::net::recv(&socket, &mut packet[..], RecvFlags::empty())?;
        commands.push(String::from_utf8_lossy(packet.get(..bytes).unwrap_or_default()).into_owned());
    }
    while let Some((number, input)) = next(&socket)? {
        let command = usize::try_from(number).ok().and_then(|number| commands.get(number));
        let error = match command.ok_or_else(|| io::ErrorKind::NotFound.into()).and_then(|command| start(command, input)) {
            Ok(()) => 0,
            Err(error) => error.raw_os_error().unwrap_or(rustix::io::Errno::INVAL.raw_os_error()),
        };
        tell(&socket, &error.to_le_bytes())?;
    }
    Ok(())
}

/// `None`: the server has ended.
fn next(socket: &OwnedFd) -> io::Result<Option<(u32, OwnedFd)>> {
    let mut number = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(&mut number)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(Some((u32::from_le_bytes(number), descriptor.ok_or(io::ErrorKind::InvalidData)?)))
}

fn start(command: &str, input: OwnedFd) -> io::Result<()> {
    let mut child = log_program(command)?.stdin(input).spawn()?;
    // Somebody has to wait for it, whenever it ends.
    thread::Builder::new().stack_size(64 << 10).spawn(move || child.wait())?;
    Ok(())
}
