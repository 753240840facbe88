//! Settings of the whole process (listeners, user, limits, log formats), and the model made of them
//! and the hosts.
//!
//! Difficulty: Apache's hosts are chosen by the address that a connection came in on first and by
//! name second. A host is put on every listener that one of its addresses matches; what no host
//! claims is the server's own.

use crate::{
    connections::HostConnections,
    dbd::{Dbd, DbdDraft},
    dir_config::{DirConfig, Section},
    error_logs,
    host::{Host, HostProxy, ProcessWide},
    host_draft::HostDraft,
    host_settings::{add_upstreams, geo_databases, known_sets},
    limits::LimitsDraft,
    listen::{Listen, host_and_port, is_for, local_address},
    magic::Magic,
    modules::{loglevel::LogLevel, mime, ssl::SectionDemands},
    process::Process,
    proxy::{connect_ports, draft::ProxyDraft, parameters::Defaults, workers::Workers},
    reading::said,
    server_tokens,
    tls::{TlsDraft, engine::Engines},
};
use saker_config::{
    Diagnostic, Model, Severity,
    model::{
        Address, CanonicalPort, Limits, Listener, ListenerTls, Origin, Settings, ShownRequests,
        Site, SiteName, SiteTls,
    },
};
use saker_http::{
    host::canonical_host,
    path::{EncodedSlashes, Slashes},
};
use saker_rewrite::{MapSource, Settings as RewriteSettings};
use saker_telemetry::error_log::SiteLog;
use std::{
    cell::RefCell,
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, LazyLock},
};

/// AccessFileName, where nothing else is configured.
static ACCESS_FILE_NAMES: LazyLock<Arc<[Box<str>]>> =
    LazyLock::new(|| Arc::new([".htaccess".into()]));

impl Process {
    /// Merges everything into the model and its hosts; mistakes become diagnostics.
    pub fn finish(
        self,
        main: &HostDraft,
        drafts: &[HostDraft],
        diagnostics: &mut Vec<Diagnostic>,
    ) -> (Model, Vec<Arc<Host>>) {
        self.complain(main, drafts, diagnostics);
        let shared = self.shared(main, drafts, diagnostics);
        let mut model = self.model(main);
        diagnostics.extend(
            std::iter::once(main)
                .chain(drafts)
                .flat_map(|draft| draft.logs.complaints(&main.logs)),
        );
        let unclaimed = self.unclaimed(drafts);
        let mut hosts = self.virtual_hosts(main, drafts, &shared, &mut model, diagnostics);
        if !unclaimed.is_empty() {
            let own = HostDraft {
                local: None,
                directories: Vec::new(),
                locations: Vec::new(),
                ..main.clone()
            };
            let host = Arc::new(host(main, &shared, &own));
            let site = self.site(main, &shared, main, &host, unclaimed.clone());
            model.sites.push(Arc::new(site));
            hosts.push(host);
        }
        model.geo_databases = geo_databases(&hosts);
        model.php_sets = hosts.iter().flat_map(|host| known_sets(host)).collect();
        diagnostics.extend(self.give_tls(&mut model, main, drafts, &unclaimed));
        self.connections.apply(&mut model);
        self.managed.apply(main, &mut model, diagnostics);
        for listener in &mut model.listeners {
            let drafts = drafts
                .iter()
                .filter(|draft| self.listeners_of(draft).contains(&listener.address));
            let (mut hosts, mut has_proxies) = (Vec::new(), main.believes_proxies());
            for draft in drafts {
                hosts.push(&draft.connections);
                has_proxies |= draft.believes_proxies();
            }
            HostConnections::apply(&main.connections, &hosts, listener);
            // A proxy that passes `Upgrade: h2c` on would become a pipe, and be believed still.
            listener.http2_upgrade &= !has_proxies;
        }
        add_upstreams(&mut model, &hosts);
        (model, hosts)
    }

    /// Mistakes of the whole configuration, and remarks of its setters.
    fn complain(&self, main: &HostDraft, drafts: &[HostDraft], diagnostics: &mut Vec<Diagnostic>) {
        if self.listens.is_empty() {
            diagnostics.push(Diagnostic::without_source(
                main.origin.clone(),
                "no listening sockets available: there is no Listen directive".into(),
            ));
        }
        let forwards = |draft: &&HostDraft| draft.proxy.forwards_requests == Some(true);
        for draft in std::iter::once(main).chain(drafts).filter(forwards) {
            let text = "ProxyRequests On: requests are passed on only where a <Proxy> section says with Require, or Allow and Deny, who may ask";
            diagnostics.push(warning(&draft.origin, text.into()));
        }
        let remarks = self.remarks.iter();
        diagnostics.extend(remarks.map(|(origin, text)| warning(origin, text.clone())));
    }

