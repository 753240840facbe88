//! Users, logs, and sockets of a configuration that this machine lacks, or that the server could
//! not use.
//!
//! Called by: `saker check`, and `apache2 -t`. The checks are those of root, by the broker's own
//! rules, and neither create nor open anything.
//! Caveat: other users can't check everything; a note lists what was left out.
//! Out of scope: certificates and keys, which `secured` loads.

use saker_broker::examine;
use saker_config::{
    Diagnostic, Model, Severity,
    model::{AccessLogTarget, NamedSocket, Origin},
};
use saker_net::{
    privileged::Open,
    process::{group_id, user_id},
};
use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
};

pub fn problems(model: &Model) -> Vec<Diagnostic> {
    let mut problems = unknown_identity(model);
    let access_logs = model.access_logs().filter_map(|log| match &log.target {
        AccessLogTarget::File(path) => Some(("access log", path.as_path(), &log.origin)),
        AccessLogTarget::Stdout
        | AccessLogTarget::ByHost(_)
        | AccessLogTarget::Below(_)
        | AccessLogTarget::Program(_)
        | AccessLogTarget::Syslog(_) => None,
    });
    let others = model
        .named_logs
        .iter()
        .map(|log| (log.kind, log.path.as_path(), &log.origin));
    let mut seen = BTreeSet::new();
    for (kind, path, origin) in others.chain(access_logs) {
        if seen.insert(path) {
            problems.extend(log(model, kind, path, origin));
        }
    }
    let mut seen = BTreeSet::new();
    problems.extend(
        model
            .named_sockets
            .iter()
            .filter(|socket| seen.insert(&socket.path))
            .filter_map(missing_socket),
    );
    problems
}

/// A check that only root can make.
pub fn not_looked_at(origin: &Origin, what: &str) -> Diagnostic {
    let help = "run this command as root to check it, too";
    diagnostic(
        Severity::Note,
        origin,
        format!("{what} could not be looked at: Permission denied"),
        help,
    )
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn unknown_identity(model: &Model) -> Vec<Diagnostic> {
    let server = &model.server;
    let [of_user, of_group] = &server.identity_origins;
    let mut problems = Vec::new();
    if let Some(user) = server
        .user
        .as_deref()
        .filter(|user| matches!(user_id(user), Ok(None)))
    {
        let help = format!("use an existing one, or create it: useradd --system {user}");
        problems.push(diagnostic(
            Severity::Error,
            of_user,
            format!("there is no user `{user}` to change to"),
            &help,
        ));
    }
    if let Some(group) = server
        .group
        .as_deref()
        .filter(|group| group_id(group).is_err())
    {
        let help = format!("use an existing one, or create it: groupadd --system {group}");
        problems.push(diagnostic(
            Severity::Error,
            of_group,
            format!("there is no group `{group}` to change to"),
            &help,
        ));
    }
    problems
}

fn log(model: &Model, kind: &str, path: &Path, origin: &Origin) -> Option<Diagnostic> {
    let shown = path.display();
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let error = match fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Some(not_looked_at(
                origin,
                &format!("the directory of {kind} {shown}"),
            ));
        }
        Err(error) => error,
        Ok(found) if !found.is_dir() => io::ErrorKind::NotADirectory.into(),
        // The server opens it itself, as the user that starts it.
        Ok(_) if !is_root() || model.server.user.is_none() => return None,
        Ok(_) => match std::path::absolute(path)
            .and_then(|path| examine(&path, Open::Append { mode: 0 }))
        {
            Ok(()) => return None,
            Err(error) => return refused(model, kind, path, folder, origin, &error),
        },
    };
    let help = format!("create the directory: mkdir -p {}", folder.display());
    Some(diagnostic(
        Severity::Error,
        origin,
        format!("cannot open {kind} {shown}: {}", reason(&error)),
        &help,
    ))
}

/// Result for a path that the broker does not open: the server opens it as its user.
fn refused(
    model: &Model,
    kind: &str,
    path: &Path,
    folder: &Path,
    origin: &Origin,
    error: &io::Error,
) -> Option<Diagnostic> {
    let user = model.server.user.as_deref()?;
    let uid = user_id(user).ok().flatten()?;
    let may_write = |path: &Path| {
        let found = fs::metadata(path).ok()?;
        Some(found.uid() == uid && found.mode() & 0o200 != 0 || found.mode() & 0o002 != 0)
    };
    let is_users = may_write(path)
        .or_else(|| may_write(folder))
        .unwrap_or_default();
    let (severity, outcome) = match is_users {
        true => (Severity::Warning, format!("it is opened as user {user}")),
        false => (Severity::Error, format!("and user {user} may not write it")),
    };
    let message = format!(
        "cannot open {kind} {} as root: {} ({outcome})",
        path.display(),
        reason(error)
    );
    let help = format!(
        "let root alone decide what stands in {0}: chown root {0} and chmod go-w {0}; or name another directory",
        folder.display()
    );
    Some(diagnostic(severity, origin, message, &help))
}

fn missing_socket(socket: &NamedSocket) -> Option<Diagnostic> {
    let (path, shown) = (&socket.path, socket.path.display());
    let message = match fs::metadata(path) {
        Ok(found) if found.file_type().is_socket() => return None,
        Ok(_) => format!("{shown} is no socket"),
        // The server's user may be let in where this one is not.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return None,
        Err(error) => format!("there is no socket {shown}: {}", reason(&error)),
    };
    Some(diagnostic(
        Severity::Warning,
        &socket.origin,
        message,
        &provider(path),
    ))
}

/// The service that creates a socket of this name on Debian-like and Fedora-like systems.
fn provider(path: &Path) -> String {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    match name.split_once("-fpm").map(|(before, _)| before).filter(|before| before.starts_with("php")) {
        Some("php") => "PHP's FPM makes it: apt-get install php-fpm, and start the service php8.2-fpm (by its version)".into(),
        Some(version) => format!("PHP's FPM makes it: apt-get install {version}-fpm, and systemctl start {version}-fpm"),
        None if name == "www.sock" => "PHP's FPM makes it: dnf install php-fpm, and systemctl start php-fpm".into(),
        None => "start the program that listens there; until then requests for it are answered 503".into(),
    }
}

fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn diagnostic(severity: Severity, origin: &Origin, message: String, help: &str) -> Diagnostic {
    let mut diagnostic = Diagnostic::without_source(origin.clone(), message);
    (diagnostic.severity, diagnostic.help) = (severity, Some(help.to_owned()));
    diagnostic
}
