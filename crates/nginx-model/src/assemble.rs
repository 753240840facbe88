//! The model of the engine: sites, listeners, logs, and limits.
//!
//! Called by: `load`.
//! Caveat: a site per server, in the same order. The engine chooses a site by host and server name
//! for TLS; `saker-nginx` then chooses the server as nginx does, expressions included.
//! Out of scope: locations (`finish`).

use crate::{
    conf::LocationConf,
    draft::{Draft, ServerDraft},
    error_logs::{self, ErrorLogs},
    finish::Finisher,
    location::Location,
    log_rules::LogRules,
    modules::{
        cache::Zone,
        core::CoreConf,
        listen::{AddressServers, Listen, SOCKET_MODE},
        log::{Formats, LogUse},
        realip::RealIp,
    },
    process::Process,
    read_http::HttpDraft,
    server::{KeepAlive, Nginx, Server},
    server_name_text::Tables,
    setup::Setup,
};
use saker_config::{
    Model,
    model::{
        AccessLog, Address, Addresses, CacheStore, Http3, Limits, Listener, LogCondition, Origin,
        RepairedHeads, Server as ServerSettings, Site, SiteName, TrustedProxies, Workers,
    },
};
use saker_ipset::Block;
use std::{net::SocketAddr, sync::Arc};

/// Heads that must come earlier are waited for from the beginning of their connection.
const DEFERRING_TIMEOUT_MS: u64 = 30_000;

/// Builds the model and the data for requests.
pub fn assemble(
    mut http: HttpDraft,
    finisher: &mut Finisher<'_>,
    process: &Process,
    setup: &Setup,
) -> (Model, Nginx) {
    let mut model = Model {
        server: server_settings(process, setup, &http.conf.core),
        limits: limits(&http.conf, process),
        ..Model::default()
    };
    let mut nginx = Nginx {
        conf_prefix: finisher.conf_prefix.to_owned(),
        body_folder: setup.prefix.join("client_body_temp"),
        default_root: setup.prefix.join("html"),
        product: http.conf.core.product(),
        keep_alive: KeepAlive::of(&http.conf),
        reads_content: http.variables.reads_content,
        reads_attempts: http.variables.reads_attempts,
        reads_counts: http.variables.reads_counts,
        reads_responses: http.variables.reads_responses,
        variables: std::mem::take(&mut http.variables.named),
        tables: std::mem::take(&mut http.tables),
        zones: std::mem::take(&mut http.zones),
        cache_zones: std::mem::take(&mut http.cache_zones),
        formats: std::mem::take(&mut http.formats),
        ..Nginx::default()
    };
    model.cache = cache_store(&nginx.cache_zones);
    model.server.tells_of_sockets = http.variables.tells_of_sockets;
    let mut drafts = std::mem::take(&mut http.servers);
    for draft in &mut drafts {
        draft.tls.inherit(&http.tls);
        if draft.listens.is_empty() {
            draft
                .listens
                .push(Listen::plain(if setup.is_root { 80 } else { 8000 }));
        }
    }
    add_ticket_keys(&mut model, &drafts);
    let real_ip = common_real_ip(&drafts, &http.conf);
    nginx.settles_clients = real_ip.is_none();
    let real_ip = real_ip.unwrap_or_default();
    model.server.trusted_proxies = trusted_proxies(&real_ip);
    add_addresses(&drafts, &mut nginx, finisher);
    finisher.error_logs = ErrorLogs::new(&model.server.error_log);
    model.listeners = listeners(&drafts, &http.conf.core, &real_ip, finisher);
    let listeners = model.listeners.iter();
    let bound: Vec<Address> = listeners.map(|one| one.address.clone()).collect();
    let tables = Tables::of(&nginx.variables, &nginx.tables.maps);
    for (index, draft) in drafts.into_iter().enumerate() {
        let mut site = site(index, &draft, &nginx, &bound);
        name_certificates(&mut site, &draft, &tables, finisher);
        let server = finisher.server(draft, &http.conf);
        let numbers = logs_of(&server, &mut nginx.logs);
        site.settings = Arc::clone(&server.outside.settings);
        error_logs::take(&mut site, &server, &model.server.error_log);
        site.limits = own_limits(&server.outside.conf, &model.limits, process);
        site.access_logs = numbers
            .into_iter()
            .filter_map(|number| access_log(number, &nginx.logs, &nginx.formats, &site.origin))
            .collect();
        model.sites.push(Arc::new(site));
        nginx.servers.push(Arc::new(server));
    }
    check_logs(&nginx, finisher);
    (model, nginx.with_reads_of_pages())
}

