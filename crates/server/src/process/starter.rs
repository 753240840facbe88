//! The process that stays root for programs of other users: when there is one, and what it may start.
//!
//! Split off at start, by root, before anything else is root's no more. Grants come from the configuration alone: at start the server tells them
//! while it is still root; after a reload the starter has them read by a process of its own, so that whoever has taken over the server can't
//! add any. Difficulty: those are this program with the same arguments, so that each is told by its environment what it is for ([`take_part`]).
//! Absent on purpose: a starter where nobody but the server's user runs anything.

use super::source::{Read, Source};
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
    out.write_all(&Grant::encode(&grants(&read.model, read.front_end.as_ref())))?;
    out.flush()
}

/// `None`: nobody is to run anything as somebody else, or nobody can.
pub fn split(read: &Read) -> Result<Option<Arc<Starter>>, String> {
    let grants = grants(&read.model, read.front_end.as_ref());
    if grants.is_empty() {
        return Ok(None);
    }
    if !rustix::process::geteuid().is_root() {
        let text = "programs and PHP of other users can't be started: the server was not started as root";
        error_log::log(&message::CONFIG_WARNING, format_args!("{text}"));
        return Ok(None);
    }
    Starter::split(&grants).map(|starter| Some(Arc::new(starter))).map_err(|error| format!("the starter of programs: {error}"))
}

/// After a reload. The error is a warning.
pub fn read_again(starter: Option<&Starter>, read: &Read) -> Option<String> {
    match starter {
        Some(starter) => starter.read_again().err().map(|error| format!("programs of other users: {error}")),
        None if grants(&read.model, read.front_end.as_ref()).is_empty() => None,
        None => Some("programs and PHP of other users can be started after the next start, by root; not after a reload".into()),
    }
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
