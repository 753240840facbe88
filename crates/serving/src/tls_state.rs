//! TLS of a generation: certificates, tickets, and an acceptor for each TLS listener.
//!
//! Called by: the start and each reload, which build it before privileges are dropped, because
//! keys belong to root; `saker check`.
//! Caveat: certificate files are watched (`Watch`), and a changed certificate is used from the
//! next handshake on. Files that do not match, as between two renames, leave the old certificate
//! in force.
//! Out of scope: handshakes (`transport`, crate `tls`).

use saker_config::{
    HostTable, Model,
    model::{Address, Automatic, Listener, SiteName},
};
use saker_files::{ChangeToken, Watcher};
use saker_net::privileged;
use saker_telemetry::{error_log, message};
use saker_tls::{Acceptor, Identities, LoadProblem, Tickets, local_certificate};
use std::{
    collections::{BTreeSet, HashMap},
    fs::File,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

const H2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// TLS state shared by all workers.
pub struct TlsState {
    pub identities: Arc<Identities>,
    pub tickets: Arc<Tickets>,
    acceptors: HashMap<Address, Acceptor>,
    /// Certificate of the local authority, where a site uses it.
    pub authority: Option<PathBuf>,
}

impl TlsState {
    /// Loads all certificates of the model; reports all errors at once. The list has the warnings.
    pub fn build(
        model: &Model,
        hosts: &Arc<HostTable>,
        previous: Option<&TlsState>,
    ) -> Result<(TlsState, Vec<String>), String> {
        let (identities, mut problems) =
            Identities::load(model, hosts, previous.map(|previous| &*previous.identities));
        let (tickets, more) =
            Tickets::load(&model.tls, previous.map(|previous| &*previous.tickets));
        problems.extend(more);
        let authority = install_local(model, &identities).map_err(|error| format!("{error}\n"))?;
        let (errors, warnings): (Vec<_>, Vec<_>) =
            problems.into_iter().partition(LoadProblem::is_error);
        if !errors.is_empty() {
            return Err(errors
                .iter()
                .map(|problem| format!("{problem}\n"))
                .collect());
        }
        let (identities, tickets) = (Arc::new(identities), Arc::new(tickets));
        let acceptor = |listener: &Listener| {
            let alpn: Vec<&[u8]> = match &listener.stream {
                Some(server) => server.alpn.iter().map(Vec::as_slice).collect(),
                None if listener.http2 => vec![H2, HTTP1],
                None => vec![HTTP1],
            };
            listener.tls.as_ref()?;
            Some((
                listener.address.clone(),
                Acceptor::new(
                    Arc::clone(&identities),
                    listener,
                    Arc::clone(&tickets),
                    &alpn,
                ),
            ))
        };
        let mut acceptors: HashMap<_, _> = model.listeners.iter().filter_map(acceptor).collect();
        let console = model.console.address.filter(|_| model.console.tls);
        // The console shows what the first listener of sites with TLS shows, over HTTP/1.1: a
        // stream's certificates and client certificates are its own.
        let mut of_sites = model.listeners.iter().filter(|one| one.stream.is_none());
        let first = of_sites.find(|one| one.tls.is_some());
        if first.is_none() && console.is_some() {
            return Err("[console] has `tls`, but no listener of sites has\n".to_owned());
        }
        acceptors.extend(console.zip(first).map(|(address, first)| {
            let (identities, tickets) = (Arc::clone(&identities), Arc::clone(&tickets));
            let acceptor = Acceptor::new(identities, first, tickets, &[HTTP1]);
            (Address::Tcp(address), acceptor)
        }));
        Ok((
            TlsState {
                identities,
                tickets,
                acceptors,
                authority,
            },
            warnings.iter().map(ToString::to_string).collect(),
        ))
    }

    pub fn acceptor(&self, address: &Address) -> Option<&Acceptor> {
        self.acceptors.get(address)
    }
}

/// Problems with the certificates that a configuration names, for `saker check`.
pub fn problems(model: &Model) -> Vec<LoadProblem> {
    let mut problems = Identities::problems(model);
    problems.extend(Tickets::load(&model.tls, None).1);
    problems
}

/// Certificates by this machine's own authority, for the sites that want one.
fn install_local(model: &Model, identities: &Identities) -> Result<Option<PathBuf>, String> {
    let sites: Vec<_> = model
        .sites
        .iter()
        .filter(|site| site.tls.automatic == Automatic::Local)
        .collect();
    if sites.is_empty()
        || !model
            .listeners
            .iter()
            .any(|listener| listener.tls.is_some())
    {
        return Ok(None);
    }
    let names: Vec<String> = sites
        .iter()
        .flat_map(|site| &site.names)
        .filter_map(certified)
        .chain(addresses(model))
        .collect();
    let folder = authority_folder(model);
    let user = model
        .server
        .user
        .as_deref()
        .and_then(|user| saker_net::process::user_id(user).ok().flatten());
    let made = local_certificate(&folder, &names, user)
        .map_err(|error| format!("local certificate in {}: {error}", folder.display()))?;
    let shown_for: Vec<String> = names
        .iter()
        .cloned()
        .chain(["localhost".to_owned()])
        .collect();
    identities.install(&shown_for, &made.chain_pem, &made.key_pem)?;
    Ok(Some(made.authority_path))
}

/// Directory of the local authority: one for all servers of a user; a server that changes its user
/// has one of its own, which is accessible to that user.
pub fn authority_folder(model: &Model) -> PathBuf {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/share"));
    let data = std::env::var_os("XDG_DATA_HOME")
        .map(PathBuf::from)
        .or_else(home);
    match data
        .filter(|data| model.server.user.is_none() && data.is_absolute() && is_own_folder(data))
    {
        Some(data) => data.join("saker/authority"),
        None => model.server.state_dir.join("authority"),
    }
}

/// Returns whether this user owns the directory: `HOME` may be another user's (`sudo -E`), and
/// keys must not be stored where another user can replace them.
pub fn is_own_folder(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|found| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw())
}

