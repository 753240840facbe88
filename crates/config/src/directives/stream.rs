//! `[[stream]]`: TCP connections and UDP datagrams that are passed on as they come.
//!
//! Called by: `load`, for each `[[stream]]`.
//! Caveat: several addresses are several listeners of one stream, with the same limits.
//! Out of scope: upstreams by name, and the model (`resolve/streams`); what a stream and other
//! tables have in common (`check/streams`).

use super::{
    abuse::{
        ALLOWED, DENIED, NETWORKS, autonomous_systems, countries, files, lists, networks, numbers,
    },
    site::read_name,
    stream_log::{self, ReadStreamLog, STREAM_LOGS},
    stream_target::{LISTEN, ListenAddress, ReadTarget, TARGET, target},
    throttle::BARE_BANDWIDTH,
    tls::{self, SiteTlsDraft},
    upstream::NAME,
};
use crate::{
    context::{STREAM, STREAM_ACCESS, STREAM_ROUTE, STREAM_TLS},
    kind::{Kind, Word},
    model::{AccessRules, Automatic, SiteName, SiteTls},
    reader::{Reader, Table, table_in},
    row::{self, Draft, Row, Rows},
    source::Location,
    value::{Key, Spanned, Value, ValueError},
};
use saker_net::{Network, proxy_preface::PrefaceVersion};

/// A stream while it is read.
#[derive(Debug)]
pub struct StreamDraft {
    pub at: Location,
    pub name: Option<String>,
    pub listen: Vec<(ListenAddress, Location)>,
    pub way: Way,
    pub routes: Vec<RouteDraft>,
    pub proxy_protocol_from: Option<(Vec<Network>, Location)>,
    pub connect_timeout: Option<(u64, Location)>,
    pub handshake_timeout_ms: u64,
    pub idle_timeout_ms: Option<u64>,
    pub half_closes: bool,
    pub upload_rate: u64,
    pub download_rate: u64,
    /// Place of one of the rates.
    pub rates_at: Option<Location>,
    pub sessions_max: u64,
    pub sessions_per_client_max: u64,
    pub requests: Option<(u64, Location)>,
    pub responses: Option<(u64, Location)>,
    pub logs: Vec<ReadStreamLog>,
    pub alpn: Vec<Vec<u8>>,
    pub access: AccessRules,
    pub tls: SiteTlsDraft,
    /// TLS that ends here, and where that is said.
    pub site_tls: Option<SiteTls>,
    pub tls_at: Option<Location>,
    /// It has a certificate of its own, maybe a broken one.
    pub has_certificate: bool,
    /// Names of automatic certificates.
    pub certificate_names: Option<(Vec<SiteName>, Location)>,
}

/// Target of sessions.
#[derive(Debug, Default)]
pub struct Way {
    pub target: Option<ReadTarget>,
    pub preface: Option<(Option<PrefaceVersion>, Location)>,
}

/// A route while it is read.
#[derive(Debug)]
pub struct RouteDraft {
    pub at: Location,
    pub names: Vec<SiteName>,
    pub protocols: Vec<Vec<u8>>,
    /// Place of names or protocols.
    pub hello_at: Option<Location>,
    pub clients: Vec<Network>,
    pub way: Way,
}

impl Draft for StreamDraft {
    fn rows() -> Rows<Self> {
        &[ROWS, ACCESS_ROWS]
    }

    fn set(&mut self, key: Key, given: Spanned) -> Option<Spanned> {
        let given = row::set_own(self, key, given)?;
        let given = self.way.set(key, given)?;
        self.tls.set(key, given)
    }
}

impl Draft for Way {
    fn rows() -> Rows<Self> {
        &[WAY_ROWS]
    }
}

impl Draft for RouteDraft {
    fn rows() -> Rows<Self> {
        &[ROUTE_ROWS]
    }

    fn set(&mut self, key: Key, given: Spanned) -> Option<Spanned> {
        let given = row::set_own(self, key, given)?;
        self.way.set(key, given)
    }
}

