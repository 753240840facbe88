//! `saker upgrade`, and `saker reload --upgrade`: starts a new server that takes over from the
//! running one.
//!
//! Called by: `lib`; Apache's graceful restart.
//! Caveat: the new server gets the command line and the environment of the running one, and its
//! standard streams once it serves; until then its errors are this command's. It has to be started
//! by the user, and in the service, that the running one was started by.
//! Out of scope: taking over, which the new server does with the running one.

use crate::{
    arguments::{Reload, Upgrade},
    daemon,
    exit_status::{CONFIGURATION_ERRORS, UPGRADE_UNDER_WAY},
    output,
};
use saker_control::{
    client::{self, ClientError},
    upgrade::{CHECK, FROM, TAKE_OVER, VARIABLE},
};
use serde_json::Value;
use std::{
    fs, io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Time for the new program to read the configuration, and for the new server to serve.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time for the server of an earlier upgrade to finish its requests.
const EARLIER_PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(20);
const CHECK_POLL: Duration = Duration::from_millis(2);

pub fn upgrade(upgrade: &Upgrade) -> ExitCode {
    daemon::ask(&upgrade.target, |state_dir| {
        replace(state_dir, upgrade.binary.as_deref())
    })
}

/// Reloads the configuration; with `--upgrade`, replaces a server whose program file was replaced.
pub fn reload(reload: &Reload) -> ExitCode {
    if reload.target.remote.is_some() && !reload.upgrade {
        return daemon::ask_server(&reload.target, daemon::reload);
    }
    daemon::ask(&reload.target, |state_dir| {
        match reload.upgrade && is_due(state_dir)? {
            true => replace(state_dir, None),
            false => match daemon::reload(state_dir) {
                Err(ClientError::Configuration(_)) if is_outgrown(state_dir)? => {
                    replace(state_dir, None)
                }
                done => done,
            },
        }
    })
}

/// Returns true if the program file of the running server is another one by now.
pub fn is_due(state_dir: &Path) -> Result<bool, ClientError> {
    Ok(client::origin(state_dir)?["is_replaced"] == true)
}

/// Returns true if the last reload was refused because the sandbox of the running server allows
/// too little, which only a new server can change.
fn is_outgrown(state_dir: &Path) -> Result<bool, ClientError> {
    Ok(client::status(state_dir)?["last_reload"]["needs_new_server"] == true)
}

/// Starts the new server and waits until it serves.
pub fn replace(state_dir: &Path, binary: Option<&Path>) -> Result<ExitCode, ClientError> {
    let before = Running::ask(state_dir)?;
    if let Some(obstacle) = before.obstacle() {
        return Ok(output::cannot(obstacle));
    }
    let binary = binary.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.into()));
    let program = binary.unwrap_or_else(|| before.program.clone());
    let failed = |what: &str, error: io::Error| {
        output::cannot(format_args!("{what} {}: {error}", program.display()))
    };
    match before.command(&program, CHECK).spawn().and_then(end_of) {
        Ok(Some(status)) if status.success() => {}
        Ok(None) => {
            return Ok(output::cannot(format_args!(
                "not upgraded: {} has not read the configuration within {} s; the server goes on as before",
                program.display(),
                PATIENCE.as_secs()
            )));
        }
        Ok(Some(status)) => {
            output::error(format_args!(
                "saker: not upgraded ({status}); the server goes on as before\n"
            ));
            return Ok(ExitCode::from(CONFIGURATION_ERRORS));
        }
        Err(error) => return Ok(failed("cannot start", error)),
    }
    if let Some(pid) = wait_for_earlier(state_dir)? {
        return Ok(output::cannot(format_args!(
            "not upgraded: pid {pid}, the server before this one, still finishes its requests"
        )));
    }
    if let Some(pid) = serving_pid(state_dir)?.filter(|pid| *pid != before.pid) {
        return Ok(replaced_meanwhile(before.pid, pid));
    }
    let child = match before.command(&program, TAKE_OVER).spawn() {
        Ok(child) => child,
        Err(error) => return Ok(failed("cannot start", error)),
    };
    Ok(match wait(state_dir, child, before.pid) {
        Outcome::Upgraded(pid) => output::print(format!(
            "upgraded: pid {} has handed over to pid {pid}\n",
            before.pid
        )),
        Outcome::Replaced(pid) => replaced_meanwhile(before.pid, pid),
        Outcome::UnderWay => {
            output::error("saker: not upgraded by this command: another upgrade is under way\n");
            ExitCode::from(UPGRADE_UNDER_WAY)
        }
        // Its reason is on standard error.
        Outcome::Failed => output::cannot("not upgraded; the server goes on as before"),
        Outcome::NoneLeft(error) => output::cannot(format_args!(
            "the new server has ended, and the one before it does not answer: {error}"
        )),
    })
}