fn certified(name: &SiteName) -> Option<String> {
    match name {
        SiteName::Exact(name) => Some(name.clone()),
        SiteName::Wildcard(parent) => Some(format!("*.{parent}")),
        SiteName::Any => None,
    }
}

/// Addresses of the listeners, for clients that connect by address.
fn addresses(model: &Model) -> impl Iterator<Item = String> {
    model
        .listeners
        .iter()
        .filter(|listener| listener.tls.is_some())
        .filter_map(|listener| match &listener.address {
            Address::Tcp(address) if !address.ip().is_unspecified() => {
                Some(address.ip().to_string())
            }
            _ => None,
        })
}

/// Interval of checks in directories that can't be watched.
const LOOK_IN_CLOSED: Duration = Duration::from_secs(30);

/// Says when files of certificates or tickets may have changed.
#[derive(Default)]
pub struct Watch {
    tokens: Vec<ChangeToken>,
    closed: Vec<ClosedFolder>,
    looked_ms: u64,
}

/// A directory that only root can read, opened by the broker: the kernel reports no changes in it.
/// Added and removed names change the directory itself; a file rewritten in place is found by the
/// next check of all files.
struct ClosedFolder {
    folder: File,
    changed: Option<SystemTime>,
}

impl ClosedFolder {
    fn new(folder: File) -> ClosedFolder {
        ClosedFolder {
            changed: changed(&folder),
            folder,
        }
    }

    fn has_changed(&self) -> bool {
        changed(&self.folder) != self.changed
    }
}

fn changed(folder: &File) -> Option<SystemTime> {
    folder.metadata().and_then(|found| found.modified()).ok()
}

impl Watch {
    /// Watches the folders of all files, and of what links lead to.
    pub fn new(tls: &TlsState, watcher: &Watcher) -> Watch {
        let files = tls
            .identities
            .files()
            .into_iter()
            .chain(tls.tickets.files().iter().cloned());
        let with_targets = files.flat_map(|file| {
            [
                std::fs::canonicalize(&file).unwrap_or_else(|_| file.clone()),
                file,
            ]
        });
        let folders: BTreeSet<PathBuf> = with_targets
            .filter_map(|file| Some(file.parent()?.to_owned()))
            .collect();
        let mut watch = Watch {
            looked_ms: watcher.now_ms(),
            ..Watch::default()
        };
        for folder in &folders {
            match File::open(folder) {
                Ok(folder) => watch.tokens.push(watcher.directory_token(&folder)),
                Err(_) => watch
                    .closed
                    .extend(privileged::open_directory(folder).map(ClosedFolder::new)),
            }
        }
        watch
    }

    /// Called a few times a second. Costs one load per directory while nothing has changed.
    pub fn look(&mut self, tls: &TlsState, watcher: &Watcher) {
        let now_ms = watcher.now_ms();
        let is_time = !self.closed.is_empty()
            && now_ms.saturating_sub(self.looked_ms) >= LOOK_IN_CLOSED.as_millis() as u64;
        if !is_time
            && self.tokens.iter().all(|token| token.is_current(now_ms))
            && !self.closed.iter().any(ClosedFolder::has_changed)
        {
            return;
        }
        // Files that can't be examined any more do not count as changed.
        if !self.closed.is_empty() && privileged::broker().is_none_or(|broker| broker.has_ended()) {
            self.closed.clear();
            return;
        }
        // New tokens first: later changes are seen by the next check.
        *self = Watch::new(tls, watcher);
        if tls.identities.have_files_changed() {
            let problems = tls.identities.reload_changed();
            report(&problems);
            if problems.iter().all(|problem| !problem.is_error()) {
                error_log::log(&message::CERTIFICATES_RELOADED, format_args!(""));
            }
        }
        report(&tls.tickets.reload());
    }
}

fn report(problems: &[LoadProblem]) {
    for problem in problems {
        let kind = if problem.is_error() {
            &message::CERTIFICATE_BAD
        } else {
            &message::CONFIG_WARNING
        };
        error_log::log(kind, format_args!("{problem}"));
    }
}