static SERVER_NAME: Word = Word {
    expects: "a server name, such as \"db.example.org\" or \"*.example.org\", or \"*\" for any name",
    pattern: "^[^ :]+$",
    read: |text| read_name(text).map(Value::parsed),
};

static PROTOCOL: Word = Word {
    expects: "a protocol of at most 255 bytes, such as \"h2\" or \"postgresql\"",
    pattern: "^.{1,255}$",
    read: |text| match text.len() {
        1..=255 => Ok(Value::parsed(text.as_bytes().to_vec())),
        _ => Err(ValueError::plain(None)),
    },
};

const DURATION: Kind = Kind::Duration {
    min_ms: 1,
    max_ms: 86_400_000,
};
const COUNT: Kind = Kind::Integer {
    min: 0,
    max: 100_000_000,
};
const DATAGRAMS: Kind = Kind::Integer {
    min: 1,
    max: 1_000_000,
};

pub const ROWS: &[Row<StreamDraft>] = &[
    Row {
        name: "name",
        contexts: STREAM,
        kind: Kind::Word(&NAME),
        example: Some("\"redis\""),
        summary: "Name in logs. Default: the first address.",
        since: "0.2",
        set: |stream, given| stream.name = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "listen",
        contexts: STREAM,
        kind: LISTEN,
        example: Some("\":6379\""),
        required: true,
        summary: "Address to listen on, or a list: `127.0.0.1:6379`, `:6379` (IPv4 and IPv6), \
                  `unix:/path`; over UDP with `udp:` before the address, as in `udp::53`. Not an \
                  address of a [[listener]].",
        aliases: &["address", "addresses", "bind", "port", "listener"],
        since: "0.2",
        set: |stream, given| {
            for one in given.one_or_many() {
                let all: Vec<ListenAddress> = one.parsed_as().unwrap_or_default();
                let each = all.into_iter().map(|address| (address, one.at.clone()));
                stream.listen.extend(each);
            }
        },
        ..Row::BASE
    },
    Row {
        name: "proxy_protocol_from",
        contexts: STREAM,
        kind: NETWORKS,
        default: Some("[]"),
        example: Some("[\"10.0.0.0/8\"]"),
        summary: "Networks whose connections start with a PROXY protocol header (version 1 or 2) \
                  that names the client. What others send is content. Over UDP: version 2, in the \
                  first datagram of a client; with `requests = 1`, in each.",
        aliases: &[
            "set_real_ip_from",
            "accept_proxy",
            "accept-proxy",
            "trusted_proxies",
        ],
        since: "0.2",
        set: |stream, given| {
            let at = given.at.clone();
            stream.proxy_protocol_from = Some((given.parsed_list(), at));
        },
        ..Row::BASE
    },
    Row {
        name: "connect_timeout",
        contexts: STREAM,
        kind: DURATION,
        default: Some("\"10s\""),
        unit: Some("milliseconds"),
        summary: "Timeout for connecting to a server; then the next one is tried. For an \
                  [[upstream]], its own `connect_timeout` applies.",
        aliases: &["proxy_connect_timeout", "dial_timeout"],
        since: "0.2",
        set: |stream, given| {
            let at = given.at.clone();
            stream.connect_timeout = Some((given.number(), at));
        },
        ..Row::BASE
    },
    Row {
        name: "handshake_timeout",
        contexts: STREAM,
        kind: DURATION,
        default: Some("\"30s\""),
        unit: Some("milliseconds"),
        summary: "Maximum time until the PROXY header is complete, and until the TLS handshake, or \
                  the ClientHello that routes look at, is.",
        aliases: &[
            "preread_timeout",
            "ssl_handshake_timeout",
            "proxy_protocol_timeout",
            "matching_timeout",
        ],
        since: "0.2",
        set: |stream, given| stream.handshake_timeout_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "idle_timeout",
        contexts: STREAM,
        kind: DURATION,
        default: Some("\"10m\""),
        unit: Some("milliseconds"),
        summary: "Maximum time without a byte in either direction. Over UDP, the default is one \
                  minute: the end of a session, as UDP has none.",
        aliases: &[
            "timeout",
            "proxy_timeout",
            "proxy_read_timeout",
            "timeout_client",
        ],
        since: "0.2",
        set: |stream, given| stream.idle_timeout_ms = Some(given.number()),
        ..Row::BASE
    },
    Row {
        name: "half_close",
        contexts: STREAM,
        kind: Kind::Boolean,
        default: Some("true"),
        example: Some("false"),
        summary: "Is the other direction open when one has ended? If not, a client that has said \
                  all may miss the end of the answer.",
        aliases: &["proxy_half_close"],
        since: "0.2",
        set: |stream, given| stream.half_closes = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "upload_rate",
        contexts: STREAM,
        kind: Kind::Word(&BARE_BANDWIDTH),
        example: Some("\"1MB/s\""),
        summary: "Bandwidth of each connection from its client. Not over UDP. Default: no limit.",
        aliases: &["proxy_upload_rate"],
        since: "0.2",
        set: |stream, given| {
            stream.rates_at = Some(given.at.clone());
            stream.upload_rate = given.number();
        },
        ..Row::BASE
    },
    Row {
        name: "download_rate",
        contexts: STREAM,
        kind: Kind::Word(&BARE_BANDWIDTH),
        example: Some("\"1MB/s\""),
        summary: "Bandwidth of each connection to its client. Not over UDP. Default: no limit.",
        aliases: &["proxy_download_rate", "bandwidth", "rate"],
        since: "0.2",
        set: |stream, given| {
            stream.rates_at = Some(given.at.clone());
            stream.download_rate = given.number();
        },
        ..Row::BASE
    },
    Row {
        name: "connections",
        contexts: STREAM,
        kind: COUNT,
        default: Some("0"),
        unit: Some("connections"),
        summary: "Maximum number of connections (and clients over UDP) of the stream; further ones \
                  are closed. 0: no limit but those of [limits].",
        aliases: &["max_connections", "maxconn"],
        since: "0.2",
        set: |stream, given| stream.sessions_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "connections_per_client",
        contexts: STREAM,
        kind: COUNT,
        default: Some("0"),
        unit: Some("connections"),
        summary: "Maximum number of connections of one client address; of IPv6 addresses, a /64 \
                  counts as one. 0: no limit but those of [abuse].",
        aliases: &[
            "limit_conn",
            "connections_per_address",
            "per_client",
            "inflightconn",
        ],
        since: "0.2",
        set: |stream, given| stream.sessions_per_client_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "requests",
        contexts: STREAM,
        kind: DATAGRAMS,
        example: Some("1"),
        unit: Some("datagrams"),
        summary: "Over UDP: datagrams of a client after which the next one begins a new session, \
                  perhaps with another server. Default: any number.",
        aliases: &["proxy_requests"],
        since: "0.2",
        set: |stream, given| {
            let at = given.at.clone();
            stream.requests = Some((given.number(), at));
        },
        ..Row::BASE
    },
    Row {
        name: "responses",
        contexts: STREAM,
        kind: DATAGRAMS,
        example: Some("1"),
        unit: Some("datagrams"),
        summary: "Over UDP: datagrams of the server after which the session is over; 1 for DNS. \
                  Default: any number.",
        aliases: &["proxy_responses"],
        since: "0.2",
        set: |stream, given| {
            let at = given.at.clone();
            stream.responses = Some((given.number(), at));
        },
        ..Row::BASE
    },
    Row {
        name: "access_log",
        contexts: STREAM,
        kind: STREAM_LOGS,
        default: Some("\"off\""),
        example: Some("{ path = \"stream.log\", format = \"json\" }"),
        summary: "Log of sessions that have ended: a file, `stdout`, `off`, a program after `|`, a \
                  table with a format, or a list of these.",
        aliases: &["log"],
        since: "0.2",
        set: |stream, given| stream.logs = stream_log::logs(given),
        ..Row::BASE
    },
    Row {
        name: "tls",
        contexts: STREAM,
        kind: Kind::Section(STREAM_TLS),
        summary: "TLS ends here.",
        aliases: &["ssl"],
        since: "0.2",
        ..Row::BASE
    },
    Row {
        name: "names",
        contexts: STREAM_TLS,
        kind: Kind::ListOf(&Kind::Word(&SERVER_NAME)),
        example: Some("[\"db.example.org\"]"),
        summary: "Names that `automatic` orders certificates for. Clients may ask for others, and \
                  get the certificate of the first.",
        aliases: &["domains", "server_names", "hosts"],
        since: "0.2",
        set: |stream, given| {
            let at = given.at.clone();
            stream.certificate_names = Some((given.parsed_list(), at));
        },
        ..Row::BASE
    },
    Row {
        name: "alpn",
        contexts: STREAM_TLS,
        kind: Kind::ListOf(&Kind::Word(&PROTOCOL)),
        default: Some("[]"),
        example: Some("[\"postgresql\"]"),
        summary: "Protocols that are offered in the handshake (RFC 7301), in order of preference; \
                  a client that offers others alone is refused. Empty: none is negotiated.",
        aliases: &["ssl_alpn", "protocols"],
        since: "0.2",
        set: |stream, given| stream.alpn = given.parsed_list(),
        ..Row::BASE
    },
    Row {
        name: "access",
        contexts: STREAM,
        kind: Kind::Section(STREAM_ACCESS),
        summary: "Access control by client address.",
        since: "0.2",
        ..Row::BASE
    },
    Row {
        name: "route",
        contexts: STREAM,
        kind: Kind::Sections(STREAM_ROUTE),
        summary: "Ways of sessions, by server name, protocol, and client.",
        aliases: &["routes", "rule", "use_backend", "router"],
        since: "0.2",
        ..Row::BASE
    },
];

