//! From `[[stream]]` to the model: listeners, upstreams, rules, and logs.
//!
//! Called by: `resolve::all`, when upstreams and addresses have been resolved.
//! Caveat: a stream that ends TLS is a site of the engine, too, whose host table finds its
//! certificates; no request reaches such a site.
//! Out of scope: addresses that two tables have (`check/streams`).

use crate::{
    configuration::Configuration,
    diagnostic::{Severity, quoted},
    directives::{
        stream::{StreamDraft, Way},
        stream_target::{ListenAddress, ReadTarget},
        upstream_server::ParsedServer,
    },
    made_streams::Streams,
    model::{
        AccessLog, AccessLogTarget, Balance, DatagramListener, Listener, PrefaceFrom, Protocol,
        Site, SiteName, Stream, StreamLog, StreamRoute, StreamServer, StreamTarget, Tuning,
        Upstream,
    },
    source::Location,
};
use saker_net::proxy_preface::PrefaceVersion;
use saker_telemetry::access_log::Escapes;
use std::sync::Arc;

/// Idle limit of a session over UDP.
const UDP_IDLE_MS: u64 = 60_000;
const TCP_IDLE_MS: u64 = 600_000;

/// Message and help about a place.
type Complaint = (Location, String, String);

/// Makes the parts of the model.
pub(super) fn resolve(configuration: &mut Configuration) {
    let drafts = std::mem::take(&mut configuration.streams);
    let mut made = Streams::default();
    let mut complaints = Vec::new();
    for draft in &drafts {
        over_udp(draft, &mut complaints);
        let mut maker = Maker {
            draft,
            upstreams: &mut configuration.resolved,
            complaints: &mut complaints,
        };
        let stream = maker.stream(&mut made.logs);
        listeners(draft, &stream, made.streams.len(), &mut made);
        made.streams.push(stream);
    }
    for (at, message, help) in complaints {
        configuration.report(Severity::Error, &at, message, Some(help));
    }
    (configuration.streams, configuration.made_streams) = (drafts, made);
}

/// Makes the rules of a stream.
struct Maker<'m> {
    draft: &'m StreamDraft,
    upstreams: &'m mut Vec<Arc<Upstream>>,
    complaints: &'m mut Vec<Complaint>,
}