fn replaced_meanwhile(before: u64, pid: u64) -> ExitCode {
    output::error(format_args!(
        "saker: not upgraded by this command: another upgrade has replaced pid {before} by pid {pid} meanwhile\n"
    ));
    ExitCode::from(UPGRADE_UNDER_WAY)
}

fn serving_pid(state_dir: &Path) -> Result<Option<u64>, ClientError> {
    Ok(client::status(state_dir)?["pid"].as_u64())
}

/// Waits for the end of a server that was replaced before. `Some`: its number; it goes on.
fn wait_for_earlier(state_dir: &Path) -> Result<Option<u64>, ClientError> {
    let until = Instant::now() + EARLIER_PATIENCE;
    loop {
        let earlier = client::status(state_dir)?["finishing_pid"].as_u64();
        if earlier.is_none() || Instant::now() >= until {
            return Ok(earlier);
        }
        thread::sleep(POLL);
    }
}

/// Waits for the end of the check. `None`: it took too long, and is killed.
fn end_of(mut child: Child) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + PATIENCE;
    loop {
        match child.try_wait()? {
            None if Instant::now() < until => thread::sleep(CHECK_POLL),
            None => {
                let _ = child.kill();
                child.wait()?;
                return Ok(None);
            }
            ended => return Ok(ended),
        }
    }
}

/// The end of an upgrade.
enum Outcome {
    /// The process that this command has started serves; its number.
    Upgraded(u64),
    /// Another process took over meanwhile.
    Replaced(u64),
    /// Another process is taking over.
    UnderWay,
    /// The server from before goes on.
    Failed,
    /// The process has ended, and no server answers.
    NoneLeft(ClientError),
}

/// Returns once the new server serves, or has ended.
fn wait(state_dir: &Path, mut child: Child, before: u64) -> Outcome {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let ended = child.try_wait().ok().flatten();
        // Asked behind it: a server that has ended can't have been replaced since.
        let serving = serving_pid(state_dir);
        match (serving, ended) {
            (Ok(Some(pid)), _) if pid != before && descends_from(pid, child.id()) => {
                return Outcome::Upgraded(pid);
            }
            // A script in the place of the program may leave the server to itself.
            (Ok(Some(pid)), Some(status)) if pid != before && status.success() => {
                return Outcome::Upgraded(pid);
            }
            (Ok(Some(pid)), Some(_)) if pid != before => return Outcome::Replaced(pid),
            (Ok(_), Some(status)) => {
                return match status.code() == Some(UPGRADE_UNDER_WAY.into()) {
                    true => Outcome::UnderWay,
                    false => Outcome::Failed,
                };
            }
            (Err(error), Some(_)) => return Outcome::NoneLeft(error),
            (_, None) => thread::sleep(POLL),
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    Outcome::Failed
}

/// Returns true if it is this process, or was started by it.
fn descends_from(mut pid: u64, ancestor: u32) -> bool {
    while pid != u64::from(ancestor) {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
            return false;
        };
        // The name in parentheses may have any characters in it.
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        match parent {
            Some(parent) if parent > 1 => pid = parent,
            _ => return false,
        }
    }
    true
}

/// The running server's start.
struct Running {
    pid: u64,
    program: PathBuf,
    arguments: Vec<String>,
    directory: Option<PathBuf>,
    environment: Vec<(String, String)>,
    uid: Option<u64>,
    /// The user that opened the control socket.
    listening_uid: u32,
}

impl Running {
    fn ask(state_dir: &Path) -> Result<Running, ClientError> {
        Running::read(&client::origin(state_dir)?)
            .ok_or_else(|| ClientError::Garbled("no command line in it".into()))
    }

