//! `saker upgrade`, and `saker reload --upgrade`: starts a new server that takes over from the
//! running one.
//!
//! Called by: `lib`; Apache's graceful restart.
//! Caveat: the new server gets the command line and the environment of the running one, and its
//! standard streams once it serves; until then its errors are this command's. It has to be started
//! by the user, and in the service, that the running one was started by.
//! Out of scope: taking over, which the new server does with the running one.

mod service;
mod successor;

use crate::{
    arguments::{Reload, UPGRADE_TIMEOUT_S, Upgrade},
    daemon,
    exit_status::{CONFIGURATION_ERRORS, UPGRADE_UNDER_WAY},
    output,
};
use rustix::process::Signal;
use saker_control::{
    client::{self, ClientError},
    upgrade::{CHECK, FROM, TAKE_OVER, VARIABLE},
};
use serde_json::Value;
use std::{
    fs, io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};
use successor::Successor;

/// For commands that have no option for it.
pub const PATIENCE: Duration = Duration::from_secs(UPGRADE_TIMEOUT_S);
/// Time for the server of an earlier upgrade to finish its requests.
const EARLIER_PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(20);
const CHECK_POLL: Duration = Duration::from_millis(2);

pub fn upgrade(upgrade: &Upgrade) -> ExitCode {
    daemon::ask(&upgrade.target, |state_dir| {
        let patience = Duration::from_secs(upgrade.timeout_s);
        replace(state_dir, upgrade.binary.as_deref(), patience)
    })
}

