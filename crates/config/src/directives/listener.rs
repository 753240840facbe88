//! `[[listener]]`: addresses, TLS, and the HTTP versions of a listener.
//!
//! Called by: `load`, for each `[[listener]]`.
//! Caveat: one table may have several addresses, and each becomes a listener.

use crate::{
    context::LISTENER,
    kind::{Kind, Word},
    model::{Address, Congestion, Http3, Listener, ListenerTls},
    reader::{Reader, Table},
    row::{Draft, Row, Rows},
    source::Location,
    value::{Spanned, Value, ValueError},
};
use saker_net::Network;

pub static ADDRESS: Word = Word {
    expects: "an address, such as \"127.0.0.1:8080\", \"[::1]:8080\", \":80\" (all IPv4 and IPv6 addresses) or \"unix:/run/saker.sock\"",
    pattern: "^(unix:/.+|(\\[[0-9a-fA-F:.]+\\]|[0-9.]+)?:[0-9]+)$",
    read: |text| {
        Address::parse_all(text)
            .map(Value::parsed)
            .map_err(ValueError::plain)
    },
};

pub static NETWORK: Word = Word {
    expects: "a network, such as \"10.0.0.0/8\" or \"2001:db8::/32\", or an address",
    pattern: "^[0-9a-fA-F:.]+(/[0-9]+)?$",
    read: |text| {
        text.parse::<Network>()
            .map(Value::parsed)
            .map_err(|()| ValueError::plain(None))
    },
};

static MODE: Word = Word {
    expects: "permissions in octal, such as \"0660\"",
    pattern: "^0?[0-7]{3}$",
    read: read_mode,
};

#[derive(Debug, Default)]
pub struct ListenerDraft {
    addresses: Vec<(Address, Location)>,
    both_forms: Option<Location>,
    proxy_protocol_from: Vec<Network>,
    backlog: Option<u32>,
    mode: Option<(u32, Location)>,
    tls: bool,
    strict_sni: Option<(bool, Location)>,
    http2: Option<bool>,
    http2_websockets: Option<bool>,
    http3: Option<(bool, Location)>,
    terms: Http3,
}

impl Draft for ListenerDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }
}

