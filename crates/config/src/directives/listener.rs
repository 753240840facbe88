//! `[[listener]]`.

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
        summary: "Where to listen: `127.0.0.1:8080`, `[::]:80` (IPv6 alone), `:80` (IPv4 and IPv6), `unix:/path`.",
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
        summary: "Networks whose connections begin with a PROXY preface (version 1 or 2) that names the client. Others must not send one.",
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
        summary: "Connections that the kernel holds until they are accepted; net.core.somaxconn bounds it.",
        apache: Some("ListenBacklog"),
        set: |listener, given| listener.backlog = Some(given.number() as u32),
        ..Row::BASE
    },
    Row {
        name: "mode",
        contexts: LISTENER,
        kind: Kind::Word(&MODE),
        example: Some("\"0660\""),
        summary: "Permissions of a Unix socket, in octal. Without it, as the process' umask has it.",
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
        summary: "Connections are encrypted (HTTPS). The certificates stand in the sites, under [site.tls].",
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
        summary: "Refuse handshakes that name no host, or one that no site here has? Otherwise they see the certificate of the first site.",
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
        summary: "HTTP/2 too: over TLS as clients choose (ALPN), without TLS for those that begin with it or upgrade to it (h2c).",
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
        summary: "WebSockets, and whatever else is asked for by `Upgrade` in HTTP/1.1, over HTTP/2 too (RFC 8441)?",
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
        summary: "HTTP/3 too; without a word where `tls` is on: over UDP (QUIC) on the same port, which a firewall has to let through.",
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
        summary: "How senders of HTTP/3 find out what a path carries: by loss (cubic, newreno), or by measured bandwidth and delay (bbr).",
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
        summary: "May clients that come back ask before the handshake is over (0-RTT)? Only requests that change nothing (GET, HEAD) are \
                  answered so early, and each session may be used once.",
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
        summary: "Tell clients of HTTP/1 and HTTP/2 that HTTP/3 is here (`Alt-Svc`, for a day)? A site's own `Alt-Svc` comes first.",
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
        summary: "A directory in which new HTTP/3 connections are recorded (qlog 0.3, a file each): to find out why they are slow. At most 5 MB \
                  each, and no more while 100 files are there. The server's user has to be able to write into it.",
        aliases: &["qlog", "quic_qlog"],
        set: |listener, given| {
            if let Value::Path(path) = given.value {
                listener.terms.qlog = Some(path);
            }
        },
        ..Row::BASE
    },
];

/// Reads one `[[listener]]`: a listener per address, with where the address stands.
pub fn read(
    reader: &mut Reader<'_>,
    table: &Table<'_>,
    header: &Location,
) -> Vec<(Listener, Location)> {
    let mut draft = ListenerDraft::default();
    reader.fill(table, LISTENER, header, &mut draft);
    if !["address", "addresses"]
        .iter()
        .any(|key| reader.is_meant(table, key, LISTENER))
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
            Some("put all into `addresses`".into()),
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
            Some("take it away, or listen on \"unix:/path\"".into()),
        );
    }
    if let Some((true, at)) = draft.strict_sni.as_ref().filter(|_| !draft.tls) {
        reader.error(
            at,
            "`strict_sni` without `tls`",
            Some("add tls = true, or take it away".into()),
        );
    }
    if let Some((true, at)) = draft.http3.as_ref().filter(|_| !draft.tls) {
        reader.error(
            at,
            "`http3` without `tls`",
            Some("add tls = true, or take it away: HTTP/3 is always encrypted".into()),
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