impl Maker<'_> {
    fn stream(&mut self, logs: &mut Vec<AccessLog>) -> Stream {
        let draft = self.draft;
        let origin = draft.at.origin();
        let routes = draft.routes.iter().filter_map(|route| {
            if let Some(at) = route.hello_at.as_ref().filter(|_| draft.is_udp_only()) {
                self.complaints.push((
                    at.clone(),
                    "datagrams have no TLS handshake to look at".to_owned(),
                    "remove the condition, or listen without `udp:`".to_owned(),
                ));
            }
            Some(StreamRoute {
                names: route.names.clone(),
                protocols: route.protocols.clone(),
                clients: route.clients.clone(),
                target: self.target(&route.way, &route.at)?,
                origin: route.at.origin(),
            })
        });
        let routes = routes.collect();
        let default = self.target(&draft.way, &draft.at);
        let logs = draft.logs.iter().map(|log| StreamLog {
            target: log_number(logs, &log.target, || AccessLog {
                is_immediate: false,
                target: log.target.clone(),
                format: "".into(),
                is_items: true,
                escapes: Escapes::Apache,
                condition: None,
                rotation: log.rotation,
                mask: Arc::default(),
                origin: origin.clone(),
            }),
            format: Arc::clone(&log.format),
        });
        Stream {
            name: draft.shown_name().into(),
            access: draft.access.clone(),
            sessions_max: draft.sessions_max,
            sessions_per_client_max: draft.sessions_per_client_max,
            routes,
            default,
            logs: logs.collect(),
            origin: origin.clone(),
        }
    }

    fn target(&mut self, way: &Way, header: &Location) -> Option<StreamTarget> {
        let upstream = match way.target.as_ref()? {
            ReadTarget::Named(name, at) => self.named(name, at)?,
            ReadTarget::Servers(servers) => self.own(servers, header)?,
        };
        let own = way.preface.as_ref().or(self.draft.way.preface.as_ref());
        let of_upstream = |upstream: &Upstream| upstream.templates().next()?.tuning.proxy_preface;
        let preface: Option<PrefaceVersion> = match own {
            Some((version, _)) => *version,
            None => of_upstream(&upstream),
        };
        Some(StreamTarget { upstream, preface })
    }

    /// An upstream by its name.
    fn named(&mut self, name: &str, at: &Location) -> Option<Arc<Upstream>> {
        let known = self.upstreams.iter().find(|known| *known.name == *name);
        let Some(upstream) = known.map(Arc::clone) else {
            let names = self.upstreams.iter().map(|known| &*known.name);
            let near = crate::suggest::nearest(name, names.filter(|name| !name.contains(':')));
            let help = near.map_or_else(
                || {
                    format!(
                        "add [[upstream]] with this name, or the port: {}",
                        quoted(&format!("{name}:6379"))
                    )
                },
                |name| format!("did you mean \"{name}\"?"),
            );
            self.complain(at, format!("unknown upstream {}", quoted(name)), help);
            return None;
        };
        let other = upstream
            .templates()
            .find(|member| !member.backend.protocol.is_of_streams());
        if let Some(member) = other {
            let message = format!(
                "a stream passes bytes on as they are, but upstream {} has the server {}",
                quoted(name),
                member.backend
            );
            let help = "write its servers with tcp://, tls:// or udp://";
            self.complain(at, message, help.to_owned());
        }
        if upstream.balance == Balance::Target {
            let message = format!(
                "upstream {} balances by paths, which streams don't have",
                quoted(name)
            );
            let help = "set `balance` to \"round-robin\", \"least-requests\" or \"client\"";
            self.complain(at, message, help.to_owned());
        }
        let udp = upstream
            .templates()
            .any(|member| member.backend.protocol == Protocol::Datagrams);
        let tcp = upstream
            .templates()
            .any(|member| member.backend.protocol == Protocol::Bytes);
        self.transports(udp, tcp, at);
        if let Some((_, at)) = &self.draft.connect_timeout {
            let help = format!("set `connect_timeout` of upstream {}", quoted(name));
            let message = "`connect_timeout` is a setting of the [[upstream]] that is named here";
            self.complain(&at.clone(), message.to_owned(), help);
        }
        Some(upstream)
    }

    /// An upstream of servers that are listed in place.
    fn own(
        &mut self,
        servers: &[(ParsedServer, Location)],
        header: &Location,
    ) -> Option<Arc<Upstream>> {
        let Some((_, at)) = servers.first() else {
            let help = "write proxy = \"10.0.0.1:6379\"";
            self.complain(header, "`proxy` has no server".to_owned(), help.to_owned());
            return None;
        };
        let is = |wanted: Protocol| {
            let mut named = servers
                .iter()
                .filter(|(server, _)| !server.is_of_any_transport);
            named.any(|(server, _)| server.backend.protocol == wanted)
        };
        self.transports(is(Protocol::Datagrams), is(Protocol::Bytes), at);
        let tuning = Arc::new(Tuning {
            connect_timeout_ms: self
                .draft
                .connect_timeout
                .as_ref()
                .map_or(10_000, |(ms, _)| *ms),
            ..Tuning::default()
        });
        let members = servers
            .iter()
            .map(|(server, _)| server.clone().member(&tuning));
        let name = match servers {
            [(server, _)] => server.backend.to_string(),
            _ => format!("{} #{}", self.draft.shown_name(), self.upstreams.len()),
        };
        let upstream = Arc::new(Upstream::new(&name, members.collect()));
        self.upstreams.push(Arc::clone(&upstream));
        Some(upstream)
    }

    /// Reports servers that a listener cannot reach over its own protocol.
    fn transports(&mut self, has_udp: bool, has_tcp: bool, at: &Location) {
        if has_udp && !self.draft.is_udp_only() {
            let help = "listen on \"udp:…\" alone, or write the server without `udp://`";
            let message = "connections over TCP cannot be passed on as datagrams";
            self.complain(at, message.to_owned(), help.to_owned());
        }
        if has_tcp && self.draft.has_udp() {
            let help = "write the server as udp://host:port, or without a scheme";
            let message = "datagrams cannot be passed on over TCP, TLS, or a Unix socket";
            self.complain(at, message.to_owned(), help.to_owned());
        }
    }

    fn complain(&mut self, at: &Location, message: String, help: String) {
        self.complaints.push((at.clone(), message, help));
    }
}

impl StreamDraft {
    fn has_udp(&self) -> bool {
        self.listen
            .iter()
            .any(|(one, _)| matches!(one, ListenAddress::Datagrams(_)))
    }

    fn is_udp_only(&self) -> bool {
        self.has_udp()
            && !self
                .listen
                .iter()
                .any(|(one, _)| matches!(one, ListenAddress::Stream(_)))
    }

    /// The key of the rates that is given.
    fn rates_key(&self) -> &'static str {
        match self.upload_rate {
            0 => "download_rate",
            _ => "upload_rate",
        }
    }

    /// The name, or the first address.
    fn shown_name(&self) -> String {
        match (&self.name, self.listen.first()) {
            (Some(name), _) => name.clone(),
            (None, Some((ListenAddress::Stream(address), _))) => address.to_string(),
            (None, Some((ListenAddress::Datagrams(address), _))) => format!("udp:{address}"),
            (None, None) => "-".to_owned(),
        }
    }
}

