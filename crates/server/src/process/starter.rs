//! The process that stays root for programs of other users and for log programs: when there is one, and what it may start.
//!
//! Split off at start, by root, before anything else is root's no more. Grants come from the configuration alone: at start the server tells them
//! while it is still root; after a reload the starter has them read by a process of its own, so that whoever has taken over the server can't
//! add any. Difficulty: those are this program with the same arguments, so that each is told by its environment what it is for ([`take_part`]).
//! Absent on purpose: a starter where nobody but the server's user runs anything.

use super::{
    log_programs, privileges,
    source::{Read, Source},
};
use saker_apache::Apache;
use saker_config::{Model, model::ProgramUser};
use saker_net::starter::{self, Grant, Role, Starter};
use saker_pipeline::FrontEnd;
use saker_telemetry::{error_log, message};
use std::{
    io::{self, Write},
    os::fd::AsFd,
    process::ExitCode,
    sync::Arc,
};

/// What this process was started for, if it is not to serve.
pub fn take_part(source: &Source) -> Option<ExitCode> {
    let outcome = match starter::role()? {
        Role::Starter => io::stdin().as_fd().try_clone_to_owned().and_then(starter::serve),
        Role::Grants => write_grants(source),
    };
    Some(if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write_grants(source: &Source) -> io::Result<()> {
    let read = source.read().map_err(io::Error::other)?;
    let mut out = io::stdout();
    out.write_all(&Grant::encode(&all_grants(&read)))?;
    out.flush()
}

/// `None`: nobody is to run anything as somebody else, or nobody can.
pub fn split(read: &Read) -> Result<Option<Arc<Starter>>, String> {
    if !rustix::process::geteuid().is_root() {
        if grants(&read.model, read.front_end.as_ref()).is_empty() {
            return Ok(None);
        }
        let text = "programs and PHP of other users can't be started: the server was not started as root";
        error_log::log(&message::CONFIG_WARNING, format_args!("{text}"));
        return Ok(None);
    }
    let grants = all_grants(read);
    if grants.is_empty() {
        return Ok(None);
    }
    Starter::split(&grants).map(|starter| Some(Arc::new(starter))).map_err(|error| format!("the starter of programs: {error}"))
}

/// After a reload. The error is a warning.
pub fn read_again(starter: Option<&Starter>, read: &Read) -> Option<String> {
    match starter {
        Some(starter) => starter.read_again().err().map(|error| format!("programs of other users: {error}")),
        None if !grants(&read.model, read.front_end.as_ref()).is_empty() => {
            Some("programs and PHP of other users can be started after the next start, by root; not after a reload".into())
        }
        None if has_become_user(&read.model) && !log_grants(read).is_empty() => {
            Some("log programs are started by the server's user until the next start, which has them started by root".into())
        }
        None => None,
    }
}

/// Whether root started this server, which is another user's now.
fn has_become_user(model: &Model) -> bool {
    let now = rustix::process::geteuid();
    !now.is_root() && model.server.user.as_deref().and_then(privileges::uid_of) == Some(now.as_raw())
}

fn all_grants(read: &Read) -> Vec<Grant> {
    let mut all = grants(&read.model, read.front_end.as_ref());
    all.extend(log_grants(read));
    all
}

/// Apache's log programs are started by whoever started the server; those of `saker.toml` have been the server's user's from the start.
fn log_grants(read: &Read) -> Vec<Grant> {
    let is_wanted = read.front_end.is_some() && read.model.server.user.is_some();
    if is_wanted { log_programs::grants(&read.model) } else { Vec::new() }
}

/// All that the configuration has run as others than the server.
fn grants(model: &Model, front_end: Option<&FrontEnd>) -> Vec<Grant> {
    let mut all: Vec<Grant> = Vec::new();
    for (site, settings) in model.all_settings() {
        all.extend(settings.program_user.as_ref().zip(site.root.as_ref()).map(|(user, root)| scripts(user, root.clone())));
    }
    if let Some(apache) = front_end.and_then(|front_end| front_end.downcast_ref::<Apache>()) {
        all.extend(apache.script_folders().map(|(user, root)| scripts(user, root)));
        all.extend(apache.home_folders().map(|suffix| Grant::Homes { suffix }));
    }
    let php = model.php_pools.all().iter().filter_map(|pool| Some((pool.user.as_ref()?, pool)));
    all.extend(php.map(|(user, pool)| Grant::Program {
        user: user.user.clone(),
        group: user.group.clone(),
        file: pool.program.clone(),
        arguments: None,
    }));
    all.sort();
    all.dedup();
    all
}

fn scripts(user: &ProgramUser, root: std::path::PathBuf) -> Grant {
    Grant::Scripts { user: user.user.clone(), group: user.group.clone(), root }
}