pub const WAY_ROWS: &[Row<Way>] = &[
    Row {
        name: "proxy",
        contexts: STREAM.or(STREAM_ROUTE),
        kind: TARGET,
        example: Some("\"10.0.0.1:6379\""),
        summary: "The server that sessions are passed on to, a list of servers, or the name of an \
                  [[upstream]] whose servers are `tcp://`, `tls://`, or `udp://`: `10.0.0.1:6379`, \
                  `unix:/run/app.sock`, `tls://db.example:5432` (TLS to the server, whose \
                  certificate is verified), `udp://10.0.0.1:53`. Of a stream with routes: the way of \
                  the rest; without it, they are refused.",
        aliases: &[
            "upstream",
            "upstreams",
            "proxy_pass",
            "servers",
            "server",
            "backend",
            "default_backend",
            "to",
        ],
        since: "0.2",
        set: |way, given| way.target = Some(target(given)),
        ..Row::BASE
    },
    Row {
        name: "send_proxy_protocol",
        contexts: STREAM.or(STREAM_ROUTE),
        kind: Kind::Choice(&["off", "v1", "v2"]),
        example: Some("\"v2\""),
        summary: "Begin each connection to a server with a PROXY protocol header that names the \
                  client, in version 1 (text) or 2 (binary); before TLS, if the server has it. In a \
                  route, the stream's value is the default, and the `send_proxy_protocol` of an \
                  [[upstream]] for both. Over UDP: version 2, in the first datagram of a session; \
                  with `requests = 1`, in each. Default: `off`.",
        aliases: &[
            "proxy_protocol",
            "send_proxy",
            "send-proxy",
            "send-proxy-v2",
        ],
        since: "0.2",
        set: |way, given| {
            let at = given.at.clone();
            let version = match given.text().as_str() {
                "v1" => Some(PrefaceVersion::V1),
                "v2" => Some(PrefaceVersion::V2),
                _ => None,
            };
            way.preface = Some((version, at));
        },
        ..Row::BASE
    },
];

