//! The certificates of a configuration, loaded and checked, and those that arrive while it runs.
//!
//! Place in the walk: built beside the running configuration; acceptors look into it at each
//! handshake. A change of files makes a new table that is swapped in whole, so that a handshake
//! sees either the old or the new. What is bad after a change is told and the old kept. The one
//! difficulty is start-up with thousands of sites: files and certificates are shared between sites
//! that name the same, and taken over from the configuration before if their files have not
//! changed.

mod certificate;
mod files;
mod of_handshake;
pub mod passphrase;
mod problem;
mod run_time;
mod table;

pub use certificate::{Certificate, StapleState};
pub use files::Files;
pub use problem::{LoadProblem, Severity};
pub use run_time::{Installed, OnDemand, RunTime};
pub use table::{LocalEndpoint, Table};

use crate::policy::{Policy, PolicyDigest, demands};
use files::FileStamp;
use saker_config::{
    HostTable, Model,
    model::{
        Automatic, CertificateFiles, ClientCertificates, Origin, Site, SiteName, SiteTls, Stapling,
    },
};
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// All certificates of a configuration.
#[derive(Debug)]
pub struct Identities {
    table: RwLock<Arc<Table>>,
    version: AtomicU64,
    run_time: Arc<RunTime>,
    hosts: Arc<HostTable>,
    sources: Vec<Source>,
    loaded: Mutex<Loaded>,
}

/// A site that a listener with TLS leads to.
#[derive(Debug)]
struct Source {
    /// In the model.
    index: usize,
    names: Vec<SiteName>,
    tls: Arc<SiteTls>,
    /// The site's, for problems with values that don't know their own place.
    origin: Origin,
    /// `false`: it is not served, but requires certificates, so that no handshake is good for it.
    is_served: bool,
}

/// Result of the last load, for the next to build on.
#[derive(Clone, Debug, Default)]
struct Loaded {
    certificates: HashMap<CertificatePaths, Arc<Certificate>>,
    policies: HashMap<String, Arc<Policy>>,
    stamps: HashMap<PathBuf, FileStamp>,
}

type CertificatePaths = (
    PathBuf,
    PathBuf,
    Option<PathBuf>,
    Option<PathBuf>,
    Option<Arc<Stapling>>,
);

impl Identities {
    /// Loads what the sites name that listeners with TLS lead to. Everything wrong is told at once;
    /// what is in order can be used all the same. Certificates and challenges of run time are taken
    /// over from the configuration before. `hosts`: of the same model.
    pub fn load(
        model: &Model,
        hosts: &Arc<HostTable>,
        previous: Option<&Identities>,
    ) -> (Identities, Vec<LoadProblem>) {
        let sources = sources(model);
        let before = previous
            .map(|previous| previous.loaded().clone())
            .unwrap_or_default();
        let (table, loaded, problems) = build(&sources, hosts, &before, false, true);
        let run_time = previous
            .map(|previous| Arc::clone(&previous.run_time))
            .unwrap_or_default();
        let table = RwLock::new(Arc::new(table));
        let hosts = Arc::clone(hosts);
        (
            Identities {
                table,
                version: AtomicU64::new(0),
                run_time,
                hosts,
                sources,
                loaded: Mutex::new(loaded),
            },
            problems,
        )
    }

    /// Problems with what the sites name, as far as they show without prompting for a passphrase.
    pub fn problems(model: &Model) -> Vec<LoadProblem> {
        let hosts = Arc::new(HostTable::new(model));
        build(&sources(model), &hosts, &Loaded::default(), false, false).2
    }

    /// Sites by listener, local address and name; the same for routing and for handshakes.
    pub fn hosts(&self) -> &Arc<HostTable> {
        &self.hosts
    }

