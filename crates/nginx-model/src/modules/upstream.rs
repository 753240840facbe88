//! ngx_http_upstream_module: groups of servers, and upstreams made of them.
//!
//! Called by: `load` (blocks), and `finish`, which makes an upstream per location.
//! Caveat: names of servers are resolved when they are used, not when the configuration is read: by
//! the system, or by the name servers of `resolver` where they have `resolve` or come from variables.
//! Out of scope: balancing (the gateway).

use crate::{
    modules::{
        resolver::{Found, ResolverConf, lookup},
        sticky::{self, Sticky},
        tls,
        upstream_conf::{Gateway, HttpVersion, LocalAddress, UpstreamConf},
        upstream_setters::parse_local,
    },
    reading::Reading,
    text::Text,
    values::{number_argument, time_argument, time_ms},
};
use saker_config::model::{
    Backend, BackendAddress, BackendTls, Balance, Member, Protocol, Resends, Revocation, Tuning,
    Upstream,
};
use saker_dns::{Lookup, Resolved};
use saker_nginx_syntax::Directive;
use std::{borrow::Cow, net::IpAddr, path::Path, sync::Arc};

/// An `upstream` block.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub name: Box<str>,
    pub servers: Vec<GroupServer>,
    pub balance: Balance,
    pub kept_max: Option<usize>,
    pub kept_ms: Option<u64>,
    /// Requests and age of a kept connection.
    pub kept_requests_max: Option<u64>,
    pub kept_age_ms: Option<u64>,
    /// The key of a `hash`.
    pub key: Option<Text>,
    pub sticky: Option<Sticky>,
    pub resolver: ResolverConf,
}

/// A `server` of a group.
#[derive(Clone, Debug)]
pub struct GroupServer {
    /// As written.
    pub address: Box<str>,
    pub weight: u32,
    pub is_backup: bool,
    pub is_down: bool,
    pub failures_max: u32,
    pub fail_timeout_ms: u64,
    pub connections_max: usize,
    /// Its name in sessions, where it has one.
    pub route: Option<Box<str>>,
    /// It serves its sessions alone.
    pub is_draining: bool,
    /// Its name is resolved at run time.
    pub is_resolved: bool,
    /// The name of a service, whose servers it stands for.
    pub service: Option<Box<str>>,
}

impl GroupServer {
    /// The only server of a target that is no group: its failures have no consequence.
    pub fn alone(address: &str) -> GroupServer {
        GroupServer {
            address: address.into(),
            weight: 1,
            is_backup: false,
            is_down: false,
            failures_max: 0,
            fail_timeout_ms: 10_000,
            connections_max: 0,
            route: None,
            is_draining: false,
            is_resolved: false,
            service: None,
        }
    }

    /// Returns the lookup that the server needs before it can be used; `None`: none.
    pub fn lookup(&self) -> Option<Lookup> {
        match self.is_resolved {
            true => lookup(&self.address, self.service.as_deref()),
            false => None,
        }
    }

    /// The servers that it stands for, by the addresses of its name.
    pub fn resolved(&self, found: &Found) -> Vec<Cow<'_, GroupServer>> {
        let Some(addresses) = found.get(&self.address) else {
            let is_unknown = self.lookup().is_some();
            return (!is_unknown)
                .then_some(Cow::Borrowed(self))
                .into_iter()
                .collect();
        };
        let own_port = self.address.rsplit_once(':').map(|(_, port)| port);
        let first = addresses.iter().map(|one| one.priority).min();
        let address = |one: &Resolved| {
            let host = match one.ip {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            };
            match (one.port, own_port) {
                (Some(port), _) => format!("{host}:{port}"),
                (None, Some(port)) => format!("{host}:{port}"),
                (None, None) => host,
            }
        };
        let servers = addresses.iter().map(|one| {
            Cow::Owned(GroupServer {
                address: address(one).into(),
                weight: self.weight.saturating_mul(u32::from(one.weight)),
                is_backup: self.is_backup || Some(one.priority) > first,
                ..self.clone()
            })
        });
        servers.collect()
    }

    /// The name of the member in sessions: the one that it has, or one made of its address.
    pub fn session_route(&self) -> Box<str> {
        match &self.route {
            Some(route) => route.clone(),
            None => sticky::route_of(&self.address).into(),
        }
    }

    /// Sets the member's part in balancing.
    pub fn describe(&self, member: &mut Member) {
        member.weight = self.weight.saturating_mul(100);
        member.is_standby = self.is_backup;
        member.is_disabled = self.is_down;
        member.ignores_errors = self.failures_max == 0;
        member.is_draining = self.is_draining;
    }
}

