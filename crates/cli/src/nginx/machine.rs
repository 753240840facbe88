//! Parts of nginx's configuration that this machine lacks: users, directories of logs, certificates.
//!
//! Called by: `nginx -t`, and the start, which needs the user.
//! Caveat: unlike nginx, `-t` opens and creates nothing.

use super::early_log;
use crate::{check, preflight};
use saker_config::Diagnostic;
use saker_net::process::{group_id, user_id};
use saker_nginx::Loaded;
use saker_telemetry::error_log::ErrorLogTarget;
use std::{fs, path::Path};

/// Returns nginx's message about a user or a group that does not exist. Only root changes to them.
pub fn unknown_identity(loaded: &Loaded) -> Vec<String> {
    let process = &loaded.process;
    let Some(origin) = process
        .user_origin
        .as_ref()
        .filter(|_| preflight::is_root())
    else {
        return Vec::new();
    };
    let is_known = |user: &str| matches!(user_id(user), Ok(Some(_)));
    let unknown = match (&process.user, &process.group) {
        (Some(user), _) if !is_known(user) => format!("getpwnam(\"{user}\")"),
        (_, Some(group)) if group_id(group).is_err() => format!("getgrnam(\"{group}\")"),
        _ => return Vec::new(),
    };
    vec![format!(
        "{unknown} failed in {}:{}",
        origin.file, origin.line
    )]
}

/// Returns the errors.
pub fn problems(loaded: &Loaded) -> Vec<String> {
    let log = match &loaded.model.server.error_log.target {
        ErrorLogTarget::File(path) => Some(path.as_path()),
        _ => None,
    };
    let files = log.into_iter().chain([loaded.process.pid_file.as_path()]);
    let found = check::of_machine(&loaded.model);
    let errors = found.iter().filter(|found| found.is_error());
    files
        .filter_map(missing_folder)
        .chain(errors.map(|error| match path_of_log(&error.message) {
            Some(path) => missing_folder(path).unwrap_or_else(|| with_place(error)),
            None => with_place(error),
        }))
        .collect()
}

fn missing_folder(path: &Path) -> Option<String> {
    let error = fs::metadata(path.parent()?).err()?;
    let reason = early_log::reason(&error);
    Some(format!("open() \"{}\" failed ({reason})", path.display()))
}

/// The path in the message about a log.
fn path_of_log(message: &str) -> Option<&Path> {
    let rest = message.strip_prefix("cannot open access log ")?;
    rest.rsplit_once(": ").map(|(path, _)| Path::new(path))
}

/// Returns a message with its place, as nginx writes it.
pub fn with_place(diagnostic: &Diagnostic) -> String {
    match diagnostic.origin.line {
        0 => diagnostic.message.clone(),
        line => format!(
            "{} in {}:{line}",
            diagnostic.message, diagnostic.origin.file
        ),
    }
}
