//! `[[upstream]]`: application servers and backends, and `proxy` of routes, which forwards requests
//! to them.
//!
//! Out of scope: names of upstreams, which are resolved when all files have been read
//! (`resolve/upstreams`).

use super::{
    upstream_discover::{DiscoverDraft, ReadDiscovery},
    upstream_health::HealthDraft,
    upstream_server::{ONE_SERVER, ParsedServer, is_bytes, read_server},
    upstream_tls::UpstreamTlsDraft,
};
use crate::{
    context::UPSTREAM,
    kind::{Kind, Word},
    model::{
        Balance, Discovery, Member, Origin, Protocol, Proxy, ProxyTerms, Revision, Sticky, Tuning,
        Upstream,
    },
    reader::{Reader, Table},
    row::{self, Draft, Row, Rows},
    source::Location,
    value::{Key, Spanned, Value, ValueError},
};
use saker_net::proxy_preface::PrefaceVersion;
use std::sync::Arc;

/// An upstream while it is read.
#[derive(Debug, Default)]
pub struct UpstreamDraft {
    health: HealthDraft,
    tls: UpstreamTlsDraft,
    discover: DiscoverDraft,
    name: Option<(String, Location)>,
    servers: Vec<ParsedServer>,
    balance: Balance,
    tuning: Tuning,
    sticky_cookie: Option<String>,
    failure_statuses: Vec<u16>,
    attempts_max: Option<usize>,
    internal_redirects: Option<bool>,
    preface: Option<(PrefaceVersion, Location)>,
}

impl Draft for UpstreamDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }

    fn set(&mut self, key: Key, given: Spanned) -> Option<Spanned> {
        let given = row::set_own(self, key, given)?;
        let given = self.health.set(key, given)?;
        let given = self.tls.set(key, given)?;
        self.discover.set(key, given)
    }
}

/// The URL of a server, or the name of an upstream.
pub static PROXY: Word = Word {
    expects: "the URL of a server, such as \"http://127.0.0.1:3000\", or the name of an [[upstream]]",
    pattern: "",
    read: |text| match text.contains(':') {
        true => match read_server(text)? {
            server if is_bytes(&server) => Err(ValueError::with_help(
                "requests need a protocol that has some, and a stream has none",
                "write http://, https:// or another protocol of programs, or use [[stream]]",
            )),
            _ => Ok(Value::Text(text.to_owned())),
        },
        false if is_name(text) => Ok(Value::Text(text.to_owned())),
        false => Err(ValueError::plain(None)),
    },
};

pub(super) static NAME: Word = Word {
    expects: "a name of letters, digits, \"-\", \"_\" and \".\"",
    pattern: "^[A-Za-z0-9._-]+$",
    read: |text| {
        if is_name(text) {
            Ok(Value::Text(text.to_owned()))
        } else {
            Err(ValueError::plain(None))
        }
    },
};

const DURATION: Kind = Kind::Duration {
    min_ms: 1,
    max_ms: 86_400_000,
};
const COUNT: Kind = Kind::Integer {
    min: 0,
    max: 1_000_000,
};
const SERVERS_EXAMPLE: &str =
    "[\"http://10.0.0.1:8080\", { address = \"http://10.0.0.2:8080\", weight = 3 }]";
const BALANCES: &[&str] = &[
    "round-robin",
    "least-requests",
    "least-bytes",
    "random-two",
    "client",
    "target",
];