impl Group {
    /// Returns true if names of it are resolved at run time.
    pub fn is_resolved(&self) -> bool {
        self.servers.iter().any(|server| server.lookup().is_some())
    }

    /// Failures in a row after which a member is left alone.
    pub fn failures_max(&self) -> u32 {
        let failures = self.servers.iter().map(|server| server.failures_max);
        failures.max().unwrap_or(1).max(1)
    }
}

/// Reads a group.
pub fn group(directive: &Directive, reading: &mut Reading<'_>) -> Group {
    let mut group = Group {
        name: directive.argument(0).into(),
        ..Group::default()
    };
    let mut methods = Methods::default();
    for inner in directive.inside() {
        if methods.is_another(inner.name()) {
            let message = "load balancing method redefined";
            reading.report.warn(inner, message, None);
        }
        let outcome = match inner.name() {
            "server" => server(inner)
                .and_then(|server| methods.check(server))
                .map(|server| group.servers.push(server)),
            "least_conn" | "least_time" => {
                group.balance = Balance::Busyness;
                Ok(())
            }
            "random" => {
                let known = [
                    "two",
                    "least_conn",
                    "least_time=header",
                    "least_time=last_byte",
                ];
                group.balance = match inner.argument(0) {
                    "two" => Balance::RandomTwo,
                    _ => Balance::Random,
                };
                match inner.texts().find(|word| !known.contains(word)) {
                    Some(word) => Err(format!("invalid parameter \"{word}\"")),
                    None => Ok(()),
                }
            }
            "zone" => check_zone(inner),
            "ip_hash" => {
                group.balance = Balance::ClientNetwork;
                Ok(())
            }
            "hash" => hash(inner, &mut group, reading),
            "sticky" => sticky::read(inner, reading).map(|sticky| group.sticky = Some(sticky)),
            "keepalive" if group.kept_max.is_some() => {
                Err("\"keepalive\" directive is duplicate".to_owned())
            }
            "keepalive" => match inner.argument(0).parse::<usize>() {
                // 0 keeps none, as where nginx keeps some without being told (1.22 refuses it).
                Ok(number) => {
                    group.kept_max = Some(number);
                    Ok(())
                }
                Err(_) => Err(format!(
                    "invalid value \"{}\" in \"keepalive\" directive",
                    inner.argument(0)
                )),
            },
            "keepalive_timeout" => time_argument(inner).map(|ms| group.kept_ms = Some(ms)),
            "keepalive_requests" => {
                number_argument(inner).map(|number| group.kept_requests_max = Some(number))
            }
            "keepalive_time" => time_argument(inner).map(|ms| group.kept_age_ms = Some(ms)),
            _ => group.resolver.set(inner).map(drop),
        };
        if let Err(message) = outcome {
            reading.report.error(inner, message, None);
        }
    }
    check_servers(directive, &group, reading);
    group
}

/// Reports a group without servers, or with none but those for backup.
fn check_servers(directive: &Directive, group: &Group, reading: &mut Reading<'_>) {
    let has_servers = directive.inside().iter().any(|one| one.name() == "server");
    if !has_servers {
        let message = "no servers are inside upstream".to_owned();
        reading.report.error(directive, message, None);
    } else if !group.servers.is_empty() && group.servers.iter().all(|one| one.is_backup) {
        let message = format!("no servers in upstream \"{}\"", group.name);
        reading.report.error(directive, message, None);
    }
}

/// The methods of a group so far.
#[derive(Default)]
struct Methods {
    /// A method, or `keepalive`, which changes the one before it.
    has_one: bool,
    /// One that knows no servers for backup.
    has_no_backup: bool,
}

