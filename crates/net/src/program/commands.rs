//! Commands of the server's own: the shell of a page, external filters, programs of rewrite maps.
//!
//! Called by: content filters and maps, from threads that may block.
//! Caveat: the server holds a group that opens its state directory, and can't give it up for a
//! child; so where there is a broker, it starts them, as it does CGI programs. If the broker
//! refuses, nothing is started.

use super::{ProgramLimits, ProgramPlan, Spawner, Started, process, start_with, started};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf, absolute},
    process::{Command, Stdio},
    sync::{Arc, OnceLock},
};

/// Directories that are searched where the command's environment names none.
const SEARCHED: &str = "/usr/local/bin:/usr/bin:/bin";

static BROKER: OnceLock<Arc<dyn Spawner>> = OnceLock::new();

/// Standard error of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errors {
    Piped,
    Dropped,
    /// Those of the server.
    Shared,
}

/// Has commands started by this broker from now on. The first one counts.
pub fn start_commands_by(broker: Arc<dyn Spawner>) {
    // A process has one broker.
    let _ = BROKER.set(broker);
}

/// Starts a command, in a process group of its own, with its output piped. Its environment is what
/// was set, and nothing of the server's. Waits for the kernel: not for threads that serve.
pub fn start_command(command: Command, has_input: bool, errors: Errors) -> io::Result<Started> {
    match BROKER.get().filter(|broker| broker.own_user().is_some()) {
        Some(broker) => start_by(broker.as_ref(), &command, has_input, errors),
        None => start_here(command, has_input, errors),
    }
}

fn start_by(
    broker: &dyn Spawner,
    command: &Command,
    has_input: bool,
    errors: Errors,
) -> io::Result<Started> {
    let plan = plan(command, has_input)?;
    let own = broker.own_user().ok_or(io::ErrorKind::PermissionDenied)?;
    start_with(&plan, own, true, broker, errors)
}

fn start_here(mut command: Command, has_input: bool, errors: Errors) -> io::Result<Started> {
    process::unpin();
    process::close_at_exec();
    let set: Vec<(OsString, OsString)> = environment(&command);
    command.env_clear().envs(set).process_group(0);
    command.stdin(if has_input {
        Stdio::piped()
    } else {
        Stdio::null()
    });
    command.stdout(Stdio::piped()).stderr(match errors {
        Errors::Piped => Stdio::piped(),
        Errors::Dropped => Stdio::null(),
        Errors::Shared => Stdio::inherit(),
    });
    Ok(started(command.spawn()?))
}

fn environment(command: &Command) -> Vec<(OsString, OsString)> {
    let is_name = |name: &OsStr| !name.is_empty() && !name.as_encoded_bytes().contains(&b'=');
    let set = command
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    set.filter(|(name, _)| is_name(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn plan(command: &Command, has_input: bool) -> io::Result<ProgramPlan> {
    let environment = environment(command);
    let folder = match command.get_current_dir() {
        Some(folder) => absolute(folder)?,
        None => env::current_dir().unwrap_or_else(|_| "/".into()),
    };
    Ok(ProgramPlan {
        file: file(command.get_program(), &environment)?,
        name: command.get_program().to_owned(),
        arguments: command.get_args().map(OsStr::to_owned).collect(),
        environment,
        folder,
        limits: ProgramLimits::default(),
        has_input,
        user: None,
    })
}

/// The file of a program, which may be a name in PATH.
fn file(program: &OsStr, environment: &[(OsString, OsString)]) -> io::Result<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return absolute(program);
    }
    let named = environment.iter().find(|(name, _)| name == "PATH");
    let searched = named.map_or(OsStr::new(SEARCHED), |(_, value)| value);
    let is_program = |path: &Path| {
        fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    env::split_paths(searched)
        .map(|folder| folder.join(program))
        .find(|path| path.is_absolute() && is_program(path))
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_their_names() {
        let path = |value: &str| vec![("PATH".into(), OsString::from(value))];
        assert!(file(OsStr::new("sh"), &[]).unwrap().ends_with("bin/sh"));
        assert_eq!(
            file(OsStr::new("sh"), &path("/nowhere:/bin")).unwrap(),
            Path::new("/bin/sh")
        );
        assert!(file(OsStr::new("sh"), &path("/nowhere")).is_err());
        assert_eq!(file(OsStr::new("/x/y"), &[]).unwrap(), Path::new("/x/y"));
        assert!(file(OsStr::new("x/y"), &[]).unwrap().is_absolute());
    }
}
