//! The privileged broker of this server: when there is one, and its grants.
//!
//! Called by: the start, as root, before any privilege is dropped; reloads. Grants come from the
//! configuration alone: at start the server sends them while it is still root; at a reload the
//! broker has them read by a process of its own, so that a compromised server can't add any. The
//! broker also starts programs that run as the server's own user, because the server holds a group
//! that they must not have (`privileges`).
//! Caveat: those processes are this program with the same arguments, and their environment says
//! what each is for ([`take_part`]).
//! Out of scope: servers that stay root and start nothing as another user; files that can be opened
//! without a broker.

use super::{launcher, log_programs, model_paths, privileges};
use saker_apache::Apache;
use saker_broker::{Grant, Role, Transport, any_text};
use saker_broker_client::{BrokerClient, BrokerProcess};
use saker_cli::source::{Read, Source};
use saker_config::{
    Model,
    model::{Address, ProgramUser, Settings, Site, SymlinkPolicy},
};
use saker_net::privileged::{self, Broker};
use saker_pipeline::FrontEnd;
use saker_telemetry::{error_log, message};
use std::{
    ffi::OsString,
    io::{self, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

/// Modes of new log files: Apache's (before the umask), and ours.
const APACHE_LOG_MODE: u32 = 0o644;
const LOG_MODE: u32 = 0o640;

/// Runs the task of this process, if it is not the server.
pub fn take_part(source: &Source) -> Option<ExitCode> {
    let outcome = match saker_broker::role()? {
        Role::Broker => io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .and_then(saker_broker::serve),
        Role::Grants => write_grants(source),
        Role::Launcher => launcher::run(),
    };
    Some(if outcome.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn write_grants(source: &Source) -> io::Result<()> {
    privileged::record();
    let mut out = io::stdout();
    let read = source.read().map_err(|text| {
        // The broker passes it on: the server itself may not be able to read enough to say it.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        io::ErrorKind::InvalidData
    })?;
    out.write_all(&Grant::encode(&all_grants(&read)))?;
    out.flush()
}

/// Starts the broker. `None`: the server keeps its rights and runs nothing as another user, or it
/// has none to give up.
pub fn start(read: &Read) -> Result<Option<(Arc<BrokerClient>, BrokerProcess)>, String> {
    if !rustix::process::geteuid().is_root() {
        if program_grants(&read.model, read.front_end.as_ref()).is_empty() {
            return Ok(None);
        }
        let text =
            "programs and PHP of other users can't be started: the server was not started as root";
        error_log::log(&message::CONFIG_WARNING, format_args!("{text}"));
        return Ok(None);
    }
    let changes_user = read
        .model
        .server
        .user
        .as_deref()
        .and_then(privileges::uid_of)
        .is_some_and(|uid| uid != 0);
    let grants = if changes_user {
        all_grants(read)
    } else {
        program_grants(&read.model, read.front_end.as_ref())
    };
    drop(privileged::recorded());
    if grants.is_empty() {
        return Ok(None);
    }
    let (broker, process) = BrokerClient::start(grants)
        .map_err(|error| format!("cannot start the privileged broker: {error}"))?;
    if changes_user {
        privileged::set_broker(Box::new(broker.clone()));
    }
    Ok(Some((Arc::new(broker), process)))
}

/// Waits for the end of the broker, on a thread of its own.
pub fn watch(process: BrokerProcess) -> Result<(), String> {
    let at_end = || error_log::log(&message::BROKER_ENDED, format_args!(""));
    process
        .watch(at_end)
        .map_err(|error| format!("cannot watch the privileged broker: {error}"))
}

/// Grants of the configuration that a reload is about to read: in force beside the old ones until
/// they are committed. Dropped, they are discarded.
pub struct Prepared<'b> {
    broker: Option<&'b BrokerClient>,
}

impl Prepared<'_> {
    /// Commits the grants. The error is a warning: everything that needs no grant continues.
    pub fn commit(mut self) -> Option<String> {
        self.broker
            .take()?
            .commit_grants()
            .err()
            .map(|error| format!("the privileged broker: {error}"))
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        // A broker that has gone has no grants.
        let _ = self.broker.map(BrokerClient::discard_grants);
    }
}

/// Has the broker read the configuration, before the server does. The text beside the grants is a
/// warning.
///
/// # Errors
/// All that is wrong with the configuration.
pub fn prepare(broker: Option<&BrokerClient>) -> Result<(Prepared<'_>, Option<String>), String> {
    let Some(broker) = broker else {
        return Ok((Prepared { broker: None }, None));
    };
    let without = |warning: String| Ok((Prepared { broker: None }, Some(warning)));
    match broker.prepare_grants() {
        Ok(()) => Ok((
            Prepared {
                broker: Some(broker),
            },
            None,
        )),
        Err(error) if broker.has_ended() || is_end(&error) => without(ENDED.into()),
        // The configuration's own.
        Err(error)
            if error.raw_os_error().is_none()
                && error.kind() == io::ErrorKind::PermissionDenied =>
        {
            Err(error.to_string())
        }
        Err(error) => without(format!(
            "what only root may open is opened as before this reload: {error}"
        )),
    }
}

/// Returns true if an error means that the broker is gone.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof
    )
}