/// Reports what there is not over UDP, and what there is over UDP alone.
fn over_udp(draft: &StreamDraft, complaints: &mut Vec<Complaint>) {
    let mut v1_over_udp = Vec::new();
    let mut complain = |at: &Location, key: &str, what: &str| {
        let help = format!("remove `{key}`, or write another [[stream]] for it");
        complaints.push((at.clone(), format!("`{key}` {what}"), help));
    };
    if draft.listen.is_empty() {
        return;
    }
    if draft.has_udp() {
        let not_here = "is not for addresses with `udp:`";
        if let Some(at) = draft.rates_at.as_ref() {
            complain(at, draft.rates_key(), not_here);
        }
        if let Some(at) = draft.tls_at.as_ref() {
            complain(at, "tls", not_here);
        }
        let ways = draft.routes.iter().map(|route| &route.way);
        for way in ways.chain([&draft.way]) {
            if let Some((Some(PrefaceVersion::V1), at)) = &way.preface {
                v1_over_udp.push(at.clone());
            }
        }
        if let Some(at) = draft
            .routes
            .iter()
            .filter(|_| !draft.is_udp_only())
            .find_map(|route| route.hello_at.as_ref())
        {
            complain(at, "sni", not_here);
        }
    } else {
        let only_there = "is for addresses with `udp:`";
        for (key, given) in [
            ("requests", &draft.requests),
            ("responses", &draft.responses),
        ] {
            if let Some((_, at)) = given {
                complain(at, key, only_there);
            }
        }
    }
    for at in v1_over_udp {
        let message = "version 1 of the PROXY protocol is for TCP alone";
        let help = "write send_proxy_protocol = \"v2\"";
        complaints.push((at, message.to_owned(), help.to_owned()));
    }
}

/// Adds the listeners of a stream, and its certificates.
fn listeners(draft: &StreamDraft, stream: &Stream, number: usize, made: &mut Streams) {
    let server = Arc::new(server(draft, stream, number, TCP_IDLE_MS));
    let over_udp = Arc::new(self::server(draft, stream, number, UDP_IDLE_MS));
    let mut with_tls = Vec::new();
    for (address, at) in &draft.listen {
        match address {
            ListenAddress::Datagrams(address) => made.datagrams.push(DatagramListener {
                address: *address,
                server: Arc::clone(&over_udp),
                origin: at.origin(),
            }),
            ListenAddress::Stream(address) => {
                let mut listener = Listener::new(address.clone(), at.origin());
                (listener.http2, listener.http2_upgrade) = (false, false);
                listener.stream = Some(Arc::clone(&server));
                if draft.site_tls.is_some() {
                    listener.tls = Some(Default::default());
                    with_tls.push(address.clone());
                }
                made.listeners.push(listener);
            }
        }
    }
    if let Some(tls) = draft.site_tls.as_ref().filter(|_| !with_tls.is_empty()) {
        // Certificates are ordered for its names; other names lead to it, too, as the only site.
        let named = draft.certificate_names.as_ref();
        let named = named.filter(|(names, _)| !names.is_empty());
        made.sites.push(Arc::new(Site {
            names: named.map_or_else(|| vec![SiteName::Any], |(names, _)| names.clone()),
            listeners: with_tls,
            tls: Arc::new(tls.clone()),
            ..Site::new(draft.at.origin())
        }));
    }
}

/// The engine's settings of a stream's sessions.
fn server(draft: &StreamDraft, stream: &Stream, number: usize, idle_ms: u64) -> StreamServer {
    StreamServer {
        preface_from: match &draft.proxy_protocol_from {
            Some((networks, _)) => PrefaceFrom::Networks(networks.clone()),
            None => PrefaceFrom::Nobody,
        },
        preface_timeout_ms: draft.handshake_timeout_ms,
        alpn: draft.alpn.clone(),
        handshake_timeout_ms: draft.handshake_timeout_ms,
        reads_hello: draft.site_tls.is_none()
            && stream.routes.iter().any(StreamRoute::looks_at_hello),
        hello_timeout_ms: draft.handshake_timeout_ms,
        idle_timeout_ms: draft.idle_timeout_ms.unwrap_or(idle_ms),
        upload_rate: draft.upload_rate,
        download_rate: draft.download_rate,
        half_closes: draft.half_closes,
        datagrams_in_max: draft.requests.as_ref().map(|(number, _)| *number),
        datagrams_out_max: draft.responses.as_ref().map(|(number, _)| *number),
        keeps_alive: true,
        ..StreamServer::new(number, draft.at.origin())
    }
}

/// The number of a target, which is opened once.
fn log_number(
    logs: &mut Vec<AccessLog>,
    target: &AccessLogTarget,
    make: impl FnOnce() -> AccessLog,
) -> usize {
    if let Some(number) = logs.iter().position(|known| known.target == *target) {
        return number;
    }
    logs.push(make());
    logs.len() - 1
}