pub const ROUTE_ROWS: &[Row<RouteDraft>] = &[
    Row {
        name: "sni",
        contexts: STREAM_ROUTE,
        kind: Kind::OneOf(&[
            Kind::Word(&SERVER_NAME),
            Kind::ListOf(&Kind::Word(&SERVER_NAME)),
        ]),
        example: Some("[\"db.example.org\", \"*.example.net\"]"),
        summary: "Server names of the TLS handshake, one of which has to match; case and a dot at \
                  the end make no difference. `*.example.net`: all names below it. Without [stream.tls], the \
                  ClientHello is looked at and passed on.",
        aliases: &[
            "server_name",
            "server_names",
            "hostsni",
            "req_ssl_sni",
            "host",
            "names",
        ],
        since: "0.2",
        set: |route, given| {
            route.hello_at = Some(given.at.clone());
            let each = given.one_or_many();
            route.names = each.iter().filter_map(Spanned::parsed_as).collect();
        },
        ..Row::BASE
    },
    Row {
        name: "alpn",
        contexts: STREAM_ROUTE,
        kind: Kind::OneOf(&[Kind::Word(&PROTOCOL), Kind::ListOf(&Kind::Word(&PROTOCOL))]),
        example: Some("[\"h2\", \"http/1.1\"]"),
        summary: "Protocols of the TLS handshake (RFC 7301): the client has to offer one of them, \
                  or, where TLS ends here, one has to be negotiated.",
        aliases: &["protocols", "req_ssl_alpn"],
        since: "0.2",
        set: |route, given| {
            route.hello_at.get_or_insert(given.at.clone());
            let each = given.one_or_many();
            route.protocols = each.iter().filter_map(Spanned::parsed_as).collect();
        },
        ..Row::BASE
    },
    Row {
        name: "client",
        contexts: STREAM_ROUTE,
        kind: NETWORKS,
        example: Some("[\"10.0.0.0/8\"]"),
        summary: "Networks, one of which the client's address has to be in.",
        aliases: &["clients", "client_ip", "remote_ip", "src"],
        since: "0.2",
        set: |route, given| route.clients = given.parsed_list(),
        ..Row::BASE
    },
];