pub const ROWS: &[Row<ListenerDraft>] = &[
    Row {
        name: "address",
        contexts: LISTENER,
        kind: Kind::Word(&ADDRESS),
        example: Some("\":80\""),
        summary: "Address to listen on: `127.0.0.1:8080`, `[::]:80` (IPv6 only), `:80` (IPv4 and \
                  IPv6), `unix:/path`.",
        apache: Some("Listen"),
        aliases: &["port", "bind"],
        set: |listener, given| listener.add(given),
        ..Row::BASE
    },
    Row {
        name: "addresses",
        contexts: LISTENER,
        kind: Kind::ListOf(&Kind::Word(&ADDRESS)),
        example: Some("[\"192.0.2.1:80\", \"[2001:db8::1]:80\"]"),
        summary: "Several addresses with the same options.",
        aliases: &["binds"],
        set: |listener, given| given.list().into_iter().for_each(|one| listener.add(one)),
        ..Row::BASE
    },
    Row {
        name: "proxy_protocol_from",
        contexts: LISTENER,
        kind: Kind::ListOf(&Kind::Word(&NETWORK)),
        default: Some("[]"),
        example: Some("[\"10.0.0.0/8\"]"),
        summary: "Networks whose connections start with a PROXY protocol header (version 1 or 2) \
                  that names the client. Others must not send one.",
        apache: Some("RemoteIPProxyProtocol"),
        aliases: &["proxy_protocol", "set_real_ip_from"],
        set: |listener, given| listener.proxy_protocol_from = given.parsed_list(),
        ..Row::BASE
    },
    Row {
        name: "backlog",
        contexts: LISTENER,
        kind: Kind::Integer {
            min: 1,
            max: 65_535,
        },
        default: Some("4096"),
        summary: "Length of the kernel's queue of unaccepted connections, limited by \
                  net.core.somaxconn.",
        apache: Some("ListenBacklog"),
        set: |listener, given| listener.backlog = Some(given.number() as u32),
        ..Row::BASE
    },
    Row {
        name: "mode",
        contexts: LISTENER,
        kind: Kind::Word(&MODE),
        example: Some("\"0660\""),
        summary: "Permissions of a Unix socket, in octal. Default: by the umask of the process.",
        set: |listener, given| {
            let at = given.at.clone();
            listener.mode = Some((given.number() as u32, at));
        },
        ..Row::BASE
    },
    Row {
        name: "tls",
        contexts: LISTENER,
        kind: Kind::Boolean,
        default: Some("false"),
        example: Some("true"),
        summary: "Connections use TLS (HTTPS). Certificates are configured per site, in \
                  [site.tls].",
        apache: Some("SSLEngine"),
        aliases: &["ssl", "https", "ssl.engine"],
        set: |listener, given| listener.tls = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "strict_sni",
        contexts: LISTENER,
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "Refuse TLS handshakes without a server name, or with one that no site on this \
                  listener has? Otherwise such clients get the certificate of the first site.",
        apache: Some("SSLStrictSNIVHostCheck, SSLVHostSNIPolicy"),
        aliases: &["ssl_reject_handshake", "sni_strict"],
        set: |listener, given| {
            let at = given.at.clone();
            listener.strict_sni = Some((given.boolean(), at));
        },
        ..Row::BASE
    },
    Row {
        name: "http2",
        contexts: LISTENER,
        kind: Kind::Boolean,
        default: Some("true"),
        example: Some("false"),
        summary: "Enable HTTP/2: over TLS by ALPN, without TLS for clients that start with it \
                  (h2c with prior knowledge). `Upgrade: h2c` is not accepted.",
        apache: Some("Protocols, H2Direct, H2Upgrade"),
        aliases: &["h2", "h2c", "protocols"],
        set: |listener, given| listener.http2 = Some(given.boolean()),
        ..Row::BASE
    },
    Row {
        name: "http2_websockets",
        contexts: LISTENER,
        kind: Kind::Boolean,
        default: Some("true"),
        example: Some("false"),
        summary: "Enable WebSockets, and other protocols that HTTP/1.1 uses `Upgrade` for, over \
                  HTTP/2 (RFC 8441)?",
        apache: Some("H2WebSockets"),
        aliases: &["h2_websockets", "extended_connect"],
        set: |listener, given| listener.http2_websockets = Some(given.boolean()),
        ..Row::BASE
    },
    Row {
        name: "http3",
        contexts: LISTENER,
        kind: Kind::Boolean,
        example: Some("false"),
        summary: "Enable HTTP/3 (default with `tls`): over UDP (QUIC) on the same port, which \
                  firewalls must let through.",
        apache: Some("Protocols"),
        aliases: &["h3", "quic"],
        set: |listener, given| {
            let at = given.at.clone();
            listener.http3 = Some((given.boolean(), at));
        },
        ..Row::BASE
    },
    Row {
        name: "http3_congestion",
        contexts: LISTENER,
        kind: Kind::Choice(&["cubic", "bbr", "newreno"]),
        default: Some("\"cubic\""),
        example: Some("\"bbr\""),
        summary: "Congestion control of HTTP/3: based on loss (cubic, newreno), or on measured \
                  bandwidth and delay (bbr).",
        aliases: &["quic_congestion", "congestion_control"],
        set: |listener, given| {
            listener.terms.congestion = match given.text().as_str() {
                "bbr" => Congestion::Bbr,
                "newreno" => Congestion::NewReno,
                _ => Congestion::Cubic,
            };
        },
        ..Row::BASE
    },
    Row {
        name: "http3_early_data",
        contexts: LISTENER,
        kind: Kind::Boolean,
        default: Some("true"),
        example: Some("false"),
        summary: "Accept 0-RTT data from returning clients? Only safe requests (GET, HEAD) are \
                  answered before the handshake completes, and each session can be resumed this \
                  way once.",
        aliases: &["early_data", "ssl_early_data", "0rtt", "zero_rtt"],
        set: |listener, given| listener.terms.early_data = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "http3_advertise",
        contexts: LISTENER,
        kind: Kind::Boolean,
        default: Some("true"),
        example: Some("false"),
        summary: "Advertise HTTP/3 to HTTP/1 and HTTP/2 clients (`Alt-Svc`, valid for one day)? An \
                  `Alt-Svc` field of the site takes precedence.",
        aliases: &["alt_svc"],
        set: |listener, given| {
            listener.terms.advertised_s = given.boolean().then_some(Http3::ADVERTISED_S)
        },
        ..Row::BASE
    },
    Row {
        name: "http3_qlog",
        contexts: LISTENER,
        kind: Kind::Path,
        example: Some("\"/var/log/saker/qlog\""),
        summary: "Directory for qlog traces (version 0.3, one file per connection) of new HTTP/3 \
                  connections, to analyze performance problems. At most 5 MB each; recording \
                  pauses at 100 files. The server's user needs write permission.",
        aliases: &["qlog", "quic_qlog"],
        set: |listener, given| {
            if let Value::Path(path) = given.value {
                listener.terms.qlog = Some(path);
            }
        },
        ..Row::BASE
    },
];