impl Methods {
    /// Notes a directive; true if it takes the place of a method.
    fn is_another(&mut self, name: &str) -> bool {
        let is_method = matches!(
            name,
            "least_conn" | "least_time" | "random" | "ip_hash" | "hash"
        );
        let is_another = is_method && self.has_one;
        self.has_one |= is_method || name == "keepalive";
        if is_method {
            self.has_no_backup = matches!(name, "random" | "ip_hash" | "hash");
        }
        is_another
    }

    fn check(&self, server: GroupServer) -> Result<GroupServer, String> {
        match self.has_no_backup && server.is_backup {
            true => Err("balancing method does not support parameter \"backup\"".to_owned()),
            false => Ok(server),
        }
    }
}

/// Checks the address of a server, apart from its name.
fn check_address(text: &str) -> Result<(), String> {
    let fault = |kind: &str| Err(format!("{kind} in upstream \"{text}\""));
    if let Some(path) = text.strip_prefix("unix:") {
        return match path.is_empty() {
            true => fault("no path in the unix domain socket"),
            false => Ok(()),
        };
    }
    if text.is_empty() {
        return fault("no host");
    }
    if text.contains('/') {
        return fault("invalid host");
    }
    let port = text.rsplit_once(':').map(|(_, port)| port);
    let port = port.filter(|port| !port.contains(']'));
    match port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0)) {
        true => Ok(()),
        false => fault("invalid port"),
    }
}

fn hash(directive: &Directive, group: &mut Group, reading: &mut Reading<'_>) -> Result<(), String> {
    group.key = Some(reading.text(directive.argument(0))?);
    group.balance = match directive.argument(1) {
        "" => Balance::Key,
        "consistent" => Balance::KeyRing,
        other => return Err(format!("invalid parameter \"{other}\"")),
    };
    Ok(())
}

fn server(directive: &Directive) -> Result<GroupServer, String> {
    check_address(directive.argument(0))?;
    let mut server = GroupServer {
        address: directive.argument(0).into(),
        weight: 1,
        is_backup: false,
        is_down: false,
        failures_max: 1,
        fail_timeout_ms: 10_000,
        connections_max: 0,
        route: None,
        is_draining: false,
        is_resolved: false,
        service: None,
    };
    for word in directive.texts().skip(1) {
        let invalid = || format!("invalid parameter \"{word}\"");
        match word.split_once('=') {
            Some(("weight", text)) => {
                server.weight = text
                    .parse()
                    .ok()
                    .filter(|weight| *weight > 0)
                    .ok_or_else(invalid)?;
            }
            Some(("max_fails", text)) => {
                server.failures_max = text.parse().map_err(|_| invalid())?;
            }
            Some(("fail_timeout", text)) => {
                server.fail_timeout_ms = time_ms(text).ok_or_else(invalid)?;
            }
            Some(("max_conns", text)) => {
                server.connections_max = text.parse().map_err(|_| invalid())?;
            }
            Some(("route", text)) => server.route = Some(text.into()),
            Some(("service", text)) if !text.is_empty() => server.service = Some(text.into()),
            None if word == "backup" => server.is_backup = true,
            None if word == "down" => server.is_down = true,
            None if word == "drain" => server.is_draining = true,
            None if word == "resolve" => server.is_resolved = true,
            _ => return Err(invalid()),
        }
    }
    if server.service.is_some() && !server.is_resolved {
        return Err("\"service\" upstream server requires \"resolve\" parameter".to_owned());
    }
    if server.service.is_some() && server.address.contains(':') {
        let address = &server.address;
        return Err(format!("service upstream \"{address}\" may not have port"));
    }
    Ok(server)
}

/// The target of a `proxy_pass` without variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassUrl<'t> {
    pub is_tls: bool,
    /// Host and port, or the path of a Unix socket behind `unix:`.
    pub authority: &'t str,
    /// The replacement of the location's name; `None`: the path is sent as it came.
    pub uri: Option<&'t str>,
}

