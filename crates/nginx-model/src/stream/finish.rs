//! From the block `stream` to servers: inheritance, listeners, upstreams, and certificates.
//!
//! Called by: `load`, when `http` has been assembled.
//! Caveat: targets that are known now are made once; others at the first session that needs them.
//! Out of scope: listeners and certificates (`addresses`).

use super::{
    StreamLog, StreamRulesOf, StreamTarget, Streams, addresses,
    conf::StreamConf,
    read::{ReadStream, StreamDraft},
};
use crate::{
    error_logs::ErrorLogs,
    modules::{
        resolver::Found,
        tls::chosen_suites,
        upstream::{Group, GroupServer, without_port},
        upstream_conf::LocalAddress,
        upstream_setters::parse_local,
    },
    text::Text,
    values::network,
};
use saker_config::{
    Model,
    model::{
        AccessLog, AccessLogTarget, Backend, BackendAddress, BackendTls, Member, Origin, Protocol,
        Revocation, Tuning, Upstream,
    },
};
use saker_nginx_syntax::Report;
use saker_telemetry::{access_log::Escapes, message::Level};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Settings of the members of a server's upstreams.
#[derive(Clone, Debug, Default)]
pub struct Members {
    pub connect_timeout_ms: u64,
    /// The address that connections leave from.
    pub local: Option<SocketAddr>,
    pub keeps_alive: bool,
    pub tls: Option<BackendTls>,
    /// The name of the upstream is that of the handshake.
    pub takes_name: bool,
}

/// Merges what was read, and adds it to the model.
pub fn finish(
    mut read: ReadStream,
    model: &mut Model,
    (conf_prefix, error_logs): (&Path, &mut ErrorLogs),
    report: &mut Report,
) -> Streams {
    let mut streams = Streams {
        variables: std::mem::take(&mut read.variables.named),
        tables: std::mem::take(&mut read.tables),
        zones: std::mem::take(&mut read.zones),
        groups: std::mem::take(&mut read.groups),
        ..Streams::default()
    };
    let mut drafts = std::mem::take(&mut read.servers);
    for draft in &mut drafts {
        draft.conf.inherit(&read.conf);
    }
    streams.addresses = addresses::add(&drafts, model, report);
    for draft in drafts {
        let origin = draft.origin.clone();
        let mut fail = |message: String| report.error_at(&origin.file, origin.line, message);
        let list = draft.conf.error_logs.clone();
        let rules = rules(draft, &read, (&mut streams, model), conf_prefix);
        match rules {
            Ok(mut rules) => {
                rules.error_log = list.and_then(|list| error_logs.of_list(&list));
                let own = rules.error_log.iter().filter(|log| {
                    let known = &mut model.stream_error_logs.iter();
                    !known.any(|known| Arc::ptr_eq(known, log))
                });
                let own: Vec<_> = own.cloned().collect();
                model.stream_error_logs.extend(own);
                streams.servers.push(rules);
            }
            Err(message) => fail(message),
        }
    }
    streams
}

/// Makes the rules of a server.
fn rules(
    draft: StreamDraft,
    read: &ReadStream,
    (streams, model): (&mut Streams, &mut Model),
    conf_prefix: &Path,
) -> Result<StreamRulesOf, String> {
    let conf = draft.conf;
    let members = members(&conf, conf_prefix);
    let target = match (draft.returns, draft.proxy_pass, draft.pass) {
        (Some(text), ..) => StreamTarget::Return(text),
        (None, Some(text), _) => target(text, streams, &members, model)?,
        (None, None, Some(text)) => StreamTarget::Pass(text),
        // Reported where the block was read.
        (None, None, None) => StreamTarget::Return(Text::default()),
    };
    let mut logs = Vec::new();
    for log in conf.log.logs.as_deref().unwrap_or_default() {
        let (text, escape) = read
            .formats
            .get(&log.format)
            .ok_or_else(|| format!("unknown log format \"{}\"", log.format))?;
        logs.push(StreamLog {
            target: log_target(&log.target, streams, model, &draft.origin),
            text: text.clone(),
            path: log.path.clone(),
            escape: *escape,
            condition: log.condition.clone(),
        });
    }
    let networks = conf.real_ip_from.iter();
    Ok(StreamRulesOf {
        access: conf.access.rules,
        connections: conf.limits.connections,
        connections_dry_run: conf.limits.connections_dry_run == Some(true),
        connections_log_level: conf.connections_log_level.unwrap_or(Level::Error),
        error_log: None,
        real_ip_from: networks.filter_map(|text| network(text)).collect(),
        real_ip_unix: conf.real_ip_from.iter().any(|text| text == "unix:"),
        sets: draft.sets,
        target,
        demands_certificate: conf.tls.demands_certificate(),
        rejects: conf.tls.rejects == Some(true),
        members,
        resolver: conf.resolver,
        logs,
    })
}

fn log_target(
    target: &AccessLogTarget,
    streams: &mut Streams,
    model: &mut Model,
    origin: &Origin,
) -> usize {
    if let Some(number) = streams.log_targets.iter().position(|known| known == target) {
        return number;
    }
    model.stream_logs.push(AccessLog {
        is_immediate: true,
        target: target.clone(),
        format: "".into(),
        is_items: true,
        escapes: Escapes::Apache,
        condition: None,
        rotation: None,
        mask: Arc::default(),
        origin: origin.clone(),
    });
    streams.log_targets.push(target.clone());
    streams.log_targets.len() - 1
}