pub const ACCESS_ROWS: &[Row<StreamDraft>] = &[
    networks(
        "deny",
        STREAM_ACCESS,
        "Client addresses that are refused. Behind a PROXY header: the address that it names.",
        |stream, given| stream.access.deny.networks = given.parsed_list(),
    ),
    files(
        "deny_files",
        STREAM_ACCESS,
        "Files with addresses to deny, as in [abuse].",
        |stream, given| stream.access.deny.lists = lists(given),
    ),
    networks(
        "allow",
        STREAM_ACCESS,
        "Client addresses that are served; `allow` overrides `deny`. If nothing is denied, no other \
         address is served.",
        |stream, given| stream.access.allow.networks = given.parsed_list(),
    ),
    files(
        "allow_files",
        STREAM_ACCESS,
        "Files with addresses to allow, in the format of `deny_files`.",
        |stream, given| stream.access.allow.lists = lists(given),
    ),
    countries("deny_countries", STREAM_ACCESS, DENIED, |stream, given| {
        stream.access.deny.countries = given.texts()
    }),
    autonomous_systems("deny_asns", &[], STREAM_ACCESS, |stream, given| {
        stream.access.deny.autonomous_systems = numbers(given)
    }),
    countries(
        "allow_countries",
        STREAM_ACCESS,
        ALLOWED,
        |stream, given| stream.access.allow.countries = given.texts(),
    ),
    autonomous_systems("allow_asns", &[], STREAM_ACCESS, |stream, given| {
        stream.access.allow.autonomous_systems = numbers(given)
    }),
];