pub const ROWS: &[Row<UpstreamDraft>] = &[
    Row {
        name: "name",
        contexts: UPSTREAM,
        kind: Kind::Word(&NAME),
        example: Some("\"app\""),
        required: true,
        summary: "Name that routes refer to.",
        set: |upstream, given| {
            let at = given.at.clone();
            upstream.name = Some((given.text(), at));
        },
        ..Row::BASE
    },
    Row {
        name: "servers",
        contexts: UPSTREAM,
        kind: Kind::ListOf(&ONE_SERVER),
        example: Some(SERVERS_EXAMPLE),
        summary: "Servers of the upstream; required without `discover`: `http://`, `https://`, `h2c://` and `h2://` (HTTP/2 \
                  without and with TLS; `grpc://` and `grpcs://` are synonyms), `fcgi://`, \
                  `scgi://`, `uwsgi://`, `lsapi://`, `ajp://` with host and port, or with `+unix:` \
                  and the path of a socket. A path after the port takes the place of the beginning \
                  of a request's path; see `proxy` of routes.",
        apache: Some("BalancerMember"),
        aliases: &["server", "members", "backends"],
        set: |upstream, given| {
            upstream.servers = given.parsed_list();
        },
        ..Row::BASE
    },
    Row {
        name: "balance",
        contexts: UPSTREAM,
        kind: Kind::Choice(BALANCES),
        default: Some("\"round-robin\""),
        summary: "Load balancing: weighted round robin, fewest active requests, fewest bytes \
                  transferred, the less loaded of two at random, by client address, or by path and \
                  query.",
        apache: Some("lbmethod of ProxySet"),
        aliases: &["lb_method", "policy", "method"],
        set: |upstream, given| upstream.balance = balance(&given.text()),
        ..Row::BASE
    },
    Row {
        name: "sticky_cookie",
        contexts: UPSTREAM,
        kind: Kind::Text,
        example: Some("\"JSESSIONID\""),
        summary: "Session cookie for sticky sessions: if its value ends in `.route`, requests go \
                  to the server with that `route`.",
        apache: Some("stickysession of ProxySet"),
        aliases: &["sticky", "session_cookie"],
        set: |upstream, given| upstream.sticky_cookie = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "keep",
        contexts: UPSTREAM,
        kind: COUNT,
        default: Some("1024"),
        unit: Some("connections"),
        summary: "Maximum number of idle connections to each server, per worker; 0: one connection \
                  per request. For FastCGI, at most the number of spare processes, as each \
                  connection occupies one.",
        apache: Some("enablereuse, max of ProxyPass"),
        aliases: &["keepalive", "keep_alive"],
        set: |upstream, given| upstream.tuning.kept_max = given.number() as usize,
        ..Row::BASE
    },
    Row {
        name: "keep_for",
        contexts: UPSTREAM,
        kind: DURATION,
        default: Some("\"30s\""),
        unit: Some("milliseconds"),
        summary: "Idle time after which a connection is closed.",
        apache: Some("ttl of ProxyPass"),
        set: |upstream, given| upstream.tuning.kept_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "connections",
        contexts: UPSTREAM,
        kind: COUNT,
        default: Some("0"),
        unit: Some("connections"),
        summary: "Maximum number of connections to each server, for the whole process; further \
                  requests wait. 0: no limit.",
        apache: Some("max of ProxyPass"),
        aliases: &["max_connections", "max_conns"],
        set: |upstream, given| upstream.tuning.connections_max = given.number() as usize,
        ..Row::BASE
    },
    Row {
        name: "queue",
        contexts: UPSTREAM,
        kind: COUNT,
        default: Some("1024"),
        unit: Some("requests"),
        summary: "Maximum number of requests that wait for a connection; further ones get 503 at \
                  once.",
        set: |upstream, given| upstream.tuning.queue_max = given.number() as usize,
        ..Row::BASE
    },
    Row {
        name: "queue_timeout",
        contexts: UPSTREAM,
        kind: DURATION,
        default: Some("\"30s\""),
        unit: Some("milliseconds"),
        summary: "Maximum time a request waits for a connection; then 503.",
        apache: Some("acquire of ProxyPass"),
        set: |upstream, given| upstream.tuning.queue_timeout_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "connect_timeout",
        contexts: UPSTREAM,
        kind: DURATION,
        default: Some("\"10s\""),
        unit: Some("milliseconds"),
        summary: "Timeout for connecting; then the next server is tried, and after the last one \
                  the client gets 504.",
        apache: Some("connectiontimeout of ProxyPass"),
        aliases: &["proxy_connect_timeout"],
        set: |upstream, given| upstream.tuning.connect_timeout_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "timeout",
        contexts: UPSTREAM,
        kind: DURATION,
        default: Some("\"60s\""),
        unit: Some("milliseconds"),
        summary: "Maximum time without a byte in either direction; then 504, or an aborted \
                  response.",
        apache: Some("ProxyTimeout"),
        aliases: &["read_timeout", "proxy_read_timeout"],
        set: |upstream, given| upstream.tuning.timeout_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "retry_after",
        contexts: UPSTREAM,
        kind: DURATION,
        default: Some("\"10s\""),
        unit: Some("milliseconds"),
        summary: "How long a failed server is not used while there is another.",
        apache: Some("retry of ProxyPass"),
        aliases: &["fail_timeout"],
        set: |upstream, given| upstream.tuning.retry_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "failures",
        contexts: UPSTREAM,
        kind: Kind::ListOf(&Kind::Integer { min: 400, max: 599 }),
        example: Some("[500, 503]"),
        summary: "Statuses that count as failures of the server; the response still goes to the \
                  client.",
        apache: Some("failonstatus of ProxySet"),
        set: |upstream, given| {
            upstream.failure_statuses = given
                .list()
                .into_iter()
                .map(|one| one.number() as u16)
                .collect();
        },
        ..Row::BASE
    },
    Row {
        name: "attempts",
        contexts: UPSTREAM,
        kind: Kind::Integer { min: 1, max: 1000 },
        example: Some("2"),
        unit: Some("servers"),
        summary: "Maximum number of servers tried per request when connecting fails. Default: all.",
        apache: Some("maxattempts of ProxySet"),
        aliases: &["tries", "retry", "retries", "proxy_next_upstream_tries"],
        set: |upstream, given| upstream.attempts_max = Some(given.number() as usize - 1),
        ..Row::BASE
    },
    Row {
        name: "internal_redirects",
        contexts: UPSTREAM,
        kind: Kind::Boolean,
        example: Some("true"),
        summary: "Allow responses to redirect internally to another path of the site, by \
                  X-Accel-Redirect or X-LiteSpeed-Location, or to a file (see `send_files`)? These \
                  fields never reach the client. A path with `..` in it is not followed. Default: allowed for programs (`fcgi`, `scgi`, \
                  `uwsgi`, `lsapi`), not for servers (`http`, `ajp`).",
        aliases: &["x_accel_redirect", "x_accel"],
        since: "0.2",
        set: |upstream, given| upstream.internal_redirects = Some(given.boolean()),
        ..Row::BASE
    },
    Row {
        name: "send_proxy_protocol",
        contexts: UPSTREAM,
        kind: Kind::Choice(&["off", "v1", "v2"]),
        default: Some("\"off\""),
        example: Some("\"v2\""),
        summary: "Begin each connection to a server with a PROXY protocol header that names the \
                  client, in version 1 (text) or 2 (binary). Each request has a connection of its \
                  own then. Not for servers with TLS or HTTP/2.",
        aliases: &[
            "proxy_protocol",
            "send_proxy",
            "send-proxy",
            "send-proxy-v2",
        ],
        since: "0.2",
        set: |upstream, given| {
            let at = given.at.clone();
            upstream.preface = match given.text().as_str() {
                "v1" => Some((PrefaceVersion::V1, at)),
                "v2" => Some((PrefaceVersion::V2, at)),
                _ => None,
            };
        },
        ..Row::BASE
    },
    Row {
        name: "request_buffer",
        contexts: UPSTREAM,
        kind: Kind::Bytes {
            min: 0,
            max: 1 << 50,
        },
        default: Some("0"),
        example: Some("\"1GiB\""),
        unit: Some("bytes"),
        summary: "Request bodies up to this size are buffered completely (in memory up to 256 KiB, \
                  then in an unnamed file) before a server is used, so that slow uploads occupy no \
                  backend process; longer ones are streamed. The server's own PHP always gets \
                  buffered bodies.",
        aliases: &["proxy_request_buffering", "fastcgi_request_buffering"],
        since: "0.2",
        set: |upstream, given| upstream.tuning.request_ahead_bytes = given.number(),
        ..Row::BASE
    },
    Row {
        name: "buffer",
        contexts: UPSTREAM,
        kind: Kind::Bytes {
            min: 0,
            max: 1 << 40,
        },
        default: Some("\"256KiB\""),
        unit: Some("bytes"),
        summary: "Part of a response that is buffered in memory for a slow client, so that the \
                  server is free again.",
        aliases: &["proxy_buffers"],
        set: |upstream, given| upstream.tuning.buffer_memory_bytes = given.number() as usize,
        ..Row::BASE
    },
    Row {
        name: "buffer_file",
        contexts: UPSTREAM,
        kind: Kind::Bytes {
            min: 0,
            max: 1 << 50,
        },
        default: Some("\"1GiB\""),
        unit: Some("bytes"),
        summary: "Part of a response that is buffered on disk beyond `buffer`; beyond both, and \
                  beyond `buffer_files` of `[limits]`, the server has to wait. 0: none.",
        aliases: &["proxy_max_temp_file_size"],
        set: |upstream, given| upstream.tuning.buffer_disk_bytes = given.number(),
        ..Row::BASE
    },
];