/// A target that is known now is made once; the rest is made of the value.
fn target(
    text: Text,
    streams: &Streams,
    members: &Members,
    model: &mut Model,
) -> Result<StreamTarget, String> {
    let Some(name) = text.plain() else {
        return Ok(StreamTarget::Evaluated(text));
    };
    let group = streams.groups.iter().find(|group| *group.name == *name);
    if group.is_some_and(Group::is_resolved) {
        return Ok(StreamTarget::Evaluated(text));
    }
    let made = upstream(name, &streams.groups, members, &Found::default()).ok_or_else(|| {
        let has_port = name.starts_with("unix:") || name.contains(':');
        match has_port {
            true => format!("host not found in upstream \"{name}\""),
            false => format!("no port in upstream \"{name}\""),
        }
    })?;
    let made = Arc::new(made);
    model.upstreams.push(Arc::clone(&made));
    Ok(StreamTarget::Upstream(
        made,
        group.and_then(|group| group.key.clone()),
    ))
}

/// Settings of members, which name and group of an upstream do not change.
fn members(conf: &StreamConf, conf_prefix: &Path) -> Members {
    let proxy = &conf.proxy;
    let path = |text: &str| conf_prefix.join(text);
    let paths =
        |text: &Option<Box<str>>| -> Vec<PathBuf> { text.iter().map(|text| path(text)).collect() };
    let verifies = proxy.tls_verifies == Some(true);
    let has = |name: &str| {
        let words = proxy.tls_protocols.as_ref();
        words.is_none_or(|words| words.iter().any(|word| **word == *name))
    };
    let name = proxy.tls_name.as_ref().and_then(Text::plain);
    let name = name.map(without_port);
    Members {
        connect_timeout_ms: proxy.connect_timeout_ms.unwrap_or(60_000),
        local: match &proxy.local {
            Some(LocalAddress::At(text)) => text.plain().and_then(parse_local),
            Some(LocalAddress::Off) | None => None,
        },
        keeps_alive: proxy.keeps_alive == Some(true),
        tls: (proxy.tls == Some(true)).then(|| BackendTls {
            verify: verifies,
            checks_name: verifies,
            checks_time: verifies,
            depth_max: Some(proxy.tls_depth.unwrap_or(1).saturating_add(1)),
            authorities: paths(&proxy.tls_authorities),
            revocation: match proxy.tls_revoked {
                Some(_) => Revocation::Chain {
                    takes_unlisted: false,
                },
                None => Revocation::Off,
            },
            revocation_lists: paths(&proxy.tls_revoked),
            identity: paths(&proxy.tls_certificate)
                .pop()
                .zip(paths(&proxy.tls_key).pop()),
            passphrases: paths(&proxy.tls_passphrases).pop(),
            ciphers: chosen_suites(
                proxy.tls_ciphers.as_deref(),
                proxy.tls_ciphers_13.as_deref(),
            ),
            name: name.map(Into::into),
            without_tls12: !["TLSv1", "TLSv1.1", "TLSv1.2"].iter().any(|name| has(name)),
            without_tls13: !has("TLSv1.3"),
            sends_name: proxy.tls_sends_name == Some(true),
            resumes: proxy.tls_resumes != Some(false),
        }),
        takes_name: name.is_none(),
    }
}

/// Makes an upstream of a group's name, or an address. `None`: it is neither. `found`: addresses of
/// names that are resolved at run time.
pub fn upstream(
    name: &str,
    groups: &[Group],
    members: &Members,
    found: &Found,
) -> Option<Upstream> {
    let single;
    let group = match groups.iter().find(|group| *group.name == *name) {
        Some(group) => group,
        None => {
            single = Group {
                name: name.into(),
                servers: vec![GroupServer::alone(name)],
                ..Group::default()
            };
            &single
        }
    };
    let host = match name.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => host,
        _ => name,
    };
    let mut all = Vec::new();
    for server in group
        .servers
        .iter()
        .flat_map(|server| server.resolved(found))
    {
        let mut backend = Backend::new(Protocol::Bytes, address(&server.address)?);
        backend.tls.clone_from(&members.tls);
        backend.local = members.local;
        backend.keeps_alive = members.keeps_alive;
        if let Some(tls) = backend.tls.as_mut().filter(|_| members.takes_name) {
            tls.name = Some(host.into());
        }
        let mut member = Member::new(
            backend,
            Tuning {
                connect_timeout_ms: members.connect_timeout_ms,
                connections_max: server.connections_max,
                retry_ms: server.fail_timeout_ms,
                ..Tuning::default()
            },
        );
        server.describe(&mut member);
        all.push(member);
    }
    let mut upstream = Upstream::new(&group.name, all);
    upstream.balance = group.balance;
    upstream.failures_max = group.failures_max();
    Some(upstream)
}

/// An address with its port.
fn address(text: &str) -> Option<BackendAddress> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Some(BackendAddress::Unix(path.into()));
    }
    let address = BackendAddress::tcp(text, 0)?;
    match &address {
        BackendAddress::Tcp { port: 0, .. } => None,
        _ => Some(address),
    }
}