    fn shared(
        &self,
        main: &HostDraft,
        drafts: &[HostDraft],
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Shared {
        let timeout_ms = main.limits.timeout_s.unwrap_or(60).saturating_mul(1000);
        Shared {
            types: Arc::new(self.types(diagnostics)),
            magics: magics(main, drafts, diagnostics),
            defaults: Arc::new(main.local.as_deref().cloned().unwrap_or_default()),
            idle_rewrite: idle_rewrite(main),
            settings: Arc::default(),
            tls: Arc::new(TlsDraft::default().site(&main.tls, section_demands(main, main), "")),
            section_demands: section_demands(main, main),
            same_host_only: self.same_host_only,
            process: Arc::new(self.process_wide(main)),
            proxy: Arc::new(host_proxy(main, main, timeout_ms)),
            timeout_ms,
            databases: RefCell::default(),
        }
    }

    /// Addresses that no virtual host is for: the server's own host answers there.
    fn unclaimed(&self, drafts: &[HostDraft]) -> Vec<Address> {
        let claimed: Vec<Address> = drafts
            .iter()
            .flat_map(|draft| self.listeners_of(draft))
            .collect();
        self.all_addresses()
            .into_iter()
            .filter(|address| !claimed.contains(address) || self.is_left(address, drafts))
            .collect()
    }

    /// The virtual hosts that a listener is for, with their sites.
    fn virtual_hosts(
        &self,
        main: &HostDraft,
        drafts: &[HostDraft],
        shared: &Shared,
        model: &mut Model,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<Arc<Host>> {
        let mut hosts = Vec::new();
        for draft in drafts {
            let listeners = self.listeners_of(draft);
            if listeners.is_empty() {
                let text = format!(
                    "no Listen directive is for {}: this host is never reached",
                    draft.addresses.join(" ")
                );
                diagnostics.push(warning(&draft.origin, text));
                continue;
            }
            let host = Arc::new(host(main, shared, draft));
            diagnostics.extend(unasked_maps(draft, &host));
            let site = self.site(main, shared, draft, &host, listeners);
            model.sites.push(Arc::new(site));
            hosts.push(host);
        }
        hosts
    }

    /// Hosts are there for some of the addresses that a listener for all of them takes: the others
    /// are the server's own.
    fn is_left(&self, address: &Address, drafts: &[HostDraft]) -> bool {
        let Address::Tcp(listener) = address else {
            return false;
        };
        let takes_all = |text: &String| {
            is_for(text, listener)
                && local_address(text).is_none_or(|local| local.ip().is_unspecified())
        };
        listener.ip().is_unspecified()
            && !drafts
                .iter()
                .any(|draft| draft.addresses.iter().any(takes_all))
    }

    fn all_addresses(&self) -> Vec<Address> {
        let mut all: Vec<Address> = Vec::new();
        for address in self.listens.iter().flat_map(Listen::addresses) {
            if !all.contains(&address) {
                all.push(address);
            }
        }
        all
    }

    /// The listeners that a host's addresses match: `*`, `*:port`, `address:port`.
    fn listeners_of(&self, draft: &HostDraft) -> Vec<Address> {
        let matches = |address: &Address| {
            let Address::Tcp(listener) = address else {
                return false;
            };
            draft.addresses.iter().any(|text| is_for(text, listener))
        };
        self.all_addresses().into_iter().filter(matches).collect()
    }

    fn process_wide(&self, main: &HostDraft) -> ProcessWide {
        ProcessWide {
            tokens: self.tokens,
            extended_status: self.extended_status.unwrap_or_default(),
            names_requests: self.names_requests,
            has_suexec: self.has_suexec,
            request_workers_max: self.connections.requests_at_a_time_max(),
            methods: self.methods.clone(),
            external_filters: self.external_filters.clone(),
            timeout_s: main.limits.timeout_s,
        }
    }

    fn model(&self, main: &HostDraft) -> Model {
        let mut model = Model::default();
        for listen in &self.listens {
            for address in listen.addresses() {
                if !model
                    .listeners
                    .iter()
                    .any(|listener| listener.address == address)
                {
                    model
                        .listeners
                        .push(Listener::new(address, listen.origin.clone()));
                }
            }
        }
        model.limits = self.limits(&main.limits);
        model.named_logs.clone_from(&self.named_logs);
        model.guard.evasive = self.evasive.in_force();
        let server = &mut model.server;
        server.sites_in_order = true;
        server.user = self.user.clone();
        server.group = self.group.clone();
        server.identity_origins = self
            .identity_origins
            .clone()
            .map(|origin| origin.unwrap_or_else(Origin::built_in));
        server.error_log = error_logs::of_server(&main.error_log, level(main));
        server.pid_file = self.pid_file.clone();
        model.php.ini.clone_from(&self.php_ini);
        model.php.module.clone_from(&self.php_module);
        // Beside what Apache has there, and its cleaner looks after.
        model.cache.folder = self.cache_root.as_ref().map(|root| root.join("saker"));
        model.tls.ticket_keys.clone_from(&self.ticket_keys);
        server.server_field = server_tokens::product(self.tokens);
        server.shown_requests = match (self.extended_status, self.see_request_tail) {
            (Some(true), Some(true)) => ShownRequests::Ends,
            (Some(true), _) => ShownRequests::Beginnings,
            _ => ShownRequests::None,
        };
        model
    }

    fn limits(&self, said: &LimitsDraft) -> Limits {
        let mut limits = Limits {
            body_bytes_max: 0,
            ..Limits::default()
        };
        self.connections.limit(&mut limits);
        said.apply(&mut limits);
        limits
    }

    fn site(
        &self,
        main: &HostDraft,
        shared: &Shared,
        draft: &HostDraft,
        host: &Host,
        listeners: Vec<Address>,
    ) -> Site {
        let written = || draft.server_name.iter().chain(&draft.aliases);
        let own = written().filter_map(|name| site_name(name)).collect();
        let patterns = written()
            .filter(|name| site_name(name).is_none())
            .map(|name| name.to_ascii_lowercase())
            .collect();
        Site {
            names: own,
            legacy_path: draft.server_path.clone(),
            local_addresses: draft
                .addresses
                .iter()
                .filter_map(|text| local_address(text))
                .collect(),
            patterns,
            listeners,
            root: Some(host.document_root.clone()),
            access_logs: draft.logs.access_logs(&main.logs),
            error_log: host.error_log.clone(),
            forensic_log: host.forensic_log.clone(),
            canonical_name: host.server_name.as_deref().map(Into::into),
            canonical_port: port_of(draft).map_or(CanonicalPort::Scheme, CanonicalPort::Named),
            tls: shared.tls_of(main, draft),
            limits: self.own_limits(main, draft),
            settings: shared.settings_of(host),
            ..Site::new(draft.origin.clone())
        }
    }

    /// `None`: those of the server.
    fn own_limits(&self, main: &HostDraft, draft: &HostDraft) -> Option<Arc<Limits>> {
        let said = draft.limits.over(&main.limits);
        (said != main.limits).then(|| Arc::new(self.limits(&said)))
    }

    /// A listener speaks TLS if the host that is asked first on it has SSLEngine on. Engines that
    /// do nothing for that reason are warned about.
    fn give_tls(
        &self,
        model: &mut Model,
        main: &HostDraft,
        drafts: &[HostDraft],
        unclaimed: &[Address],
    ) -> Vec<Diagnostic> {
        let engines = Engines::new(&self.listens, main, drafts, self.managed.is_used());
        for listener in &mut model.listeners {
            if engines.is_on_at(&listener.address, unclaimed.contains(&listener.address)) {
                listener.tls = Some(ListenerTls::default());
            }
        }
        engines.overruled()
    }

    fn types(&self, diagnostics: &mut Vec<Diagnostic>) -> HashMap<Box<str>, Box<str>> {
        let Some((path, origin)) = &self.types_config else {
            return HashMap::new();
        };
        match saker_net::privileged::read(path) {
            Ok(text) => mime::types(&String::from_utf8_lossy(&text)),
            Err(error) => {
                let text = format!(
                    "could not open mime types config file {}: {error}",
                    path.display()
                );
                diagnostics.push(Diagnostic::without_source(origin.clone(), text));
                HashMap::new()
            }
        }
    }
}

fn warning(origin: &Origin, text: String) -> Diagnostic {
    Diagnostic::with_line(Severity::Warning, origin.clone(), 0, text, None, "")
}

/// Magic files, each read once. What can't be read matches nothing, and is no reason not to start
/// (mod_mime_magic as it behaves).
fn magics(
    main: &HostDraft,
    drafts: &[HostDraft],
    diagnostics: &mut Vec<Diagnostic>,
) -> HashMap<PathBuf, Arc<Magic>> {
    let mut magics = HashMap::new();
    for draft in std::iter::once(main).chain(drafts) {
        let Some(path) = draft
            .magic_file
            .as_ref()
            .filter(|path| !magics.contains_key(*path))
        else {
            continue;
        };
        let complaints = match Magic::read(path) {
            Ok((magic, complaints)) => {
                magics.insert(path.clone(), Arc::new(magic));
                complaints
            }
            Err(error) => vec![error],
        };
        let complaints = complaints.into_iter();
        diagnostics.extend(complaints.map(|text| warning(&draft.origin, text)));
    }
    magics
}

/// Maps of SQL where there is no database.
fn unasked_maps(draft: &HostDraft, host: &Host) -> Option<Diagnostic> {
    let own = draft
        .local
        .as_ref()?
        .rewrite
        .server
        .as_ref()
        .filter(|_| host.dbd.is_none())?;
    let map = own
        .maps()
        .find(|map| matches!(map.source, MapSource::Dbd { .. }))?;
    let text = format!(
        "the map {} has no values: no DBDriver says which database is asked",
        map.name
    );
    Some(warning(&draft.origin, text))
}

fn idle_rewrite(main: &HostDraft) -> Option<Arc<RewriteSettings>> {
    let settings = main.local.as_ref()?.rewrite.server.as_ref()?;
    Some(Arc::new(settings.merge(&RewriteSettings::server())))
}

/// Settings that hosts have in common, made once.
struct Shared {
    types: Arc<HashMap<Box<str>, Box<str>>>,
    /// By their files.
    magics: HashMap<PathBuf, Arc<Magic>>,
    defaults: Arc<DirConfig>,
    /// Rewrite settings of virtual hosts that say nothing of rewriting: they run none of the
    /// server's rules (mod_rewrite as it behaves).
    idle_rewrite: Option<Arc<RewriteSettings>>,
    settings: Arc<Settings>,
    /// TLS settings of hosts that say nothing about it.
    tls: Arc<SiteTls>,
    section_demands: SectionDemands,
    same_host_only: bool,
    process: Arc<ProcessWide>,
    /// mod_proxy's settings of hosts that say nothing of it.
    proxy: Arc<HostProxy>,
    /// The value of Timeout.
    timeout_ms: u64,
    /// Hosts that say the same of their database share it.
    databases: RefCell<Vec<Arc<Dbd>>>,
}

impl Shared {
    /// Rules make all others, request by request.
    fn settings_of(&self, host: &Host) -> Arc<Settings> {
        match &host.defaults.cgi.user {
            Some(user) => Arc::new(Settings {
                program_user: Some(user.clone()),
                ..Settings::default()
            }),
            None => Arc::clone(&self.settings),
        }
    }

    fn database_of(&self, main: &HostDraft, draft: &HostDraft) -> Option<Arc<Dbd>> {
        // The server's own host is made of the same draft: it has everything once.
        let own = if draft.addresses.is_empty() {
            &DbdDraft::default()
        } else {
            &draft.dbd
        };
        let merged = main.dbd.merge(own);
        let (terms, statements) = (merged.terms()?, merged.statements());
        let mut databases = self.databases.borrow_mut();
        let known = databases
            .iter()
            .find(|known| known.is_of(&terms, statements));
        if let Some(known) = known {
            return Some(Arc::clone(known));
        }
        let new = Arc::new(Dbd::new(terms, statements.clone()));
        databases.push(Arc::clone(&new));
        Some(new)
    }

    /// mod_proxy's settings; shared by hosts that say nothing of it.
    fn proxy_of(&self, main: &HostDraft, draft: &HostDraft) -> Arc<HostProxy> {
        let is_shared = draft.proxy.is_empty()
            && main.upstream_tls.merge(&draft.upstream_tls) == *self.proxy.workers.demands();
        match is_shared {
            true => Arc::clone(&self.proxy),
            false => Arc::new(host_proxy(main, draft, self.timeout_ms)),
        }
    }

    fn tls_of(&self, main: &HostDraft, draft: &HostDraft) -> Arc<SiteTls> {
        let sections = section_demands(main, draft);
        if sections == self.section_demands && draft.tls == TlsDraft::default() {
            return Arc::clone(&self.tls);
        }
        let name = draft
            .server_name
            .as_deref()
            .or(main.server_name.as_deref())
            .unwrap_or_default();
        Arc::new(draft.tls.site(
            &main.tls,
            sections,
            &format!("{name}:{}", port_of(draft).unwrap_or(443)),
        ))
    }
}

/// Demands of all sections that a host has, the server's among them.
fn section_demands(main: &HostDraft, draft: &HostDraft) -> SectionDemands {
    let mut demands = SectionDemands::default();
    for draft in [main, draft] {
        draft
            .directories
            .iter()
            .chain(&draft.locations)
            .for_each(|section| add_demands(&mut demands, &section.local));
        draft
            .local
            .iter()
            .for_each(|local| add_demands(&mut demands, local));
    }
    demands
}

/// Adds the demands of these settings and of all sections inside them.
fn add_demands(demands: &mut SectionDemands, local: &DirConfig) {
    demands.add(&local.ssl);
    let files = local.files.iter().map(|inner| &inner.local);
    let conditions = local.conditions.iter().map(|inner| &inner.local);
    files
        .chain(conditions)
        .for_each(|inner| add_demands(demands, inner));
}

fn level(draft: &HostDraft) -> Option<&LogLevel> {
    draft.local.as_ref().map(|local| &local.loglevel)
}

/// Merges a host's settings into the server's.
fn host(main: &HostDraft, shared: &Shared, draft: &HostDraft) -> Host {
    let defaults = match &draft.local {
        Some(local) => Arc::new(shared.defaults.merge(local)),
        None => Arc::clone(&shared.defaults),
    };
    let mut directories = both(&main.directories, &draft.directories);
    directories.sort_by_key(|section| section.depth());
    let locations = both(&main.locations, &draft.locations);
    let has_log_messages = std::iter::once(&defaults)
        .chain(locations.iter().map(|section| &section.local))
        .any(|local| !local.log_debug.is_empty());
    Host {
        server_name: said(&main.server_name, &draft.server_name),
        server_port: port_of(draft),
        slashes: slashes_of(main, draft),
        server_admin: said(&main.server_admin, &draft.server_admin),
        document_root: said(&main.document_root, &draft.document_root).unwrap_or_default(),
        directories,
        process: Arc::clone(&shared.process),
        logged_variables: draft.logs.variables(&main.logs),
        log_conditions: draft.logs.conditions(&main.logs),
        locations,
        access_file_names: said(&main.access_file_names, &draft.access_file_names)
            .unwrap_or_else(|| Arc::clone(&ACCESS_FILE_NAMES)),
        dbd: shared.database_of(main, draft),
        rewrite: rewrite_of(shared, draft, &defaults),
        types: Arc::clone(&shared.types),
        magic: draft
            .magic_file
            .as_ref()
            .or(main.magic_file.as_ref())
            .and_then(|path| shared.magics.get(path))
            .cloned(),
        proxy: shared.proxy_of(main, draft),
        trace_enabled: draft.trace_enabled.or(main.trace_enabled).unwrap_or(true),
        registered_methods_only: draft
            .registered_methods_only
            .or(main.registered_methods_only)
            .unwrap_or(false),
        known_names_only: draft
            .known_names_only
            .or(main.known_names_only)
            .unwrap_or(false),
        redirects_max: draft.redirects_max.or(main.redirects_max),
        nesting_max: draft.nesting_max.or(main.nesting_max),
        strict_names: [&main.tls, &draft.tls]
            .iter()
            .any(|tls| tls.strict_names == Some(true)),
        same_host_only: shared.same_host_only,
        client_depth_max: draft.tls.client_depth_max(&main.tls),
        error_log: error_log_of(main, draft),
        forensic_log: draft.logs.forensic(&main.logs),
        has_log_messages,
        defaults,
        script_log: draft.script_log.made(&main.script_log),
        is_native: false,
        origin: draft.origin.clone(),
    }
}

/// The server's sections, then the host's.
fn both(main: &[Arc<Section>], own: &[Arc<Section>]) -> Vec<Arc<Section>> {
    main.iter().chain(own).cloned().collect()
}

fn slashes_of(main: &HostDraft, draft: &HostDraft) -> Slashes {
    let encoded = draft.encoded_slashes.or(main.encoded_slashes);
    Slashes {
        encoded: encoded.unwrap_or(EncodedSlashes::Refuse),
        merge: draft.merge_slashes.or(main.merge_slashes).unwrap_or(true),
    }
}

/// The rules in server context. A virtual host without any runs none of the server's.
fn rewrite_of(
    shared: &Shared,
    draft: &HostDraft,
    defaults: &DirConfig,
) -> Option<Arc<RewriteSettings>> {
    let own = draft.local.as_ref();
    match own.and_then(|local| local.rewrite.server.as_ref()) {
        None if draft.is_virtual() => shared.idle_rewrite.clone(),
        _ => defaults.rewrite.server.clone(),
    }
}

/// The log of a virtual host; `None`: the server's.
fn error_log_of(main: &HostDraft, draft: &HostDraft) -> Option<Arc<SiteLog>> {
    draft
        .is_virtual()
        .then(|| {
            error_logs::of_host(
                (&main.error_log, level(main)),
                (&draft.error_log, level(draft)),
            )
        })
        .flatten()
}

/// mod_proxy's: what the server says, and the host over it.
fn host_proxy(main: &HostDraft, draft: &HostDraft, timeout_ms: u64) -> HostProxy {
    let upstream_tls = main.upstream_tls.merge(&draft.upstream_tls);
    // The server's own host is made of the same draft: it has everything once.
    let nothing = ProxyDraft::default();
    let (main, own) = (
        &main.proxy,
        if draft.addresses.is_empty() {
            &nothing
        } else {
            &draft.proxy
        },
    );
    let inherits = own.inherits_passes.or(main.inherits_passes).unwrap_or(true);
    let of_both = main.sections.iter().chain(&own.sections);
    let demanding = of_both
        .filter(|section| !section.upstream_tls.is_empty())
        .cloned()
        .collect();
    let defaults = Defaults {
        timeout_ms: own.timeout_ms.or(main.timeout_ms).unwrap_or(timeout_ms),
        upstream_tls,
        sections: demanding,
    };
    HostProxy {
        passes: main
            .passes
            .iter()
            .filter(|_| inherits || draft.addresses.is_empty())
            .chain(&own.passes)
            .cloned()
            .collect(),
        sections: main.sections.iter().chain(&own.sections).cloned().collect(),
        workers: Workers::new(main, own, defaults),
        via: own.via.or(main.via).unwrap_or_default(),
        forwards_max: own.forwards_max.or(main.forwards_max).flatten(),
        blocked: main.blocked.iter().chain(&own.blocked).cloned().collect(),
        remotes: own.remotes_over(main),
        direct: main.direct.iter().chain(&own.direct).cloned().collect(),
        express: own.express.over(&main.express),
        forwards_requests: own.forwards_requests.or(main.forwards_requests) == Some(true),
        connect_ports: connect_ports::ports(&main.connect_ports, &own.connect_ports),
    }
}

/// That of ServerName; of a host without one that of its address (httpd 2.4, vhost.c as it
/// behaves).
fn port_of(draft: &HostDraft) -> Option<u16> {
    let of_address = || {
        draft
            .addresses
            .first()
            .and_then(|text| host_and_port(text).1.parse().ok())
            .filter(|_| draft.server_name.is_none())
    };
    draft.server_port.or_else(of_address)
}

/// Names that our table of hosts knows: whole, or with `*.` before them.
fn site_name(text: &str) -> Option<SiteName> {
    // In the spelling of the effective host.
    let text = String::from_utf8_lossy(&canonical_host(text.as_bytes())).into_owned();
    match text.strip_prefix("*.") {
        _ if text == "*" => Some(SiteName::Any),
        Some(rest) if !rest.contains(['*', '?']) => Some(SiteName::Wildcard(rest.into())),
        None if !text.contains(['*', '?']) && !text.is_empty() => Some(SiteName::Exact(text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(
            site_name("A.example"),
            Some(SiteName::Exact("a.example".into()))
        );
        assert_eq!(
            site_name("a.example."),
            Some(SiteName::Exact("a.example".into()))
        );
        assert_eq!(
            site_name("[0:0:0::1]"),
            Some(SiteName::Exact("[::1]".into()))
        );
        assert_eq!(
            site_name("*.Example"),
            Some(SiteName::Wildcard("example".into()))
        );
        assert_eq!(
            (site_name("*"), site_name("www?.example")),
            (Some(SiteName::Any), None)
        );
    }
}