/// Reads one `[[upstream]]`. Returns its name and the upstream; `None` if its servers are missing,
/// which has been reported.
pub fn read(
    reader: &mut Reader<'_>,
    table: &Table<'_>,
    at: &Location,
) -> Option<(String, Option<Upstream>, Location)> {
    let mut draft = UpstreamDraft {
        tuning: Tuning::default(),
        ..UpstreamDraft::default()
    };
    reader.fill(table, UPSTREAM, at, &mut draft);
    let mut discovery = std::mem::take(&mut draft.discover).finish(reader, table);
    if !["servers", "discover"]
        .iter()
        .any(|key| reader.is_mentioned(table, key, UPSTREAM))
    {
        reader.error(
            at,
            "missing `servers` in [[upstream]]",
            Some(format!("add servers = {SERVERS_EXAMPLE}")),
        );
    }
    let (name, name_at) = draft.name.take()?;
    if draft.servers.is_empty() && discovery.is_none() {
        if table
            .get("servers")
            .and_then(|servers| servers.get_ref().as_array())
            .is_some_and(|servers| servers.is_empty())
        {
            reader.error(
                at,
                "`servers` is empty",
                Some("write servers = [\"http://127.0.0.1:3000\"]".into()),
            );
        }
        return Some((name, None, name_at));
    }
    // The checks see a server that stands for those that will be found.
    let is_discovered = discovery.is_some();
    draft
        .servers
        .extend(discovery.as_ref().map(|found| found.server.clone()));
    let tls = std::mem::take(&mut draft.tls);
    tls.apply(reader, table, &mut draft.servers);
    with_streams(reader, table, &draft);
    if let Some((_, at)) = &draft.preface {
        let has_other = draft.servers.iter().any(|server| {
            (server.backend.tls.is_some() && !is_bytes(server))
                || server.backend.protocol == Protocol::Http2
        });
        if has_other {
            reader.error(
                at,
                "`send_proxy_protocol` for servers with TLS or HTTP/2",
                Some(
                    "remove it, or use servers with `http://` or another protocol without TLS"
                        .into(),
                ),
            );
        }
    }
    if is_discovered && let (Some(found), Some(server)) = (&mut discovery, draft.servers.pop()) {
        named_by_configuration(reader, table, &server);
        found.server = server;
    }
    let upstream = draft.upstream(&name, discovery);
    Some((name, Some(upstream), name_at))
}