/// Limits of a server that differ from those of `http`. Those of persistent connections are their
/// locations'.
fn own_limits(conf: &LocationConf, all: &Limits, process: &Process) -> Option<Arc<Limits>> {
    let own = Limits {
        requests_per_connection_max: all.requests_per_connection_max,
        connection_age_ms_max: all.connection_age_ms_max,
        keep_alive_timeout_ms: all.keep_alive_timeout_ms,
        ..limits(conf, process)
    };
    (own != *all).then(|| Arc::new(own))
}

/// Returns the store of all zones. Entries may be as long as the store is.
fn cache_store(zones: &[Arc<Zone>]) -> CacheStore {
    let default = CacheStore::default();
    let limits: Vec<u64> = zones.iter().filter_map(|zone| zone.bytes_max).collect();
    let bytes_max = match !limits.is_empty() && limits.len() == zones.len() {
        true => limits
            .iter()
            .fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)),
        false => default.bytes_max,
    };
    CacheStore {
        is_expected: !zones.is_empty(),
        entry_bytes_max: bytes_max,
        bytes_max,
        ..default
    }
}

fn server_settings(process: &Process, setup: &Setup, core: &CoreConf) -> ServerSettings {
    let is_root = setup.is_root;
    ServerSettings {
        workers: match process.has_worker_per_core {
            true => Workers::Auto,
            // As by nginx: one, where nothing is said.
            false => Workers::Count(process.workers.unwrap_or(1)),
        },
        user: match (&process.user, is_root) {
            // The server keeps its rights, as nginx's workers would have them.
            (Some(user), true) if user == "root" => None,
            (Some(user), true) => Some(user.clone()),
            (None, true) => Some("nobody".to_owned()),
            (_, false) => None,
        },
        group: process.group.clone().filter(|_| is_root),
        affinity: process.affinity_of_workers(),
        pid_file: Some(process.pid_file.clone()),
        server_field: core.product().to_owned(),
        error_log: error_logs::of_process(process, core, setup),
        shutdown_timeout_ms: process
            .shutdown_timeout_ms
            .unwrap_or(ServerSettings::default().shutdown_timeout_ms),
        ..ServerSettings::default()
    }
}

fn limits(conf: &LocationConf, process: &Process) -> Limits {
    let core = &conf.core;
    let default = Limits::default();
    let keep_alive = KeepAlive::of(conf);
    Limits {
        connections_max: process
            .connections
            .map_or(default.connections_max, |count| {
                count
                    .saturating_mul(process.workers.unwrap_or(1).max(1) as u64)
                    .max(512)
            }),
        requests_per_connection_max: match keep_alive.timeout_ms {
            0 => 1,
            _ => keep_alive.requests_max.max(1),
        },
        connection_age_ms_max: keep_alive.age_ms_max,
        head_bytes_max: core
            .large_header_bytes
            .map_or(default.head_bytes_max, |(number, bytes)| {
                number.saturating_mul(bytes).max(1024)
            }),
        fields_are_bad_requests: true,
        refusals_have_pages: true,
        timeouts_are_silent: true,
        ignores_expectations: true,
        always_continues: true,
        says_keep_alive: true,
        repaired_heads: RepairedHeads::LineFeeds,
        field_bytes_max: core.large_header_bytes.map_or(8 << 10, |(_, bytes)| bytes),
        request_line_bytes_max: core.large_header_bytes.map_or(8 << 10, |(_, bytes)| bytes),
        header_count_max: core.max_headers.unwrap_or(default.header_count_max),
        head_timeout_ms: core.client_header_timeout_ms.unwrap_or(60_000),
        body_timeout_ms: core.client_body_timeout_ms.unwrap_or(60_000),
        write_timeout_ms: core.send_timeout_ms.unwrap_or(60_000),
        // Without persistent connections, it is the time for the first request.
        keep_alive_timeout_ms: match keep_alive.timeout_ms {
            0 => 60_000,
            timeout_ms => timeout_ms,
        },
        http2_streams_max: core.http2_streams.unwrap_or(128),
        http2_window_bytes: core
            .http2_window_bytes
            .unwrap_or(default.http2_window_bytes),
        body_bytes_max: 0,
        ..default
    }
}