    /// Every file that was read or should have been, to be watched.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.loaded().stamps.keys().cloned().collect();
        files.sort();
        files
    }

    /// True if a file is another than it was when it was read.
    pub fn have_files_changed(&self) -> bool {
        self.loaded()
            .stamps
            .iter()
            .any(|(path, stamp)| FileStamp::of(path) != *stamp)
    }

    /// Reads changed files again; handshakes from now on see them. What is bad is told, and the
    /// certificate or policy from before kept.
    pub fn reload_changed(&self) -> Vec<LoadProblem> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let (table, now_loaded, problems) = build(&self.sources, &self.hosts, &loaded, true, false);
        *loaded = now_loaded;
        // What was seen between two looks at the same version is of one table; and what is made of
        // the old table meanwhile is not of the last version.
        self.version.fetch_add(1, Ordering::Release);
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        self.version.fetch_add(1, Ordering::Release);
        problems
    }

    /// Changes whenever files were read again, before and after the new ones count.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// An automatic certificate has come: shown for these names (`*.example.org` for a wildcard)
    /// from the next handshake on.
    pub fn install(
        &self,
        names: &[String],
        chain_pem: &[u8],
        key_pem: &[u8],
    ) -> Result<(), String> {
        self.run_time.install(names, chain_pem, key_pem)
    }

    pub fn uninstall(&self, names: &[String]) {
        self.run_time.uninstall(names);
    }

    /// Those that OCSP responses are to be fetched for.
    pub fn stapled(&self) -> Vec<Arc<Certificate>> {
        self.loaded()
            .certificates
            .values()
            .filter(|certificate| certificate.question().is_some())
            .cloned()
            .collect()
    }

    /// Names and expiry of all certificates, configured and installed.
    pub fn all(&self) -> Vec<Installed> {
        let loaded = self.loaded();
        let configured = loaded.certificates.values().map(|one| Installed {
            names: match one.facts.dns_names.is_empty() {
                true => vec![one.name()],
                false => one.facts.dns_names.clone(),
            },
            not_after: one.facts.not_after,
            staple: one.staple_state(),
        });
        configured.chain(self.run_time.all()).collect()
    }

    /// Earliest expiry of all certificates, in seconds since 1970.
    pub fn first_expiry(&self) -> Option<i64> {
        let loaded = self
            .loaded()
            .certificates
            .values()
            .map(|certificate| certificate.facts.not_after)
            .min();
        loaded
            .into_iter()
            .chain(
                self.run_time
                    .all()
                    .into_iter()
                    .map(|installed| installed.not_after),
            )
            .min()
    }

    /// True if a certificate is there (configured or installed) that covers the name.
    pub fn covers(&self, name: &str) -> bool {
        self.table()
            .covers(&name.to_ascii_lowercase(), &self.run_time)
    }

    /// Current requirements of a site (by its index in the model) for a handshake. `None`: no
    /// handshake satisfies it.
    pub fn site_policy(&self, index: usize) -> Option<PolicyDigest> {
        self.table().site_policy(index)
    }

    /// Requirements that all sites share, if they are all the same.
    pub fn common_policy(&self) -> Option<PolicyDigest> {
        self.table().common_policy()
    }

    pub(crate) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Certificates installed at run time: shared by this configuration, its predecessors, and its
    /// successors.
    pub fn run_time(&self) -> &Arc<RunTime> {
        &self.run_time
    }

    fn loaded(&self) -> std::sync::MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sources(model: &Model) -> Vec<Source> {
    let listeners: Vec<_> = model
        .listeners
        .iter()
        .filter(|listener| listener.tls.is_some())
        .map(|listener| &listener.address)
        .collect();
    let is_served = |site: &Site| {
        listeners
            .iter()
            .any(|listener| HostTable::leads_to(listener, site))
    };
    let sites = model.sites.iter().enumerate().map(|(index, site)| Source {
        index,
        names: site.names.clone(),
        tls: Arc::clone(&site.tls),
        origin: site.origin.clone(),
        is_served: is_served(site),
    });
    sites
        .filter(|source| {
            source.is_served || source.tls.client_certificates == ClientCertificates::Required
        })
        .collect()
}

/// Builds the table. `keeps_old`: a certificate or policy that has become bad is kept in its old
/// state. `asks`: passphrases may be requested from the operator.
fn build(
    sources: &[Source],
    hosts: &Arc<HostTable>,
    before: &Loaded,
    keeps_old: bool,
    asks: bool,
) -> (Table, Loaded, Vec<LoadProblem>) {
    let mut load = Load {
        before,
        keeps_old,
        files: Files::new(asks),
        now: Loaded::default(),
        problems: Vec::new(),
    };
    let mut table = Table::new(Arc::clone(hosts));
    for source in sources {
        if !source.is_served {
            table.add(
                source.index,
                &source.names,
                Vec::new(),
                None,
                Automatic::Off,
            );
            continue;
        }
        let certificates: Vec<_> = source
            .tls
            .certificates
            .iter()
            .filter_map(|files| load.certificate(files))
            .collect();
        let policy = load
            .policy(source)
            .map(|policy| place(&mut table.policies, policy));
        load.warn_of_names(source, &certificates);
        table.add(
            source.index,
            &source.names,
            certificates,
            policy,
            source.tls.automatic,
        );
        table.find_in_handshakes(source.index, &source.tls.handshake_certificates);
        if source.tls.rejects_handshakes {
            table.reject(source.index);
        }
    }
    let Load {
        files,
        mut now,
        problems,
        ..
    } = load;
    now.stamps.extend(files.into_stamps());
    (table, now, problems)
}

