//! `saker console`: a link for logging in, users, and tokens.
//!
//! Called by: `lib`.
//! Caveat: users and tokens are changed in their file, with or without a running server, which
//! reads the file again.
//! Out of scope: the console (`saker_console`).

use crate::{
    arguments::{Console, ConsoleCommand, TokenCommand, UserCommand, UsersPlace},
    daemon::ask,
    locations,
    output::{self, cannot},
    source::load_native,
};
use rustix::termios::{LocalModes, OptionalActions, isatty, tcgetattr, tcsetattr};
use saker_console::{Change, change_users, new_token, new_totp};
use saker_control::client;
use serde_json::Value;
use std::{
    io::{self, BufRead as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

const USERS: &str = "console-users";

pub fn console(asked: &Console) -> ExitCode {
    match &asked.command {
        None => link(asked),
        Some(ConsoleCommand::User(command)) => user(command),
        Some(ConsoleCommand::Token(command)) => token(command),
    }
}

fn link(asked: &Console) -> ExitCode {
    ask(&asked.target, |state_dir| {
        let answer = client::console_link(state_dir)?;
        let url = answer
            .get("url")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let opened = match answer.get("is_new") {
            Some(Value::Bool(true)) => {
                " The console stays open on this machine until the server ends."
            }
            _ => "",
        };
        Ok(output::print(format!(
            "{url}\n\nThe link logs in an administrator, once, within five minutes.{opened}\n"
        )))
    })
}

fn user(command: &UserCommand) -> ExitCode {
    match command {
        UserCommand::Add {
            name,
            role,
            site,
            totp,
            place,
        } => {
            let secret = match totp.then(new_totp).transpose() {
                Ok(secret) => secret,
                Err(error) => return cannot(error),
            };
            let password = match read_password() {
                Ok(password) => password,
                Err(error) => return cannot(format_args!("the password cannot be read: {error}")),
            };
            let shown = secret.as_ref().map_or_else(String::new, |secret| {
                format!(
                    "\nFor the authenticator app, this once: {secret}\notpauth://totp/Saker:{name}?secret={secret}&issuer=Saker\n"
                )
            });
            let change = Change::SetUser {
                name: name.clone(),
                role: *role,
                site: site.clone(),
                password,
                totp: secret,
            };
            let text = format!("user {name}: {}\n{shown}", role.name());
            changed(place, &change, &text)
        }
        UserCommand::Remove { name, place } => {
            let text = format!("user {name} removed\n");
            changed(place, &Change::RemoveUser(name.clone()), &text)
        }
    }
}

fn token(command: &TokenCommand) -> ExitCode {
    match command {
        TokenCommand::Add {
            name,
            role,
            site,
            place,
        } => match new_token() {
            Ok(token) => {
                let change = Change::SetToken {
                    name: name.clone(),
                    role: *role,
                    site: site.clone(),
                    token: token.clone(),
                };
                changed(place, &change, &format!("{token}\n"))
            }
            Err(error) => cannot(error),
        },
        TokenCommand::Remove { name, place } => {
            let text = format!("token {name} removed\n");
            changed(place, &Change::RemoveToken(name.clone()), &text)
        }
    }
}

fn changed(place: &UsersPlace, change: &Change, text: &str) -> ExitCode {
    let changed = users_file(place)
        .and_then(|path| change_users(&path, change).map_err(|error| error.to_string()));
    changed.map_or_else(cannot, |()| output::print(text))
}

/// The file that a server of this configuration reads.
fn users_file(place: &UsersPlace) -> Result<PathBuf, String> {
    if let Some(file) = &place.file {
        return Ok(file.clone());
    }
    let target = &place.target;
    let is_elsewhere =
        target.state_dir.is_some() || target.apache.is_some() || target.nginx.is_some();
    let configuration = match (&target.config, is_elsewhere) {
        (Some(config), _) => Some(config.clone()),
        (None, false) => locations::configuration(None).ok(),
        (None, true) => None,
    };
    if let Some(path) = configuration {
        let model = load_native(&path).map_err(|error| error.to_string())?.model;
        let state_dir = target.state_dir.clone().unwrap_or(model.server.state_dir);
        return Ok(model.console.users.unwrap_or_else(|| state_dir.join(USERS)));
    }
    let state_dir = locations::running_server(target);
    let state_dir = state_dir.map_err(|_| "no server is running: name the file with --file")?;
    Ok(state_dir.join(USERS))
}

/// A line of standard input; from a terminal, without showing it.
fn read_password() -> io::Result<String> {
    let input = io::stdin();
    let before = match isatty(&input) {
        true => Some(tcgetattr(&input)?),
        false => None,
    };
    if let Some(before) = &before {
        let _ = io::stderr().write_all(b"Password: ");
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&input, OptionalActions::Flush, &hidden)?;
    }
    let mut line = String::new();
    let read = input.lock().read_line(&mut line);
    if let Some(before) = &before {
        tcsetattr(&input, OptionalActions::Flush, before)?;
        let _ = io::stderr().write_all(b"\n");
    }
    read?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