/// The scheme of the text of a `proxy_pass` or its kin, and what follows it. FastCGI, SCGI, and
/// memcached have none, and the path of a socket may begin with slashes.
fn split_scheme(gateway: Gateway, text: &str) -> (&str, &str) {
    let has_scheme = |scheme: &str| match gateway {
        Gateway::Proxy | Gateway::Grpc => scheme != "unix",
        Gateway::Uwsgi => matches!(scheme, "uwsgi" | "suwsgi"),
        Gateway::FastCgi | Gateway::Scgi | Gateway::Memcached => false,
    };
    text.split_once("://")
        .filter(|(scheme, _)| has_scheme(scheme))
        .unwrap_or(("", text))
}

/// Splits the text of a `proxy_pass` or its kin.
pub fn split_url(gateway: Gateway, text: &str) -> PassUrl<'_> {
    let (scheme, rest) = split_scheme(gateway, text);
    let is_tls = matches!(scheme, "https" | "grpcs" | "suwsgi");
    if let Some(path) = rest.strip_prefix("unix:") {
        let (path, uri) = match path.split_once(':') {
            Some((path, uri)) if gateway == Gateway::Proxy => (path, Some(uri)),
            _ => (path.trim_end_matches(':'), None),
        };
        return PassUrl {
            is_tls,
            authority: rest.get(..5 + path.len()).unwrap_or(rest),
            uri: uri.filter(|uri| !uri.is_empty()),
        };
    }
    let end = match gateway {
        Gateway::Proxy | Gateway::Grpc => rest.find(['/', '?']).unwrap_or(rest.len()),
        _ => rest.len(),
    };
    let (authority, uri) = rest.split_at(end);
    PassUrl {
        is_tls,
        authority,
        uri: (!uri.is_empty()).then_some(uri),
    }
}

/// The protocol of a kind of upstream.
fn protocol(gateway: Gateway, conf: &UpstreamConf) -> Protocol {
    match gateway {
        Gateway::Proxy if conf.version == Some(HttpVersion::Http2) => Protocol::Http2,
        Gateway::Proxy => Protocol::Http1,
        Gateway::FastCgi => Protocol::FastCgi,
        Gateway::Uwsgi => Protocol::Uwsgi,
        Gateway::Scgi => Protocol::Scgi,
        Gateway::Grpc => Protocol::Http2,
        Gateway::Memcached => Protocol::Memcached,
    }
}

/// Content of a response that is always taken from an upstream at once.
const BUFFER_BYTES_MIN: u64 = 8 << 10;

/// Makes an upstream of an address or the name of a group. `None`: the address is invalid. `found`:
/// addresses of names that are resolved at run time; servers without any are left out.
pub fn make(
    gateway: Gateway,
    url: &PassUrl<'_>,
    conf: &UpstreamConf,
    groups: &[Group],
    conf_prefix: &Path,
    found: &Found,
) -> Option<Upstream> {
    let named = groups.iter().find(|group| *group.name == *url.authority);
    let single = Group {
        name: url.authority.into(),
        servers: vec![GroupServer::alone(url.authority)],
        // Connections are kept by groups: the peer of an address may serve one request on each.
        kept_max: matches!(gateway, Gateway::Proxy | Gateway::Grpc).then_some(0),
        ..Group::default()
    };
    let group = named.unwrap_or(&single);
    let mut members = Vec::new();
    for server in group
        .servers
        .iter()
        .flat_map(|server| server.resolved(found))
    {
        let protocol = protocol(gateway, conf);
        let address = address(&server.address, protocol, url.is_tls)?;
        let mut backend = Backend::new(protocol, address);
        backend.tls = url.is_tls.then(|| backend_tls(conf, url, conf_prefix));
        backend.keeps_alive = conf.keeps_alive == Some(true);
        backend.group = named.map(|group| group.name.clone());
        backend.local = match &conf.local {
            Some(LocalAddress::At(text)) => text.plain().and_then(parse_local),
            Some(LocalAddress::Off) | None => None,
        };
        let mut member = Member::new(backend, tuning(conf, group, &server));
        server.describe(&mut member);
        member.authority = url.authority.into();
        if group.sticky.is_some() {
            member.route = Some(server.session_route());
        }
        members.push(member);
    }
    let mut upstream = Upstream::new(&group.name, members);
    upstream.balance = group.balance;
    upstream.failures_max = group.failures_max();
    // Of several that have failed lately none is asked; one alone never counts as failed.
    upstream.breaks = upstream.members.len() > 1;
    retries(&mut upstream, conf);
    Some(upstream)
}