/// The settings of all servers. `None`: they differ, or a location has its own, so that the client's
/// address is settled request by request.
fn common_real_ip(drafts: &[ServerDraft], http: &LocationConf) -> Option<RealIp> {
    fn has_own(draft: &Draft) -> bool {
        let mut inner = draft.children.iter();
        inner.any(|child| child.conf.real_ip.is_set() || has_own(child))
    }
    let mut all = drafts.iter().map(|draft| {
        let mut own = draft.outside.conf.real_ip.clone();
        own.inherit(&http.real_ip);
        own
    });
    let first = all.next().unwrap_or_default();
    let is_same =
        |other: RealIp| other.is_same(&first) || other.from.is_empty() && first.from.is_empty();
    let is_common = all.all(is_same) && !drafts.iter().any(|draft| has_own(&draft.outside));
    is_common.then_some(first)
}

fn trusted_proxies(real_ip: &RealIp) -> TrustedProxies {
    if real_ip.is_proxy_protocol() {
        // The header of the connection names the client; a field of that name is the client's.
        return TrustedProxies::default();
    }
    let blocks = real_ip.from.iter();
    let blocks = blocks.filter_map(|text| text.parse::<Block>().ok());
    TrustedProxies {
        addresses: Addresses {
            set: Arc::new(blocks.collect()),
            networks: real_ip.networks.clone(),
            ..Addresses::default()
        },
        unix: real_ip.from.iter().any(|text| text == "unix:"),
        field: real_ip.header.clone().unwrap_or_else(|| "X-Real-IP".into()),
        is_recursive: real_ip.is_recursive == Some(true),
        is_loose: true,
    }
}

/// Numbers the servers of each address, with nginx's rules for names.
fn add_addresses(drafts: &[ServerDraft], nginx: &mut Nginx, finisher: &mut Finisher<'_>) {
    check_options(drafts, finisher);
    let mut explicit: Vec<Address> = Vec::new();
    for (index, draft) in drafts.iter().enumerate() {
        for listen in &draft.listens {
            let at = nginx
                .addresses
                .iter()
                .position(|(address, _)| *address == listen.address);
            let at = at.unwrap_or_else(|| {
                nginx
                    .addresses
                    .push((listen.address.clone(), AddressServers::new(index)));
                nginx.addresses.len() - 1
            });
            let Some((_, servers)) = nginx.addresses.get_mut(at) else {
                continue;
            };
            if listen.is_default {
                if explicit.contains(&listen.address) && servers.default != index {
                    let message = format!("a duplicate default server for {}", listen.address);
                    let origin = &listen.origin;
                    finisher.report.error_at(&origin.file, origin.line, message);
                }
                explicit.push(listen.address.clone());
                servers.default = index;
            }
            let no_name: Box<str> = "".into();
            let names = &draft.names;
            let literal = match names.first.is_none() {
                true => std::slice::from_ref(&no_name),
                false => &names.literal,
            };
            for name in literal {
                // The first server of a name has it.
                let known = servers.names.literal_of(name).copied();
                let is_new = servers.names.add_wildcard(name, index);
                if known != Some(index)
                    && !is_new.unwrap_or_else(|| servers.names.add_exact(name, index))
                {
                    let address = &listen.address;
                    finisher.report.warn_without_place(format!(
                        "conflicting server name \"{name}\" on {address}, ignored"
                    ));
                }
            }
            for regex in &names.regexes {
                servers.names.regexes.push((regex.clone(), index));
            }
        }
    }
}

/// Refuses options of sockets that two servers of an address have.
fn check_options(drafts: &[ServerDraft], finisher: &mut Finisher<'_>) {
    let mut with_options: Vec<(&Address, bool)> = Vec::new();
    let all = drafts.iter().flat_map(|draft| &draft.listens);
    for listen in all.filter(|listen| listen.options.are_set && !listen.is_second()) {
        if with_options.contains(&(&listen.address, listen.is_quic)) {
            let message = format!("duplicate listen options for {}", listen.address);
            let origin = &listen.origin;
            finisher.report.error_at(&origin.file, origin.line, message);
        }
        with_options.push((&listen.address, listen.is_quic));
    }
}

