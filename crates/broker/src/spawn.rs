//! Starts the program of a granted request: its arguments, environment, and standard descriptors.
//! `net::spawn_as` creates the process.
//!
//! Called by: the loop. A script is started by its bare name in the directory that was checked,
//! with the environment that suEXEC allows.

use crate::{
    ROLE,
    grants::Allowed,
    own_scripts::is_safe,
    spawn_request::{SpawnKind, SpawnRequest, with_descriptors},
};
use rustix::{fs::FileType, process::Pid};
use saker_net::{
    program::ProgramLimits,
    spawn_as::{SpawnAs, spawn_as},
};
use std::{
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::Path,
    process::{Command, Stdio},
};

/// Pipes without names (linux/magic.h).
const PIPEFS_MAGIC: u64 = 0x5049_5045;
/// AP_SAFE_PATH of most builds.
const SAFE_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Starts a program. The first three descriptors are its standard ones; it inherits the others.
/// `server`: the user that asks.
pub fn spawn(
    request: &SpawnRequest,
    allowed: Allowed,
    descriptors: Vec<OwnedFd>,
    server: u32,
) -> io::Result<Pid> {
    let mut descriptors = descriptors.into_iter();
    let (Some(input), Some(output), Some(errors)) =
        (descriptors.next(), descriptors.next(), descriptors.next())
    else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let inherited: Vec<OwnedFd> = descriptors.collect();
    if inherited.len() != allowed.inherited {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "descriptors that the program is not to inherit",
        ));
    }
    // The server's own errors are among a log program's.
    let is_log_program = request.kind == SpawnKind::LogProgram;
    for pipe in [&input, &output, &errors]
        .into_iter()
        .filter(|_| !is_log_program)
    {
        give(pipe, &allowed, server);
    }
    let mut command = command(request, &allowed, &inherited);
    command
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(errors))
        .process_group(0);
    let manner = SpawnAs {
        identity: allowed.identity,
        opened_folder: allowed.folder,
        own_folder: Some(request.folder.clone()).filter(|_| request.kind == SpawnKind::Own),
        limits: if is_log_program {
            ProgramLimits::default()
        } else {
            request.limits
        },
        inherited,
        ends_with_parent: !is_log_program,
        is_apart: allowed.is_apart,
    };
    spawn_as(command, manner)
}

fn command(request: &SpawnRequest, allowed: &Allowed, inherited: &[OwnedFd]) -> Command {
    if request.kind == SpawnKind::LogProgram {
        let mut command = Command::new(&request.file);
        command.args(&request.arguments).env_remove(ROLE);
        return command;
    }
    let numbers: Vec<i32> = inherited.iter().map(AsRawFd::as_raw_fd).collect();
    let is_script = request.kind == SpawnKind::Script;
    let mut command = match is_script {
        // With a slash, so that it is not looked for elsewhere.
        true => Command::new(Path::new(".").join(request.file.file_name().unwrap_or_default())),
        false => Command::new(&request.file),
    };
    let name = if request.kind == SpawnKind::Program {
        request.file.as_os_str()
    } else {
        &request.name
    };
    command.arg0(name).env_clear();
    command.args(
        request
            .arguments
            .iter()
            .map(|argument| with_descriptors(argument, &numbers)),
    );
    let environment = allowed
        .environment
        .as_ref()
        .unwrap_or(&request.environment)
        .iter()
        .filter(|(name, _)| !is_script || is_safe(name));
    command.envs(environment.map(|(name, value)| (name, with_descriptors(value, &numbers))));
    match request.kind {
        SpawnKind::Script => drop(command.env("PATH", SAFE_PATH)),
        // By its own user, later.
        SpawnKind::Own => {}
        SpawnKind::Program | SpawnKind::LogProgram => drop(command.current_dir("/")),
    }
    command
}

/// So that it may open it again as /dev/stderr and its like, which a pipe of another user's would
/// refuse. A pipe without a name that the server has made for this program: a FIFO of the file
/// system, or a pipe that is another program's already, stays whose it is.
fn give(pipe: &OwnedFd, allowed: &Allowed, server: u32) {
    let is_pipe = rustix::fs::fstat(pipe).is_ok_and(|found| {
        FileType::from_raw_mode(found.st_mode) == FileType::Fifo
            && found.st_uid == server
            && found.st_nlink <= 1
    });
    if is_pipe
        && rustix::fs::fstatfs(pipe)
            .is_ok_and(|system| u64::try_from(system.f_type) == Ok(PIPEFS_MAGIC))
    {
        let (uid, gid) = (allowed.identity.uid(), allowed.identity.gid());
        let _ = std::os::unix::fs::fchown(pipe, Some(uid), Some(gid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_net::process::Identity;
    use std::fs::File;

    /// Pipes with a name in the file system, and pipes that were handed over before, are left
    /// alone.
    #[test]
    fn only_pipes_of_the_servers_own_change_hands() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let allowed = || {
            let identity = Identity::look_up("nobody", None).unwrap();
            Allowed {
                identity,
                folder: None,
                inherited: 0,
                is_apart: false,
                environment: None,
            }
        };
        let owner = |pipe: &OwnedFd| rustix::fs::fstat(pipe).unwrap().st_uid;
        let nobody = allowed().identity.uid();
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        give(&pipe, &allowed(), 12_345);
        assert_eq!(owner(&pipe), 0, "another user's");
        give(&pipe, &allowed(), 0);
        assert_eq!(owner(&pipe), nobody);
        let path = std::env::temp_dir().join(format!("saker-fifo-{}", std::process::id()));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        let fifo = OwnedFd::from(File::options().read(true).write(true).open(&path).unwrap());
        give(&fifo, &allowed(), 0);
        assert_eq!(owner(&fifo), 0);
        std::fs::remove_file(path).unwrap();
    }
}
