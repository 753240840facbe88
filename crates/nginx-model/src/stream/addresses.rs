//! Addresses of `stream`, the servers that share them, and their certificates.
//!
//! Called by: `finish`, when settings have been inherited.
//! Caveat: a server that ends TLS is a site of the engine, too, whose host table finds its
//! certificates; no request reaches such a site.
//! Out of scope: the choice of a server for a session (`saker-nginx`).

use super::read::{StreamDraft, StreamListen};
use crate::modules::listen::{AddressServers, SOCKET_MODE};
use saker_config::{
    Model,
    model::{Address, DatagramListener, Listener, PrefaceFrom, Site, SiteName, StreamServer},
};
use saker_net::proxy_preface::PrefaceVersion;
use saker_nginx_syntax::Report;
use std::sync::Arc;

/// The servers of an address, chosen by the name in a handshake.
#[derive(Clone, Debug)]
pub struct StreamAddress {
    pub address: Address,
    is_udp: bool,
    pub names: AddressServers,
    /// Servers by number.
    pub servers: Vec<Arc<StreamServer>>,
    has_explicit_default: bool,
    is_tls: bool,
    /// Names that lead to a server's certificates, by number.
    sites: Vec<(usize, SiteName)>,
}

/// Adds listeners and certificates of all servers.
pub fn add(drafts: &[StreamDraft], model: &mut Model, report: &mut Report) -> Vec<StreamAddress> {
    let mut all: Vec<StreamAddress> = Vec::new();
    for (number, draft) in drafts.iter().enumerate() {
        for listen in &draft.listens {
            add_server(&mut all, number, (draft, listen), report);
        }
    }
    for address in &all {
        add_listener(address, drafts, model, report);
    }
    add_sites(&all, drafts, model, report);
    all.retain(|one| !one.is_udp && one.servers.len() > 1);
    all
}

fn fail(draft: &StreamDraft, message: String, report: &mut Report) {
    report.error_at(&draft.origin.file, draft.origin.line, message);
}

fn add_server(
    all: &mut Vec<StreamAddress>,
    number: usize,
    (draft, listen): (&StreamDraft, &StreamListen),
    report: &mut Report,
) {
    let is_same =
        |one: &StreamAddress| one.address == listen.address && one.is_udp == listen.is_udp;
    let at = all.iter().position(is_same).unwrap_or_else(|| {
        all.push(StreamAddress {
            address: listen.address.clone(),
            is_udp: listen.is_udp,
            names: AddressServers::new(number),
            servers: Vec::new(),
            has_explicit_default: false,
            is_tls: false,
            sites: Vec::new(),
        });
        all.len() - 1
    });
    let Some(address) = all.get_mut(at) else {
        return;
    };
    address
        .servers
        .push(Arc::new(server(draft, listen, number)));
    address.is_tls |= listen.is_tls;
    if listen.is_default {
        if address.has_explicit_default {
            let message = format!("a duplicate default server for {}", listen.address);
            fail(draft, message, report);
        }
        address.has_explicit_default = true;
        address.names.default = number;
    }
    let no_name: Box<str> = "".into();
    let literal = match draft.names.first.is_none() {
        true => std::slice::from_ref(&no_name),
        false => &draft.names.literal,
    };
    for name in literal {
        let table = &mut address.names.names;
        let known = table.literal_of(name).copied();
        let is_new = table.add_wildcard(name, number);
        let is_new = is_new.unwrap_or_else(|| table.add_exact(name, number));
        if !is_new && known == Some(number) {
            continue;
        }
        if !is_new {
            let message = format!(
                "conflicting server name \"{name}\" on {}, ignored",
                listen.address
            );
            report.warn_at(&draft.origin, message);
        } else {
            let names = site_names(name);
            address.sites.extend(names.map(|name| (number, name)));
        }
    }
    for regex in &draft.names.regexes {
        address.names.names.regexes.push((regex.clone(), number));
    }
}

/// Names of a site for a `server_name`. The default server has those that have none.
fn site_names(name: &str) -> impl Iterator<Item = SiteName> {
    let wildcard = name.strip_prefix("*.").or_else(|| name.strip_prefix('.'));
    let exact = match name.strip_prefix('.') {
        Some(rest) => Some(rest),
        None if wildcard.is_some() || name.ends_with(".*") => None,
        None => Some(name).filter(|name| !name.is_empty() && *name != "_"),
    };
    let wildcard = wildcard.map(|rest| SiteName::Wildcard(rest.to_owned()));
    let exact = exact.map(|name| SiteName::Exact(name.to_owned()));
    wildcard.into_iter().chain(exact)
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
        keeps_alive: listen.options.keeps_alive || proxy.keeps_alive == Some(true),
        origin: own.origin,
        number,
    }
}