/// Returns true if a wildcard socket takes the connections of the address.
fn is_covered(address: &Address, all: &[Listen]) -> bool {
    let Address::Tcp(own) = address else {
        return false;
    };
    !own.ip().is_unspecified()
        && all.iter().any(|listen| match &listen.address {
            Address::Tcp(other) => {
                other.ip().is_unspecified()
                    && other.port() == own.port()
                    && other.is_ipv4() == own.is_ipv4()
            }
            Address::Unix(_) => false,
        })
}

fn listeners(
    drafts: &[ServerDraft],
    core: &CoreConf,
    real_ip: &RealIp,
    finisher: &mut Finisher<'_>,
) -> Vec<Listener> {
    let all: Vec<Listen> = drafts
        .iter()
        .flat_map(|draft| draft.listens.clone())
        .collect();
    let mut listeners: Vec<Listener> = Vec::new();
    for draft in drafts {
        let is_on = draft.tls.is_on == Some(true);
        for listen in &draft.listens {
            if is_covered(&listen.address, &all) {
                continue;
            }
            let at = listeners
                .iter()
                .position(|listener| listener.address == listen.address);
            let at = at.unwrap_or_else(|| {
                let mut listener =
                    Listener::new(listen.address.clone(), draft.outside.origin.clone());
                (listener.http2, listener.http2_upgrade) = (false, false);
                listener.mode = Some(SOCKET_MODE);
                listeners.push(listener);
                listeners.len() - 1
            });
            let Some(listener) = listeners.get_mut(at) else {
                continue;
            };
            let is_tls = listen.is_tls || listen.is_quic || is_on;
            if is_tls {
                listener.tls.get_or_insert_default();
                check_certificate(draft, finisher);
            }
            let http2 = draft.outside.conf.core.http2.or(core.http2);
            listener.http2 |= listen.has_http2 || http2 == Some(true);
            let http3 = draft.outside.conf.core.http3.or(core.http3);
            if listen.is_quic && http3 != Some(false) {
                listener.http3 = Some(Http3 {
                    advertised_s: None,
                    early_data: false,
                    streams_max: core.http3_streams(&draft.outside.conf.core),
                    stream_window_bytes: core.http3_window(&draft.outside.conf.core),
                    always_validates: draft.outside.conf.core.quic_retry.or(core.quic_retry)
                        == Some(true),
                    ..Http3::default()
                });
            }
            if listen.has_proxy_protocol {
                let believed = real_ip.from.iter().filter(|_| real_ip.is_proxy_protocol());
                let believed = believed.filter_map(|text| text.parse().ok());
                listener.proxy_protocol_believed = Some(believed.collect());
                let all = ["0.0.0.0/0", "::/0"];
                listener.proxy_protocol_from =
                    all.iter().filter_map(|text| text.parse().ok()).collect();
            }
            listener.backlog = listen.options.backlog.unwrap_or(listener.backlog);
            let options = &listen.options;
            listener.send_buffer_bytes = options.send_buffer_bytes.or(listener.send_buffer_bytes);
            listener.receive_buffer_bytes =
                (options.receive_buffer_bytes).or(listener.receive_buffer_bytes);
            let own = draft.outside.conf.core.client_header_timeout_ms;
            let timeout_ms = own.or(core.client_header_timeout_ms).unwrap_or(60_000);
            listener.defers_accept &= timeout_ms >= DEFERRING_TIMEOUT_MS;
        }
    }
    listeners
}

fn check_certificate(draft: &ServerDraft, finisher: &mut Finisher<'_>) {
    if draft.tls.lacks_authorities() {
        let message = "no ssl_client_certificate for ssl_verify_client";
        finisher.report.error_without_place(message.to_owned());
    }
    if draft.tls.rejects == Some(true) || !draft.tls.certificates.is_empty() {
        if draft.tls.certificates.len() != draft.tls.keys.len() {
            let origin = &draft.outside.origin;
            let message =
                "no \"ssl_certificate_key\" is defined for certificate of the server".to_owned();
            finisher.report.error_at(&origin.file, origin.line, message);
        }
        return;
    }
    let origin = &draft.outside.origin;
    let message = "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive";
    finisher
        .report
        .error_at(&origin.file, origin.line, message.to_owned());
}

