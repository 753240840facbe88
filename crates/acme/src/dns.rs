//! Helper for DNS-01: a command that sets and clears a TXT record (RFC 8555 section 8.4).
//!
//! Called by: `present`, without a shell, so that a name can't become a command. The command gets
//! three arguments in addition to the configured ones, and the same as variables (`SAKER_ACTION`,
//! `SAKER_RECORD`, `SAKER_VALUE`). Its output goes to the server's standard error.

use crate::blocking;
use saker_config::model::DnsWords;
use std::{
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Then it is killed.
pub const COMMAND_TIME_MAX: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug)]
pub enum Action {
    Set,
    Clear,
}

impl Action {
    fn as_str(self, words: DnsWords) -> &'static str {
        match (self, words) {
            (Action::Set, DnsWords::Own) => "set",
            (Action::Clear, DnsWords::Own) => "clear",
            (Action::Set, DnsWords::ModMd) => "setup",
            (Action::Clear, DnsWords::ModMd) => "teardown",
        }
    }
}

/// The record for a name; a wildcard has that of its parent.
pub fn record(name: &str) -> String {
    format!(
        "_acme-challenge.{}",
        name.strip_prefix("*.").unwrap_or(name)
    )
}

/// The command, and how it is called.
#[derive(Clone, Copy, Debug)]
pub struct Helper<'c> {
    pub command: &'c str,
    pub words: DnsWords,
}

/// Runs it on a thread that may block.
pub async fn run(
    helper: Helper<'_>,
    action: Action,
    record: &str,
    value: &str,
    time_max: Duration,
) -> Result<(), String> {
    let (command, action) = (helper.command, action.as_str(helper.words));
    let name = match helper.words {
        DnsWords::Own => record,
        DnsWords::ModMd => record.strip_prefix("_acme-challenge.").unwrap_or(record),
    };
    let mut words = command.split_whitespace().map(str::to_owned);
    let program = words.next().ok_or("there is no command")?;
    let arguments: Vec<String> = words
        .chain([action, name, value].map(str::to_owned))
        .collect();
    let mut call = Command::new(&program);
    call.args(arguments)
        .env("SAKER_ACTION", action)
        .env("SAKER_RECORD", record)
        .env("SAKER_VALUE", value);
    call.stdin(Stdio::null()).stdout(Stdio::null());
    let done = blocking::run("acme-record", move || wait(call, Instant::now() + time_max)).await;
    done.map_err(|error| error.to_string())
        .flatten()
        .map_err(|reason| format!("{program} {action}: {reason}"))
}

fn wait(mut call: Command, until: Instant) -> Result<(), String> {
    const LOOK: Duration = Duration::from_millis(20);
    let mut child = call.spawn().map_err(|error| error.to_string())?;
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(status.to_string()),
            None if Instant::now() >= until => {
                child
                    .kill()
                    .and_then(|()| child.wait())
                    .map_err(|error| error.to_string())?;
                return Err("it took too long".into());
            }
            None => thread::sleep(LOOK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_now(command: &str, time_max: Duration) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(run(
            Helper {
                command,
                words: DnsWords::Own,
            },
            Action::Set,
            "_acme-challenge.a.example",
            "value",
            time_max,
        ))
    }

    #[test]
    fn records() {
        assert_eq!(record("a.example"), "_acme-challenge.a.example");
        assert_eq!(record("*.a.example"), "_acme-challenge.a.example");
    }

    #[test]
    fn status_and_time_decide() {
        let long = Duration::from_secs(20);
        assert_eq!(run_now("true", long), Ok(()));
        assert!(
            run_now("false", long)
                .unwrap_err()
                .contains("exit status: 1")
        );
        assert!(run_now("/no/such/program", long).is_err());
        assert!(run_now(" ", long).is_err());
    }

    #[test]
    fn it_is_killed_in_the_end() {
        let begun = Instant::now();
        let script = std::env::temp_dir().join(format!("saker-acme-slow-{}", std::process::id()));
        std::fs::write(&script, "exec sleep 100\n").unwrap();
        let outcome = run_now(
            &format!("sh {}", script.display()),
            Duration::from_millis(100),
        );
        std::fs::remove_file(&script).unwrap();
        assert!(outcome.unwrap_err().contains("too long"));
        assert!(begun.elapsed() < Duration::from_secs(50));
    }
}