impl StreamDraft {
    fn new(at: Location) -> StreamDraft {
        StreamDraft {
            at,
            name: None,
            listen: Vec::new(),
            way: Way::default(),
            routes: Vec::new(),
            proxy_protocol_from: None,
            connect_timeout: None,
            handshake_timeout_ms: 30_000,
            idle_timeout_ms: None,
            half_closes: true,
            upload_rate: 0,
            download_rate: 0,
            rates_at: None,
            sessions_max: 0,
            sessions_per_client_max: 0,
            requests: None,
            responses: None,
            logs: Vec::new(),
            alpn: Vec::new(),
            access: AccessRules::default(),
            tls: SiteTlsDraft::default(),
            site_tls: None,
            tls_at: None,
            has_certificate: false,
            certificate_names: None,
        }
    }
}

/// Reads one `[[stream]]`.
pub fn read(reader: &mut Reader<'_>, table: &Table<'_>, at: Location) -> StreamDraft {
    let mut stream = StreamDraft::new(at.clone());
    reader.fill(table, STREAM, &at, &mut stream);
    for (route, at) in reader.sections(table, "route", STREAM_ROUTE) {
        let read = read_route(reader, route, at);
        stream.routes.push(read);
    }
    if let Some(tls) = table_in(table, "tls") {
        let tls_at = table.get("tls").map(|node| reader.at(node.span()));
        stream.tls_at = tls_at;
        stream.site_tls = Some(tls::finish(reader, &stream.tls, Some(tls)));
        let is_given = |reader: &Reader<'_>, key| reader.is_mentioned(tls, key, STREAM_TLS);
        stream.has_certificate = stream.tls.material().is_some()
            || is_given(reader, "certificate")
            || is_given(reader, "automatic");
        let named = stream.certificate_names.take();
        stream.certificate_names = named.or_else(|| {
            // Broken ones have been reported, and are not missing.
            is_given(reader, "names").then(|| (Vec::new(), at.clone()))
        });
        check_names(reader, &stream);
    }
    let has_way = reader.is_mentioned(table, "proxy", STREAM) || table.contains_key("route");
    if !has_way {
        let help = "add proxy = \"10.0.0.1:6379\", or [[stream.route]]";
        reader.error(&at, "this stream leads nowhere", Some(help.into()));
    }
    stream
}

/// Reports names without automatic certificates, and the other way round.
fn check_names(reader: &mut Reader<'_>, stream: &StreamDraft) {
    let automatic = stream.tls.automatic.as_ref();
    match (&stream.certificate_names, automatic) {
        (None, Some((Automatic::On, at))) => {
            let help = "add names = [\"db.example.org\"] to [stream.tls]";
            reader.error(at, "`automatic` without `names`", Some(help.into()));
        }
        (Some((names, at)), None | Some((Automatic::Off, _))) if !names.is_empty() => {
            let help =
                "add automatic = true, or remove it: certificates of files have their own names";
            reader.error(at, "`names` without `automatic`", Some(help.into()));
        }
        _ => {}
    }
}

fn read_route(reader: &mut Reader<'_>, table: &Table<'_>, at: Location) -> RouteDraft {
    let mut route = RouteDraft {
        at: at.clone(),
        names: Vec::new(),
        protocols: Vec::new(),
        hello_at: None,
        clients: Vec::new(),
        way: Way::default(),
    };
    reader.fill(table, STREAM_ROUTE, &at, &mut route);
    if !reader.is_mentioned(table, "proxy", STREAM_ROUTE) {
        let help = "add proxy = \"10.0.0.1:443\"";
        reader.error(&at, "this route leads nowhere", Some(help.into()));
    }
    let conditions = ["sni", "alpn", "client"];
    if !conditions
        .iter()
        .any(|key| reader.is_mentioned(table, key, STREAM_ROUTE))
    {
        let help = "add sni = [\"db.example.org\"], or write its `proxy` in [[stream]], for all that \
                    no route takes";
        reader.error(&at, "this route has no condition", Some(help.into()));
    }
    for key in conditions {
        let list = table.get(key).and_then(|node| node.get_ref().as_array());
        if let (Some([]), Some(node)) = (list.map(|list| &list[..]), table.get(key)) {
            let message = format!("`{key}` is empty, and no session could meet it");
            reader.error(&reader.at(node.span()), message, Some("remove it".into()));
        }
    }
    route
}