fn add_ticket_keys(model: &mut Model, drafts: &[ServerDraft]) {
    for path in drafts.iter().flat_map(|draft| &draft.tls.ticket_keys) {
        if !model.tls.ticket_keys.contains(path) {
            model.tls.ticket_keys.push(path.clone());
        }
    }
}

/// Adds the certificates that are found in handshakes.
fn name_certificates(
    site: &mut Site,
    draft: &ServerDraft,
    tables: &Tables,
    finisher: &mut Finisher<'_>,
) {
    match draft
        .tls
        .handshake_certificates(tables, finisher.conf_prefix)
    {
        Ok(found) if found.is_empty() => {}
        Ok(found) => Arc::make_mut(&mut site.tls).handshake_certificates = found.into(),
        Err(message) => {
            let origin = &draft.outside.origin;
            finisher.report.error_at(&origin.file, origin.line, message);
        }
    }
}

fn site(index: usize, draft: &ServerDraft, nginx: &Nginx, bound: &[Address]) -> Site {
    let addresses = draft.listens.iter().map(|listen| &listen.address);
    let serves = |address: &&Address| {
        draft.listens.iter().any(|listen| {
            listen.address == **address
                || is_covered(
                    &listen.address,
                    std::slice::from_ref(&Listen::at((*address).clone())),
                )
        })
    };
    let is_default = |address: &Address| {
        let servers = nginx.addresses.iter().find(|(known, _)| known == address);
        servers.is_some_and(|(_, servers)| servers.default == index)
    };
    let mut names: Vec<SiteName> = Vec::new();
    for name in &draft.names.literal {
        if let Some(rest) = name.strip_prefix("*.") {
            names.push(SiteName::Wildcard(rest.to_owned()));
        } else if let Some(rest) = name.strip_prefix('.') {
            names.push(SiteName::Wildcard(rest.to_owned()));
            names.push(SiteName::Exact(rest.to_owned()));
        } else if !name.ends_with(".*") && !name.is_empty() && **name != *"_" {
            names.push(SiteName::Exact(name.to_string()));
        }
    }
    if addresses.clone().all(is_default) {
        names.push(SiteName::Any);
    }
    Site {
        names,
        listeners: bound.iter().filter(serves).cloned().collect(),
        canonical_name: draft.names.first.as_deref().map(|name| {
            // A host that clients can be sent to.
            let name = name.trim_start_matches('*');
            name.trim_start_matches('.').into()
        }),
        tls: Arc::new(draft.tls.site_tls()),
        ..Site::new(draft.outside.origin.clone())
    }
}

/// Returns the numbers of all logs that the server's locations use.
fn logs_of(server: &Server, logs: &mut LogRules) -> Vec<usize> {
    let mut numbers = Vec::new();
    let mut add = |location: &Location| {
        let used: Vec<LogUse> = location
            .conf
            .log
            .logs
            .as_deref()
            .unwrap_or_default()
            .to_vec();
        for log in used {
            let number = logs.number(&log);
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
    };
    server.each_location(&mut add);
    numbers
}

fn access_log(
    number: usize,
    logs: &LogRules,
    formats: &Formats,
    origin: &Origin,
) -> Option<AccessLog> {
    let log = logs.uses.get(number)?;
    let format = formats.get(&log.format)?;
    Some(AccessLog {
        target: log.target.clone(),
        format: format.items.as_str().into(),
        is_items: true,
        escapes: format.escape,
        condition: Some(LogCondition::Decided(number)),
        rotation: None,
        mask: Arc::default(),
        is_immediate: false,
        origin: origin.clone(),
    })
}

fn check_logs(nginx: &Nginx, finisher: &mut Finisher<'_>) {
    for log in &nginx.logs.uses {
        if !nginx.formats.contains_key(&log.format) {
            finisher
                .report
                .error_without_place(format!("unknown log format \"{}\"", log.format));
        }
    }
}

impl Listen {
    /// The default of a server without `listen`.
    fn plain(port: u16) -> Listen {
        Listen::at(Address::Tcp(SocketAddr::from(([0, 0, 0, 0], port))))
    }
}