    fn read(answer: &Value) -> Option<Running> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Running {
            pid: answer["pid"].as_u64()?,
            program: text(&answer["program"])?.into(),
            arguments: answer["arguments"]
                .as_array()?
                .iter()
                .filter_map(text)
                .collect(),
            directory: text(&answer["directory"]).map(PathBuf::from),
            environment: answer["environment"]
                .as_object()?
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), text(value)?)))
                .collect(),
            uid: answer["uid"].as_u64(),
            listening_uid: u32::try_from(answer["listening_uid"].as_u64()?).ok()?,
        })
    }

    /// The reason why the new server can't be started from here.
    fn obstacle(&self) -> Option<String> {
        let own = u64::from(rustix::process::geteuid().as_raw());
        // By its own word, and by the kernel's: what it names is about to be run.
        let stranger =
            Some(u64::from(self.listening_uid)).filter(|_| !client::is_trusted(self.listening_uid));
        if let Some(uid) = self.uid.filter(|uid| *uid != own).or(stranger) {
            return Some(format!(
                "the server was started by user {uid}, and so must the new one be: `systemctl reload` of its service, \
                 or `setpriv --reuid {uid} ... saker upgrade`"
            ));
        }
        let is_service = self
            .environment
            .iter()
            .any(|(name, _)| name == "NOTIFY_SOCKET");
        let group = |process: &str| fs::read_to_string(format!("/proc/{process}/cgroup")).ok();
        let is_outside = is_service && group("self") != group(&self.pid.to_string());
        is_outside.then(|| {
            "the server is a service of systemd, which would not know the new one: run `systemctl reload` of its service".into()
        })
    }

    fn command(&self, program: &Path, task: &str) -> Command {
        let mut command = Command::new(program);
        let (name, words) = match self.arguments.split_first() {
            Some((name, words)) => (Some(name), words),
            None => (None, &[][..]),
        };
        // By its name it knows whether it is apache2 or nginx.
        name.into_iter().for_each(|name| {
            command.arg0(name);
        });
        command
            .args(words)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env(VARIABLE, task)
            .env(FROM, self.pid.to_string())
            // The terminal's signals are not the server's.
            .process_group(0)
            .stdin(Stdio::null());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn origin() -> Value {
        json!({
            "pid": std::process::id(), "program": "/usr/bin/saker", "uid": rustix::process::geteuid().as_raw(),
            "listening_uid": rustix::process::geteuid().as_raw(),
            "arguments": ["/usr/sbin/apache2", "-k", "start"], "directory": "/", "environment": { "LANG": "C" },
        })
    }

    #[test]
    fn the_new_server_is_started_like_the_old_one() {
        let running = Running::read(&origin()).unwrap();
        assert_eq!(running.obstacle(), None);
        let command = running.command(Path::new("/opt/saker"), TAKE_OVER);
        assert_eq!(command.get_program(), "/opt/saker");
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["-k", "start"]);
        assert_eq!(command.get_current_dir(), Some(Path::new("/")));
        let environment: Vec<_> = command.get_envs().collect();
        assert_eq!(environment.len(), 3, "{environment:?}");
    }

    #[test]
    fn a_new_server_is_the_child_or_descends_from_it() {
        let (own, parent) = (std::process::id(), std::os::unix::process::parent_id());
        assert!(descends_from(own.into(), own));
        assert!(descends_from(own.into(), parent));
        assert!(!descends_from(parent.into(), own));
        assert!(!descends_from(u64::from(u32::MAX), own));
    }

    #[test]
    fn not_by_another_user_and_not_outside_of_its_service() {
        let mut answer = origin();
        answer["uid"] = json!(54_321);
        let said = Running::read(&answer).unwrap().obstacle().unwrap();
        assert!(said.contains("user 54321"), "{said}");
        // It may say what it likes.
        let mut answer = origin();
        answer["listening_uid"] = json!(54_322);
        let said = Running::read(&answer).unwrap().obstacle().unwrap();
        assert!(said.contains("user 54322"), "{said}");
        let mut answer = origin();
        answer["environment"]["NOTIFY_SOCKET"] = json!("/run/systemd/notify");
        assert_eq!(
            Running::read(&answer).unwrap().obstacle(),
            None,
            "inside of it"
        );
        answer["pid"] = json!(u32::MAX);
        let said = Running::read(&answer).unwrap().obstacle().unwrap();
        assert!(said.contains("systemctl reload"), "{said}");
    }
}