/// Reads one `[[listener]]`. Returns a listener per address, with the address's location.
pub fn read(
    reader: &mut Reader<'_>,
    table: &Table<'_>,
    header: &Location,
) -> Vec<(Listener, Location)> {
    let mut draft = ListenerDraft::default();
    reader.fill(table, LISTENER, header, &mut draft);
    if !["address", "addresses"]
        .iter()
        .any(|key| reader.is_mentioned(table, key, LISTENER))
    {
        reader.error(
            header,
            "this listener has no address",
            Some("add address = \":80\"".into()),
        );
    }
    if let Some(at) = draft
        .both_forms
        .take()
        .filter(|_| table.contains_key("address") && table.contains_key("addresses"))
    {
        reader.error(
            &at,
            "`address` and `addresses` exclude each other",
            Some("list all in `addresses`".into()),
        );
    }
    let is_unix = |(address, _): &(Address, Location)| matches!(address, Address::Unix(_));
    if let Some((_, at)) = draft
        .mode
        .as_ref()
        .filter(|_| !draft.addresses.is_empty() && !draft.addresses.iter().any(is_unix))
    {
        reader.error(
            at,
            "`mode` is for Unix sockets",
            Some("remove it, or listen on \"unix:/path\"".into()),
        );
    }
    if let Some((true, at)) = draft.strict_sni.as_ref().filter(|_| !draft.tls) {
        reader.error(
            at,
            "`strict_sni` without `tls`",
            Some("add tls = true, or remove it".into()),
        );
    }
    if let Some((true, at)) = draft.http3.as_ref().filter(|_| !draft.tls) {
        reader.error(
            at,
            "`http3` without `tls`",
            Some("add tls = true, or remove it: HTTP/3 is always encrypted".into()),
        );
    }
    draft.listeners()
}

impl ListenerDraft {
    fn add(&mut self, given: Spanned) {
        let at = given.at.clone();
        self.addresses.extend(
            given
                .parsed::<Vec<Address>>()
                .into_iter()
                .map(|address| (address, at.clone())),
        );
        self.both_forms = Some(at);
    }

    fn listeners(self) -> Vec<(Listener, Location)> {
        let ListenerDraft {
            addresses,
            proxy_protocol_from,
            backlog,
            mode,
            tls,
            strict_sni,
            http2,
            http2_websockets,
            http3,
            terms,
            ..
        } = self;
        let has_http3 = http3.is_none_or(|(wanted, _)| wanted);
        let strict_sni = strict_sni.is_some_and(|(strict, _)| strict);
        let listener = |(address, at): (Address, Location)| {
            let mut listener = Listener::new(address, at.origin());
            listener.proxy_protocol_from = proxy_protocol_from.clone();
            listener.backlog = backlog.unwrap_or(listener.backlog);
            listener.tls = tls.then_some(ListenerTls { strict_sni });
            listener.http2 = http2.unwrap_or(listener.http2);
            listener.http2_websockets = http2_websockets.unwrap_or(listener.http2_websockets);
            listener.mode = mode
                .as_ref()
                .filter(|_| matches!(listener.address, Address::Unix(_)))
                .map(|(mode, _)| *mode);
            listener.http3 = listener
                .http3_where_possible(terms.clone())
                .filter(|_| has_http3);
            (listener, at)
        };
        addresses.into_iter().map(listener).collect()
    }
}

fn read_mode(text: &str) -> Result<Value, ValueError> {
    let digits = text
        .strip_prefix('0')
        .filter(|rest| rest.len() == 3)
        .unwrap_or(text);
    match u32::from_str_radix(digits, 8) {
        Ok(mode) if digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(Value::Number(mode.into()))
        }
        _ => Err(ValueError::plain(None)),
    }
}