/// Reports servers with TLS whose certificates would be verified for an address that a source says.
fn named_by_configuration(reader: &mut Reader<'_>, table: &Table<'_>, server: &ParsedServer) {
    let tls = server.backend.tls.as_ref();
    if tls.is_none_or(|tls| tls.name.is_some() || !tls.verify) {
        return;
    }
    if let Some(node) = reader.node(table, "discover", UPSTREAM) {
        let at = reader.at(node.span());
        let message = "servers with TLS that are discovered need `server_name` in [upstream.tls]";
        let help = "add tls = { server_name = \"app.internal\" }, a name that the certificates of all \
                    servers have";
        reader.error(&at, message, Some(help.into()));
    }
}

/// Reports what streams cannot do with their servers.
fn with_streams(reader: &mut Reader<'_>, table: &Table<'_>, draft: &UpstreamDraft) {
    if !draft.servers.iter().any(is_bytes) {
        return;
    }
    let at = |reader: &Reader<'_>, key: &str| {
        let node = reader.node(table, key, UPSTREAM)?;
        Some(reader.at(node.span()))
    };
    if let Some(at) = at(reader, "servers").filter(|_| !draft.servers.iter().all(is_bytes)) {
        let message = "some servers are for streams, and others for requests";
        let help = "write one [[upstream]] for tcp://, tls:// and udp://, and one for the others";
        reader.error(&at, message, Some(help.into()));
    }
    let of_requests = [
        "health_path",
        "health_statuses",
        "health_content",
        "sticky_cookie",
        "failures",
        "internal_redirects",
        "request_buffer",
    ];
    for key in of_requests {
        if let Some(at) = at(reader, key) {
            let message = format!("`{key}` is about requests, and servers of streams get none");
            let help = match key.starts_with("health") {
                true => "health_interval alone checks that a server accepts connections",
                false => "remove it",
            };
            reader.error(&at, message, Some(help.into()));
        }
    }
    let is_udp = |server: &ParsedServer| server.backend.protocol == Protocol::Datagrams;
    if let Some(at) = at(reader, "health_interval").filter(|_| draft.servers.iter().any(is_udp)) {
        let message = "servers over UDP accept no connection that could be checked";
        reader.error(&at, message, Some("remove `health_interval`".into()));
    }
}

