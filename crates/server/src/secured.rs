//! TLS of a generation: its certificates and tickets, and an acceptor for each listener that speaks TLS.
//!
//! Built by the main thread beside the running one, before privileges are dropped, because keys belong to root. The difficulty is what happens
//! later: files are watched (`watch`), and a changed certificate is shown from the next handshake on, without a reload. A pair of files
//! that does not fit together, as between two renames, leaves the old one in force.

use saker_config::{
    Model,
    model::{Address, Automatic, Listener, Site, SiteName},
};
use saker_files::{Stamp, Watcher};
use saker_telemetry::{error_log, message};
use saker_tls::{Acceptor, Identities, LoadProblem, SiteIdentity, Tickets, local_certificate};
use std::{
    collections::{BTreeSet, HashMap},
    fs::File,
    path::PathBuf,
    sync::Arc,
};

const H2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// What workers need for TLS. Shared by all of them.
pub struct Secured {
    pub identities: Arc<Identities>,
    pub tickets: Arc<Tickets>,
    acceptors: HashMap<Address, Acceptor>,
    /// Certificate of the local authority, where a site uses it.
    pub authority: Option<PathBuf>,
}

impl Secured {
    /// Loads what the model names; where something can't be used, everything wrong is said at once. The list has the warnings.
    pub fn build(model: &Model, previous: Option<&Secured>) -> Result<(Secured, Vec<String>), String> {
        let (identities, mut problems) = Identities::load(&identities_of(model), previous.map(|previous| &*previous.identities));
        let (tickets, more) = Tickets::load(&model.tls, previous.map(|previous| &*previous.tickets));
        problems.extend(more);
        let authority = install_local(model, &identities).map_err(|error| format!("{error}\n"))?;
        let (errors, warnings): (Vec<_>, Vec<_>) = problems.into_iter().partition(LoadProblem::is_error);
        if !errors.is_empty() {
            return Err(errors.iter().map(|problem| format!("{problem}\n")).collect());
        }
        let (identities, tickets) = (Arc::new(identities), Arc::new(tickets));
        let acceptor = |listener: &Listener| {
            let alpn: &[&[u8]] = if listener.http2 { &[H2, HTTP1] } else { &[HTTP1] };
            let tls = listener.tls.as_ref()?;
            Some((listener.address.clone(), Acceptor::new(Arc::clone(&identities), tls, Arc::clone(&tickets), alpn)))
        };
        let acceptors = model.listeners.iter().filter_map(acceptor).collect();
        Ok((Secured { identities, tickets, acceptors, authority }, warnings.iter().map(ToString::to_string).collect()))
    }

    pub fn acceptor(&self, address: &Address) -> Option<&Acceptor> {
        self.acceptors.get(address)
    }
}

/// What is wrong with the certificates that a configuration names; for `saker check`.
pub fn problems(model: &Model) -> Vec<LoadProblem> {
    let mut problems = Identities::problems(&identities_of(model));
    problems.extend(Tickets::load(&model.tls, None).1);
    problems
}

fn identities_of(model: &Model) -> Vec<SiteIdentity<'_>> {
    let sites = model.sites.iter().filter(|site| speaks_tls(model, site));
    sites.map(|site| SiteIdentity { names: &site.names, tls: &site.tls, origin: &site.origin }).collect()
}

/// Whether a listener with TLS leads to the site.
fn speaks_tls(model: &Model, site: &Site) -> bool {
    let is_at = |address: &Address| match address {
        Address::Tcp(address) => site.local_addresses.iter().any(|own| own.port() == 0 || own.port() == address.port()),
        Address::Unix(_) => false,
    };
    let leads_to = |listener: &&Listener| {
        (site.listeners.is_empty() || site.listeners.contains(&listener.address))
            && (site.local_addresses.is_empty() || is_at(&listener.address))
    };
    model.listeners.iter().filter(|listener| listener.tls.is_some()).any(|listener| leads_to(&listener))
}

/// Certificates by this machine's own authority, for the sites that want one.
fn install_local(model: &Model, identities: &Identities) -> Result<Option<PathBuf>, String> {
    let sites: Vec<_> = model.sites.iter().filter(|site| site.tls.automatic == Automatic::Local).collect();
    if sites.is_empty() || !model.listeners.iter().any(|listener| listener.tls.is_some()) {
        return Ok(None);
    }
    let names: Vec<String> = sites.iter().flat_map(|site| &site.names).filter_map(certified).chain(addresses(model)).collect();
    let folder = authority_folder(model);
    let made = local_certificate(&folder, &names).map_err(|error| format!("local certificate in {}: {error}", folder.display()))?;
    let shown_for: Vec<String> = names.iter().cloned().chain(["localhost".to_owned()]).collect();
    identities.install(&shown_for, &made.chain_pem, &made.key_pem)?;
    Ok(Some(made.authority_path))
}

/// One authority for all servers of a user; a server that changes its user has one of its own, where that user finds it again.
pub fn authority_folder(model: &Model) -> PathBuf {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/share"));
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).or_else(home);
    match data.filter(|data| model.server.user.is_none() && data.is_absolute() && data.is_dir()) {
        Some(data) => data.join("saker/authority"),
        None => model.server.state_dir.join("authority"),
    }
}

fn certified(name: &SiteName) -> Option<String> {
    match name {
        SiteName::Exact(name) => Some(name.clone()),
        SiteName::Wildcard(parent) => Some(format!("*.{parent}")),
        SiteName::Any => None,
    }
}

/// Those that the listeners name, for clients that ask for an address.
fn addresses(model: &Model) -> impl Iterator<Item = String> {
    model.listeners.iter().filter(|listener| listener.tls.is_some()).filter_map(|listener| match &listener.address {
        Address::Tcp(address) if !address.ip().is_unspecified() => Some(address.ip().to_string()),
        _ => None,
    })
}

/// Says when files of certificates or tickets may have changed.
#[derive(Default)]
pub struct Watch {
    stamps: Vec<Stamp>,
}

impl Watch {
    /// Watches the folders of all files, and of what links lead to.
    pub fn new(secured: &Secured, watcher: &Watcher) -> Watch {
        let files = secured.identities.files().into_iter().chain(secured.tickets.files().iter().cloned());
        let with_targets = files.flat_map(|file| [std::fs::canonicalize(&file).unwrap_or_else(|_| file.clone()), file]);
        let folders: BTreeSet<PathBuf> = with_targets.filter_map(|file| Some(file.parent()?.to_owned())).collect();
        let stamp = |folder: &PathBuf| File::open(folder).ok().map(|folder| watcher.stamp_directory(&folder));
        Watch { stamps: folders.iter().filter_map(stamp).collect() }
    }

    /// Asked a few times a second. Costs a load per folder while nothing has changed.
    pub fn look(&mut self, secured: &Secured, watcher: &Watcher) {
        let now_ms = watcher.now_ms();
        if self.stamps.iter().all(|stamp| stamp.is_current(now_ms)) {
            return;
        }
        // New stamps first: what changes from here on is seen by the next look.
        *self = Watch::new(secured, watcher);
        if secured.identities.have_files_changed() {
            let problems = secured.identities.reload_changed();
            report(&problems);
            if problems.iter().all(|problem| !problem.is_error()) {
                error_log::log(&message::CERTIFICATES_RELOADED, format_args!(""));
            }
        }
        report(&secured.tickets.reload());
    }
}

fn report(problems: &[LoadProblem]) {
    for problem in problems {
        let kind = if problem.is_error() { &message::CERTIFICATE_BAD } else { &message::CONFIG_WARNING };
        error_log::log(kind, format_args!("{problem}"));
    }
}