/// Adds the listener of an address, whose sessions begin with its default server.
fn add_listener(
    address: &StreamAddress,
    drafts: &[StreamDraft],
    model: &mut Model,
    report: &mut Report,
) {
    let number = address.names.default;
    let server = address.server(number);
    let (Some(draft), Some(server)) = (drafts.get(number), server) else {
        return;
    };
    if let (true, Address::Tcp(udp)) = (address.is_udp, &address.address) {
        model.datagrams.push(DatagramListener {
            address: *udp,
            server: Arc::clone(server),
            origin: draft.origin.clone(),
        });
        return;
    }
    if model
        .listeners
        .iter()
        .any(|known| known.address == address.address)
    {
        let message = format!("duplicate \"{}\" address and port pair", address.address);
        fail(draft, message, report);
    }
    let mut listener = Listener::new(address.address.clone(), draft.origin.clone());
    (listener.http2, listener.http2_upgrade) = (false, false);
    listener.mode = Some(SOCKET_MODE);
    listener.stream = Some(Arc::clone(server));
    let listens = drafts.iter().flat_map(|draft| &draft.listens);
    for listen in listens.filter(|listen| !listen.is_udp && listen.address == address.address) {
        let options = &listen.options;
        listener.backlog = options.backlog.unwrap_or(listener.backlog);
        listener.send_buffer_bytes = options.send_buffer_bytes.or(listener.send_buffer_bytes);
        listener.receive_buffer_bytes =
            (options.receive_buffer_bytes).or(listener.receive_buffer_bytes);
    }
    if address.is_tls {
        listener.tls = Some(Default::default());
    }
    model.listeners.push(listener);
}

/// Adds a site per server and set of names, for its certificates.
fn add_sites(
    all: &[StreamAddress],
    drafts: &[StreamDraft],
    model: &mut Model,
    report: &mut Report,
) {
    for (number, draft) in drafts.iter().enumerate() {
        let own = all
            .iter()
            .filter(|one| one.is_tls && one.server(number).is_some());
        let own: Vec<&StreamAddress> = own.collect();
        if own.is_empty() {
            continue;
        }
        check_tls(draft, &own, number, report);
        for path in &draft.conf.tls.ticket_keys {
            if !model.tls.ticket_keys.contains(path) {
                model.tls.ticket_keys.push(path.clone());
            }
        }
        let tls = Arc::new(draft.conf.tls.site_tls());
        for address in own {
            let names = address.sites.iter().filter(|(of, _)| *of == number);
            let mut names: Vec<SiteName> = names.map(|(_, name)| name.clone()).collect();
            if address.names.default == number {
                names.push(SiteName::Any);
            }
            if names.is_empty() {
                continue;
            }
            model.sites.push(Arc::new(Site {
                names,
                listeners: vec![address.address.clone()],
                tls: Arc::clone(&tls),
                ..Site::new(draft.origin.clone())
            }));
        }
    }
}

fn check_tls(draft: &StreamDraft, own: &[&StreamAddress], number: usize, report: &mut Report) {
    let tls = &draft.conf.tls;
    if tls.lacks_authorities() {
        let message = "no ssl_client_certificate for ssl_verify_client";
        report.error_without_place(message.to_owned());
    }
    if tls.certificates.is_empty() && tls.rejects != Some(true) {
        let message = "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive";
        fail(draft, message.to_owned(), report);
    } else if tls.is_of_handshake() {
        let message = "\"ssl_certificate\" with variables is not supported in streams: name a file";
        fail(draft, message.to_owned(), report);
    } else if tls.certificates.len() != tls.keys.len() {
        let message = "no \"ssl_certificate_key\" is defined for certificate of the server";
        fail(draft, message.to_owned(), report);
    }
    // The handshake of a name that only a pattern has is the default server's, authorities included.
    let names = &draft.names;
    let has_pattern =
        !names.regexes.is_empty() || names.literal.iter().any(|name| name.ends_with(".*"));
    let is_named = own.iter().any(|one| one.names.default != number);
    if is_named && has_pattern && tls.demands_certificate().is_some() {
        let message = "\"ssl_verify_client\" needs a server that is the default of its address, \
                       or has no patterns as names";
        fail(draft, message.to_owned(), report);
    }
}

impl StreamAddress {
    /// Returns the server of a number, if it is one of this address.
    pub fn server(&self, number: usize) -> Option<&Arc<StreamServer>> {
        self.servers.iter().find(|server| server.number == number)
    }
}
