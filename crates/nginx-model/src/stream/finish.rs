//! From the block `stream` to servers: inheritance, listeners, upstreams, and certificates.
//!
//! Called by: `load`, when `http` has been assembled.
//! Caveat: a server that ends TLS is a site of the engine, too, whose host table finds its
//! certificates; no request reaches such a site.

use super::{
    StreamLog, StreamRulesOf, StreamTarget, Streams,
    conf::StreamConf,
    read::{ReadStream, StreamDraft, StreamListen},
};
use crate::{
    modules::{
        listen::SOCKET_MODE,
        resolver::Found,
        tls::chosen_suites,
        upstream::{Group, GroupServer},
        upstream_conf::LocalAddress,
        upstream_setters::parse_local,
    },
    text::Text,
    values::network,
};
use saker_config::{
    Model,
    model::{
        AccessLog, AccessLogTarget, Address, Backend, BackendAddress, BackendTls, DatagramListener,
        Listener, Member, Origin, PrefaceFrom, Protocol, Revocation, Site, SiteName, StreamServer,
        Tuning, Upstream,
    },
};
use saker_net::proxy_preface::PrefaceVersion;
use saker_nginx_syntax::Report;
use saker_telemetry::access_log::Escapes;
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
    conf_prefix: &Path,
    report: &mut Report,
) -> Streams {
    let mut streams = Streams {
        variables: std::mem::take(&mut read.variables.named),
        tables: std::mem::take(&mut read.tables),
        zones: std::mem::take(&mut read.zones),
        groups: std::mem::take(&mut read.groups),
        ..Streams::default()
    };
    for (number, mut draft) in std::mem::take(&mut read.servers).into_iter().enumerate() {
        draft.conf.inherit(&read.conf);
        let origin = draft.origin.clone();
        let mut fail = |message: String| report.error_at(&origin.file, origin.line, message);
        listeners(&draft, number, model, &mut fail);
        let rules = rules(draft, &read, (&mut streams, model), conf_prefix);
        match rules {
            Ok(rules) => streams.servers.push(rules),
            Err(message) => fail(message),
        }
    }
    streams
}

/// Adds the listeners of a server, and its certificates.
fn listeners(draft: &StreamDraft, number: usize, model: &mut Model, fail: &mut dyn FnMut(String)) {
    let mut with_tls = Vec::new();
    for listen in &draft.listens {
        let address = &listen.address;
        let server = Arc::new(server(draft, listen, number));
        let taken = match (listen.is_udp, address) {
            (true, Address::Tcp(udp)) => {
                let is_taken = model.datagrams.iter().any(|known| known.address == *udp);
                model.datagrams.push(DatagramListener {
                    address: *udp,
                    server,
                    origin: draft.origin.clone(),
                });
                is_taken
            }
            _ => {
                let all = &model.listeners;
                let is_taken = all.iter().any(|known| known.address == *address);
                let mut listener = Listener::new(address.clone(), draft.origin.clone());
                (listener.http2, listener.http2_upgrade) = (false, false);
                listener.backlog = listen.backlog.unwrap_or(listener.backlog);
                listener.send_buffer_bytes = listen.send_buffer_bytes;
                listener.receive_buffer_bytes = listen.receive_buffer_bytes;
                listener.mode = Some(SOCKET_MODE);
                listener.stream = Some(server);
                if listen.is_tls {
                    listener.tls = Some(Default::default());
                    with_tls.push(address.clone());
                }
                model.listeners.push(listener);
                is_taken
            }
        };
        if taken {
            fail(format!("duplicate \"{address}\" address and port pair"));
        }
    }
    if with_tls.is_empty() {
        return;
    }
    let tls = &draft.conf.tls;
    for path in &tls.ticket_keys {
        if !model.tls.ticket_keys.contains(path) {
            model.tls.ticket_keys.push(path.clone());
        }
    }
    if tls.certificates.is_empty() {
        fail("no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive".to_owned());
    } else if tls.is_of_handshake() {
        fail(
            "\"ssl_certificate\" with variables is not supported in streams: name a file"
                .to_owned(),
        );
    } else if tls.certificates.len() != tls.keys.len() {
        fail("no \"ssl_certificate_key\" is defined for certificate of the server".to_owned());
    }
    model.sites.push(Arc::new(Site {
        names: vec![SiteName::Any],
        listeners: with_tls,
        tls: Arc::new(tls.site_tls()),
        ..Site::new(draft.origin.clone())
    }));
}

/// The engine's settings of a server's sessions.
fn server(draft: &StreamDraft, listen: &StreamListen, number: usize) -> StreamServer {
    let (conf, proxy) = (&draft.conf, &draft.conf.proxy);
    let own = StreamServer::new(number, draft.origin.clone());
    StreamServer {
        preface_from: match listen.takes_preface {
            true => PrefaceFrom::Everybody,
            false => PrefaceFrom::Nobody,
        },
        preface_timeout_ms: conf.preface_timeout_ms.unwrap_or(own.preface_timeout_ms),
        alpn: conf.alpn.clone().unwrap_or_default(),
        handshake_timeout_ms: conf
            .handshake_timeout_ms
            .unwrap_or(own.handshake_timeout_ms),
        reads_hello: conf.reads_hello == Some(true),
        hello_timeout_ms: conf.hello_timeout_ms.unwrap_or(own.hello_timeout_ms),
        hello_bytes_max: conf
            .hello_bytes_max
            .and_then(|bytes| usize::try_from(bytes).ok())
            .unwrap_or(own.hello_bytes_max),
        connect_timeout_ms: proxy.connect_timeout_ms.unwrap_or(own.connect_timeout_ms),
        idle_timeout_ms: proxy.timeout_ms.unwrap_or(own.idle_timeout_ms),
        sends_preface: (proxy.sends_preface == Some(true)).then_some(PrefaceVersion::V1),
        upload_rate: proxy.upload_rate.unwrap_or(0),
        download_rate: proxy.download_rate.unwrap_or(0),
        half_closes: proxy.half_closes == Some(true),
        datagrams_in_max: proxy.requests.filter(|number| *number > 0),
        datagrams_out_max: proxy.responses,
        retries: proxy.retries != Some(false),
        tries_max: proxy.tries_max.unwrap_or(0),
        tries_ms: proxy.tries_ms.unwrap_or(0),
        keeps_alive: listen.keeps_alive || proxy.keeps_alive == Some(true),
        origin: own.origin,
        number,
    }
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
    let target = match (draft.returns, draft.proxy_pass) {
        (Some(text), _) => StreamTarget::Return(text),
        (None, Some(text)) => target(text, streams, &members, model)?,
        // Reported where the block was read.
        (None, None) => StreamTarget::Return(Text::default()),
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
        real_ip_from: networks.filter_map(|text| network(text)).collect(),
        real_ip_unix: conf.real_ip_from.iter().any(|text| text == "unix:"),
        sets: draft.sets,
        target,
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
