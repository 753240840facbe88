//! `saker status`, `reload`, `reopen-logs` and `stop`: requests to the running server, and how the
//! answers are printed.
//!
//! Called by: `lib`; the other commands that talk to a running server, for their errors.

use crate::{
    arguments::{ReopenLogs, Status, Stop, Target},
    exit_status::{CANNOT, CONFIGURATION_ERRORS, NOT_RUNNING, UPGRADE_UNDER_WAY},
    locations::{self, Absent},
    output,
    remote::Remote,
    status_page,
};
use saker_control::client::{self, Channel, ClientError};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const NOT_REMOTE: &str = "this command is not available with --remote";

pub fn status(status: &Status) -> ExitCode {
    ask_server(&status.target, |server| {
        if status.healthy {
            return client::status(server).map(|report| health(&report));
        }
        match (status.prometheus, status.json) {
            (true, _) => client::metrics(server.local()?).map(output::print),
            (_, true) => {
                client::status(server).map(|report| output::print(format!("{report:#}\n")))
            }
            _ => client::status(server)
                .map(|report| output::print(status_page::render(&report, now_unix_s()))),
        }
    })
}

fn health(report: &Value) -> ExitCode {
    match report["is_stopping"] == true {
        true => ExitCode::from(CANNOT),
        false => ExitCode::SUCCESS,
    }
}

/// Reloads, and shows warnings and the result.
pub fn reload(server: &(impl Channel + ?Sized)) -> Result<ExitCode, ClientError> {
    let report = client::reload(server)?;
    for warning in report
        .get("warnings")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        output::error(format_args!(
            "{}\n",
            warning.as_str().unwrap_or_default().trim_end()
        ));
    }
    Ok(output::print(status_page::reloaded(&report)))
}

pub fn stop(stop: &Stop) -> ExitCode {
    ask(&stop.target, |state_dir| {
        let pid = client::stop(state_dir, !stop.now)?;
        Ok(output::print(pid.map_or_else(
            || "stopped\n".to_owned(),
            |pid| format!("stopped (pid {pid})\n"),
        )))
    })
}

pub fn reopen_logs(reopen: &ReopenLogs) -> ExitCode {
    ask(&reopen.target, |state_dir| {
        client::reopen_logs(state_dir).map(|()| output::print("log files reopened\n"))
    })
}

/// A server on this machine, or on another one.
pub enum Server {
    /// By its state directory.
    Local(PathBuf),
    Remote(Remote),
}

impl Server {
    /// The state directory.
    ///
    /// # Errors
    ///
    /// The server is on another machine.
    pub fn local(&self) -> Result<&Path, ClientError> {
        match self {
            Server::Local(state_dir) => Ok(state_dir),
            Server::Remote(_) => Err(ClientError::Refused(NOT_REMOTE.to_owned())),
        }
    }
}

impl Channel for Server {
    fn ask(&self, request: &Value, patience: Duration) -> Result<Value, ClientError> {
        match self {
            Server::Local(state_dir) => state_dir.as_path().ask(request, patience),
            Server::Remote(remote) => remote.ask(request, patience),
        }
    }
}

/// Asks the server of a target, which may be on another machine.
pub fn ask_server(
    target: &Target,
    question: impl FnOnce(&Server) -> Result<ExitCode, ClientError>,
) -> ExitCode {
    let Some(url) = &target.remote else {
        return ask(target, |state_dir| {
            question(&Server::Local(state_dir.to_owned()))
        });
    };
    let (token, authority) = (target.token_file.as_deref(), target.remote_ca.as_deref());
    let asked = match Remote::new(url, token, authority) {
        Ok(remote) => question(&Server::Remote(remote)).map_err(|error| explain_failure(&error)),
        Err(error) => Err((CANNOT, format!("saker: {error}\n"))),
    };
    finish(asked)
}

/// Asks a server on this machine.
pub fn ask(
    target: &Target,
    question: impl FnOnce(&Path) -> Result<ExitCode, ClientError>,
) -> ExitCode {
    if target.remote.is_some() {
        return output::cannot(NOT_REMOTE);
    }
    let asked = match locations::running_server(target) {
        Ok(state_dir) => question(&state_dir).map_err(|error| explain_failure(&error)),
        Err(absent) => Err(explain_absence(&absent)),
    };
    finish(asked)
}

fn finish(asked: Result<ExitCode, (u8, String)>) -> ExitCode {
    asked.unwrap_or_else(|(status, text)| {
        output::error(text);
        ExitCode::from(status)
    })
}

/// Diagnostics come rendered and stand for themselves.
fn explain_failure(error: &ClientError) -> (u8, String) {
    match error {
        ClientError::NotRunning(_) => (NOT_RUNNING, format!("saker: {error}\n")),
        ClientError::Configuration(text) => (
            CONFIGURATION_ERRORS,
            format!(
                "{}\nsaker: not reloaded; the server goes on as before\n",
                text.trim_end()
            ),
        ),
        ClientError::UpgradeUnderWay(_) => (UPGRADE_UNDER_WAY, format!("saker: {error}\n")),
        _ => (CANNOT, format!("saker: {error}\n")),
    }
}

fn explain_absence(absent: &Absent) -> (u8, String) {
    match absent {
        Absent::Configuration(diagnostics) => (
            CONFIGURATION_ERRORS,
            format!(
                "{}\nsaker: cannot locate the server without a valid configuration; use --state-dir\n",
                diagnostics.trim_end()
            ),
        ),
        Absent::None(places) => (
            NOT_RUNNING,
            format!(
                "saker: no server is running in {} (specify it with -c, --apache or --state-dir)\n",
                listed(places)
            ),
        ),
        Absent::Several(places) => (
            CANNOT,
            format!(
                "saker: several servers are running; choose one with --state-dir: {}\n",
                listed(places)
            ),
        ),
    }
}

fn listed(places: &[PathBuf]) -> String {
    places
        .iter()
        .map(|place| place.display().to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

fn now_unix_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_status_and_sentence() {
        let (status, text) = explain_failure(&ClientError::NotRunning("/run/saker".into()));
        assert_eq!(
            (status, text.as_str()),
            (
                3,
                "saker: no server is running (state directory /run/saker)\n"
            )
        );
        let (status, text) = explain_failure(&ClientError::Configuration(
            "saker.toml:1:1: error: x\n".into(),
        ));
        assert_eq!(status, 1);
        assert!(
            text.starts_with("saker.toml:1:1: error: x\nsaker: not reloaded"),
            "{text}"
        );
        assert_eq!(
            explain_failure(&ClientError::Refused("no".into())),
            (2, "saker: the server refused: no\n".into())
        );
        assert_eq!(explain_failure(&ClientError::Garbled("x".into())).0, 2);
        assert_eq!(explain_absence(&Absent::None(vec!["/a".into()])).0, 3);
        let (status, text) = explain_absence(&Absent::Several(vec!["/a".into(), "/b".into()]));
        assert_eq!(status, 2);
        assert!(text.ends_with("--state-dir: /a, /b\n"), "{text}");
    }
}
