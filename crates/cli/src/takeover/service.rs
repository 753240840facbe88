//! A service that is started and stopped: one of systemd, or by commands.
//!
//! Called by: the take-over.
//! Caveat: commands are given to a shell, as the administrator wrote them.

use crate::arguments::{Takeover, TakeoverFrom};
use std::process::{Command, Stdio};

pub enum Service {
    Systemd(String),
    Commands { start: String, stop: String },
}

impl Service {
    /// The server that is there.
    pub fn of_other(asked: &Takeover) -> Service {
        let name = match asked.from {
            TakeoverFrom::Apache => "apache2",
            TakeoverFrom::Nginx => "nginx",
        };
        let name = asked.service.as_deref().unwrap_or(name);
        Service::new(name, asked.start.as_deref(), asked.stop.as_deref())
    }

    /// Saker with that one's configuration.
    pub fn of_saker(asked: &Takeover) -> Service {
        let name = match asked.from {
            TakeoverFrom::Apache => "saker-apache",
            TakeoverFrom::Nginx => "saker-nginx",
        };
        Service::new(
            name,
            asked.saker_start.as_deref(),
            asked.saker_stop.as_deref(),
        )
    }

    fn new(name: &str, start: Option<&str>, stop: Option<&str>) -> Service {
        match (start, stop) {
            (Some(start), Some(stop)) => Service::Commands {
                start: start.into(),
                stop: stop.into(),
            },
            _ => Service::Systemd(name.into()),
        }
    }

    /// # Errors
    /// The service manager, or the command, failed.
    pub fn start(&self) -> Result<(), String> {
        match self {
            Service::Systemd(name) => systemctl("start", name),
            Service::Commands { start, .. } => shell(start),
        }
    }

    /// # Errors
    /// Like [`Service::start`].
    pub fn stop(&self) -> Result<(), String> {
        match self {
            Service::Systemd(name) => systemctl("stop", name),
            Service::Commands { stop, .. } => shell(stop),
        }
    }

    /// At the next boot, too. Commands know no boot.
    ///
    /// # Errors
    /// Like [`Service::start`].
    pub fn enable(&self) -> Result<(), String> {
        match self {
            Service::Systemd(name) => systemctl("enable", name),
            Service::Commands { .. } => Ok(()),
        }
    }

    /// Not at the next boot. Commands know no boot.
    ///
    /// # Errors
    /// Like [`Service::start`].
    pub fn disable(&self) -> Result<(), String> {
        match self {
            Service::Systemd(name) => systemctl("disable", name),
            Service::Commands { .. } => Ok(()),
        }
    }
}

fn systemctl(verb: &str, name: &str) -> Result<(), String> {
    run(
        Command::new("systemctl").args(["--quiet", verb, name]),
        &format!("systemctl {verb} {name}"),
    )
}

fn shell(command: &str) -> Result<(), String> {
    run(Command::new("sh").args(["-c", command]), command)
}

/// Output is not captured: a server that goes to the background keeps it open.
fn run(command: &mut Command, shown: &str) -> Result<(), String> {
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` failed ({status})")),
        Err(error) => Err(format!("cannot run `{shown}`: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_say_how_they_ended() {
        let commands = |start: &str| Service::new("x", Some(start), Some("true"));
        assert_eq!(commands("true").start(), Ok(()));
        assert!(
            commands("exit 3")
                .start()
                .unwrap_err()
                .contains("exit status: 3")
        );
        assert!(
            matches!(Service::new("x", Some("true"), None), Service::Systemd(name) if name == "x")
        );
    }
}