impl UpstreamDraft {
    fn upstream(self, name: &str, discovery: Option<ReadDiscovery>) -> Upstream {
        let mut tuning = self.tuning;
        if let Some(address_ttl_ms) = self.health.address_ttl_ms {
            tuning.address_ttl_ms = address_ttl_ms;
        }
        if let Some((version, _)) = &self.preface {
            // A connection belongs to the client that its header names.
            (tuning.proxy_preface, tuning.kept_max) = (Some(*version), 0);
        }
        let tuning = Arc::new(tuning);
        let health = self.health.check().map(Arc::new);
        let member = |server: ParsedServer| Member {
            health: health.clone(),
            ..server.member(&tuning)
        };
        let discovery = discovery.map(|found| {
            Arc::new(Discovery {
                terms: found.terms,
                api: found.api,
                template: member(found.server),
                found: Revision::default(),
            })
        });
        let members = self.servers.into_iter().map(member).collect();
        let sticky = self.sticky_cookie.map(|cookie| Sticky {
            parameter: cookie.to_ascii_lowercase().into(),
            cookie: cookie.into(),
            separator: Some(b'.'),
            semicolon_delimits: true,
        });
        Upstream {
            balance: self.balance,
            sticky,
            failure_statuses: self.failure_statuses,
            attempts_max: self.attempts_max,
            internal_redirects: self.internal_redirects,
            slow_start_ms: self.health.slow_start_ms,
            failures_max: self.health.failures_max.unwrap_or(1),
            breaks: self.health.breaks,
            discovery,
            ..Upstream::new(name, members)
        }
    }
}

/// A kept connection occupies a process of a program; for an HTTP server it costs next to nothing.
pub(crate) fn default_kept(protocol: Protocol) -> usize {
    if protocol.takes_variables() {
        0
    } else {
        Tuning::default().kept_max
    }
}

fn balance(word: &str) -> Balance {
    match word {
        "least-requests" => Balance::Busyness,
        "least-bytes" => Balance::Traffic,
        "random-two" => Balance::RandomTwo,
        "client" => Balance::ClientAddress,
        "target" => Balance::Target,
        _ => Balance::Requests,
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// `proxy` of a route, before its upstream is resolved.
pub fn proxy(
    said: String,
    preserves_host: bool,
    tells_scheme: bool,
    terms: ProxyTerms,
    origin: Origin,
) -> Proxy {
    Proxy {
        upstream: Arc::new(Upstream::new(&said, Vec::new())),
        said: said.into(),
        preserves_host,
        tells_scheme,
        terms: Arc::new(terms),
        origin,
    }
}
