//! What is the whole process's: listeners, user, limits, log formats; and the model that comes of
//! it and the hosts.
//!
//! Difficulty: Apache's hosts are chosen by the address that a connection came in on first and by
//! name second. A host is put on every listener that one of its addresses matches; what no host
//! claims is the server's own.

use crate::{
    connections::{Connections, HostConnections},
    dbd::{Dbd, DbdDraft},
    error_logs,
    evasive::EvasiveDraft,
    host::{Host, HostProxy, ProcessWide, Tokens},
    limits::LimitsDraft,
    local::Local,
    magic::Magic,
    managed::Managed,
    modules::{mime, php, ssl::SectionDemands},
    proxy::{draft::ProxyDraft, forward, parameters::Defaults, workers::Workers},
    server::HostDraft,
    signature,
    tls::{TlsDraft, engine::Engines},
};
use saker_apache_syntax::Node;
use saker_config::{
    Diagnostic, Model, Severity,
    model::{
        Address, CanonicalPort, Limits, Listener, ListenerTls, NamedLog, Origin, Settings,
        ShownRequests, Site, SiteName, SiteTls,
    },
};
use saker_content_filters::ext_filter::ExternalFilter;
use saker_http::{
    host::canonical_host,
    path::{EncodedSlashes, Slashes},
};
use saker_ipset::GeoDatabase;
use saker_rewrite::{MapSource, Settings as RewriteSettings};
use std::{
    cell::RefCell,
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

#[derive(Clone, Debug)]
pub struct Listen {
    pub address: Option<IpAddr>,
    pub port: u16,
    /// The protocol named behind it is https, or the port says so.
    pub is_https: bool,
    pub origin: Origin,
}

#[derive(Clone, Debug, Default)]
pub struct Process {
    pub evasive: EvasiveDraft,
    pub listens: Vec<Listen>,
    pub user: Option<String>,
    pub group: Option<String>,
    /// Where those two stand.
    pub identity_origins: [Option<Origin>; 2],
    pub named_logs: Vec<NamedLog>,
    pub pid_file: Option<PathBuf>,
    pub php_ini: Option<PathBuf>,
    /// CacheRoot, the first one.
    pub cache_root: Option<PathBuf>,
    pub types_config: Option<(PathBuf, Origin)>,
    pub external_filters: Vec<ExternalFilter>,
    pub connections: Connections,
    pub managed: Managed,
    pub tokens: Option<Tokens>,
    /// ExtendedStatus; where it is not said, on with mod_status (httpd 2.4, core).
    pub extended_status: Option<bool>,
    pub names_requests: bool,
    pub has_suexec: bool,
    pub see_request_tail: Option<bool>,
    /// RegisterHttpMethod.
    pub methods: Vec<Box<str>>,
    /// What is read otherwise than it was meant.
    pub remarks: Vec<(Origin, String)>,
    /// AddModuleInfo.
    pub module_remarks: Vec<(Box<str>, Box<str>)>,
    /// SSLVHostSNIPolicy strict.
    pub same_host_only: bool,
    pub ticket_keys: Vec<PathBuf>,
}

impl Listen {
    /// `[address:]port [protocol]`
    pub fn parse(words: &[String], node: &Node) -> Result<Listen, String> {
        let text = words.first().map(String::as_str).unwrap_or_default();
        let (address, port) = match text.rsplit_once(':') {
            Some((host, port)) => (Some(host), port),
            None => (None, text),
        };
        let port = port
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or("Port must be specified")?;
        let address = match address {
            None | Some("*") => None,
            Some(host) => {
                let host = host.trim_matches(['[', ']']);
                Some(host.parse().map_err(|_| {
                    format!("Listen: {host} is no address; names are not looked up here")
                })?)
            }
        };
        // Port 443 is https where nothing else is said (httpd 2.4, listen.c).
        let is_https = words.get(1).map_or(port == 443, |protocol| {
            protocol.eq_ignore_ascii_case("https")
        });
        Ok(Listen {
            address,
            port,
            is_https,
            origin: node.origin.clone(),
        })
    }

    /// A port alone is of both families.
    fn addresses(&self) -> Vec<Address> {
        match self.address {
            Some(ip) => vec![Address::Tcp(SocketAddr::new(ip, self.port))],
            None => Address::parse_all(&format!(":{}", self.port)).unwrap_or_default(),
        }
    }
}

impl Process {
    pub fn name_log(&mut self, kind: &'static str, path: &Path, node: &Node) {
        self.named_logs.push(NamedLog {
            kind,
            path: path.to_owned(),
            origin: node.origin.clone(),
        });
    }

    /// Lays everything together. What is wrong goes to the diagnostics.
    pub fn finish(
        self,
        main: &HostDraft,
        drafts: &[HostDraft],
        diagnostics: &mut Vec<Diagnostic>,
    ) -> (Model, Vec<Arc<Host>>) {
        if self.listens.is_empty() {
            let origin = main.origin.clone();
            diagnostics.push(Diagnostic::without_source(
                origin,
                "no listening sockets available: there is no Listen directive".into(),
            ));
        }
        let timeout_ms = main.limits.timeout_s.unwrap_or(60).saturating_mul(1000);
        for draft in std::iter::once(main)
            .chain(drafts)
            .filter(|draft| draft.proxy.forwards_requests == Some(true))
        {
            let text = "ProxyRequests On: requests are passed on only where a <Proxy> section says with Require, or Allow and Deny, who may ask";
            diagnostics.push(Diagnostic::with_line(
                Severity::Warning,
                draft.origin.clone(),
                0,
                text.into(),
                None,
                "",
            ));
        }
        for (origin, text) in &self.remarks {
            diagnostics.push(Diagnostic::with_line(
                saker_config::Severity::Warning,
                origin.clone(),
                0,
                text.clone(),
                None,
                "",
            ));
        }
        let shared = Shared {
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
        };
        let mut model = self.model(main);
        diagnostics.extend(
            std::iter::once(main)
                .chain(drafts)
                .flat_map(|draft| draft.logs.complaints(&main.logs)),
        );
        let mut hosts = Vec::new();
        let claimed: Vec<Address> = drafts
            .iter()
            .flat_map(|draft| self.listeners_of(draft))
            .collect();
        let unclaimed: Vec<Address> = self
            .all_addresses()
            .into_iter()
            .filter(|address| !claimed.contains(address) || self.is_left(address, drafts))
            .collect();
        for draft in drafts {
            let listeners = self.listeners_of(draft);
            if listeners.is_empty() {
                let text = format!(
                    "no Listen directive is for {}: this host is never reached",
                    draft.addresses.join(" ")
                );
                diagnostics.push(Diagnostic::with_line(
                    Severity::Warning,
                    draft.origin.clone(),
                    0,
                    text,
                    None,
                    "",
                ));
                continue;
            }
            let host = Arc::new(host(main, &shared, draft));
            diagnostics.extend(unasked_maps(draft, &host));
            model
                .sites
                .push(Arc::new(self.site(main, &shared, draft, &host, listeners)));
            hosts.push(host);
        }
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
        model.php_sets = hosts
            .iter()
            .flat_map(|host| php::known_sets(host))
            .collect();
        diagnostics.extend(self.give_tls(&mut model, main, drafts, &unclaimed));
        self.connections.apply(&mut model);
        self.managed.apply(main, &mut model, diagnostics);
        for listener in &mut model.listeners {
            let hosts: Vec<_> = drafts
                .iter()
                .filter(|draft| self.listeners_of(draft).contains(&listener.address))
                .map(|draft| &draft.connections)
                .collect();
            HostConnections::apply(&main.connections, &hosts, listener);
        }
        add_upstreams(&mut model, &hosts);
        (model, hosts)
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
        server.error_log = error_logs::of_server(main);
        server.pid_file = self.pid_file.clone();
        model.php.ini.clone_from(&self.php_ini);
        // Beside what Apache has there, and its cleaner looks after.
        model.cache.folder = self.cache_root.as_ref().map(|root| root.join("saker"));
        model.tls.ticket_keys.clone_from(&self.ticket_keys);
        server.server_field = signature::product(self.tokens);
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
        let warning = |text| {
            Diagnostic::with_line(Severity::Warning, draft.origin.clone(), 0, text, None, "")
        };
        diagnostics.extend(complaints.into_iter().map(warning));
    }
    magics
}

/// Each once.
fn add_upstreams(model: &mut Model, hosts: &[Arc<Host>]) {
    for upstream in hosts.iter().flat_map(|host| host.proxy.workers.upstreams()) {
        if !model
            .upstreams
            .iter()
            .any(|known| Arc::ptr_eq(known, upstream))
        {
            model.upstreams.push(Arc::clone(upstream));
        }
    }
}

/// Those that are looked at again while the server runs.
fn geo_databases(hosts: &[Arc<Host>]) -> Vec<Arc<GeoDatabase>> {
    let of_host = |host: &Arc<Host>| {
        let sections = host
            .directories
            .iter()
            .chain(&host.locations)
            .map(|section| &section.local);
        let locals = std::iter::once(&host.defaults).chain(sections);
        locals
            .flat_map(|local| local.geo.databases())
            .cloned()
            .collect::<Vec<_>>()
    };
    let mut databases: Vec<Arc<GeoDatabase>> = Vec::new();
    for database in hosts.iter().flat_map(of_host) {
        if !databases.iter().any(|known| Arc::ptr_eq(known, &database)) {
            databases.push(database);
        }
    }
    databases
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
    Some(Diagnostic::with_line(
        Severity::Warning,
        draft.origin.clone(),
        0,
        text,
        None,
        "",
    ))
}

fn idle_rewrite(main: &HostDraft) -> Option<Arc<RewriteSettings>> {
    let settings = main.local.as_ref()?.rewrite.server.as_ref()?;
    Some(Arc::new(settings.merge(&RewriteSettings::server())))
}

/// What thousands of hosts have in common, once.
struct Shared {
    types: Arc<HashMap<Box<str>, Box<str>>>,
    /// By their files.
    magics: HashMap<PathBuf, Arc<Magic>>,
    defaults: Arc<Local>,
    /// Of virtual hosts that say nothing of rewriting: they run none of the server's rules
    /// (mod_rewrite as it behaves).
    idle_rewrite: Option<Arc<RewriteSettings>>,
    settings: Arc<Settings>,
    /// Of hosts that say nothing about it.
    tls: Arc<SiteTls>,
    section_demands: SectionDemands,
    same_host_only: bool,
    process: Arc<ProcessWide>,
    /// Of hosts that say nothing of it.
    proxy: Arc<HostProxy>,
    /// Of Timeout.
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
        let terms = main.dbd.under(own).terms()?;
        let mut databases = self.databases.borrow_mut();
        if let Some(known) = databases.iter().find(|known| known.is_of(&terms)) {
            return Some(Arc::clone(known));
        }
        let new = Arc::new(Dbd::new(terms));
        databases.push(Arc::clone(&new));
        Some(new)
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

/// Of all sections that a host has, the server's among them.
fn section_demands(main: &HostDraft, draft: &HostDraft) -> SectionDemands {
    let mut demands = SectionDemands::default();
    for draft in [main, draft] {
        draft
            .directories
            .iter()
            .chain(&draft.locations)
            .for_each(|section| demands.add(&section.local));
        draft.local.iter().for_each(|local| demands.add(local));
    }
    demands
}

/// The server's settings with a host's laid over.
fn host(main: &HostDraft, shared: &Shared, draft: &HostDraft) -> Host {
    let defaults = match &draft.local {
        Some(local) => Arc::new(shared.defaults.under(local)),
        None => Arc::clone(&shared.defaults),
    };
    let mut directories: Vec<_> = main
        .directories
        .iter()
        .chain(&draft.directories)
        .cloned()
        .collect();
    directories.sort_by_key(|section| section.depth());
    let is_virtual = !draft.addresses.is_empty();
    let locations: Vec<_> = main
        .locations
        .iter()
        .chain(&draft.locations)
        .cloned()
        .collect();
    let has_log_messages = std::iter::once(&defaults)
        .chain(locations.iter().map(|section| &section.local))
        .any(|local| !local.log_debug.is_empty());
    let rewrite = match draft
        .local
        .as_ref()
        .and_then(|local| local.rewrite.server.as_ref())
    {
        None if is_virtual => shared.idle_rewrite.clone(),
        _ => defaults.rewrite.server.clone(),
    };
    Host {
        server_name: draft
            .server_name
            .clone()
            .or_else(|| main.server_name.clone()),
        server_port: port_of(draft),
        slashes: Slashes {
            encoded: draft
                .encoded_slashes
                .or(main.encoded_slashes)
                .unwrap_or(EncodedSlashes::Refuse),
            merge: draft.merge_slashes.or(main.merge_slashes).unwrap_or(true),
        },
        server_admin: draft
            .server_admin
            .clone()
            .or_else(|| main.server_admin.clone()),
        document_root: draft
            .document_root
            .clone()
            .or_else(|| main.document_root.clone())
            .unwrap_or_default(),
        defaults,
        directories,
        process: Arc::clone(&shared.process),
        logged_variables: draft.logs.variables(&main.logs),
        log_conditions: draft.logs.conditions(&main.logs),
        locations,
        access_file_names: draft
            .access_file_names
            .clone()
            .or_else(|| main.access_file_names.clone())
            .unwrap_or_else(|| vec![".htaccess".into()]),
        dbd: shared.database_of(main, draft),
        rewrite,
        types: Arc::clone(&shared.types),
        magic: draft
            .magic_file
            .as_ref()
            .or(main.magic_file.as_ref())
            .and_then(|path| shared.magics.get(path))
            .cloned(),
        proxy: match draft.proxy.is_empty()
            && main.upstream_tls.under(&draft.upstream_tls) == *shared.proxy.workers.demands()
        {
            true => Arc::clone(&shared.proxy),
            false => Arc::new(host_proxy(main, draft, shared.timeout_ms)),
        },
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
        error_log: error_logs::of_host(main, draft),
        forensic_log: draft.logs.forensic(&main.logs),
        has_log_messages,
        script_log: draft.script_log.made(&main.script_log),
        origin: draft.origin.clone(),
    }
}

/// mod_proxy's: what the server says, and the host over it.
fn host_proxy(main: &HostDraft, draft: &HostDraft, timeout_ms: u64) -> HostProxy {
    let upstream_tls = main.upstream_tls.under(&draft.upstream_tls);
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
        connect_ports: forward::ports(main, own),
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

/// The address of this machine that a host is for; unspecified for every one.
pub(crate) fn local_address(text: &str) -> Option<SocketAddr> {
    let (host, port) = host_and_port(text);
    let ip = match host {
        "*" | "_default_" => IpAddr::from([0, 0, 0, 0]),
        host => host.parse::<IpAddr>().ok()?,
    };
    Some(SocketAddr::new(ip, port.parse().unwrap_or(0)))
}

fn host_and_port(text: &str) -> (&str, &str) {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port),
        _ => (text, "*"),
    };
    (host.trim_matches(['[', ']']), port)
}

/// `*`, `_default_`, `address`, each with or without `:port` or `:*`.
pub(crate) fn is_for(text: &str, listener: &SocketAddr) -> bool {
    let (host, port) = host_and_port(text);
    let port_matches = port == "*" || port.parse() == Ok(listener.port());
    let host_matches = match host {
        "*" | "_default_" => true,
        host => host
            .parse::<IpAddr>()
            .is_ok_and(|ip| listener.ip() == ip || listener.ip().is_unspecified()),
    };
    port_matches && host_matches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_listener_a_host_is_on() {
        let listener: SocketAddr = "0.0.0.0:80".parse().unwrap();
        for (text, expected) in [
            ("*:80", true),
            ("*", true),
            ("_default_:443", false),
            ("10.0.0.1:80", true),
            ("[::1]:80", true),
            ("*:*", true),
        ] {
            assert_eq!(is_for(text, &listener), expected, "{text}");
        }
        assert!(!is_for("10.0.0.1:80", &"10.0.0.2:80".parse().unwrap()));
    }

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