const ENDED: &str = "the privileged broker has ended: what only root may open (keys, logs, ports below 1024), and programs of other users, \
                     can't be had until the next start";

/// A warning about parts of a reload that fail without a broker.
pub fn missing(broker: Option<&BrokerClient>, read: &Read) -> Option<String> {
    match broker {
        Some(_) => None,
        None if !program_grants(&read.model, read.front_end.as_ref()).is_empty() => {
            Some("programs and PHP of other users can be started after the next start, by root; not after a reload".into())
        }
        None if has_become_user(&read.model) && !log_grants(read).is_empty() => {
            Some("log programs are started by the server's user until the next start, which has them started by root".into())
        }
        None => None,
    }
}

/// Says whether root started this server, which is another user's now.
fn has_become_user(model: &Model) -> bool {
    let now = rustix::process::geteuid();
    !now.is_root()
        && model.server.user.as_deref().and_then(privileges::uid_of) == Some(now.as_raw())
}

fn all_grants(read: &Read) -> Vec<Grant> {
    let mut all = program_grants(&read.model, read.front_end.as_ref());
    all.extend(log_grants(read));
    let server = &read.model.server;
    if let Some(user) = &server.user {
        all.extend(own_grants(read, user));
        all.extend(saker_php::grants(&read.model));
        all.extend(file_grants(&read.model, read.front_end.is_some()));
    }
    all.sort();
    all.dedup();
    all
}

/// The server's user, and the programs that run as that user: CGI of native sites below their
/// document roots. Rules of Apache's may name any program in files that are read for requests;
/// therefore such a server is not confined, and could start them itself.
fn own_grants(read: &Read, user: &str) -> Vec<Grant> {
    let (user, group) = (user.to_owned(), read.model.server.group.clone());
    let mut all = vec![Grant::Own {
        user: user.clone(),
        group: group.clone(),
    }];
    let front_end = read.front_end.as_ref();
    if front_end.is_some_and(|one| one.downcast_ref::<Apache>().is_some()) {
        all.push(Grant::OwnPrograms { user, group });
        return all;
    }
    for (site, settings) in read.model.all_settings() {
        settings.each(&mut |settings| {
            if settings.cgi.is_empty() || settings.program_user.is_some() {
                return;
            }
            let roots = roots_of(&read.model, site, settings);
            all.extend(roots.into_iter().map(|root| Grant::OwnScripts {
                user: user.clone(),
                group: group.clone(),
                root,
                follows_links: matches!(
                    settings.files.symlinks,
                    SymlinkPolicy::Follow | SymlinkPolicy::OwnerMatch
                ),
                environment: variables_of(settings),
            }));
        });
    }
    all
}

/// Document roots that requests with these settings may have; parts of the host's name have a
/// percent sign.
fn roots_of(model: &Model, site: &Site, settings: &Settings) -> Vec<PathBuf> {
    if let Some(root) = &settings.root {
        return vec![root.folder.to_path_buf()];
    }
    let mut roots: Vec<PathBuf> = site.root.iter().cloned().collect();
    if let Some(by_host) = &site.by_host {
        let pattern = by_host.root.iter();
        roots.extend(pattern.map(|pattern| PathBuf::from(pattern.as_str())));
        if by_host.is_looked_up {
            roots.extend(model.hosts.roots.iter().cloned());
        }
    }
    roots
}

/// The variables of `environment`; any value, where it depends on the request.
fn variables_of(settings: &Settings) -> Vec<(OsString, OsString)> {
    let variables = settings.variables.iter();
    variables
        .map(|variable| {
            let value = variable.value.constant().map(OsString::from);
            (
                OsString::from(&*variable.name),
                value.unwrap_or_else(any_text),
            )
        })
        .collect()
}