fn place(policies: &mut Vec<Arc<Policy>>, policy: Arc<Policy>) -> usize {
    policies
        .iter()
        .rposition(|other| other.digest == policy.digest)
        .unwrap_or_else(|| {
            policies.push(policy);
            policies.len() - 1
        })
}

struct Load<'b> {
    before: &'b Loaded,
    keeps_old: bool,
    files: Files,
    now: Loaded,
    problems: Vec<LoadProblem>,
}

impl Load<'_> {
    fn certificate(&mut self, from: &CertificateFiles) -> Option<Arc<Certificate>> {
        let paths = (
            from.certificate.clone(),
            from.key.clone(),
            from.ocsp.clone(),
            from.chain.clone(),
            from.stapling.clone(),
        );
        if let Some(certificate) = self.now.certificates.get(&paths) {
            return Some(Arc::clone(certificate));
        }
        let old = self.before.certificates.get(&paths);
        let certificate = match old {
            Some(old) if old.files == certificate::stamps(from) => {
                certificate::paths(from)
                    .zip(&old.files)
                    .for_each(|(path, stamp)| self.files.keep(path, *stamp));
                Some(Arc::clone(old))
            }
            _ => certificate::load(from, &mut self.files, &mut self.problems).map(Arc::new),
        };
        let certificate = certificate.or_else(|| old.filter(|_| self.keeps_old).cloned())?;
        self.now
            .certificates
            .insert(paths, Arc::clone(&certificate));
        Some(certificate)
    }

    fn policy(&mut self, source: &Source) -> Option<Arc<Policy>> {
        let tls = &source.tls;
        let demands = format!(
            "{} {:?}",
            demands(tls),
            (&tls.client_ca, &tls.client_crl, &tls.client_checks)
        );
        if let Some(policy) = self.now.policies.get(&demands) {
            return Some(Arc::clone(policy));
        }
        let policy =
            Policy::load(tls, &source.origin, &mut self.files, &mut self.problems).map(Arc::new);
        let policy = policy.or_else(|| {
            self.before
                .policies
                .get(&demands)
                .filter(|_| self.keeps_old)
                .cloned()
        })?;
        self.now.policies.insert(demands, Arc::clone(&policy));
        Some(policy)
    }

    fn warn_of_names(&mut self, source: &Source, certificates: &[Arc<Certificate>]) {
        let Some(first) = source.tls.certificates.first() else {
            return self.warn_of_none(source);
        };
        if certificates.is_empty() || source.tls.automatic != Automatic::Off {
            return;
        }
        let is_covered = |name: &&SiteName| match name {
            SiteName::Exact(name) => certificates
                .iter()
                .any(|certificate| certificate.covers(&name.to_ascii_lowercase())),
            SiteName::Wildcard(parent) => certificates
                .iter()
                .any(|certificate| certificate.covers_wildcard(&parent.to_ascii_lowercase())),
            SiteName::Any => true,
        };
        let missing: Vec<String> = source
            .names
            .iter()
            .filter(|name| !is_covered(name))
            .map(shown)
            .collect();
        if !missing.is_empty() {
            let (path, names) = (first.certificate.display(), missing.join(", "));
            let problem = format!("no certificate of this site covers {names} ({path})");
            let help = "clients refuse a certificate that does not name the host they asked for";
            self.problems
                .push(LoadProblem::warning(first.origin.clone(), problem).with_help(help));
        }
    }

    fn warn_of_none(&mut self, source: &Source) {
        // Nothing is shown where handshakes are refused.
        let needs_none =
            !source.tls.handshake_certificates.is_empty() || source.tls.rejects_handshakes;
        if source.tls.automatic == Automatic::Off && !source.names.is_empty() && !needs_none {
            let names = source
                .names
                .iter()
                .map(shown)
                .collect::<Vec<_>>()
                .join(", ");
            let problem =
                format!("no certificate is configured for {names}: that of another site is shown");
            self.problems
                .push(LoadProblem::warning(source.origin.clone(), problem));
        }
    }
}

fn shown(name: &SiteName) -> String {
    match name {
        SiteName::Exact(name) => name.clone(),
        SiteName::Wildcard(parent) => format!("*.{parent}"),
        SiteName::Any => "*".into(),
    }
}