/// Settings of the connections to a server.
fn tuning(conf: &UpstreamConf, group: &Group, server: &GroupServer) -> Tuning {
    let mut tuning = Tuning {
        connect_timeout_ms: conf.connect_timeout_ms.unwrap_or(60_000),
        timeout_ms: conf
            .read_timeout_ms
            .unwrap_or(60_000)
            .max(conf.send_timeout_ms.unwrap_or(0)),
        connections_max: server.connections_max,
        // `queue` is a directive of the commercial subscription.
        queue_max: 0,
        retry_ms: server.fail_timeout_ms,
        modifiers: (conf.modifier1.unwrap_or(0), conf.modifier2.unwrap_or(0)),
        caught_errors: conf.caught_errors.clone().unwrap_or_default(),
        is_http10: conf.version == Some(HttpVersion::Http10),
        response_head_bytes_max: conf.head_bytes.unwrap_or(0),
        requests_per_connection_max: group.kept_requests_max.unwrap_or(0),
        connection_age_ms_max: group.kept_age_ms.unwrap_or(0),
        ..Tuning::default()
    };
    if let Some(kept_max) = group.kept_max {
        tuning.kept_max = kept_max;
    }
    if let Some(kept_ms) = group.kept_ms {
        tuning.kept_ms = kept_ms;
    }
    if let Some((number, bytes)) = conf.buffers {
        let bytes = number.saturating_mul(bytes).max(BUFFER_BYTES_MIN);
        tuning.buffer_memory_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    if let Some(disk_bytes) = conf.disk_bytes {
        tuning.buffer_disk_bytes = disk_bytes;
    }
    if conf.keeps_connections == Some(false) {
        tuning.kept_max = 0;
    }
    tuning
}

fn retries(upstream: &mut Upstream, conf: &UpstreamConf) {
    let words = conf.next.as_deref().unwrap_or_default();
    let has = |word: &str| words.iter().any(|other| **other == *word);
    upstream.fails_on_timeout = words.is_empty() || has("timeout");
    upstream.retried_statuses = words
        .iter()
        .filter_map(|word| match &**word {
            "not_found" => Some(404),
            word => word.strip_prefix("http_")?.parse().ok(),
        })
        .collect();
    // These are no failures of the server that says so.
    let is_failure = |status: &u16| !matches!(status, 403 | 404);
    let statuses = upstream.retried_statuses.iter().copied();
    upstream.failure_statuses = statuses.filter(is_failure).collect();
    upstream.resends = match (has("off"), has("non_idempotent")) {
        (true, _) => Resends::None,
        (false, true) => Resends::All,
        (false, false) => Resends::Idempotent,
    };
    upstream.attempts_ms = conf.next_timeout_ms.filter(|ms| *ms > 0);
    if has("off") {
        upstream.attempts_max = Some(0);
    } else if let Some(tries) = conf.tries_max.filter(|tries| *tries > 0) {
        upstream.attempts_max = usize::try_from(tries - 1).ok();
    }
}

fn address(text: &str, protocol: Protocol, is_tls: bool) -> Option<BackendAddress> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Some(BackendAddress::Unix(path.into()));
    }
    let port = match protocol {
        Protocol::Http1 | Protocol::Http2 | Protocol::Memcached => protocol.default_port(is_tls),
        _ => 80,
    };
    BackendAddress::tcp(text, port)
}

/// The name of a server for TLS, which has no port.
pub fn without_port(name: &str) -> &str {
    match name.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => name.split_once(':').map_or(name, |(host, _)| host),
    }
}