/// Grants for log programs. Apache's are started as the user that started the server; those of
/// `saker.toml` have always run as the server's user.
fn log_grants(read: &Read) -> Vec<Grant> {
    let is_wanted = read.front_end.is_some() && read.model.server.user.is_some();
    if is_wanted {
        log_programs::grants(&read.model)
    } else {
        Vec::new()
    }
}

/// The folder that holds the programs of a site or route.
fn folder_of(site: &Site, settings: &Settings) -> Option<PathBuf> {
    let own = settings.root.as_ref().map(|root| root.folder.to_path_buf());
    own.or_else(|| site.root.clone())
}

/// Programs that the configuration has run as others than the server.
fn program_grants(model: &Model, front_end: Option<&FrontEnd>) -> Vec<Grant> {
    let mut all: Vec<Grant> = Vec::new();
    for (site, settings) in model.all_settings() {
        all.extend(
            settings
                .program_user
                .as_ref()
                .zip(folder_of(site, settings))
                .map(|(user, root)| scripts(user, root)),
        );
    }
    if let Some(apache) = front_end.and_then(|front_end| front_end.downcast_ref::<Apache>()) {
        all.extend(
            apache
                .script_folders()
                .map(|(user, root)| scripts(user, root)),
        );
        all.extend(apache.home_folders().map(|suffix| Grant::Homes { suffix }));
    }
    let has_users = model.php_pools.all().iter().any(|pool| pool.user.is_some());
    all.extend(saker_php::grants(model).into_iter().filter(|_| has_users));
    all.sort();
    all.dedup();
    all
}

fn scripts(user: &ProgramUser, root: PathBuf) -> Grant {
    Grant::Scripts {
        user: user.user.clone(),
        group: user.group.clone(),
        root,
    }
}

/// Files and addresses: those that the model names, and those that were read to make it.
fn file_grants(model: &Model, is_apache: bool) -> Vec<Grant> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mode = if is_apache { APACHE_LOG_MODE } else { LOG_MODE };
    let mut all: Vec<Grant> = model_paths::log_files(model)
        .map(|path| Grant::Log {
            path: absolute(path),
            mode,
        })
        .collect();
    let compressed = model_paths::compressed_logs(model);
    all.extend(compressed.map(|path| Grant::RenamedLogs {
        log: absolute(path),
    }));
    let recorded = privileged::recorded();
    all.extend(recorded.files.into_iter().map(|path| Grant::Read { path }));
    all.extend(
        recorded
            .directories
            .into_iter()
            .map(|path| Grant::Directory { path }),
    );
    let (files, directories) = model_paths::read_later(model);
    // Watched for new certificates.
    let folders = files.iter().filter_map(|file| file.parent());
    all.extend(folders.map(|path| Grant::Directory {
        path: absolute(path),
    }));
    all.extend(files.into_iter().map(|path| Grant::Read {
        path: absolute(&path),
    }));
    all.extend(directories.into_iter().map(|path| Grant::Directory {
        path: absolute(&path),
    }));
    all.extend(listener_grants(model));
    let users = model
        .server
        .control_users
        .iter()
        .filter_map(|user| privileges::uid_of(user))
        .collect();
    all.push(Grant::Control {
        state_dir: absolute(&model.server.state_dir),
        users,
    });
    all.extend(model.server.pid_file.as_deref().map(|path| Grant::PidFile {
        path: absolute(path),
    }));
    all
}

/// Addresses to listen on.
fn listener_grants(model: &Model) -> Vec<Grant> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut all = Vec::new();
    for listener in &model.listeners {
        match &listener.address {
            Address::Tcp(address) => {
                all.push(Grant::Listen {
                    address: *address,
                    transport: Transport::Tcp,
                });
                if listener.http3.is_some() {
                    all.push(Grant::Listen {
                        address: *address,
                        transport: Transport::Udp,
                    });
                }
            }
            Address::Unix(path) => {
                all.push(Grant::ListenUnix {
                    path: absolute(path),
                    mode: listener.mode.unwrap_or(privileged::SOCKET_MODE),
                });
            }
        }
    }
    let endpoints = [model.metrics.address, model.console.address];
    all.extend(
        endpoints
            .into_iter()
            .flatten()
            .map(|address| Grant::Listen {
                address,
                transport: Transport::Tcp,
            }),
    );
    let datagrams = model.datagrams.iter();
    all.extend(datagrams.map(|listener| Grant::Listen {
        address: listener.address,
        transport: Transport::Udp,
    }));
    all
}