/// Reloads the configuration; with `--upgrade`, replaces a server whose program file was replaced.
pub fn reload(reload: &Reload) -> ExitCode {
    if reload.target.remote.is_some() && !reload.upgrade {
        return daemon::ask_server(&reload.target, daemon::reload);
    }
    daemon::ask(&reload.target, |state_dir| {
        match reload.upgrade && is_known_to_be_due(state_dir)? {
            true => replace(state_dir, None, PATIENCE),
            false => match daemon::reload(state_dir) {
                Err(ClientError::Configuration(_)) if is_outgrown(state_dir)? => {
                    replace(state_dir, None, PATIENCE)
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

/// The same for servers that can be replaced where they are: a service of systemd that would end
/// with them is reloaded.
pub fn is_due_and_possible(state_dir: &Path) -> Result<bool, ClientError> {
    if !is_due(state_dir)? {
        return Ok(false);
    }
    let running = Running::ask(state_dir)?;
    let unit = service::that_ends_with(running.pid, &running.environment);
    if let Some(unit) = &unit {
        output::error(format_args!("saker: not upgraded: {}\n", no_pid_file(unit)));
    }
    Ok(unit.is_none())
}

fn no_pid_file(unit: &str) -> String {
    format!(
        "{unit} has no `PIDFile=`, so that systemd would end it with the server that runs now: restart it \
         (`systemctl restart {unit}`), or give it one (docs/service.md)"
    )
}

/// The same as [`is_due`]; a server whose start root has not noted is reloaded as it is.
fn is_known_to_be_due(state_dir: &Path) -> Result<bool, ClientError> {
    is_due(state_dir).or_else(|error| match error {
        ClientError::NoRecord(_) => {
            output::error(format_args!("saker: not upgraded: {error}\n"));
            Ok(false)
        }
        error => Err(error),
    })
}

/// Returns true if the last reload was refused because the sandbox of the running server allows
/// too little, which only a new server can change.
fn is_outgrown(state_dir: &Path) -> Result<bool, ClientError> {
    Ok(client::status(state_dir)?["last_reload"]["needs_new_server"] == true)
}

/// Starts the new server and waits until it serves.
pub fn replace(
    state_dir: &Path,
    binary: Option<&Path>,
    patience: Duration,
) -> Result<ExitCode, ClientError> {
    let before = Running::ask(state_dir)?;
    if let Some(obstacle) = before.obstacle() {
        return Ok(output::cannot(obstacle));
    }
    let binary = binary.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.into()));
    let program = binary.unwrap_or_else(|| before.program.clone());
    let failed = |error: io::Error| {
        output::cannot(format_args!("cannot start {}: {error}", program.display()))
    };
    let check = Successor::start(&mut before.command(&program, CHECK));
    match check.and_then(|check| end_of(check, patience)) {
        Ok(Some(status)) if status.success() => {}
        Ok(None) => {
            return Ok(output::cannot(format_args!(
                "not upgraded: {} has not read the configuration within {} s; the server goes on as before",
                program.display(),
                patience.as_secs()
            )));
        }
        Ok(Some(status)) => {
            output::error(format_args!(
                "saker: not upgraded ({status}); the server goes on as before\n"
            ));
            return Ok(ExitCode::from(CONFIGURATION_ERRORS));
        }
        Err(error) => return Ok(failed(error)),
    }
    if let Some(pid) = wait_for_earlier(state_dir)? {
        return Ok(output::cannot(format_args!(
            "not upgraded: pid {pid}, the server before this one, still finishes its requests"
        )));
    }
    if let Some(pid) = serving_pid(state_dir)?.filter(|pid| *pid != before.pid) {
        return Ok(replaced_meanwhile(before.pid, pid));
    }
    let successor = match Successor::start(&mut before.command(&program, TAKE_OVER)) {
        Ok(successor) => successor,
        Err(error) => return Ok(failed(error)),
    };
    let outcome = wait(state_dir, successor, before.pid, patience);
    Ok(report(&outcome, &program, before.pid, patience))
}

fn report(outcome: &Outcome, program: &Path, before: u64, patience: Duration) -> ExitCode {
    match outcome {
        Outcome::Upgraded(pid) => output::print(format!(
            "upgraded: pid {before} has handed over to pid {pid}\n"
        )),
        Outcome::Replaced(pid) => replaced_meanwhile(before, *pid),
        Outcome::UnderWay => {
            output::error("saker: not upgraded by this command: another upgrade is under way\n");
            ExitCode::from(UPGRADE_UNDER_WAY)
        }
        Outcome::Failed(status) if status.success() => output::cannot(format_args!(
            "not upgraded: {} has ended and left no server; the server goes on as before",
            program.display()
        )),
        // Its reason is on standard error.
        Outcome::Failed(status) => output::cannot(format_args!(
            "not upgraded ({status}); the server goes on as before"
        )),
        Outcome::Late => output::cannot(format_args!(
            "not upgraded: the new server has not listened within {} s, and was killed; the server goes on as before",
            patience.as_secs()
        )),
        Outcome::NoneLeft(why) => output::cannot(format_args!(
            "the new server has ended after it had taken over from pid {before}: {why}"
        )),
    }
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
fn end_of(mut check: Successor, patience: Duration) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + patience;
    loop {
        match check.status()? {
            None if Instant::now() < until => thread::sleep(CHECK_POLL),
            None => {
                check.kill();
                return Ok(None);
            }
            ended => return Ok(ended),
        }
    }
}

/// The end of an upgrade.
enum Outcome {
    /// A process that this command has started serves; its number.
    Upgraded(u64),
    /// Another process took over meanwhile.
    Replaced(u64),
    /// Another process is taking over.
    UnderWay,
    /// It has ended, and the server from before goes on.
    Failed(ExitStatus),
    /// It took too long, and was killed.
    Late,
    /// It has ended, and the server from before does not go on, for this reason.
    NoneLeft(String),
}

/// Returns once the new server serves, or has ended.
fn wait(state_dir: &Path, mut successor: Successor, before: u64, patience: Duration) -> Outcome {
    let until = Instant::now() + patience;
    while Instant::now() < until {
        // A server that has ended before the question can't take over behind it.
        let is_over = successor.is_over();
        if let Some(outcome) = outcome(state_dir, &mut successor, before, is_over) {
            return outcome;
        }
        thread::sleep(POLL);
    }
    // What stands still can't begin to serve between the question and its end.
    successor.signal(Signal::STOP);
    if !matches!(Serving::ask(state_dir, before), Ok(Serving::AsBefore)) {
        successor.signal(Signal::CONT);
        if let Some(outcome) = outcome(state_dir, &mut successor, before, false) {
            return outcome;
        }
    }
    successor.kill();
    Outcome::Late
}

/// `None`: nothing is decided. `is_over`: what was started has ended before.
fn outcome(
    state_dir: &Path,
    successor: &mut Successor,
    before: u64,
    is_over: bool,
) -> Option<Outcome> {
    let serving = Serving::ask(state_dir, before);
    let status = successor.status().ok().flatten();
    Some(match (serving, status.filter(|_| is_over)) {
        (Ok(Serving::Other(pid)), _) if successor.has(pid) => Outcome::Upgraded(pid),
        (_, None) => return None,
        // A script may have had it started by a service manager.
        (Ok(Serving::Other(pid)), Some(status)) if status.success() => Outcome::Upgraded(pid),
        (Ok(Serving::Other(pid)), Some(_)) => Outcome::Replaced(pid),
        (Ok(Serving::AsBefore), Some(_)) if successor.said_under_way() => Outcome::UnderWay,
        (Ok(Serving::AsBefore), Some(status)) => Outcome::Failed(status),
        (Ok(Serving::Stops), Some(_)) => Outcome::NoneLeft("it stops".into()),
        (Err(error), Some(_)) => Outcome::NoneLeft(format!("it does not answer: {error}")),
    })
}

/// The server that answers for the state directory.
enum Serving {
    AsBefore,
    /// The one from before has handed over, or was told to stop.
    Stops,
    Other(u64),
}

impl Serving {
    fn ask(state_dir: &Path, before: u64) -> Result<Serving, ClientError> {
        let status = client::status(state_dir)?;
        Ok(match status["pid"].as_u64() {
            Some(pid) if pid != before => Serving::Other(pid),
            _ if status["is_stopping"] == true => Serving::Stops,
            _ => Serving::AsBefore,
        })
    }
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
        // By its own word, and by the kernel's: what it names is about to be run. What answers for a
        // server of root's has root's rights no more, so that no other user can take its word either.
        let stranger = Some(u64::from(self.listening_uid)).filter(|uid| *uid != own);
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
        if is_outside {
            return Some(
                "the server is a service of systemd, which would not know the new one: run `systemctl reload` of its service".into(),
            );
        }
        let unit = service::that_ends_with(self.pid, &self.environment)?;
        Some(no_pid_file(&unit))
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