fn backend_tls(conf: &UpstreamConf, url: &PassUrl<'_>, conf_prefix: &Path) -> BackendTls {
    let verifies = conf.tls_verifies == Some(true);
    let path = |text: &str| conf_prefix.join(text);
    let host = url.authority.rsplit_once(':');
    let host = host.map_or(url.authority, |(host, _)| host);
    let name = conf.tls_name.as_ref().and_then(Text::plain);
    let name = name.map_or(host, without_port);
    let protocols = conf.tls_protocols.as_deref();
    let has = |name: &str| {
        protocols.is_none_or(|words| words.iter().any(|word| word.eq_ignore_ascii_case(name)))
    };
    BackendTls {
        verify: verifies,
        checks_name: verifies,
        checks_time: verifies,
        depth_max: Some(conf.tls_depth.unwrap_or(1).saturating_add(1)),
        authorities: conf
            .tls_authorities
            .as_deref()
            .map(path)
            .into_iter()
            .collect(),
        // With variables, it is known with the request.
        identity: conf
            .identity()
            .and_then(|(certificate, key)| Some((path(certificate.plain()?), path(key.plain()?)))),
        // Lists must cover the whole chain, as in OpenSSL.
        revocation: match conf.tls_revoked {
            Some(_) if verifies => Revocation::Chain {
                takes_unlisted: false,
            },
            _ => Revocation::Off,
        },
        revocation_lists: conf.tls_revoked.as_deref().map(path).into_iter().collect(),
        passphrases: conf.tls_passphrases.as_deref().map(path),
        ciphers: tls::chosen_suites(conf.tls_ciphers.as_deref(), conf.tls_ciphers_13.as_deref()),
        name: Some(name.into()),
        // Older protocols are spoken as the oldest that there is, as in `ssl_protocols`.
        without_tls12: !["TLSv1", "TLSv1.1", "TLSv1.2"].iter().any(|name| has(name)),
        without_tls13: !has("TLSv1.3"),
        sends_name: conf.tls_sends_name == Some(true),
        resumes: conf.tls_resumes != Some(false),
    }
}

/// Shares equal upstreams, whose connections and failures are then counted once.
#[derive(Debug, Default)]
pub struct UpstreamPool(Vec<Arc<Upstream>>);

impl UpstreamPool {
    /// Returns the upstream, or an equal one that was made before.
    pub fn share(&mut self, upstream: Upstream) -> Arc<Upstream> {
        if let Some(known) = self.0.iter().find(|known| ***known == upstream) {
            return Arc::clone(known);
        }
        let shared = Arc::new(upstream);
        self.0.push(Arc::clone(&shared));
        shared
    }

    /// Returns all upstreams.
    pub fn into_all(self) -> Vec<Arc<Upstream>> {
        self.0
    }
}
/// Checks the name and the size of a `zone`; one without a size shares that of another group.
fn check_zone(directive: &Directive) -> Result<(), String> {
    let (name, bytes) = (directive.argument(0), directive.argument(1));
    match (name, crate::values::size(bytes)) {
        ("", _) => Err(format!("invalid zone name \"{name}\"")),
        _ if directive.arguments.len() < 2 => Ok(()),
        (_, None) => Err(format!("invalid zone size \"{bytes}\"")),
        (_, Some(..32_768)) => Err(format!("zone \"{name}\" is too small")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_no_schemes() {
        let authority = |gateway, text| split_url(gateway, text).authority.to_owned();
        for gateway in [Gateway::FastCgi, Gateway::Scgi, Gateway::Uwsgi] {
            for text in ["unix:///run/a.sock", "unix:/run/a.sock", "unix:/run//a://b"] {
                assert_eq!(authority(gateway, text), text, "{gateway:?}");
            }
        }
        let tls = split_url(Gateway::Uwsgi, "suwsgi://unix:///run/a.sock");
        assert!(tls.is_tls && tls.authority == "unix:///run/a.sock");
        let plain = split_url(Gateway::Uwsgi, "uwsgi://127.0.0.1:3031");
        assert!(!plain.is_tls && plain.authority == "127.0.0.1:3031");
        let with_path = split_url(Gateway::Proxy, "http://unix:///run/a.sock:/path");
        assert_eq!(
            (with_path.authority, with_path.uri),
            ("unix:///run/a.sock", Some("/path"))
        );
        assert_eq!(split_url(Gateway::Proxy, "https://a/b").uri, Some("/b"));
    }
}
