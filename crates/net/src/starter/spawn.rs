//! From an order to a process: who it becomes, what it may use, what it is told.
//!
//! Difficulty: groups before group before user, limits before that, and the death signal after it, because a change of user takes it away
//! (prctl(2)). A script is started by its bare name in the folder that was looked at, with what suEXEC leaves of an environment.
#![allow(unsafe_code)]

use super::{
    ROLE,
    grants::Allowed,
    order::{Order, OrderKind, with_descriptors},
};
use crate::program::{ProgramLimits, lower_limits};
use rustix::{
    fs::FileType,
    io::{FdFlags, fcntl_setfd},
    process::{Pid, Signal},
};
use std::{
    ffi::OsStr,
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    path::Path,
    process::{Command, Stdio},
};

/// AP_SAFE_PATH of most builds.
const SAFE_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// What suEXEC lets through, besides fields of the request and what is about TLS (Apache's suexec, its list of safe variables).
const SAFE_NAMES: &[&str] = &[
    "AUTH_TYPE",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "CONTEXT_DOCUMENT_ROOT",
    "CONTEXT_PREFIX",
    "DATE_GMT",
    "DATE_LOCAL",
    "DOCUMENT_ARGS",
    "DOCUMENT_NAME",
    "DOCUMENT_PATH_INFO",
    "DOCUMENT_ROOT",
    "DOCUMENT_URI",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "LAST_MODIFIED",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "QUERY_STRING_UNESCAPED",
    "REMOTE_ADDR",
    "REMOTE_HOST",
    "REMOTE_IDENT",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REDIRECT_ERROR_NOTES",
    "REDIRECT_HANDLER",
    "REDIRECT_QUERY_STRING",
    "REDIRECT_REMOTE_USER",
    "REDIRECT_SCRIPT_FILENAME",
    "REDIRECT_STATUS",
    "REDIRECT_URL",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SCRIPT_URI",
    "SCRIPT_URL",
    "SERVER_ADDR",
    "SERVER_ADMIN",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SIGNATURE",
    "SERVER_SOFTWARE",
    "TZ",
    "UNIQUE_ID",
    "USER_NAME",
];

/// The first three descriptors are the program's standard ones; it inherits the others.
pub fn spawn(order: &Order, allowed: Allowed, descriptors: Vec<OwnedFd>) -> io::Result<Pid> {
    let mut descriptors = descriptors.into_iter();
    let (Some(input), Some(output), Some(errors)) = (descriptors.next(), descriptors.next(), descriptors.next()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let inherited: Vec<OwnedFd> = descriptors.collect();
    // The server's own errors are among a log program's.
    let is_apart = order.kind == OrderKind::LogProgram;
    for pipe in [&input, &output, &errors].into_iter().filter(|_| !is_apart) {
        give(pipe, &allowed);
    }
    let mut command = command(order, &inherited);
    command.stdin(Stdio::from(input)).stdout(Stdio::from(output)).stderr(Stdio::from(errors)).process_group(0);
    let limits = if is_apart { ProgramLimits::default() } else { order.limits };
    let become_it = move || {
        lower_limits(limits)?;
        if let Some(folder) = &allowed.folder {
            rustix::process::fchdir(folder)?;
        }
        allowed.identity.take()?;
        for signal in IGNORED {
            // SAFETY: signal(2) with SIG_DFL takes numbers and touches no memory of ours. Test: a_program_is_started_and_its_end_is_heard.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL).filter(|_| !is_apart))?;
        inherited.iter().try_for_each(|descriptor| Ok(fcntl_setfd(descriptor.as_fd(), FdFlags::empty())?))
    };
    // SAFETY: assumes that the starter has one thread, so that between fork and exec everything may be called that may be called before
    // (fork(2)); `serve` makes no other. Test: a_program_is_started_and_its_end_is_heard.
    unsafe { command.pre_exec(become_it) };
    let child = command.spawn()?;
    // It is waited for by its number.
    Pid::from_raw(child.id().cast_signed()).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// What is for the server is not for its starter, which ends when the server does.
const IGNORED: [i32; 6] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

pub fn ignore_signals() {
    for signal in IGNORED {
        // SAFETY: signal(2) with SIG_IGN takes numbers and touches no memory of ours. Test: a_program_is_started_and_its_end_is_heard.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

fn command(order: &Order, inherited: &[OwnedFd]) -> Command {
    if order.kind == OrderKind::LogProgram {
        let mut command = Command::new(&order.file);
        command.args(&order.arguments).env_remove(ROLE);
        return command;
    }
    let numbers: Vec<i32> = inherited.iter().map(AsRawFd::as_raw_fd).collect();
    let is_script = order.kind == OrderKind::Script;
    let mut command = match is_script {
        // With a slash, so that it is not looked for elsewhere.
        true => Command::new(Path::new(".").join(order.file.file_name().unwrap_or_default())),
        false => Command::new(&order.file),
    };
    command.arg0(&order.name).env_clear();
    command.args(order.arguments.iter().map(|argument| with_descriptors(argument, &numbers)));
    let environment = order.environment.iter().filter(|(name, _)| !is_script || is_safe(name));
    command.envs(environment.map(|(name, value)| (name, with_descriptors(value, &numbers))));
    if is_script {
        command.env("PATH", SAFE_PATH);
    } else {
        command.current_dir(&order.folder);
    }
    command
}

fn is_safe(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    bytes.starts_with(b"HTTP_") || bytes.starts_with(b"SSL_") || SAFE_NAMES.iter().any(|safe| safe.as_bytes() == bytes)
}

/// So that it may open it again as /dev/stderr and its like, which a pipe of another user's would refuse.
fn give(pipe: &OwnedFd, allowed: &Allowed) {
    let is_pipe = rustix::fs::fstat(pipe).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Fifo);
    if is_pipe {
        let (uid, gid) = (allowed.identity.uid(), allowed.identity.gid());
        let _ = std::os::unix::fs::fchown(pipe, Some(uid), Some(gid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_suexec_lets_through() {
        for (name, is_let) in
            [("HTTP_ACCEPT", true), ("SSL_PROTOCOL", true), ("QUERY_STRING", true), ("LD_PRELOAD", false), ("PATH", false)]
        {
            assert_eq!(is_safe(OsStr::new(name)), is_let, "{name}");
        }
    }
}
