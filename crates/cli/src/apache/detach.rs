//! Starts a server in the background: runs this program again in a session of its own and waits
//! until it serves.
//!
//! Called by: `main`, without `-DFOREGROUND`.
//! Caveat: the caller wants to know whether the server serves, sees its errors, and reads its
//! output to the end. So the server inherits standard error and closes it ([`let_go`]) once its pid
//! file says that it serves.

use super::control;
use std::{
    ffi::OsString,
    fs::File,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Tells the new process to let go of standard error once it serves.
const DETACHED: &str = "SAKER_DETACHED";
const PATIENCE: Duration = Duration::from_secs(60);

/// Programs that Apache's control script starts: on Debian and its derivatives, and on Fedora and
/// its derivatives.
const DAEMONS: [&str; 2] = ["/usr/sbin/apache2", "/usr/sbin/httpd"];

/// Starts the same command line again, in the foreground of a session of its own.
pub fn start(program: &str, pid_file: Option<&Path>) -> ExitCode {
    start_with(program, pid_file, &["-DFOREGROUND"])
}

/// The same without a further argument; the new process asks [`is_detached`].
pub fn start_same(program: &str, pid_file: Option<&Path>) -> ExitCode {
    start_with(program, pid_file, &[])
}

/// Returns whether this process was started in the background.
pub fn is_detached() -> bool {
    std::env::var_os(DETACHED).is_some()
}

fn start_with(program: &str, pid_file: Option<&Path>, more: &[&str]) -> ExitCode {
    let executable = match std::env::current_exe() {
        Ok(path) => path,
        Err(error) => return failed(program, &error.to_string()),
    };
    let (name, words) = command_line(program, std::env::args_os().collect(), |path| {
        Path::new(path).exists()
    });
    let mut command = Command::new(executable);
    // A process group of its own, so that the terminal's signals don't reach it.
    command.arg0(name).args(words).args(more).process_group(0);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .env(DETACHED, "1");
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return failed(program, &error.to_string()),
    };
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) if status.success() => return ExitCode::SUCCESS,
            _ => return ExitCode::FAILURE,
        }
        let serves = pid_file.is_none_or(|file| {
            control::running(file).is_some_and(|pid| pid.unsigned_abs() == child.id())
        });
        if serves {
            return ExitCode::SUCCESS;
        }
        thread::sleep(Duration::from_millis(20));
    }
    failed(program, "the server did not start in time")
}

/// The name and the arguments of the daemon: the same, except that apachectl starts what Apache's
/// does. Scripts look for a process of that name (`pgrep -f ^/usr/sbin/apache2` of Debian's
/// logrotate, `pidof apache2`).
fn command_line(
    program: &str,
    mut words: Vec<OsString>,
    exists: impl Fn(&str) -> bool,
) -> (OsString, Vec<OsString>) {
    let rest = words.split_off(words.len().min(1));
    let name = words.pop().unwrap_or_else(|| program.into());
    match DAEMONS
        .into_iter()
        .find(|path| program.ends_with("ctl") && exists(path))
    {
        Some(daemon) => {
            let rest: Vec<String> = rest
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect();
            (
                daemon.into(),
                control::translated(&rest)
                    .into_iter()
                    .map(OsString::from)
                    .collect(),
            )
        }
        None => (name, rest),
    }
}

/// Closes an inherited terminal or pipe. Called once the server serves.
pub fn let_go() {
    if std::env::var_os(DETACHED).is_none() {
        return;
    }
    if let Ok(nothing) = File::options().write(true).open("/dev/null") {
        // At worst a reader waits longer for the end of the file.
        let _ = rustix::stdio::dup2_stderr(nothing);
    }
}

fn failed(program: &str, why: &str) -> ExitCode {
    eprintln!("{program}: {why}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apachectl_starts_what_apaches_starts() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let on_debian = |path: &str| path == DAEMONS[0];
        assert_eq!(
            command_line("apache2ctl", words("apache2ctl start"), on_debian),
            ("/usr/sbin/apache2".into(), words("-k start"))
        );
        assert_eq!(
            command_line("apachectl", words("./apachectl -k start"), |_| false),
            ("./apachectl".into(), words("-k start"))
        );
        assert_eq!(
            command_line("apache2", words("/usr/sbin/apache2 -f x"), on_debian),
            ("/usr/sbin/apache2".into(), words("-f x"))
        );
    }
}
